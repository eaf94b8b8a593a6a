//! The state of a choice, as people and programs read it.

use headway_program::time::{now, rfc3339};
use headway_units::{Bytes, Duration, Rate};
use serde_json::{Map, Value, json};

/// Returns an object with the time at which it is made, and what it is about.
pub(super) fn event(name: &str, what: Value) -> Value {
    let now = now();
    let mut object = Map::new();
    object.insert("event".to_owned(), name.into());
    object.insert("at_unix_ns".to_owned(), now.ns().into());
    object.insert("at_rfc3339".to_owned(), rfc3339(now).into());
    if let Value::Object(rest) = what {
        // By the clock of the program, which means nothing to others.
        object.extend(rest.into_iter().filter(|(key, _)| key != "at_ns"));
    }
    Value::Object(object)
}

/// Returns a table of paths with what is known of each; `paths` are as in a snapshot.
pub(super) fn table(paths: &[Value]) -> String {
    let mut table = comfy_table::Table::new();
    table.load_style(comfy_table::presets::NOTHING);
    table.set_header([
        "",
        "path",
        "free",
        "90 % interval",
        "age",
        "capacity",
        "RTT",
        "odds",
        "cost this hour",
        "",
    ]);
    for path in paths {
        table.add_row(row(path));
    }
    table.lines().map(|line| line.trim_end().to_owned() + "\n").collect()
}

fn row(path: &Value) -> [String; 10] {
    let number = |key: &str| path.get(key).and_then(Value::as_u64);
    let rate = |bps: Option<u64>| bps.map_or_else(|| "-".to_owned(), |bps| Rate::from_bps(bps).to_string());
    let free = |place: usize| path["free_bps"].get(place).and_then(Value::as_u64);
    let time = |ns: Option<u64>| {
        ns.map_or_else(
            || "-".to_owned(),
            |ns| Duration::from_ns(i64::try_from(ns).unwrap_or(i64::MAX)).to_string(),
        )
    };
    let is_chosen = path["is_chosen"] == json!(true);
    let odds = path["odds"].as_f64().filter(|_| !is_chosen);
    let bytes = |key: &str| Bytes::new(number(key).unwrap_or(0));
    [
        if is_chosen { "*" } else { "" }.to_owned(),
        headway_program::out::escape_controls(path["name"].as_str().unwrap_or_default()).into_owned(),
        rate(free(0)),
        if free(1).is_some() { format!("{} to {}", rate(free(1)), rate(free(2))) } else { "-".to_owned() },
        time(number("age_ms").map(|ms| ms / 1_000 * 1_000_000_000)),
        rate(number("capacity_bps")),
        time(number("rtt_ns")),
        odds.map_or_else(String::new, |odds| format!("{:.0} %", 100.0 * odds)),
        format!("{} of {}", bytes("spent_bytes"), bytes("budget_bytes")),
        path["trouble"].as_str().unwrap_or_default().to_owned(),
    ]
}
