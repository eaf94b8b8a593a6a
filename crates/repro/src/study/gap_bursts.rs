//! Variation of the rate of a paced sender (rapid A2).

use headway_units::Duration;

use super::path::gbps;
use super::sender::Sender;
use crate::context::{Context, Error};
use crate::experiment::{Experiment, GapBursts, GapMechanism};
use crate::outcome::{Findings, Table};
use crate::statistics::{deviation, largest, mean};
use headway_figures::{Curve, Figure, Panel};

pub(super) fn run(
    study: &GapBursts,
    experiment: &Experiment,
    context: &Context<'_>,
) -> Result<Findings, Error> {
    let rates = study.rates.values();
    let parts: Vec<(GapMechanism, f64)> = study
        .mechanisms
        .iter()
        .flat_map(|mechanism| rates.iter().map(move |rate| (*mechanism, *rate)))
        .collect();
    let found = context.map(&parts, |index, (mechanism, rate)| {
        let (path, seed) = (&experiment.path, context.seed_of(&experiment.id, index));
        let sender = Sender::new(*mechanism, path.capacity, path.packet, seed);
        Ok(rates_mbps(study, experiment, sender, *rate, context.size.of(study.intervals)))
    })?;
    let mut findings = Findings {
        table: Table::new(["mechanism", "rate Gb/s", "mean Mb/s", "deviation Mb/s"]),
        ..Findings::default()
    };
    let mut panel = Panel::new("", "rate, Gb/s", "standard deviation over 1 ms, Mb/s").logarithmic();
    for (parts, found) in parts.chunks(rates.len()).zip(found.chunks(rates.len())) {
        let name = parts[0].0.name();
        let deviations: Vec<f64> = found.iter().map(|rates| deviation(rates)).collect();
        let above_7 = rates.iter().zip(&deviations).filter(|(rate, _)| **rate > 7.0);
        findings.measures.insert(format!("{name}/deviation-most"), largest(deviations.iter().copied()));
        findings.measures.insert(
            format!("{name}/deviation-most-above-7"),
            largest(above_7.map(|(_, deviation)| *deviation)),
        );
        for ((rate, deviation), seen) in rates.iter().zip(&deviations).zip(found) {
            findings.table.rows.push(vec![
                name.to_owned(),
                format!("{rate:.1}"),
                format!("{:.1}", mean(seen)),
                format!("{deviation:.2}"),
            ]);
        }
        // A logarithmic axis has no zero.
        let points = rates.iter().copied().zip(deviations.iter().map(|value| value.max(1.0))).collect();
        panel = panel.with(Curve::line(name, points));
    }
    findings.figure = Figure::curves([panel]);
    Ok(findings)
}

/// Returns the rate in every interval, in Mb/s.
fn rates_mbps(
    study: &GapBursts,
    experiment: &Experiment,
    mut sender: Sender,
    rate: f64,
    intervals: usize,
) -> Vec<f64> {
    let packet = experiment.path.packet;
    let gap = gbps(rate).time_for(packet);
    // Enough for all intervals even if a mechanism is slightly fast.
    let count = study.interval.ns() as f64 * intervals as f64 * 1.2 / gap.ns() as f64;
    let mut bits = vec![0u64; intervals];
    let mut now = Duration::ZERO;
    for made in sender.send(&vec![gap; count as usize + 16]) {
        now += made;
        if let Some(interval) = bits.get_mut((now.ns() / study.interval.ns()) as usize) {
            *interval += packet.get() * 8;
        }
    }
    bits.iter().map(|bits| *bits as f64 / study.interval.us()).collect()
}
