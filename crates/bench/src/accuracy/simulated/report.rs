//! The results of one method, as rows of a table.

use serde::Serialize;

use super::goals::{Goal, goals};
use super::scored::Scored;
use super::tally::{Tally, tallies};

/// The results of one method.
#[derive(Debug, Serialize)]
pub(super) struct Report<'a> {
    pub(super) method: &'a str,
    pub(super) classes: Vec<Tally>,
    pub(super) all: Tally,
    pub(super) goals: Vec<Goal>,
    #[serde(skip)]
    pub(super) scored: &'a [Scored],
}

impl Report<'_> {
    /// Returns one report per method; `scored` is ordered by method.
    pub(super) fn of_each_method(scored: &[Scored]) -> Vec<Report<'_>> {
        let methods = scored.chunk_by(|one, other| one.result.method == other.result.method);
        methods
            .map(|scored| {
                let (classes, all) = tallies(scored);
                let goals = goals(&classes, &all, scored);
                Report { method: &scored[0].result.method, classes, all, goals, scored }
            })
            .collect()
    }

    /// Returns the reasons for missing answers with their counts, the most frequent first.
    pub(super) fn refusals(&self) -> Vec<(usize, &str)> {
        let mut reasons: Vec<(usize, &str)> =
            self.all.refusals.iter().map(|(reason, count)| (*count, reason.as_str())).collect();
        reasons.sort_by(|one, other| other.cmp(one));
        reasons
    }

    /// Returns the rows of the table: the classes, and all of them together.
    pub(super) fn rows(&self) -> Vec<[String; COLUMNS.len()]> {
        self.classes.iter().chain([&self.all]).map(row).collect()
    }
}

/// The columns of the table.
pub(super) const COLUMNS: [&str; 15] = [
    "class",
    "answers",
    "none",
    "at least",
    "held",
    "bias",
    "error",
    "95 %",
    "half width",
    "null",
    "MB",
    "s",
    "lost",
    "waited",
    "95 %",
];

/// An explanation of the columns.
pub(super) const LEGEND: &str = "\
Held: answers whose 90 % interval contains the truth. Bias: median error. Error: median absolute error, and its 95th percentile. Errors and half widths are fractions
of the available bandwidth, or of a quarter of the narrow link's capacity if less was available. Null: the error of always answering that capacity. MB, s: median cost.
Lost: cross-traffic packets lost because of a measurement, mean; where cross traffic is TCP, the difference from the same path without measurements. Waited: the longest extra wait of a cross-traffic packet in ms: because of the median stream, median over
measurements; and because of any stream, 95th percentile over measurements.";

fn row(tally: &Tally) -> [String; COLUMNS.len()] {
    let percent = |share: Option<f64>| share.map(|share| format!("{:.1} %", share * 100.0));
    let number = |value: Option<f64>, scale: f64| value.map(|value| format!("{:.2}", value * scale));
    let optional = [
        tally.coverage().map(|share| format!("{:.0} %", share * 100.0)),
        tally.bias.map(|share| format!("{:+.1} %", share * 100.0)),
        percent(tally.error_median),
        percent(tally.error_p95),
        percent(tally.half_width),
        percent(tally.null_error_median),
        number(tally.bytes, 1e-6),
        number(tally.seconds, 1.0),
        Some(format!("{:.1}", tally.others_lost)),
        number(tally.waited_median_ms, 1.0),
        number(tally.waited_p95_ms, 1.0),
    ];
    let [covered, bias, error, p95, half, null, bytes, seconds, lost, waited, most] =
        optional.map(Option::unwrap_or_default);
    let (answers, none) = (tally.answers.to_string(), tally.measurements - tally.answers);
    let (name, none, bounds) = (tally.class.clone(), none.to_string(), tally.at_least.to_string());
    [name, answers, none, bounds, covered, bias, error, p95, half, null, bytes, seconds, lost, waited, most]
}
