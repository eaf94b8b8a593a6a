//! Groups of flows that differ, at one explicit router: shares, fairness, queue and losses of each.

use std::fmt::Write as _;

use headway_figures::{Curve, Figure, Panel};
use headway_record::Results;
use headway_units::Duration;
use headway_units::WIRE_OVERHEAD;
use serde::{Deserialize, Serialize};

use crate::closed_loop::{Place, segments_per_ack};
use crate::context::{Context, Error, Size};
use crate::experiment::{Experiment, Groups, Members, Mix};
use crate::outcome::{Findings, Table};
use crate::statistics::{jain, quantile, sorted};

/// Bytes of a full packet on the wire, and of its payload.
const PACKET: u64 = 1500 + WIRE_OVERHEAD.get();
const PAYLOAD: f64 = 1428.0;
/// Delay of the shared link.
const SHARED: Duration = Duration::from_ms(1);
/// The least buffer: 50 packets.
const LEAST_BUFFER: u64 = 50 * PACKET;

/// The numbers of a run.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Numbers {
    /// Share of the link in use, %.
    utilisation: f64,
    /// Jain's index of the goodputs of the flows that stay, where all of a group have its mean.
    jain: f64,
    /// Queueing delay: p95 and the longest, ms.
    queue_p95: f64,
    queue_max: f64,
    /// Packets dropped, % of those that arrived.
    dropped: f64,
    /// Goodput of a flow of each group over an equal part of the link, and retransmitted packets, %.
    groups: Vec<(String, f64, f64)>,
}

pub(super) fn run(
    place: Place<'_>,
    study: &Groups,
    experiment: &Experiment,
    context: &Context<'_>,
) -> Result<Findings, Error> {
    let runs = context.size.of(study.runs);
    let parts: Vec<(&String, &Mix, usize)> = study
        .variants
        .iter()
        .flat_map(|(name, variant)| (0..runs).map(move |run| (name, variant, run)))
        .collect();
    let done = context.map(&parts, |_, (name, variant, run)| {
        let text = scenario(study, variant, context.size);
        let name = format!("{}/{name}-{run}", experiment.id);
        let seed = context.seed_of(&experiment.id, *run);
        place.run_scenario(text, &name, seed, context, |results| numbers(results, study, variant))
    })?;
    Ok(evaluate(study, &done, runs))
}

/// Estimates the packets of a run of this size.
pub(crate) fn packets(study: &Groups, size: Size) -> usize {
    let time = Duration::from_ms((size.of(study.warmup) + size.of(study.milliseconds)) as i64);
    (study.rate.bytes_in(time).get() / PACKET) as usize * study.variants.len() * size.of(study.runs)
}

/// Each group has a node of its own, whose links make up its RTT.
fn scenario(study: &Groups, variant: &Mix, size: Size) -> String {
    let of = |count| Duration::from_ms(size.of(count) as i64);
    let (warmup, measured) = (of(study.warmup), of(study.milliseconds));
    let longest = variant.flows.values().map(|flows| flows.rtt).max().unwrap_or_default();
    let queue = variant.queue.as_ref().map_or(String::new(), |queue| format!("queue = {queue}\n"));
    let mut text = format!(
        "duration = \"{} ns\"\nwarmup = \"{} ns\"\n\
         [[link]]\nfrom = \"router\"\nto = \"client\"\nduplex = false\nrate = \"{} b/s\"\ndelay = \"{} ns\"\n\
         buffer = \"{} B\"\n{queue}",
        (warmup + measured).ns(),
        warmup.ns(),
        study.rate.bps(),
        SHARED.ns(),
        study.rate.bytes_in(longest).get().max(LEAST_BUFFER),
    );
    let all: u64 = variant.flows.values().map(|flows| flows.count).sum();
    let stagger = warmup.ns() / (2 * all.max(1) as i64);
    let mut before = 0;
    for (name, flows) in &variant.flows {
        let there = (flows.rtt / 2 - SHARED).max(Duration::ZERO);
        let stop =
            flows.stop.map_or(String::new(), |stop| format!("stop = \"{} ns\"\n", (warmup + stop).ns()));
        let _ = write!(
            text,
            "[[link]]\nfrom = \"{name}\"\nto = \"router\"\nduplex = false\ndelay = \"{} ns\"\n\
             [[link]]\nfrom = \"client\"\nto = \"{name}\"\nduplex = false\ndelay = \"{} ns\"\n\
             [[flow]]\nfrom = \"{name}\"\nto = \"client\"\nname = \"{name}\"\ncontroller = \"{}\"\nack-every = {}\ncount = {}\n\
             start = \"{} ns\"\nstagger = \"{stagger} ns\"\n{stop}",
            there.ns(),
            (flows.rtt / 2).ns(),
            flows.controller,
            segments_per_ack(flows.controller.is_explicit()),
            flows.count,
            stagger * before,
        );
        before += flows.count as i64;
    }
    text
}

fn numbers(results: &Results, study: &Groups, variant: &Mix) -> Numbers {
    let link = &results.summary.links[0];
    let all: u64 = variant.flows.values().map(|flows| flows.count).sum();
    let part = study.rate.bps_f64() * PAYLOAD / PACKET as f64 / all as f64;
    let group = |(name, flows): (&String, &Members)| {
        let total = &results.summary.groups.iter().find(|group| group.name == *name)?.total;
        let share = total.goodput_bps as f64 / flows.count as f64 / part;
        Some((name.clone(), share, 100.0 * total.retransmitted as f64 / total.sent.max(1) as f64))
    };
    let groups: Vec<(String, f64, f64)> = variant.flows.iter().filter_map(group).collect();
    let stay = groups.iter().zip(variant.flows.values()).filter(|(_, flows)| flows.stop.is_none());
    let shares = stay.flat_map(|(group, flows)| std::iter::repeat_n(group.1, flows.count as usize));
    Numbers {
        utilisation: 100.0 * link.utilisation.unwrap_or_default(),
        jain: jain(&shares.collect::<Vec<f64>>()),
        queue_p95: results.delays[0].quantile(0.95).ms(),
        queue_max: results.delays[0].max().ms(),
        dropped: 100.0 * link.dropped as f64 / link.arrived.max(1) as f64,
        groups,
    }
}

fn evaluate(study: &Groups, done: &[Numbers], runs: usize) -> Findings {
    let mut findings = Findings {
        table: Table::new(["variant", "number", "lowest", "median", "highest"]),
        ..Findings::default()
    };
    let mut panel = Panel::new("", "p95 of the queue, ms", "fairness (Jain)");
    for ((name, variant), runs) in study.variants.iter().zip(done.chunks(runs)) {
        let mut report = |what: &str, value: &dyn Fn(&Numbers) -> f64| {
            let values = sorted(runs.iter().map(value).collect());
            let spread = [0.0, 0.5, 1.0].map(|part| quantile(&values, part));
            for (suffix, value) in [("/least", spread[0]), ("", spread[1]), ("/most", spread[2])] {
                findings.measures.insert(format!("{name}/{what}{suffix}"), value);
            }
            let mut row = vec![name.clone(), what.to_owned()];
            row.extend(spread.map(|value| format!("{value:.3}")));
            findings.table.rows.push(row);
            spread[1]
        };
        report("utilisation", &|n| n.utilisation);
        let jain = report("jain", &|n| n.jain);
        let queue = report("queue-p95", &|n| n.queue_p95);
        report("queue-max", &|n| n.queue_max);
        report("dropped", &|n| n.dropped);
        for (index, group) in variant.flows.keys().enumerate() {
            report(&format!("{group}/share"), &|n| n.groups[index].1);
            report(&format!("{group}/retransmitted"), &|n| n.groups[index].2);
        }
        panel = panel.with(Curve::dots(name, vec![(queue, jain)]));
    }
    findings.figure = Figure::curves([panel]);
    findings
}
