//! HTML reports of comparisons.

use headway_record::Series;
use headway_scenario::Scenario;
use headway_units::Rate;

use super::comparison::Comparison;
use super::verdict::Tally;
use super::{figure, rows};
use crate::outcome::Outcome;
use crate::page::{curve, mean_window};
use headway_figures::Points;
use headway_figures::{CannotDraw, page};

/// Explains the figure of a matrix.
const FIGURE_NOTE: &str = "Every dot is a cell. Grey is the relative part of the bands, where a band binds any of the group. \
    Differences of next to nothing are within the bands anyway. Triangles lie beyond the axis.";

/// Returns the report of one comparison.
pub fn comparison(
    scenario: &Scenario,
    comparison: &Comparison,
    outcomes: &[Outcome],
) -> Result<String, CannotDraw> {
    let mut body = format!(
        "<p>Seed {}. The table counts {} after a warm-up of {}.",
        scenario.seed,
        scenario.duration - scenario.warmup,
        scenario.warmup
    );
    if !comparison.set.is_empty() {
        body += &format!(" Changed: <code>{}</code>.", page::escaped(&comparison.set.join("; ")));
    }
    body += "</p>\n";
    body += &page::table(rows::metric_columns(comparison), &rows::metric_rows(comparison));
    for line in rows::remarks(comparison) {
        body += &format!("<p class=\"note\">{}</p>\n", page::escaped(&line));
    }
    body += "<h2>Goodput over time</h2>\n";
    body += &over_time(&curves(comparison, outcomes, |series| Some(goodput(series))), "goodput, Mb/s")?;
    body += "<p class=\"note\">All flows together, warm-up included.</p>\n";
    body += &windows(comparison, outcomes)?;
    body += &format!("<h2>Queue of {} over time</h2>\n", page::escaped(&comparison.link));
    body += &over_time(&curves(comparison, outcomes, |series| queue(series, &comparison.link)), "queue, kB")?;
    body += "<p class=\"note\">In the lab the longest queue of every interval, elsewhere the queue at its end.</p>\n";
    let title = format!("{} on {}", scenario.name, comparison.worlds.join(", "));
    Ok(page::document(&title, &body))
}

/// Draws cwnd over time; empty if no world reports it.
fn windows(comparison: &Comparison, outcomes: &[Outcome]) -> Result<String, CannotDraw> {
    let curves = curves(comparison, outcomes, mean_window);
    if curves.is_empty() {
        return Ok(String::new());
    }
    let figure = over_time(&curves, "window, segments")?;
    let note = "The mean over the flows that have begun, at the end of every interval.";
    Ok(format!("<h2>Congestion window over time</h2>\n{figure}<p class=\"note\">{note}</p>\n"))
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

fn over_time(curves: &[(String, Points)], y: &str) -> Result<String, CannotDraw> {
    let drawn = headway_figures::steps(curves, y)?;
    Ok(format!("<figure>{drawn}</figure>\n"))
}

/// Returns the report of a matrix.
pub fn matrix(cells: &[Comparison], tallies: &[Tally], all: usize) -> Result<String, CannotDraw> {
    let mut body = format!("<p>{}</p>\n", rows::verdict(tallies));
    if cells.len() < all {
        body += &format!("<p><strong>Interrupted: {} of {all} cells.</strong></p>\n", cells.len());
    }
    body += &page::table(rows::TALLY_COLUMNS, &rows::tally_rows(tallies));
    if let Some(line) = rows::total_cost(cells) {
        body += &format!("<p class=\"note\">{}</p>\n", page::escaped(&line));
    }
    for world in cells.first().map(Comparison::others).into_iter().flatten() {
        let (one, reference) = (&cells[0].worlds[world], &cells[0].worlds[cells[0].reference]);
        body += &format!("<h2>Differences of {one} from {reference}</h2>\n");
        body += &format!("<figure>{}</figure>\n", figure::differences(cells, world)?);
        body += &format!("<p class=\"note\">{FIGURE_NOTE}</p>\n");
    }
    body += "<h2>Every cell</h2>\n";
    let table = page::table(rows::cell_columns(), &rows::cell_rows(cells));
    body += &format!("<div class=\"wide\">{table}</div>\n");
    let worlds = cells.first().map(|cell| cell.worlds.join(", ")).unwrap_or_default();
    Ok(page::document(&format!("Matrix on {worlds}"), &body))
}
