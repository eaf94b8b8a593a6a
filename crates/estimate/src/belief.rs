//! Inference from streams at several rates on a path with any number of queues.
//!
//! On any path the delay begins to grow at the available bandwidth A. The slope of the growth reveals the
//! capacity of the tight link, which need not be the narrow one: a rate R makes the delay grow by (R - A) / C
//! of the tight link, and two queues that fill at the same time make it grow faster than either. [`Belief`]
//! therefore weighs combinations of A, that slope, the noise of the cross traffic, and the variation of its
//! rate from stream to stream, with [`Reflected`] as the likelihood of the delays, and [`Series`] where equal
//! queues are in series.

use headway_units::{Bytes, Rate};

use super::constants::constants;
use super::normal::Normal;
use super::reflected::{Reflected, Transition, ln_sum};
use super::series::{FOUR, Series, TWO};

/// Grid points for the available bandwidth per capacity of the narrow link.
const POINTS_PER_CAPACITY: usize = 100;
/// Grid points for the available bandwidth, up to 15 % above the capacity, because measured capacities are
/// up to 15 % low.
pub(crate) const POINTS: usize = 115;
/// Points below zero and above the highest, because a stream sees the cross traffic of
/// only a few milliseconds.
const MARGIN: usize = 20;
const STREAM_POINTS: usize = MARGIN + POINTS + MARGIN;

/// Capacity of the tight link as a multiple of the narrow link's. The first is a single queue; values below
/// one stand for several queues that fill together.
const TIGHT_RATIOS: [f64; 16] =
    [1.0, 0.55, 0.63, 0.73, 0.85, 1.17, 1.37, 1.6, 1.9, 2.2, 2.6, 3.2, 4.0, 5.2, 7.0, 10.0];
/// Equal queues in series, each as fast as the narrow link: further hypotheses after the ratios.
const SERIES: [Series; 2] = [TWO, FOUR];
const HYPOTHESES: usize = TIGHT_RATIOS.len() + SERIES.len();
/// The lowest multiple, with which the delay grows fastest.
const STEEPEST: f64 = TIGHT_RATIOS[1];
/// The highest multiple, with which the delay grows slowest.
const FLATTEST: f64 = TIGHT_RATIOS[TIGHT_RATIOS.len() - 1];
/// Segments sent faster than this are trains, which reveal nothing about the available bandwidth. Range:
/// times the capacity, from 1.15.
const FASTEST: f64 = 3.0;

constants! {
    /// What is believed before the first stream, and how far streams are believed.
    BELIEF: BeliefConstants {
        /// Prior weight of a single queue. Several equal queues are as likely as one: streams that tell them
        /// apart are rare, and a wrong exclusion costs a quarter of the answer.
        one_queue_prior: f64 = 0.8, "weight, from 0";
        /// Prior weights of two and of four equal queues in series. Double: error +0.8 points (shallow-bursty
        /// +35), held -3 points.
        series_priors: [f64; SERIES.len()] = [0.8, 0.4], "weights, from 0";
        /// Prior weight of all other ratios together. Double: bytes +5 %.
        others_prior: f64 = 0.4, "weight, from 0";
        /// Variance of the delay per unit of time: from smooth traffic to batches of 25 packets at full load.
        /// Half: error -0.6 points (tcp-several-links +9). Double: error +0.8 points (tcp-several-links +14).
        noise_range: [f64; 2] = [0.004, 50.0], "packet times of the narrow link, from 0";
        /// Standard deviations of the available bandwidth from stream to stream.
        stream_variation: [f64; VARIATIONS] = [0.0, 5.0, 15.0], "hundredths of the capacity, 0 to 20";
        /// Real queues are empty more often than reflected Brownian motion: a delay of zero counts as any
        /// delay up to this many times the variance per unit of time.
        empty: f64 = 1.0, "times, 0 to 4";
        /// Below this point the prior of the available bandwidth is flat; above it the prior is flat in the
        /// logarithm. Half: error -0.8 points (shallow-bursty +9).
        flat_below: f64 = 15.0, "hundredths of the capacity, from 1";
        /// Weight of the evidence of each stream: no model is exact.
        temper: f64 = 0.5, "exponent, 0 to 1";
        /// The same for the families of hypotheses. Half: error +0.5 points (tcp-several-links +21), bytes +8
        /// %. Double: held -6 points.
        family_temper: f64 = 0.85, "exponent, 0 to 1";
        /// Share of segments whose delay has nothing to do with the queue, for instance because a host held
        /// up their last packet. Half: error +1.0 points (shallow-bursty +17).
        stray_share: f64 = 0.01, "share, 0 to 0.1";
        /// Range of these stray delays. Double: error +1.0 points (shallow-bursty +17).
        stray_range: f64 = 50.0, "packet times, from 1";
        /// Spacing of the drifts between which the likelihood is interpolated.
        drift_step: f64 = 0.02, "seconds per second, 0.001 to 0.05";
    }
}

/// Index in [`TIGHT_RATIOS`] at which the tight link is the narrow one.
const ONE_QUEUE: usize = 0;
const NOISES: usize = 9;
const VARIATIONS: usize = 3;
/// Grid rows of [`POINTS`] each: all unknowns besides the available bandwidth.
const ROWS: usize = VARIATIONS * NOISES * HYPOTHESES;
/// Cells of the whole grid.
pub(crate) const CELLS: usize = ROWS * POINTS;
/// A row with less than this mass is ignored, because its inverse would be infinite.
const MIN_MASS: f64 = 1e-290;

/// A segment of a stream.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Segment {
    /// The rate at which it was actually sent: when a busy sender stalls and catches up, that must not
    /// look like cross traffic.
    pub(crate) rate: Rate,
    /// The delays at its two ends, in seconds.
    pub(crate) transition: Transition,
}

/// The posterior distribution over a grid.
#[derive(Clone, Debug)]
pub(crate) struct Belief {
    capacity: f64,
    packet_time: f64,
    normal: Normal,
    kernels: Vec<Vec<f64>>,
    /// Indexed by variation between streams, noise, tight link and available bandwidth.
    ln_likelihood: Vec<f64>,
    /// Scratch memory: each segment's likelihood over drifts, the stream's over available bandwidth, and one
    /// row of the grid.
    curves: Vec<Curve>,
    row: Vec<f64>,
    part: [f64; POINTS],
}

impl Belief {
    /// Creates the prior state for packets of this size and a narrow link of this capacity.
    pub(crate) fn new(packet: Bytes, capacity: Rate) -> Belief {
        let capacity = capacity.max(Rate::from_bps(1));
        Belief {
            capacity: capacity.bps_f64(),
            packet_time: capacity.time_for(packet).secs_f64().max(1e-9),
            normal: Normal::new(),
            kernels: BELIEF.stream_variation.iter().map(|sd| kernel(*sd)).collect(),
            ln_likelihood: vec![0.0; CELLS],
            curves: Vec::new(),
            row: vec![0.0; STREAM_POINTS],
            part: [0.0; POINTS],
        }
    }

    /// Discards all streams.
    pub(crate) fn clear(&mut self) {
        self.ln_likelihood.fill(0.0);
    }

    /// Adds the segments of a stream. `timestamp_variance` is what timestamps add to the variance of every
    /// segment, in square seconds.
    pub(crate) fn add(&mut self, segments: &[Segment], timestamp_variance: f64) {
        for noise in 0..NOISES {
            let variance = noise_at(noise) * self.packet_time;
            self.tabulate_curves(variance, segments, timestamp_variance);
            for (tight, &slope) in TIGHT_RATIOS.iter().enumerate() {
                let top = self.likelihoods(slope);
                self.add_to_grid(noise, tight, top);
            }
            for (number, series) in SERIES.into_iter().enumerate() {
                let top = self.likelihoods_in_series(series, variance, segments, timestamp_variance);
                self.add_to_grid(noise, TIGHT_RATIOS.len() + number, top);
            }
        }
    }

    /// Computes the likelihood of every available bandwidth during the stream where equal queues are in
    /// series, up to a factor; returns the factor's logarithm.
    fn likelihoods_in_series(
        &mut self,
        series: Series,
        variance: f64,
        segments: &[Segment],
        timestamp_variance: f64,
    ) -> f64 {
        let resolution = self.packet_time / 2.0;
        let stray = self.ln_stray();
        self.row.fill(0.0);
        for Segment { rate, transition } in segments {
            let rate = rate.bps_f64() / self.capacity;
            if rate > FASTEST {
                continue;
            }
            let variance = variance + timestamp_variance / transition.time;
            let hidden = transition.to <= resolution;
            let (seen, unit) = if hidden {
                let to = resolution.max(BELIEF.empty * variance);
                (series.at_most(Transition { to, ..*transition }, variance), 0.0)
            } else {
                (series.exactly(*transition, variance), resolution.ln())
            };
            for (point, value) in self.row.iter_mut().enumerate() {
                let free = available_at(point);
                *value += ln_sum(seen.ln(rate - free, free) + unit, stray);
            }
        }
        self.rescale_row()
    }

    /// Scales the row to a maximum of one and takes it out of the logarithm; returns the
    /// logarithm of the factor.
    fn rescale_row(&mut self) -> f64 {
        let top = self.row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        self.row.iter_mut().for_each(|value| *value = (*value - top).exp());
        top
    }

    /// Returns the logarithm of the density of delays that have nothing to do with the queue.
    fn ln_stray(&self) -> f64 {
        // Densities are per half a packet time.
        (BELIEF.stray_share / (2.0 * BELIEF.stray_range)).ln()
    }

    /// Computes the logarithm of each segment's likelihood as a function of the drift alone, which
    /// all tight links share.
    fn tabulate_curves(&mut self, variance: f64, segments: &[Segment], timestamp_variance: f64) {
        let resolution = self.packet_time / 2.0;
        let capacity = self.capacity;
        let segments = segments.iter().map(|segment| (segment.rate.bps_f64() / capacity, segment.transition));
        let telling = segments.filter(|(rate, _)| *rate <= FASTEST);
        let mut count = 0;
        let stray = self.ln_stray();
        for (rate, transition) in telling {
            if self.curves.len() == count {
                self.curves.push(Curve::default());
            }
            let variance = variance + timestamp_variance / transition.time;
            let empty = resolution.max(BELIEF.empty * variance);
            self.curves[count].tabulate(rate, |drift| {
                let motion = Reflected { drift, variance };
                let fits = if transition.to <= resolution {
                    motion.ln_at_most(&Transition { to: empty, ..transition }, &self.normal)
                } else {
                    motion.ln_density(&transition, &self.normal) + resolution.ln()
                };
                ln_sum(fits, stray)
            });
            count += 1;
        }
        self.curves.truncate(count);
    }

    /// Computes the likelihood of every available bandwidth during the stream, up to a factor; returns the
    /// factor's logarithm.
    fn likelihoods(&mut self, slope: f64) -> f64 {
        for (point, value) in self.row.iter_mut().enumerate() {
            *value = self.curves.iter().map(|curve| curve.at(available_at(point), slope)).sum();
        }
        self.rescale_row()
    }

    /// Adds the row to the grid, for every amount of variation between a stream's available
    /// bandwidth and the mean.
    fn add_to_grid(&mut self, noise: usize, hypothesis: usize, top: f64) {
        for (drifting, kernel) in self.kernels.iter().enumerate() {
            self.part.fill(0.0);
            let reach = kernel.len() as i64 / 2;
            for (weight, shift) in kernel.iter().zip(-reach..) {
                let first = MARGIN as i64 + shift;
                let skipped = (-first).max(0) as usize;
                let values = &self.row[first.max(0) as usize..];
                self.part[skipped..].iter_mut().zip(values).for_each(|(sum, value)| *sum += weight * value);
            }
            let start = ((drifting * NOISES + noise) * HYPOTHESES + hypothesis) * POINTS;
            let cells = &mut self.ln_likelihood[start..start + POINTS];
            for (cell, value) in cells.iter_mut().zip(&self.part) {
                *cell += BELIEF.temper * (value.max(1e-30).ln() + top);
            }
        }
    }

    /// Returns the log likelihood of all streams so far, in rows of [`POINTS`] each.
    pub(crate) fn ln_likelihood(&self) -> &[f64] {
        &self.ln_likelihood
    }

    /// Returns the probability that only one queue matters, and the unnormalized densities of the available
    /// bandwidth in either case; `odds` is other evidence for one queue.
    pub(crate) fn summary(&self, odds: f64) -> Summary {
        let mut summaries = summaries(&[&self.ln_likelihood], odds);
        summaries.pop().unwrap_or_else(Summary::empty)
    }
}

/// Returns the summaries of parts of a measurement that had different available bandwidths, with one path and
/// one noise for all; each part is given as the log likelihood of its streams.
pub(crate) fn summaries(parts: &[&[f64]], odds: f64) -> Vec<Summary> {
    let tops: Vec<f64> =
        parts.iter().map(|part| part.iter().copied().fold(f64::NEG_INFINITY, f64::max)).collect();
    let mut summaries = vec![Summary::empty(); parts.len()];
    let (mut one, mut series, mut others) = (0.0, 0.0, 0.0);
    let mut masses = vec![[0.0; POINTS]; parts.len()];
    for row in 0..ROWS {
        let hypothesis = row % HYPOTHESES;
        let one_queue = hypothesis == ONE_QUEUE;
        let prior = prior_of(hypothesis) * if one_queue { odds } else { 1.0 };
        let cells = row * POINTS..row * POINTS + points_of(row);
        let mut all = prior;
        for ((part, top), mass) in parts.iter().zip(&tops).zip(&mut masses) {
            let mut sum = 0.0;
            for (point, (mass, value)) in mass.iter_mut().zip(&part[cells.clone()]).enumerate() {
                // The prior is nearly flat in the logarithm. Otherwise, a tight link far above the narrow one
                // would make rates above all those probed likely.
                *mass = (value - top).exp() / (point as f64 + BELIEF.flat_below);
                sum += *mass;
            }
            all *= sum;
            let scale = if sum > MIN_MASS { 1.0 / sum } else { 0.0 };
            mass.iter_mut().for_each(|mass| *mass *= scale);
        }
        for (summary, mass) in summaries.iter_mut().zip(&masses) {
            let density = if one_queue { &mut summary.one } else { &mut summary.several };
            density.iter_mut().zip(&mass[..cells.len()]).for_each(|(sum, mass)| *sum += all * mass);
        }
        match hypothesis {
            ONE_QUEUE => one += all,
            _ if hypothesis < TIGHT_RATIOS.len() => others += all,
            _ => series += all,
        }
    }
    // No model is exact, so the weights of whole families are trusted less than those within a family.
    let [one, series, others] = [one, series, others].map(|weight: f64| weight.powf(BELIEF.family_temper));
    let total = one + series + others;
    if total > 0.0 {
        for summary in &mut summaries {
            (summary.one_queue, summary.series) = (one / total, series / total);
        }
    }
    summaries
}

/// Returns the prior weight of a hypothesis.
fn prior_of(hypothesis: usize) -> f64 {
    match hypothesis.checked_sub(TIGHT_RATIOS.len()) {
        Some(number) => BELIEF.series_priors[number],
        None if hypothesis == ONE_QUEUE => BELIEF.one_queue_prior,
        None => BELIEF.others_prior / (TIGHT_RATIOS.len() - 1) as f64,
    }
}

/// Returns the possible points of a row: the available bandwidth cannot exceed the capacity of queues that
/// fill together.
fn points_of(row: usize) -> usize {
    let ratio = TIGHT_RATIOS.get(row % HYPOTHESES).map_or(1.0, |ratio| ratio.min(1.0));
    (ratio * 1.15 * POINTS_PER_CAPACITY as f64) as usize
}

/// The combined result of all streams.
#[derive(Clone, Debug)]
pub(crate) struct Summary {
    /// Probability that only one queue matters.
    pub(crate) one_queue: f64,
    /// Probability that several equal queues are in series.
    pub(crate) series: f64,
    /// Density of the available bandwidth with one queue; points are hundredths of the
    /// narrow link's capacity.
    pub(crate) one: [f64; POINTS],
    /// The same with a different tight link or with several queues.
    pub(crate) several: [f64; POINTS],
}

impl Summary {
    fn empty() -> Summary {
        Summary { one_queue: BELIEF.one_queue_prior, series: 0.0, one: [0.0; POINTS], several: [0.0; POINTS] }
    }
}

/// A function of the drift, tabulated at even steps.
#[derive(Clone, Debug, Default)]
struct Curve {
    /// Rate of the segment as a share of the narrow link's capacity.
    rate: f64,
    slowest: f64,
    values: Vec<f64>,
}

impl Curve {
    /// Tabulates all drifts possible for a segment of this rate.
    fn tabulate(&mut self, rate: f64, value: impl Fn(f64) -> f64) {
        let drifts = |free: f64| ((rate - free) / STEEPEST, (rate - free) / FLATTEST);
        let ((a, b), (c, d)) = (drifts(available_at(STREAM_POINTS)), drifts(available_at(0)));
        let (slowest, fastest) = (a.min(b), c.max(d));
        self.rate = rate;
        self.slowest = slowest - 2.0 * BELIEF.drift_step;
        let points = ((fastest - self.slowest) / BELIEF.drift_step) as usize + 4;
        self.values.clear();
        self.values.extend((0..points).map(|point| value(self.slowest + point as f64 * BELIEF.drift_step)));
    }

    /// Returns the value at available bandwidth `free` when the tight link's capacity is `slope` times the
    /// narrow one's.
    fn at(&self, free: f64, slope: f64) -> f64 {
        cubic(&self.values, ((self.rate - free) / slope - self.slowest) / BELIEF.drift_step)
    }
}

/// Returns the available bandwidth at a point of a stream's own grid, as a fraction of the
/// narrow link's capacity.
fn available_at(point: usize) -> f64 {
    (point as f64 + 0.5 - MARGIN as f64) / POINTS_PER_CAPACITY as f64
}

/// Returns the cubic through the four values around `at`, which has at least one value before
/// it and two after it.
fn cubic(values: &[f64], at: f64) -> f64 {
    let index = (at as usize).clamp(1, values.len() - 3);
    let x = at - index as f64;
    let [a, b, c, d] = [values[index - 1], values[index], values[index + 1], values[index + 2]];
    b + 0.5 * x * (c - a + x * (2.0 * a - 5.0 * b + 4.0 * c - d + x * (3.0 * (b - c) + d - a)))
}

/// Returns the noise of a grid row in packet times; rows are spaced evenly in its logarithm.
fn noise_at(row: usize) -> f64 {
    let [low, high] = BELIEF.noise_range;
    low * (high / low).powf(row as f64 / (NOISES - 1) as f64)
}

/// Returns normal weights around the middle that sum to one.
fn kernel(sd: f64) -> Vec<f64> {
    let reach = (2.5 * sd).ceil() as i64;
    let weights: Vec<f64> =
        (-reach..=reach).map(|x| (-0.5 * (x as f64 / sd.max(1e-9)).powi(2)).exp()).collect();
    let sum: f64 = weights.iter().sum();
    weights.iter().map(|weight| weight / sum).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Simulates 18 streams of 30 ms over a link with 40 of 100 Mb/s available, whose queue is served
    /// `tight` times as fast.
    fn seen(tight: f64, noise: f64) -> Summary {
        let mut belief = Belief::new(Bytes::new(1_250), Rate::from_mbps(100.0));
        for (index, rate) in [0.35, 0.45, 0.5, 0.6, 0.7, 0.8].into_iter().cycle().take(18).enumerate() {
            let mut delay = 0.5e-3;
            let segments: Vec<Segment> = (0..3)
                .map(|part| {
                    let from = delay;
                    let off = [0.0, noise, -noise][(index + part) % 3];
                    delay = f64::max(0.0, delay + 10e-3 * (rate - 0.4) / tight + off);
                    let transition = Transition { from, to: delay, time: 10e-3 };
                    Segment { rate: Rate::from_mbps(100.0 * rate), transition }
                })
                .collect();
            belief.add(&segments, 0.0);
        }
        belief.summary(1.0)
    }

    fn mean(density: &[f64; POINTS]) -> f64 {
        let weighted: f64 = density.iter().enumerate().map(|(point, mass)| (point as f64 + 0.5) * mass).sum();
        weighted / density.iter().sum::<f64>() / POINTS_PER_CAPACITY as f64
    }

    #[test]
    fn one_queue_is_believed_where_the_delay_grows_as_its_capacity_says() {
        let summary = seen(1.0, 0.1e-3);
        assert!(summary.one_queue > 0.9, "{}", summary.one_queue);
        assert!((mean(&summary.one) - 0.4).abs() < 0.02, "{}", mean(&summary.one));
    }

    #[test]
    fn another_tight_link_is_told_by_its_slope_and_does_not_move_what_is_free() {
        for tight in [0.7, 1.8, 3.0] {
            let summary = seen(tight, 0.1e-3);
            assert!(summary.one_queue < 0.1, "{tight}: {}", summary.one_queue);
            assert!((mean(&summary.several) - 0.4).abs() < 0.03, "{tight}: {}", mean(&summary.several));
        }
    }

    #[test]
    fn one_stray_delay_does_not_decide() {
        let mut belief = Belief::new(Bytes::new(1_250), Rate::from_mbps(100.0));
        for number in 0..30 {
            let rate = 0.3 + 0.02 * f64::from(number % 15);
            let grown = 10e-3 * (rate - 0.4).max(0.0);
            let stray = if number == 3 { 3e-3 } else { 0.0 };
            let segment = |from, to| Segment {
                rate: Rate::from_mbps(100.0 * rate),
                transition: Transition { from, to, time: 10e-3 },
            };
            belief.add(&[segment(0.0, grown + stray), segment(grown + stray, 2.0 * grown)], 0.0);
        }
        let summary = belief.summary(1.0);
        assert!(summary.one_queue > 0.9, "{}", summary.one_queue);
        assert!((mean(&summary.one) - 0.4).abs() < 0.02, "{}", mean(&summary.one));
    }

    #[test]
    fn noise_leaves_open_what_it_hides() {
        let spread = |noise| {
            let summary = seen(3.0, noise);
            let middle = mean(&summary.several) * POINTS_PER_CAPACITY as f64;
            let total: f64 = summary.several.iter().sum();
            let squares = summary
                .several
                .iter()
                .enumerate()
                .map(|(point, mass)| mass * (point as f64 + 0.5 - middle).powi(2));
            (squares.sum::<f64>() / total).sqrt()
        };
        assert!(spread(1.5e-3) > 3.0 * spread(0.1e-3), "{} {}", spread(1.5e-3), spread(0.1e-3));
    }
}
