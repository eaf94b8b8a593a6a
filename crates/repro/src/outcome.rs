//! The outcome of an experiment.

use std::collections::BTreeMap;

use headway_figures::Figure;
use headway_record::csv::lines;
use serde::Serialize;

use crate::context::{Context, Size};
use crate::experiment::{Claim, Evidence, Experiment};
use crate::number;
use crate::statistics::{quantile, sorted};

/// Name of the simulator in results.
pub const SIMULATOR: &str = "sim";

/// Name of the simulator in results when it runs the experiment as a scenario.
pub(crate) const SCENARIO: &str = "sim-as-scenario";

/// Measured numbers by name, in the form `who/what`.
pub(crate) type Measures = BTreeMap<String, f64>;

/// Returns a number of several runs in ascending order; NaN where a run does not have it.
pub(crate) fn values(runs: &[Measures], what: &str) -> Vec<f64> {
    sorted(runs.iter().map(|run| run.get(what).copied().unwrap_or(f64::NAN)).collect())
}

/// Returns the median of a number over several runs.
pub(crate) fn median(runs: &[Measures], what: &str) -> f64 {
    quantile(&values(runs, what), 0.5)
}

/// Names numbers.
pub(crate) fn named<const N: usize>(numbers: [(&str, f64); N]) -> Measures {
    numbers.into_iter().map(|(what, value)| (what.to_owned(), value)).collect()
}

/// The result of a study.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    pub(crate) measures: Measures,
    /// The same measures for the null estimator, which ignores its input.
    pub(crate) nulls: Measures,
    pub(crate) table: Table,
    pub(crate) figure: Figure,
    pub(crate) remarks: Vec<String>,
}

impl Findings {
    /// Creates findings with a table that has these headings, separated by commas, and no rows.
    pub(crate) fn with_table(headings: &str) -> Findings {
        Findings { table: Table::new(headings), ..Findings::default() }
    }

    /// Adds measured numbers as `who/what`, or as `what` if nobody is named.
    pub(crate) fn add<W: AsRef<str>>(&mut self, who: &str, numbers: impl IntoIterator<Item = (W, f64)>) {
        let name = |what: &str| if who.is_empty() { what.to_owned() } else { format!("{who}/{what}") };
        self.measures.extend(numbers.into_iter().map(|(what, value)| (name(what.as_ref()), value)));
    }

    /// Adds the median of a number over runs as `who/what`, and its extremes as `who/what/least` and `/most`;
    /// in the table, the quantiles `parts` of it, of which the middle one is the median.
    pub(crate) fn add_spread(
        &mut self,
        who: &str,
        what: &str,
        values: Vec<f64>,
        parts: &[f64],
        digits: usize,
    ) {
        let values = sorted(values.into_iter().filter(|value| !value.is_nan()).collect());
        let [least, median, most] = [0.0, 0.5, 1.0].map(|part| quantile(&values, part));
        self.add(&format!("{who}/{what}"), [("least", least), ("most", most)]);
        self.add(who, [(what, median)]);
        if !values.is_empty() {
            let cells = parts.iter().map(|part| format!("{:.digits$}", quantile(&values, *part)));
            self.table.rows.push([who, what].map(str::to_owned).into_iter().chain(cells).collect());
        }
    }

    /// Returns the number that a claim is about: `NAME`, `null of NAME`, `NAME minus NAME`
    /// or `NAME over NAME`.
    pub(crate) fn value(&self, measure: &str) -> Option<f64> {
        let one = |name: &str| match name.strip_prefix("null of ") {
            Some(name) => self.nulls.get(name).copied(),
            None => self.measures.get(name).copied(),
        };
        if let Some((left, right)) = measure.split_once(" minus ") {
            return Some(one(left)? - one(right)?);
        }
        if let Some((left, right)) = measure.split_once(" over ") {
            return Some(one(left)? / one(right)?);
        }
        one(measure)
    }
}

/// A table of numbers with headings; the first columns may be names.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Table {
    /// Headings, with units.
    pub columns: Vec<String>,
    /// Cells, as text.
    pub rows: Vec<Vec<String>>,
}

impl Table {
    /// Creates a table without rows; `headings` are separated by commas.
    pub(crate) fn new(headings: &str) -> Table {
        Table { columns: headings.split(',').map(str::to_owned).collect(), rows: Vec::new() }
    }

    /// Formats the table as CSV with a header.
    pub fn csv(&self) -> String {
        lines([&self.columns].into_iter().chain(&self.rows))
    }
}

/// A claim with the measured number.
#[derive(Clone, Debug, Serialize)]
pub struct Check {
    /// The published result and its band.
    #[serde(flatten)]
    pub claim: Claim,
    /// The measured number.
    pub measured: f64,
    /// The same number for the null estimator, where it applies.
    pub null: Option<f64>,
    /// Whether the number lies within the band.
    pub passed: bool,
}

/// The result of one experiment.
#[derive(Clone, Debug, Serialize)]
pub struct Outcome {
    /// Paper and number.
    pub id: String,
    /// The world in which it ran: [`SIMULATOR`] or the name of another world.
    pub world: &'static str,
    /// Title of the experiment.
    pub title: String,
    /// Reference to the publication.
    pub source: String,
    /// The published result, in a sentence.
    pub published: String,
    /// What an agreement proves.
    pub evidence: Evidence,
    /// Size of the reproduction.
    pub size: &'static str,
    /// The seed.
    pub seed: u64,
    /// The claims with the measured numbers.
    pub checks: Vec<Check>,
    /// All measured numbers.
    pub measures: BTreeMap<String, f64>,
    /// The measured numbers, as a table.
    pub table: Table,
    /// Notes for reading the numbers.
    pub remarks: Vec<String>,
    /// The figure.
    #[serde(skip)]
    pub figure: Figure,
}

impl Outcome {
    /// Checks the claims against the findings. The simulator must have measured every number that a claim is
    /// about. In another world, claims about other numbers are omitted, and named in the remarks.
    pub(crate) fn new(
        experiment: &Experiment,
        context: &Context<'_>,
        world: &'static str,
        findings: Findings,
    ) -> Outcome {
        let judged = |measure: &str| world == SIMULATOR || findings.value(measure).is_some();
        let claims =
            || experiment.claims.iter().filter(|claim| context.size == Size::Full || !claim.only_full);
        let check = |claim: &Claim| {
            let measured = findings.value(&claim.measure).unwrap_or(f64::NAN);
            let null = findings.nulls.get(&claim.measure).copied();
            Check { claim: claim.clone(), measured, null, passed: claim.holds(measured) }
        };
        let unknown = claims().filter(|claim| !judged(&claim.measure));
        let notes = experiment.notes.iter().filter(|note| judged(&note.measure)).map(|note| {
            let measured = findings.value(&note.measure).unwrap_or(f64::NAN);
            format!("Not published: {}: {}.", note.text, number::with_unit(measured, &note.unit))
        });
        let skipped =
            unknown.map(|claim| format!("Not measured in {world}, so not judged: {}.", claim.measure));
        let later = experiment.claims.len() - claims().count();
        let later = (later > 0).then(|| format!("Judged at the full size only: {later} claims."));
        let remarks: Vec<String> = notes.chain(skipped).chain(later).collect();
        Outcome {
            id: experiment.id.clone(),
            world,
            title: experiment.title.clone(),
            source: experiment.source.clone(),
            published: experiment.published.clone(),
            evidence: experiment.evidence,
            size: Size::name(context.size),
            seed: context.seed,
            checks: claims().filter(|claim| judged(&claim.measure)).map(check).collect(),
            measures: findings.measures,
            table: findings.table,
            remarks: experiment.remarks.iter().cloned().chain(findings.remarks).chain(remarks).collect(),
            figure: findings.figure,
        }
    }

    /// Returns the name among all results: that of the experiment, followed by the world unless that is the
    /// simulator.
    pub fn name(&self) -> String {
        if self.world == SIMULATOR { self.id.clone() } else { format!("{}@{}", self.id, self.world) }
    }

    /// Whether all claims hold.
    pub fn passed(&self) -> bool {
        self.checks.iter().all(|check| check.passed)
    }
}
