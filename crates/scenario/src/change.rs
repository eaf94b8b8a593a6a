//! Overrides of scenario keys from the command line: `link.0.rate=50 Mb/s`.

use std::fmt;
use std::str::FromStr;

use headway_units::ConfigError;
use headway_units::config_error::with_nearest;
use serde::de::DeserializeOwned;
use toml::{Table, Value};

use crate::error::Error;
use crate::file::File;

/// Sets one key of a scenario to another value.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    /// Keys and array indices, outermost first.
    path: Vec<String>,
    /// The value as written.
    value: String,
}

impl FromStr for Change {
    type Err = String;

    /// Reads `link.0.rate=50 Mb/s`; the value needs no quotes.
    fn from_str(text: &str) -> Result<Change, String> {
        let (path, value) = text.split_once('=').ok_or("a change looks like `link.0.rate=50 Mb/s`")?;
        let path: Vec<String> = path.trim().split('.').map(str::to_owned).collect();
        if path.iter().any(String::is_empty) {
            return Err("a change begins with a key such as `link.0.rate`".to_owned());
        }
        Ok(Change { path, value: value.trim().to_owned() })
    }
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", self.path.join("."), self.value)
    }
}

impl Change {
    /// Returns the candidate values, in order: the TOML value, if it parses as one, then the plain text,
    /// unless the value is an array.
    fn values(&self) -> Vec<Value> {
        let parsed = toml::from_str::<Table>(&format!("value = {}", self.value)).ok();
        let parsed = parsed.and_then(|mut table| table.remove("value"));
        match parsed {
            Some(array @ Value::Array(_)) => vec![array],
            other => other.into_iter().chain([Value::String(self.value.clone())]).collect(),
        }
    }

    /// Returns the key in the notation of [`ConfigError`]: `link[0].rate`.
    pub fn key(&self) -> String {
        let mut key = String::new();
        for part in &self.path {
            match part.parse::<usize>() {
                Ok(index) => key += &format!("[{index}]"),
                Err(_) if key.is_empty() => key += part,
                Err(_) => key += &format!(".{part}"),
            }
        }
        key
    }

    fn refused(&self, reason: impl Into<String>) -> Error {
        Error::Change { change: self.to_string(), reason: reason.into() }
    }

    /// Sets the value in `table`. Missing tables are created; array elements must exist.
    fn set(&self, table: &mut Table, value: Value) -> Result<(), Error> {
        let Some((last, path)) = self.path.split_last() else { return Ok(()) };
        let mut place = table;
        let mut parts = path.iter();
        while let Some(part) = parts.next() {
            let inner = place.entry(part.clone()).or_insert_with(|| Value::Table(Table::new()));
            let inner = match inner {
                Value::Array(array) => {
                    let length = array.len();
                    let wrong = || self.refused(format!("`{part}` has {length} elements, counted from 0"));
                    let index: usize = parts.next().and_then(|index| index.parse().ok()).ok_or_else(wrong)?;
                    array.get_mut(index).ok_or_else(wrong)?
                }
                other => other,
            };
            let Value::Table(inner) = inner else {
                return Err(self.refused(format!("`{part}` is a single value and has no keys")));
            };
            place = inner;
        }
        place.insert(last.clone(), value);
        Ok(())
    }
}

/// Reads `text`, which is valid on its own, with the changes applied.
///
/// # Errors
/// If a change names no key, or a value does not fit.
pub fn apply<T: DeserializeOwned>(text: &str, changes: &[Change]) -> Result<T, Error> {
    let read = |text: &str| toml::from_str(text).map_err(|error| ConfigError::new("", error.message()));
    apply_with(text, changes, read)
}

/// As [`apply`], for what `read` reads.
pub(crate) fn apply_with<T>(
    text: &str,
    changes: &[Change],
    read: impl Fn(&str) -> Result<T, ConfigError>,
) -> Result<T, Error> {
    let mut table: Table = toml::from_str(text).map_err(|e| ConfigError::new("", e.message()))?;
    let mut result = None;
    for change in changes {
        let mut reason = None;
        for value in change.values() {
            let mut changed = table.clone();
            change.set(&mut changed, value)?;
            match read(&toml::to_string(&changed).unwrap_or_default()) {
                Ok(read) => {
                    (table, result, reason) = (changed, Some(read), None);
                    break;
                }
                // The reason for the plain text, tried last, wins: it is the one that users understand.
                Err(mistake) => reason = Some(with_nearest(mistake.message().trim())),
            }
        }
        if let Some(reason) = reason {
            return Err(change.refused(reason));
        }
    }
    result.ok_or_else(|| ConfigError::new("", "no change was given").into())
}

/// Attributes a mistake to the change that caused it, or else to the line of the file.
pub(crate) fn attribute(mistake: ConfigError, changes: &[Change], file: &File<'_>) -> Error {
    let by = |change: &&Change| mistake.key() == Some(change.key().as_str());
    match changes.iter().rev().find(by) {
        Some(change) => change.refused(mistake.message()),
        None => file.locate(mistake).into(),
    }
}
