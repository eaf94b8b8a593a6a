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

/// The table of RFC 3649, appendix B: the window at which a(w) is the number of the line, counted from one,
/// and b(w) there in units of 1/256. Below it, down to the line before, Linux uses the same values.
const TABLE: [(u32, u32); 72] = [
    (38, 128),
    (118, 112),
    (221, 104),
    (347, 98),
    (495, 93),
    (663, 89),
    (851, 86),
    (1058, 83),
    (1284, 81),
    (1529, 78),
    (1793, 76),
    (2076, 74),
    (2378, 72),
    (2699, 71),
    (3039, 69),
    (3399, 68),
    (3778, 66),
    (4177, 65),
    (4596, 64),
    (5036, 62),
    (5497, 61),
    (5979, 60),
    (6483, 59),
    (7009, 58),
    (7558, 57),
    (8130, 56),
    (8726, 55),
    (9346, 54),
    (9991, 53),
    (10661, 52),
    (11358, 52),
    (12082, 51),
    (12834, 50),
    (13614, 49),
    (14424, 48),
    (15265, 48),
    (16137, 47),
    (17042, 46),
    (17981, 45),
    (18955, 45),
    (19965, 44),
    (21013, 43),
    (22101, 43),
    (23230, 42),
    (24402, 41),
    (25618, 41),
    (26881, 40),
    (28193, 39),
    (29557, 39),
    (30975, 38),
    (32450, 38),
    (33986, 37),
    (35586, 36),
    (37253, 36),
    (38992, 35),
    (40808, 35),
    (42707, 34),
    (44694, 33),
    (46776, 33),
    (48961, 32),
    (51258, 32),
    (53677, 31),
    (56230, 30),
    (58932, 30),
    (61799, 29),
    (64851, 28),
    (68113, 28),
    (71617, 27),
    (75401, 26),
    (79517, 26),
    (84035, 25),
    (89053, 24),
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
    #[inline]
    fn find_line(&mut self) {
        let window = self.window.size as u32;
        while window > TABLE[self.line].0 && self.line + 1 < TABLE.len() {
            self.line += 1;
        }
        while self.line > 0 && window <= TABLE[self.line - 1].0 {
            self.line -= 1;
        }
    }

    /// The window after a loss.
    fn reduced(&self) -> f64 {
        self.window.size - (self.window.size * f64::from(TABLE[self.line].1) / 256.0).floor()
    }
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

    /// b(w) of RFC 3649 5.
    fn decrease(window: f64) -> f64 {
        0.5 - 0.4 * (window / 38.0).ln() / (83000.0_f64 / 38.0).ln()
    }

    #[test]
    fn the_table_follows_the_functions_of_the_rfc() {
        for (line, &(window, parts)) in TABLE.iter().enumerate().skip(1) {
            let window = f64::from(window);
            let b = decrease(window);
            assert!((f64::from(parts) / 256.0 - b).abs() < 0.006, "{window}: {parts}, expected {b}");
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
