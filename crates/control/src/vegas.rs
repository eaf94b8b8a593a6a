//! Vegas: keeps two to four segments in the queue (Brakmo, O'Malley and Peterson, SIGCOMM 1994;
//! details as in Linux).
//!
//! Once per round trip, with the minimum RTT of this round trip and of the flow (base):
//!
//! ```text
//! diff = w (RTT - base) / base
//! diff < 2        w += 1
//! diff > 4        w -= 1
//! slow start      w doubles; ends where diff > 1, at w base / RTT + 1
//! loss            w = w / 2
//! ```

use super::round_trip::RoundTrip;
use super::window::{MIN_SSTHRESH, Window, delegate};
use super::{Ack, Congestion, Controller, Start};
use headway_units::{Duration, Instant};

/// The window grows with less than this in the queue, segments (Linux; 2 in the paper).
const ALPHA: u64 = 2;
/// The window shrinks with more than this in the queue, segments (Linux; 4 in the paper).
const BETA: u64 = 4;
/// Slow start ends with more than this in the queue, segments (Linux; 1 in the paper).
const GAMMA: u64 = 1;
/// With no more samples than this in a round trip all may be of delayed ACKs, and the window
/// grows as Reno's (Linux).
const FEW_SAMPLES: u32 = 2;

/// The controller of the paper; windows are whole segments, as in Linux.
///
/// In Linux slow start doubles in every round trip, not in every second one, and a flow with nothing in
/// flight forgets its base RTT. While a loss is repaired, and after a timeout, the window follows Reno.
#[derive(Clone, Debug)]
pub struct Vegas {
    window: Window,
    round: RoundTrip,
}

impl Vegas {
    /// A controller that starts with the initial window, at least one segment.
    pub(crate) fn new(start: &Start) -> Vegas {
        Vegas { window: Window::new(start.window), round: RoundTrip::new() }
    }

    fn grow(&mut self, ack: &Ack) {
        if !self.round.active {
            self.window.grow_additively(ack);
        } else if self.round.is_over(ack) {
            if self.round.count <= FEW_SAMPLES {
                self.window.grow_additively(ack);
            } else {
                self.adjust(ack);
            }
            self.round.begin();
        } else if self.window.in_slow_start() {
            self.window.slow_start(f64::from(ack.delivered));
        }
    }

    /// Adjusts the window to the queue at the end of a round trip.
    fn adjust(&mut self, ack: &Ack) {
        let (base, rtt) = (u64::from(self.round.base), u64::from(self.round.least));
        let mut size = self.window.size as u64;
        let queued = size * (rtt - base) / base;
        if self.window.in_slow_start() {
            if queued > GAMMA {
                // One more than the rate asks for, because the division rounds down.
                size = size.min(size * base / rtt + 1);
                self.window.size = size as f64;
                self.window.ssthresh = self.window.ssthresh.min(self.window.size);
            } else {
                self.window.slow_start(f64::from(ack.delivered));
            }
        } else if queued > BETA {
            self.window.size = (size - 1) as f64;
            self.window.ssthresh = self.window.ssthresh.min(self.window.size);
        } else if queued < ALPHA {
            self.window.size = (size + 1) as f64;
        }
        self.window.size = self.window.size.max(MIN_SSTHRESH);
        let size = self.window.size as u64;
        self.window.ssthresh = self.window.ssthresh.max((size / 2 + size / 4) as f64);
    }
}

impl Controller for Vegas {
    delegate!(window: on_undo, on_idle, metrics);

    fn on_ack(&mut self, ack: &Ack) {
        self.round.take(ack);
        if !ack.reducing {
            self.grow(ack);
        }
        self.round.forget_if_idle(ack);
    }

    fn on_congestion(&mut self, _now: Instant, _in_flight: u32, _cause: Congestion) {
        self.window.reduce(self.window.half());
    }

    fn on_timeout(&mut self, _now: Instant, _in_flight: u32, already_reduced: bool) {
        self.window.restart(self.window.half(), already_reduced);
        self.round.on_timeout();
    }
}

#[cfg(test)]
mod tests {
    use super::super::RecoveryState;
    use super::super::testing::{ack, start};
    use super::*;

    const BASE: Duration = Duration::from_ms(100);

    /// Acknowledges a window with this RTT, segment by segment, and one more, with which the round trip ends.
    fn round(vegas: &mut Vegas, rtt: Duration) {
        let size = vegas.window() as u64;
        let begin = vegas.round.end();
        for una in begin + 1..=begin + 1 + size {
            vegas.on_ack(&Ack { rtt: Some(rtt), una, next: una + size, in_flight: 1, ..ack(1) });
        }
    }

    /// A controller in congestion avoidance with this window and a base RTT of 100 ms.
    fn avoiding(window: u32) -> Vegas {
        let mut vegas = Vegas::new(&start(window));
        vegas.window.ssthresh = 2.0;
        (vegas.round.base, vegas.round.count) = (100_001, 3);
        vegas
    }

    #[test]
    fn it_keeps_two_to_four_segments_in_the_queue() {
        // A hundred segments, of which as many as there are milliseconds above the base RTT are in the queue.
        let after = |delay| {
            let mut vegas = avoiding(100);
            round(&mut vegas, BASE + Duration::from_us(delay));
            vegas.window()
        };
        assert_eq!([0, 1900, 2100, 4900, 5100].map(after), [101.0, 101.0, 100.0, 100.0, 99.0]);
    }

    #[test]
    fn slow_start_doubles_and_ends_with_two_segments_in_the_queue() {
        let mut vegas = Vegas::new(&start(10));
        round(&mut vegas, BASE);
        assert_eq!(vegas.window(), 21.0);
        (vegas.round.least, vegas.round.count) = (150_001, 3);
        vegas.adjust(&ack(1));
        // 21 segments at the RTT that the queue makes are 14 at the base RTT, and one more.
        assert_eq!((vegas.window(), vegas.ssthresh()), (15.0, 15.0));
    }

    #[test]
    fn two_samples_per_round_trip_are_too_few() {
        let mut vegas = avoiding(2);
        vegas.round.count = 0;
        for una in 1..=40 {
            vegas.on_ack(&Ack { rtt: Some(BASE * 3), una, next: una, in_flight: 1, ..ack(1) });
        }
        assert!(vegas.window() > 5.0, "{}", vegas.window());
    }

    #[test]
    fn an_idle_flow_forgets_its_base() {
        let mut vegas = avoiding(100);
        vegas.on_ack(&Ack { rtt: Some(BASE), una: 1, next: 1, in_flight: 0, ..ack(1) });
        for _ in 0..3 {
            round(&mut vegas, BASE * 2);
        }
        // A longer path is no queue.
        assert!(vegas.window() >= 102.0, "{}", vegas.window());
    }

    #[test]
    fn it_waits_for_a_whole_round_trip_after_recovery_and_does_without_samples() {
        let mut vegas = avoiding(100);
        vegas.on_congestion(Instant::ZERO, 100, Congestion::Loss);
        assert_eq!(vegas.window(), 50.0);
        let late = Some(BASE * 3);
        let state = RecoveryState::Recovery;
        vegas.on_ack(&Ack { state, reducing: true, rtt: late, una: 1, next: 200, in_flight: 1, ..ack(1) });
        vegas.on_ack(&Ack { rtt: late, una: 200, next: 260, in_flight: 1, ..ack(1) });
        for una in 201..=260 {
            vegas.on_ack(&Ack { una, next: una + 50, in_flight: 1, ..ack(1) });
        }
        assert_eq!(vegas.window(), 50.0);
    }

    #[test]
    fn the_window_has_two_segments_at_least() {
        let mut vegas = avoiding(2);
        for _ in 0..4 {
            vegas.round.count = 3;
            round(&mut vegas, BASE * 50);
        }
        assert_eq!(vegas.window(), 2.0);
        vegas.on_timeout(Instant::ZERO, 2, false);
        assert_eq!((vegas.window(), vegas.ssthresh()), (1.0, 2.0));
    }
}
