//! Tables for the terminal.

use console::Term;
use headway_capture::{FlowRow, Free, PathRow, Sums, Tracker};
use headway_core::{Bytes, Duration, Rate};

use super::names::Names;
use crate::out::escape_controls;
use crate::run::table::table;

/// Columns of paths.
pub(super) const COLUMNS: [&str; 7] = ["path", "flows", "rate", "RTT", "capacity", "free", "limited by"];
/// Columns of transfers.
pub(super) const FLOW_COLUMNS: [&str; 8] =
    ["from", "to", "data", "rate", "RTT", "capacity", "free", "limited by"];
/// Paths in the live table when the terminal does not tell its height.
const ROWS: usize = 20;
/// Lines of the live table besides its rows.
const FRAME: usize = 8;

/// Formats the cells of a path.
pub(super) fn path_cells(row: &PathRow, names: &mut Names) -> Vec<String> {
    vec![
        names.path(&row.key),
        row.transfers.to_string(),
        row.rate.to_string(),
        time(row.rtt),
        rate(row.capacity),
        free(row.free, &row.sums),
        limit(&row.sums),
    ]
}

/// Formats the cells of a transfer.
pub(super) fn flow_cells(row: &FlowRow, names: &mut Names) -> Vec<String> {
    let [near, far] = [names.endpoint(row.near), names.endpoint(row.far)];
    let [from, to] = match row.direction {
        headway_capture::Direction::To => [near, far],
        headway_capture::Direction::From => [far, near],
    };
    vec![
        from,
        to,
        Bytes::new(row.volume.wire).to_string(),
        row.rate.to_string(),
        time(row.rtt),
        rate(row.capacity),
        free(row.free, &row.sums),
        limit(&row.sums),
    ]
}

fn time(time: Option<Duration>) -> String {
    time.map_or("-".to_owned(), |time| time.to_string())
}

fn rate(rate: Option<Rate>) -> String {
    rate.map_or("-".to_owned(), |rate| rate.to_string())
}

/// Formats what is free, or why it is not known.
fn free(free: Option<Free>, sums: &Sums) -> String {
    match free {
        Some(Free { rate, low, high, .. }) => format!("{rate} ({low} to {high})"),
        None => match sums.main_refusal() {
            Some(reason) => format!("unknown: {}", reason.name().replace('-', " ")),
            None => "unknown".to_owned(),
        },
    }
}

fn limit(sums: &Sums) -> String {
    match sums.main_limit() {
        Some(limit) => format!("{} {:.0} %", limit.name().replace('-', " "), sums.share(limit) * 100.0),
        None => "-".to_owned(),
    }
}

/// Formats the result of the whole capture.
pub(super) fn result(tracker: &Tracker, paths: &[PathRow], flows: &[FlowRow], names: &mut Names) -> String {
    let mut text = String::new();
    if !paths.is_empty() {
        text = format!("{}\n", table(COLUMNS, paths.iter().map(|row| path_cells(row, names))));
    }
    if !flows.is_empty() {
        text += &format!("{}\n", table(FLOW_COLUMNS, flows.iter().map(|row| flow_cells(row, names))));
    }
    text + &summary(tracker)
}

/// Formats what was read.
pub(super) fn summary(tracker: &Tracker) -> String {
    let counts = tracker.counts();
    let time = tracker.first().map_or(Duration::ZERO, |first| tracker.now() - first);
    format!(
        "{} packets ({}) in {time}, {} of them used; connections: {}; nothing was sent.",
        counts.packets,
        Bytes::new(counts.bytes),
        counts.used,
        counts.connections
    )
}

/// Formats the live table.
pub(super) fn live(rows: &[PathRow], tracker: &Tracker, drops: u64, names: &mut Names) -> String {
    let height = Term::stdout().size_checked().map_or(ROWS + FRAME, |(height, _)| usize::from(height));
    let shown = height.saturating_sub(FRAME).max(1) / 2;
    let mut text = table(COLUMNS, rows.iter().take(shown).map(|row| path_cells(row, names))).to_string();
    if rows.len() > shown {
        text += &format!("\n... and {} paths with less data", rows.len() - shown);
    }
    text += &format!("\n{}", summary(tracker));
    if drops > 0 {
        text += &format!("\n{drops} packets were dropped by the kernel: this host cannot keep up.");
    }
    text + "\nCtrl-C ends."
}

/// The live table, redrawn in place.
pub(super) struct Screen {
    /// `None` where there is no live table.
    term: Option<Term>,
    drawn: usize,
}

impl Screen {
    /// Creates a screen; `wanted` is whether there is a live table where standard output is a terminal.
    pub(super) fn new(wanted: bool) -> Screen {
        Screen { term: Some(Term::stdout()).filter(|term| wanted && term.is_term()), drawn: 0 }
    }

    /// Replaces the table.
    pub(super) fn show(&mut self, text: &str) {
        self.clear();
        let Some(term) = &self.term else { return };
        let width = term.size_checked().map_or(usize::MAX, |(_, width)| usize::from(width));
        for line in escape_controls(text).lines() {
            let line: String = line.chars().take(width).collect();
            if term.write_line(&line).is_ok() {
                self.drawn += 1;
            }
        }
    }

    /// Removes the table. A terminal that fails shows nothing, and nothing depends on it.
    pub(super) fn clear(&mut self) {
        let drawn = std::mem::take(&mut self.drawn);
        if let Some(term) = &self.term {
            let _ = term.clear_last_lines(drawn);
        }
    }
}
