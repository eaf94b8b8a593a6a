//! HighSpeed TCP: grows by more and reduces by less the larger its window is (RFC 3649; details as in Linux).
//!
//! ```text
//! each ACK   w += a(w) / w
//! loss       w -= b(w) w
//! ```
//!
//! Up to 38 segments a is 1 and b is 0.5, as in Reno; at 83000 segments a is 72 and b is 0.1. The mean window
//! with a loss probability of p is 0.12 / p^0.835 segments (RFC 3649 5).

use super::window::{Window, cuts, delegate};
use super::{Ack, Congestion, Controller, Start};
use headway_units::{Duration, Instant};

/// The windows of RFC 3649, appendix B, at which a(w) is the number of the line, counted from one. Below one of
/// them, down to that before, Linux uses the same values.
const WINDOWS: [u32; 72] = [
    38, 118, 221, 347, 495, 663, 851, 1058, 1284, 1529, 1793, 2076, 2378, 2699, 3039, 3399, 3778, 4177, 4596,
    5036, 5497, 5979, 6483, 7009, 7558, 8130, 8726, 9346, 9991, 10661, 11358, 12082, 12834, 13614, 14424,
    15265, 16137, 17042, 17981, 18955, 19965, 21013, 22101, 23230, 24402, 25618, 26881, 28193, 29557, 30975,
    32450, 33986, 35586, 37253, 38992, 40808, 42707, 44694, 46776, 48961, 51258, 53677, 56230, 58932, 61799,
    64851, 68113, 71617, 75401, 79517, 84035, 89053,
];

/// The controller of RFC 3649; windows are whole segments, as in Linux.
///
/// In Linux the window grows per ACK, not per segment acknowledged: by half as much with delayed ACKs.
#[derive(Clone, Debug)]
pub struct HighSpeed {
    window: Window,
    /// The line of the table for the window at the last ACK in congestion avoidance, counted from zero.
    line: usize,
}

impl HighSpeed {
    /// A controller that starts with the initial window, at least one segment.
    pub(crate) fn new(start: &Start) -> HighSpeed {
        HighSpeed { window: Window::new(start.window), line: 0 }
    }

    /// Moves to the line for the present window.
    fn find_line(&mut self) {
        let window = self.window.size as u32;
        while window > WINDOWS[self.line] && self.line + 1 < WINDOWS.len() {
            self.line += 1;
        }
        while self.line > 0 && window <= WINDOWS[self.line - 1] {
            self.line -= 1;
        }
    }

    /// The window after a loss.
    fn reduced(&self) -> f64 {
        self.window.size - (self.window.size * f64::from(parts(self.line)) / 256.0).floor()
    }
}

/// The share b(w) that a loss takes at the window of a line, in units of 1/256, rounded down as in the table.
fn parts(line: usize) -> u32 {
    (256.0 * decrease(f64::from(WINDOWS[line]))) as u32
}

/// b(w) of RFC 3649 5.
fn decrease(window: f64) -> f64 {
    0.5 - 0.4 * (window / 38.0).ln() / (83_000.0_f64 / 38.0).ln()
}

impl Controller for HighSpeed {
    delegate!(window: on_undo, on_idle, metrics);

    fn on_ack(&mut self, ack: &Ack) {
        if ack.reducing || !ack.window_limited {
            return;
        }
        if self.window.in_slow_start() {
            self.window.slow_start(f64::from(ack.delivered));
        } else {
            self.find_line();
            self.window.grow(self.window.size, (self.line + 1) as f64);
        }
    }

    cuts!(|this| this.reduced());
}

#[cfg(test)]
mod tests {
    use super::super::testing::{ack, mean_window, start};
    use super::*;

    /// A controller in congestion avoidance with this window, which has seen an ACK.
    fn avoiding(window: u32) -> HighSpeed {
        let mut highspeed = HighSpeed::new(&start(window));
        highspeed.window.ssthresh = 2.0;
        highspeed.find_line();
        highspeed
    }

    #[test]
    fn the_table_follows_the_functions_of_the_rfc() {
        // Some of the RFC's values of b(w).
        assert_eq!([0, 1, 2, 10, 30, 52, 71].map(parts), [128, 112, 104, 76, 52, 36, 24]);
        for (line, window) in WINDOWS.into_iter().map(f64::from).enumerate().skip(1) {
            let b = decrease(window);
            // a(w) = w^2 p(w) 2 b(w) / (2 - b(w)), with p(w) = 0.078 / w^1.2.
            let a = window.powf(0.8) * 0.078 * 2.0 * b / (2.0 - b);
            assert!((a - (line + 1) as f64).abs() < 0.1, "{window}: line {line}, expected {a}");
        }
    }

    #[test]
    fn windows_grow_by_the_number_of_the_line_per_round_trip() {
        for (window, grown) in [(30, 1.0), (38, 1.0), (100, 2.0), (8000, 26.0), (100_000, 72.0)] {
            let mut highspeed = avoiding(window);
            (0..window).for_each(|_| highspeed.on_ack(&ack(1)));
            assert!((highspeed.window() - f64::from(window) - grown).abs() <= 1.0, "{}", highspeed.window());
            // Per ACK, not per segment.
            let mut delayed = avoiding(window);
            (0..window).for_each(|_| delayed.on_ack(&ack(2)));
            assert_eq!(delayed.window(), highspeed.window());
        }
    }

    #[test]
    fn a_loss_takes_half_of_small_and_a_tenth_of_large_windows() {
        let after = |window| {
            let mut highspeed = avoiding(window);
            highspeed.on_congestion(Instant::ZERO, window, Congestion::Loss);
            highspeed.window() / f64::from(window)
        };
        for (window, left) in [(30, 0.5), (38, 0.5), (1000, 0.67), (10_000, 0.79), (83_000, 0.9)] {
            assert!((after(window) - left).abs() < 0.01, "{window}: {}", after(window));
        }
        assert_eq!(after(2), 1.0);
    }

    #[test]
    fn the_mean_window_follows_the_response_function() {
        // The table rounds a(w) up, which matters for small windows.
        for (loss, tolerance) in [(1e-4_f64, 0.18), (1e-5, 0.08)] {
            let mean = mean_window(&mut avoiding(100), loss);
            let expected = 0.12 / loss.powf(0.835);
            assert!((mean / expected - 1.0).abs() < tolerance, "{mean} segments, expected {expected}");
        }
    }

    #[test]
    fn the_line_follows_the_window_down_only_when_it_grows_again() {
        let mut highspeed = avoiding(10_000);
        let line = highspeed.line;
        highspeed.on_timeout(Instant::ZERO, 10_000, false);
        assert_eq!((highspeed.window(), highspeed.line), (1.0, line));
        highspeed.window.ssthresh = 1.0;
        highspeed.on_ack(&ack(1));
        assert_eq!(highspeed.line, 0);
    }
}
