//! SUBTCP: grows in proportion to its rate, and spaces segments out below a window of one
//! (Feng et al.; ls-aimd 3).

use super::window::{MIN_SSTHRESH, MIN_WINDOW};
use super::{Ack, Congestion, Controller, Metrics, Needs, Start};
use headway_units::{Duration, Instant};

/// Growth per round trip, as a fraction of the window. The source says only "a percentage"; with 5 % the
/// window needs fourteen round trips to recover from a halving.
const SHARE: f64 = 0.05;

/// TCP with sub-linear growth: a fraction of the window per round trip, at most one segment. Below a window
/// of one segment, single segments leave with gaps.
#[derive(Clone, Debug)]
pub struct Subtcp {
    size: f64,
    ssthresh: f64,
    rtt: Option<Duration>,
}

impl Subtcp {
    /// A controller that starts with the initial window, at least one segment.
    pub(crate) fn new(start: &Start) -> Subtcp {
        Subtcp { size: f64::from(start.window.max(1)), ssthresh: f64::INFINITY, rtt: None }
    }
}

impl Controller for Subtcp {
    fn on_ack(&mut self, ack: &Ack) {
        self.rtt = ack.smoothed;
        if ack.reducing || !ack.window_limited {
            return;
        }
        let acked = f64::from(ack.delivered);
        if self.size < self.ssthresh {
            self.size = (self.size + acked).min(self.ssthresh);
        } else {
            // A segment is a whole round trip of a window below one, and 1/window of one above.
            let share = SHARE * self.size.min(1.0);
            self.size += acked * share.min(1.0 / self.size);
        }
    }

    fn on_congestion(&mut self, _now: Instant, _in_flight: u32, _cause: Congestion) {
        self.size = (self.size / 2.0).max(MIN_WINDOW);
        self.ssthresh = self.size;
    }

    /// At or below a window of one segment, the gap doubles.
    fn on_timeout(&mut self, _now: Instant, _in_flight: u32, already_reduced: bool) {
        let half = (self.size / 2.0).max(MIN_WINDOW);
        if self.size <= 1.0 {
            self.size = half;
            self.ssthresh = half;
        } else {
            self.size = 1.0;
            self.ssthresh = if already_reduced { self.ssthresh } else { half.max(MIN_SSTHRESH) };
        }
    }

    fn on_undo(&mut self, window: f64, ssthresh: f64) {
        self.size = self.size.max(window);
        self.ssthresh = self.ssthresh.max(ssthresh);
    }

    fn gap(&self, _next: u64) -> Option<Duration> {
        let rtt = self.rtt.filter(|_| self.size < 1.0)?;
        Some(rtt.scale(1.0 / self.size))
    }

    fn metrics(&self) -> Metrics {
        Metrics::new(self.size, self.ssthresh)
    }

    /// PRR cannot reach a window below one segment.
    fn needs(&self) -> Needs {
        Needs { prr: false, ..Needs::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{ack, start};
    use super::*;

    #[test]
    fn below_one_segment_marks_double_the_gap_and_successes_shorten_it_by_a_share() {
        let mut subtcp = Subtcp::new(&start(1));
        subtcp.rtt = Some(Duration::from_ms(1));
        assert_eq!(subtcp.gap(0), None);
        for gap in [2, 4, 8] {
            subtcp.on_congestion(Instant::ZERO, 1, Congestion::Mark);
            assert_eq!((subtcp.gap(0), subtcp.flight_limit()), (Some(Duration::from_ms(gap)), 1));
        }
        subtcp.on_ack(&ack(1));
        assert_eq!(subtcp.window(), 0.125 * 1.05);
        subtcp.on_timeout(Instant::ZERO, 1, false);
        assert_eq!(subtcp.window(), 0.125 * 1.05 / 2.0);
    }

    #[test]
    fn growth_is_a_share_of_the_window_and_at_most_a_segment_a_round_trip() {
        let grown = |window: u32| {
            let mut subtcp = Subtcp::new(&start(2 * window));
            subtcp.on_congestion(Instant::ZERO, window, Congestion::Mark);
            subtcp.on_ack(&ack(window));
            subtcp.window() - f64::from(window)
        };
        assert!((grown(10) - 0.5).abs() < 1e-9 && (grown(100) - 1.0).abs() < 1e-9);
    }
}
