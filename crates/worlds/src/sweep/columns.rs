//! The numbers of a result by name: `total.goodput_bps`, `links.a->b.loss`, `groups.0.sent`.

use headway_record::Summary;
use serde_json::{Map, Value};

use crate::error::Error;

/// The parts of a summary that differ between cells; the others are those of the sweep or the same for all.
const PARTS: [&str; 7] = ["total", "groups", "links", "traffic", "measurements", "middleboxes", "programs"];
/// The list whose items have names in place of numbers, and the key of the name.
const NAMED: (&str, &str) = ("links", "link");

/// The name of a column in its parts.
pub(super) type Name = Vec<String>;

/// Returns all values of a result with the names of their columns.
pub(super) fn values(summary: &Summary) -> Result<Vec<(Name, Value)>, Error> {
    let mut found = Vec::new();
    if let Value::Object(mut all) = serde_json::to_value(summary)? {
        for part in PARTS {
            if let Some(value) = all.remove(part) {
                flatten(&mut vec![part.to_owned()], value, &mut found);
            }
        }
    }
    Ok(found)
}

fn flatten(above: &mut Name, value: Value, found: &mut Vec<(Name, Value)>) {
    let mut inside = |name: String, value| {
        above.push(name);
        flatten(above, value, found);
        above.pop();
    };
    match value {
        Value::Object(table) => table.into_iter().for_each(|(key, value)| inside(key, value)),
        Value::Array(items) => {
            for (index, item) in items.into_iter().enumerate() {
                let (name, item) = named(item).unwrap_or_else(|item| (index.to_string(), item));
                inside(name, item);
            }
        }
        value => found.push((above.clone(), value)),
    }
}

/// Takes the name out of an item that has one.
fn named(item: Value) -> Result<(String, Value), Value> {
    let Value::Object(mut table) = item else { return Err(item) };
    match table.remove(NAMED.1) {
        Some(Value::String(name)) => Ok((name, Value::Object(table))),
        Some(other) => Err(put_back(table, other)),
        None => Err(Value::Object(table)),
    }
}

fn put_back(mut table: Map<String, Value>, value: Value) -> Value {
    table.insert(NAMED.1.to_owned(), value);
    Value::Object(table)
}

/// Whether a pattern means a column: it is the name or its beginning, with `*` for any part.
pub(super) fn means(pattern: &str, name: &[String]) -> bool {
    let mut rest = name.iter();
    pattern.split('.').all(|part| rest.next().is_some_and(|name| part == "*" || part == name))
}

#[cfg(test)]
mod tests {
    use headway_record::{LinkResult, SourceResult, Total};

    use super::*;

    fn summary() -> Summary {
        let link = |link: &str| LinkResult { link: link.to_owned(), ..LinkResult::default() };
        Summary {
            scenario: "x".to_owned(),
            world: "sim".to_owned(),
            seed: 1,
            partial: false,
            valid: true,
            warmup_ns: 0,
            measured_ns: 1,
            total: Total { goodput_bps: 7, fairness: 0.5, ..Total::default() },
            groups: Vec::new(),
            links: vec![link("a->b"), link("b->a")],
            traffic: vec![SourceResult::default()],
            measurements: Vec::new(),
            middleboxes: Vec::new(),
            decisions: Vec::new(),
            selections: Vec::new(),
            programs: Vec::new(),
        }
    }

    #[test]
    fn links_have_names_and_everything_else_a_number() {
        let values = values(&summary()).unwrap();
        let value = |name: &str| {
            values.iter().find(|(parts, _)| parts.join(".") == name).map(|(_, value)| value.clone())
        };
        assert_eq!(value("total.goodput_bps"), Some(7.into()));
        assert_eq!(value("total.fairness"), Some(0.5.into()));
        assert_eq!(value("links.b->a.loss"), Some(0.0.into()));
        assert_eq!(value("links.b->a.utilisation"), Some(Value::Null));
        assert_eq!(value("traffic.0.sent"), Some(0.into()));
        assert!(value("seed").is_none() && value("links.b->a.link").is_none());
    }

    #[test]
    fn a_pattern_is_the_beginning_of_a_name() {
        let name = ["links", "a->b", "loss"].map(str::to_owned);
        for pattern in ["links", "links.a->b", "links.a->b.loss", "links.*.loss", "*.*.loss"] {
            assert!(means(pattern, &name), "{pattern}");
        }
        for pattern in ["link", "links.b->a", "links.a->b.loss.x", "links.*.lost", ""] {
            assert!(!means(pattern, &name), "{pattern}");
        }
    }
}
