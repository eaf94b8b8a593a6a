//! The figure of a matrix: differences between every cell and the reference.

use super::comparison::Comparison;
use super::metrics::{COMPLETION, FAIRNESS, GOODPUT, MEAN_DELAY, RETRANSMITTED, SLOWEST_SHARE, Unit, short};
use super::verdict::{Band, Group};
use headway_figures::CannotDraw;
use headway_figures::dots::{self, Dot, Legend, Panel};

/// Metrics with the limit of their axes: a difference in percent, or an absolute one for an index.
const PANELS: [(&str, f64); 6] = [
    (GOODPUT, 15.0),
    (SLOWEST_SHARE, 0.5),
    (MEAN_DELAY, 40.0),
    (RETRANSMITTED, 100.0),
    (COMPLETION, 40.0),
    (FAIRNESS, 0.2),
];
/// The number of colours that fit in the legend.
const MAX_KINDS: usize = 3;
/// Positions of properties in the labels of a cell; in the wide matrix the class replaces the rate.
const CONTROLLER: usize = 0;
const RATE: usize = 1;
const FLOWS: usize = 4;

/// Draws the differences of `world` from the reference as SVG text.
pub(super) fn differences(cells: &[Comparison], world: usize) -> Result<String, CannotDraw> {
    let rates = Some(distinct(cells, RATE)).filter(|rates| rates.len() <= MAX_KINDS).unwrap_or_default();
    let controllers = distinct(cells, CONTROLLER);
    let pair = cells
        .first()
        .map(|cell| format!("{} - {}", cell.worlds[world], cell.worlds[cell.reference]))
        .unwrap_or_default();
    let panel = |(metric, limit): (&str, f64)| Panel {
        y: axis(metric, &pair),
        limit,
        groups: controllers
            .iter()
            .map(|controller| {
                let mine = cells.iter().filter(|cell| cell.labels[CONTROLLER] == *controller);
                dots::Group {
                    name: (*controller).to_owned(),
                    band: mine.clone().find_map(|cell| band(cell, world, metric)),
                    dots: mine.map(|cell| dot(cell, world, metric, &rates)).collect(),
                }
            })
            .collect(),
    };
    let has_dots = |panel: &Panel| panel.groups.iter().any(|group| group.dots.iter().any(Option::is_some));
    let panels: Vec<Panel> = PANELS.into_iter().map(panel).filter(has_dots).collect();
    let legend = Legend {
        kinds: rates.iter().map(|rate| (*rate).to_owned()).collect(),
        filled: "one flow".to_owned(),
        ring: "several flows".to_owned(),
        band: "band, relative part".to_owned(),
        x: "controller; within each from left to right as in the table".to_owned(),
    };
    dots::panels(&panels, &legend)
}

fn axis(metric: &str, pair: &str) -> String {
    match metric {
        FAIRNESS | SLOWEST_SHARE => format!("{metric}, {pair}"),
        _ => format!("{}, {pair}, %", short(metric)),
    }
}

/// Returns the distinct values of one property, in cell order.
fn distinct(cells: &[Comparison], property: usize) -> Vec<&str> {
    let mut all: Vec<&str> = Vec::new();
    for cell in cells {
        let label = cell.labels[property].as_str();
        if !all.contains(&label) {
            all.push(label);
        }
    }
    all
}

/// Returns the difference of a cell; infinite if only the reference is zero.
fn dot(cell: &Comparison, world: usize, name: &str, rates: &[&str]) -> Option<Dot> {
    let filled = cell.labels[FLOWS].starts_with("1 flow");
    if [FAIRNESS, SLOWEST_SHARE].contains(&name) && filled {
        // A single flow is always perfectly fair.
        return None;
    }
    let metric = cell.metric(name)?;
    let (value, reference) = (metric.values[world]?, metric.values[cell.reference]?);
    let apart = match metric.unit {
        Unit::Index => value - reference,
        _ => metric.differences[world].map_or(f64::INFINITY, |share| share * 100.0),
    };
    let kind = rates.iter().position(|rate| *rate == cell.labels[RATE]).unwrap_or_default();
    Some(Dot { value: apart, kind, filled })
}

/// Returns half the height of the cell's band, in units of the axis.
fn band(cell: &Comparison, world: usize, metric: &str) -> Option<f64> {
    let checks = &cell.verdict(world)?.checks;
    let check = checks.iter().find(|check| check.metric == metric)?;
    let band: &Band = Group::bands(check.group).find(|band| band.metric == metric)?;
    let index = [FAIRNESS, SLOWEST_SHARE].contains(&metric);
    Some(if index { band.absolute } else { band.relative * 100.0 })
}
