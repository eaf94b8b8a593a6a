//! The HTML report.

use std::collections::HashMap;

use headway_figures::{Curve, Figure, Panel, page};
use headway_passive::{FlowRow, PathKey, PathRow, Tracker};
use maud::html;

use super::names::Names;
use super::table::{COLUMNS, FLOW_COLUMNS, MORE_COLUMNS, flow_cells, more_cells, path_cells, summary};

/// Paths with a figure: those with the most data.
const FIGURES: usize = 8;
/// Most intervals in a figure; of more, neighbours are merged.
const POINTS: usize = 600;
/// Most transfers in the table of the page.
pub(super) const FLOWS: usize = 1_000;
/// Paths whose history is kept.
const PATHS: usize = 1_024;

/// What happened on a path in an interval.
#[derive(Clone, Copy, Debug)]
struct Point {
    seconds: f64,
    rate: f64,
    capacity: Option<f64>,
    /// Estimate and interval, Mb/s.
    free: Option<[f64; 3]>,
}

/// The intervals of the paths, in Mb/s, at most [`POINTS`] for every path.
#[derive(Debug, Default)]
pub(super) struct History {
    paths: HashMap<PathKey, Vec<Point>>,
}

impl History {
    /// Adds an interval that ended at `seconds` since the first packet.
    pub(super) fn add(&mut self, seconds: f64, rows: &[PathRow]) {
        for row in rows {
            if self.paths.len() >= PATHS && !self.paths.contains_key(&row.key) {
                continue;
            }
            let points = self.paths.entry(row.key).or_default();
            if points.len() >= 2 * POINTS {
                merge(points);
            }
            points.push(Point {
                seconds,
                rate: row.known.rate.mbps(),
                capacity: row.known.capacity.map(|capacity| capacity.rate.mbps()),
                free: row.known.free.map(|free| [free.rate, free.low, free.high].map(|rate| rate.mbps())),
            });
        }
    }
}

/// Replaces pairs of neighbours by one point: the mean rate, and the later estimate.
fn merge(points: &mut Vec<Point>) {
    let merged = points.chunks(2).map(|pair| {
        let last = pair[pair.len() - 1];
        let rate = pair.iter().map(|point| point.rate).sum::<f64>() / pair.len() as f64;
        Point { rate, free: last.free.or(pair[0].free), ..last }
    });
    *points = merged.collect();
}

/// Returns the page.
pub(super) fn html(
    name: &str,
    tracker: &Tracker,
    paths: &[PathRow],
    flows: &[FlowRow],
    history: &History,
    notes: &[String],
    names: &mut Names,
) -> String {
    let all = |cells: Vec<String>, more: Vec<String>| [cells, more].concat();
    let path_rows: Vec<Vec<String>> =
        paths.iter().map(|row| all(path_cells(row, names), more_cells(&row.known))).collect();
    let flow_rows: Vec<Vec<String>> =
        flows.iter().map(|row| all(flow_cells(row, names), more_cells(&row.known))).collect();
    let body = html! {
        p { (summary(tracker)) }
        p {
            "What is free is the capacity of the tight link less the traffic that is not in the capture, as the \
             median of the windows that allowed an estimate, with the median interval. Rates count every byte on the \
             wire."
        }
        div.wide { (page::table([COLUMNS.as_slice(), &MORE_COLUMNS].concat(), &path_rows)) }
        @for row in paths.iter().take(FIGURES) {
            @if let Some(figure) = history.paths.get(&row.key).and_then(|points| figure(points)) {
                h2 { (names.path(&row.key)) }
                (page::figure(&figure))
            }
        }
        @if !flows.is_empty() {
            h2 { "Transfers" }
            div.wide { (page::table([FLOW_COLUMNS.as_slice(), &MORE_COLUMNS].concat(), &flow_rows)) }
        }
        @if !notes.is_empty() {
            h2 { "What was not used" }
            ul { @for note in notes { li { (note) } } }
        }
    };
    let from = if names.hidden() { "a capture" } else { name };
    page::document(&format!("Headway: what is free on the paths in {from}"), body).into_string()
}

/// Draws rate, capacity and estimates over time; `None` if there is nothing to draw.
fn figure(points: &[Point]) -> Option<String> {
    let mut points = points.to_vec();
    while points.len() > POINTS {
        merge(&mut points);
    }
    let rate = points.iter().map(|point| (point.seconds, point.rate)).collect();
    let capacity: Vec<(f64, f64)> =
        points.iter().filter_map(|point| Some((point.seconds, point.capacity?))).collect();
    let free = points.iter().filter_map(|point| Some((point.seconds, point.free?)));
    let (dots, intervals): (Vec<_>, Vec<_>) =
        free.map(|(seconds, [rate, low, high])| ((seconds, rate), (low, high))).unzip();
    let mut panel = Panel::new("", "time, s", "Mb/s")
        .with_y_range(0.0, 0.0)
        .with(Curve::line("rate of the transfers", rate));
    if !dots.is_empty() {
        panel = panel.with(Curve::intervals("free, with interval", dots, intervals));
    }
    if !capacity.is_empty() {
        panel = panel.with(Curve::reference("capacity", capacity));
    }
    (points.len() > 1).then(|| Figure::curves([panel]).svg().ok()).flatten()
}
