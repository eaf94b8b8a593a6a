//! Summaries as tables for the terminal.

use comfy_table::Table;
use headway_program::table::table;
use headway_record::{Spread, Summary};
use headway_worlds::rows::{
    COMPLETION_COLUMNS, FLOW_COLUMNS, LINK_COLUMNS, MEASURE_COLUMNS, PROGRAM_COLUMNS, SELECT_COLUMNS,
    TRAFFIC_COLUMNS, TRAFFIC_NOTE, WIRE_COLUMNS, completion_rows, flow_rows, link_rows, measure_rows,
    program_rows, select_rows, traffic_rows, wire_rows,
};

/// Formats the summary of a run.
pub(super) fn summary(summary: &Summary) -> String {
    let seconds = summary.measured_ns as f64 / 1e9;
    let mut text =
        format!("{} on {}, seed {}, {seconds:.1} s counted\n", summary.scenario, summary.world, summary.seed);
    if summary.total.flows > 0 {
        text += &format!("{}\n", table(FLOW_COLUMNS, flow_rows(summary)));
    }
    let completions = completion_rows(summary);
    if !completions.is_empty() {
        text += &format!("{}\n", table(COMPLETION_COLUMNS, completions));
    }
    if !summary.links.is_empty() {
        text += &table(LINK_COLUMNS, link_rows(summary)).to_string();
    }
    let wires = wire_rows(summary);
    if !wires.is_empty() {
        text += &format!("\n{}", table(WIRE_COLUMNS, wires));
    }
    if !summary.traffic.is_empty() {
        text += &format!("\n{}\n{TRAFFIC_NOTE}", table(TRAFFIC_COLUMNS, traffic_rows(summary)));
    }
    if !summary.measurements.is_empty() {
        text += &format!("\n{}", table(MEASURE_COLUMNS, measure_rows(summary)));
    }
    if !summary.selections.is_empty() {
        text += &format!("\n{}", table(SELECT_COLUMNS, select_rows(summary)));
    }
    for decision in &summary.decisions {
        text += &format!(
            "\n{:.3} s, {}: {} {} ({}) {}",
            decision.at_ns as f64 / 1e9,
            decision.at,
            decision.group,
            decision.connection,
            decision.behaviour,
            decision.sentence
        );
    }
    if !summary.programs.is_empty() {
        text += &format!("\n{}", table(PROGRAM_COLUMNS, program_rows(summary)));
    }
    text
}

/// Formats the main metrics over several seeds.
pub(super) fn spread(spreads: &[Spread]) -> Table {
    let number = |value: f64| if value.abs() < 10.0 { format!("{value:.4}") } else { format!("{value:.0}") };
    let rows = spreads
        .iter()
        .map(|spread| [spread.metric.clone(), number(spread.median), number(spread.min), number(spread.max)]);
    table(["over seeds", "median", "least", "greatest"], rows)
}
