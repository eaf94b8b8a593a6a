//! DCTCP: reduces in proportion to the fraction of marked segments (RFC 8257).

use super::window::{Window, delegate};
use super::{Ack, Congestion, Controller, Inside, Start};
use headway_units::{Duration, Instant};

/// Weight of the newest window of data in alpha, RFC 8257's g (RFC 8257 4.2; Linux `dctcp_shift_g` 4).
const GAIN: f64 = 1.0 / 16.0;
/// The same as a shift, and the scale of Linux's alpha (`DCTCP_MAX_ALPHA`).
const SHIFT: u32 = 4;
const PARTS: u32 = 1024;
/// Below this alpha becomes zero: it is far less than a segment of the largest window, and
/// denormal numbers are slow.
const NEGLIGIBLE: f64 = 1e-12;

/// The controller of RFC 8257, with alpha in full precision (ls-aimd 2.11) or in the ten bits of Linux.
#[derive(Clone, Debug, Default)]
pub struct Dctcp {
    window: Window,
    /// Whether reductions are whole segments and alpha has ten bits, as in Linux: small windows then stay
    /// when few segments are marked. The analysis of DCTCP assumes neither.
    linux_rounding: bool,
    /// Estimated fraction of segments that are marked, 0 to 1.
    alpha: f64,
    /// Segments delivered since the last update of `alpha`.
    delivered: u32,
    /// Of those, the marked ones.
    marked: u32,
    /// `alpha` is updated when everything below this segment is acknowledged.
    end: u64,
}

impl Dctcp {
    /// A controller that starts with the initial window, at least one segment, and expects all to be marked.
    pub(crate) fn new(start: &Start) -> Dctcp {
        Dctcp {
            window: Window::new(start.window),
            linux_rounding: start.linux_rounding,
            alpha: 1.0,
            ..Dctcp::default()
        }
    }

    /// Updates alpha with the window of data that has just been acknowledged.
    fn update_alpha(&mut self, next: u64) {
        let delivered = self.delivered.max(1);
        if self.linux_rounding {
            self.alpha = f64::from(rounded(self.parts(), self.marked, delivered)) / f64::from(PARTS);
        } else {
            let fraction = f64::from(self.marked) / f64::from(delivered);
            self.alpha += GAIN * (fraction - self.alpha);
        }
        if self.alpha < NEGLIGIBLE {
            self.alpha = 0.0;
        }
        self.delivered = 0;
        self.marked = 0;
        self.end = next;
    }

    /// `alpha` in [`PARTS`].
    fn parts(&self) -> u32 {
        (self.alpha * f64::from(PARTS)) as u32
    }
}

/// Alpha in [`PARTS`] after a window of `delivered` segments, as Linux computes it.
///
/// If it would decay by less than one part it becomes zero, and a fraction of marks below 1/64 adds nothing.
/// An alpha below 1/64 is therefore at most a sixteenth of the fraction.
fn rounded(alpha: u32, marked: u32, delivered: u32) -> u32 {
    let decay = if alpha >> SHIFT > 0 { alpha >> SHIFT } else { alpha };
    let share = (u64::from(marked) * u64::from(PARTS >> SHIFT) / u64::from(delivered)) as u32;
    (alpha - decay + share).min(PARTS)
}

impl Controller for Dctcp {
    delegate!(window: on_undo, on_idle, metrics);

    fn inside(&self) -> Option<Inside> {
        Some(Inside { alpha: Some(self.alpha), ..Inside::default() })
    }

    fn on_ack(&mut self, ack: &Ack) {
        self.delivered += ack.delivered;
        self.marked += ack.marked;
        if ack.una >= self.end {
            self.update_alpha(ack.next);
        }
        self.window.grow_additively(ack);
    }

    fn on_congestion(&mut self, _now: Instant, _in_flight: u32, cause: Congestion) {
        let size = self.window.size;
        let cut = match cause {
            Congestion::Mark => size * self.alpha / 2.0,
            Congestion::Loss => size / 2.0,
        };
        let cut = match cause {
            Congestion::Mark if self.linux_rounding => cut.floor(),
            Congestion::Loss if self.linux_rounding => cut.ceil(),
            _ => cut,
        };
        self.window.reduce(size - cut);
    }

    /// Halves what marks have left of the window so far, as Linux does.
    fn on_further_losses(&mut self, window: u32) {
        self.window.reduce(f64::from(window / 2));
    }

    fn on_timeout(&mut self, _now: Instant, _in_flight: u32, already_reduced: bool) {
        self.window.restart(self.window.size / 2.0, already_reduced);
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{ack, start};
    use super::*;

    /// Acknowledges `rounds` windows of eight segments, `marked` of each marked.
    fn rounds(dctcp: &mut Dctcp, rounds: u64, marked: u32) {
        let start = dctcp.end;
        for segment in start..start + 8 * rounds {
            let mark = u32::from((segment - start) % 8 < u64::from(marked));
            dctcp.on_ack(&Ack {
                marked: mark,
                una: segment + 1,
                next: segment + 9,
                reducing: true,
                ..ack(1)
            });
        }
    }

    #[test]
    fn alpha_settles_at_the_fraction_of_marks() {
        for marked in [0, 1, 3, 8] {
            let mut dctcp = Dctcp::new(&start(8));
            rounds(&mut dctcp, 400, marked);
            assert!((dctcp.alpha - f64::from(marked) / 8.0).abs() < 1e-9, "{marked}: {}", dctcp.alpha);
        }
    }

    #[test]
    fn alpha_starts_at_one_and_moves_by_a_sixteenth_a_window() {
        let mut dctcp = Dctcp::new(&start(8));
        assert_eq!(dctcp.alpha, 1.0);
        dctcp.end = 8;
        for segment in 0..8 {
            assert_eq!(dctcp.alpha, 1.0);
            dctcp.on_ack(&Ack { una: segment + 1, next: segment + 9, ..ack(1) });
        }
        assert_eq!(dctcp.alpha, 15.0 / 16.0);
    }

    #[test]
    fn a_mark_reduces_by_half_of_alpha_and_a_loss_by_half() {
        let mut dctcp = Dctcp::new(&Start { linux_rounding: true, ..start(100) });
        dctcp.alpha = 0.1;
        dctcp.on_congestion(Instant::ZERO, 100, Congestion::Mark);
        assert_eq!(dctcp.window(), 95.0);
        dctcp.on_congestion(Instant::ZERO, 95, Congestion::Loss);
        assert_eq!(dctcp.window(), 47.0);
    }

    #[test]
    fn losses_during_a_reduction_halve_what_marks_have_left() {
        let mut dctcp = Dctcp::new(&start(100));
        dctcp.on_congestion(Instant::ZERO, 100, Congestion::Mark);
        dctcp.on_further_losses(81);
        assert_eq!((dctcp.window(), dctcp.ssthresh()), (40.0, 40.0));
    }

    #[test]
    fn the_estimate_of_ten_bits_forgets_what_is_small() {
        let after = |alpha, marked| (0..400).fold(alpha, |alpha, _| rounded(alpha, marked, 40));
        assert_eq!([40, 20, 12, 4, 0].map(|marked| after(PARTS, marked)), [1024, 527, 319, 111, 0]);
        // From below 1/64 it grows only where more than a quarter is marked.
        assert_eq!([40, 12, 4].map(|marked| after(0, marked)), [1024, 304, 6]);
    }

    #[test]
    fn windows_shrink_by_whole_segments() {
        let mut dctcp = Dctcp::new(&Start { linux_rounding: true, ..start(19) });
        dctcp.alpha = 0.1;
        dctcp.on_congestion(Instant::ZERO, 19, Congestion::Mark);
        assert_eq!(dctcp.window(), 19.0);
    }
}
