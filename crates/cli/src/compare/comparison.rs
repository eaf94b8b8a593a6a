//! One scenario in several worlds.

use anyhow::Context as _;
use headway_sim::record::{LinkResult, Summary};
use headway_sim::scenario::{Change, Scenario};
use serde::Serialize;

use super::metrics::{Metric, metrics};
use super::verdict::{Verdict, judge};
use crate::run::{Outcome, World};

/// A scenario in all worlds.
#[derive(Clone, Debug, Serialize)]
#[serde(tag = "type", rename = "comparison")]
pub(super) struct Comparison {
    /// Controller, rate, round-trip time, buffer and number of flows of a matrix's cell; empty for a single comparison.
    #[serde(rename = "cell")]
    pub(super) labels: Vec<String>,
    pub(super) set: Vec<String>,
    pub(super) worlds: Vec<String>,
    /// Number of the world that differences are relative to.
    #[serde(skip)]
    pub(super) reference: usize,
    /// Its name.
    #[serde(rename = "reference")]
    reference_name: String,
    /// The link that metrics are about.
    pub(super) link: String,
    pub(super) metrics: Vec<Metric>,
    pub(super) speeds: Vec<Speed>,
    pub(super) verdicts: Vec<Verdict>,
    /// Whether all metrics with bands are within them; `None` when none has.
    pub(super) within: Option<bool>,
    /// Whether the machine left all runs undisturbed.
    pub(super) valid: bool,
}

/// What a run took.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Speed {
    /// Time in the world, warm-up included.
    pub(super) virtual_seconds: f64,
    pub(super) wall_seconds: f64,
    /// Events handled; zero where there are none to count.
    pub(super) events: u64,
}

/// The most real world: differences are relative to it.
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
    /// Sets runs of `scenario` in `worlds` side by side.
    pub(super) fn new(
        scenario: &Scenario,
        (labels, set): (&[String], &[Change]),
        worlds: &[World],
        runs: &[Outcome],
    ) -> anyhow::Result<Comparison> {
        let reference = reference(worlds);
        let summaries: Vec<&Summary> = runs.iter().map(|run| &run.results.summary).collect();
        let links = bottleneck(&summaries)?;
        let metrics = metrics(&summaries, &links, reference);
        let verdicts = judge(scenario, worlds, reference, &metrics);
        let judged: Vec<bool> = verdicts.iter().filter_map(Verdict::within).collect();
        Ok(Comparison {
            labels: labels.to_vec(),
            set: set.iter().map(ToString::to_string).collect(),
            worlds: worlds.iter().map(ToString::to_string).collect(),
            reference,
            reference_name: worlds[reference].to_string(),
            link: links[reference].link.clone(),
            within: (!judged.is_empty()).then(|| judged.iter().all(|within| *within)),
            valid: summaries.iter().all(|summary| summary.valid),
            speeds: runs.iter().map(Speed::of).collect(),
            metrics,
            verdicts,
        })
    }

    /// What tells the cell of a matrix from the others.
    pub(super) fn cell(&self) -> String {
        self.labels.join(", ")
    }

    /// The worlds that are compared with the reference.
    pub(super) fn others(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.worlds.len()).filter(|index| *index != self.reference)
    }

    pub(super) fn metric(&self, name: &str) -> Option<&Metric> {
        self.metrics.iter().find(|metric| metric.name == name)
    }

    /// The verdict on a world other than the reference.
    pub(super) fn verdict(&self, world: usize) -> Option<&Verdict> {
        self.others().position(|other| other == world).and_then(|place| self.verdicts.get(place))
    }
}

impl Speed {
    fn of(run: &Outcome) -> Speed {
        let summary = &run.results.summary;
        Speed {
            virtual_seconds: (summary.warmup_ns + summary.measured_ns) as f64 / 1e9,
            wall_seconds: run.wall.as_secs_f64(),
            events: run.events,
        }
    }

    /// How many times faster this was than `other`, for the same time in the world.
    pub(super) fn over(&self, other: &Speed) -> Option<f64> {
        (self.wall_seconds > 0.0).then(|| other.wall_seconds / self.wall_seconds)
    }
}

/// The link that all worlds know and that was used most, as each saw it.
fn bottleneck<'a>(runs: &[&'a Summary]) -> anyhow::Result<Vec<&'a LinkResult>> {
    let (first, others) = runs.split_first().context("there are no runs")?;
    let shared = first.links.iter().filter_map(|one| {
        let same = |run: &&'a Summary| run.links.iter().find(|other| other.link == one.link);
        let others: Option<Vec<&LinkResult>> = others.iter().map(same).collect();
        Some((one.utilisation?, std::iter::once(one).chain(others?).collect()))
    });
    let most = shared.max_by(|one: &(f64, Vec<_>), other| one.0.total_cmp(&other.0));
    Ok(most.context("the worlds have no link with a rate in common")?.1)
}
