//! Westwood+: reduces the window to the measured rate times the minimum RTT (Mascolo et al., 2001; Grieco and
//! Mascolo, CCR 34(2), 2004; details as in Linux).
//!
//! ```text
//! each ACK in congestion avoidance   w += 1 / w, as Reno
//! loss                               w = rate * minimum RTT, at the end of recovery
//! ```
//!
//! The rate is what was acknowledged in a round trip of at least 50 ms, after two low-pass filters of 7/8.

use super::window::{MIN_SSTHRESH, Window, delegate};
use super::{Ack, Congestion, Controller, RecoveryState, Start, ticks};
use headway_units::{Duration, Instant};

/// Shortest period over which a rate is measured, ticks (Linux `TCP_WESTWOOD_RTT_MIN`: 50 ms).
const MIN_PERIOD: u64 = 50;
/// The RTT before the first sample, ticks (Linux `TCP_WESTWOOD_INIT_RTT`: 20 s).
const INITIAL_RTT: u64 = 20_000;

/// The controller of the papers; windows are whole segments, times ticks and rates whole bytes
/// per tick, as in Linux.
#[derive(Clone, Debug, Default)]
pub struct Westwood {
    window: Window,
    /// Payload bytes of a segment.
    mss: u64,
    /// The rate after one filter and after two, bytes per tick.
    rates: (u64, u64),
    /// Bytes acknowledged since the period began, and its first tick. The first period begins with the first
    /// ACK: what was idle before is no measurement.
    bytes: u64,
    begin: Option<u64>,
    una: u64,
    /// Bytes that duplicate ACKs have counted, and that a cumulative ACK will cover.
    accounted: u64,
    /// The last RTT and the minimum, ticks.
    rtt: u64,
    min_rtt: u64,
    /// Whether the next ACK begins a new minimum.
    forget_min: bool,
    /// Whether a reduction has begun, and its window is to be set at its end.
    reducing: bool,
}

impl Westwood {
    /// A controller that starts with the initial window, at least one segment.
    pub(crate) fn new(start: &Start) -> Westwood {
        Westwood {
            window: Window::new(start.window),
            mss: start.mss.max(1).into(),
            rtt: INITIAL_RTT,
            min_rtt: INITIAL_RTT,
            forget_min: true,
            ..Westwood::default()
        }
    }

    /// Filters the rate if the period is over.
    fn end_period(&mut self, now: u64) {
        let length = now.saturating_sub(*self.begin.get_or_insert(now));
        if length <= self.rtt.max(MIN_PERIOD) {
            return;
        }
        let sample = self.bytes / length;
        let filter = |old: u64, new: u64| (7 * old + new) >> 3;
        self.rates = match self.rates {
            (0, 0) => (sample, sample),
            (once, twice) => {
                let once = filter(once, sample);
                (once, filter(twice, once))
            }
        };
        (self.bytes, self.begin) = (0, Some(now));
    }

    /// The bytes that an ACK newly acknowledges. A duplicate ACK stands for a segment, which the cumulative
    /// ACK after it does not count again.
    fn newly_acknowledged(&mut self, una: u64) -> u64 {
        let bytes = una.saturating_sub(self.una) * self.mss;
        self.una = self.una.max(una);
        if bytes == 0 {
            self.accounted += self.mss;
            return self.mss;
        }
        if bytes <= self.mss {
            return bytes;
        }
        if self.accounted >= bytes {
            self.accounted -= bytes;
            return self.mss;
        }
        bytes - std::mem::take(&mut self.accounted)
    }

    /// The window at which the measured rate fills the path without a queue, segments.
    fn target(&self) -> f64 {
        ((self.rates.1 * self.min_rtt / self.mss) as f64).max(MIN_SSTHRESH)
    }

    /// A reduction has ended.
    fn end_reduction(&mut self) {
        self.reducing = false;
        self.window.size = self.target();
        self.window.ssthresh = self.window.size;
    }
}

impl Controller for Westwood {
    delegate!(window: on_undo, on_idle, metrics);

    fn on_ack(&mut self, ack: &Ack) {
        if let Some(rtt) = ack.rtt.filter(|rtt| *rtt > Duration::ZERO) {
            self.rtt = ticks::rounded_up(rtt);
        }
        self.end_period(ticks::tick(ack.now));
        self.bytes += self.newly_acknowledged(ack.una);
        let forget = std::mem::take(&mut self.forget_min);
        self.min_rtt = if forget { self.rtt } else { self.min_rtt.min(self.rtt) };
        if self.reducing && !matches!(ack.state, RecoveryState::Reducing | RecoveryState::Recovery) {
            self.end_reduction();
        }
        self.window.grow_additively(ack);
    }

    fn on_congestion(&mut self, _now: Instant, _in_flight: u32, _cause: Congestion) {
        if self.reducing {
            self.end_reduction();
        }
        self.window.reduce(self.window.half());
        self.reducing = true;
    }

    fn on_timeout(&mut self, _now: Instant, _in_flight: u32, already_reduced: bool) {
        self.window.restart(self.window.half(), already_reduced);
        if !already_reduced {
            self.window.ssthresh = self.target();
            self.forget_min = true;
        }
        self.reducing = false;
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{ack, start};
    use super::*;

    const RTT: Duration = Duration::from_ms(100);

    /// A controller that has acknowledged a segment per millisecond for this time, ms, with an RTT of 100 ms.
    fn steady(time: u64) -> Westwood {
        let mut westwood = Westwood::new(&start(200));
        westwood.window.ssthresh = 2.0;
        for una in 1..=time {
            westwood.on_ack(&at(una));
        }
        westwood
    }

    /// The ACK of segment `una - 1` at `una` milliseconds.
    fn at(una: u64) -> Ack {
        Ack { now: Instant::from_ns(una * 1_000_000), rtt: Some(RTT), una, in_flight: 100, ..ack(1) }
    }

    #[test]
    fn a_loss_reduces_to_the_bandwidth_delay_product_at_the_end_of_recovery() {
        let mut westwood = steady(3000);
        let window = westwood.window();
        westwood.on_congestion(Instant::ZERO, 200, Congestion::Loss);
        assert_eq!(westwood.window(), (window / 2.0).floor());
        westwood.on_ack(&Ack { state: RecoveryState::Recovery, reducing: true, ..at(3001) });
        assert_eq!(westwood.window(), (window / 2.0).floor());
        westwood.on_ack(&at(3002));
        // One segment per millisecond times 100 ms; the periods are rounded to ticks.
        assert!((98.0..=101.0).contains(&westwood.window()), "{}", westwood.window());
        assert_eq!(westwood.ssthresh(), westwood.window());
    }

    #[test]
    fn the_rate_is_filtered_by_seven_eighths_twice() {
        let mut westwood = steady(3000);
        let before = westwood.rates;
        // Nothing arrives for a period, then its end is seen.
        westwood.bytes = 0;
        westwood.begin = Some(3000);
        westwood.on_ack(&at(3102));
        let after = (before.0 * 7 / 8, (before.1 * 7 + before.0 * 7 / 8) / 8);
        assert!(westwood.rates.0.abs_diff(after.0) <= 1, "{:?}, expected {after:?}", westwood.rates);
        assert!(westwood.rates.1.abs_diff(after.1) <= 1, "{:?}, expected {after:?}", westwood.rates);
    }

    #[test]
    fn periods_last_50_ms_at_least() {
        let mut westwood = Westwood::new(&start(10));
        for una in 1..=52 {
            westwood.on_ack(&Ack { rtt: Some(Duration::from_ms(1)), ..at(una) });
        }
        assert!(westwood.rates.1 > 0 && westwood.begin == Some(52), "{westwood:?}");
    }

    #[test]
    fn duplicate_acknowledgements_count_once() {
        let mut westwood = steady(10);
        assert_eq!(westwood.newly_acknowledged(10), 1448);
        assert_eq!(westwood.newly_acknowledged(10), 1448);
        assert_eq!(westwood.newly_acknowledged(15), 3 * 1448);
        assert_eq!(westwood.newly_acknowledged(17), 2 * 1448);
    }

    #[test]
    fn without_a_rate_two_segments_remain() {
        let mut westwood = Westwood::new(&start(40));
        westwood.on_timeout(Instant::ZERO, 40, false);
        assert_eq!((westwood.window(), westwood.ssthresh()), (1.0, 2.0));
        // The minimum RTT begins anew.
        westwood.on_ack(&Ack { rtt: Some(RTT * 2), ..at(1) });
        assert_eq!(westwood.min_rtt, 200);
    }
}
