//! The HTML report of all results.

use std::fmt::Write as _;

use headway_figures::CannotDraw;
use headway_figures::page::{escaped, styled};

use crate::number::{number, with_unit};
use crate::outcome::{Check, Outcome};

/// CSS rules besides the common ones, for the many text columns.
const RULES: &str = "\
body { max-width: 1100px; } h2 { margin-top: 3rem; } table { font-size: .92rem; }
th, td { text-align: left; vertical-align: top; }
td.n { text-align: right; white-space: nowrap; } td.pass { color: #005ab5; } td.fail { color: #b03000; font-weight: 600; }
p.label { font-weight: 600; }
";

/// Returns all results as one self-contained HTML file.
///
/// # Errors
/// [`CannotDraw`] for the first figure that cannot be drawn.
pub fn html(outcomes: &[Outcome], heading: &str) -> Result<String, CannotDraw> {
    let mut page = String::new();
    let checks = || outcomes.iter().flat_map(|outcome| &outcome.checks);
    let _ = write!(
        page,
        "<p>{}</p>\n<p>{} of {} claims hold.</p>\n",
        escaped(heading),
        checks().filter(|check| check.passed).count(),
        checks().count()
    );
    summary(&mut page, outcomes);
    for outcome in outcomes {
        section(&mut page, outcome)?;
    }
    Ok(styled("Headway: published and measured", "Published and measured", RULES, &page))
}

/// Writes one line per experiment, linked to its section.
fn summary(page: &mut String, outcomes: &[Outcome]) {
    page.push_str(
        "<table>\n<tr><th>experiment</th><th>title</th><th>evidence</th><th>claims that hold</th></tr>\n",
    );
    for outcome in outcomes {
        let held = outcome.checks.iter().filter(|check| check.passed).count();
        let class = if outcome.passed() { "pass" } else { "fail" };
        let _ = writeln!(
            page,
            "<tr><td><a href=\"#{id}\">{id}</a></td><td>{}</td><td>{}</td><td class=\"{class}\">{held} of {}</td></tr>",
            escaped(&outcome.title),
            outcome.evidence.label(),
            outcome.checks.len(),
            id = outcome.name(),
        );
    }
    page.push_str("</table>\n");
}

fn section(page: &mut String, outcome: &Outcome) -> Result<(), CannotDraw> {
    let _ = writeln!(
        page,
        "<h2 id=\"{id}\">{id}: {}</h2>\n<p>Published ({}): {}</p>\n<p class=\"label\">Evidence: {}: {}.</p>",
        escaped(&outcome.title),
        escaped(&outcome.source),
        escaped(&outcome.published),
        outcome.evidence.label(),
        outcome.evidence.meaning(),
        id = outcome.name(),
    );
    page.push_str(
        "<table>\n<tr><th>claim</th><th>measured</th><th>band</th><th>null</th><th>verdict</th><th>reason for the band</th></tr>\n",
    );
    outcome.checks.iter().for_each(|check| row(page, check));
    let _ = writeln!(page, "</table>\n<figure>{}</figure>", outcome.figure.svg()?);
    for remark in &outcome.remarks {
        let _ = writeln!(page, "<p class=\"note\">{}</p>", escaped(remark));
    }
    Ok(())
}

fn row(page: &mut String, check: &Check) {
    let (class, verdict) = if check.passed { ("pass", "holds") } else { ("fail", "fails") };
    let missed = check.claim.deviation.as_ref().filter(|_| !check.passed);
    let _ = writeln!(
        page,
        "<tr><td>{}<br><small>{}</small></td><td class=\"n\">{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td>\
         <td class=\"{class}\">{verdict}</td><td>{}{}</td></tr>",
        escaped(&check.claim.published),
        escaped(&check.claim.measure),
        with_unit(check.measured, &check.claim.unit),
        escaped(&check.claim.band()),
        check.null.map_or(String::new(), number),
        escaped(&check.claim.reason),
        missed.map_or(String::new(), |why| format!("<br><b>Known deviation: {}</b>", escaped(why))),
    );
}
