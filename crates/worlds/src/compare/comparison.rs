//! The comparison of one scenario across several worlds.

use crate::error::Error;
use anyhow::Context as _;
use headway_record::Results;
use headway_scenario::{Change, Scenario, World};
use serde::Serialize;

use super::cell::Cell;
use super::metrics::{Metric, metrics};
use super::verdict::{Group, Verdict, is_self_consistent, judge};
use crate::outcome::Outcome;

/// The object of a comparison.
#[derive(Clone, Debug)]
pub(super) struct Subject<'a> {
    /// The scenario; with several runs, that of the first.
    pub(super) scenario: &'a Scenario,
    pub(super) labels: &'a [String],
    pub(super) set: &'a [Change],
    /// Further overrides of each of several runs.
    pub(super) runs: &'a [Vec<Change>],
    /// The group whose bands apply; `None` derives it from the scenario.
    pub(super) group: Option<Group>,
}

impl<'a> Subject<'a> {
    pub(super) fn new(scenario: &'a Scenario, set: &'a [Change]) -> Subject<'a> {
        Subject { scenario, labels: &[], set, runs: &[], group: None }
    }

    pub(super) fn of(cell: &'a Cell, scenario: &'a Scenario) -> Subject<'a> {
        Subject { scenario, labels: &cell.labels, set: &cell.changes, runs: &cell.runs, group: cell.group }
    }
}

/// The results of one scenario in all worlds.
#[derive(Clone, Debug, Serialize)]
#[serde(tag = "type", rename = "comparison")]
pub struct Comparison {
    /// Labels of the matrix cell; empty for a single comparison.
    #[serde(rename = "cell")]
    pub(super) labels: Vec<String>,
    pub(super) set: Vec<String>,
    /// Further overrides of each of several runs; metrics are medians over them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) runs: Vec<Vec<String>>,
    pub(super) worlds: Vec<String>,
    /// Index of the reference world.
    #[serde(skip)]
    pub(super) reference: usize,
    /// Name of the reference world.
    #[serde(rename = "reference")]
    reference_name: String,
    /// The link whose queue the metrics describe.
    pub(super) link: String,
    pub(super) metrics: Vec<Metric>,
    #[serde(rename = "speeds")]
    pub(super) costs: Vec<Cost>,
    pub(super) verdicts: Vec<Verdict>,
    /// Whether the odd and the even runs of the reference agree within the bands; `None`
    /// without several runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) reference_beside_itself: Option<bool>,
    /// Whether all metrics with bands are within them; `None` when no metric has a band.
    pub(super) within: Option<bool>,
    /// Whether no run was disturbed by the machine.
    pub(super) valid: bool,
}

/// The cost of a run.
#[derive(Clone, Debug, Serialize)]
pub struct Cost {
    /// Time in the world, virtual or real, warm-up included.
    pub(super) virtual_seconds: f64,
    pub(super) wall_seconds: f64,
    /// Events processed; zero in worlds that do not count events.
    pub(super) events: u64,
}

/// Returns the index of the reference: the world closest to a real network.
pub(super) fn reference(worlds: &[World]) -> usize {
    let real = |world: &World| match world {
        World::Sim => 0,
        World::Lab => 1,
        World::Uml => 2,
    };
    let most = worlds.iter().enumerate().max_by_key(|(_, world)| real(world));
    most.map_or(0, |(index, _)| index)
}

impl Comparison {
    /// Compares `runs`, which holds the same number of runs for each of `worlds`.
    pub(super) fn new(
        subject: &Subject<'_>,
        worlds: &[World],
        runs: &[Vec<&Outcome>],
    ) -> Result<Comparison, Error> {
        let reference = reference(worlds);
        let results: Vec<Vec<&Results>> =
            runs.iter().map(|runs| runs.iter().map(|run| &run.results).collect()).collect();
        let link = bottleneck(&results)?;
        let metrics = metrics(&results, &link, reference);
        let verdicts = judge(subject.scenario, subject.group, worlds, reference, &metrics);
        let judged: Vec<bool> = verdicts.iter().filter_map(Verdict::within).collect();
        Ok(Comparison {
            labels: subject.labels.to_vec(),
            set: change_texts(subject.set),
            runs: subject.runs.iter().map(|run| change_texts(run)).collect(),
            worlds: worlds.iter().map(ToString::to_string).collect(),
            reference,
            reference_name: worlds[reference].to_string(),
            link,
            within: (!judged.is_empty()).then(|| judged.iter().all(|within| *within)),
            valid: results.iter().flatten().all(|results| results.summary.valid),
            costs: runs.iter().map(|runs| Cost::sum(runs.iter().map(|run| Cost::of(run)))).collect(),
            reference_beside_itself: subject
                .group
                .and_then(|group| is_self_consistent(group, reference, &metrics)),
            metrics,
            verdicts,
        })
    }

    /// Returns the name of the matrix cell.
    pub(super) fn cell(&self) -> String {
        self.labels.join(", ")
    }

    /// Iterates over the worlds other than the reference.
    pub(super) fn others(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.worlds.len()).filter(|index| *index != self.reference)
    }

    pub(super) fn metric(&self, name: &str) -> Option<&Metric> {
        self.metrics.iter().find(|metric| metric.name == name)
    }

    /// Returns the verdict on a world other than the reference.
    pub(super) fn verdict(&self, world: usize) -> Option<&Verdict> {
        self.others().position(|other| other == world).and_then(|place| self.verdicts.get(place))
    }
}

impl Cost {
    /// Sums the costs of several runs.
    pub(super) fn sum(costs: impl Iterator<Item = Cost>) -> Cost {
        let none = Cost { virtual_seconds: 0.0, wall_seconds: 0.0, events: 0 };
        costs.fold(none, |all, cost| Cost {
            virtual_seconds: all.virtual_seconds + cost.virtual_seconds,
            wall_seconds: all.wall_seconds + cost.wall_seconds,
            events: all.events + cost.events,
        })
    }

    fn of(run: &Outcome) -> Cost {
        let summary = &run.results.summary;
        Cost {
            virtual_seconds: (summary.warmup_ns + summary.measured_ns) as f64 / 1e9,
            wall_seconds: run.wall.as_secs_f64(),
            events: run.events,
        }
    }

    /// Returns the ratio of the wall time of `other` to that of this run.
    pub(super) fn speedup(&self, other: &Cost) -> Option<f64> {
        (self.wall_seconds > 0.0).then(|| other.wall_seconds / self.wall_seconds)
    }
}

/// Returns the most utilised link in the first run, among those that all worlds report.
pub(super) fn bottleneck(worlds: &[Vec<&Results>]) -> Result<String, Error> {
    let mut firsts = worlds.iter().filter_map(|runs| runs.first());
    let first = firsts.next().context("there are no runs")?;
    let others: Vec<_> = firsts.collect();
    let known = |name: &str| others.iter().all(|run| run.summary.links.iter().any(|link| link.link == name));
    let shared = first.summary.links.iter().filter(|link| known(&link.link));
    let used = shared.filter_map(|link| Some((link.utilisation?, &link.link)));
    let most = used.max_by(|one, other| one.0.total_cmp(&other.0));
    Ok(most.context("the worlds have no link with a rate in common")?.1.clone())
}

fn change_texts(changes: &[Change]) -> Vec<String> {
    changes.iter().map(ToString::to_string).collect()
}
