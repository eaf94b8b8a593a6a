//! Errors in files that users write, located by file, line and key.

use std::collections::HashMap;
use std::fmt;
use std::ops::Range;
use std::path::{Path, PathBuf};

use crate::nearest;

/// An error in a TOML file, with its location.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mistake {
    path: Option<PathBuf>,
    line: Option<usize>,
    key: Option<String>,
    message: String,
}

impl std::error::Error for Mistake {}

impl fmt::Display for Mistake {
    /// Prints `FILE, line N: KEY: message`, leaving out the parts that are not known.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(path) = &self.path {
            write!(f, "{}", path.display())?;
            match self.line {
                Some(line) => write!(f, ", line {line}: ")?,
                None => write!(f, ": ")?,
            }
        }
        if let Some(key) = &self.key {
            write!(f, "`{key}`: ")?;
        }
        f.write_str(&self.message)
    }
}

impl Mistake {
    /// Creates an error about the value of `key`, written like `forward.rate` or `cross[1].model`.
    pub fn new(key: &str, message: &str) -> Mistake {
        Mistake { path: None, line: None, key: Some(key.to_owned()), message: message.to_owned() }
    }

    /// Creates an error at a span of `text` that a parser reported, with the key set on that line.
    pub fn at(text: &str, path: &Path, span: Option<Range<usize>>, message: &str) -> Mistake {
        let line = span.map(|span| text[..span.start.min(text.len())].matches('\n').count() + 1);
        let key = line.and_then(|line| keys(text).find(|(number, _)| *number == line)).map(|(_, key)| key);
        Mistake { path: Some(path.to_owned()), line, key, message: with_nearest(message.trim()) }
    }

    /// Returns the error with the line of `text` that holds its key or, if the key is absent, the nearest
    /// enclosing table.
    pub fn located(self, text: &str, path: &Path) -> Mistake {
        let line = self.key.as_deref().and_then(|key| line_of(text, key));
        Mistake { path: Some(path.to_owned()), line, ..self }
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

/// Adds the name that was meant to a parser's message about an unknown one: "unknown field `rat`, expected one of `rate`, ...".
pub fn with_nearest(message: &str) -> String {
    let mut names = message.split('`').skip(1).step_by(2);
    let wrong = names.next().filter(|_| message.starts_with("unknown "));
    match wrong.and_then(|wrong| nearest(wrong, names)) {
        Some(name) => format!("{message}; did you mean `{name}`?"),
        None => message.to_owned(),
    }
}

/// Returns `Ok` when `right` holds.
///
/// # Errors
/// Otherwise returns a [`Mistake`] with `key` and `rule`.
pub fn check(key: &str, right: bool, rule: &str) -> Result<(), Mistake> {
    if right { Ok(()) } else { Err(Mistake::new(key, rule)) }
}

/// Returns the line of `key`, written as by [`keys`], or of the nearest enclosing table when the key is absent.
fn line_of(text: &str, key: &str) -> Option<usize> {
    let find = |wanted: &str| keys(text).find(|(_, found)| found == wanted).map(|(line, _)| line);
    let tables = std::iter::successors(Some(key), |key| key.rsplit_once('.').map(|(table, _)| table));
    tables.into_iter().find_map(find)
}

/// Yields every line that sets a key or opens a table, with the full key: `forward.rate`, `cross[1].model`,
/// `link[0].queue.kind`.
fn keys(text: &str) -> impl Iterator<Item = (usize, String)> + '_ {
    let mut table = String::new();
    let mut arrays = HashMap::new();
    text.lines().enumerate().filter_map(move |(index, line)| {
        let line = line.split('#').next().unwrap_or_default().trim();
        // An element of an array that spans lines is no table.
        let key = if line.starts_with('[') && line.contains(',') {
            return None;
        } else if let Some(name) = line.strip_prefix("[[").and_then(|rest| rest.strip_suffix("]]")) {
            let count = arrays.entry(name.trim().to_owned()).and_modify(|n| *n += 1).or_insert(0usize);
            table = format!("{}[{count}]", name.trim());
            table.clone()
        } else if let Some(name) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            table = within_array(name.trim(), &arrays);
            table.clone()
        } else {
            let (key, _) = line.split_once('=')?;
            if table.is_empty() { key.trim().to_owned() } else { format!("{table}.{}", key.trim()) }
        };
        Some((index + 1, key))
    })
}

/// Resolves `link.queue` to the queue of the last `[[link]]`.
fn within_array(name: &str, arrays: &HashMap<String, usize>) -> String {
    let indexed = name.split_once('.').and_then(|(array, rest)| {
        let count = arrays.get(array)?;
        Some(format!("{array}[{count}].{rest}"))
    });
    indexed.unwrap_or_else(|| name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "seed = 1\n[[link]]\nrate = 1\n[[link]]\nrate = 2 # comment\nqueue = { kind = 3 }\n[link.police]\nrate = 4\n";

    #[test]
    fn keys_are_found_in_arrays_and_tables_below_them() {
        for (key, line) in [
            ("seed", Some(1)),
            ("link[0].rate", Some(3)),
            ("link[1].rate", Some(5)),
            ("link[1].delay", Some(4)),
            ("link[1].queue.kind", Some(6)),
            ("link[1].police.rate", Some(8)),
            ("flow[0].rate", None),
        ] {
            assert_eq!(line_of(TEXT, key), line, "{key}");
        }
    }

    #[test]
    fn arrays_that_span_lines_do_not_hide_the_keys_behind_them() {
        let text = "[[link]]\nrates = [\n[\"0 s\", 1],\n[\"5 s\", 2]\n]\ndelay = 3\n";
        assert_eq!((line_of(text, "link[0].rates"), line_of(text, "link[0].delay")), (Some(2), Some(6)));
    }

    #[test]
    fn the_name_that_was_meant_is_offered() {
        let unknown = "unknown field `rat`, expected one of `from`, `rate`, `rates`";
        assert_eq!(with_nearest(unknown), format!("{unknown}; did you mean `rate`?"));
        for other in ["unknown field `x`, expected `from`", "missing field `rate`", "`rat` is not a `rate`"] {
            assert_eq!(with_nearest(other), other);
        }
    }

    #[test]
    fn a_mistake_says_where_it_is() {
        let mistake = Mistake::new("link[1].rate", "must be positive").located(TEXT, Path::new("x.toml"));
        assert_eq!(mistake.to_string(), "x.toml, line 5: `link[1].rate`: must be positive");
        let place = TEXT.find("4\n").unwrap();
        let mistake = Mistake::at(TEXT, Path::new("x.toml"), Some(place..place), "is not a rate\n");
        assert_eq!(mistake.to_string(), "x.toml, line 8: `link[1].police.rate`: is not a rate");
    }
}
