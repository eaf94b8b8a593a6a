//! Comparisons as table rows and sentences, for terminals and reports.

use headway_units::Duration;

use super::comparison::{Comparison, Cost};
use super::metrics::{
    COMPLETION, FAIRNESS, GOODPUT, MEAN_DELAY, Metric, RETRANSMITTED, SLOWEST, TIMEOUTS, short,
};
use super::verdict::Tally;
use crate::rows::percent;

/// Returns the columns of [`metric_rows`]: the values of all worlds, then the differences of all but the
/// reference.
pub fn metric_columns(comparison: &Comparison) -> Vec<String> {
    let worlds = &comparison.worlds;
    let against = |world: usize| format!("{} against {}", worlds[world], worlds[comparison.reference]);
    let first = std::iter::once(comparison.link.clone());
    first.chain(worlds.iter().cloned()).chain(comparison.others().map(against)).collect()
}

/// Returns one row per metric.
pub fn metric_rows(comparison: &Comparison) -> Vec<Vec<String>> {
    let row = |metric: &Metric| {
        let values = (0..comparison.worlds.len()).map(|world| metric.text(world));
        let differences = comparison.others().map(|world| metric.difference_text(world));
        std::iter::once(metric.name.to_owned()).chain(values).chain(differences).collect()
    };
    comparison.metrics.iter().map(row).collect()
}

/// Returns sentences on the bands of a comparison and the cost of its runs.
pub fn remarks(comparison: &Comparison) -> Vec<String> {
    let mut lines = Vec::new();
    for world in comparison.others() {
        let Some(verdict) = comparison.verdict(world) else { continue };
        lines.extend(match verdict.within() {
            Some(true) => Some(format!("{} is within its bands.", verdict.world)),
            Some(false) => {
                Some(format!("{} is outside its band of {}.", verdict.world, verdict.outside().join(" and ")))
            }
            None => None,
        });
    }
    if !comparison.valid {
        lines.push(
            "The machine was too busy for a run in real time: this comparison does not count.".to_owned(),
        );
    }
    lines.push(costs(comparison, &comparison.costs));
    lines
}

/// Describes the wall time of every run, and the speed relative to the reference.
fn costs(comparison: &Comparison, costs: &[Cost]) -> String {
    let reference = &costs[comparison.reference];
    let took = |(world, cost): (&String, &Cost)| {
        let events =
            if cost.events > 0 { format!(" ({} events)", count(cost.events)) } else { String::new() };
        format!("{world} {}{events}", seconds(cost.wall_seconds))
    };
    let mut text = format!("{} of traffic took ", seconds(reference.virtual_seconds));
    text += &comparison.worlds.iter().zip(costs).map(took).collect::<Vec<_>>().join(", ");
    for world in comparison.others() {
        if let Some(ratio) = costs[world].speedup(reference) {
            let (world, reference) = (&comparison.worlds[world], &comparison.worlds[comparison.reference]);
            text += &format!("; {world} is {} as {reference}", times(ratio));
        }
    }
    text + "."
}

/// Describes a ratio of speeds.
fn times(ratio: f64) -> String {
    if ratio >= 10.0 { format!("{ratio:.0} times as fast") } else { format!("{ratio:.2} times as fast") }
}

fn seconds(seconds: f64) -> String {
    if seconds >= 100.0 { format!("{seconds:.0} s") } else { Duration::from_secs_f64(seconds).to_string() }
}

fn count(events: u64) -> String {
    match events {
        0..10_000 => events.to_string(),
        10_000..10_000_000 => format!("{:.0} thousand", events as f64 / 1e3),
        _ => format!("{:.0} million", events as f64 / 1e6),
    }
}

/// Describes a finished cell on one line.
pub fn progress(comparison: &Comparison) -> String {
    let took = |(world, cost): (&String, &Cost)| format!("{world} {}", seconds(cost.wall_seconds));
    let took: Vec<String> = comparison.worlds.iter().zip(&comparison.costs).map(took).collect();
    let state = match (comparison.valid, comparison.within) {
        (false, _) => ", disturbed",
        (true, Some(false)) => ", outside",
        (true, _) => "",
    };
    format!("{} ({}){state}", comparison.cell(), took.join(", "))
}

/// Metrics shown in [`cell_rows`], each with whether to show its relative difference.
const CELL_METRICS: [(&str, bool); 7] = [
    (GOODPUT, true),
    (SLOWEST, true),
    (MEAN_DELAY, true),
    (RETRANSMITTED, true),
    (TIMEOUTS, false),
    (COMPLETION, true),
    (FAIRNESS, false),
];

/// Returns the columns of [`cell_rows`].
pub fn cell_columns() -> Vec<String> {
    let metrics = CELL_METRICS.iter().map(|(name, _)| short(name).to_owned());
    ["cell".to_owned()].into_iter().chain(metrics).chain(["bands".to_owned()]).collect()
}

/// Returns one row for every cell and world other than the reference.
pub fn cell_rows(cells: &[Comparison]) -> Vec<Vec<String>> {
    cells.iter().flat_map(|cell| cell.others().map(|world| cell_row(cell, world))).collect()
}

fn cell_row(cell: &Comparison, world: usize) -> Vec<String> {
    let pair = |(name, difference): (&str, bool)| {
        let Some(metric) = cell.metric(name) else { return String::new() };
        let (value, reference) = (metric.text(world), metric.text(cell.reference));
        match metric.difference_text(world) {
            _ if value.is_empty() && reference.is_empty() => String::new(),
            off if difference && !off.is_empty() => format!("{value} / {reference} ({off})"),
            _ => format!("{value} / {reference}"),
        }
    };
    let verdict = cell.verdict(world);
    let bands = match (cell.valid, verdict.and_then(|verdict| verdict.within())) {
        (false, _) => "disturbed".to_owned(),
        (true, Some(true)) => "within".to_owned(),
        (true, Some(false)) => {
            let outside = verdict.map(|verdict| verdict.outside()).unwrap_or_default();
            format!("outside: {}", outside.into_iter().map(short).collect::<Vec<_>>().join(", "))
        }
        (true, None) => String::new(),
    };
    // With two worlds there is only one to name.
    let name =
        if cell.worlds.len() > 2 { format!("{}: {}", cell.worlds[world], cell.cell()) } else { cell.cell() };
    [name].into_iter().chain(CELL_METRICS.map(pair)).chain([bands]).collect()
}

/// Columns of [`tally_rows`].
pub const TALLY_COLUMNS: [&str; 4] = ["bands", "cells", "within", "share"];

/// Returns one row per group of cells, and one for each of its bands when it has several.
pub fn tally_rows(tallies: &[Tally]) -> Vec<[String; 4]> {
    let mut rows = Vec::new();
    for tally in tallies {
        let row = |name: String, within: usize| {
            let share = percent(within as f64 / tally.cells as f64);
            [name, tally.cells.to_string(), within.to_string(), share]
        };
        let name = format!("{}: {}", tally.world, tally.group.description());
        if let [only] = &tally.bands[..] {
            rows.push(row(format!("{name}: {}", only.description), tally.within));
        } else {
            rows.push(row(name, tally.within));
            rows.extend(tally.bands.iter().map(|band| row(format!("- {}", band.description), band.within)));
        }
        if let Some(within) = tally.reference_beside_itself {
            rows.push(row("reference: even runs against odd runs".to_owned(), within));
        }
    }
    rows
}

/// Says in a sentence whether every group has enough cells within their bands.
pub fn verdict(tallies: &[Tally]) -> String {
    let name = |tally: &Tally| format!("{} ({} of {})", tally.group.description(), tally.within, tally.cells);
    let missed: Vec<String> = tallies.iter().filter(|tally| !tally.reached).map(name).collect();
    let Some(first) = tallies.first() else { return "No cell has bands.".to_owned() };
    // All groups of one matrix have the same goal.
    let goal = first.group.goal() * 100.0;
    if missed.is_empty() {
        format!("At least {goal:.0} % of every group of cells are within their bands.")
    } else {
        format!("Less than {goal:.0} % of these are within their bands: {}.", missed.join(", "))
    }
}

/// Describes the total cost of all cells, per world.
pub fn total_cost(cells: &[Comparison]) -> Option<String> {
    let first = cells.first()?;
    let sum = |world: usize| Cost::sum(cells.iter().map(|cell| cell.costs[world].clone()));
    Some(costs(first, &(0..first.worlds.len()).map(sum).collect::<Vec<_>>()))
}
