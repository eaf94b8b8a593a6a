//! Scored measurements as table rows, for the terminal and the report.

use comfy_table::{Cell, CellAlignment, Table, presets};

use headway_runs::testbed::Scored;

/// Returns estimate and interval in Mb/s.
pub(super) fn rates(scored: &Scored) -> Option<(f64, f64, f64)> {
    let mbps = |bps: u64| bps as f64 / 1e6;
    let line = &scored.line;
    let rate = line.available_bps?;
    Some((mbps(rate), mbps(line.available_low_bps?), mbps(line.available_high_bps.unwrap_or(rate))))
}

/// Columns of the tables, for the terminal and the report.
pub(super) const COLUMNS: [&str; 7] =
    ["method", "truth", "estimate", "90 % interval", "error", "cost", "time"];

/// Returns one table row; rates in Mb/s, the error as a share of the capacity.
pub(super) fn row(scored: &Scored) -> [String; 7] {
    let truth = format!("{:.1}", scored.truth_bps as f64 / 1e6);
    let (estimate, interval) = match rates(scored) {
        Some((rate, low, high)) => (format!("{rate:.1}"), format!("{low:.1} - {high:.1}")),
        None => ("none".to_owned(), String::new()),
    };
    let void = if scored.disturbed { " (machine disturbed)" } else { "" };
    [
        scored.line.method.clone(),
        truth,
        estimate,
        interval,
        scored.error().map_or(String::new(), |e| format!("{:+.1} %{void}", e * 100.0)),
        format!("{:.2} MB", scored.line.probe_bytes as f64 / 1e6),
        format!("{:.2} s", scored.line.duration_ms / 1e3),
    ]
}

/// Returns the rows as a table for the terminal.
pub(super) fn table(scored: &[Scored]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::UTF8_HORIZONTAL_ONLY);
    table.set_header(COLUMNS);
    for s in scored {
        let [method, rest @ ..] = row(s);
        let numbers = rest.map(|text| Cell::new(text).set_alignment(CellAlignment::Right));
        table.add_row(std::iter::once(Cell::new(method)).chain(numbers));
    }
    table
}
