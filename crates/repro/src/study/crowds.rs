//! The queue of an RCP router while a crowd of paced flows arrives (xcp-rcp 4.6, 4.7).

use std::collections::BTreeMap;

use headway_control::Kind;
use headway_figures::{Curve, Figure, Panel};
use headway_formulas::explicit::{self, Flows, Fluid, STEPS, Surge, queue_bytes};
use headway_queue::explicit::{HEADER_BYTES, Record};
use headway_queue::{DropTailConfig, ExplicitConfig, QueueSpec};
use headway_sim::config::{AckPolicy, Burst, Service};
use headway_sim::{LinkConfig, LinkId, Network, TcpConfig};
use headway_traffic::{ArrivalSpec, Crowd as Arrivals, random};
use headway_units::{Bytes, Duration, Instant, Rate, WIRE_OVERHEAD};
use serde::Deserialize;

use super::Study;
use crate::context::Error;
use crate::experiment::Count;
use crate::job::Job;
use crate::outcome::Findings;
use crate::statistics::{largest, quantile, smallest, sorted};

/// The queue of an RCP router while a crowd arrives: paced RCP flows with small packets at 100 Mb/s
/// and an RTT of 100 ms.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Crowds {
    /// IP size of packets.
    packet: Bytes,
    /// The crowds, by name.
    crowds: BTreeMap<String, Crowd>,
    /// Time in ms before time zero. Flows of a crowd that its distribution places earlier arrive at once.
    warmup: Count,
    /// Runs per crowd, with different seeds; the median is reported.
    runs: Count,
}

/// One crowd and its router.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct Crowd {
    /// When its flows arrive; time zero is the end of the warm-up, and flows with times
    /// below zero arrive before.
    arrivals: ArrivalSpec,
    /// Flows that are there before, and whose start-up queue has drained.
    seeds: u64,
    /// Weight of the spare capacity in the control law.
    #[serde(default = "alpha")]
    alpha: f64,
    /// Weight of the queue.
    #[serde(default = "beta")]
    beta: f64,
    /// Whether the router raises beta while the number of flows grows fast.
    #[serde(default)]
    raise_beta: bool,
    /// Whether it grants new flows the smallest rate meanwhile.
    #[serde(default)]
    admission: bool,
    /// Time that the crowd is followed, in ms.
    milliseconds: Count,
}

/// The published weights (xcp-rcp 1.7).
fn alpha() -> f64 {
    0.4
}

fn beta() -> f64 {
    0.226
}

/// Rate of the bottleneck.
pub(super) const CAPACITY: Rate = Rate::from_bps(100_000_000);
/// Round-trip time without queue, d0.
pub(super) const RTT: Duration = Duration::from_ms(100);
/// Propagation delay of each of the four links there and back.
const HOP: Duration = Duration::from_ms(25);
/// Part of the warm-up in which the flows start that are there before the crowd. All at once, each would send
/// at the full capacity.
const STARTING: f64 = 0.7;
/// IP and TCP headers with timestamps.
const HEADERS: u32 = 52;
/// Time between looks whether the queue has drained, after the warm-up; no longer than that again.
const LOOK: Duration = Duration::from_ms(10);
/// The number of flows from which on one more is growth of less than half the limit at the usual beta.
/// Until then each arrival leaves a queue of its own: the second flow sends at the full capacity for a
/// round trip, and leaves C d0.
const MANY: f64 = 32.0;
/// Most of virtual time without a look whether to stop.
const SLICE: Duration = Duration::from_ms(500);

/// What the router measured during one run, and the closed forms beside it.
struct Run {
    /// Times in s since time zero, and persistent queues in wire bytes.
    queue: Vec<(f64, f64)>,
    /// Persistent queue in packets at the end of the last control interval before time zero.
    before: f64,
    /// The arrivals of the crowd in s since time zero.
    arrivals: Vec<f64>,
}

impl Study for Crowds {
    fn run(&self, job: &Job<'_>) -> Result<Findings, Error> {
        let crowds: Vec<(&String, &Crowd)> = self.crowds.iter().collect();
        let done = job.each_run(&crowds, job.of(self.runs), |(name, crowd), run| {
            let seed = job.context.seed_of(&format!("{}/{name}", job.experiment.id), run);
            simulate(self, crowd, seed, job)
        })?;
        let mut findings = Findings::with_table(
            "crowd,beta,flows before,largest L0,queue before packets,mean queue of the last third kB,its spread over seeds kB,theory kB,largest queue of 32 flows or more MB,its spread over seeds MB,largest queue MB",
        );
        let mut queues = Panel::new("", "time, s", "persistent queue, MB");
        let mut growths = Panel::new("", "time, s", "growth L0 per 100 ms");
        for ((name, crowd), runs) in self.crowds.iter().zip(&done) {
            let end = seconds(job, crowd);
            evaluate(name, crowd, runs, end, &mut findings);
            let first = &runs[0];
            let points = first.queue.iter().map(|(at, queue)| (*at, queue / 1e6)).collect();
            queues = queues.with(Curve::line(name, points));
            if let Some(points) = theory(crowd, end) {
                queues = queues.with(Curve::reference(&format!("{name}, theory"), points));
            }
            let times = || (0..(end * 5.0) as u32).map(|index| f64::from(index) / 5.0);
            let grown = times().map(|at| (at, first.growth(crowd.seeds, at))).collect();
            growths = growths.with(Curve::line(name, grown));
            let closed = times().map(|at| (at, growth(crowd, at))).collect();
            growths = growths.with(Curve::reference(&format!("{name}, theory"), closed));
        }
        findings.figure = Figure::curves([queues, growths]);
        Ok(findings)
    }
}

fn seconds(job: &Job<'_>, crowd: &Crowd) -> f64 {
    job.of(crowd.milliseconds) as f64 / 1e3
}

impl Run {
    /// The number of flows at a time.
    fn flows(&self, before: u64, at: f64) -> f64 {
        before as f64 + self.arrivals.partition_point(|arrival| *arrival <= at) as f64
    }

    /// The largest queue in B once there are many flows.
    fn peak_of_many(&self, before: u64) -> f64 {
        let missing = (MANY - before as f64).max(0.0) as usize;
        let from = self.arrivals.get(missing).copied().unwrap_or(f64::INFINITY);
        largest(self.between(from.max(0.0), f64::INFINITY))
    }

    /// The growth of that number during the last d0.
    fn growth(&self, before: u64, at: f64) -> f64 {
        self.flows(before, at) / self.flows(before, at - RTT.secs_f64()) - 1.0
    }

    /// The queues between two times.
    fn between(&self, from: f64, to: f64) -> impl Iterator<Item = f64> {
        self.queue.iter().filter(move |(at, _)| (from..=to).contains(at)).map(|(_, queue)| *queue)
    }

    /// The queue at a time between two records, in proportion.
    fn at(&self, time: f64) -> f64 {
        let after = self.queue.partition_point(|(at, _)| *at <= time);
        let (Some(before), Some(after)) = (after.checked_sub(1), self.queue.get(after)) else {
            return f64::NAN;
        };
        let before = self.queue[before];
        before.1 + (after.1 - before.1) * (time - before.0) / (after.0 - before.0)
    }

    /// The mean queue between two times, by time: intervals between records differ in length.
    fn mean(&self, from: f64, to: f64) -> f64 {
        let pairs = self.queue.windows(2).filter(|pair| pair[0].0 >= from && pair[1].0 <= to);
        let (time, area) = pairs.fold((0.0, 0.0), |(time, area), pair| {
            let span = pair[1].0 - pair[0].0;
            (time + span, area + span * pair[1].1)
        });
        area / time
    }
}

/// Simulates a crowd.
fn simulate(study: &Crowds, crowd: &Crowd, seed: u64, job: &Job<'_>) -> Result<Run, Error> {
    let mut network = Network::new(seed);
    let (narrow, config) = path(&mut network, study, crowd, seed);
    network.keep_records(narrow);
    let warmup = job.time(study.warmup);
    for number in 0..crowd.seeds {
        let start = Instant::ZERO + warmup.scale(STARTING * number as f64 / crowd.seeds as f64);
        network.add_tcp(&TcpConfig { start, ..config.clone() });
    }
    let arrivals = arrivals(crowd, seed);
    let packet = (study.packet + WIRE_OVERHEAD).get() as f64;
    let wire = packet / study.packet.get() as f64;
    let mut records = Vec::new();
    let mut zero = Instant::ZERO + warmup;
    // A crowd whose first flows come before time zero does not wait for anything.
    if arrivals.first().is_some_and(|first| *first >= Duration::ZERO) {
        let last = zero + warmup;
        run_until(&mut network, zero, job)?;
        records.extend(network.take_records(narrow));
        let is_drained = |record: &Record| (record.queue_bytes as f64 * wire) < packet;
        while zero < last && !records.last().is_some_and(is_drained) {
            zero += LOOK;
            run_until(&mut network, zero, job)?;
            records.extend(network.take_records(narrow));
        }
    }
    let end = zero + job.time(crowd.milliseconds);
    for start in arrivals.iter().map(|at| zero + *at).take_while(|start| *start < end) {
        network.add_tcp(&TcpConfig { start: start.max(Instant::ZERO), ..config.clone() });
    }
    run_until(&mut network, end, job)?;
    records.extend(network.take_records(narrow));
    let at = |record: &Record| (Instant::from_ns(record.time) - zero).secs_f64();
    let queue = |record: &Record| (at(record), record.queue_bytes as f64 * wire);
    let before = records.iter().rev().find(|record| at(record) <= 0.0);
    Ok(Run {
        before: before.map_or(f64::NAN, |record| queue(record).1 / packet),
        queue: records.iter().map(queue).filter(|(at, _)| *at >= 0.0).collect(),
        arrivals: arrivals.iter().map(|at| at.secs_f64()).collect(),
    })
}

/// Advances in steps after which the work may be cancelled.
fn run_until(network: &mut Network, end: Instant, job: &Job<'_>) -> Result<(), Error> {
    while network.now() < end {
        job.check()?;
        let next = (network.now() + SLICE).min(end);
        network.run_until(next);
    }
    Ok(())
}

/// Returns the times at which the flows of a crowd arrive, since time zero.
fn arrivals(crowd: &Crowd, seed: u64) -> Vec<Duration> {
    let arrivals = crowd.arrivals.crowd().ok().flatten();
    let rng = random::generator(seed, "crowd", 0);
    arrivals.map(|arrivals| arrivals.times(crowd.arrivals.count(), rng).collect()).unwrap_or_default()
}

/// Adds the links, and returns the narrow one and what flows have in common.
fn path(network: &mut Network, study: &Crowds, crowd: &Crowd, seed: u64) -> (LinkId, TcpConfig) {
    let router = QueueSpec::Rcp(ExplicitConfig {
        alpha: Some(crowd.alpha),
        beta: Some(crowd.beta),
        raise_beta: crowd.raise_beta,
        admission: crowd.admission,
        ..ExplicitConfig::default()
    });
    let unlimited = || QueueSpec::DropTail(DropTailConfig::default()).build(None, seed);
    let mut link = |service, delay, queue| network.add_link(&LinkConfig::new(service, delay, queue));
    let access = link(Service::Unlimited, HOP, unlimited());
    let narrow = link(Service::Constant(CAPACITY), HOP, router.build(Some(CAPACITY), seed));
    let back = link(Service::Unlimited, HOP * 2, unlimited());
    let kind: Kind = "rcp:paced".parse().expect("a controller");
    let payload = study.packet.get() as u32 - HEADERS - HEADER_BYTES as u32;
    let config = TcpConfig {
        mss: payload,
        burst: Burst::Single,
        ack: AckPolicy { every: 1, timeout: RTT },
        ..TcpConfig::new(kind, vec![access, narrow], vec![back])
    };
    (narrow, config)
}

/// Returns the growth of a crowd by its closed form, at a time in s.
fn growth(crowd: &Crowd, at: f64) -> f64 {
    match crowd.arrivals.crowd() {
        Ok(Some(Arrivals::Exponential { growth, .. })) => growth,
        Ok(Some(Arrivals::Distributed(_))) => {
            closed_form(crowd).map_or(f64::NAN, |crowd| crowd.growth(Duration::from_secs_f64(at), RTT))
        }
        _ => f64::NAN,
    }
}

/// Returns a crowd with a distribution in the form of the theory.
fn closed_form(crowd: &Crowd) -> Option<explicit::Crowd> {
    let Ok(Some(Arrivals::Distributed(arrivals))) = crowd.arrivals.crowd() else { return None };
    Some(explicit::Crowd { arrivals, size: crowd.arrivals.count() as f64 / crowd.seeds as f64 })
}

/// Returns the queue in MB over time by theory: the compensation queue of constant growth, and otherwise the
/// fluid until no steady queue is as long. `None` with measures against surges, of which there is no theory.
fn theory(crowd: &Crowd, end: f64) -> Option<Vec<(f64, f64)>> {
    if crowd.raise_beta || crowd.admission {
        return None;
    }
    let bytes = |queue: f64| queue_bytes(queue, CAPACITY, RTT).get() as f64 / 1e6;
    match closed_form(crowd) {
        None => {
            let queue = bytes(Surge { beta: crowd.beta }.compensation_queue(growth(crowd, 0.0))?);
            Some(vec![(0.0, queue), (end, queue)])
        }
        Some(distributed) => {
            let flows = Flows::Crowd(distributed);
            let fluid = Fluid { alpha: crowd.alpha, beta: crowd.beta, rtt: RTT, flows };
            let solved = fluid.solve((end / RTT.secs_f64()) as u32, STEPS);
            let longest = Surge { beta: crowd.beta }.limit().queue;
            let steady = solved.per_rtt().take_while(|point| point.queue <= longest);
            Some(steady.map(|point| (point.time.secs_f64(), bytes(point.queue))).collect())
        }
    }
}

/// Adds the measures of a crowd and its row of the table.
fn evaluate(name: &str, crowd: &Crowd, runs: &[Run], end: f64, findings: &mut Findings) {
    let of = |value: &dyn Fn(&Run) -> f64| -> Vec<f64> { runs.iter().map(value).collect() };
    let spread = |values: &[f64]| largest(values.iter().copied()) - smallest(values.iter().copied());
    let before = of(&|run| run.before);
    let means = of(&|run| run.mean(end * 2.0 / 3.0, end) / 1e3);
    let peaks = of(&|run| run.peak_of_many(crowd.seeds) / 1e6);
    let early = of(&|run| largest(run.between(0.0, end)) / 1e6);
    let mut add = |what: &str, value: f64| findings.measures.insert(format!("{name}/{what}"), value);
    let middle = |values: &[f64]| quantile(&sorted(values.to_vec()), 0.5);
    add("before", largest(before.iter().copied()));
    add("mean", middle(&means));
    add("peak", middle(&peaks));
    add("peak-with-start", middle(&early));
    add("six-seconds", largest(runs.iter().flat_map(|run| run.between(0.0, 6.0))) / 1e6);
    let surge = Surge { beta: crowd.beta };
    let fastest = closed_form(crowd).map_or(growth(crowd, 0.0), |closed| closed.fastest(RTT).1);
    add("fastest", fastest);
    let mut expected = f64::NAN;
    match closed_form(crowd) {
        None => {
            let queue = surge.compensation_queue(fastest);
            expected =
                queue.map_or(f64::INFINITY, |queue| queue_bytes(queue, CAPACITY, RTT).get() as f64 / 1e3);
            add("deviation", 100.0 * (middle(&means) / expected - 1.0).abs());
        }
        Some(closed) => {
            // After growth has fallen below the limit: the longest queue then, over that at this moment.
            if let Some(above) = closed.above(surge.limit().growth, RTT) {
                let until = above.until.secs_f64();
                let later = of(&|run| largest(run.between(until, end)) / run.at(until));
                add("later", middle(&later));
            }
        }
    }
    findings.table.rows.push(vec![
        name.to_owned(),
        crowd.beta.to_string(),
        crowd.seeds.to_string(),
        format!("{fastest:.4}"),
        format!("{:.2}", middle(&before)),
        format!("{:.1}", middle(&means)),
        format!("{:.1}", spread(&means)),
        if expected.is_nan() { "none".to_owned() } else { format!("{expected:.1}") },
        format!("{:.3}", middle(&peaks)),
        format!("{:.3}", spread(&peaks)),
        format!("{:.3}", middle(&early)),
    ]);
}
