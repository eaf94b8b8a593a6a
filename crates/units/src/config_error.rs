//! Errors in files that users write, located by file, line and key.

use std::fmt;
use std::ops::Range;
use std::path::{Path, PathBuf};

use crate::nearest;

/// An error in a TOML file, with its location.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError {
    path: Option<PathBuf>,
    line: Option<u32>,
    column: Option<u32>,
    key: Option<String>,
    message: String,
}

impl std::error::Error for ConfigError {}

impl fmt::Display for ConfigError {
    /// Prints `FILE, line N, column N: KEY: message`, leaving out the parts that are not known.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(path) = &self.path {
            write!(f, "{}", path.display())?;
            match (self.line, self.column) {
                (Some(line), Some(column)) => write!(f, ", line {line}, column {column}: ")?,
                (Some(line), None) => write!(f, ", line {line}: ")?,
                (None, _) => write!(f, ": ")?,
            }
        }
        if let Some(key) = &self.key {
            write!(f, "`{key}`: ")?;
        }
        f.write_str(&self.message)
    }
}

impl ConfigError {
    /// Creates an error about the value of `key`, written like `forward.rate` or `cross[1].model`.
    pub fn new(key: &str, message: &str) -> ConfigError {
        ConfigError {
            path: None,
            line: None,
            column: None,
            key: Some(key.to_owned()),
            message: message.to_owned(),
        }
    }

    /// Creates an error at a span of `text`.
    pub fn at(text: &str, path: &Path, span: Option<Range<usize>>, message: &str) -> ConfigError {
        let line = span.map(|span| text[..span.start.min(text.len())].matches('\n').count() as u32 + 1);
        let message = with_nearest(message.trim());
        ConfigError { path: Some(path.to_owned()), line, column: None, key: None, message }
    }

    /// Returns the error with its file, and the line and column if they are known.
    pub fn in_file(self, path: &Path, place: Option<(u32, Option<u32>)>) -> ConfigError {
        let (line, column) = place.unzip();
        let key = self.key.filter(|key| !key.is_empty());
        ConfigError { path: Some(path.to_owned()), line, column: column.flatten(), key, ..self }
    }

    /// Returns the key at fault.
    pub fn key(&self) -> Option<&str> {
        self.key.as_deref()
    }

    /// Returns the message without the location.
    pub fn message(&self) -> &str {
        &self.message
    }
}

/// What stands before the name that was meant.
const MEANT: &str = "; did you mean `";

/// Adds the name that was meant, if that has not been done, to a parser's message about an unknown one:
/// "unknown field `rat`, expected one of `rate`, ...".
pub fn with_nearest(message: &str) -> String {
    let mut names = message.split('`').skip(1).step_by(2);
    let wrong = names.next().filter(|_| message.starts_with("unknown ") && !message.contains(MEANT));
    match wrong.and_then(|wrong| nearest(wrong, names)) {
        Some(name) => format!("{message}{MEANT}{name}`?"),
        None => message.to_owned(),
    }
}

/// Returns `Ok` when `right` holds.
///
/// # Errors
/// Otherwise returns a [`ConfigError`] with `key` and `rule`.
pub fn check(key: &str, right: bool, rule: &str) -> Result<(), ConfigError> {
    if right { Ok(()) } else { Err(ConfigError::new(key, rule)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_that_was_meant_is_offered() {
        let unknown = "unknown field `rat`, expected one of `from`, `rate`, `rates`";
        let answer = format!("{unknown}; did you mean `rate`?");
        assert_eq!((with_nearest(unknown), with_nearest(&answer)), (answer.clone(), answer.clone()));
        for other in ["unknown field `x`, expected `from`", "missing field `rate`", "`rat` is not a `rate`"] {
            assert_eq!(with_nearest(other), other);
        }
    }

    #[test]
    fn a_mistake_says_where_it_is() {
        let (text, path) = ("seed = 1\nrate = 4\n", Path::new("x.toml"));
        let place = text.find("4").unwrap();
        let mistake = ConfigError::at(text, path, Some(place..place), "is not a rate\n");
        assert_eq!(mistake.to_string(), "x.toml, line 2: is not a rate");
        let mistake = ConfigError::new("link[1].rate", "must be positive").in_file(path, Some((5, Some(12))));
        assert_eq!(mistake.to_string(), "x.toml, line 5, column 12: `link[1].rate`: must be positive");
    }
}
