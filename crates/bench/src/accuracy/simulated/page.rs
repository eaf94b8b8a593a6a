//! The HTML page and the figure of a report.

use super::report::{COLUMNS, LEGEND, Report};
use headway_figures::page;
use headway_figures::{Line, diagram};

/// Plots actual against claimed coverage: one line per method or, for a single method, its classes in the background.
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
    let mut body = String::new();
    if partial {
        body += "<p><strong>Interrupted: only the paths that were done count.</strong></p>\n";
    }
    body += "<h2>Reliability</h2>\n<p>How often intervals of 50, 80, 90 and 95 % contained the available bandwidth. On the diagonal, actual coverage equals \
             claimed coverage; below it, the intervals are too narrow.</p>\n";
    body += &format!("<figure>{figure}</figure>\n");
    for report in reports {
        body += &format!("<h2>Method {}</h2>\n", page::escaped(report.method));
        body += &format!("<div class=\"wide\">{}</div>\n", page::table(COLUMNS, &report.rows()));
        body += &format!("<p class=\"note\">{}</p>\n", page::escaped(LEGEND));
        let goals: Vec<[String; 3]> = report
            .goals
            .iter()
            .map(|goal| {
                let reached = if goal.reached { "reached" } else { "NOT reached" };
                [goal.goal.clone(), goal.found.clone(), reached.to_owned()]
            })
            .collect();
        body += &page::table(["goal", "found", ""], &goals);
        let refusals: Vec<[String; 2]> = report
            .refusals()
            .into_iter()
            .map(|(count, reason)| [reason.to_owned(), count.to_string()])
            .collect();
        if !refusals.is_empty() {
            body += &page::table(["without an answer, because", "measurements"], &refusals);
        }
    }
    page::document("How honest the answers are on simulated paths", &body)
}
