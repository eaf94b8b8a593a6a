//! YeAH: Scalable TCP while the queue is short, Reno and an early reduction where it is not (Baiocchi,
//! Castellani and Vacirca, PFLDnet 2007; details as in Linux).
//!
//! Once per round trip, with the minimum RTT of this round trip and of the flow (base),
//! q = w (1 - base / RTT):
//!
//! ```text
//! q <= 80 and RTT <= 9/8 base    fast mode: w += 0.01 per segment acknowledged
//! otherwise                      slow mode: w += 1 / w
//! q > 80                         w -= q, at most w / 2, but not below what Reno would have
//! loss in fast mode              w -= q, at least w / 8 and at most w / 2
//! loss after 16 slow round trips w = w / 2
//! ```

use super::round_trip::RoundTrip;
use super::scalable::COUNT;
use super::window::{MIN_SSTHRESH, Window, delegate};
use super::{Ack, Congestion, Controller, Start};
use headway_units::{Duration, Instant};

/// Most segments in the queue before an early reduction (paper, Linux).
const MAX_QUEUE: u64 = 80;
/// The part of the base RTT that a queueing delay may have in fast mode, as a divisor (paper, Linux).
const DELAY_PART: u32 = 8;
/// Slow round trips in a row after which others are taken for loss-based (paper, Linux).
const COMPETING: u32 = 16;
/// Fast round trips after which Reno's window is estimated anew (paper, Linux).
const FAST_ROUNDS: u32 = 50;
/// The least part of the window that a loss takes in fast mode, as a divisor.
const LEAST_CUT: u64 = 8;
/// With no more samples than this in a round trip all may be of delayed ACKs (Linux).
const FEW_SAMPLES: u32 = 2;
/// The least window that Reno is thought to have, segments.
const MIN_RENO: u64 = 2;

/// The controller of the paper; windows are whole segments, as in Linux.
#[derive(Clone, Debug, Default)]
pub struct Yeah {
    window: Window,
    round: RoundTrip,
    /// Segments in the queue in the last round trip.
    queued: u64,
    /// Slow round trips in a row; zero in fast mode.
    slow: u32,
    /// Fast round trips since the last loss, up to [`FAST_ROUNDS`].
    fast: u32,
    /// The window that Reno would have, segments.
    reno: u64,
}

impl Yeah {
    /// A controller that starts with the initial window, at least one segment.
    pub(crate) fn new(start: &Start) -> Yeah {
        Yeah { window: Window::new(start.window), round: RoundTrip::new(), reno: MIN_RENO, ..Yeah::default() }
    }

    /// Chooses the mode at the end of a round trip.
    fn end_round_trip(&mut self) {
        let (base, rtt) = (self.round.base, self.round.least);
        let delay = rtt - base;
        let size = self.window.size as u64;
        self.queued = size * u64::from(delay) / u64::from(rtt);
        if self.queued <= MAX_QUEUE && delay <= base / DELAY_PART {
            self.fast += 1;
            if self.fast > FAST_ROUNDS {
                (self.reno, self.fast) = (MIN_RENO, 0);
            }
            self.slow = 0;
            return;
        }
        if self.queued > MAX_QUEUE && size > self.reno {
            let reduced = (size - self.queued.min(size / 2)).max(self.reno);
            self.window.size = reduced as f64;
            self.window.ssthresh = self.window.size;
        }
        self.reno =
            if self.reno <= MIN_RENO { (self.window.size as u64 / 2).max(MIN_RENO) } else { self.reno + 1 };
        self.slow = self.slow.saturating_add(1);
    }

    /// Notes a loss, and returns the window after it.
    fn reduced(&mut self) -> f64 {
        let size = self.window.size as u64;
        let half = (size / 2).max(MIN_RENO);
        let cut = if self.slow < COMPETING { self.queued.min(half).max(size / LEAST_CUT) } else { half };
        self.fast = 0;
        self.reno = (self.reno / 2).max(MIN_RENO);
        (size.saturating_sub(cut) as f64).max(MIN_SSTHRESH)
    }
}

impl Controller for Yeah {
    delegate!(window: on_undo, on_idle, metrics);

    fn on_ack(&mut self, ack: &Ack) {
        self.round.take(ack);
        if !ack.reducing && ack.window_limited {
            let is_slow = self.slow > 0;
            self.window.grow_with(ack, |size| if is_slow { size } else { size.min(COUNT) });
            if self.round.is_over(ack) {
                if self.round.count > FEW_SAMPLES {
                    self.end_round_trip();
                }
                self.round.begin();
            }
        }
        self.round.forget_if_idle(ack);
    }

    fn on_congestion(&mut self, _now: Instant, _in_flight: u32, _cause: Congestion) {
        let reduced = self.reduced();
        self.window.reduce(reduced);
    }

    fn on_timeout(&mut self, _now: Instant, _in_flight: u32, already_reduced: bool) {
        let reduced = if already_reduced { self.window.ssthresh } else { self.reduced() };
        self.window.restart(reduced, already_reduced);
        self.round.on_timeout();
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{ack, mean_window, start};
    use super::*;

    /// A controller in congestion avoidance with this window after a round trip with this RTT,
    /// over a base of 100 ms.
    fn after(window: u32, rtt: f64) -> Yeah {
        let mut yeah = Yeah::new(&start(window));
        yeah.window.ssthresh = 2.0;
        round(&mut yeah, rtt);
        yeah
    }

    fn round(yeah: &mut Yeah, rtt: f64) {
        (yeah.round.base, yeah.round.least, yeah.round.count) = (100_000, (rtt * 1000.0) as u32, 3);
        yeah.end_round_trip();
    }

    #[test]
    fn a_short_queue_lets_it_grow_as_scalable_and_a_delay_as_reno() {
        // An eighth of the base RTT, and 80 segments, whichever comes first.
        for (window, rtt, count) in [(500, 112.0, 100.0), (500, 113.0, 500.0), (1000, 108.0, 100.0)] {
            let mut yeah = after(window, rtt);
            (0..window).for_each(|_| yeah.on_ack(&Ack { in_flight: 1, ..ack(1) }));
            let grown = yeah.window() - f64::from(window);
            assert!((grown - (f64::from(window) / count).floor()).abs() <= 1.0, "{window}, {rtt}: {grown}");
        }
    }

    #[test]
    fn more_than_eighty_segments_in_the_queue_are_drained() {
        // 2000 (1 - 100 / 105) = 95 segments.
        let mut yeah = after(2000, 105.0);
        assert_eq!((yeah.window(), yeah.ssthresh(), yeah.slow), (1905.0, 1905.0, 1));
        // At most half the window, and not below Reno's.
        round(&mut yeah, 1000.0);
        assert_eq!((yeah.window(), yeah.reno), (953.0, 953));
        round(&mut yeah, 1000.0);
        assert_eq!((yeah.window(), yeah.reno), (953.0, 954));
    }

    #[test]
    fn a_loss_takes_the_queue_or_an_eighth_and_after_sixteen_slow_round_trips_half() {
        let lose = |mut yeah: Yeah| {
            yeah.on_congestion(Instant::ZERO, 0, Congestion::Loss);
            yeah.window()
        };
        assert_eq!(lose(after(800, 100.0)), 700.0);
        // 200 (1 - 100 / 150) = 66 segments.
        assert_eq!(lose(after(200, 150.0)), 134.0);
        let mut slow = after(200, 150.0);
        (0..15).for_each(|_| round(&mut slow, 150.0));
        assert_eq!(lose(slow), 100.0);
        assert_eq!(lose(after(2, 100.0)), 2.0);
    }

    #[test]
    fn fifty_fast_round_trips_end_the_memory_of_reno() {
        let mut yeah = after(1000, 150.0);
        assert!(yeah.reno > MIN_RENO);
        (0..51).for_each(|_| round(&mut yeah, 100.0));
        assert_eq!((yeah.reno, yeah.fast), (MIN_RENO, 0));
    }

    #[test]
    fn without_a_queue_the_response_is_that_of_scalable() {
        let loss = 1e-4_f64;
        let mut yeah = Yeah::new(&start(100));
        yeah.window.ssthresh = 2.0;
        let mean = mean_window(&mut yeah, loss);
        let expected = 0.01 / loss / (8.0_f64 / 7.0).ln();
        assert!((mean / expected - 1.0).abs() < 0.05, "{mean} segments, expected {expected}");
    }

    #[test]
    fn a_timeout_leaves_one_segment_and_missing_samples_change_nothing() {
        let mut yeah = after(800, 100.0);
        for una in 1..100 {
            yeah.on_ack(&Ack { una, next: una, in_flight: 1, ..ack(1) });
        }
        assert_eq!((yeah.slow, yeah.reno), (0, MIN_RENO));
        yeah.on_timeout(Instant::ZERO, 800, false);
        assert_eq!((yeah.window(), yeah.ssthresh()), (1.0, 700.0));
    }
}
