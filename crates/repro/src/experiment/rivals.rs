//! Explicit congestion control beside other systems: what runs.

use headway_units::Rate;
use serde::Deserialize;

use super::amount::Count;

/// Parameters of [`Study::Rivals`](super::Study::Rivals).
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rivals {
    /// The systems that run; absent for all.
    pub systems: Option<Vec<String>>,
    /// Whether the explicit ones also run as published, without what this project repaired.
    #[serde(default)]
    pub published: bool,
    /// Rates of the shared link.
    pub rates: Vec<Rate>,
    /// Numbers of flows that stay.
    pub flows: Vec<u64>,
    /// The largest rate and the largest number of the quick size.
    pub largest_quick: (Rate, u64),
    /// Load of flows that come and go, as a share of the rate; absent without them.
    pub load: Option<f64>,
    /// Runs of each cell, with different seeds; the median is reported.
    pub runs: Count,
    /// Time before the measured time.
    pub warmup: Count,
    /// Measured time.
    pub milliseconds: Count,
}
