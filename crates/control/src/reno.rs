//! Reno: one segment more per round trip, half the window at a loss (RFC 5681).

use super::window::{Window, cuts, delegate};
use super::{Ack, Congestion, Controller, Start};
use headway_units::{Duration, Instant};

/// The controller of RFC 5681; windows are whole segments, as in Linux.
#[derive(Clone, Debug)]
pub struct Reno {
    window: Window,
}

impl Reno {
    /// A controller that starts with the initial window, at least one segment.
    pub(crate) fn new(start: &Start) -> Reno {
        Reno { window: Window::new(start.window) }
    }
}

impl Controller for Reno {
    delegate!(window: on_undo, on_idle, metrics);

    fn on_ack(&mut self, ack: &Ack) {
        self.window.grow_additively(ack);
    }

    cuts!(|this| this.window.half());
}

#[cfg(test)]
mod tests {
    use super::super::testing::{ack, start};
    use super::*;

    #[test]
    fn slow_start_doubles_each_round_and_hands_the_rest_to_congestion_avoidance() {
        let mut reno = Reno::new(&start(10));
        reno.on_ack(&ack(10));
        assert_eq!(reno.window(), 20.0);
        reno.on_congestion(Instant::ZERO, 20, Congestion::Loss);
        assert_eq!((reno.window(), reno.ssthresh()), (10.0, 10.0));
        reno.on_timeout(Instant::ZERO, 10, false);
        assert_eq!((reno.window(), reno.ssthresh()), (1.0, 5.0));
        // Four segments reach ssthresh; the five left over grow the window of five by one.
        reno.on_ack(&ack(9));
        assert_eq!(reno.window(), 6.0);
    }

    #[test]
    fn congestion_avoidance_adds_one_segment_a_round_trip() {
        let mut reno = Reno::new(&start(200));
        reno.on_congestion(Instant::ZERO, 200, Congestion::Mark);
        for round in 0..50 {
            assert_eq!(reno.window(), f64::from(100 + round));
            for _ in 0..100 + round {
                reno.on_ack(&ack(1));
            }
        }
    }

    #[test]
    fn nothing_grows_while_reducing_or_short_of_data() {
        let mut reno = Reno::new(&start(10));
        reno.on_ack(&Ack { reducing: true, ..ack(5) });
        reno.on_ack(&Ack { window_limited: false, ..ack(5) });
        assert_eq!(reno.window(), 10.0);
    }

    #[test]
    fn the_threshold_is_two_at_least_and_survives_repeated_timeouts() {
        let mut reno = Reno::new(&start(40));
        reno.on_timeout(Instant::ZERO, 40, false);
        reno.on_timeout(Instant::ZERO, 1, false);
        assert_eq!((reno.window(), reno.ssthresh()), (1.0, 20.0));
        let mut small = Reno::new(&start(3));
        small.on_congestion(Instant::ZERO, 3, Congestion::Loss);
        assert_eq!(small.window(), 2.0);
    }
}
