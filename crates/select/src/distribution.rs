//! What is thought of a rate: a probability for each of some hundred rates.

use headway_units::Rate;

/// The lowest rate that differs from lower ones, in bit/s. Range 1e4 to 1e6: less is no use to a transfer.
const LOWEST: f64 = 1e5;
/// Ratio of neighbouring rates: a few of them make up the usual tolerance. Range 1.01 to 1.1.
pub(crate) const STEP: f64 = 1.04;
/// Number of rates from [`LOWEST`] to about [`FASTEST`].
pub(crate) const POINTS: usize = 353;
/// The highest rate that differs from higher ones: no path between hosts has more.
pub(crate) const FASTEST: Rate = Rate::from_bps(100_000_000_000);

/// Probabilities of rates, equally far apart in the logarithm.
#[derive(Clone, Debug, PartialEq)]
pub struct Distribution {
    mass: Vec<f64>,
}

impl Distribution {
    /// Creates one in proportion to weights of rates in bit/s; without any, all rates are equally likely.
    pub(crate) fn of(weight: impl Fn(f64) -> f64) -> Distribution {
        let mut one = Distribution { mass: (0..POINTS).map(|point| weight(rate_at(point))).collect() };
        one.normalize();
        one
    }

    fn normalize(&mut self) {
        let sum: f64 = self.mass.iter().sum();
        if sum > 0.0 && sum.is_finite() {
            self.mass.iter_mut().for_each(|mass| *mass /= sum);
        } else {
            self.mass.fill(1.0 / POINTS as f64);
        }
    }

    /// Returns the probabilities, from the lowest rate to the highest.
    pub(crate) fn mass(&self) -> &[f64] {
        &self.mass
    }

    /// Returns the mixture with `other`, which has this share.
    pub(crate) fn mixed(&self, other: &Distribution, share: f64) -> Distribution {
        let mix = |(one, other): (&f64, &f64)| (1.0 - share) * one + share * other;
        Distribution { mass: self.mass.iter().zip(&other.mass).map(mix).collect() }
    }

    /// Returns the distribution after evidence, given as likelihoods of the rates, and how likely that was.
    pub(crate) fn given(&self, likelihood: &[f64]) -> (Distribution, f64) {
        let mass: Vec<f64> =
            self.mass.iter().zip(likelihood).map(|(mass, likelihood)| mass * likelihood).collect();
        let sum = mass.iter().sum();
        let mut after = Distribution { mass };
        after.normalize();
        (after, sum)
    }

    /// Returns the distribution of what follows from rates: `values` has it for each of them, ascending.
    pub(crate) fn mapped(&self, values: &[f64]) -> Distribution {
        let mut mapped = Distribution { mass: vec![0.0; POINTS] };
        for (mass, value) in self.mass.iter().zip(values) {
            let at = position(*value);
            let (below, part) = (at as usize, at.fract());
            mapped.mass[below] += mass * (1.0 - part);
            mapped.mass[(below + 1).min(POINTS - 1)] += mass * part;
        }
        mapped
    }

    /// Spreads every rate over its neighbours, with a variance of `steps` squared steps.
    pub(crate) fn blur(&mut self, steps: f64) {
        /// More would not be positive definite.
        const MOST: f64 = 0.5;
        let mut left = steps.min(20.0 * MOST);
        while left > 1e-9 {
            let part = left.min(MOST) / 2.0;
            left -= MOST;
            let before = self.mass.clone();
            for (point, mass) in self.mass.iter_mut().enumerate() {
                let below = before[point.saturating_sub(1)];
                let above = before[(point + 1).min(POINTS - 1)];
                *mass = (1.0 - 2.0 * part) * before[point] + part * (below + above);
            }
        }
    }

    /// Returns the mean in bit/s.
    pub fn mean(&self) -> Rate {
        Rate::from_bps_f64(self.mass.iter().enumerate().map(|(point, mass)| mass * rate_at(point)).sum())
    }

    /// Returns the rate below which the truth lies with probability `part`.
    pub fn quantile(&self, part: f64) -> Rate {
        let mut sum = 0.0;
        for (point, mass) in self.mass.iter().enumerate() {
            if sum + mass >= part && *mass > 0.0 {
                let within = (part - sum) / mass - 0.5;
                return Rate::from_bps_f64(LOWEST * STEP.powf(point as f64 + within));
            }
            sum += mass;
        }
        Rate::from_bps_f64(rate_at(POINTS - 1))
    }

    /// Returns the median with both ends of the 90 % interval.
    pub fn interval(&self) -> [Rate; 3] {
        [0.5, 0.05, 0.95].map(|part| self.quantile(part))
    }

    /// Returns the probability of a rate above `rate`.
    pub fn above(&self, rate: Rate) -> f64 {
        1.0 - below(&self.cumulative(), position(rate.bps_f64()))
    }

    /// Returns the probability that this rate is more than `factor` times the other, if they do not
    /// depend on each other.
    pub fn exceeds(&self, other: &Distribution, factor: f64) -> f64 {
        let sums = other.cumulative();
        let shift = factor.max(1e-6).ln() / STEP.ln();
        let part = |(point, mass): (usize, &f64)| mass * below(&sums, point as f64 - shift);
        self.mass.iter().enumerate().map(part).sum()
    }

    /// Returns the probability of all rates below each one, and of all.
    fn cumulative(&self) -> Vec<f64> {
        let mut sum = 0.0;
        let mut sums = Vec::with_capacity(POINTS + 1);
        sums.push(0.0);
        for mass in &self.mass {
            sum += mass;
            sums.push(sum);
        }
        sums
    }

    /// Returns the distribution if the truth lies between two points, and how likely that is.
    pub(crate) fn between(&self, from: usize, to: usize) -> (Distribution, f64) {
        let mut part = Distribution { mass: vec![0.0; POINTS] };
        part.mass[from..to].copy_from_slice(&self.mass[from..to]);
        let sum: f64 = part.mass.iter().sum();
        part.normalize();
        (part, sum)
    }
}

/// Returns the rate of a point in bit/s.
pub(crate) fn rate_at(point: usize) -> f64 {
    LOWEST * STEP.powi(point as i32)
}

/// Returns the point of a rate, with fractions; within the range.
pub(crate) fn position(bps: f64) -> f64 {
    ((bps.max(1.0) / LOWEST).ln() / STEP.ln()).clamp(0.0, (POINTS - 1) as f64)
}

/// Returns the probability below a position, each point being as wide as the distance to the next.
fn below(sums: &[f64], position: f64) -> f64 {
    let at = (position + 0.5).clamp(0.0, POINTS as f64);
    let whole = (at as usize).min(POINTS - 1);
    sums[whole] + (at - whole as f64) * (sums[whole + 1] - sums[whole])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(mbps: f64) -> Distribution {
        Distribution::of(|bps| (-0.5 * ((bps / 1e6 / mbps).ln() / 0.03).powi(2)).exp())
    }

    #[test]
    fn odds_follow_the_distance_in_tolerances() {
        assert!(at(60.0).exceeds(&at(40.0), 1.1) > 0.999);
        assert!(at(40.0).exceeds(&at(60.0), 1.1) < 0.001);
        let even = at(44.0).exceeds(&at(40.0), 1.1);
        assert!((even - 0.5).abs() < 0.02, "{even}");
        assert!((at(40.0).quantile(0.5).mbps() - 40.0).abs() < 0.3);
        assert!((at(40.0).above(Rate::from_mbps(40.0)) - 0.5).abs() < 0.02);
    }

    #[test]
    fn blurring_keeps_the_sum_and_widens() {
        let mut wide = at(40.0);
        wide.blur(9.0);
        assert!((wide.mass().iter().sum::<f64>() - 1.0).abs() < 1e-9);
        let width = |one: &Distribution| one.quantile(0.95).mbps() - one.quantile(0.05).mbps();
        assert!(width(&wide) > 2.0 * width(&at(40.0)));
    }
}
