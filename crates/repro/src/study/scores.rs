//! Relative errors of estimates, and their distribution.

use std::collections::BTreeMap;

use crate::statistics::{quantile, sorted};

/// Width of the classes of streams within which the scatter of errors is measured, in percent of the truth.
const CLASS: f64 = 3.0;

/// Errors of an estimator on the streams of one testbed.
#[derive(Clone, Debug, Default)]
pub(super) struct Scores {
    /// Errors of the estimator and of the null estimator, in percent.
    errors: Vec<(f64, f64)>,
    refused: usize,
}

impl Scores {
    /// Adds the error of an estimate; `null` is that of the null estimator, which answers the average rate.
    pub(super) fn add(&mut self, error: f64, null: f64) {
        self.errors.push((error, null));
    }

    /// Counts streams without an estimate.
    pub(super) fn refuse(&mut self) {
        self.refused += 1;
    }
}

/// The distribution of an estimator's errors.
pub(super) struct Distribution {
    /// Errors in percent, ascending.
    pub(super) errors: Vec<f64>,
    /// Errors less the median among streams whose average rate differs from the truth by
    /// about as much, ascending.
    residuals: Vec<f64>,
    /// Number of refused estimates.
    pub(super) refused: usize,
}

impl Distribution {
    /// Joins the scores of several testbeds.
    pub(super) fn of<'a>(parts: impl Iterator<Item = &'a Scores>) -> Distribution {
        let (mut classes, mut refused) = (BTreeMap::<i64, Vec<f64>>::new(), 0);
        for scores in parts {
            for (error, null) in &scores.errors {
                classes.entry((null / CLASS).floor() as i64).or_default().push(*error);
            }
            refused += scores.refused;
        }
        let (mut errors, mut residuals) = (Vec::new(), Vec::new());
        for class in classes.into_values().map(sorted) {
            let median = quantile(&class, 0.5);
            residuals.extend(class.iter().map(|error| error - median));
            errors.extend(class);
        }
        Distribution { errors: sorted(errors), residuals: sorted(residuals), refused }
    }

    /// Returns the part of the errors that is due to chance: the width from the 5th to the 95th percentile of
    /// what remains after subtracting the median error of similar streams, in percent of the truth.
    pub(super) fn scatter(&self) -> f64 {
        quantile(&self.residuals, 0.95) - quantile(&self.residuals, 0.05)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn residuals_are_errors_less_the_median_of_similar_streams() {
        let (mut one, mut other) = (Scores::default(), Scores::default());
        // Streams far below the truth are underestimated by 10 %, those at the truth by nothing.
        [-12.0, -10.0].iter().for_each(|error| one.add(*error, -16.0));
        other.add(-9.0, -17.0);
        other.refuse();
        [3.0, 0.0, -1.0].iter().for_each(|error| other.add(*error, 0.5));
        let all = Distribution::of([one, other].iter());
        assert_eq!(all.errors, [-12.0, -10.0, -9.0, -1.0, 0.0, 3.0]);
        assert_eq!(all.residuals, [-2.0, -1.0, 0.0, 0.0, 1.0, 3.0]);
        assert_eq!((all.scatter(), all.refused), (5.0, 1));
    }
}
