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
    let heading =
        format!("{} on {}, seed {}, {seconds:.1} s counted", summary.scenario, summary.world, summary.seed);
    let traffic = filled(TRAFFIC_COLUMNS, traffic_rows(summary));
    let tables = [
        filled(FLOW_COLUMNS, flow_rows(summary)).filter(|_| summary.total.flows > 0),
        filled(COMPLETION_COLUMNS, completion_rows(summary)),
        filled(LINK_COLUMNS, link_rows(summary)),
        filled(WIRE_COLUMNS, wire_rows(summary)),
        traffic.map(|table| format!("{table}\n{TRAFFIC_NOTE}")),
        filled(MEASURE_COLUMNS, measure_rows(summary)),
        filled(SELECT_COLUMNS, select_rows(summary)),
    ];
    let mut text =
        std::iter::once(heading).chain(tables.into_iter().flatten()).collect::<Vec<_>>().join("\n");
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
    if let Some(programs) = filled(PROGRAM_COLUMNS, program_rows(summary)) {
        text += &format!("\n{programs}");
    }
    text
}

/// Formats a table, unless it has no rows.
fn filled<const N: usize>(columns: [&str; N], rows: Vec<[String; N]>) -> Option<String> {
    (!rows.is_empty()).then(|| table(columns, rows).to_string())
}

/// Formats the main metrics over several seeds.
pub(super) fn spread(spreads: &[Spread]) -> Table {
    let number = |value: f64| if value.abs() < 10.0 { format!("{value:.4}") } else { format!("{value:.0}") };
    let rows = spreads
        .iter()
        .map(|spread| [spread.metric.clone(), number(spread.median), number(spread.min), number(spread.max)]);
    table(["over seeds", "median", "least", "greatest"], rows)
}
