//! Tails of the normal distribution, fast and without cancellation for large arguments.

/// Table points per unit.
const PER_UNIT: usize = 32;
/// End of the table, beyond which the asymptotic series is used.
const END: usize = 12;
/// ln(sqrt(2 pi)).
const LN_ROOT_TAU: f64 = 0.918_938_533_204_672_7;

/// A table of the Mills ratio M(z) = (1 - Phi(z)) / phi(z) for z >= 0.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Normal {
    mills: Vec<f64>,
}

impl Normal {
    /// Fills the table from its far end with M' = z M - 1, because errors shrink in that direction.
    pub(super) fn new() -> Normal {
        let mut mills = vec![0.0; END * PER_UNIT + 1];
        let step = -1.0 / PER_UNIT as f64;
        let mut value = far(END as f64);
        for index in (0..mills.len()).rev() {
            mills[index] = value;
            let z = index as f64 / PER_UNIT as f64;
            // Taylor's series with M^(n+1) = z M^(n) + n M^(n-1).
            let (mut before, mut derivative, mut factor) = (value, z * value - 1.0, step);
            for n in 1..10 {
                value += derivative * factor;
                (before, derivative) = (derivative, z * derivative + f64::from(n) * before);
                factor *= step / f64::from(n + 1);
            }
        }
        Normal { mills }
    }

    /// Returns M(z) for z >= 0, to a relative error of about 1e-8.
    pub(super) fn mills(&self, z: f64) -> f64 {
        let at = z * PER_UNIT as f64;
        let index = at as usize;
        let (Some(&low), Some(&high)) = (self.mills.get(index), self.mills.get(index + 1)) else {
            return far(z);
        };
        // A cubic Hermite spline through both values, with the slopes that the differential equation gives.
        let (share, width) = (at - index as f64, 1.0 / PER_UNIT as f64);
        let start = index as f64 * width;
        let slopes = (width * (start * low - 1.0), width * ((start + width) * high - 1.0));
        let rise = high - low;
        let bend = share * (slopes.0 + slopes.1 - 2.0 * rise) + (3.0 * rise - 2.0 * slopes.0 - slopes.1);
        low + share * (slopes.0 + share * bend)
    }

    /// Returns the logarithm of 1 - Phi(z) for any z.
    pub(super) fn ln_upper(&self, z: f64) -> f64 {
        if z >= 0.0 {
            ln_density(z) + self.mills(z).ln()
        } else {
            (-ln_density(z).exp() * self.mills(-z)).ln_1p()
        }
    }
}

/// Returns the logarithm of the standard normal density.
pub(super) fn ln_density(z: f64) -> f64 {
    -0.5 * z * z - LN_ROOT_TAU
}

/// Returns the asymptotic series of M(z), to 1e-9 from 12 on.
fn far(z: f64) -> f64 {
    let inverse = 1.0 / (z * z);
    (1.0 - inverse * (1.0 - inverse * (3.0 - inverse * (15.0 - inverse * 105.0)))) / z
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mills_ratio_matches_known_values_and_its_differential_equation() {
        let normal = Normal::new();
        for (z, expected) in [
            (0.0, 1.253_314_137_315_500_3),
            (1.0, 0.655_679_542_418_798_5),
            (3.0, 0.304_590_298_710_103),
            (10.0, 0.099_028_596_471_731_93),
        ] {
            assert!((normal.mills(z) / expected - 1.0).abs() < 1e-8, "{z}: {}", normal.mills(z));
        }
        for step in 1..4_000 {
            let z = f64::from(step) * 0.007;
            let slope = (normal.mills(z + 1e-3) - normal.mills(z - 1e-3)) / 2e-3;
            assert!((slope - (z * normal.mills(z) - 1.0)).abs() < 1e-5, "{z}");
        }
    }

    #[test]
    fn tails_stay_finite_and_meet_in_the_middle() {
        let normal = Normal::new();
        for (z, expected) in
            [(0.0, 0.5f64.ln()), (-1.0, -0.172_753_78), (2.0, -3.783_184_33), (40.0, -804.608_442)]
        {
            assert!((normal.ln_upper(z) - expected).abs() < 1e-6, "{z}: {}", normal.ln_upper(z));
        }
        assert!(normal.ln_upper(1e9).is_finite() && normal.ln_upper(-1e9) == 0.0);
    }
}
