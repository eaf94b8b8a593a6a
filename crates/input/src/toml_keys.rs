//! Where the keys of a TOML file are, so that errors name line and key.

use std::ops::Range;
use std::path::Path;

use headway_units::ConfigError;
use headway_units::config_error::with_nearest;
use serde::Deserialize;
use toml::Spanned;
use toml::de::{DeTable, DeValue, Deserializer, Error};

/// A file that is TOML.
#[derive(Debug)]
pub struct Document<'a> {
    text: &'a str,
    path: &'a Path,
    table: Spanned<DeTable<'a>>,
}

impl<'a> Document<'a> {
    /// Parses a text; `path` is named in errors.
    ///
    /// # Errors
    /// When it is not TOML.
    pub fn parse(text: &'a str, path: &'a Path) -> Result<Document<'a>, ConfigError> {
        let table = DeTable::parse(text);
        let table = table.map_err(|error| ConfigError::at(text, path, error.span(), error.message()))?;
        Ok(Document { text, path, table })
    }

    /// Reads what the file describes.
    ///
    /// # Errors
    /// Names the line and the key that is unknown, missing or wrong.
    pub fn read<T: Deserialize<'a>>(&self) -> Result<T, ConfigError> {
        T::deserialize(Deserializer::from(self.table.clone()))
            .map_err(|error| located(&error, self.table.get_ref(), self.text, self.path))
    }

    /// Returns a mistake in the value of a key with the place of that.
    pub fn locate(&self, mistake: ConfigError) -> ConfigError {
        let found = mistake.key().and_then(|key| find(self.table.get_ref(), key).0);
        mistake.in_file(self.path, found.map(|found| place(self.text, found.start)))
    }
}

/// Returns an error of a parser with line and key, which are those of `written`.
pub fn located(error: &Error, written: &DeTable<'_>, text: &str, path: &Path) -> ConfigError {
    let message = with_nearest(error.message().trim());
    let Some(span) = error.span() else {
        return ConfigError::new("", &message).in_file(path, None);
    };
    let (key, at) = refine(written, span.start, &message);
    ConfigError::new(&key, &message).in_file(path, Some(place(text, at)))
}

/// Returns the key at a place, or the one of the table there whose name or value a message quotes
/// first; and its place.
fn refine(written: &DeTable<'_>, at: usize, message: &str) -> (String, usize) {
    let key = name(written, at).unwrap_or_default();
    let quoted = message.split('`').nth(1).unwrap_or_default();
    let table = find_table(written, &key);
    let inner = table.into_iter().flatten().find(|(name, value)| {
        name.get_ref() == quoted && message.starts_with("unknown") || text_of(value.get_ref()) == Some(quoted)
    });
    match inner {
        Some((inner, _)) if key.is_empty() => (inner.get_ref().to_string(), inner.span().start),
        Some((inner, _)) => (format!("{key}.{}", inner.get_ref()), inner.span().start),
        None => (key, at),
    }
}

/// Returns line and column of a byte, from 1; the column only where a line has several keys.
pub fn place(text: &str, at: usize) -> (u32, Option<u32>) {
    let before = &text[..at.min(text.len())];
    let line = before.rsplit('\n').next().unwrap_or_default();
    // An inline table has several keys in a line.
    let column = line.contains('{').then(|| line.chars().count() as u32 + 1);
    (before.matches('\n').count() as u32 + 1, column)
}

fn text_of<'v>(value: &'v DeValue<'_>) -> Option<&'v str> {
    match value {
        DeValue::String(text) => Some(text),
        DeValue::Integer(number) => Some(number.as_str()),
        DeValue::Float(number) => Some(number.as_str()),
        _ => None,
    }
}

/// Returns the tables of an array of tables.
fn tables<'v, 'a>(value: &'v DeValue<'a>) -> Option<impl Iterator<Item = (Range<usize>, &'v DeTable<'a>)>> {
    let array = value.as_array().filter(|array| array.iter().any(|item| item.get_ref().is_table()))?;
    Some(array.iter().filter_map(|item| Some((item.span(), item.get_ref().as_table()?))))
}

/// Follows a key such as `link[1].queue.kind` as far as it exists; returns where the last part of it
/// is, and what is left.
pub fn find<'k>(table: &DeTable<'_>, key: &'k str) -> (Option<Range<usize>>, &'k str) {
    let (mut table, mut found, mut rest) = (table, None, key);
    loop {
        let (part, after) = rest.split_once('.').unwrap_or((rest, ""));
        let (name, index) = match part.split_once('[') {
            Some((name, index)) => (name, index.trim_end_matches(']').parse().ok()),
            None => (part, None),
        };
        let Some((key, value)) = table.get_key_value(name) else { return (found, rest) };
        let inner = match index {
            None => (Some(key.span()), value.get_ref().as_table()),
            Some(index) => match tables(value.get_ref()).and_then(|mut tables| tables.nth(index)) {
                Some((span, inner)) => (Some(span), Some(inner)),
                None => (Some(key.span()), None),
            },
        };
        found = inner.0;
        rest = after;
        match inner.1 {
            Some(inner) if !rest.is_empty() => table = inner,
            _ => return (found, rest),
        }
    }
}

/// Returns the key that is, or whose value is, at a byte of the file.
pub fn name(table: &DeTable<'_>, at: usize) -> Option<String> {
    table.iter().find_map(|(key, value)| {
        let own = key.get_ref();
        if let Some(tables) = tables(value.get_ref()) {
            return tables.enumerate().find_map(|(index, (span, inner))| {
                let deeper = name(inner, at).map(|inner| format!("{own}[{index}].{inner}"));
                deeper.or_else(|| span.contains(&at).then(|| format!("{own}[{index}]")))
            });
        }
        let deeper = value.get_ref().as_table().and_then(|inner| name(inner, at));
        deeper
            .map(|inner| format!("{own}.{inner}"))
            .or_else(|| (key.span().contains(&at) || value.span().contains(&at)).then(|| own.to_string()))
    })
}

/// Returns the table with this key.
fn find_table<'v, 'a>(table: &'v DeTable<'a>, key: &str) -> Option<&'v DeTable<'a>> {
    let mut table = table;
    for part in key.split('.').filter(|part| !part.is_empty()) {
        table = match part.split_once('[') {
            None => table.get(part)?.get_ref().as_table()?,
            Some((name, index)) => {
                let index = index.trim_end_matches(']').parse().ok()?;
                tables(table.get(name)?.get_ref())?.nth(index)?.1
            }
        };
    }
    Some(table)
}
