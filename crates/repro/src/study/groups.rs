//! Groups of flows that differ, at one explicit router: shares, fairness, queue and losses of each.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use headway_control::Kind;
use headway_figures::{Curve, Figure, Panel};
use headway_record::Results;
use headway_units::{Duration, Rate, WIRE_OVERHEAD};
use serde::{Deserialize, Serialize};

use super::Study;
use crate::closed_loop::segments_per_ack;
use crate::context::Error;
use crate::experiment::Count;
use crate::job::Job;
use crate::outcome::Findings;
use crate::statistics::jain;

/// Groups of flows that differ, at one explicit router.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Groups {
    /// Rate of the shared link. Its buffer holds it for as long as the longest RTT without queue.
    rate: Rate,
    /// What runs, by the name with which its measures begin.
    variants: BTreeMap<String, Mix>,
    /// Runs of each variant, with different seeds; the median is reported.
    runs: Count,
    /// Time before the measured time; flows start one after the other during half of it.
    warmup: Count,
    /// Measured time.
    milliseconds: Count,
}

/// A queue and its flows.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Mix {
    /// The queue of the shared link, as a table of a scenario file; drop-tail if absent.
    queue: Option<String>,
    /// The groups, by name.
    flows: BTreeMap<String, Members>,
}

/// Flows that do not differ.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Members {
    /// The controller.
    controller: Kind,
    /// How many.
    count: u64,
    /// RTT without queue.
    rtt: Duration,
    /// End, after the beginning of the measured time; absent if they stay.
    stop: Option<Duration>,
}

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

impl Study for Groups {
    fn run(&self, job: &Job<'_>) -> Result<Findings, Error> {
        let variants: Vec<(&String, &Mix)> = self.variants.iter().collect();
        let done = job.each_run(&variants, job.of(self.runs), |(name, variant), run| {
            let text = scenario(self, variant, job);
            job.run_scenario(&text, name, run, |results| numbers(results, self, variant))
        })?;
        Ok(evaluate(self, &done))
    }
}

/// Each group has a node of its own, whose links make up its RTT.
fn scenario(study: &Groups, variant: &Mix, job: &Job<'_>) -> String {
    let (warmup, measured) = (job.time(study.warmup), job.time(study.milliseconds));
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

fn evaluate(study: &Groups, done: &[Vec<Numbers>]) -> Findings {
    let mut findings = Findings::with_table("variant,number,lowest,median,highest");
    let mut panel = Panel::new("", "p95 of the queue, ms", "fairness (Jain)");
    for ((name, variant), runs) in study.variants.iter().zip(done) {
        let mut report = |what: &str, value: &dyn Fn(&Numbers) -> f64| {
            findings.add_spread(name, what, runs.iter().map(value).collect(), &[0.0, 0.5, 1.0], 3);
        };
        report("utilisation", &|n| n.utilisation);
        report("jain", &|n| n.jain);
        report("queue-p95", &|n| n.queue_p95);
        report("queue-max", &|n| n.queue_max);
        report("dropped", &|n| n.dropped);
        for (index, group) in variant.flows.keys().enumerate() {
            report(&format!("{group}/share"), &|n| n.groups[index].1);
            report(&format!("{group}/retransmitted"), &|n| n.groups[index].2);
        }
        let point = ["queue-p95", "jain"].map(|what| findings.measures[&format!("{name}/{what}")]);
        panel = panel.with(Curve::dots(name, vec![point.into()]));
    }
    findings.figure = Figure::curves([panel]);
    findings
}
