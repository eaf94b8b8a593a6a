//! The state of a choice, as people read it.

use console::truncate_str;
use headway_program::out::escape_controls;
use headway_units::{Bytes, Duration, Rate};
use serde_json::{Value, json};

/// Returns what people see of a state: why a path is chosen, all paths, and the last decisions; no more than fits into height and width.
pub(super) fn screen_lines(state: &Value, size: Option<(usize, usize)>) -> Vec<String> {
    let list = |key: &str| state[key].as_array().map(Vec::as_slice).unwrap_or_default();
    let sentence = |of: &Value| escape_controls(of["sentence"].as_str().unwrap_or_default()).into_owned();
    let mut lines = vec![sentence(&state["decision"])];
    lines.extend(table(list("paths")).lines().map(str::to_owned));
    if let Some(away) = state["away"].as_str() {
        lines.insert(0, escape_controls(away).into_owned());
    }
    if let Some((height, _)) = size {
        // The last line of a terminal is that of the cursor.
        let room = height.saturating_sub(lines.len() + 1);
        let decisions = list("decisions").iter().take(room);
        lines.extend(decisions.map(|one| format!("{:>9} ago: {}", age(one), sentence(one))));
        lines.truncate(height.saturating_sub(1));
    }
    let width = size.map_or(usize::MAX, |(_, width)| width);
    lines.iter().map(|line| truncate_str(line, width, "…").into_owned()).collect()
}

/// Returns the age of a decision, in one number.
fn age(decision: &Value) -> String {
    let seconds = decision["age_ms"].as_u64().unwrap_or(0) / 1_000;
    match seconds {
        0..120 => format!("{seconds} s"),
        120..7_200 => format!("{} min", seconds / 60),
        _ => format!("{} h", seconds / 3_600),
    }
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
        "transfer",
        "odds",
        "cost this hour",
        "",
    ]);
    for path in paths {
        table.add_row(row(path));
    }
    table.lines().map(|line| line.trim_end().to_owned() + "\n").collect()
}

fn row(path: &Value) -> [String; 11] {
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
        escape_controls(path["name"].as_str().unwrap_or_default()).into_owned(),
        rate(free(0)),
        if free(1).is_some() { format!("{} to {}", rate(free(1)), rate(free(2))) } else { "-".to_owned() },
        time(number("age_ms").map(|ms| ms / 1_000 * 1_000_000_000)),
        rate(number("capacity_bps")),
        time(number("rtt_ns")),
        time(path["transfer_ns"].get(0).and_then(Value::as_u64)),
        odds.map_or_else(String::new, |odds| format!("{:.0} %", 100.0 * odds)),
        format!("{} of {}", bytes("spent_bytes"), bytes("budget_bytes")),
        notes(path),
    ]
}

/// Returns what is wrong with a path, and what its user wishes.
fn notes(path: &Value) -> String {
    let is = |key: &str| path[key] == json!(true);
    let trouble = path["trouble"].as_str().map(str::to_owned);
    let preferred =
        is("preferred").then(|| if is("is_full") { "preferred, full" } else { "preferred" }.to_owned());
    let left = path["quota_left_bytes"].as_u64().map(|left| format!("{} left", Bytes::new(left)));
    [trouble, preferred, left].into_iter().flatten().collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_screen_has_no_more_than_fits_and_decisions_only_where_there_is_room() {
        let path = |name: &str| json!({ "name": name, "free_bps": [9_000_000, 8_000_000, 10_000_000] });
        let decision = |age: u64| json!({ "age_ms": age, "sentence": "a replaces b\u{1b}[2J: it is better" });
        let state = json!({
            "decision": decision(1_500), "paths": [path("a"), path("b")], "decisions": [decision(1_500), decision(62_000)],
        });
        let all = screen_lines(&state, None);
        assert_eq!(all.len(), 4, "{all:#?}");
        let tall = screen_lines(&state, Some((24, 200)));
        assert_eq!(tall.len(), 6);
        assert!(tall[4].contains("1 s ago: a replaces b"), "{}", tall[4]);
        assert!(tall.iter().all(|line| !line.contains('\u{1b}')));
        for (height, width) in [(0, 0), (1, 5), (3, 20), (5, 40)] {
            let lines = screen_lines(&state, Some((height, width)));
            let fits = |line: &String| console::measure_text_width(line) <= width.max(1);
            assert!(lines.len() < height.max(1) && lines.iter().all(fits), "{height}: {lines:#?}");
        }
    }
}
