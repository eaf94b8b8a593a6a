//! Scalable TCP: 1 % more per round trip, an eighth less at a loss (Kelly, CCR 33(2), 2003;
//! details as in Linux).
//!
//! ```text
//! each segment acknowledged   w += 0.01   (1 / w below 100 segments, as Reno)
//! loss                        w -= 0.125 w
//! ```
//!
//! The mean window with a loss probability of p is about 0.08 / p segments, whatever the RTT.

use super::window::{Window, cuts, delegate};
use super::{Ack, Congestion, Controller, Start};
use headway_units::{Duration, Instant};

/// Most segments acknowledged per segment of growth: 1 / a, with Kelly's a = 0.01.
pub(super) const COUNT: f64 = 100.0;
/// The part of the window that a loss takes, Kelly's b, as a divisor.
const CUT: f64 = 8.0;

/// Kelly's controller; windows are whole segments, as in Linux.
#[derive(Clone, Debug)]
pub struct Scalable {
    window: Window,
}

impl Scalable {
    /// A controller that starts with the initial window, at least one segment.
    pub(crate) fn new(start: &Start) -> Scalable {
        Scalable { window: Window::new(start.window) }
    }

    /// The window after a loss.
    fn reduced(&self) -> f64 {
        self.window.size - (self.window.size / CUT).floor()
    }
}

impl Controller for Scalable {
    delegate!(window: on_undo, on_idle, metrics);

    fn on_ack(&mut self, ack: &Ack) {
        self.window.grow_with(ack, |size| size.min(COUNT));
    }

    cuts!(|this| this.reduced());
}

#[cfg(test)]
mod tests {
    use super::super::testing::{ack, mean_window, start};
    use super::*;

    /// A controller in congestion avoidance with this window.
    fn avoiding(window: u32) -> Scalable {
        let mut scalable = Scalable::new(&start(window));
        scalable.window.ssthresh = 2.0;
        scalable
    }

    #[test]
    fn large_windows_grow_by_a_hundredth_and_small_ones_by_one_segment_per_round_trip() {
        for (window, grown) in [(50, 51.0), (100, 101.0), (1000, 1010.0), (8000, 8080.0)] {
            let mut scalable = avoiding(window);
            (0..window).for_each(|_| scalable.on_ack(&ack(1)));
            assert_eq!(scalable.window(), grown);
        }
    }

    #[test]
    fn a_loss_takes_an_eighth_but_leaves_two_segments() {
        let after = |window| {
            let mut scalable = avoiding(window);
            scalable.on_congestion(Instant::ZERO, window, Congestion::Loss);
            scalable.window()
        };
        assert_eq!([8000, 1000, 15, 7, 2, 1].map(after), [7000.0, 875.0, 14.0, 7.0, 2.0, 2.0]);
        let mut scalable = avoiding(800);
        scalable.on_timeout(Instant::ZERO, 800, false);
        assert_eq!((scalable.window(), scalable.ssthresh()), (1.0, 700.0));
    }

    #[test]
    fn the_mean_window_is_inversely_proportional_to_the_loss_probability() {
        // A loss after every 1 / p segments: between 7/8 of W and W the window grows by 0.01 per segment, so
        // W is 0.08 / p, and the mean window 0.01 / p / ln(8 / 7).
        for loss in [1e-4_f64, 2e-5] {
            let mean = mean_window(&mut avoiding(100), loss);
            let expected = 0.01 / loss / (8.0_f64 / 7.0).ln();
            assert!((mean / expected - 1.0).abs() < 0.02, "{mean} segments, expected {expected}");
        }
    }
}
