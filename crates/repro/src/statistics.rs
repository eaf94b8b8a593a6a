//! Statistics of runs and cells.

use headway_units::statistics;
pub(crate) use headway_units::statistics::{deviation, mean, sorted};

/// Returns the value closest to the quantile `part` (0 to 1) of ascending values; NaN without values.
pub(crate) fn quantile(sorted: &[f64], part: f64) -> f64 {
    statistics::closest(sorted, part).unwrap_or(f64::NAN)
}

/// Returns Jain's index of fairness: 1 when all are equal, 1/n when one has everything (xcp-rcp 4.5).
pub(crate) fn jain(rates: &[f64]) -> f64 {
    let sum: f64 = rates.iter().sum();
    let squares: f64 = rates.iter().map(|rate| rate * rate).sum();
    sum * sum / (rates.len() as f64 * squares)
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

/// Returns Pearson's correlation of two series of equal length; NaN when all values of a series are equal.
pub(crate) fn correlation(one: &[f64], other: &[f64]) -> f64 {
    let (mean_one, mean_other) = (mean(one), mean(other));
    let products = one.iter().zip(other).map(|(a, b)| (a - mean_one) * (b - mean_other));
    products.sum::<f64>() / one.len() as f64 / (deviation(one) * deviation(other))
}

/// Returns Kendall's rank correlation (tau-b) of two series of equal length: 1 when both have the same order,
/// -1 when one is the reverse of the other. NaN when all values of a series are equal.
pub(crate) fn kendall(one: &[f64], other: &[f64]) -> f64 {
    let pairs = (0..one.len()).flat_map(|i| (0..i).map(move |j| (i, j)));
    let (mut agree, mut differ_one, mut differ_other) = (0.0, 0.0, 0.0);
    let sign = |a: f64, b: f64| if a == b { 0.0 } else { (a - b).signum() };
    for (i, j) in pairs {
        let (a, b) = (sign(one[i], one[j]), sign(other[i], other[j]));
        agree += a * b;
        differ_one += a * a;
        differ_other += b * b;
    }
    agree / f64::sqrt(differ_one * differ_other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rank_correlation_counts_pairs_in_the_same_order() {
        let rising = [1.0, 2.0, 3.0, 4.0];
        assert_eq!(kendall(&rising, &[10.0, 20.0, 40.0, 80.0]), 1.0);
        assert_eq!(kendall(&rising, &[4.0, 3.0, 2.0, 1.0]), -1.0);
        // One of six pairs is swapped.
        assert!((kendall(&rising, &[1.0, 3.0, 2.0, 4.0]) - 4.0 / 6.0).abs() < 1e-12);
        // Five pairs differ in the second series, all in the same order.
        assert!((kendall(&rising, &[1.0, 2.0, 2.0, 3.0]) - 5.0 / 30_f64.sqrt()).abs() < 1e-12);
        assert!(kendall(&rising, &[1.0; 4]).is_nan());
    }

    #[test]
    fn correlation_is_one_for_a_line_and_undefined_for_a_constant() {
        let rising = [1.0, 2.0, 3.0, 4.0];
        assert!((correlation(&rising, &[5.0, 7.0, 9.0, 11.0]) - 1.0).abs() < 1e-12);
        assert!((correlation(&rising, &[4.0, 3.0, 2.0, 1.0]) + 1.0).abs() < 1e-12);
        assert_eq!(correlation(&rising, &[1.0, 2.0, 2.0, 1.0]), 0.0);
        assert!(correlation(&rising, &[2.0; 4]).is_nan());
    }

    #[test]
    fn sums_of_known_values() {
        let values = [2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0];
        assert_eq!(percent(&values, |value| value > 4.0), 50.0);
        assert_eq!((smallest(values), largest(values)), (2.0, 9.0));
        assert!(quantile(&[], 0.5).is_nan());
    }
}
