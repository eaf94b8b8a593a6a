//! Error of the gaps that a sender creates, over the rate (rapid G1, G3).

use headway_units::{Bytes, Duration, Rate};

use super::path::gbps;
use super::sender::{Sender, errors_us};
use crate::context::{Context, Error};
use crate::experiment::{Experiment, GapErrors, GapMechanism};
use crate::outcome::{Findings, Table};
use crate::statistics::{deviation, largest, mean, smallest};
use headway_figures::{Curve, Figure, Panel};

/// Minimum number of gaps per rate: in a shorter series, packets held back at the end would distort the mean.
const MIN_GAPS: i64 = 5_000;

/// One mechanism with one packet size at one rate in Gb/s.
struct Part {
    mechanism: GapMechanism,
    packet: Bytes,
    rate: f64,
}

/// Mean, standard deviation and extremes of the gap errors, in microseconds.
struct Errors {
    mean: f64,
    deviation: f64,
    least: f64,
    most: f64,
}

pub(super) fn run(
    study: &GapErrors,
    experiment: &Experiment,
    context: &Context<'_>,
) -> Result<Findings, Error> {
    let rates = study.rates.values();
    let mut parts = Vec::new();
    for mechanism in &study.mechanisms {
        for packet in &study.packets {
            parts.extend(rates.iter().map(|rate| Part {
                mechanism: *mechanism,
                packet: *packet,
                rate: *rate,
            }));
        }
    }
    let time = Duration::from_ms(context.size.of(study.milliseconds) as i64);
    let found = context.map(&parts, |index, part| {
        let seed = context.seed_of(&experiment.id, index);
        Ok(watch(part, time, Sender::new(part.mechanism, experiment.path.capacity, part.packet, seed)))
    })?;
    Ok(findings(&parts, &found, rates.len(), experiment.path.capacity))
}

/// Sends at a constant rate for the given time.
fn watch(part: &Part, time: Duration, mut sender: Sender) -> Errors {
    let gap = gbps(part.rate).time_for(part.packet);
    let gaps = vec![gap; (time.ns() / gap.ns()).max(MIN_GAPS) as usize];
    let errors = errors_us(&gaps, &sender.send(&gaps));
    Errors {
        mean: mean(&errors),
        deviation: deviation(&errors),
        least: smallest(errors.iter().copied()),
        most: largest(errors.iter().copied()),
    }
}

/// Builds the findings; each run of `rates` consecutive parts belongs to one mechanism and packet size.
fn findings(parts: &[Part], found: &[Errors], rates: usize, line: Rate) -> Findings {
    let columns = ["mechanism", "packet B", "rate Gb/s", "mean us", "deviation us", "least us", "most us"];
    let mut findings = Findings { table: Table::new(columns), ..Findings::default() };
    let mut panels = Vec::new();
    for (parts, found) in parts.chunks(rates).zip(found.chunks(rates)) {
        let name = format!("{} {}", parts[0].mechanism.name(), parts[0].packet);
        let means = || found.iter().map(|errors| errors.mean);
        let deviations = || found.iter().map(|errors| errors.deviation);
        // At line rate packets leave back to back, whatever the mechanism.
        let below_line =
            || parts.iter().zip(found).filter(|(part, _)| gbps(part.rate) < line).map(|(_, errors)| errors);
        for (what, value) in [
            ("mean-least", smallest(means())),
            ("mean-most", largest(below_line().map(|errors| errors.mean))),
            ("mean-reach", largest(means().map(f64::abs))),
            ("deviation-least", smallest(below_line().map(|errors| errors.deviation))),
            ("deviation-most", largest(deviations())),
            ("error-least", smallest(found.iter().map(|errors| errors.least))),
            ("error-most", largest(found.iter().map(|errors| errors.most))),
        ] {
            findings.measures.insert(format!("{name}/{what}"), value);
        }
        for (part, errors) in parts.iter().zip(found) {
            let mut row = vec![
                part.mechanism.name().to_owned(),
                part.packet.get().to_string(),
                format!("{:.1}", part.rate),
            ];
            let values = [errors.mean, errors.deviation, errors.least, errors.most];
            row.extend(values.map(|value| format!("{value:.4}")));
            findings.table.rows.push(row);
        }
        let points = parts.iter().zip(found).map(|(part, errors)| (part.rate, errors.mean)).collect();
        let spread = |errors: &Errors| (errors.mean - errors.deviation, errors.mean + errors.deviation);
        let curve = Curve::intervals(&name, points, found.iter().map(spread).collect());
        let panel = Panel::new(&name, "rate, Gb/s", "actual minus intended gap, us");
        panels.push(panel.with(curve));
    }
    findings.remarks.push("Bars are one standard deviation. Smallest deviations and largest means leave the rate of the line out, where packets leave back to back.".to_owned());
    findings.figure = Figure::curves(panels);
    findings
}
