//! Equal queues in series: the likelihood of a delay given an earlier one, over all of them.
//!
//! Each queue moves like [`Reflected`](super::reflected::Reflected). But what leaves one queue enters the
//! next, so a queue that grows holds back a part of the packets of the stream from the next one: with drift m
//! and variance v for each, and a share a of the capacity available,
//!
//! ```text
//! dW(k) = m dt + sqrt(v) dB(k) - a (dW(1) + ... + dW(k - 1)),        W(k) >= 0
//! ```
//!
//! While all queues are busy, the sum of n of them grows with (1 - (1 - a)^n) / a times the drift, and below
//! what is available it has n times the mean. No closed form is known to us. `examples/series_table.rs`
//! computes the densities.

use std::fmt;

use super::normal::ln_density;
use super::reflected::Transition;

/// Shares of the capacity that are available.
pub const SHARES: [f64; 5] = [0.1, 0.3, 0.5, 0.7, 0.9];
/// First delays, in standard deviations of the change of one queue during the time.
pub const FIRST: [f64; 13] = [0.0, 0.1, 0.2, 0.35, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 9.0];
/// Drifts in the same unit: this many on either side of zero, so far apart.
pub const DRIFTS: (usize, f64) = (20, 0.25);
/// Number of second delays, see [`second`].
pub const SECOND: usize = 58;
/// Logarithms of densities are stored as multiples of a step above the lowest.
pub const LOWEST: f64 = -9.0;
/// See [`LOWEST`].
pub const STEP: f64 = 0.05;
/// Drifts in a table.
const DRIFT_POINTS: usize = 2 * DRIFTS.0 + 1;

/// Returns the second delay of a point of the tables: every tenth up to 1, every fifth up to 4,
/// every half up to 20.
pub fn second(point: usize) -> f64 {
    match point {
        0..=10 => point as f64 / 10.0,
        11..=25 => 1.0 + (point - 10) as f64 / 5.0,
        _ => 4.0 + (point - 25) as f64 / 2.0,
    }
}

/// Two queues, and four, which behave almost like more.
pub(super) const TWO: Series = Series { queues: 2, table: include_bytes!("series/2.bin") };
pub(super) const FOUR: Series = Series { queues: 4, table: include_bytes!("series/4.bin") };

/// A number of equal queues in series.
#[derive(Clone, Copy)]
pub(super) struct Series {
    queues: u32,
    /// By share, first delay, drift and second delay.
    table: &'static [u8],
}

impl fmt::Debug for Series {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Series").field("queues", &self.queues).finish_non_exhaustive()
    }
}

/// The densities of one second delay, as a function of drift and share.
#[derive(Clone, Debug)]
pub(super) struct Slice {
    series: Series,
    transition: Transition,
    /// Standard deviation of the change of one queue.
    spread: f64,
    /// Logarithms of densities, by share and drift; `None` beyond the table.
    ln: Option<[[f64; DRIFT_POINTS]; SHARES.len()]>,
}

/// Delays below a resolution are integrated over this many intervals.
const INTERVALS: usize = 4;

/// What the second delay of a transition is known to be.
#[derive(Clone, Debug)]
pub(super) enum Seen {
    /// This value.
    Exactly(Box<Slice>),
    /// At most a value: slices at even distances from zero on, and the distance.
    AtMost(Box<[Slice; INTERVALS + 1]>, f64),
}

impl Seen {
    /// Returns the logarithm of the density or probability, where each queue drifts by `drift` per unit of
    /// time and a share `share` of its capacity is available.
    pub(super) fn ln(&self, drift: f64, share: f64) -> f64 {
        match self {
            Seen::Exactly(slice) => slice.ln_density(drift, share),
            Seen::AtMost(slices, distance) => {
                let density = |slice: &Slice| slice.ln_density(drift, share).exp();
                let ends = density(&slices[0]) + density(&slices[INTERVALS]);
                let sum = ends / 2.0 + slices[1..INTERVALS].iter().map(density).sum::<f64>();
                (sum * distance).max(1e-12).ln()
            }
        }
    }
}

impl Series {
    /// Returns a transition to a known delay, where each queue has this variance per unit of time.
    pub(super) fn exactly(self, transition: Transition, variance: f64) -> Seen {
        Seen::Exactly(Box::new(self.slice(transition, variance)))
    }

    /// Returns the same to any delay of at most `transition.to`.
    pub(super) fn at_most(self, transition: Transition, variance: f64) -> Seen {
        let distance = transition.to / INTERVALS as f64;
        let slice = |end: usize| self.slice(Transition { to: distance * end as f64, ..transition }, variance);
        Seen::AtMost(Box::new(std::array::from_fn(slice)), distance)
    }

    /// Returns the densities for a transition where each queue has this variance per unit of time.
    fn slice(self, transition: Transition, variance: f64) -> Slice {
        let spread = (variance * transition.time).sqrt();
        let (from, to) = (transition.from / spread, transition.to / spread);
        let ln = place(&FIRST, from).and_then(|(first, part)| {
            // Between two first delays, densities are moved along with them: averages would be too flat.
            let moved = |first: usize| Some((first, place_second((to - from + FIRST[first]).max(0.0))?));
            let (low, high) = (moved(first)?, moved(first + 1)?);
            Some(std::array::from_fn(|share| {
                std::array::from_fn(|drift| {
                    let along = |(first, (second, beyond)): (usize, (usize, f64))| {
                        let row = (share * FIRST.len() + first) * DRIFT_POINTS + drift;
                        let at = |point: usize| LOWEST + STEP * f64::from(self.table[row * SECOND + point]);
                        between(at(second), at(second + 1), beyond)
                    };
                    between(along(low), along(high), part)
                })
            }))
        });
        Slice { series: self, transition, spread, ln }
    }
}

impl Slice {
    /// Returns the logarithm of the density of the second delay, where each queue drifts by `drift` per unit
    /// of time and a share `share` of its capacity is available.
    fn ln_density(&self, drift: f64, share: f64) -> f64 {
        let carried = drift * self.transition.time / self.spread;
        let share = share.clamp(SHARES[0], SHARES[SHARES.len() - 1]);
        let at = carried / DRIFTS.1 + DRIFTS.0 as f64;
        let inside = (0.0..(DRIFT_POINTS - 1) as f64).contains(&at);
        let Some((ln, (low, part))) = self.ln.as_ref().zip(place(&SHARES, share)).filter(|_| inside) else {
            return self.ln_fluid(carried, share) - self.spread.ln();
        };
        let (drift, beyond) = (at as usize, at.fract());
        let along = |row: &[f64; DRIFT_POINTS]| between(row[drift], row[drift + 1], beyond);
        between(along(&ln[low]), along(&ln[low + 1]), part) - self.spread.ln()
    }

    /// Returns the same in standard deviations for large drifts and delays: queues that are never
    /// empty, or run empty.
    fn ln_fluid(&self, carried: f64, share: f64) -> f64 {
        let kept = (1.0 - share).powi(self.series.queues as i32);
        let slope = (1.0 - kept) / share;
        // Of the noise of a queue, each of the later ones lets a share a pass less, so (1 - a)^k is
        // left behind k of them.
        let passed = (1.0 - share).powi(2);
        let variance = (1.0 - passed.powi(self.series.queues as i32)) / (1.0 - passed);
        let mean = (self.transition.from / self.spread + carried * slope).max(0.0);
        let off = self.transition.to / self.spread - mean;
        ln_density(off / variance.sqrt()) - variance.ln() / 2.0
    }
}

/// Returns the index of the point before `value`, and the part of the way to the next;
/// `None` beyond the last.
fn place(points: &[f64], value: f64) -> Option<(usize, f64)> {
    let next = points.partition_point(|point| *point <= value).clamp(1, points.len() - 1);
    let part = (value - points[next - 1]) / (points[next] - points[next - 1]);
    (part <= 1.0).then_some((next - 1, part))
}

/// Does the same for the points of [`second`].
fn place_second(value: f64) -> Option<(usize, f64)> {
    let at = match value {
        value if value < 1.0 => value * 10.0,
        value if value < 4.0 => 10.0 + (value - 1.0) * 5.0,
        value => 25.0 + (value - 4.0) * 2.0,
    };
    (at < (SECOND - 1) as f64).then_some((at as usize, at.fract()))
}

fn between(low: f64, high: f64, part: f64) -> f64 {
    low + part * (high - low)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::normal::Normal;
    use crate::reflected::Reflected;

    /// Returns the integral of the density over the second delay, and its mean.
    fn moments(series: Series, from: f64, drift: f64, share: f64) -> (f64, f64) {
        let step = 0.05;
        let (mut sum, mut mean) = (0.0, 0.0);
        for point in 0..600 {
            let to = (f64::from(point) + 0.5) * step;
            let density =
                series.slice(Transition { from, to, time: 1.0 }, 1.0).ln_density(drift, share).exp();
            sum += step * density;
            mean += step * density * to;
        }
        (sum, mean)
    }

    #[test]
    fn tables_are_complete() {
        for series in [TWO, FOUR] {
            assert_eq!(series.table.len(), SHARES.len() * FIRST.len() * DRIFT_POINTS * SECOND);
        }
    }

    #[test]
    fn densities_integrate_to_one() {
        for series in [TWO, FOUR] {
            for (from, drift, share) in [(0.0, -1.0, 0.5), (0.7, 0.3, 0.2), (2.5, 1.0, 0.8), (5.0, 2.0, 0.5)]
            {
                let (sum, _) = moments(series, from, drift, share);
                assert!((sum - 1.0).abs() < 0.05, "{series:?} {from} {drift} {share}: {sum}");
            }
        }
    }

    #[test]
    fn busy_queues_grow_with_the_sum_of_what_each_lets_pass() {
        // Two queues: 2 - a times the drift; four: (1 - (1 - a)^4) / a.
        let from = 8.0;
        for (series, share, slope) in [(TWO, 0.5, 1.5), (TWO, 0.9, 1.1), (FOUR, 0.5, 1.875)] {
            let (_, mean) = moments(series, from, 2.0, share);
            assert!((mean - from - 2.0 * slope).abs() < 0.25, "{series:?} {share}: {mean}");
        }
    }

    #[test]
    fn queues_below_what_is_available_add_up() {
        // With drift m below zero each queue has a mean of 1 / (2 |m|) once it is in equilibrium, which a
        // unit of time is enough for from there on.
        for (series, queues) in [(TWO, 2.0), (FOUR, 4.0)] {
            let each = 1.0 / (2.0 * 3.0);
            let (_, mean) = moments(series, queues * each, -3.0, 0.5);
            assert!((mean / (queues * each) - 1.0).abs() < 0.2, "{series:?}: {mean}");
        }
    }

    #[test]
    fn all_of_the_capacity_available_makes_queues_alike() {
        // Where hardly anything of the others enters, the second queue grows by what is left of the drift:
        // the density comes close to that of one queue with the same noise.
        let transition = Transition { from: 4.0, to: 7.0, time: 1.0 };
        let one = Reflected { drift: 3.0, variance: 1.0 }.ln_density(&transition, &Normal::new());
        let two = TWO.slice(transition, 1.0).ln_density(3.0, 0.9);
        assert!((one - two).abs() < 0.4, "{one} {two}");
    }

    #[test]
    fn a_hidden_delay_has_the_probability_of_all_delays_up_to_it() {
        let hidden = TWO.at_most(Transition { from: 0.5, to: 0.8, time: 1.0 }, 1.0).ln(-1.0, 0.5).exp();
        let step = 0.01;
        let to = |point: u32| Transition { from: 0.5, to: (f64::from(point) + 0.5) * step, time: 1.0 };
        let sum: f64 = (0..80).map(|point| step * TWO.exactly(to(point), 1.0).ln(-1.0, 0.5).exp()).sum();
        assert!((hidden / sum - 1.0).abs() < 0.05, "{hidden} {sum}");
    }
}
