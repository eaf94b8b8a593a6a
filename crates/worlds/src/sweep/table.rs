//! The results of a sweep as a table: a row for each cell, in the order of the cells.

use std::collections::BTreeMap;

use headway_record::csv::{Text, lines};
use headway_units::nearest;
use serde::{Serialize, Serializer};
use serde_json::{Number, Value, json};

use super::CellResult;
use super::columns::{self, Name};
use super::file::TAKEN;
use super::grid::{Cell, Sweep};
use crate::error::Error;

/// The table of those cells that have a result.
pub(super) struct Table {
    names: Vec<String>,
    rows: Vec<Vec<Value>>,
}

impl Table {
    pub(super) fn new(sweep: &Sweep, results: &[Option<CellResult>]) -> Result<Table, Error> {
        let ended = sweep.cells().iter().zip(results);
        let ended: Vec<(&Cell, &CellResult)> =
            ended.filter_map(|(cell, result)| Some((cell, result.as_ref()?))).collect();
        let mut found = Vec::new();
        for (_, result) in &ended {
            found.push(result.as_ref().map_or(Ok(Vec::new()), |record| columns::values(&record.summary))?);
        }
        let columns = columns_of(&found, &sweep.columns);
        let mut rows = Vec::new();
        for ((cell, result), values) in ended.into_iter().zip(found) {
            let mut row = head(sweep, cell, result);
            let mut values: BTreeMap<Name, Value> = values.into_iter().collect();
            row.extend(columns.iter().map(|name| values.remove(name).unwrap_or_default()));
            rows.push(row);
        }
        let [world, seed, error] = TAKEN;
        let head = [world].into_iter().chain(sweep.dimensions()).chain([seed, error]).map(str::to_owned);
        Ok(Table { names: head.chain(columns.iter().map(|name| name.join("."))).collect(), rows })
    }

    /// Formats it as CSV.
    pub(super) fn csv(&self) -> String {
        let names = self.names.iter().map(Text).collect::<Vec<_>>();
        let rows = self.rows.iter().map(|row| row.iter().map(Field).collect::<Vec<_>>());
        lines([names]) + &lines(rows)
    }

    /// Formats it as one JSON object per line.
    pub(super) fn json_lines(&self) -> Result<String, Error> {
        let mut text = String::new();
        for row in &self.rows {
            let mut pairs = Vec::new();
            for (name, value) in self.names.iter().zip(row) {
                pairs.push(format!("{}:{value}", serde_json::to_string(name)?));
            }
            text += &format!("{{{}}}\n", pairs.join(","));
        }
        Ok(text)
    }
}

/// Returns a cell with its result as one object.
pub(super) fn object(sweep: &Sweep, number: usize, result: Option<&CellResult>) -> Value {
    let cell = &sweep.cells()[number];
    let values = sweep.dimensions().zip(&cell.values).map(|(name, value)| (name.to_owned(), typed(value)));
    let mut object = json!({
        "type": "cell",
        "cell": number + 1,
        "world": sweep.world.name(),
        "values": values.collect::<serde_json::Map<_, _>>(),
        "seed": cell.seed,
    });
    if let Some(result) = result {
        object["error"] = result.as_ref().err().map_or(Value::Null, |error| error.as_str().into());
        object["summary"] = json!(result.as_ref().ok().map(|record| &record.summary));
    }
    object
}

/// Returns the values that say which cell it is, and its error.
fn head(sweep: &Sweep, cell: &Cell, result: &CellResult) -> Vec<Value> {
    let error = result.as_ref().err().map_or(Value::Null, |error| error.as_str().into());
    let world = Value::from(sweep.world.name());
    let values = cell.values.iter().map(|text| typed(text));
    [world].into_iter().chain(values).chain([cell.seed.into(), error]).collect()
}

/// Returns a number or a truth value as such.
fn typed(text: &str) -> Value {
    let number = || text.parse::<Number>().ok().map(Value::Number);
    text.parse().ok().map(Value::Bool).or_else(number).unwrap_or_else(|| text.into())
}

/// Returns the columns of the results that are wanted, in the order in which they occur first.
fn columns_of(found: &[Vec<(Name, Value)>], wanted: &[String]) -> Vec<Name> {
    let mut columns: Vec<Name> = Vec::new();
    let mut known = std::collections::BTreeSet::new();
    for (name, _) in found.iter().flatten() {
        let shown = wanted.is_empty() || wanted.iter().any(|pattern| columns::means(pattern, name));
        if shown && known.insert(name) {
            columns.push(name.clone());
        }
    }
    columns
}

/// Returns a sentence for every wanted column that no result has.
pub(super) fn absent(sweep: &Sweep, results: &[Option<CellResult>]) -> Result<Vec<String>, Error> {
    let mut names = std::collections::BTreeSet::new();
    for record in results.iter().flatten().flatten() {
        names.extend(columns::values(&record.summary)?.into_iter().map(|(name, _)| name));
    }
    let is_absent =
        |pattern: &&String| !names.is_empty() && !names.iter().any(|name| columns::means(pattern, name));
    let sentence = |pattern: &String| {
        let all: Vec<String> = names.iter().map(|name| name.join(".")).collect();
        let meant = nearest(pattern, all.iter().map(String::as_str));
        let meant = meant.map_or(String::new(), |name| format!("; did you mean `{name}`?"));
        format!("no result has the column `{pattern}`{meant}")
    };
    Ok(sweep.columns.iter().filter(is_absent).map(sentence).collect())
}

/// A field of CSV.
struct Field<'a>(&'a Value);

impl Serialize for Field<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            Value::Null => serializer.serialize_str(""),
            Value::String(text) => Text(text).serialize(serializer),
            other => serializer.collect_str(other),
        }
    }
}
