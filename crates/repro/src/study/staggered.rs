//! Shares of flows that start and end one after the other (rapid 4.4, R9).

use std::collections::BTreeMap;

use headway_figures::{Curve, Figure, Panel};
use headway_record::Results;
use headway_scenario::FlowController;
use headway_units::{Bytes, Duration, Instant};
use headway_worlds::World;
use serde::{Deserialize, Serialize};

use super::Study;
use crate::closed_loop::{Cross, Flow, Setup};
use crate::context::Error;
use crate::experiment::Count;
use crate::job::Job;
use crate::outcome::{Findings, Measures, Table};
use crate::statistics::{jain, quantile, sorted};

/// Shares of flows that start and end one after the other.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Staggered {
    /// Buffer of the bottleneck.
    buffer: Bytes,
    /// RTT of all flows without queueing.
    rtt: Duration,
    /// Start and end of each flow, in seconds of the thesis.
    flows: Vec<(f64, f64)>,
    /// Times between which shares are measured, in seconds of the thesis, by the name of their measures.
    phases: BTreeMap<String, (f64, f64)>,
    /// Controllers of all flows, by the name with which their measures begin.
    controllers: BTreeMap<String, FlowController>,
    /// The controllers in the quick size.
    quick_controllers: Vec<String>,
    /// Runs per controller, with different seeds; the median is reported.
    runs: Count,
    /// Simulated duration of what lasts one second in the thesis.
    milliseconds: Count,
    /// The same duration on the Linux stack.
    kernel_milliseconds: Option<Count>,
}

/// Intervals of the time series in what lasts one second in the thesis.
const INTERVALS: i64 = 2;

/// The shares of one run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Shares {
    /// End of each interval, in seconds of the thesis.
    ends: Vec<f64>,
    /// Goodput of each flow in each interval, in Gb/s.
    goodputs: Vec<Vec<f64>>,
}

impl Shares {
    /// Returns the mean goodput of each flow between two times, in Gb/s.
    fn between(&self, (from, to): (f64, f64)) -> Vec<f64> {
        let inside: Vec<usize> = (0..self.ends.len())
            .filter(|index| self.ends[*index] > from && self.ends[*index] <= to)
            .collect();
        let mean =
            |flow: &Vec<f64>| inside.iter().map(|index| flow[*index]).sum::<f64>() / inside.len() as f64;
        self.goodputs.iter().map(mean).collect()
    }
}

impl Study for Staggered {
    fn run(&self, job: &Job<'_>) -> Result<Findings, Error> {
        // How long what lasts one second in the thesis lasts here.
        let second = job.time(job.choose(self.milliseconds, self.kernel_milliseconds));
        let wanted = |name: &String| job.is_full() || self.quick_controllers.contains(name);
        let (here, missing): (Vec<_>, Vec<_>) =
            self.controllers.iter().filter(|(name, _)| wanted(name)).partition(|(_, kind)| job.has(kind));
        let runs = job.each_run(&here, job.of(self.runs), |(name, kind), run| {
            let scenario = setup(self, kind, second).scenario();
            job.run_scenario(&scenario, name, run, |results| shares(results, second))
        })?;
        let done: Vec<(&str, Vec<Shares>)> = here.iter().map(|(name, _)| name.as_str()).zip(runs).collect();
        let mut findings = evaluate(self, &done);
        let missing: Vec<&str> = missing.iter().map(|(name, _)| name.as_str()).collect();
        findings.remarks.extend(job.not_run(&missing));
        if second < Duration::from_ms(1_000) {
            findings.remarks.push(format!("One second of the thesis is scaled to {:.0} ms.", second.ms()));
        }
        Ok(findings)
    }

    fn other_worlds(&self) -> &'static [World] {
        if self.kernel_milliseconds.is_some() { &[World::Uml] } else { &[] }
    }
}

fn setup<'a>(study: &Staggered, controller: &'a FlowController, second: Duration) -> Setup<'a> {
    let flow = |(start, stop): &(f64, f64)| Flow {
        controller,
        keys: "",
        start: second.scale(*start),
        stop: Some(second.scale(*stop)),
    };
    let end = study.flows.iter().map(|(_, stop)| *stop).fold(0.0, f64::max);
    Setup {
        flows: study.flows.iter().map(flow).collect(),
        cross: Cross::Idle,
        rtt: study.rtt,
        loss: 0.0,
        buffer: study.buffer,
        warmup: Duration::ZERO,
        measured: second.scale(end),
        interval: second / INTERVALS,
    }
}

/// Extracts the goodputs over time from the results of a run.
fn shares(results: &Results, second: Duration) -> Shares {
    let series = &results.series;
    let lengths: Vec<f64> = series.intervals().map(|(.., length)| length.secs_f64()).collect();
    let gbps = |(bytes, length): (&Bytes, &f64)| bytes.get() as f64 * 8.0 / 1e9 / length;
    Shares {
        ends: series.ends.iter().map(|end| (*end - Instant::ZERO).secs_f64() / second.secs_f64()).collect(),
        goodputs: series.goodput.iter().map(|flow| flow.iter().zip(&lengths).map(gbps).collect()).collect(),
    }
}

fn evaluate(study: &Staggered, done: &[(&str, Vec<Shares>)]) -> Findings {
    let mut measures = Measures::new();
    for (name, runs) in done {
        for (phase, times) in &study.phases {
            for (what, value) in phase_measures(study, runs, *times) {
                measures.insert(format!("{name}/{phase}/{what}"), value);
            }
        }
    }
    let table = table(study, done, &measures);
    let panel = |(name, runs): &(&str, Vec<Shares>)| {
        let panel = Panel::new(name, "time, s", "goodput, Gb/s").with_y_range(0.0, 10.0);
        runs.first().into_iter().flat_map(curves).fold(panel, Panel::with)
    };
    let figure = Figure::curves(done.iter().map(panel));
    Findings { measures, table, figure, ..Findings::default() }
}

/// Returns fairness, sum, and each share of the flows that are active throughout a phase;
/// medians over the runs.
fn phase_measures(study: &Staggered, runs: &[Shares], times: (f64, f64)) -> BTreeMap<String, f64> {
    let active: Vec<usize> = (0..study.flows.len())
        .filter(|flow| study.flows[*flow].0 <= times.0 && study.flows[*flow].1 >= times.1)
        .collect();
    let of = |run: &Shares| -> Vec<f64> {
        let all = run.between(times);
        active.iter().map(|flow| all[*flow]).collect()
    };
    let median = |what: &dyn Fn(&[f64]) -> f64| {
        quantile(&sorted(runs.iter().map(|run| what(&of(run))).collect()), 0.5)
    };
    let mut measures = BTreeMap::new();
    measures.insert("jain".to_owned(), median(&jain));
    measures.insert("sum".to_owned(), median(&|shares| shares.iter().sum()));
    for (index, flow) in active.iter().enumerate() {
        measures.insert(format!("flow-{}", flow + 1), median(&|shares| shares[index]));
    }
    measures
}

fn curves(run: &Shares) -> Vec<Curve> {
    let points = |flow: &Vec<f64>| run.ends.iter().copied().zip(flow.iter().copied()).collect();
    let curve = |(index, flow)| Curve::line(&format!("flow {}", index + 1), points(flow));
    run.goodputs.iter().enumerate().map(curve).collect()
}

fn table(study: &Staggered, done: &[(&str, Vec<Shares>)], measures: &Measures) -> Table {
    let mut table = Table::new("controller,phase,from s,to s,fairness,sum Gb/s");
    table.columns.extend((1..=study.flows.len()).map(|flow| format!("flow {flow} Gb/s")));
    for (name, _) in done {
        for (phase, (from, to)) in &study.phases {
            let value = |what: &str| {
                let value = measures.get(&format!("{name}/{phase}/{what}"));
                value.map_or(String::new(), |value| format!("{value:.3}"))
            };
            let mut row = vec![(*name).to_owned(), phase.clone(), from.to_string(), to.to_string()];
            row.extend([value("jain"), value("sum")]);
            row.extend((1..=study.flows.len()).map(|flow| value(&format!("flow-{flow}"))));
            table.rows.push(row);
        }
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_means_over_a_phase_of_the_flows_that_are_active_throughout() {
        let study = Staggered {
            buffer: Bytes::new(1_000_000),
            rtt: Duration::from_ms(30),
            flows: vec![(0.0, 4.0), (1.0, 3.0), (3.0, 4.0)],
            phases: [("two".to_owned(), (1.0, 3.0))].into(),
            controllers: BTreeMap::new(),
            quick_controllers: Vec::new(),
            runs: Count { quick: 1, full: 1 },
            milliseconds: Count { quick: 1_000, full: 1_000 },
            kernel_milliseconds: None,
        };
        let run = Shares {
            ends: vec![1.0, 2.0, 3.0, 4.0],
            goodputs: vec![vec![10.0, 9.0, 7.0, 5.0], vec![0.0, 1.0, 3.0, 0.0], vec![0.0, 0.0, 0.0, 5.0]],
        };
        let findings = evaluate(&study, &[("reno", vec![run])]);
        let value = |what: &str| findings.measures[&format!("reno/two/{what}")];
        assert_eq!([value("flow-1"), value("flow-2"), value("sum")], [8.0, 2.0, 10.0]);
        assert!((value("jain") - 100.0 / (2.0 * 68.0)).abs() < 1e-12);
        assert!(!findings.measures.contains_key("reno/two/flow-3"), "it had not started");
        assert_eq!(findings.table.rows[0][4..], ["0.735", "10.000", "8.000", "2.000", ""]);
    }
}
