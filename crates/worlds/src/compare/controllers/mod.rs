//! Comparisons of congestion controllers: the same scenario in one world, once per controller.

pub mod page;
#[cfg(test)]
mod tests;

use std::path::Path;

use headway_record::{LinkResult, Results, Total};
use headway_scenario::{Change, Scenario};
use headway_units::Bytes;
use serde::Serialize;

use super::comparison::bottleneck;
use super::metrics::{Unit, median};
use super::run_once;
use crate::controller;
use crate::error::{Error, bail};
use crate::memory;
use crate::options::Options;
use crate::outcome::Outcome;
use crate::pool;
use anyhow::Context as _;
use headway_scenario::World;

/// The largest number of controllers: the colours of a figure.
pub(crate) const MAX_CONTROLLERS: usize = headway_figures::MAX_CURVES;

/// The controllers to compare, and where.
#[derive(Clone, Copy, Debug)]
pub struct Selection<'a> {
    /// The scenario file.
    pub file: &'a Path,
    /// Overrides applied to the scenario.
    pub set: &'a [Change],
    /// Time dilation: how many times slower the scenario runs.
    pub dilation: u32,
    /// The world.
    pub world: World,
    /// Names of the controllers, as in scenario files.
    pub controllers: &'a [String],
    /// Indices of the `[[flow]]` tables that get the controllers; empty for all.
    pub flows: &'a [usize],
    /// Number of runs per controller, with consecutive seeds.
    pub repeat: u32,
}

/// A controller with its scenario.
#[derive(Clone, Debug)]
pub struct Candidate {
    controller: String,
    scenario: Scenario,
}

/// The results of a scenario with several controllers.
#[derive(Debug, Serialize)]
#[serde(tag = "type", rename = "controllers")]
pub struct ControllerComparison {
    scenario: String,
    world: String,
    set: Vec<String>,
    /// Indices of the `[[flow]]` tables that have the controllers; empty for all.
    flows: Vec<usize>,
    seeds: Vec<u64>,
    warmup_ns: i64,
    measured_ns: i64,
    /// The link whose queue the metrics describe: the most utilised one with the first controller.
    link: String,
    /// Whether no run was disturbed by the machine.
    valid: bool,
    controllers: Vec<Entry>,
}

/// One controller.
#[derive(Debug, Serialize)]
struct Entry {
    controller: String,
    metrics: Vec<Metric>,
    /// The run with the first seed, for figures.
    #[serde(skip)]
    first: Results,
    /// Indices of the flows that have the controller.
    #[serde(skip)]
    replaced: Vec<usize>,
}

/// A metric over all seeds.
#[derive(Debug, Serialize)]
struct Metric {
    name: &'static str,
    unit: Unit,
    /// Median, lowest and highest value; `None` in worlds that do not report the metric.
    median: Option<f64>,
    min: Option<f64>,
    max: Option<f64>,
    /// The values, in the order of the seeds.
    values: Vec<Option<f64>>,
}

impl Selection<'_> {
    /// Returns the scenario of every controller, in the order of the selection.
    ///
    /// # Errors
    /// When a name is unknown or given twice, a flow does not exist, or a scenario is not valid.
    pub fn candidates(&self) -> Result<Vec<Candidate>, Error> {
        if !(2..=MAX_CONTROLLERS).contains(&self.controllers.len()) {
            bail!("--controllers needs two to {MAX_CONTROLLERS} names, such as `cubic,bbr`");
        }
        let original = Scenario::load(self.file, self.set)?;
        for index in self.flows {
            match original.flow.get(*index) {
                None => {
                    bail!("--flow: the scenario has {} [[flow]], counted from 0", original.flow.len())
                }
                Some(flow) if flow.arrivals.is_some() => {
                    bail!("--flow: the flows of `flow[{index}]` come and go; compare without --flow")
                }
                Some(_) => {}
            }
        }
        let mut candidates: Vec<Candidate> = Vec::new();
        for name in self.controllers {
            let others =
                controller::changes_of(name, self.world, &original, self.flows).context("--controllers")?;
            let scenario = Scenario::load(self.file, &[self.set, &others].concat())?;
            let scenario = scenario.dilated(self.dilation)?;
            if candidates.iter().any(|other| other.controller == *name) {
                bail!("--controllers: `{name}` is named twice");
            }
            candidates.push(Candidate { controller: name.clone(), scenario });
        }
        Ok(candidates)
    }

    /// Runs every candidate with every seed, `options.jobs` at a time; `None` when cancelled.
    ///
    /// # Errors
    /// When a run fails, or no link has a rate.
    pub fn run(
        &self,
        candidates: &[Candidate],
        options: &Options<'_>,
    ) -> Result<Option<ControllerComparison>, Error> {
        let memory = options.memory.map_or_else(memory::available, Ok)?;
        let memory = Bytes::new(memory.get() / u64::from(options.jobs.max(1)));
        let each = Options { jobs: 1, memory: Some(memory), ..options.clone() };
        let seeds = self.seeds(candidates);
        let runs: Vec<Scenario> = candidates.iter().flat_map(|one| one.with_seeds(&seeds)).collect();
        let done = pool::each(&runs, options.jobs as usize, &options.cancellation, |scenario| {
            let outcome = run_once(scenario, self.world, &each)?;
            Ok(outcome.filter(|outcome| !outcome.results.summary.partial))
        });
        if let Some(error) = done.error {
            return Err(error);
        }
        if done.results.len() < runs.len() {
            return Ok(None);
        }
        self.compare(candidates, seeds, done.results).map(Some)
    }

    fn seeds(&self, candidates: &[Candidate]) -> Vec<u64> {
        let first = candidates.first().map_or(0, |one| one.scenario.seed);
        (0..u64::from(self.repeat)).map(|index| first.wrapping_add(index)).collect()
    }

    /// Builds the comparison from the outcomes, which are in the order of candidates and,
    /// within each, of seeds.
    fn compare(
        &self,
        candidates: &[Candidate],
        seeds: Vec<u64>,
        outcomes: Vec<Outcome>,
    ) -> Result<ControllerComparison, Error> {
        let all: Vec<Results> = outcomes.into_iter().map(|outcome| outcome.results).collect();
        let mut groups: Vec<Vec<Results>> = Vec::new();
        let mut rest = all.into_iter();
        for _ in candidates {
            groups.push(rest.by_ref().take(seeds.len()).collect());
        }
        let firsts: Vec<Vec<&Results>> = groups.iter().map(|runs| runs.iter().take(1).collect()).collect();
        let link = bottleneck(&firsts)?;
        let Some(Candidate { scenario, .. }) = candidates.first() else { bail!("there are no controllers") };
        Ok(ControllerComparison {
            scenario: scenario.name.clone(),
            world: self.world.to_string(),
            set: self.set.iter().map(ToString::to_string).collect(),
            flows: self.flows.to_vec(),
            seeds,
            warmup_ns: scenario.warmup.ns(),
            measured_ns: (scenario.duration - scenario.warmup).ns(),
            valid: groups.iter().flatten().all(|run| run.summary.valid),
            controllers: candidates
                .iter()
                .zip(groups)
                .filter_map(|(one, runs)| Entry::new(one, runs, self.flows, &link))
                .collect(),
            link,
        })
    }
}

impl Candidate {
    fn with_seeds<'a>(&'a self, seeds: &'a [u64]) -> impl Iterator<Item = Scenario> + 'a {
        seeds.iter().map(|seed| Scenario { seed: *seed, ..self.scenario.clone() })
    }
}

impl Entry {
    /// Summarizes the runs of one controller; `None` without runs.
    fn new(candidate: &Candidate, runs: Vec<Results>, flows: &[usize], link: &str) -> Option<Entry> {
        let replaced = replaced(&candidate.scenario, flows);
        let totals: Vec<Total> = runs.iter().map(|run| total(run, flows, &replaced)).collect();
        let of_flows = |name, unit, value: fn(&Total) -> f64| {
            Metric::new(name, unit, totals.iter().map(|total| Some(value(total))).collect())
        };
        let of_link = |name, unit, value: fn(&LinkResult) -> Option<f64>| {
            let one = |run: &Results| value(run.summary.links.iter().find(|one| one.link == link)?);
            Metric::new(name, unit, runs.iter().map(one).collect())
        };
        let metrics = vec![
            of_flows("goodput", Unit::BitsPerSecond, |total| total.goodput_bps as f64),
            of_link("utilisation", Unit::Share, |link| link.utilisation),
            of_link("mean delay", Unit::Nanoseconds, |link| Some(link.delay_mean_ns as f64)),
            Metric::new("95 % delay", Unit::Nanoseconds, runs.iter().map(|run| p95(run, link)).collect()),
            of_link("loss", Unit::Share, |link| Some(link.loss)),
            of_flows("retransmitted", Unit::Share, Total::retransmitted_share),
        ];
        let first = runs.into_iter().next()?;
        Some(Entry { controller: candidate.controller.clone(), metrics, first, replaced })
    }
}

impl Metric {
    fn new(name: &'static str, unit: Unit, values: Vec<Option<f64>>) -> Metric {
        let known = || values.iter().copied().flatten();
        Metric {
            name,
            unit,
            median: median(&values),
            min: known().reduce(f64::min),
            max: known().reduce(f64::max),
            values,
        }
    }
}

/// Returns the indices of the flows that belong to the given `[[flow]]` tables, or of all flows.
fn replaced(scenario: &Scenario, flows: &[usize]) -> Vec<usize> {
    let mut begin = 0;
    let mut found = Vec::new();
    for (index, spec) in scenario.flow.iter().enumerate().filter(|(_, spec)| spec.arrivals.is_none()) {
        let count = usize::try_from(spec.count).unwrap_or(usize::MAX);
        if flows.is_empty() || flows.contains(&index) {
            found.extend(begin..begin + count);
        }
        begin += count;
    }
    found
}

/// Returns the total over the flows that have the controller.
fn total(run: &Results, flows: &[usize], replaced: &[usize]) -> Total {
    if flows.is_empty() {
        return run.summary.total.clone();
    }
    Total::of(replaced.iter().filter_map(|index| run.flows.get(*index)), run.summary.counted())
}

/// Returns the 95th percentile of the queueing delay at a link (ns); `None` in worlds that do not report it.
fn p95(run: &Results, link: &str) -> Option<f64> {
    let index = run.summary.links.iter().position(|one| one.link == link)?;
    Some(run.delays.get(index)?.quantile(0.95).ns() as f64)
}

impl ControllerComparison {
    /// Returns the columns of [`ControllerComparison::rows`].
    pub fn columns(&self) -> Vec<String> {
        let names = self.controllers.iter().take(1).flat_map(|one| &one.metrics).map(|metric| metric.name);
        std::iter::once("controller").chain(names).map(str::to_owned).collect()
    }

    /// Returns one row per controller, with several seeds that of the medians and two more with the lowest
    /// and the highest values.
    pub fn rows(&self) -> Vec<Vec<String>> {
        let row = |name: &str, one: &Entry, value: fn(&Metric) -> Option<f64>| {
            let text = |metric: &Metric| value(metric).map(|value| metric.unit.text(value));
            let texts = one.metrics.iter().map(|metric| text(metric).unwrap_or_default());
            std::iter::once(name.to_owned()).chain(texts).collect::<Vec<String>>()
        };
        let mut rows = Vec::new();
        for one in &self.controllers {
            rows.push(row(&one.controller, one, |metric| metric.median));
            if self.seeds.len() > 1 {
                rows.push(row("- lowest", one, |metric| metric.min));
                rows.push(row("- highest", one, |metric| metric.max));
            }
        }
        rows
    }

    /// Returns the `[[flow]]` tables that have the controllers, as in `flow[0], flow[2]`.
    fn flow_names(&self) -> String {
        self.flows.iter().map(|index| format!("flow[{index}]")).collect::<Vec<_>>().join(", ")
    }

    /// Returns sentences that say what the rows are.
    pub fn remarks(&self) -> Vec<String> {
        let mut lines = Vec::new();
        if let (Some(first), Some(last), true) = (self.seeds.first(), self.seeds.last(), self.seeds.len() > 1)
        {
            lines.push(format!("Medians over seeds {first} to {last}."));
        }
        let link = &self.link;
        lines.push(format!(
            "Utilisation, queueing delay and loss are those of {link}, with everything that passes it."
        ));
        if !self.flows.is_empty() {
            let names = self.flow_names();
            lines.push(format!(
                "Goodput and retransmissions are those of {names}; the other flows keep their controllers."
            ));
        }
        if !self.valid {
            lines.push(
                "The machine was too busy for a run in real time: this comparison does not count.".to_owned(),
            );
        }
        lines
    }
}
