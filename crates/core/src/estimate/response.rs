//! The rate-response estimator: what is free, from how fast the one-way delay grows.
//!
//! A stream that is sent at rate R for a time T into a FIFO link of capacity C with available
//! bandwidth A < R makes the queue, and with it the one-way delay, grow by T * (R - A) / C. So
//!
//! ```text
//! A = R - C * rho,        rho = (time to receive - time to send) / time to send
//! ```
//!
//! and because R is kept near A the term with rho is small: an error in C hardly matters. One
//! stream sees the cross traffic of its own few milliseconds only, so its A is a sample with a
//! spread that shrinks with its duration. A stream during which the queue ran empty saw less
//! cross traffic than it could have carried; its value is a lower bound (a *censored* sample).
//! [`Posterior`] combines both kinds into a mean and a credible interval, as in Tobit regression.
//!
//! Rate-response curves are the idea of TOPP and BART; the sums over complete buffering events
//! that feed rho come from BASS and PRC-MT (rapid 2.9, 2.17).

use crate::units::{Duration, Rate};

/// What one stream says about the available bandwidth.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sample {
    /// R - C * rho, at most the capacity; negative when cross traffic alone exceeded the capacity, in bit/s.
    pub available_bps: f64,
    /// How long the stream took to send.
    pub duration: Duration,
    /// The queue ran empty during the stream, so at least `available_bps` was free.
    pub censored: bool,
}

/// Points of the grid over the available bandwidth, from just above zero to the capacity.
const RATE_POINTS: usize = 200;
/// Points of the grid over the spread of the cross traffic.
const SPREAD_POINTS: usize = 40;
/// Spread of the cross-traffic rate over [`REFERENCE`], lowest and highest considered, as a share of capacity.
const SPREAD_RANGE: (f64, f64) = (0.002, 2.0);
/// The duration for which the spread grid holds; the spread of other durations follows 1 / sqrt(duration).
const REFERENCE: Duration = Duration::from_ms(10);
/// Error of one sample that does not shrink with its duration (stamps, coalescing), as a share of capacity.
const SAMPLE_NOISE: f64 = 0.01;
/// Error common to all samples (capacity, headers not accounted for), as a share of capacity: the
/// interval is never narrower than this on either side.
const COMMON_ERROR: f64 = 0.015;

/// The available bandwidth's posterior distribution over a grid, with a flat prior up to the capacity.
#[derive(Clone, Debug)]
pub struct Posterior {
    capacity_bps: f64,
    log_likelihood: Vec<f64>,
}

/// A central estimate with its 90 % interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Credible {
    /// The 5 % quantile.
    pub low: Rate,
    /// The median.
    pub median: Rate,
    /// The 95 % quantile.
    pub high: Rate,
}

impl Posterior {
    /// The state before any sample, for a link of `capacity` (taken as at least 1 b/s).
    pub fn new(capacity: Rate) -> Posterior {
        Posterior {
            capacity_bps: capacity.bps_f64().max(1.0),
            log_likelihood: vec![0.0; RATE_POINTS * SPREAD_POINTS],
        }
    }

    /// Takes one more sample into account.
    pub fn add(&mut self, sample: &Sample) {
        let seconds = sample.duration.secs_f64().max(1e-9);
        let scale = REFERENCE.secs_f64() / seconds;
        let value = sample.available_bps / self.capacity_bps;
        for (row, likelihoods) in self.log_likelihood.chunks_exact_mut(RATE_POINTS).enumerate() {
            let spread = (spread_at(row).powi(2) * scale + SAMPLE_NOISE.powi(2)).sqrt();
            for (point, likelihood) in likelihoods.iter_mut().enumerate() {
                let z = (rate_at(point) - value) / spread;
                *likelihood += if sample.censored { ln_normal_cdf(z) } else { -0.5 * z * z - spread.ln() };
            }
        }
    }

    /// The median and the 90 % interval, the common error included.
    pub fn credible(&self) -> Credible {
        let top = self.log_likelihood.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let mut density = [0.0; RATE_POINTS];
        for row in self.log_likelihood.chunks_exact(RATE_POINTS) {
            for (sum, likelihood) in density.iter_mut().zip(row) {
                *sum += (likelihood - top).exp();
            }
        }
        let median = quantile(&density, 0.5);
        let widen = |q: f64| (COMMON_ERROR.powi(2) + (q - median).powi(2)).sqrt();
        let rate = |share: f64| Rate::from_bps_f64(share * self.capacity_bps);
        Credible {
            low: rate(median - widen(quantile(&density, 0.05))),
            median: rate(median),
            high: rate(median + widen(quantile(&density, 0.95))),
        }
    }
}

/// The available bandwidth of a grid point as a share of capacity.
fn rate_at(point: usize) -> f64 {
    (point as f64 + 0.5) / RATE_POINTS as f64
}

/// The spread of a grid row as a share of capacity; rows are evenly spaced in its logarithm.
fn spread_at(row: usize) -> f64 {
    let (low, high) = SPREAD_RANGE;
    low * (high / low).powf(row as f64 / (SPREAD_POINTS - 1) as f64)
}

/// Where the cumulated `density` reaches `share`, each point standing for one cell of the grid.
fn quantile(density: &[f64; RATE_POINTS], share: f64) -> f64 {
    let mut left = share * density.iter().sum::<f64>();
    for (point, mass) in density.iter().enumerate() {
        if left <= *mass && *mass > 0.0 {
            return (point as f64 + left / mass) / RATE_POINTS as f64;
        }
        left -= mass;
    }
    1.0
}

/// The logarithm of the standard normal distribution function, to about 1e-3 absolute.
///
/// Abramowitz and Stegun 26.2.17 near zero; two terms of the asymptotic series where that loses its digits.
fn ln_normal_cdf(z: f64) -> f64 {
    if z < -5.0 {
        let inverse_square = 1.0 / (z * z);
        return -0.5 * z * z - (-z).ln() - 0.918_938_533_204_672_7
            + (-inverse_square * (1.0 - 3.0 * inverse_square)).ln_1p();
    }
    let t = 1.0 / (1.0 + 0.231_641_9 * z.abs());
    let poly = t
        * (0.319_381_530
            + t * (-0.356_563_782 + t * (1.781_477_937 + t * (-1.821_255_978 + t * 1.330_274_429))));
    let tail = (-0.5 * z * z).exp() * 0.398_942_280_401_432_7 * poly;
    if z < 0.0 { tail.ln() } else { (-tail).ln_1p() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(mbps: f64, censored: bool) -> Sample {
        Sample { available_bps: mbps * 1e6, duration: Duration::from_ms(10), censored }
    }

    #[test]
    fn equal_samples_give_their_value_and_the_common_error() {
        let mut posterior = Posterior::new(Rate::from_mbps(100.0));
        for _ in 0..12 {
            posterior.add(&sample(40.0, false));
        }
        let credible = posterior.credible();
        assert!((credible.median.mbps() - 40.0).abs() < 0.3, "{credible:?}");
        assert!(credible.low.mbps() < 38.6 && credible.low.mbps() > 36.0, "{credible:?}");
        assert!(credible.high.mbps() > 41.4 && credible.high.mbps() < 44.0, "{credible:?}");
    }

    #[test]
    fn censored_samples_pull_the_estimate_up_and_never_down() {
        let plain = [30.0, 34.0, 38.0, 42.0, 46.0, 50.0];
        let median = |censored_from: f64| {
            let mut posterior = Posterior::new(Rate::from_mbps(100.0));
            for mbps in plain {
                posterior.add(&sample(mbps, mbps >= censored_from));
            }
            posterior.credible().median
        };
        assert!((median(f64::INFINITY).mbps() - 40.0).abs() < 1.0);
        assert!(median(46.0) > median(f64::INFINITY));
    }

    #[test]
    fn only_lower_bounds_leave_everything_above_them_possible() {
        let mut posterior = Posterior::new(Rate::from_mbps(100.0));
        for _ in 0..5 {
            posterior.add(&sample(60.0, true));
        }
        let credible = posterior.credible();
        assert!(credible.low.mbps() > 50.0 && credible.high.mbps() > 90.0, "{credible:?}");
    }

    #[test]
    fn normal_cdf_logarithm_matches_known_values() {
        for (z, expected) in
            [(0.0, -std::f64::consts::LN_2), (1.0, -0.172_753_8), (-2.0, -3.783_184_3), (-6.0, -20.736_769)]
        {
            assert!((ln_normal_cdf(z) - expected).abs() < 2e-3, "{z}: {}", ln_normal_cdf(z));
        }
    }
}
