//! The increase of LS-AIMD, and the minimum of its window.

pub use headway_arithmetic::growth_exponent;

/// Minimum window in bytes (ls-aimd 2.10).
const FLOOR: f64 = 2.0;
/// Iterations towards the fixed point of [`Increase::least_window`]; each reduces the error to
/// less than two thirds.
const STEPS: u32 = 200;

/// A usual ssthresh, in segments: there the increase is to be about that of other TCP (ls-aimd 2.6).
const USUAL_SEGMENTS: f64 = 20.0;

/// The window that scales the increase of an ACK that also reduces the window (ls-aimd 2.8).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CutOrder {
    /// The window before the reduction, which was in effect during the RTT; the implementation does this.
    BeforeCut,
    /// The window after the reduction, which fits the published numbers at C = 1.
    AfterCut,
}

/// The window increase per RTT as a function of ssthresh: `k0 lg(S/k1 + 1)` with `k1 = 2 k0` (ls-aimd 2.6).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Increase {
    /// The exponent K0 of `k0`, 0 to 20.
    pub exponent: u32,
    /// The scale C, above 0 and at most 1.
    pub scale: f64,
}

impl Increase {
    /// Returns the increase in bytes per RTT for an ssthresh of `ssthresh` bytes, as a real
    /// number (ls-aimd F19).
    fn exact(&self, ssthresh: f64) -> f64 {
        let k0 = f64::from(1_u32 << self.exponent);
        self.scale * k0 * (ssthresh / (2.0 * k0)).ln_1p() / std::f64::consts::LN_2
    }

    /// Returns the window in bytes that remains constant when every ACK is marked and halves it, at least two
    /// bytes (ls-aimd 2.8, 2.19); `mss` is the segment size in bytes.
    ///
    /// A smaller fair window cannot be reached: the marks saturate, and the queue grows.
    pub fn least_window(&self, mss: f64, order: CutOrder) -> f64 {
        let factor = match order {
            CutOrder::BeforeCut => 2.0,
            CutOrder::AfterCut => 4.0,
        };
        let mut window = mss;
        for _ in 0..STEPS {
            window = (factor * mss * self.exact(window / 2.0)).sqrt();
        }
        window.max(FLOOR)
    }
}

/// The constants of the increase, in bytes (ls-aimd 2.6).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Constants {
    /// The factor of the logarithm.
    pub k0: u32,
    /// The ssthresh at which the increase is `k0`; above zero.
    pub k1: u32,
}

/// What an increase has to be like, with the number by which that is decided.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Constraint {
    /// What is asked.
    pub name: &'static str,
    /// Its value for the constants.
    pub value: f64,
    /// Whether it holds.
    pub holds: bool,
}

impl Constants {
    /// Returns the increase in bytes per RTT for an ssthresh of `ssthresh` bytes.
    fn increase(self, ssthresh: f64) -> f64 {
        f64::from(self.k0) * (ssthresh / f64::from(self.k1)).ln_1p() / std::f64::consts::LN_2
    }

    /// Returns the constraints for segments of `mss` bytes (ls-aimd 2.6).
    ///
    /// The increase is concave and zero at zero, so it never exceeds ssthresh exactly if its slope at zero,
    /// the largest, is at most one. Marks then arrive in every second RTT at most.
    pub fn constraints(self, mss: f64) -> [Constraint; 5] {
        let (k0, k1) = (f64::from(self.k0), f64::from(self.k1));
        let ln2 = std::f64::consts::LN_2;
        let usual = self.increase(USUAL_SEGMENTS * mss) / mss;
        let constraint = |name, value, holds| Constraint { name, value, holds };
        [
            constraint("the increase is at most ssthresh: slope at 0 B", k0 / (k1 * ln2), k0 <= k1 * ln2),
            constraint("the increase at 1 B, of 1 B", self.increase(1.0), self.increase(1.0) <= 1.0),
            constraint("the slope at 1 B, below 1", k0 / ((k1 + 1.0) * ln2), k0 < (k1 + 1.0) * ln2),
            constraint(
                "shifts suffice: powers of two, k0 / k1 one half",
                k0 / k1,
                self.k0.is_power_of_two() && self.k0.checked_mul(2) == Some(self.k1),
            ),
            constraint("at 20 segments, in segments, 1/4 to 4", usual, (0.25..=4.0).contains(&usual)),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(exponent: u32, scale: f64) -> Increase {
        Increase { exponent, scale }
    }

    /// ssthresh; the increase in bytes for K0 = 8 and for K0 = 10 (ls-aimd 2.7).
    const VECTORS: [(f64, f64, f64); 5] = [
        (1.0, 0.72, 0.72),
        (512.0, 256.00, 329.65),
        (1448.0, 495.78, 790.01),
        (10_000.0, 1116.10, 2617.86),
        (1_448_000.0, 2935.33, 9694.89),
    ];

    #[test]
    fn the_increase_is_the_published_one() {
        for (ssthresh, small, large) in VECTORS {
            for (exponent, bytes) in [(8, small), (10, large)] {
                let exact = with(exponent, 1.0).exact(ssthresh);
                assert!((exact - bytes).abs() < 0.0051, "{exact} is not {bytes}");
            }
        }
    }

    /// The smallest windows when everything is marked (ls-aimd 2.19, F60).
    #[test]
    fn windows_stop_falling_where_increase_and_halving_meet() {
        let least = |mss: u32, scale, order| {
            let exponent = growth_exponent(mss);
            with(exponent, scale).least_window(mss.into(), order) / f64::from(mss)
        };
        let published = [
            (1448, 1.0, 0.54, 0.92, 0.005),
            (8948, 1.0, 0.49, 0.82, 0.005),
            (1448, 1.0 / 128.0, 0.006, 0.011, 0.0006),
            (8948, 1.0 / 128.0, 0.006, 0.011, 0.0006),
        ];
        for (mss, scale, before, after, tolerance) in published {
            let [here, there] =
                [CutOrder::BeforeCut, CutOrder::AfterCut].map(|order| least(mss, scale, order));
            assert!((here - before).abs() < tolerance, "{mss} {scale}: {here} is not {before}");
            assert!((there - after).abs() < tolerance, "{mss} {scale}: {there} is not {after}");
        }
    }

    #[test]
    fn both_published_sets_pass_and_equal_constants_fail() {
        let failed = |k0, k1, mss| {
            let all = Constants { k0, k1 }.constraints(mss);
            all.iter().enumerate().filter(|(_, one)| !one.holds).map(|(at, _)| at).collect::<Vec<_>>()
        };
        assert_eq!((failed(256, 512, 1448.0), failed(1024, 2048, 8948.0)), (vec![], vec![]));
        assert_eq!(failed(512, 512, 1448.0), [0, 1, 2, 3], "k0 = k1");
        assert_eq!(failed(300, 512, 1448.0), [3], "0.59 < ln 2, but no shifts");
        // At ln 2 itself, 0.6931, the increase is ssthresh at zero; above, it exceeds it for small windows.
        assert_eq!(
            (failed(6931, 10_000, 1448.0), failed(6932, 10_000, 1448.0)),
            (vec![3, 4], vec![0, 1, 3, 4])
        );
        assert_eq!(failed(1024, 2048, 300.0), [4], "more than four segments");
        for (k0, k1) in [(256_u32, 512_u32), (3, 5), (512, 512), (1000, 1443)] {
            let constants = Constants { k0, k1 };
            let exceeds = (1..50_000).any(|s| constants.increase(f64::from(s)) > f64::from(s));
            assert_eq!(exceeds, !constants.constraints(1448.0)[1].holds, "{k0}, {k1}: 1 B decides for all");
        }
    }
}
