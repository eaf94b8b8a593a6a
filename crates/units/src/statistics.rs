//! Means, deviations and quantiles of samples.

/// Returns the mean; NaN without values.
pub fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// Returns the population standard deviation; NaN without values.
pub fn deviation(values: &[f64]) -> f64 {
    let mean = mean(values);
    (values.iter().map(|value| (value - mean) * (value - mean)).sum::<f64>() / values.len() as f64).sqrt()
}

/// Returns the values in ascending order.
pub fn sorted(mut values: Vec<f64>) -> Vec<f64> {
    values.sort_by(f64::total_cmp);
    values
}

/// Returns the median, of an even number of values the mean of the middle two; `None` without values.
pub fn median(values: Vec<f64>) -> Option<f64> {
    let values = sorted(values);
    let middle = values.len().checked_sub(1)? / 2;
    Some(f64::midpoint(values[middle], values[values.len() / 2]))
}

/// Returns the median, of an even number of values the larger of the middle two; `None` without
/// values.
pub fn upper_median<T: Copy + Ord>(mut values: Vec<T>) -> Option<T> {
    values.sort_unstable();
    values.get(values.len() / 2).copied()
}

/// Returns the quantile `part` (0 to 1) of ascending values, interpolated between neighbours;
/// `None` without values.
pub fn quantile<T: Copy + Into<f64>>(sorted: &[T], part: f64) -> Option<f64> {
    let place = part * sorted.len().checked_sub(1)? as f64;
    let (low, high): (f64, f64) =
        (sorted[place.floor() as usize].into(), sorted[place.ceil() as usize].into());
    Some(low + place.fract() * (high - low))
}

/// Returns the value closest to the quantile `part` (0 to 1) of ascending values; `None` without values.
pub fn closest(sorted: &[f64], part: f64) -> Option<f64> {
    let last = sorted.len().checked_sub(1)?;
    sorted.get((last as f64 * part).round() as usize).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statistics_of_known_values() {
        let values = [2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0];
        assert_eq!((mean(&values), deviation(&values)), (5.0, 2.0));
        assert_eq!(median(vec![9.0, 2.0, 4.0]), Some(4.0));
        assert_eq!(median(values.to_vec()), Some(4.5));
        assert_eq!((upper_median(vec![9, 2, 4]), upper_median(vec![9, 2, 4, 7])), (Some(4), Some(7)));
        assert_eq!([0.0, 0.5, 1.0].map(|part| closest(&values, part)), [2.0, 5.0, 9.0].map(Some));
        assert_eq!([0.0, 0.5, 1.0].map(|part| quantile(&values, part)), [2.0, 4.5, 9.0].map(Some));
        assert_eq!(quantile(&[1.0_f32, 2.0, 4.0], 0.75), Some(3.0));
    }

    #[test]
    fn nothing_has_no_quantile() {
        assert!(mean(&[]).is_nan() && deviation(&[]).is_nan());
        assert_eq!((median(Vec::new()), quantile::<f64>(&[], 0.5), closest(&[], 0.5)), (None, None, None));
        assert_eq!((quantile::<f32>(&[], 0.5), upper_median::<u8>(Vec::new())), (None, None));
    }
}
