//! The file of a sweep: which scenario, which seeds, and which values.

use std::path::{Path, PathBuf};

use headway_input::toml_keys::place;
use headway_scenario::{Change, World};
use headway_units::ConfigError;
use headway_units::config_error::with_nearest;
use toml::Spanned;
use toml::de::{DeArray, DeTable, DeValue};

use super::seeds;

/// The keys of a file.
const KEYS: [&str; 6] = ["scenario", "on", "seeds", "columns", "set", "vary"];
/// Columns that every table has, whose names are therefore taken.
pub(super) const TAKEN: [&str; 3] = ["world", "seed", "error"];

/// A file that has been read.
#[derive(Debug)]
pub(super) struct File {
    /// The scenario, relative to the folder of the file.
    pub(super) scenario: PathBuf,
    pub(super) world: World,
    /// `None` for the seed of the scenario.
    pub(super) seeds: Option<Vec<u64>>,
    /// What to show of a result; everything if empty.
    pub(super) columns: Vec<String>,
    /// In the order of the file, in which overrides are applied.
    pub(super) axes: Vec<Axis>,
}

/// A dimension of the grid, or an override that is the same in all cells.
#[derive(Debug)]
pub(super) struct Axis {
    pub(super) name: String,
    /// Whether it is a dimension, and so a column of the results.
    pub(super) varies: bool,
    pub(super) points: Vec<Point>,
}

/// A value of a dimension.
#[derive(Debug)]
pub(super) struct Point {
    pub(super) label: String,
    pub(super) overrides: Vec<Override>,
}

/// An override of the scenario and its place in the file.
#[derive(Debug)]
pub(super) struct Override {
    pub(super) change: Change,
    at: (u32, Option<u32>),
}

impl Override {
    /// Says that the scenario refuses this override.
    pub(super) fn refused(&self, path: &Path, reason: &str) -> ConfigError {
        ConfigError::new(&self.change.to_string(), reason).in_file(path, Some(self.at))
    }
}

/// Reads the text of a file; `path` is named in errors.
pub(super) fn read(text: &str, path: &Path) -> Result<File, ConfigError> {
    let table = DeTable::parse(text);
    let table = table.map_err(|error| ConfigError::at(text, path, error.span(), error.message()))?;
    Reader { text, path }.file(table.get_ref())
}

type Key<'k, 'a> = &'k Spanned<std::borrow::Cow<'a, str>>;

struct Reader<'t> {
    text: &'t str,
    path: &'t Path,
}

impl Reader<'_> {
    fn wrong(&self, at: usize, key: &str, message: &str) -> ConfigError {
        ConfigError::new(key, message).in_file(self.path, Some(place(self.text, at)))
    }

    fn file(&self, table: &DeTable<'_>) -> Result<File, ConfigError> {
        for (key, _) in table {
            let name = key.get_ref().as_ref();
            if !KEYS.contains(&name) {
                let known = KEYS.map(|key| format!("`{key}`")).join(", ");
                let message = with_nearest(&format!("unknown key `{name}`, expected one of {known}"));
                return Err(self.wrong(key.span().start, name, &message));
            }
        }
        let scenario = self.text_of(table, "scenario")?.ok_or_else(|| self.missing("scenario"))?;
        let (world, at) = self.text_of(table, "on")?.ok_or_else(|| self.missing("on"))?;
        let world = world.parse::<World>().map_err(|error| self.wrong(at, "on", &error.to_string()))?;
        let mut axes = Vec::new();
        if let Some(set) = self.table_of(table, "set")? {
            self.set(set, "", &mut axes)?;
        }
        if let Some(vary) = self.table_of(table, "vary")? {
            for (key, value) in vary {
                axes.push((key.span().start, self.varied(key, value)?));
            }
        }
        axes.sort_by_key(|(at, _)| *at);
        Ok(File {
            scenario: scenario.0.into(),
            world,
            seeds: self.seeds(table)?,
            columns: self.columns(table)?,
            axes: axes.into_iter().map(|(_, axis)| axis).collect(),
        })
    }

    fn missing(&self, key: &str) -> ConfigError {
        ConfigError::new(key, "is missing").in_file(self.path, None)
    }

    /// Returns a text and its place.
    fn text_of<'v>(
        &self,
        table: &'v DeTable<'_>,
        key: &str,
    ) -> Result<Option<(&'v str, usize)>, ConfigError> {
        let Some(value) = table.get(key) else { return Ok(None) };
        let text = value.get_ref().as_str();
        let text = text.ok_or_else(|| self.wrong(value.span().start, key, "must be a text"))?;
        Ok(Some((text, value.span().start)))
    }

    fn table_of<'v, 'a>(
        &self,
        table: &'v DeTable<'a>,
        key: &str,
    ) -> Result<Option<&'v DeTable<'a>>, ConfigError> {
        let Some(value) = table.get(key) else { return Ok(None) };
        let inner = value.get_ref().as_table();
        inner.map(Some).ok_or_else(|| self.wrong(value.span().start, key, "must be a table"))
    }

    fn seeds(&self, table: &DeTable<'_>) -> Result<Option<Vec<u64>>, ConfigError> {
        let Some(value) = table.get("seeds") else { return Ok(None) };
        let seeds = match value.get_ref() {
            DeValue::String(text) => seeds::parse(text),
            DeValue::Array(items) => {
                let numbers = items.iter().map(|item| item.get_ref().as_integer()?.as_str().parse().ok());
                let numbers: Option<Vec<u64>> = numbers.collect();
                numbers.ok_or_else(|| "every seed is a whole number".to_owned()).and_then(seeds::check)
            }
            _ => Err("must be a text such as `\"1-5\"` or a list of numbers, such as `[1, 2, 3]`".to_owned()),
        };
        Ok(Some(seeds.map_err(|message| self.wrong(value.span().start, "seeds", &message))?))
    }

    fn columns(&self, table: &DeTable<'_>) -> Result<Vec<String>, ConfigError> {
        let Some(value) = table.get("columns") else { return Ok(Vec::new()) };
        let wrong = || self.wrong(value.span().start, "columns", "must be a list of names of columns");
        let items = value.get_ref().as_array().ok_or_else(wrong)?;
        items.iter().map(|item| item.get_ref().as_str().map(str::to_owned).ok_or_else(wrong)).collect()
    }

    /// Reads `[set]`, where `link.0.rate = ...` is the same as `"link.0.rate" = ...`.
    fn set(
        &self,
        table: &DeTable<'_>,
        above: &str,
        axes: &mut Vec<(usize, Axis)>,
    ) -> Result<(), ConfigError> {
        for (key, value) in table {
            let name = format!("{above}{}", key.get_ref());
            match value.get_ref() {
                DeValue::Table(inner) if !self.is_inline(value) => {
                    self.set(inner, &format!("{name}."), axes)?
                }
                DeValue::Array(items) => axes.push((key.span().start, self.listed(&name, key, items)?)),
                _ => {
                    let point = self.point(&name, key.span().start, value)?;
                    let axis = Axis { name, varies: false, points: vec![point] };
                    axes.push((key.span().start, axis));
                }
            }
        }
        Ok(())
    }

    fn is_inline(&self, value: &Spanned<DeValue<'_>>) -> bool {
        self.text[value.span().start..].starts_with('{')
    }

    fn listed(&self, name: &str, key: Key<'_, '_>, items: &DeArray<'_>) -> Result<Axis, ConfigError> {
        let points = items.iter().map(|item| self.point(name, item.span().start, item));
        self.axis(name, key.span().start, points.collect::<Result<_, _>>()?)
    }

    fn axis(&self, name: &str, at: usize, points: Vec<Point>) -> Result<Axis, ConfigError> {
        if points.is_empty() {
            return Err(self.wrong(at, name, "has no values"));
        }
        for (index, point) in points.iter().enumerate() {
            if points[..index].iter().any(|earlier| earlier.label == point.label) {
                return Err(self.wrong(at, name, &format!("has `{}` twice", point.label)));
            }
        }
        Ok(Axis { name: name.to_owned(), varies: true, points })
    }

    /// Reads a dimension whose every value sets several keys.
    fn varied(&self, key: Key<'_, '_>, value: &Spanned<DeValue<'_>>) -> Result<Axis, ConfigError> {
        let (name, at) = (key.get_ref().as_ref(), key.span().start);
        let full = format!("vary.{name}");
        if TAKEN.contains(&name) || name.is_empty() || name.contains('.') {
            return Err(self.wrong(
                at,
                &full,
                "is the name of a column; choose one that is free, without a dot",
            ));
        }
        let DeValue::Table(labels) = value.get_ref() else {
            return Err(self.wrong(at, &full, "must be a table of values, each with the keys that it sets"));
        };
        let mut points = Vec::new();
        for (label, keys) in labels {
            let (label, at) = (label.get_ref().to_string(), label.span().start);
            let DeValue::Table(keys) = keys.get_ref() else {
                let message = "must be a table of keys, such as `{ \"link.0.rate\" = \"1 Gb/s\" }`";
                return Err(self.wrong(at, &format!("{full}.{label}"), message));
            };
            let mut overrides = Vec::new();
            self.overrides(keys, "", &mut overrides)?;
            overrides.sort_by_key(|(at, _)| *at);
            let overrides = overrides.into_iter().map(|(_, one)| one).collect();
            points.push((at, Point { label, overrides }));
        }
        points.sort_by_key(|(at, _)| *at);
        let mut axis = self.axis(name, at, points.into_iter().map(|(_, point)| point).collect())?;
        axis.name = name.to_owned();
        Ok(axis)
    }

    /// Reads the keys that a value sets, with their places.
    fn overrides(
        &self,
        table: &DeTable<'_>,
        above: &str,
        found: &mut Vec<(usize, Override)>,
    ) -> Result<(), ConfigError> {
        for (key, value) in table {
            let name = format!("{above}{}", key.get_ref());
            match value.get_ref() {
                DeValue::Table(inner) if !self.is_inline(value) => {
                    self.overrides(inner, &format!("{name}."), found)?;
                }
                _ => {
                    let text = self.written(&name, value)?;
                    found.push((key.span().start, self.one(&name, key.span().start, &text)?));
                }
            }
        }
        Ok(())
    }

    fn point(&self, key: &str, at: usize, value: &Spanned<DeValue<'_>>) -> Result<Point, ConfigError> {
        let label = self.written(key, value)?;
        let overrides = vec![self.one(key, at, &label)?];
        Ok(Point { label, overrides })
    }

    fn one(&self, key: &str, at: usize, value: &str) -> Result<Override, ConfigError> {
        // A text of several lines would be more than one value.
        let quoted = value.contains('\n').then(|| toml::Value::String(value.to_owned()).to_string());
        let change = format!("{key}={}", quoted.as_deref().unwrap_or(value)).parse();
        let change = change.map_err(|message: String| self.wrong(at, key, &message))?;
        Ok(Override { change, at: place(self.text, at) })
    }

    /// Returns a value as `--set` takes it: texts without quotes, everything else as the file writes it.
    fn written(&self, key: &str, value: &Spanned<DeValue<'_>>) -> Result<String, ConfigError> {
        match value.get_ref() {
            DeValue::String(text) => Ok(text.to_string()),
            DeValue::Table(_) if !self.is_inline(value) => Err(self.wrong(
                value.span().start,
                key,
                "must be a value, a list of values or a table in braces",
            )),
            _ => Ok(self.text[value.span()].to_owned()),
        }
    }
}
