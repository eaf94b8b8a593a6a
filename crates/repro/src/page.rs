//! The HTML report of all results.

use headway_figures::{CannotDraw, page};
use maud::{Markup, html};

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
    let checks = || outcomes.iter().flat_map(|outcome| &outcome.checks);
    let body = html! {
        p { (heading) }
        p { (checks().filter(|check| check.passed).count()) " of " (checks().count()) " claims hold." }
        table {
            (header(["experiment", "title", "evidence", "claims that hold"]))
            @for outcome in outcomes { (line(outcome)) }
        }
        @for outcome in outcomes { (section(outcome)?) }
    };
    Ok(page::styled("Headway: published and measured", "Published and measured", RULES, body).into_string())
}

fn header<const N: usize>(names: [&str; N]) -> Markup {
    html! { tr { @for name in names { th { (name) } } } }
}

/// Returns the row of an experiment, linked to its section.
fn line(outcome: &Outcome) -> Markup {
    let held = outcome.checks.iter().filter(|check| check.passed).count();
    html! {
        tr {
            td { a href={ "#" (outcome.name()) } { (outcome.name()) } }
            td { (outcome.title) }
            td { (outcome.evidence.label()) }
            td class=(if outcome.passed() { "pass" } else { "fail" }) { (held) " of " (outcome.checks.len()) }
        }
    }
}

fn section(outcome: &Outcome) -> Result<Markup, CannotDraw> {
    Ok(html! {
        h2 id=(outcome.name()) { (outcome.name()) ": " (outcome.title) }
        p { "Published (" (outcome.source) "): " (outcome.published) }
        p.label { "Evidence: " (outcome.evidence.label()) ": " (outcome.evidence.meaning()) "." }
        table {
            (header(["claim", "measured", "band", "null", "verdict", "reason for the band"]))
            @for check in &outcome.checks { (row(check)) }
        }
        (page::figure(&outcome.figure.svg()?))
        @for remark in &outcome.remarks { p.note { (remark) } }
    })
}

fn row(check: &Check) -> Markup {
    let Check { claim, measured, null, passed } = check;
    let (class, verdict) = if *passed { ("pass", "holds") } else { ("fail", "fails") };
    html! {
        tr {
            td { (claim.published) br; small { (claim.measure) } }
            td.n { (with_unit(*measured, &claim.unit)) }
            td.n { (claim.band()) }
            td.n { (null.map_or(String::new(), number)) }
            td class=(class) { (verdict) }
            td {
                (claim.reason)
                @if let (Some(why), false) = (&claim.deviation, passed) { br; b { "Known deviation: " (why) } }
            }
        }
    }
}
