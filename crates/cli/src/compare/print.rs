//! Text output of comparisons.

use headway_worlds::compare::rows::{
    TALLY_COLUMNS, cell_columns, cell_rows, metric_columns, metric_rows, remarks, tally_rows, total_cost,
    verdict,
};
use headway_worlds::compare::{Comparison, Tally};

use crate::run::table::table;

/// Formats one comparison: a table, the verdict by the bands, and the cost of the runs.
pub(super) fn comparison(comparison: &Comparison) -> String {
    let mut text = table(metric_columns(comparison), metric_rows(comparison)).to_string();
    for line in remarks(comparison) {
        text += &format!("\n{line}");
    }
    text
}

/// Formats a matrix: one row per cell, the groups, and the verdict.
pub(super) fn matrix(cells: &[Comparison], tallies: &[Tally], all: usize) -> String {
    let mut text = format!(
        "{}\n\n{}\n{}",
        table(cell_columns(), cell_rows(cells)),
        table(TALLY_COLUMNS.map(str::to_owned).to_vec(), tally_rows(tallies)),
        verdict(tallies)
    );
    if let Some(line) = total_cost(cells) {
        text += &format!("\n{line}");
    }
    if cells.len() < all {
        text += &format!("\nInterrupted: {} of {all} cells.", cells.len());
    }
    text
}
