//! The published rules for the samples of a window: outliers, and the shape that a congested link gives them
//! (wan 2.10).

use headway_units::statistics;

use super::window_counts::WindowRefusal;

/// The fewest samples that give an estimate.
pub(super) const FEWEST: usize = 4;
/// Samples farther than this many interquartile ranges beyond the quartiles are outliers.
const OUTLIER: f64 = 1.5;
/// Largest difference of median and mean, as a share of the capacity (omega), and smallest
/// interquartile range (gamma).
const SKEW: f64 = 0.1;
const SPREAD: f64 = 0.3;

/// Returns the quantile `part` (0 to 1) of ascending values. There must be values.
fn quantile(sorted: &[f32], part: f64) -> f64 {
    statistics::quantile(sorted, part).unwrap_or_default()
}

/// Returns the ascending values without those far beyond the quartiles. There must be values.
pub(super) fn without_outliers(sorted: &[f32]) -> &[f32] {
    let (low, high) = (quantile(sorted, 0.25), quantile(sorted, 0.75));
    let reach = OUTLIER * (high - low);
    let from = sorted.partition_point(|rate| f64::from(*rate) < low - reach);
    let to = sorted.partition_point(|rate| f64::from(*rate) <= high + reach);
    &sorted[from..to]
}

/// The mean of a window's samples, and those that count.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Mean<'a> {
    pub(super) rate: f64,
    pub(super) kept: &'a [f32],
}

/// Applies Eq. 6.5 to the samples of a window in ascending order; `capacity` in the unit of the samples.
pub(super) fn judge(sorted: &[f32], capacity: f64) -> Result<Mean<'_>, WindowRefusal> {
    if sorted.len() < FEWEST {
        return Err(WindowRefusal::TooFewAcks);
    }
    let kept = without_outliers(sorted);
    if kept.len() < FEWEST {
        return Err(WindowRefusal::TooFewAcks);
    }
    let mean = kept.iter().map(|rate| f64::from(*rate)).sum::<f64>() / kept.len() as f64;
    // The products may be off by a rounding error, which must not decide.
    let slack = capacity * 1e-6;
    if quantile(kept, 0.75) - quantile(kept, 0.25) < SPREAD * capacity - slack {
        return Err(WindowRefusal::Narrow);
    }
    if (quantile(kept, 0.5) - mean).abs() > SKEW * capacity + slack {
        return Err(WindowRefusal::Skewed);
    }
    Ok(Mean { rate: mean, kept })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wide_symmetric_samples_pass_and_narrow_or_skewed_ones_do_not() {
        // wan 7: omega 10 and gamma 30 at a capacity of 100.
        let judge = |samples: &[f32]| judge(samples, 100.0).map(|mean| (mean.rate, mean.kept.len()));
        assert_eq!(judge(&[20.0, 35.0, 50.0, 65.0, 80.0]), Ok((50.0, 5)));
        assert_eq!(judge(&[48.0, 49.0, 50.0, 51.0, 52.0]), Err(WindowRefusal::Narrow));
        assert_eq!(judge(&[10.0, 12.0, 14.0, 60.0, 95.0]), Err(WindowRefusal::Skewed));
        assert_eq!(judge(&[20.0, 50.0, 80.0]), Err(WindowRefusal::TooFewAcks));
        assert_eq!(judge(&[]), Err(WindowRefusal::TooFewAcks));
    }

    #[test]
    fn outliers_beyond_one_and_a_half_interquartile_ranges_do_not_count() {
        // Quartiles 20 and 40: the range is -10 to 70.
        let samples = [-11.0, 10.0, 20.0, 30.0, 40.0, 70.0, 71.0];
        let kept = without_outliers(&[10.0, 20.0, 30.0, 40.0, 100.0]);
        assert_eq!(kept, [10.0, 20.0, 30.0, 40.0]);
        assert_eq!(without_outliers(&samples), samples, "quartiles 15 and 55");
        assert_eq!(without_outliers(&[5.0; 4]), [5.0; 4]);
    }
}
