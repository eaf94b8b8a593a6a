//! Spreads segments over time.

use headway_core::Rate;

/// Windows per round-trip time that are paced in slow start, and afterwards (Linux's defaults).
const SLOW_START_GAIN: f64 = 2.0;
const GAIN: f64 = 1.2;

/// When the next segment may leave.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pacer {
    next: u64,
    /// Parts of a nanosecond left over.
    carry: f64,
}

impl Pacer {
    #[inline]
    pub(crate) fn blocked(&self, now: u64) -> bool {
        now < self.next
    }

    #[inline]
    pub(crate) fn next(&self) -> u64 {
        self.next
    }

    /// A segment of `size` wire bytes left now. The rate is the controller's, or the window over the round-trip time
    /// `smoothed` (ns) times a gain.
    pub(crate) fn sent(
        &mut self,
        now: u64,
        size: u16,
        rate: Option<Rate>,
        cwnd: u32,
        smoothed: u64,
        slow_start: bool,
    ) {
        let gap = match rate {
            Some(rate) => f64::from(size) * 8e9 / rate.bps_f64().max(1.0),
            None => smoothed as f64 / (f64::from(cwnd) * if slow_start { SLOW_START_GAIN } else { GAIN }),
        };
        let exact = gap + if self.next == now { self.carry } else { 0.0 };
        self.carry = exact.fract();
        self.next = now + exact as u64;
    }
}
