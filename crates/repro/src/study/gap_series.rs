//! The sequence of gaps that a sender creates (rapid G2).

use headway_units::Duration;

use super::path::gbps;
use super::sender::Sender;
use crate::context::{Context, Error};
use crate::experiment::{Experiment, GapSeries};
use crate::outcome::{Findings, Table};
use crate::statistics::{quantile, sorted};
use headway_figures::{Curve, Figure, Panel};

/// Gaps longer than this, in microseconds, are spikes (rapid G2).
const SPIKE: f64 = 100.0;

pub(super) fn run(
    study: &GapSeries,
    experiment: &Experiment,
    context: &Context<'_>,
) -> Result<Findings, Error> {
    let path = &experiment.path;
    let gap = gbps(study.rate).time_for(path.packet);
    let wanted = vec![gap; context.size.of(study.gaps)];
    let mut sender =
        Sender::new(study.mechanism, path.capacity, path.packet, context.seed_of(&experiment.id, 0));
    let gaps: Vec<f64> = sender.send(&wanted).iter().copied().map(Duration::us).collect();
    let spikes = gaps.iter().filter(|gap| **gap > SPIKE).count();
    // The gaps directly after a spike.
    let dips: Vec<f64> = gaps.windows(2).filter(|pair| pair[0] > SPIKE).map(|pair| pair[1]).collect();
    let name = study.mechanism.name();
    let mut findings = Findings { table: Table::new(["gap", "wanted us", "made us"]), ..Findings::default() };
    findings
        .measures
        .insert(format!("{name}/spikes-per-1000"), 1e3 * spikes as f64 / gaps.len().max(1) as f64);
    findings.measures.insert(format!("{name}/dip-median"), quantile(&sorted(dips), 0.5));
    // The figure shows the surroundings of the first spike.
    let begin = gaps.iter().position(|gap| *gap > SPIKE).unwrap_or(0).saturating_sub(study.drawn / 4);
    let drawn = &gaps[begin..(begin + study.drawn).min(gaps.len())];
    findings.table.rows = drawn
        .iter()
        .enumerate()
        .map(|(i, made)| vec![(begin + i).to_string(), format!("{:.3}", gap.us()), format!("{made:.3}")])
        .collect();
    let made = drawn.iter().enumerate().map(|(i, made)| (i as f64, *made)).collect();
    let wanted = vec![(0.0, gap.us()), (drawn.len() as f64, gap.us())];
    let panel = Panel::new("", "gap", "length, us")
        .with(Curve::line("made", made))
        .with(Curve::line("wanted", wanted));
    findings.figure = Figure::curves([panel]);
    Ok(findings)
}
