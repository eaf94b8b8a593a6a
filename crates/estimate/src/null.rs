//! The estimator that ignores its input: a baseline for the value of the others (rapid 2.16).

use super::{Bound, StreamEstimate};
use headway_units::Rate;

/// Returns the average rate at which the stream was sent.
pub(crate) fn estimate(average: Rate) -> StreamEstimate {
    StreamEstimate::new(average, Bound::Within)
}
