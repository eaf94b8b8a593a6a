//! Random variates, bit-identical on every machine: only `+ - * /`, `sqrt` and `libm` are used.

use std::sync::LazyLock;

use rand::Rng;
use rand_pcg::Pcg64Mcg;

/// The resolution of uniform numbers: that of a float just below 1.
const STEP: f64 = 1.0 / (1u64 << 53) as f64;

/// Returns a uniform number from (0, 1], in steps of 2^-53; never zero, so that its logarithm exists.
pub fn uniform(rng: &mut Pcg64Mcg) -> f64 {
    ((rng.next_u64() >> 11) + 1) as f64 * STEP
}

/// Returns a uniform number from (`low`, `high`].
pub fn between(rng: &mut Pcg64Mcg, low: f64, high: f64) -> f64 {
    low + (high - low) * uniform(rng)
}

/// Layers of equal area under the exponential density, for Marsaglia and Tsang's ziggurat (2000). 98 of 100
/// draws need only a multiplication, where a logarithm would take several times as long.
struct Ziggurat {
    /// Right ends of the layers, from the base up; the first is the width that the base would
    /// have without the tail.
    ends: [f64; LAYERS + 1],
    /// The density at the ends.
    density: [f64; LAYERS + 1],
}

const LAYERS: usize = 256;
/// Right end of the base with 256 layers.
const BASE: f64 = 7.697_117_470_131_487;

static ZIGGURAT: LazyLock<Ziggurat> = LazyLock::new(|| {
    // The base consists of a rectangle and the tail, whose area is e^-BASE.
    let area = (BASE + 1.0) * libm::exp(-BASE);
    let mut ends = [0.0; LAYERS + 1];
    ends[0] = area / libm::exp(-BASE);
    ends[1] = BASE;
    for layer in 2..LAYERS {
        let below = ends[layer - 1];
        ends[layer] = -libm::log(area / below + libm::exp(-below));
    }
    Ziggurat { ends, density: ends.map(|end| libm::exp(-end)) }
});

/// Returns an exponential variate with mean 1.
pub fn exponential(rng: &mut Pcg64Mcg) -> f64 {
    let Ziggurat { ends, density } = &*ZIGGURAT;
    loop {
        // The lowest bits choose the layer, the highest 53 the position in it.
        let bits = rng.next_u64();
        let layer = bits as usize % LAYERS;
        let value = (bits >> 11) as f64 * STEP * ends[layer];
        if value < ends[layer + 1] {
            return value;
        }
        if layer == 0 {
            return BASE - libm::log(uniform(rng));
        }
        let height = density[layer] + (density[layer + 1] - density[layer]) * uniform(rng);
        if height < libm::exp(-value) {
            return value;
        }
    }
}

/// A geometric distribution on 1, 2, 3 and so on.
#[derive(Clone, Debug)]
pub struct Geometric {
    /// -1 / ln(1 - 1 / mean); zero if the mean is 1.
    steps: f64,
}

impl Geometric {
    /// Creates a distribution with this mean; means below 1 become 1.
    pub(crate) fn with_mean(mean: f64) -> Geometric {
        let steps = if mean > 1.0 { -1.0 / libm::log1p(-1.0 / mean) } else { 0.0 };
        Geometric { steps }
    }

    /// Draws a value; a mean of 1 consumes no random number.
    pub(crate) fn sample(&self, rng: &mut Pcg64Mcg) -> u64 {
        if self.steps == 0.0 { 1 } else { 1 + (self.steps * exponential(rng)) as u64 }
    }
}

/// A Pareto distribution with a given mean: heavy-tailed, with infinite variance for shapes up to 2.
#[derive(Clone, Debug)]
pub struct Pareto {
    /// The smallest value.
    least: f64,
    shape: f64,
}

impl Pareto {
    /// Creates a distribution with this mean; `shape` must be above 1.
    pub(crate) fn with_mean(mean: f64, shape: f64) -> Pareto {
        Pareto { least: mean * (shape - 1.0) / shape, shape }
    }

    /// The mean.
    pub(crate) fn mean(&self) -> f64 {
        self.least * self.shape / (self.shape - 1.0)
    }

    /// Draws a value.
    pub(crate) fn sample(&self, rng: &mut Pcg64Mcg) -> f64 {
        self.least * libm::pow(uniform(rng), -1.0 / self.shape)
    }

    /// Draws the residual life of a period whose length has this distribution, as seen by a random observer.
    pub(crate) fn residual(&self, rng: &mut Pcg64Mcg) -> f64 {
        // The density of the residual life is P(X > x) / mean: flat up to the smallest value, then a Pareto
        // tail whose shape is smaller by 1.
        if uniform(rng) <= (self.shape - 1.0) / self.shape {
            self.least * uniform(rng)
        } else {
            self.least * libm::pow(uniform(rng), -1.0 / (self.shape - 1.0))
        }
    }
}

/// A lognormal distribution with a given mean.
#[derive(Clone, Debug)]
pub struct Lognormal {
    /// Mean of the logarithm.
    location: f64,
    /// Standard deviation of the logarithm.
    spread: f64,
}

impl Lognormal {
    /// Creates a distribution with this mean and this standard deviation of the logarithm.
    pub fn with_mean(mean: f64, spread: f64) -> Lognormal {
        Lognormal { location: libm::log(mean) - spread * spread / 2.0, spread }
    }

    /// Draws a value.
    pub fn sample(&self, rng: &mut Pcg64Mcg) -> f64 {
        libm::exp(self.location + self.spread * normal(rng))
    }

    /// Draws the residual life of a period whose length has this distribution, as seen by a random observer.
    pub(crate) fn residual(&self, rng: &mut Pcg64Mcg) -> f64 {
        // An observer meets periods in proportion to their length, which shifts the mean of the
        // logarithm by its variance.
        let found = libm::exp(self.location + self.spread * (self.spread + normal(rng)));
        found * uniform(rng)
    }
}

/// Returns a normal variate with mean 0 and variance 1, by Marsaglia's polar method.
pub(crate) fn normal(rng: &mut Pcg64Mcg) -> f64 {
    loop {
        let (x, y) = (between(rng, -1.0, 1.0), between(rng, -1.0, 1.0));
        let square = x * x + y * y;
        if square > 0.0 && square < 1.0 {
            return x * (-2.0 * libm::log(square) / square).sqrt();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::generator;

    /// Mean and variance of a million draws.
    fn moments(mut draw: impl FnMut(&mut Pcg64Mcg) -> f64) -> (f64, f64) {
        let mut rng = generator(7, "moments", 0);
        let (mut sum, mut squares) = (0.0, 0.0);
        const DRAWS: f64 = 1e6;
        for _ in 0..DRAWS as u32 {
            let value = draw(&mut rng);
            sum += value;
            squares += value * value;
        }
        let mean = sum / DRAWS;
        (mean, squares / DRAWS - mean * mean)
    }

    fn assert_near(value: f64, expected: f64, part: f64) {
        assert!((value / expected - 1.0).abs() < part, "{value} instead of {expected}");
    }

    #[test]
    fn exponential_has_mean_and_variance_1() {
        let (mean, variance) = moments(exponential);
        assert_near(mean, 1.0, 0.005);
        assert_near(variance, 1.0, 0.01);
    }

    #[test]
    fn exponential_has_its_distribution_in_every_layer_and_in_the_tail() {
        let mut rng = generator(3, "tail", 0);
        const DRAWS: usize = 4_000_000;
        let mut values: Vec<f64> = (0..DRAWS).map(|_| exponential(&mut rng)).collect();
        values.sort_by(f64::total_cmp);
        for above in [0.999, 0.99, 0.9, 0.5, 0.1, 0.01, 1e-3, 4.5e-4, 1e-4] {
            let value = values[DRAWS - (DRAWS as f64 * above) as usize];
            // Four standard deviations of the count.
            let tolerance = 4.0 / (DRAWS as f64 * above.min(1.0 - above)).sqrt();
            let below = (1.0 - libm::exp(-value)) / (1.0 - above) - 1.0;
            let beyond = libm::exp(-value) / above - 1.0;
            assert!(if above > 0.5 { below } else { beyond }.abs() < tolerance, "{above}: {value}");
        }
    }

    #[test]
    fn geometric_has_its_mean_and_starts_at_1() {
        let batch = Geometric::with_mean(12.4);
        let (mean, variance) = moments(|rng| batch.sample(rng) as f64);
        assert_near(mean, 12.4, 0.005);
        assert_near(variance, 12.4 * 11.4, 0.01);
        let mut rng = generator(1, "single", 0);
        assert_eq!(Geometric::with_mean(1.0).sample(&mut rng), 1);
    }

    #[test]
    fn pareto_has_its_mean_and_what_is_left_is_longer_than_half() {
        let period = Pareto::with_mean(3.0, 3.5);
        let (mean, variance) = moments(|rng| period.sample(rng));
        assert_near(mean, 3.0, 0.01);
        // E[X^2] / (2 E[X]).
        let (left, _) = moments(|rng| period.residual(rng));
        assert_near(left, (variance + mean * mean) / (2.0 * mean), 0.03);
    }

    #[test]
    fn lognormal_has_its_mean_and_what_is_left_is_longer_than_half() {
        let period = Lognormal::with_mean(100.0, 0.8);
        let (mean, variance) = moments(|rng| period.sample(rng));
        assert_near(mean, 100.0, 0.01);
        let (left, _) = moments(|rng| period.residual(rng));
        assert_near(left, (variance + mean * mean) / (2.0 * mean), 0.03);
    }

    #[test]
    fn draws_are_the_same_on_every_machine() {
        let mut rng = generator(1, "frozen", 0);
        let bits: Vec<u64> = (0..3).map(|_| exponential(&mut rng).to_bits()).collect();
        assert_eq!(bits, [4587914015777583211, 4605912612813510397, 4600571479061238946]);
    }
}
