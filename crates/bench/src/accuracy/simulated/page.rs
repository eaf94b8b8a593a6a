//! The HTML page and the figure of a report.

use super::report::{COLUMNS, LEGEND, Report};
use headway_figures::{Line, diagram, page};
use maud::{Markup, html};

/// Plots actual against claimed coverage: one line per method or, for a single method, its
/// classes in the background.
pub(super) fn figure(reports: &[Report<'_>]) -> anyhow::Result<String> {
    let all: Vec<Line> = reports.iter().map(|report| line(report.method, &report.all.reliability)).collect();
    let classes: Vec<Line> = match reports {
        [one] => one.classes.iter().map(|class| line(&class.class, &class.reliability)).collect(),
        _ => Vec::new(),
    };
    Ok(diagram(&all, &classes)?)
}

fn line(name: &str, levels: &[super::reliability::Reliability]) -> Line {
    let points = levels.iter().map(|level| (f64::from(level.percent), level.actual())).collect();
    Line { name: name.to_owned(), points }
}

/// Returns the whole page, including the figure.
pub(super) fn page(reports: &[Report<'_>], figure: &str, partial: bool) -> String {
    let body = html! {
        @if partial { p { strong { "Interrupted: only the paths that were done count." } } }
        h2 { "Reliability" }
        p {
            "How often intervals of 50, 80, 90 and 95 % contained the available bandwidth. On the diagonal, actual \
             coverage equals claimed coverage; below it, the intervals are too narrow."
        }
        (page::figure(figure))
        @for report in reports { (section(report)) }
    };
    page::document("How honest the answers are on simulated paths", body).into_string()
}

fn section(report: &Report<'_>) -> Markup {
    let reached = |reached| if reached { "reached" } else { "NOT reached" }.to_owned();
    let goals =
        report.goals.iter().map(|goal| [goal.goal.clone(), goal.found.clone(), reached(goal.reached)]);
    let refusals: Vec<[String; 2]> =
        report.refusals().into_iter().map(|(count, reason)| [reason.to_owned(), count.to_string()]).collect();
    html! {
        h2 { "Method " (report.method) }
        div.wide { (page::table(COLUMNS, &report.rows())) }
        p.note { (LEGEND) }
        (page::table(["goal", "found", ""], &goals.collect::<Vec<_>>()))
        @if !refusals.is_empty() { (page::table(["without an answer, because", "measurements"], &refusals)) }
    }
}
