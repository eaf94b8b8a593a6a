//! The centred moving average that ends the denoising of a stream (rapid 2.10).

use headway_units::Duration;

/// Replaces each value by the mean of the `window` values around it; the window is truncated at both ends.
///
/// Value `i` becomes the mean of `i - window/2 ..= i + (window-1)/2`, rounded to the nearest nanosecond.
/// `scratch` keeps the original values; its capacity is reused between calls.
pub fn centred_mean(values: &mut [Duration], window: usize, scratch: &mut Vec<Duration>) {
    if window < 2 || values.len() < 2 {
        return;
    }
    scratch.clear();
    scratch.extend_from_slice(values);
    let (before, after) = (window / 2, (window - 1) / 2);
    let mut sum = 0i64;
    for value in scratch.iter().take(after) {
        sum = sum.wrapping_add(value.ns());
    }
    for (i, value) in values.iter_mut().enumerate() {
        if let Some(entering) = scratch.get(i + after) {
            sum = sum.wrapping_add(entering.ns());
        }
        if i > before {
            sum = sum.wrapping_sub(scratch[i - before - 1].ns());
        }
        let first = i.saturating_sub(before);
        let last = (i + after).min(scratch.len() - 1);
        *value = Duration::from_ns(rounded_quotient(sum, last - first + 1));
    }
}

/// Returns `sum / count` rounded to the nearest integer, with halves rounded up; `count` is at least 1.
///
/// The sum of the gaps of a stream shorter than four seconds fits in 32 bits, and 32-bit division is
/// several times faster.
pub(super) fn rounded_quotient(sum: i64, count: usize) -> i64 {
    let raised = sum.wrapping_add(count as i64 / 2);
    match (u32::try_from(raised), u32::try_from(count)) {
        (Ok(raised), Ok(count)) => i64::from(raised / count),
        _ => raised.div_euclid(count as i64),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn ns(values: &[i64]) -> Vec<Duration> {
        values.iter().copied().map(Duration::from_ns).collect()
    }

    fn smoothed(values: &[i64], window: usize) -> Vec<Duration> {
        let mut values = ns(values);
        centred_mean(&mut values, window, &mut Vec::new());
        values
    }

    #[test]
    fn an_odd_window_is_centred_and_cut_off_at_the_ends() {
        assert_eq!(smoothed(&[0, 0, 30, 0, 0], 3), ns(&[0, 10, 10, 10, 0]));
        assert_eq!(smoothed(&[10, 20, 30, 40], 3), ns(&[15, 20, 30, 35]));
    }

    #[test]
    fn an_even_window_takes_one_more_value_before_than_after() {
        assert_eq!(smoothed(&[0, 0, 0, 40, 0, 0], 4), ns(&[0, 0, 10, 10, 10, 13]));
    }

    #[test]
    fn a_window_of_one_or_a_single_value_changes_nothing() {
        assert_eq!(smoothed(&[5, 9, 1], 1), ns(&[5, 9, 1]));
        assert_eq!(smoothed(&[5], 16), ns(&[5]));
        assert_eq!(smoothed(&[], 16), ns(&[]));
    }

    proptest! {
        #[test]
        fn the_running_sum_equals_the_sum_over_each_window(
            values in prop::collection::vec(-1_000_000i64..100_000_000, 0..200),
            window in 1usize..70,
        ) {
            let expected: Vec<i64> = (0..values.len())
                .map(|i| {
                    let last = (i + (window - 1) / 2).min(values.len() - 1);
                    let part = &values[i.saturating_sub(window / 2)..=last];
                    let count = part.len() as i64;
                    (part.iter().sum::<i64>() + count / 2).div_euclid(count)
                })
                .collect();
            prop_assert_eq!(smoothed(&values, window), ns(&expected));
        }

        #[test]
        fn any_values_at_all_are_accepted(values in prop::collection::vec(any::<i64>(), 0..50), window in 0usize..70) {
            smoothed(&values, window);
        }
    }
}
