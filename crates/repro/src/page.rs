//! Results as files: one page with all of them, and per experiment its numbers and its figure.

use std::fmt::Write as _;

use crate::figure::CannotDraw;
use crate::outcome::{Check, Outcome};

const STYLE: &str = "\
body { font: 16px/1.5 system-ui, sans-serif; color: #333; max-width: 1100px; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.6rem; } h2 { font-size: 1.2rem; margin-top: 3rem; }
svg { max-width: 100%; height: auto; } figure { margin: 1rem 0; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; font-size: .92rem; }
th, td { text-align: left; padding: .25rem .6rem; border-bottom: 1px solid #ddd; vertical-align: top; }
td.n { text-align: right; white-space: nowrap; } td.pass { color: #005ab5; } td.fail { color: #b03000; font-weight: 600; }
p.note { color: #666; font-size: .9rem; } p.label { font-weight: 600; }";

/// A number with as many digits as are of interest.
pub fn number(value: f64) -> String {
    if value.is_nan() {
        "none".to_owned()
    } else if value.abs() >= 100.0 {
        format!("{value:.0}")
    } else if value.abs() >= 10.0 {
        format!("{value:.1}")
    } else if value.abs() >= 0.1 {
        format!("{value:.2}")
    } else {
        format!("{value:.3}")
    }
}

/// A number with the unit of its claim.
pub fn with_unit(value: f64, unit: &str) -> String {
    if unit.is_empty() { number(value) } else { format!("{} {unit}", number(value)) }
}

/// All results as one HTML file that needs nothing else.
///
/// # Errors
/// [`CannotDraw`] for the first figure that cannot be drawn.
pub fn html(outcomes: &[Outcome], heading: &str) -> Result<String, CannotDraw> {
    let mut page = String::new();
    let checks = || outcomes.iter().flat_map(|outcome| &outcome.checks);
    let _ = write!(
        page,
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>Headway: published and measured</title>\n<style>\n{STYLE}\n</style>\n</head>\n<body>\n\
         <h1>Published and measured</h1>\n<p>{}</p>\n<p>{} of {} claims hold.</p>\n",
        escape(heading),
        checks().filter(|check| check.passed).count(),
        checks().count()
    );
    summary(&mut page, outcomes);
    for outcome in outcomes {
        section(&mut page, outcome)?;
    }
    page.push_str("</body>\n</html>\n");
    Ok(page)
}

/// One line an experiment, linked to its section.
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
            escape(&outcome.title),
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
        escape(&outcome.title),
        escape(&outcome.source),
        escape(&outcome.published),
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
        let _ = writeln!(page, "<p class=\"note\">{}</p>", escape(remark));
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
        escape(&check.claim.published),
        escape(&check.claim.measure),
        with_unit(check.measured, &check.claim.unit),
        escape(&check.claim.band()),
        check.null.map_or(String::new(), number),
        escape(&check.claim.reason),
        missed.map_or(String::new(), |why| format!("<br><b>Not reached: {}</b>", escape(why))),
    );
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_keep_about_three_digits() {
        assert_eq!(
            [123.4, 12.34, 1.234, 0.01234, -7.5].map(number),
            ["123", "12.3", "1.23", "0.012", "-7.50"]
        );
        assert_eq!(with_unit(97.53, "%"), "97.5 %");
        assert_eq!(escape("a < b & c"), "a &lt; b &amp; c");
    }
}
