//! Procedure P: four flows start 10 s apart at a narrow link, and last 60 s each (xcp-rcp 4).
//!
//! The seed of a run draws the offsets of the flows' starts, the first expiries of the router's
//! timers, and capacities and losses where the variant has any. Capacities and offsets are the same
//! for all variants of a seed.

mod curves;
mod numbers;
mod scenario;
#[cfg(test)]
mod tests;

use headway_queue::{DropTailConfig, QueueSpec};
use headway_record::ControlInterval;
use headway_sim::config::{AckPolicy, Burst, Service};
use headway_sim::{FlowId, LinkConfig, LinkId, Network, TcpConfig};
use headway_traffic::random;
use headway_units::WIRE_OVERHEAD;
use headway_units::{Bytes, Duration, Instant, Rate, RateSteps};
use rand::RngExt as _;
use serde::{Deserialize, Serialize};

use crate::closed_loop::segments_per_ack;
use crate::study::Router;

pub(crate) use scenario::run_in;

/// Name of the narrow link.
const NARROW: &str = "narrow";
/// The narrow link, and all others.
pub(crate) const CAPACITY: Rate = Rate::from_bps(1_500_000);
const ACCESS: Rate = Rate::from_bps(100_000_000);
/// RTT without queues: a quarter before the router, a quarter behind it, half on the way back.
pub(crate) const RTT: Duration = Duration::from_ms(100);
/// Number of flows, time between their starts, and how long each lasts.
pub(crate) const FLOWS: usize = 4;
const STAGGER: Duration = Duration::from_ms(10_000);
const LIFE: Duration = Duration::from_ms(60_000);
/// The run goes on for a while without flows.
pub(crate) const END: Duration = Duration::from_ms(95_000);
/// How often the queue is looked at: twice in the time that a packet takes.
const STEP: Duration = Duration::from_ms(4);
/// Steps in an interval of the averages: 100 ms, as in the thesis (xcp-rcp G16).
const STEPS: usize = 25;
/// Intervals of averages in a second.
pub(crate) const PER_SECOND: usize = 10;
/// Payload of full segments of 1500 B with timestamps, with a congestion header and without.
const EXPLICIT_MSS: u32 = 1428;
const MSS: u32 = 1448;
/// Bits of such a segment on the wire.
const PACKET_BITS: f64 = 1538.0 * 8.0;
/// When the last packet is sent: routers run the timers that fell due when packets come.
pub(crate) const LAST: Duration = Duration::from_ms(94_000);

/// What was seen in an interval of 100 ms.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Interval {
    /// Payload bytes of every flow that have arrived in order by the end.
    pub(crate) delivered: [u64; FLOWS],
    /// Wire bytes that have left the narrow link by the end, and that could have.
    pub(crate) left: u64,
    pub(crate) possible: u64,
    /// Packets that the narrow link has dropped by the end.
    pub(crate) dropped: u64,
}

/// One run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Trace {
    /// Start and end of every flow, in s.
    pub(crate) flows: Vec<(f64, f64)>,
    /// Length of a step.
    step: Duration,
    /// IP bytes that wait, once in every step.
    queue: Vec<u64>,
    /// Window over smoothed RTT of every flow, Mb/s of wire bytes, once in every step; zero
    /// while it does not send.
    rates: Vec<[f64; FLOWS]>,
    pub(crate) intervals: Vec<Interval>,
    /// Control intervals of the router; none if it has no law.
    pub(crate) records: Vec<ControlInterval>,
    /// Alpha of ErrorS; NaN for other laws.
    #[serde(skip)]
    pub(crate) alpha: f64,
    /// Whether the law aims at a queue: kappa.
    #[serde(skip)]
    pub(crate) has_target: bool,
}

/// A network and its state while it runs.
struct Bench {
    network: Network,
    narrow: LinkId,
    flows: Vec<FlowId>,
    capacity: RateSteps,
}

impl Trace {
    /// Returns the trace of a run that has not begun.
    fn new(variant: &Router, seed: u64, step: Duration) -> Trace {
        let trace = Trace {
            flows: times(seed),
            step,
            queue: Vec::new(),
            rates: Vec::new(),
            intervals: Vec::new(),
            records: Vec::new(),
            alpha: f64::NAN,
            has_target: false,
        };
        trace.with_law(variant)
    }

    /// Adds what the law of a variant says.
    fn with_law(self, variant: &Router) -> Trace {
        let law = variant.queue.explicit();
        Trace {
            alpha: law.map_or(f64::NAN, |(law, config)| config.alpha(law)),
            has_target: law.is_some_and(|(law, _)| !law.needs_capacity()),
            ..self
        }
    }

    /// Whether a flow sends at a time.
    fn sends(&self, flow: usize, now: Duration) -> bool {
        let (start, stop) = self.flows[flow];
        (start..stop).contains(&now.secs_f64())
    }
}

/// Returns window over smoothed RTT, Mb/s of wire bytes.
fn mbps(window: f64, srtt: Duration) -> f64 {
    window * PACKET_BITS * 1e-6 / srtt.secs_f64()
}

/// Runs a variant in the simulator.
pub(crate) fn run(variant: &Router, seed: u64) -> Trace {
    let mut bench = Bench::new(variant, seed);
    let mut trace = Trace::new(variant, seed, STEP);
    let mut now = Instant::ZERO;
    while now < Instant::ZERO + END {
        for _ in 0..STEPS {
            now += STEP;
            bench.network.run_until(now);
            trace.queue.push(bench.waiting());
            trace.rates.push(bench.rates(&trace, now));
        }
        trace.intervals.push(bench.count(now));
    }
    let records = bench.network.take_records(bench.narrow);
    trace.records = records.iter().map(|record| ControlInterval::new(NARROW, record)).collect();
    trace
}

/// Returns start and end of every flow in s; the seed shifts each by up to one RTT.
fn times(seed: u64) -> Vec<(f64, f64)> {
    let mut random = random::generator(seed, "starts", 0);
    let mut start = |number: usize| {
        let shift = RTT.scale(random.random::<f64>());
        let start = STAGGER * number as i64 + shift;
        (start.secs_f64(), (start + LIFE).secs_f64())
    };
    (0..FLOWS).map(&mut start).collect()
}

/// Returns the capacity over time.
fn capacities(variant: &Router, seed: u64) -> RateSteps {
    let redrawn = variant.redrawn.map(|redrawn| redrawn.rates(CAPACITY, END, seed, 0));
    let rates = redrawn.unwrap_or_else(|| RateSteps::constant(CAPACITY));
    match &variant.outages {
        Some(outages) => outages.apply(&rates, END),
        None => rates,
    }
}

impl Bench {
    fn new(variant: &Router, seed: u64) -> Bench {
        let mut network = Network::new(seed);
        let capacity = capacities(variant, seed);
        let wide = QueueSpec::DropTail(DropTailConfig { limit: None, packets: None });
        let mut access = |delay| {
            let queue = wide.build(Some(ACCESS), seed);
            network.add_link(&LinkConfig::new(Service::Constant(ACCESS), delay, queue))
        };
        let (first, back) = (access(RTT / 4), access(RTT / 2));
        // The router believes in the full capacity, unless its parameters say otherwise.
        let queue = variant.queue.build(Some(variant.line.unwrap_or(CAPACITY)), seed);
        let link = LinkConfig::new(Service::Steps(capacity.clone()), RTT / 4, queue);
        let narrow = network.add_link(&LinkConfig { loss: variant.loss, ..link });
        network.keep_records(narrow);
        // A NIC that segments would repeat one congestion header in all segments.
        let is_explicit = variant.controller.is_explicit();
        let (mss, burst) = if is_explicit { (EXPLICIT_MSS, Burst::Single) } else { (MSS, Burst::Host) };
        let config = TcpConfig::new(variant.controller, vec![first, narrow], vec![back]);
        let ack = AckPolicy { every: segments_per_ack(is_explicit), ..config.ack };
        let config = TcpConfig { mss, burst, ack, ..config };
        let at = |s: f64| Instant::ZERO + Duration::from_secs_f64(s);
        let flows = times(seed).into_iter().enumerate().map(|(number, (start, stop))| {
            let application_rate = variant.application.filter(|_| number == 0);
            let (start, stop) = (at(start), Some(at(stop)));
            network.add_tcp(&TcpConfig { start, stop, application_rate, ..config.clone() })
        });
        let flows = flows.collect();
        network.add_tcp(&TcpConfig { start: Instant::ZERO + LAST, size: Some(Bytes::new(1)), ..config });
        Bench { network, narrow, flows, capacity }
    }

    /// Returns the IP bytes that wait, without the packet in transmission.
    fn waiting(&self) -> u64 {
        let queued = self.network.link(self.narrow).queued();
        let ip = queued.bytes.get() - queued.packets * WIRE_OVERHEAD.get();
        ip - ip.checked_div(queued.packets).unwrap_or(0)
    }

    /// Returns window over smoothed RTT of every flow.
    fn rates(&self, trace: &Trace, now: Instant) -> [f64; FLOWS] {
        std::array::from_fn(|index| {
            let flow = self.network.flow(self.flows[index]);
            let srtt = flow.srtt.filter(|_| trace.sends(index, now - Instant::ZERO));
            srtt.map_or(0.0, |srtt| mbps(flow.window, srtt))
        })
    }

    fn count(&self, now: Instant) -> Interval {
        let statistics = self.network.link(self.narrow).statistics();
        Interval {
            delivered: std::array::from_fn(|flow| self.network.flow(self.flows[flow]).goodput.get()),
            left: statistics.delivered.bytes.get() + statistics.lost.bytes.get(),
            possible: self.capacity.bytes_between(Instant::ZERO, now).get(),
            dropped: statistics.dropped.packets,
        }
    }
}
