//! Four flows that share a narrow link with explicit congestion control (xcp-rcp 4).

use std::collections::BTreeMap;

use headway_control::Kind;
use headway_figures::{Curve, Figure, Panel};
use headway_queue::QueueSpec;
use headway_traffic::channel::{Outages, Redrawn};
use headway_units::Rate;
use headway_worlds::World;
use serde::Deserialize;

use super::Study;
use crate::context::Error;
use crate::experiment::Count;
use crate::job::Job;
use crate::outcome::{Findings, Measures};
use crate::procedure::{self, Trace};

/// Four flows that share a narrow link with explicit congestion control.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Procedure {
    /// What runs, by the name with which its measures begin.
    variants: BTreeMap<String, Router>,
    /// Runs of each variant, with different seeds; the median is reported.
    runs: Count,
    /// Runs in real time, in the lab; absent where the experiment runs in the simulator only.
    lab_runs: Option<Count>,
    /// Comparisons of variants run by run, in the syntax of a claim; the seed gives both the same capacities.
    /// Their measures begin with `paired`.
    #[serde(default)]
    paired: BTreeMap<String, String>,
    /// The time that the figure shows, in seconds.
    window: (f64, f64),
    /// What the figure shows, from top to bottom.
    draw: Vec<Drawn>,
}

/// A router with its senders and its link.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Router {
    /// The queue of the narrow link.
    pub(crate) queue: QueueSpec,
    /// The controller of all senders.
    pub(crate) controller: Kind,
    /// The rate of the interface that the router knows, if not that of the link.
    pub(crate) line: Option<Rate>,
    /// The rate at which the application of the first flow writes, if not at once.
    pub(crate) application: Option<Rate>,
    /// How the capacity changes; absent where it does not.
    pub(crate) redrawn: Option<Redrawn>,
    /// When the narrow link transmits nothing; absent where it always does.
    pub(crate) outages: Option<Outages>,
    /// Share of the packets that the narrow link loses.
    #[serde(default)]
    pub(crate) loss: f64,
}

/// What a figure can show.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Drawn {
    /// Window over RTT of every flow, a panel for each variant.
    Rates,
    /// Queue, its average and its target, a panel for each variant.
    Queue,
    /// The queue, all variants together.
    Queues,
    /// The rate that RCP's router announces, all variants together.
    Announced,
    /// The error of the capacity that ErrorS found, all variants together.
    Error,
    /// Jain's index, all variants together.
    Fairness,
    /// What the third flow has delivered, all variants together.
    Delivered,
}

/// Quantiles in the table.
const SPREAD: [f64; 5] = [0.0, 0.1, 0.5, 0.9, 1.0];

/// A variant and its runs.
struct Done<'a> {
    name: &'a str,
    /// The first run, for the figure.
    first: Option<Trace>,
    numbers: Vec<Measures>,
}

impl Study for Procedure {
    fn run(&self, job: &Job<'_>) -> Result<Findings, Error> {
        let variants: Vec<(&String, &Router)> = self.variants.iter().collect();
        let runs = job.of(job.choose(self.runs, self.lab_runs));
        let traces = job.each_run(&variants, runs, |(name, variant), run| {
            let trace = if job.as_scenarios {
                procedure::run_in(job, variant, name, run)?
            } else {
                procedure::run(variant, job.seed(run))
            };
            // Only the first run of a variant is drawn.
            Ok((trace.numbers(), (run == 0).then_some(trace)))
        })?;
        let done = variants.iter().zip(traces).map(|((name, _), runs)| {
            let (numbers, mut drawn): (Vec<_>, Vec<_>) = runs.into_iter().unzip();
            Done { name, first: drawn.swap_remove(0), numbers }
        });
        Ok(evaluate(self, &done.collect::<Vec<Done<'_>>>()))
    }

    fn other_worlds(&self) -> &'static [World] {
        if self.lab_runs.is_some() { &[World::Lab] } else { &[] }
    }
}

/// Reports every number of every variant, and every comparison.
fn evaluate(study: &Procedure, done: &[Done<'_>]) -> Findings {
    let mut findings = Findings::with_table("variant,number,lowest,p10,median,p90,highest");
    for variant in done {
        for what in variant.numbers[0].keys() {
            let values = variant.numbers.iter().map(|numbers| numbers[what]);
            findings.add_spread(variant.name, what, values.collect(), &SPREAD, 4);
        }
    }
    let runs: Vec<Findings> = (0..done[0].numbers.len()).map(|run| together(done, run)).collect();
    for (name, comparison) in &study.paired {
        let values = runs.iter().map(|run| run.value(comparison).unwrap_or(f64::NAN));
        findings.add_spread("paired", name, values.collect(), &SPREAD, 4);
    }
    findings.figure = figure(study, done);
    findings
}

/// Returns the numbers of all variants in one run.
fn together(done: &[Done<'_>], run: usize) -> Findings {
    let numbers = |variant: &Done<'_>| -> Measures {
        variant.numbers[run]
            .iter()
            .map(|(what, value)| (format!("{}/{what}", variant.name), *value))
            .collect()
    };
    Findings { measures: done.iter().flat_map(numbers).collect(), ..Findings::default() }
}

fn figure(study: &Procedure, done: &[Done<'_>]) -> Figure {
    let (from, to) = study.window;
    let each = |title: &str, y: &str, curves: &dyn Fn(&Trace) -> Vec<Curve>| -> Vec<Panel> {
        let panel = |variant: &Done<'_>| {
            let panel = Panel::new(&format!("{}: {title}", variant.name), "time, s", y);
            variant.first.iter().flat_map(curves).fold(panel, Panel::with)
        };
        done.iter().map(panel).collect()
    };
    let together = |title: &str, y: &str, points: &dyn Fn(&Trace) -> Vec<(f64, f64)>| -> Vec<Panel> {
        let panel = Panel::new(title, "time, s", y);
        let with_points =
            done.iter().filter_map(|variant| Some((variant.name, points(variant.first.as_ref()?))));
        let curves = with_points.filter(|(_, points)| !points.is_empty());
        vec![curves.fold(panel, |panel, (name, points)| panel.with(Curve::line(name, points)))]
    };
    let panels = study.draw.iter().flat_map(|what| match what {
        Drawn::Rates => each("rates", "Mb/s", &|trace| trace.rate_curves(from, to)),
        Drawn::Queue => each("queue", "kB", &|trace| trace.queue_curves(from, to)),
        Drawn::Queues => together("queue", "kB", &|trace| trace.queue_points(from, to)),
        Drawn::Announced => {
            together("rate that the router announces", "Mb/s", &|trace| trace.announced_points(from, to))
        }
        Drawn::Error => together("error of the capacity", "Mb/s", &|trace| trace.error_points(from, to)),
        Drawn::Fairness => together("fairness (Jain)", "index", &|trace| trace.fairness_points(from, to)),
        Drawn::Delivered => {
            together("delivered by the third flow", "kB", &|trace| trace.delivered_points(from, to))
        }
    });
    Figure::curves(panels)
}
