//! Checks that several parts of a model file share.

use crate::error::{FileError, wrong};

/// Checks that all numbers are finite.
pub(crate) fn finite(place: &str, values: &[f64]) -> Result<(), FileError> {
    match values.iter().position(|value| !value.is_finite()) {
        Some(index) if values.len() > 1 => Err(wrong(format!("{place}[{index}]"), "is not a finite number")),
        Some(_) => Err(wrong(place, "is not a finite number")),
        None => Ok(()),
    }
}

/// Checks a number of entries; `of` says what there are `expected` of.
pub(crate) fn length(place: &str, found: usize, expected: usize, of: &str) -> Result<(), FileError> {
    if found == expected {
        return Ok(());
    }
    Err(wrong(place, format!("has {found} entries, and there are {expected} {of}")))
}
