//! Accuracy of `headway passive` on emulated paths, beside `headway measure` and the throughput
//! of the observed flow.

use std::path::PathBuf;

use clap::Args;
use comfy_table::Table;
use headway_units::{Bytes, Duration, Rate};
use serde::Serialize;

use super::cells::{self, Watch};
use super::observed::{Observed, observe};
use headway_program::exit::Failed;
use headway_runs::testbed::{self, Model, Scored, Testbed};
use headway_units::statistics::median;

/// How long the observed flow sends: 50 windows, and long enough that its start matters little.
const TRANSFER: Duration = Duration::from_ms(10_000);

/// The runs with one capacity and load.
#[derive(Debug, Serialize)]
struct CellRuns {
    capacity_mbps: f64,
    load_percent: u32,
    runs: Vec<Run>,
    /// Runs that the machine disturbed.
    void_runs: u32,
    failures: Vec<String>,
}

/// A flow that is observed, and a measurement of the same path after it.
#[derive(Debug, Serialize)]
struct Run {
    seed: u64,
    passive: Observed,
    measure: Scored,
}

/// The three ways to know what is free.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Passive,
    Measure,
    Throughput,
}

/// An answer of one way in one run; rates in bit/s.
#[derive(Clone, Copy, Debug)]
struct Answer {
    estimate: Option<f64>,
    truth: f64,
    capacity: f64,
    interval: Option<[f64; 2]>,
    /// Intervals that hold their truth, and all of them.
    held: (usize, usize),
    sent_bytes: u64,
}

/// Compares `headway passive` beside a CUBIC flow of 10 s, `headway measure` on the same path after it, and
/// the flow's own throughput, with Poisson traffic; every run has a seed of its own.
///
/// The truth is the capacity less the cross traffic that the emulator sent over the link, averaged from the
/// first to the last packet of the capture, or of the measurement. The observed flow is not subtracted: what
/// it uses is free for it. Errors are shares of the capacity; a run without an estimate counts as wrong by
/// all of it, and one in which a program fails is listed and not counted. `interval` is the median width in
/// Mb/s. `holds` counts rows of the live table, one per second, whose interval contains what was free in that
/// second, and for `headway measure` runs.
#[derive(Args, Debug)]
pub(super) struct PassiveArgs {
    /// Valid runs in each cell.
    #[arg(long, default_value_t = 10, value_name = "N")]
    runs: u32,
    /// Capacities of the path.
    #[arg(long, value_delimiter = ',', default_value = "100 Mb/s", value_name = "RATE,...")]
    rates: Vec<Rate>,
    /// Cross traffic as percent of the capacity.
    #[arg(long, value_delimiter = ',', default_value = "20,50,80", value_name = "PERCENT,...")]
    loads: Vec<u32>,
    /// Also write every run to this JSON file.
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
}

pub(super) fn run(args: &PassiveArgs, json: bool) -> Result<(), Failed> {
    let plans: Vec<(Rate, u32)> =
        args.rates.iter().flat_map(|rate| args.loads.iter().map(|load| (*rate, *load))).collect();
    let what = |(rate, load): &(Rate, u32)| format!("{rate}, {load} % load");
    let cells = cells::all(&plans, args.runs, what, cell)?;
    let failures = cells.iter().flat_map(|cell| &cell.failures);
    let failures: Vec<String> = failures.map(|failure| format!("a run gave no answer: {failure}")).collect();
    Ok(cells::print(&cells, json, args.output.as_deref(), &table(&cells), &failures)?)
}

fn cell((rate, load): &(Rate, u32), _: u64, watch: &Watch) -> anyhow::Result<CellRuns> {
    let prepare = |seed| {
        let cross = testbed::cross(Model::Poisson, rate.scale(f64::from(*load) / 100.0));
        let spec = testbed::spec(testbed::symmetric(*rate, None), cross, seed);
        Ok((Testbed::new(super::headway()?, &spec, "passive")?, seed))
    };
    let once = |(testbed, seed): (Testbed, u64)| {
        let run = Run { seed, passive: observe(&testbed, TRANSFER)?, measure: testbed.measure(&[])? };
        let disturbed = run.passive.disturbed || run.measure.disturbed;
        Ok(Some(run).filter(|_| !disturbed))
    };
    let (runs, void_runs, failures) = watch.repeat(prepare, once)?;
    Ok(CellRuns { capacity_mbps: rate.mbps(), load_percent: *load, runs, void_runs, failures })
}

impl Way {
    const ALL: [Way; 3] = [Way::Passive, Way::Measure, Way::Throughput];

    fn name(self) -> &'static str {
        match self {
            Way::Passive => "headway passive",
            Way::Measure => "headway measure",
            Way::Throughput => "flow's throughput",
        }
    }

    fn answer(self, run: &Run) -> Answer {
        let bps = |bps: Option<u64>| bps.map(|bps| bps as f64);
        let Run { passive, measure, .. } = run;
        let capacity = measure.capacity_truth_bps as f64;
        match self {
            Way::Passive => Answer {
                estimate: bps(passive.free_bps),
                truth: passive.truth_bps as f64,
                capacity,
                interval: bps(passive.free_low_bps)
                    .zip(bps(passive.free_high_bps))
                    .map(|(low, high)| [low, high]),
                held: (
                    passive.seconds.iter().filter(|second| second.covered()).count(),
                    passive.seconds.len(),
                ),
                sent_bytes: passive.sent_bytes,
            },
            Way::Measure => Answer {
                estimate: bps(measure.line.available_bps),
                truth: measure.truth_bps as f64,
                capacity,
                interval: bps(measure.line.available_low_bps)
                    .zip(bps(measure.line.available_high_bps))
                    .map(|(low, high)| [low, high]),
                held: (usize::from(measure.covered()), 1),
                sent_bytes: measure.line.probe_bytes,
            },
            Way::Throughput => Answer {
                estimate: Some(passive.throughput_bps as f64),
                truth: passive.truth_bps as f64,
                capacity,
                interval: None,
                held: (0, 0),
                sent_bytes: 0,
            },
        }
    }
}

impl Answer {
    /// Returns the absolute error as a share of the capacity; no answer counts as wrong by all of it.
    fn error(&self) -> f64 {
        self.estimate.map_or(1.0, |estimate| (estimate - self.truth).abs() / self.capacity)
    }
}

impl CellRuns {
    fn row(&self, way: Way) -> Vec<String> {
        let answers: Vec<Answer> = self.runs.iter().map(|run| way.answer(run)).collect();
        let median_of = |value: &dyn Fn(&Answer) -> Option<f64>| {
            median(answers.iter().filter_map(value).collect())
                .map_or("-".to_owned(), |median| format!("{median:.1}"))
        };
        let errors: Vec<f64> = answers.iter().map(Answer::error).collect();
        let worst = errors.iter().copied().fold(0.0, f64::max);
        let (held, all) = answers.iter().fold((0, 0), |sum, one| (sum.0 + one.held.0, sum.1 + one.held.1));
        let sent = median(answers.iter().map(|answer| answer.sent_bytes as f64).collect());
        vec![
            format!("{} Mb/s", self.capacity_mbps),
            format!("{} %", self.load_percent),
            way.name().to_owned(),
            median_of(&|answer| Some(answer.truth / 1e6)),
            median_of(&|answer| Some(answer.estimate? / 1e6)),
            median(errors).map_or("-".to_owned(), |error| format!("{:.1} %", error * 100.0)),
            format!("{:.1} %", worst * 100.0),
            median_of(&|answer| Some((answer.interval?[1] - answer.interval?[0]) / 1e6)),
            if all > 0 { format!("{held}/{all}") } else { "-".to_owned() },
            sent.map_or("-".to_owned(), |sent| Bytes::new(sent as u64).to_string()),
            self.runs.len().to_string(),
            self.void_runs.to_string(),
        ]
    }
}

fn table(cells: &[CellRuns]) -> Table {
    let header = [
        "capacity",
        "load",
        "from",
        "free, Mb/s",
        "estimate",
        "|error|",
        "worst",
        "interval",
        "holds",
        "sent",
        "runs",
        "void",
    ];
    cells::table(header, cells.iter().flat_map(|cell| Way::ALL.map(|way| cell.row(way))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_without_an_estimate_is_wrong_by_the_capacity() {
        let answer = Answer {
            estimate: Some(45e6),
            truth: 50e6,
            capacity: 100e6,
            interval: None,
            held: (0, 0),
            sent_bytes: 0,
        };
        assert!((answer.error() - 0.05).abs() < 1e-12);
        assert_eq!(Answer { estimate: None, ..answer }.error(), 1.0);
    }
}
