//! Summaries as tables for the terminal.

use comfy_table::{Cell, CellAlignment, Table, presets};
use headway_record::{Spread, Summary};
use headway_worlds::rows::{
    COMPLETION_COLUMNS, FLOW_COLUMNS, LINK_COLUMNS, MEASURE_COLUMNS, PROGRAM_COLUMNS, TRAFFIC_COLUMNS,
    TRAFFIC_NOTE, WIRE_COLUMNS, completion_rows, flow_rows, link_rows, measure_rows, program_rows,
    traffic_rows, wire_rows,
};

/// Formats a table; the first column holds text, the others numbers.
pub(crate) fn table(
    header: impl IntoIterator<Item: Into<Cell>>,
    rows: impl IntoIterator<Item: IntoIterator<Item = String>>,
) -> Table {
    let mut table = Table::new();
    table.load_style(presets::UTF8_HORIZONTAL_ONLY);
    table.set_header(header);
    for row in rows {
        table.add_row(row.into_iter().enumerate().map(|(column, text)| {
            let side = if column == 0 { CellAlignment::Left } else { CellAlignment::Right };
            Cell::new(text).set_alignment(side)
        }));
    }
    table
}

/// Formats the summary of a run.
pub(crate) fn summary(summary: &Summary) -> String {
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
    text += &table(LINK_COLUMNS, link_rows(summary)).to_string();
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
    if !summary.programs.is_empty() {
        text += &format!("\n{}", table(PROGRAM_COLUMNS, program_rows(summary)));
    }
    text
}

/// Formats the main metrics over several seeds.
pub(crate) fn spread(spreads: &[Spread]) -> Table {
    let number = |value: f64| if value.abs() < 10.0 { format!("{value:.4}") } else { format!("{value:.0}") };
    let rows = spreads
        .iter()
        .map(|spread| [spread.metric.clone(), number(spread.median), number(spread.min), number(spread.max)]);
    table(["over seeds", "median", "least", "greatest"], rows)
}
