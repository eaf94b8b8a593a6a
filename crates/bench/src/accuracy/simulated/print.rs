//! Tables, JSON and files with the results.

use std::path::Path;

use serde_json::json;

use super::page;
use super::report::{COLUMNS, LEGEND, Report};
use super::scored::Scored;
use headway_program::build::BUILD;
use headway_program::table::table;
use headway_program::{out, print_line};
use headway_worlds::Output;

/// Prints the results, and writes them to the output folder if there is one.
pub(super) fn print(
    reports: &[Report<'_>],
    output: Option<&Path>,
    json: bool,
    partial: bool,
) -> anyhow::Result<()> {
    let found = json!({ "build": BUILD, "partial": partial, "methods": reports });
    if json {
        out::document(&serde_json::to_string_pretty(&found)?);
    } else {
        reports.iter().for_each(text);
        if partial {
            print_line!("Interrupted: only the paths that were done count.");
        }
    }
    let Some(folder) = output else { return Ok(()) };
    let figure = page::figure(reports)?;
    let output = Output::make(folder)?;
    output.write("reliability.svg", &figure)?;
    output.write("report.html", &page::page(reports, &figure, partial))?;
    let answers: Vec<&[Scored]> = reports.iter().map(|report| report.scored).collect();
    let all = json!({ "build": BUILD, "partial": partial, "methods": reports, "answers": answers.concat() });
    output.write("accuracy.json", &format!("{}\n", serde_json::to_string_pretty(&all)?))?;
    if !json {
        print_line!("results: {}", folder.display());
    }
    Ok(())
}

fn text(report: &Report<'_>) {
    print_line!("Method {}", report.method);
    print_line!("{}", table(COLUMNS, report.rows()));
    print_line!("{LEGEND}");
    let levels = report.all.reliability.iter();
    let levels: Vec<String> =
        levels.map(|level| format!("{:.1} % at {} %", level.actual(), level.percent)).collect();
    print_line!("Intervals that contain the truth: {}", levels.join(", "));
    for (count, reason) in report.refusals() {
        print_line!("{count} without an answer: {reason}");
    }
    for goal in &report.goals {
        let reached = if goal.reached { "reached" } else { "NOT reached" };
        print_line!("{reached}: {} ({})", goal.goal, goal.found);
    }
}
