//! HTML reports of comparisons.

use headway_record::Series;
use headway_scenario::Scenario;
use headway_units::{Duration, Rate};
use maud::{Markup, html};

use super::comparison::Comparison;
use super::figure::differences;
use super::rows;
use super::verdict::Tally;
use crate::outcome::Outcome;
use crate::page::{curve, figure, mean_window};
use headway_figures::{CannotDraw, Points, page};

/// Explains the figure of a matrix.
const FIGURE_NOTE: &str = "Every dot is a cell. Grey is the relative part of the bands, where a band binds any of the group. \
    Differences of next to nothing are within the bands anyway. Triangles lie beyond the axis.";

/// Returns the report of one comparison.
pub fn comparison(
    scenario: &Scenario,
    comparison: &Comparison,
    outcomes: &[Outcome],
) -> Result<String, CannotDraw> {
    let windows = curves(comparison, outcomes, mean_window);
    let body = html! {
        p {
            "Seed " (scenario.seed) ". " (counted(scenario.duration - scenario.warmup, scenario.warmup, &comparison.set))
        }
        (page::table(rows::metric_columns(comparison), &rows::metric_rows(comparison)))
        @for line in rows::remarks(comparison) { p.note { (line) } }
        h2 { "Goodput over time" }
        (figure(&curves(comparison, outcomes, |series| Some(goodput(series))), "goodput, Mb/s")?)
        p.note { "All flows together, warm-up included." }
        @if !windows.is_empty() {
            h2 { "Congestion window over time" }
            (figure(&windows, "window, segments")?)
            p.note { "The mean over the flows that have begun, at the end of every interval." }
        }
        h2 { "Queue of " (comparison.link) " over time" }
        (figure(&curves(comparison, outcomes, |series| queue(series, &comparison.link)), "queue, kB")?)
        p.note { "In the lab the longest queue of every interval, elsewhere the queue at its end." }
    };
    Ok(page::document(&format!("{} on {}", scenario.name, comparison.worlds.join(", ")), body).into_string())
}

/// Says what a table counts, and which values of the scenario were changed.
pub(super) fn counted(measured: Duration, warmup: Duration, set: &[String]) -> Markup {
    html! {
        "The table counts " (measured) " after a warm-up of " (warmup) "."
        @if !set.is_empty() { " Changed: " code { (set.join("; ")) } "." }
    }
}

/// Returns a curve for every world that reports it.
fn curves(
    comparison: &Comparison,
    outcomes: &[Outcome],
    draw: impl Fn(&Series) -> Option<Points>,
) -> Vec<(String, Points)> {
    let worlds = comparison.worlds.iter().zip(outcomes);
    worlds.filter_map(|(world, outcome)| Some((world.clone(), draw(&outcome.results.series)?))).collect()
}

/// Returns the total goodput in Mb/s.
fn goodput(series: &Series) -> Points {
    curve(series, |index, begin, end| {
        let sum = series.goodput.iter().map(|values| values[index]).sum();
        Rate::of(sum, end - begin).unwrap_or_default().mbps()
    })
}

/// Returns the backlog of a link in kB.
fn queue(series: &Series, link: &str) -> Option<Points> {
    let place = series.names.iter().position(|name| name == link)?;
    let values = &series.links[place];
    Some(curve(series, |index, _, _| values[index].queue.get() as f64 / 1e3))
}

/// Returns the report of a matrix.
pub fn matrix(cells: &[Comparison], tallies: &[Tally], all: usize) -> Result<String, CannotDraw> {
    let body = html! {
        p { (rows::verdict(tallies)) }
        @if cells.len() < all { p { strong { "Interrupted: " (cells.len()) " of " (all) " cells." } } }
        (page::table(rows::TALLY_COLUMNS, &rows::tally_rows(tallies)))
        @if let Some(line) = rows::total_cost(cells) { p.note { (line) } }
        @for world in cells.first().map(Comparison::others).into_iter().flatten() {
            h2 { "Differences of " (cells[0].worlds[world]) " from " (cells[0].worlds[cells[0].reference]) }
            (page::figure(&differences(cells, world)?))
            p.note { (FIGURE_NOTE) }
        }
        h2 { "Every cell" }
        div.wide { (page::table(rows::cell_columns(), &rows::cell_rows(cells))) }
    };
    let worlds = cells.first().map(|cell| cell.worlds.join(", ")).unwrap_or_default();
    Ok(page::document(&format!("Matrix on {worlds}"), body).into_string())
}
