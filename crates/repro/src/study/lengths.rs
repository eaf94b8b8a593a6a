//! The stream length that PRC-MT converges to (rapid B1).

use headway_estimate::{LengthTuning, Schedule};
use headway_figures::{Curve, Figure, Panel};
use headway_sim::testbed::{Observed, Testbed};
use headway_units::Rate;
use serde::Deserialize;

use super::Study;
use crate::context::Error;
use crate::experiment::Count;
use crate::job::Job;
use crate::outcome::Findings;
use crate::statistics::{quantile, sorted};

/// The stream length that PRC-MT converges to.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Lengths {
    /// Packets in the initial train at line rate.
    train: usize,
    /// Number of tunings.
    runs: Count,
}

impl Study for Lengths {
    fn run(&self, job: &Job<'_>) -> Result<Findings, Error> {
        let runs: Vec<usize> = (0..job.of(self.runs)).collect();
        let lengths = job.map(&runs, |index, _| {
            let testbed = job.experiment.path.testbed(None, job.seed(index));
            Ok(f64::from(tune(self, job, testbed)))
        })?;
        let lengths = sorted(lengths);
        let mut findings = Findings::with_table("run,length");
        for (what, part) in [("p25", 0.25), ("median", 0.5), ("p75", 0.75)] {
            findings.measures.insert(format!("length/{what}"), quantile(&lengths, part));
        }
        findings.table.rows = lengths
            .iter()
            .enumerate()
            .map(|(run, length)| vec![run.to_string(), length.to_string()])
            .collect();
        let share = |index: usize| 100.0 * (index + 1) as f64 / lengths.len() as f64;
        let points = lengths.iter().enumerate().map(|(index, length)| (*length, share(index))).collect();
        let panel = Panel::new("", "length that PRC-MT settles on, packets", "runs, %");
        findings.figure = Figure::curves([panel.with(Curve::line("runs with at most this length", points))]);
        Ok(findings)
    }
}

/// Runs one tuning, from the train at line rate to the last pair of streams.
fn tune(study: &Lengths, job: &Job<'_>, mut testbed: Testbed) -> u32 {
    let path = &job.experiment.path;
    let mut received = |rate: Rate, length: usize| {
        let schedule = Schedule::single_rate(rate, length, path.packet);
        arrival_rate(&testbed.send(&schedule, path.silence)).unwrap_or(rate)
    };
    let dispersion = received(path.capacity, study.train);
    let mut tuning = LengthTuning::new();
    while let Some(length) = tuning.next_length() {
        let first = received(dispersion, length as usize);
        let second = received(dispersion, length as usize);
        tuning.observe(first, second, dispersion);
    }
    tuning.length()
}

/// Returns the arrival rate of the packets that were not lost: a long train overflows a shallow buffer.
fn arrival_rate(observed: &Observed) -> Option<Rate> {
    let mut times = observed.record.arrivals.iter().filter_map(|arrival| arrival.received);
    let first = times.next()?;
    let (count, last) = times.fold((0, first), |(count, _), time| (count + 1, time));
    Rate::of(observed.record.packet * count, last - first)
}
