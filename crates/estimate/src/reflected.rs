//! The queue of a link as reflected Brownian motion: the likelihood of a delay given an earlier one.
//!
//! Probes at rate R and cross traffic that leaves A available make the queue of a link of capacity C,
//! measured as delay, drift by (R - A) / C per second. Random cross traffic adds a variance that grows with
//! time, and the queue cannot become negative. This model needs no test for a busy queue, and streams below,
//! at and above A are all informative.

use super::normal::{Normal, ln_density};

/// Delay above that of an empty path as reflected Brownian motion; delays and times share one unit, for
/// instance seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Reflected {
    /// Growth of the delay per unit of time; negative when the load is below the capacity.
    pub(super) drift: f64,
    /// Variance of that growth per unit of time, positive; it has the dimension of a time.
    pub(super) variance: f64,
}

/// Two delays and the time between them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Transition {
    /// The first delay, zero or more.
    pub(crate) from: f64,
    /// The second delay, zero or more.
    pub(crate) to: f64,
    /// The time between the two, positive.
    pub(crate) time: f64,
}

impl Reflected {
    /// Returns the logarithm of the density of the second delay.
    pub(super) fn ln_density(&self, transition: &Transition, normal: &Normal) -> f64 {
        let Transition { from, to, time } = *transition;
        let spread = (self.variance * time).sqrt();
        let carried = self.drift * time;
        let free = ln_density((to - from - carried) / spread) - spread.ln();
        // The contribution of the reflecting barrier, relative to the density of free motion.
        let mirrored = (-2.0 * from * to / (spread * spread)).exp();
        let beyond = (to + from + carried) / spread;
        if beyond >= 0.0 {
            let added = mirrored * (1.0 - 2.0 * carried / spread * normal.mills(beyond));
            return free + (1.0 + added).max(SMALLEST).ln();
        }
        let settled = (-2.0 * self.drift / self.variance).ln() + 2.0 * self.drift * to / self.variance;
        ln_sum(free + mirrored.ln_1p(), settled + normal.ln_upper(beyond))
    }

    /// Returns the logarithm of the probability that the second delay is at most `to`.
    pub(super) fn ln_at_most(&self, transition: &Transition, normal: &Normal) -> f64 {
        let Transition { from, to, time } = *transition;
        let spread = (self.variance * time).sqrt();
        let carried = self.drift * time;
        let (short, beyond) = ((from + carried - to) / spread, (to + from + carried) / spread);
        if short >= 0.0 {
            let mirrored = (-2.0 * from * to / (spread * spread)).exp();
            let rest = normal.mills(short) - mirrored * normal.mills(beyond);
            return ln_density(short) + rest.max(SMALLEST).ln();
        }
        let missed = normal.ln_upper(-short).exp();
        let reflected = (2.0 * self.drift * to / self.variance + normal.ln_upper(beyond)).exp();
        (1.0 - missed - reflected).max(SMALLEST).ln()
    }
}

/// Floor for differences that rounding would reduce to zero or less.
const SMALLEST: f64 = 1e-12;

/// Returns ln(exp(a) + exp(b)).
pub(super) fn ln_sum(a: f64, b: f64) -> f64 {
    let (high, low) = if a > b { (a, b) } else { (b, a) };
    high + (low - high).exp().ln_1p()
}

#[cfg(test)]
mod tests {
    use super::*;

    const DRIFTS: [f64; 5] = [-3.0, -0.4, 0.0, 0.3, 2.5];

    fn density(motion: &Reflected, transition: Transition) -> f64 {
        motion.ln_density(&transition, &Normal::new()).exp()
    }

    #[test]
    fn the_density_integrates_to_the_distribution_and_that_to_one() {
        let normal = Normal::new();
        for drift in DRIFTS {
            for (from, variance) in [(0.0, 1.0), (0.7, 0.2), (2.0, 3.0)] {
                let motion = Reflected { drift, variance };
                let mut sum = 0.0;
                let step = 1e-3;
                for index in 0..24_000 {
                    let to = (f64::from(index) + 0.5) * step;
                    sum += step * motion.ln_density(&Transition { from, to, time: 1.5 }, &normal).exp();
                    if index % 1_000 == 999 {
                        let end = Transition { from, to: to + step / 2.0, time: 1.5 };
                        let expected = motion.ln_at_most(&end, &normal).exp();
                        assert!((sum - expected).abs() < 1e-4, "{motion:?} {end:?}: {sum}, not {expected}");
                    }
                }
                assert!((sum - 1.0).abs() < 1e-3, "{motion:?}: {sum}");
            }
        }
    }

    #[test]
    fn without_noise_it_follows_the_fluid() {
        for (drift, from, expected) in [(0.5, 0.0, 1.0), (0.5, 0.3, 1.3), (-0.5, 3.0, 2.0), (-0.5, 0.2, 0.0)]
        {
            let motion = Reflected { drift, variance: 1e-5 };
            let mean: f64 = (0..40_000)
                .map(|index| (f64::from(index) + 0.5) * 1e-4)
                .map(|to| to * density(&motion, Transition { from, to, time: 2.0 }) * 1e-4)
                .sum();
            assert!((mean - expected).abs() < 1e-3, "{drift}, {from}: {mean}");
        }
    }

    #[test]
    fn without_drift_it_is_the_free_motion_folded_over() {
        let motion = Reflected { drift: 0.0, variance: 2.0 };
        let (from, to, time) = (0.4, 0.9, 0.5);
        let normal = |x: f64| ln_density(x).exp();
        let expected = normal(to - from) + normal(to + from);
        assert!((density(&motion, Transition { from, to, time }) - expected).abs() < 1e-9);
    }

    #[test]
    fn after_a_long_time_below_what_is_free_delays_are_exponential() {
        let motion = Reflected { drift: -1.0, variance: 0.5 };
        for to in [0.1, 0.5, 2.0] {
            let expected = 4.0 * (-4.0f64 * to).exp();
            let found = density(&motion, Transition { from: 0.2, to, time: 500.0 });
            assert!((found / expected - 1.0).abs() < 1e-6, "{to}: {found}, not {expected}");
        }
    }

    #[test]
    fn extreme_drifts_stay_finite() {
        let normal = Normal::new();
        for drift in [-1e4, -30.0, 30.0, 1e4] {
            for to in [0.0, 1e-6, 1.0, 50.0] {
                let transition = Transition { from: 0.5, to, time: 3.0 };
                for variance in [1e-4, 10.0] {
                    let motion = Reflected { drift, variance };
                    assert!(motion.ln_density(&transition, &normal).is_finite(), "{motion:?} {transition:?}");
                    assert!(motion.ln_at_most(&transition, &normal).is_finite(), "{motion:?} {transition:?}");
                }
            }
        }
    }
}
