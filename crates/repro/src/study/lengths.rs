//! The stream length that PRC-MT converges to (rapid B1).

use headway_estimate::LengthTuning;
use headway_estimate::Schedule;
use headway_sim::testbed::{Observed, Testbed};
use headway_units::Rate;

use crate::context::{Context, Error};
use crate::experiment::{Experiment, Lengths};
use crate::outcome::{Findings, Table};
use crate::statistics::{quantile, sorted};
use headway_figures::{Curve, Figure, Panel};

pub(super) fn run(
    study: &Lengths,
    experiment: &Experiment,
    context: &Context<'_>,
) -> Result<Findings, Error> {
    let runs: Vec<usize> = (0..context.size.of(study.runs)).collect();
    let lengths = context.map(&runs, |index, _| {
        let testbed = experiment.path.testbed(None, context.seed_of(&experiment.id, index));
        Ok(f64::from(tune(study, experiment, testbed)))
    })?;
    let lengths = sorted(lengths);
    let mut findings = Findings { table: Table::new(["run", "length"]), ..Findings::default() };
    for (what, part) in [("p25", 0.25), ("median", 0.5), ("p75", 0.75)] {
        findings.measures.insert(format!("length/{what}"), quantile(&lengths, part));
    }
    findings.table.rows =
        lengths.iter().enumerate().map(|(run, length)| vec![run.to_string(), length.to_string()]).collect();
    let share = |index: usize| 100.0 * (index + 1) as f64 / lengths.len() as f64;
    let points = lengths.iter().enumerate().map(|(index, length)| (*length, share(index))).collect();
    let panel = Panel::new("", "length that PRC-MT settles on, packets", "runs, %");
    findings.figure = Figure::curves([panel.with(Curve::line("runs with at most this length", points))]);
    Ok(findings)
}

/// Runs one tuning, from the train at line rate to the last pair of streams.
fn tune(study: &Lengths, experiment: &Experiment, mut testbed: Testbed) -> u32 {
    let path = &experiment.path;
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
