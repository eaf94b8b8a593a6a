//! Accuracy of `headway passive` on emulated paths, beside `headway measure` and the throughput of the observed flow.

use comfy_table::Table;
use headway_core::{Bytes, Duration, Rate};
use serde::Serialize;

use super::AccuracyArgs;
use super::cells::{self, Watch, median};
use crate::exit::Failed;
use crate::out::print_line;
use crate::testbed::passive::Observed;
use crate::testbed::{self, Model, Scored, Testbed};

/// Default capacity in Mb/s, loads in percent, and number of valid runs of each cell.
const RATE_MBPS: f64 = 100.0;
const LOADS: [u32; 3] = [20, 50, 80];
const RUNS: u32 = 10;

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

pub(super) fn run(args: &AccuracyArgs) -> Result<(), Failed> {
    let options = &args.emulated;
    let runs = options.runs.unwrap_or(RUNS);
    let rates =
        if options.rates.is_empty() { vec![Rate::from_mbps(RATE_MBPS)] } else { options.rates.clone() };
    let loads = if options.loads.is_empty() { LOADS.to_vec() } else { options.loads.clone() };
    let plans: Vec<(Rate, u32)> =
        rates.iter().flat_map(|rate| loads.iter().map(|load| (*rate, *load))).collect();
    let what = |(rate, load): &(Rate, u32)| format!("{rate}, {load} % load");
    let cells = cells::all(&plans, runs, what, cell)?;
    print_line!("{}", table(&cells));
    for failure in cells.iter().flat_map(|cell| &cell.failures) {
        print_line!("a run gave no answer: {failure}");
    }
    cells::write(args.output.as_deref(), &cells)?;
    Ok(())
}

fn cell((rate, load): &(Rate, u32), _: u64, watch: &Watch) -> anyhow::Result<CellRuns> {
    let prepare = |seed| {
        let cross = testbed::cross(Model::Poisson, rate.scale(f64::from(*load) / 100.0));
        let spec = testbed::spec(testbed::symmetric(*rate, None), cross, seed);
        Ok((Testbed::new(&spec, "passive")?, seed))
    };
    let once = |(testbed, seed): (Testbed, u64)| {
        let run = Run { seed, passive: testbed.observe(TRANSFER)?, measure: testbed.measure(&[])? };
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
