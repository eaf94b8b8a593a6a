//! Agreement of samples taken at several rates: they agree when the assumed slope is that of the path.
//!
//! [`busy_sample`](super::response::busy_sample) assumes that the queue grows at the narrow link. If the
//! tight link is a different one, the available bandwidth it returns rises or falls with the probing rate,
//! with slope 1 - C_narrow / C_tight.

/// Sums for a weighted regression of samples on the rates at which they were taken, both as
/// fractions of capacity.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Agreement {
    count: f64,
    weight: f64,
    rate: f64,
    sample: f64,
    rate_squared: f64,
    product: f64,
    sample_squared: f64,
}

/// Upper limit of the odds: two equal queues in a row agree almost as well as one.
const MAX_ODDS: f64 = 2.0;
/// Lower limit of the standard error of a slope: samples are accurate to a few per cent at best.
const MIN_ERROR: f64 = 0.05;

impl Agreement {
    /// Adds a sample; `weight` is the time it covers.
    pub(crate) fn add(&mut self, rate: f64, sample: f64, weight: f64) {
        self.count += 1.0;
        self.weight += weight;
        self.rate += weight * rate;
        self.sample += weight * sample;
        self.rate_squared += weight * rate * rate;
        self.product += weight * rate * sample;
        self.sample_squared += weight * sample * sample;
    }

    /// Returns the slope and its standard error, or `None` with too few samples or only one rate.
    fn slope(&self) -> Option<(f64, f64)> {
        let freedom = self.count - 2.0;
        let spread = self.rate_squared - self.rate * self.rate / self.weight;
        if freedom < 2.0 || spread <= 1e-4 * self.rate_squared {
            return None;
        }
        let together = self.product - self.rate * self.sample / self.weight;
        let slope = together / spread;
        let rest = self.sample_squared - self.sample * self.sample / self.weight - slope * together;
        let error = (rest.max(0.0) / (freedom * spread)).sqrt();
        Some((slope, error.max(MIN_ERROR)))
    }

    /// Returns the likelihood ratio of slope 0, at which all samples agree, to a uniform slope from -1 to
    /// 1, up to a limit.
    pub(crate) fn odds(&self) -> f64 {
        let Some((slope, error)) = self.slope() else { return 1.0 };
        let freedom = self.count - 2.0;
        let density = |off: f64| (1.0 + (off / error).powi(2) / freedom).powf(-(freedom + 1.0) / 2.0);
        let steps = 40;
        let any: f64 =
            (0..=steps).map(|step| density(slope - 1.0 + 2.0 * f64::from(step) / f64::from(steps))).sum();
        (density(slope) * f64::from(steps + 1) / any).clamp(1e-9, MAX_ODDS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn odds(slope: f64, noise: f64) -> f64 {
        let mut agreement = Agreement::default();
        for index in 0..12 {
            let rate = 0.5 + 0.1 * f64::from(index % 3);
            let off = noise * f64::from(index % 4 - index % 2) / 2.0;
            agreement.add(rate, 0.4 + slope * (rate - 0.6) + off, 0.01);
        }
        agreement.odds()
    }

    #[test]
    fn samples_that_agree_speak_for_the_assumption_and_a_slope_against_it() {
        assert_eq!(odds(0.0, 0.01), MAX_ODDS);
        assert!(odds(0.5, 0.01) < 0.01 && odds(-0.5, 0.01) < 0.01);
    }

    #[test]
    fn noise_and_a_single_rate_say_little() {
        assert!((0.3..3.0).contains(&odds(0.5, 0.6)), "{}", odds(0.5, 0.6));
        let mut one_rate = Agreement::default();
        (0..9).for_each(|index| one_rate.add(0.5, f64::from(index), 1.0));
        assert_eq!(one_rate.odds(), 1.0);
    }
}
