//! The state of a choice, as people read it.

use console::truncate_str;
use headway_program::out::escape_controls;
use headway_router::select::Known;
use headway_select::{DecisionState, PathState};
use headway_units::{Bytes, Duration, Rate};

/// Returns what people see of a state: why it is not the newest, if so, why a path is chosen, all paths, and
/// the last decisions; no more than fits into height and width.
pub(super) fn screen_lines(
    Known { snapshot, decisions }: &Known,
    away: Option<&str>,
    size: Option<(usize, usize)>,
) -> Vec<String> {
    let sentence = |of: &DecisionState| escape_controls(&of.sentence).into_owned();
    let mut lines: Vec<String> = away.map(|away| escape_controls(away).into_owned()).into_iter().collect();
    lines.push(sentence(&snapshot.decision));
    lines.extend(table(&snapshot.paths).lines().map(str::to_owned));
    if let Some((height, _)) = size {
        // The last line of a terminal is that of the cursor.
        let room = height.saturating_sub(lines.len() + 1);
        let decisions = decisions.iter().take(room);
        lines.extend(decisions.map(|one| format!("{:>9} ago: {}", age(one), sentence(one))));
        lines.truncate(height.saturating_sub(1));
    }
    let width = size.map_or(usize::MAX, |(_, width)| width);
    lines.iter().map(|line| truncate_str(line, width, "…").into_owned()).collect()
}

/// Returns the age of a decision, in one number.
fn age(decision: &DecisionState) -> String {
    let seconds = decision.age_ms.unwrap_or(0) / 1_000;
    match seconds {
        0..120 => format!("{seconds} s"),
        120..7_200 => format!("{} min", seconds / 60),
        _ => format!("{} h", seconds / 3_600),
    }
}

/// Returns a table of paths with what is known of each.
pub(super) fn table(paths: &[PathState]) -> String {
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

fn row(path: &PathState) -> [String; 11] {
    let or_dash = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
    let rate = |bps: u64| Rate::from_bps(bps).to_string();
    let time = |ns: u64| Duration::from_ns(i64::try_from(ns).unwrap_or(i64::MAX)).to_string();
    [
        if path.is_chosen { "*" } else { "" }.to_owned(),
        escape_controls(&path.name).into_owned(),
        or_dash(path.free_bps.map(|[free, ..]| rate(free))),
        or_dash(path.free_bps.map(|[_, low, high]| format!("{} to {}", rate(low), rate(high)))),
        or_dash(path.age_ms.map(|ms| time((ms / 1_000).saturating_mul(1_000_000_000)))),
        or_dash(path.capacity_bps.map(rate)),
        or_dash(path.rtt_ns.map(time)),
        or_dash(path.transfer_ns.map(|[median, ..]| time(median))),
        if path.is_chosen { String::new() } else { format!("{:.0} %", 100.0 * path.odds) },
        format!("{} of {}", Bytes::new(path.spent_bytes), Bytes::new(path.budget_bytes)),
        notes(path),
    ]
}

/// Returns what is wrong with a path, and what its user wishes.
fn notes(path: &PathState) -> String {
    let trouble = path.trouble.map(|trouble| trouble.name().to_owned());
    let preferred = if path.is_full { "preferred, full" } else { "preferred" };
    let preferred = path.preferred.then(|| preferred.to_owned());
    let left = path.quota_left_bytes.map(|left| format!("{} left", Bytes::new(left)));
    [trouble, preferred, left].into_iter().flatten().collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_screen_has_no_more_than_fits_and_decisions_only_where_there_is_room() {
        let path = |name: &str| PathState {
            name: name.to_owned(),
            free_bps: Some([9_000_000, 8_000_000, 10_000_000]),
            ..PathState::default()
        };
        let decision = |age: u64| DecisionState {
            age_ms: Some(age),
            sentence: "a replaces b\u{1b}[2J: it is better".to_owned(),
            ..DecisionState::default()
        };
        let mut known = Known { decisions: vec![decision(1_500), decision(62_000)], ..Known::default() };
        known.snapshot.decision = decision(1_500);
        known.snapshot.paths = vec![path("a"), path("b")];
        let screen_lines = |size| screen_lines(&known, None, size);
        let all = screen_lines(None);
        assert_eq!(all.len(), 4, "{all:#?}");
        let tall = screen_lines(Some((24, 200)));
        assert_eq!(tall.len(), 6);
        assert!(tall[4].contains("1 s ago: a replaces b"), "{}", tall[4]);
        assert!(tall.iter().all(|line| !line.contains('\u{1b}')));
        for (height, width) in [(0, 0), (1, 5), (3, 20), (5, 40)] {
            let lines = screen_lines(Some((height, width)));
            let fits = |line: &String| console::measure_text_width(line) <= width.max(1);
            assert!(lines.len() < height.max(1) && lines.iter().all(fits), "{height}: {lines:#?}");
        }
    }
}
