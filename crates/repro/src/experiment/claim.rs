//! What is said about the measured numbers of an experiment: notes, and published claims with their bands.

use serde::{Deserialize, Serialize};

/// A measured number that explains others; printed as a remark, without a band.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Note {
    /// The measured number, in the syntax of a [`Claim`].
    pub measure: String,
    /// Description, to be followed by the number.
    pub text: String,
    /// Unit of the number.
    #[serde(default)]
    pub unit: String,
}

/// A published number or statement, expressed as a band.
///
/// `measure` is the name of a measured number, `null of NAME`, `NAME minus NAME` or `NAME over NAME`.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Claim {
    /// The measured number that the claim is about.
    pub measure: String,
    /// What was published.
    pub published: String,
    /// Unit of the band and of the measured number.
    #[serde(default)]
    pub unit: String,
    /// Smallest number that agrees.
    pub at_least: Option<f64>,
    /// Largest number that agrees.
    pub at_most: Option<f64>,
    /// Justification of the band.
    pub reason: String,
    /// Why the number is not reached, where known.
    pub deviation: Option<String>,
    /// Whether only the full size measures the number.
    #[serde(default, skip_serializing)]
    pub only_full: bool,
}

impl Claim {
    /// Whether a number lies within the band; NaN never does.
    pub fn holds(&self, measured: f64) -> bool {
        !measured.is_nan()
            && self.at_least.is_none_or(|low| measured >= low)
            && self.at_most.is_none_or(|high| measured <= high)
    }

    /// Formats the band.
    pub fn band(&self) -> String {
        match (self.at_least, self.at_most) {
            (Some(low), Some(high)) => format!("{low} to {high}"),
            (Some(low), None) => format!(">= {low}"),
            (None, Some(high)) => format!("<= {high}"),
            (None, None) => "any".to_owned(),
        }
    }
}
