//! How much an experiment sends, and over which values it goes.

use serde::Deserialize;

/// A sample size: reduced, and as published.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Count {
    /// Number in quick mode.
    pub quick: usize,
    /// Number in the publication, or our choice where it gives none.
    pub full: usize,
}

/// Evenly spaced values, including both ends.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sweep {
    /// The first value.
    pub from: f64,
    /// The last one.
    pub to: f64,
    /// The difference between neighbouring values.
    pub step: f64,
}

impl Sweep {
    /// Returns all values.
    pub fn values(&self) -> Vec<f64> {
        let count = ((self.to - self.from) / self.step + 1e-9) as usize;
        (0..=count).map(|i| self.from + self.step * i as f64).collect()
    }
}
