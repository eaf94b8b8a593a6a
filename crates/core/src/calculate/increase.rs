//! The increase of LS-AIMD, its packet clock, and the minimum of its window.

use headway_arithmetic::{self as arithmetic, Q9};

use crate::units::Duration;

pub use headway_arithmetic::growth_exponent;

/// Minimum window in bytes (ls-aimd 2.10).
const FLOOR: f64 = 2.0;
/// Iterations towards the fixed point of [`Increase::least_window`]; each reduces the error to less than two thirds.
const STEPS: u32 = 200;

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
    /// Returns the increase in bytes per RTT for an ssthresh of `ssthresh` bytes, as a real number (ls-aimd F19).
    pub fn exact(&self, ssthresh: f64) -> f64 {
        let k0 = f64::from(1_u32 << self.exponent);
        self.scale * k0 * (ssthresh / (2.0 * k0)).ln_1p() / std::f64::consts::LN_2
    }

    /// Returns the same as kernels compute it, in units of 2^-9 bytes and before C (ls-aimd F20).
    pub fn fixed_point(&self, ssthresh: u64) -> u32 {
        arithmetic::add(ssthresh.saturating_mul(1 << Q9), self.exponent)
    }

    /// Returns the window in bytes that remains constant when every ACK is marked and halves it, at least two bytes
    /// (ls-aimd 2.8, 2.19); `mss` is the segment size in bytes.
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

/// Returns the time between departures of segments of `mss` bytes when `window` bytes are sent per RTT
/// (ls-aimd 2.3, F07).
pub fn departure_gap(window: f64, mss: u64, rtt: Duration) -> Duration {
    rtt.scale(mss as f64 / window)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(exponent: u32, scale: f64) -> Increase {
        Increase { exponent, scale }
    }

    /// ssthresh; the increase in 2^-9 bytes and in bytes for K0 = 8; the same for K0 = 10 (ls-aimd 2.7).
    const VECTORS: [(u64, u32, f64, u32, f64); 14] = [
        (1, 368, 0.72, 368, 0.72),
        (2, 736, 1.44, 736, 1.44),
        (16, 5818, 11.36, 5880, 11.50),
        (100, 33_736, 65.89, 36_048, 70.43),
        (512, 131_072, 256.00, 168_776, 329.65),
        (724, 166_652, 325.49, 228_952, 447.19),
        (1448, 253_838, 495.78, 404_472, 790.01),
        (2236, 317_738, 620.59, 558_224, 1090.30),
        (2896, 358_442, 700.09, 666_608, 1301.98),
        (8948, 551_500, 1077.15, 1_271_232, 2482.88),
        (10_000, 571_440, 1116.10, 1_340_336, 2617.86),
        (28_960, 766_384, 1496.85, 2_055_392, 4014.44),
        (89_480, 977_468, 1909.12, 2_874_104, 5613.49),
        (1_448_000, 1_502_888, 2935.33, 4_963_776, 9694.89),
    ];

    #[test]
    fn the_increase_is_the_published_one_as_real_and_as_integer() {
        for (ssthresh, small, small_bytes, large, large_bytes) in VECTORS {
            for (exponent, parts, bytes) in [(8, small, small_bytes), (10, large, large_bytes)] {
                let increase = with(exponent, 1.0);
                assert_eq!(increase.fixed_point(ssthresh), parts);
                let exact = increase.exact(ssthresh as f64);
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
    fn the_gap_is_a_round_trip_for_a_window_of_a_segment() {
        let rtt = Duration::from_us(100);
        assert_eq!(departure_gap(724.0, 1448, rtt), Duration::from_us(200));
        assert_eq!(departure_gap(1810.0, 1448, rtt), Duration::from_us(80));
        assert_eq!(departure_gap(2.0, 8948, rtt), Duration::from_us(447_400));
    }
}
