//! Summary statistics.

/// Returns the mean; NaN without values.
pub(crate) fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// Returns the population standard deviation; NaN without values.
pub(crate) fn deviation(values: &[f64]) -> f64 {
    let mean = mean(values);
    (values.iter().map(|value| (value - mean) * (value - mean)).sum::<f64>() / values.len() as f64).sqrt()
}

/// Returns the quantile `part` (0 to 1); `sorted` must be ascending. NaN without values.
pub(crate) fn quantile(sorted: &[f64], part: f64) -> f64 {
    let last = sorted.len().wrapping_sub(1);
    sorted.get((last as f64 * part).round() as usize).copied().unwrap_or(f64::NAN)
}

/// Returns the values in ascending order.
pub(crate) fn sorted(mut values: Vec<f64>) -> Vec<f64> {
    values.sort_by(f64::total_cmp);
    values
}

/// Returns the largest value; negative infinity without values.
pub(crate) fn largest(values: impl IntoIterator<Item = f64>) -> f64 {
    values.into_iter().fold(f64::NEG_INFINITY, f64::max)
}

/// Returns the smallest value; infinity without values.
pub(crate) fn smallest(values: impl IntoIterator<Item = f64>) -> f64 {
    values.into_iter().fold(f64::INFINITY, f64::min)
}

/// Returns the percentage of values that satisfy `has`; NaN without values.
pub(crate) fn percent(values: &[f64], has: impl Fn(f64) -> bool) -> f64 {
    100.0 * values.iter().filter(|value| has(**value)).count() as f64 / values.len() as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_of_known_values() {
        let values = [2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0];
        assert_eq!((mean(&values), deviation(&values)), (5.0, 2.0));
        assert_eq!([0.0, 0.5, 1.0].map(|part| quantile(&values, part)), [2.0, 5.0, 9.0]);
        assert_eq!(percent(&values, |value| value > 4.0), 50.0);
        assert_eq!((smallest(values), largest(values)), (2.0, 9.0));
        assert!(quantile(&[], 0.5).is_nan() && mean(&[]).is_nan());
    }
}
