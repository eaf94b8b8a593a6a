//! BIC: searches for the window of the last loss in halves (Xu, Harfoush and Rhee, INFOCOM 2004;
//! details as in Linux).
//!
//! With W the window at the last loss, per round trip:
//!
//! ```text
//! w < W      w += (W - w) / 4, at most 16, at least 1/5 segment    (binary search)
//! w >= W     w += 1/5, then (w - W) / 3, then 16                   (search for a new maximum)
//! loss       W = w; w = 0.8 w
//! w <= 14    as Reno
//! ```

use super::round_trip::Acknowledged;
use super::window::{Window, delegate};
use super::{Ack, Congestion, Controller, RecoveryState, Start, ticks};
use headway_units::{Duration, Instant};

/// The factor of a reduction in 1/1024: 0.8 (Linux; 0.875 in the paper).
const BETA: u32 = 819;
/// Windows up to this size grow and halve as in Reno, segments (paper, Linux `low_window`).
const LOW_WINDOW: u32 = 14;
/// Most segments per round trip, the paper's S_max (Linux; 32 in the paper).
const MAX_INCREMENT: u32 = 16;
/// The part of the distance that the search covers per round trip, as a divisor (Linux
/// `BICTCP_B`; 2 in the paper).
const PART: u32 = 4;
/// Round trips per segment near the maximum, times [`PART`] (Linux `smooth_part`).
const SMOOTH: u32 = 20;
/// Most ACKs per segment of growth before the first loss: at least 5 % per round trip (Linux).
const FIRST_COUNT: u32 = 20;
/// A count is computed when the window has changed, or after more than this many ticks (Linux: 1/32 s).
const REFRESH: u64 = 31;
/// Segments per ACK are counted in units of 2^-4, and averaged over as many ACKs (Linux `ACK_RATIO_SHIFT`).
const RATIO_SHIFT: u32 = 4;

/// The controller of the paper; windows are whole segments, as in Linux.
#[derive(Clone, Debug, Default)]
pub struct Bic {
    window: Window,
    /// The window before the last reduction, less if it was smaller than the one before (fast
    /// convergence); 0 if none.
    last_max: u32,
    /// Acknowledged segments per segment of growth, for the window and the tick that follow.
    count: u32,
    computed: (u32, u64),
    /// Segments per ACK in 2^-4.
    ratio: u32,
    acknowledged: Acknowledged,
    state: RecoveryState,
}

impl Bic {
    /// A controller that starts with the initial window, at least one segment.
    pub(crate) fn new(start: &Start) -> Bic {
        Bic {
            window: Window::new(start.window),
            ratio: 2 << RATIO_SHIFT,
            state: RecoveryState::Open,
            ..Bic::default()
        }
    }

    /// Computes the count, unless it is fresh.
    fn update_count(&mut self, now: Instant) {
        let (window, tick) = (self.window.size as u32, ticks::tick(now));
        if self.computed.0 == window && tick.saturating_sub(self.computed.1) <= REFRESH {
            return;
        }
        self.computed = (window, tick);
        self.count = self.count_at(window);
        if window > LOW_WINDOW {
            if self.last_max == 0 {
                self.count = self.count.min(FIRST_COUNT);
            }
            // Linux counts ACKs here, as if each acknowledged one segment.
            self.count = ((self.count << RATIO_SHIFT) / self.ratio.max(1)).max(1);
        }
    }

    /// The count at this window if every segment is acknowledged by itself.
    fn count_at(&self, window: u32) -> u32 {
        if window <= LOW_WINDOW {
            return window;
        }
        let smooth = window.saturating_mul(SMOOTH) / PART;
        if window < self.last_max {
            match (self.last_max - window) / PART {
                0 | 1 => smooth,
                distance => window / distance.min(MAX_INCREMENT),
            }
        } else {
            let beyond = window - self.last_max;
            if beyond < PART {
                smooth
            } else if beyond < MAX_INCREMENT * (PART - 1) {
                window.saturating_mul(PART - 1) / beyond
            } else {
                window / MAX_INCREMENT
            }
        }
    }

    /// Notes the maximum, and returns the window after a loss.
    fn reduced(&mut self) -> f64 {
        let window = self.window.size as u32;
        let part = |parts| ((u64::from(window) * parts) >> 10) as u32;
        self.last_max = if window < self.last_max { part((1024 + u64::from(BETA)) / 2) } else { window };
        f64::from(if window <= LOW_WINDOW { window / 2 } else { part(BETA.into()) })
    }

    /// Resets all knowledge of the path, as Linux does after an RTO.
    fn reset(&mut self) {
        (self.last_max, self.count, self.computed) = (0, 0, (0, 0));
        self.ratio = 2 << RATIO_SHIFT;
    }
}

impl Controller for Bic {
    delegate!(window: on_undo, on_idle, metrics);

    fn on_ack(&mut self, ack: &Ack) {
        let acked = self.acknowledged.advance(ack);
        if self.state == RecoveryState::Open {
            self.ratio = (self.ratio - (self.ratio >> RATIO_SHIFT)).saturating_add(acked);
        }
        self.state = ack.state;
        let acked = self.window.beyond_slow_start(ack);
        if acked > 0.0 {
            self.update_count(ack.now);
            self.window.grow(f64::from(self.count.max(1)), acked);
        }
    }

    fn on_congestion(&mut self, _now: Instant, _in_flight: u32, _cause: Congestion) {
        let reduced = self.reduced();
        self.window.reduce(reduced);
        self.state = RecoveryState::Recovery;
    }

    fn on_timeout(&mut self, _now: Instant, _in_flight: u32, already_reduced: bool) {
        let reduced = self.reduced();
        self.window.restart(reduced, already_reduced);
        self.reset();
        self.state = RecoveryState::Loss;
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{ack, start};
    use super::*;

    /// A controller with this window, whose last maximum was another; every segment is
    /// acknowledged by itself.
    fn bic(window: u32, last_max: u32) -> Bic {
        let mut bic = Bic { last_max, ratio: 1 << RATIO_SHIFT, ..Bic::new(&start(window)) };
        bic.window.ssthresh = 2.0;
        bic
    }

    /// Acknowledges a window segment by segment; returns by how much it has grown.
    fn round(bic: &mut Bic) -> f64 {
        let before = bic.window();
        for _ in 0..before as u32 {
            let una = bic.acknowledged.una() + 1;
            bic.on_ack(&Ack { una, now: Instant::from_ns(una * 1_000_000), ..ack(1) });
        }
        bic.window() - before
    }

    #[test]
    fn the_search_covers_a_quarter_of_the_distance_but_at_most_16_segments() {
        for (window, grown) in [(500, 16.0), (900, 16.0), (960, 10.0), (980, 5.0)] {
            let increase = round(&mut bic(window, 1000));
            // The distance shrinks while the window grows.
            assert!((0.75 * grown..=grown).contains(&increase), "{window}: {increase}, expected {grown}");
        }
        // Near the maximum a segment takes five round trips.
        let mut near = bic(996, 1000);
        let grown: f64 = (0..10).map(|_| round(&mut near)).sum();
        assert!((1.0..=3.0).contains(&grown), "{grown}");
    }

    #[test]
    fn beyond_the_maximum_growth_accelerates() {
        let mut bic = bic(1000, 1000);
        let increases: Vec<f64> = (0..80).map(|_| round(&mut bic)).collect();
        assert!(increases[..20].iter().sum::<f64>() <= 6.0, "{increases:?}");
        assert!(increases.is_sorted_by(|a, b| *b >= a - 1.0), "{increases:?}");
        assert!((15.0..=17.0).contains(&increases[79]), "{increases:?}");
    }

    #[test]
    fn before_the_first_loss_a_window_grows_by_a_twentieth() {
        let increase = round(&mut bic(1000, 0));
        assert!((increase - 50.0).abs() <= 3.0, "{increase}");
    }

    #[test]
    fn small_windows_grow_and_halve_as_in_reno() {
        let mut bic = bic(10, 100);
        assert_eq!(round(&mut bic), 1.0);
        bic.on_congestion(Instant::ZERO, 11, Congestion::Loss);
        assert_eq!(bic.window(), 5.0);
    }

    #[test]
    fn a_loss_takes_a_fifth_and_a_second_one_lowers_the_maximum() {
        let mut bic = bic(1000, 0);
        bic.on_congestion(Instant::ZERO, 1000, Congestion::Loss);
        assert_eq!((bic.window(), bic.last_max), (799.0, 1000));
        bic.on_congestion(Instant::ZERO, 799, Congestion::Loss);
        assert_eq!((bic.window(), bic.last_max), (639.0, 718));
        bic.on_timeout(Instant::ZERO, 639, false);
        assert_eq!((bic.window(), bic.ssthresh(), bic.last_max), (1.0, 511.0, 0));
    }

    #[test]
    fn delayed_acknowledgements_do_not_slow_it_down() {
        let mut bic = bic(500, 1000);
        for una in 1..=2000 {
            bic.on_ack(&Ack { una: 2 * una, reducing: true, ..ack(2) });
        }
        assert!((28..=32).contains(&bic.ratio), "{}", bic.ratio);
    }
}
