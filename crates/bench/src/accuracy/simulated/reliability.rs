//! Reliability: whether intervals of several levels contain the truth as often as they claim.

use serde::Serialize;

use super::scored::Scored;

/// The intervals of one level.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Reliability {
    /// The claimed probability, in percent.
    pub(super) percent: u32,
    /// The number of intervals.
    pub(super) intervals: usize,
    /// The number of intervals that contain the truth.
    #[serde(rename = "held")]
    pub(super) covered: usize,
}

impl Reliability {
    /// Returns the share of intervals that contain the truth, in percent.
    pub(super) fn actual(&self) -> f64 {
        self.covered as f64 / self.intervals.max(1) as f64 * 100.0
    }
}

/// Returns the reliability at all levels claimed by these answers, the lowest level first.
pub(super) fn reliability(scored: &[&Scored]) -> Vec<Reliability> {
    let mut levels: Vec<Reliability> = Vec::new();
    for (percent, covered) in scored.iter().flat_map(|one| one.claims()) {
        let place = levels.binary_search_by_key(&percent, |level| level.percent).unwrap_or_else(|place| {
            levels.insert(place, Reliability { percent, intervals: 0, covered: 0 });
            place
        });
        levels[place].intervals += 1;
        levels[place].covered += usize::from(covered);
    }
    levels
}
