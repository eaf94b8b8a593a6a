//! Compound: Reno's window and one more, which grows while the queue is short (Tan, Song, Zhang and
//! Sridharan, INFOCOM 2006; draft-sridharan-tcpm-ctcp-02).
//!
//! The window w is the sum of Reno's and of d. Once per round trip, with q = w (1 - base / RTT) segments in
//! the queue by its mean RTT and the minimum RTT of the flow (base):
//!
//! ```text
//! q < 30     d += w^(3/4) / 8 - 1, if that is positive
//! q >= 30    d -= q
//! loss       w = w / 2, and so is d
//! w < 38     d = 0
//! ```
//!
//! Linux has no Compound, and Windows does not say which form it has. This controller was compared with the
//! published response function only.

use super::window::{MIN_SSTHRESH, Window, delegate};
use super::{Ack, Congestion, Controller, Start};
use headway_units::{Duration, Instant};

/// Growth per round trip is this part of the window to the power of 3/4 (paper: alpha 1/8, k 3/4).
const ALPHA: f64 = 0.125;
/// The part of the window that a loss takes (paper).
const BETA: f64 = 0.5;
/// A queue of this many segments is congestion (paper: gamma).
const GAMMA: f64 = 30.0;
/// The part of the queue by which d shrinks (paper: zeta).
const ZETA: f64 = 1.0;
/// Below this window it is Reno, segments: there both have the same response (paper).
const LOW_WINDOW: f64 = 38.0;

/// The controller of the paper, in full precision.
#[derive(Clone, Debug, Default)]
pub struct Compound {
    /// The sum of both windows.
    window: Window,
    /// The window that follows the delay, segments.
    delay: f64,
    /// Minimum RTT of the flow; absent before the first sample.
    base: Option<Duration>,
    /// Sum and number of the RTTs of this round trip.
    sum: Duration,
    count: i64,
    /// The round trip ends when `una` passes this segment.
    end: u64,
}

impl Compound {
    /// A controller that starts with the initial window, at least one segment.
    pub(crate) fn new(start: &Start) -> Compound {
        Compound { window: Window::new(start.window), ..Compound::default() }
    }

    /// Adjusts the window that follows the delay at the end of a round trip.
    fn adjust(&mut self, may_grow: bool) {
        let Some(base) = self.base.filter(|_| self.count > 0) else { return };
        let size = self.window.size;
        let rtt = self.sum.secs_f64() / self.count as f64;
        let queued = if rtt > 0.0 { size * (1.0 - base.secs_f64() / rtt) } else { 0.0 };
        let before = self.delay;
        if size < LOW_WINDOW {
            self.delay = 0.0;
        } else if queued >= GAMMA {
            self.delay = (self.delay - ZETA * queued).max(0.0);
        } else if may_grow {
            // Square roots have the same bits on every machine.
            let root = size.sqrt();
            self.delay += (ALPHA * root * root.sqrt() - 1.0).max(0.0);
        }
        self.window.size = (size + self.delay - before).max(MIN_SSTHRESH);
    }
}

impl Controller for Compound {
    delegate!(window: on_idle, metrics);

    fn on_ack(&mut self, ack: &Ack) {
        if let Some(rtt) = ack.rtt {
            self.base = Some(self.base.map_or(rtt, |base| base.min(rtt)));
            self.sum += rtt;
            self.count += 1;
        }
        let grows = !ack.reducing && ack.window_limited;
        if grows {
            let mut acked = f64::from(ack.delivered);
            if self.window.in_slow_start() {
                acked = self.window.slow_start(acked);
            }
            self.window.size += acked / self.window.size;
        }
        if ack.una > self.end {
            self.end = ack.next;
            if !self.window.in_slow_start() && !ack.reducing {
                self.adjust(grows);
            }
            (self.sum, self.count) = (Duration::ZERO, 0);
        }
    }

    fn on_congestion(&mut self, _now: Instant, _in_flight: u32, _cause: Congestion) {
        self.delay *= 1.0 - BETA;
        self.window.reduce(self.window.size * (1.0 - BETA));
    }

    fn on_timeout(&mut self, _now: Instant, _in_flight: u32, already_reduced: bool) {
        self.delay = 0.0;
        self.window.restart(self.window.size / 2.0, already_reduced);
    }

    fn on_undo(&mut self, window: f64, ssthresh: f64) {
        // What d was counts as Reno's from now on; it is the sum that matters.
        self.window.restore(window, ssthresh);
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{ack, mean_window, start};
    use super::*;

    const BASE: Duration = Duration::from_ms(100);

    /// A controller in congestion avoidance with this window, none of which follows the delay.
    fn avoiding(window: u32) -> Compound {
        let mut compound = Compound::new(&start(window));
        compound.window.ssthresh = 2.0;
        compound.base = Some(BASE);
        compound
    }

    /// Ends a round trip with this mean RTT.
    fn end(compound: &mut Compound, rtt: Duration) {
        (compound.sum, compound.count) = (rtt, 1);
        compound.adjust(true);
    }

    #[test]
    fn an_empty_queue_lets_it_grow_with_the_power_of_three_quarters() {
        for window in [38, 100, 1000, 10_000] {
            let mut compound = avoiding(window);
            end(&mut compound, BASE);
            let expected = 0.125 * f64::from(window).powf(0.75) - 1.0;
            let grown = compound.window() - f64::from(window);
            assert!((grown - expected.max(0.0)).abs() < 1e-6, "{window}: {grown}, expected {expected}");
        }
    }

    #[test]
    fn a_queue_of_thirty_segments_takes_the_extra_window_back() {
        let mut compound = avoiding(1000);
        compound.delay = 200.0;
        // 1000 (1 - 100 / 104) = 38 segments; 1000 (1 - 100 / 102) = 20.
        end(&mut compound, BASE.scale(1.04));
        assert!((compound.delay - 161.5).abs() < 0.1 && (compound.window() - 961.5).abs() < 0.1);
        end(&mut compound, BASE.scale(1.02));
        assert!(compound.delay > 161.5, "{}", compound.delay);
        for _ in 0..20 {
            end(&mut compound, BASE.scale(1.2));
        }
        assert_eq!(compound.delay, 0.0);
        // Reno's window is left.
        assert!((compound.window() - 800.0).abs() < 1e-6, "{}", compound.window());
    }

    #[test]
    fn small_windows_are_renos() {
        let mut compound = avoiding(20);
        compound.delay = 5.0;
        end(&mut compound, BASE);
        assert_eq!((compound.window(), compound.delay), (15.0, 0.0));
        compound.on_congestion(Instant::ZERO, 15, Congestion::Loss);
        assert_eq!(compound.window(), 7.5);
        compound.on_timeout(Instant::ZERO, 7, false);
        assert_eq!((compound.window(), compound.ssthresh()), (1.0, 3.75));
    }

    #[test]
    fn the_response_function_is_the_published_one() {
        // Between losses the window grows as dw/dt = alpha w^k from half of W to W.
        for loss in [1e-4_f64, 1e-5] {
            let peak = (0.125 * 1.25 / loss / (1.0 - 0.5_f64.powf(1.25))).powf(0.8);
            let time = peak.powf(0.25) * (1.0 - 0.5_f64.powf(0.25)) / (0.125 * 0.25);
            let expected = 1.0 / loss / time;
            let mean = mean_window(&mut Compound::new(&start(100)), loss);
            assert!((mean / expected - 1.0).abs() < 0.05, "{mean} segments, expected {expected}");
        }
    }

    #[test]
    fn without_samples_it_is_reno() {
        let mut compound = avoiding(100);
        compound.base = None;
        for una in 1..=100 {
            compound.on_ack(&Ack { una, next: una + 100, ..ack(1) });
        }
        assert!((compound.window() - 101.0).abs() < 0.02, "{}", compound.window());
    }
}
