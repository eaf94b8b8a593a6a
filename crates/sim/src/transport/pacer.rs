//! Spreads segments over time, one by one or in bursts.

use headway_units::Rate;

/// Ratio of the pacing rate to cwnd per RTT, in slow start and afterwards (Linux's defaults).
const SLOW_START_GAIN: f64 = 2.0;
const GAIN: f64 = 1.2;
/// Segments that a sender of bursts does not pace at the start of a flow (Linux).
const UNPACED: u32 = 10;
/// Input of the pacing rate.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    /// The controller's rate; `None` for cwnd over smoothed RTT, times the gain.
    pub(crate) rate: Option<Rate>,
    /// Whether segments leave in bursts, as from hosts with segmentation offload.
    pub(crate) bursts: bool,
    pub(crate) cwnd: u32,
    /// Smoothed RTT, ns.
    pub(crate) smoothed: u64,
    pub(crate) slow_start: bool,
}

/// The pacing timer: when the next segment may leave.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pacer {
    next: u64,
    /// Fraction of a nanosecond carried over.
    carry: f64,
    /// Time by which later gaps may still be shortened, because the burst left late (ns).
    credit: f64,
    /// Segments sent so far, at most [`UNPACED`].
    count: u32,
}

impl Pacer {
    pub(crate) fn blocked(&self, now: u64) -> bool {
        now < self.next
    }

    pub(crate) fn next(&self) -> u64 {
        self.next
    }

    /// Lets the next segment leave at `now`: Linux does not pace what it sends when a
    /// retransmission timer expires.
    pub(crate) fn release(&mut self, now: u64) {
        self.next = self.next.min(now);
    }

    /// Records that a segment of `size` wire bytes leaves now, the `first` of a burst or not.
    pub(crate) fn sent(&mut self, now: u64, size: u16, first: bool, pace: &Pace) {
        let gap = match pace.rate {
            Some(rate) => f64::from(size) * 8e9 / rate.bps_f64().max(1.0),
            None => {
                let gain = if pace.slow_start { SLOW_START_GAIN } else { GAIN };
                pace.smoothed as f64 / (f64::from(pace.cwnd) * gain)
            }
        };
        if pace.bursts {
            self.sent_in_burst(now, first, gap);
        } else {
            self.wait(now, gap);
        }
    }

    /// Delays the next departure by `gap` (ns) from now, or from the end of the current delay.
    fn wait(&mut self, now: u64, gap: f64) {
        let exact = gap + if self.next >= now { self.carry } else { 0.0 };
        self.carry = exact.fract();
        self.next = self.next.max(now) + exact as u64;
    }

    /// Delays the next burst by this one's duration at the rate. A burst that left late is credited, but at
    /// most half of each gap.
    fn sent_in_burst(&mut self, now: u64, first: bool, gap: f64) {
        if first {
            self.credit = now.saturating_sub(self.next) as f64;
        }
        if self.count < UNPACED {
            self.count += 1;
        }
        if self.count == UNPACED {
            let made_up = self.credit.min(gap / 2.0);
            self.credit -= made_up;
            self.wait(now, gap - made_up);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FULL: u16 = 1538;

    fn pace(mbps: f64, bursts: bool) -> Pace {
        let rate = Some(Rate::from_mbps(mbps));
        Pace { rate, bursts, cwnd: 10, smoothed: 0, slow_start: false }
    }

    /// When bursts of `size` segments leave, from the first paced one on.
    fn departures(pace: &Pace, size: u32, count: usize) -> Vec<u64> {
        let mut pacer = Pacer::default();
        (0..UNPACED).for_each(|_| pacer.sent(0, FULL, false, pace));
        let mut burst = || {
            let now = pacer.next();
            assert!(pacer.blocked(now - 1) && !pacer.blocked(now));
            (0..size).for_each(|segment| pacer.sent(now, FULL, segment == 0, pace));
            now
        };
        (0..count).map(|_| burst()).collect()
    }

    #[test]
    fn a_timeout_ends_the_wait_after_a_very_long_round_trip() {
        let mut pacer = Pacer::default();
        let hour = 3_600_000_000_000;
        pacer.sent(
            0,
            FULL,
            true,
            &Pace { rate: None, bursts: false, cwnd: 1, smoothed: hour, slow_start: false },
        );
        assert!(pacer.blocked(hour / 2));
        pacer.release(hour / 2);
        assert!(!pacer.blocked(hour / 2));
        pacer.sent(hour / 2, FULL, true, &pace(12.304, false));
        assert_eq!(pacer.next(), hour / 2 + 1_000_000);
    }

    #[test]
    fn a_burst_waits_for_the_time_that_the_one_before_takes() {
        // 1538 bytes at 10 Mb/s take 1.2304 ms.
        for (size, bursts) in [(1, false), (1, true), (7, true)] {
            let times = departures(&pace(10.0, bursts), size, 5);
            assert!(times.windows(2).all(|pair| pair[1] - pair[0] == u64::from(size) * 1_230_400));
        }
    }

    #[test]
    fn what_leaves_late_waits_half_as_long_at_least() {
        let pace = pace(10.0, true);
        let late = |by: u64| {
            let mut pacer = Pacer::default();
            (0..UNPACED).for_each(|_| pacer.sent(0, FULL, true, &pace));
            let now = pacer.next() + by;
            pacer.sent(now, FULL, true, &pace);
            pacer.next() - now
        };
        assert_eq!((late(0), late(200_000), late(5_000_000)), (1_230_400, 1_030_400, 615_200));
    }
}
