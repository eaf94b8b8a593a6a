//! Error of the gaps when many flows share a sender (rapid G6).

use headway_traffic::random;
use headway_units::{Duration, Instant};
use rand::RngExt as _;

use super::path::gbps;
use crate::context::{Context, Error};
use crate::experiment::{Experiment, GapFlows, GapMechanism};
use crate::outcome::{Findings, Table};
use crate::statistics::{deviation, largest, mean, smallest};
use headway_figures::{Curve, Figure, Panel};

/// Flows with one mechanism, and their total rate in Gb/s.
struct Part {
    mechanism: GapMechanism,
    rate: f64,
    flows: usize,
}

/// Mean and standard deviation of the gap errors, and the largest error, in microseconds.
struct Errors {
    mean: f64,
    deviation: f64,
    largest: f64,
}

pub(super) fn run(
    study: &GapFlows,
    experiment: &Experiment,
    context: &Context<'_>,
) -> Result<Findings, Error> {
    let mut parts = Vec::new();
    for mechanism in &study.mechanisms {
        for rate in &study.rates {
            let part = |flows: &usize| Part { mechanism: *mechanism, rate: *rate, flows: *flows };
            parts.extend(study.flows.iter().map(part));
        }
    }
    let time = Duration::from_ms(context.size.of(study.milliseconds) as i64);
    let found = context.map(&parts, |index, part| {
        Ok(watch(part, time, experiment, context.seed_of(&experiment.id, index)))
    })?;
    let columns = ["mechanism", "rate Gb/s", "flows", "mean us", "deviation us", "largest us"];
    let mut findings = Findings { table: Table::new(columns), ..Findings::default() };
    let mut panels = Vec::new();
    for mechanism in &study.mechanisms {
        let here: Vec<(&Part, &Errors)> =
            parts.iter().zip(&found).filter(|(part, _)| part.mechanism == *mechanism).collect();
        measure(&mut findings, mechanism.name(), &here, study);
        panels.push(panel(mechanism.name(), &here, study));
    }
    for (part, errors) in parts.iter().zip(&found) {
        let mut row = vec![part.mechanism.name().to_owned(), part.rate.to_string(), part.flows.to_string()];
        row.extend([errors.mean, errors.deviation, errors.largest].map(|value| format!("{value:.3}")));
        findings.table.rows.push(row);
    }
    findings.figure = Figure::curves(panels);
    Ok(findings)
}

/// Lets every flow send at its share of the rate, starting at a random phase.
fn watch(part: &Part, time: Duration, experiment: &Experiment, seed: u64) -> Errors {
    let path = &experiment.path;
    let gap = gbps(part.rate / part.flows as f64).time_for(path.packet);
    let gaps = time.ns() / gap.ns();
    let mut rng = random::generator(seed, "phase", 0);
    let flow = |_| {
        let phase = rng.random_range(0..gap.ns());
        (0..=gaps).map(|k| Instant::from_ns((1_000_000 + phase + gap.ns() * k) as u64)).collect()
    };
    let flows: Vec<Vec<Instant>> = (0..part.flows).map(flow).collect();
    let departures = part.mechanism.mechanism().departures(path.capacity, path.packet, &flows, seed);
    let error = |pair: &[Instant]| (pair[1] - pair[0] - gap).us();
    let errors: Vec<f64> = departures.iter().flat_map(|flow| flow.windows(2).map(error)).collect();
    Errors {
        mean: mean(&errors),
        deviation: deviation(&errors),
        largest: largest(errors.iter().map(|error| error.abs())),
    }
}

fn measure(findings: &mut Findings, name: &str, found: &[(&Part, &Errors)], study: &GapFlows) {
    let mut insert = |what: &str, value: f64| {
        findings.measures.insert(format!("{name}/{what}"), value);
    };
    insert("mean-reach", largest(found.iter().map(|(_, errors)| errors.mean.abs())));
    insert("deviation-most", largest(found.iter().map(|(_, errors)| errors.deviation)));
    for count in &study.flows {
        let from = || found.iter().filter(|(part, _)| part.flows >= *count);
        // At line rate packets leave back to back, whatever the mechanism.
        let below_line = from().filter(|(part, _)| part.rate < largest(study.rates.iter().copied()));
        insert(&format!("largest-from-{count}"), smallest(from().map(|(_, errors)| errors.largest)));
        insert(&format!("largest-most-from-{count}"), largest(from().map(|(_, errors)| errors.largest)));
        insert(
            &format!("deviation-least-from-{count}"),
            smallest(below_line.map(|(_, errors)| errors.deviation)),
        );
    }
}

fn panel(name: &str, found: &[(&Part, &Errors)], study: &GapFlows) -> Panel {
    // A logarithmic axis has no zero; a nanosecond is negligible here.
    let least = Duration::from_ns(1).us();
    let mut panel = Panel::new(name, "flows", "standard deviation of the error of gaps, us").logarithmic();
    for rate in &study.rates {
        let here = found.iter().filter(|(part, _)| part.rate == *rate);
        let points = here.map(|(part, errors)| (part.flows as f64, errors.deviation.max(least))).collect();
        panel = panel.with(Curve::line(&format!("{rate} Gb/s together"), points));
    }
    panel
}
