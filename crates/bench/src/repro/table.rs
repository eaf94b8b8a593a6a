//! Tables of claims and measured numbers, with several worlds side by side.

use comfy_table::{Cell, CellAlignment, Color, ContentArrangement, Table, presets};
use headway_repro::{Check, Outcome, number};

/// Returns the claims of one experiment; a dash marks those that a world does not measure.
pub(super) fn checks(worlds: &[Outcome]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::UTF8_HORIZONTAL_ONLY);
    table.set_content_arrangement(ContentArrangement::Dynamic);
    let names: Vec<&str> = match worlds {
        [_] => vec!["measured", ""],
        _ => worlds.iter().flat_map(|outcome| [outcome.world, ""]).collect(),
    };
    // Only estimators have a null estimator to compare with.
    let has_null = worlds.iter().flat_map(|outcome| &outcome.checks).any(|check| check.null.is_some());
    let null = has_null.then_some("null");
    let first = ["published", "metric"].into_iter().chain(names);
    table.set_header(first.chain(null).chain(["band", "reason for the band"]));
    // Take the claims from the world that measures all of them.
    let all = worlds.iter().map(|outcome| &outcome.checks).max_by_key(|checks| checks.len());
    for check in all.into_iter().flatten() {
        let mut row = vec![Cell::new(&check.claim.published), Cell::new(&check.claim.measure)];
        for outcome in worlds {
            row.extend(measured(outcome.checks.iter().find(|other| is_same(check, other))));
        }
        row.extend(null.map(|_| number(check.null.map_or(String::new(), number::number))));
        row.extend([number(check.claim.band()), Cell::new(&check.claim.reason)]);
        table.add_row(row);
    }
    table
}

/// Whether two results belong to the same claim; several claims may share a measure.
fn is_same(one: &Check, other: &Check) -> bool {
    one.claim.measure == other.claim.measure && one.claim.published == other.claim.published
}

/// Returns the measured number and the verdict.
fn measured(check: Option<&Check>) -> [Cell; 2] {
    let Some(check) = check else { return [number("-".to_owned()), Cell::new("")] };
    let (verdict, colour) = if check.passed { ("holds", Color::Blue) } else { ("FAILS", Color::Red) };
    [number(number::with_unit(check.measured, &check.claim.unit)), Cell::new(verdict).fg(colour)]
}

fn number(text: String) -> Cell {
    Cell::new(text).set_alignment(CellAlignment::Right)
}
