//! The discrete wavelet transform with Daubechies' four-tap filter, periodic at the ends (rapid 2.17).

/// Daubechies' four-tap low-pass filter, normalised to energy 1.
const LOW: [f64; 4] =
    [0.482_962_913_144_534_1, 0.836_516_303_737_807_7, 0.224_143_868_042_013_4, -0.129_409_522_551_260_34];

/// The matching high-pass filter: the low-pass filter reversed, with every second sign flipped.
const HIGH: [f64; 4] = [LOW[3], -LOW[2], LOW[1], -LOW[0]];

/// Scratch memory of the transform, kept between calls so that steady-state work does not allocate.
#[derive(Clone, Debug, Default)]
pub struct Wavelet {
    scratch: Vec<f64>,
}

impl Wavelet {
    /// Applies one level: the first half of `values` becomes the approximation, the second half the detail.
    ///
    /// An odd last value is left alone, as are slices of fewer than two values.
    pub(crate) fn forward(&mut self, values: &mut [f64]) {
        let n = values.len() & !1;
        let half = n / 2;
        self.scratch.clear();
        self.scratch.extend_from_slice(&values[..n]);
        for k in 0..half {
            let (mut low, mut high) = (0.0, 0.0);
            for tap in 0..LOW.len() {
                let value = self.scratch[(2 * k + tap) % n];
                low += LOW[tap] * value;
                high += HIGH[tap] * value;
            }
            values[k] = low;
            values[half + k] = high;
        }
    }

    /// Inverts [`Wavelet::forward`].
    pub fn inverse(&mut self, values: &mut [f64]) {
        let n = values.len() & !1;
        let half = n / 2;
        self.scratch.clear();
        self.scratch.resize(n, 0.0);
        for k in 0..half {
            for tap in 0..LOW.len() {
                self.scratch[(2 * k + tap) % n] += LOW[tap] * values[k] + HIGH[tap] * values[half + k];
            }
        }
        values[..n].copy_from_slice(&self.scratch);
    }
}

/// Replaces `values` by their approximation after `levels` levels, in the scale of the values
/// (not of the transform).
///
/// Each level halves the number of values and drops an odd last one, so n values become n /
/// 2^levels, rounded down.
pub fn approximate(values: &mut Vec<f64>, levels: u32, wavelet: &mut Wavelet) {
    for _ in 0..levels {
        wavelet.forward(values);
        values.truncate(values.len() / 2);
        for value in values.iter_mut() {
            // The low-pass taps sum to the square root of two; this factor preserves a constant.
            *value *= std::f64::consts::FRAC_1_SQRT_2;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn three_levels_forward_and_back_give_the_values_again(
            blocks in prop::collection::vec(prop::array::uniform8(-1e6..1e6), 1..40),
        ) {
            let original: Vec<f64> = blocks.into_iter().flatten().collect();
            let mut values = original.clone();
            let mut wavelet = Wavelet::default();
            let n = values.len();
            for level in 0..3 {
                wavelet.forward(&mut values[..n >> level]);
            }
            for level in (0..3).rev() {
                wavelet.inverse(&mut values[..n >> level]);
            }
            for (value, original) in values.iter().zip(&original) {
                prop_assert!((value - original).abs() < 1e-6);
            }
        }

        #[test]
        fn the_transform_keeps_the_energy(values in prop::collection::vec(-1e3..1e3, 2..100)) {
            let energy = |values: &[f64]| values.iter().map(|value| value * value).sum::<f64>();
            let mut transformed = values.clone();
            Wavelet::default().forward(&mut transformed);
            prop_assert!((energy(&transformed) - energy(&values)).abs() <= 1e-9 * (1.0 + energy(&values)));
        }

        #[test]
        fn any_length_is_accepted(values in prop::collection::vec(-1e3..1e3, 0..40), levels in 0u32..6) {
            let expected = values.len() >> levels;
            let mut values = values;
            approximate(&mut values, levels, &mut Wavelet::default());
            prop_assert_eq!(values.len(), expected);
        }
    }

    #[test]
    fn three_levels_of_320_values_leave_40_and_keep_a_constant() {
        let mut values = vec![7.5; 320];
        approximate(&mut values, 3, &mut Wavelet::default());
        assert_eq!(values.len(), 40);
        assert!(values.iter().all(|value| (value - 7.5).abs() < 1e-9));
    }

    #[test]
    fn a_straight_line_has_no_detail_except_where_it_wraps() {
        let mut values: Vec<f64> = (0..16).map(f64::from).collect();
        Wavelet::default().forward(&mut values);
        assert!(values[8..15].iter().all(|detail| detail.abs() < 1e-9));
        assert!(values[15].abs() > 1.0);
    }
}
