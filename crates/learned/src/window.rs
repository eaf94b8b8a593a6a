//! What a model sees of a window of samples, each the rate between two ACKs of a TCP connection: features,
//! and statistics that say whether the window is like those it was trained on.
//!
//! Rates are in bits per second on the wire, in ascending order. For a classifier they are those that remain
//! without outliers (wan 2.10), for a density all that a window has.

use headway_units::statistics;
use rand::{RngExt as _, SeedableRng as _};
use rand_distr::StandardNormal;
use rand_pcg::Pcg64Mcg;

/// Bins of a histogram, and values of a density (wan 2.11, 2.13).
pub const VALUES: usize = 10;

/// The smallest bandwidth of a density, as a share of the unit: equal samples have no spread.
const LEAST_BANDWIDTH: f64 = 1e-4;
/// The largest value of a feature that is kept: samples may be far above a unit.
const MOST: f64 = 1e9;

/// Writes the shares of the samples in each tenth of the range from 0 to `capacity` into `out`; what is above
/// it counts in the last (wan 2.11). All are 0 without samples.
pub fn histogram(rates: &[f32], capacity_bps: f64, out: &mut Vec<f32>) {
    let all = rates.len().max(1) as f64;
    let mut below = 0;
    out.clear();
    out.extend((1..=VALUES).map(|bin| {
        // Counted again for every bin, without a branch or a division for each sample.
        let end = (capacity_bps / VALUES as f64 * bin as f64) as f32;
        let until = if bin == VALUES { rates.len() as u32 } else { number_below(rates, end) };
        let count = until - below;
        below = until;
        (f64::from(count) / all) as f32
    }));
}

fn number_below(rates: &[f32], end: f32) -> u32 {
    rates.iter().map(|rate| u32::from(*rate < end)).sum()
}

/// Returns the sum, in parts that do not wait for each other.
fn sum(rates: &[f32]) -> f64 {
    let (parts, rest) = rates.as_chunks::<8>();
    let mut sums = [0.0; 8];
    for part in parts {
        sums.iter_mut().zip(part).for_each(|(sum, rate)| *sum += f64::from(*rate));
    }
    sums.iter().sum::<f64>() + rest.iter().map(|rate| f64::from(*rate)).sum::<f64>()
}

/// Returns the bandwidth of the kernels: `factor` times the standard deviation of the samples over `unit`.
fn bandwidth(rates: &[f32], unit_bps: f64, factor: f64, values: &mut Vec<f64>) -> f64 {
    values.clear();
    values.extend(rates.iter().map(|rate| (f64::from(*rate) / unit_bps).min(MOST)));
    (factor * sample_deviation(values)).max(LEAST_BANDWIDTH)
}

/// Returns the square root of the unbiased variance, as SciPy's density estimates use; 0 with
/// fewer than two values.
fn sample_deviation(values: &[f64]) -> f64 {
    let mean = values.iter().sum::<f64>() / values.len().max(1) as f64;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    (squares / values.len().saturating_sub(1).max(1) as f64).sqrt()
}

/// Memory for the features of windows, kept between them.
#[derive(Clone, Debug, Default)]
pub struct Scratch {
    values: Vec<f64>,
}

impl Scratch {
    pub(crate) fn memory(&self) -> usize {
        self.values.capacity() * size_of::<f64>()
    }
}

/// Writes ten values drawn from the density of the samples into `out`, in ascending order (wan 2.13): a
/// sample over `unit_bps` plus normal noise of `factor` times the standard deviation of all, clipped to 0
/// to 1. The same samples give the same values.
///
/// All are 0 without samples.
pub fn density_draws(rates: &[f32], unit_bps: f64, factor: f64, scratch: &mut Scratch, out: &mut Vec<f32>) {
    out.clear();
    if rates.is_empty() {
        out.resize(VALUES, 0.0);
        return;
    }
    let width = bandwidth(rates, unit_bps, factor, &mut scratch.values);
    let mut random = Pcg64Mcg::seed_from_u64(seed(rates));
    for _ in 0..VALUES {
        let sample = scratch.values[random.random_range(0..rates.len() as u32) as usize];
        let noise: f64 = random.sample(StandardNormal);
        out.push((sample + width * noise).clamp(0.0, 1.0) as f32);
    }
    out.sort_unstable_by(f32::total_cmp);
}

/// Returns a number that depends on every sample (FNV-1a over their bits).
fn seed(rates: &[f32]) -> u64 {
    let add = |hash: u64, rate: &f32| (hash ^ u64::from(rate.to_bits())).wrapping_mul(0x0100_0000_01b3);
    rates.iter().fold(0xcbf2_9ce4_8422_2325, add)
}

/// Writes the density of the samples at 0.05, 0.15 .. 0.95 of `unit_bps` into `out`: the mean of Gaussian
/// kernels whose standard deviation is `factor` times that of the samples (wan 2.13, the alternative). All
/// are 0 without samples.
pub fn density_heights(rates: &[f32], unit_bps: f64, factor: f64, scratch: &mut Scratch, out: &mut Vec<f32>) {
    let width = bandwidth(rates, unit_bps, factor, &mut scratch.values);
    let peak = 1.0 / (width * std::f64::consts::TAU.sqrt() * rates.len().max(1) as f64);
    let height = |place: usize| {
        let at = (place as f64 + 0.5) / VALUES as f64;
        let kernel = |value: &f64| (-0.5 * ((value - at) / width).powi(2)).exp();
        (peak * scratch.values.iter().map(kernel).sum::<f64>()) as f32
    };
    out.clear();
    out.extend((0..VALUES).map(height));
}

/// A number that says what a window is like.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Statistic {
    /// Decimal logarithm of the capacity in Gb/s.
    LogCapacity,
    /// Decimal logarithm of the number of samples.
    LogSamples,
    /// Mean of the samples over the capacity.
    Mean,
    /// Third quartile less first quartile, over the capacity.
    QuartileRange,
    /// Share of the samples above the capacity.
    AboveCapacity,
}

impl Statistic {
    /// All statistics, in the order of [`statistics`].
    pub const ALL: [Statistic; 5] = [
        Statistic::LogCapacity,
        Statistic::LogSamples,
        Statistic::Mean,
        Statistic::QuartileRange,
        Statistic::AboveCapacity,
    ];

    /// Returns the name in files.
    pub const fn name(self) -> &'static str {
        match self {
            Statistic::LogCapacity => "log10-capacity-gbps",
            Statistic::LogSamples => "log10-samples",
            Statistic::Mean => "mean-over-capacity",
            Statistic::QuartileRange => "quartile-range-over-capacity",
            Statistic::AboveCapacity => "share-above-capacity",
        }
    }
}

/// Returns the statistics of a window in the order of [`Statistic::ALL`]; all are finite where the rates are.
/// `rates` are ascending.
pub fn statistics(rates: &[f32], capacity_bps: f64) -> [f64; Statistic::ALL.len()] {
    let capacity = capacity_bps.max(1.0);
    let count = rates.len().max(1) as f64;
    let quartile = |part| statistics::quantile(rates, part).unwrap_or(0.0);
    let above = rates.len() - rates.partition_point(|rate| f64::from(*rate) <= capacity);
    [
        (capacity / 1e9).log10(),
        count.log10(),
        sum(rates) / count / capacity,
        (quartile(0.75) - quartile(0.25)) / capacity,
        above as f64 / count,
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_histogram_has_the_shares_of_each_tenth_of_the_capacity() {
        let mut out = Vec::new();
        histogram(&[0.0, 9.9e6, 10e6, 55e6, 99e6, 100e6, 900e6, 900e6], 100e6, &mut out);
        assert_eq!(out, [0.25, 0.125, 0.0, 0.0, 0.0, 0.125, 0.0, 0.0, 0.0, 0.5]);
        histogram(&[], 100e6, &mut out);
        assert_eq!(out, [0.0; 10]);
    }

    #[test]
    fn the_same_samples_give_the_same_draws_and_they_follow_the_density() {
        let (mut scratch, mut out, mut again) = (Scratch::default(), Vec::new(), Vec::new());
        let rates: Vec<f32> = (0..40).map(|k| 30e6 + 1e6 * k as f32).collect();
        density_draws(&rates, 100e6, 0.2, &mut scratch, &mut out);
        density_draws(&rates, 100e6, 0.2, &mut scratch, &mut again);
        assert_eq!((out.len(), &out), (10, &again));
        assert!(out.is_sorted() && out.iter().all(|value| (0.2..0.8).contains(value)), "{out:?}");
        density_draws(&rates[1..], 100e6, 0.2, &mut scratch, &mut again);
        assert_ne!(out, again);
        density_draws(&[900e6; 4], 100e6, 0.2, &mut scratch, &mut out);
        assert_eq!(out, [1.0; 10]);
    }

    #[test]
    fn heights_are_those_of_the_definition() {
        let (mut scratch, mut out) = (Scratch::default(), Vec::new());
        // Two samples 0.2 apart: their standard deviation is 0.1 * sqrt 2, and the bandwidth half of that.
        density_heights(&[40e6, 60e6], 100e6, 0.5, &mut scratch, &mut out);
        let width = 0.05 * 2f64.sqrt();
        let normal = |x: f64| (-0.5 * (x / width).powi(2)).exp() / (width * std::f64::consts::TAU.sqrt());
        let expected = (normal(0.05) + normal(0.15)) / 2.0;
        assert!((f64::from(out[4]) - expected).abs() < 1e-6, "{out:?}");
        assert_eq!(out[4], out[5]);
    }

    #[test]
    fn statistics_are_relative_to_the_capacity() {
        let found = statistics(&[20e6, 40e6, 60e6, 80e6, 150e6], 100e6);
        let expected = [-1.0, 5f64.log10(), 0.7, 0.4, 0.2];
        assert!(found.iter().zip(expected).all(|(one, other)| (one - other).abs() < 1e-12), "{found:?}");
    }

    proptest! {
        #[test]
        fn features_and_statistics_are_finite(
            mut rates in prop::collection::vec(0f32..1e15, 0..50), capacity in 1.0..1e12f64,
        ) {
            rates.sort_unstable_by(f32::total_cmp);
            let (mut scratch, mut out) = (Scratch::default(), Vec::new());
            histogram(&rates, capacity, &mut out);
            prop_assert!(rates.is_empty() || (out.iter().sum::<f32>() - 1.0).abs() < 1e-5);
            for density in [density_draws, density_heights] {
                density(&rates, capacity, 0.2, &mut scratch, &mut out);
                prop_assert!(out.len() == VALUES && out.iter().all(|one| one.is_finite()), "{:?}", out);
            }
            prop_assert!(statistics(&rates, capacity).iter().all(|one| one.is_finite()));
        }
    }
}
