//! Procedure P: four flows start 10 s apart at a narrow link, and last 60 s each (xcp-rcp 4).
//!
//! The seed of a run draws the offsets of the flows' starts, the first expiries of the router's timers, and capacities
//! and losses where the variant has any. Capacities and offsets are the same for all variants of a seed.

mod curves;
mod numbers;
#[cfg(test)]
mod tests;

use headway_core::explicit::Record;
use headway_core::queue::{DropTailConfig, QueueSpec};
use headway_core::units::WIRE_OVERHEAD;
use headway_core::{Bytes, Duration, Instant, Rate, RateSteps};
use headway_sim::config::Service;
use headway_sim::{FlowId, LinkConfig, LinkId, Network, TcpConfig};
use headway_traffic::random;
use rand::RngExt as _;

use crate::experiment::{Redrawn, Router};

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
#[derive(Clone, Debug, Default)]
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
#[derive(Clone, Debug, Default)]
pub(crate) struct Trace {
    /// Start and end of every flow, in s.
    pub(crate) flows: Vec<(f64, f64)>,
    /// IP bytes that wait, once in every step.
    queue: Vec<u64>,
    /// Window over smoothed RTT of every flow, Mb/s of wire bytes, once in every step; zero while it does not send.
    rates: Vec<[f64; FLOWS]>,
    pub(crate) intervals: Vec<Interval>,
    /// Control intervals of the router; none if it has no law.
    pub(crate) records: Vec<Record>,
    /// Alpha of ErrorS; NaN for other laws.
    pub(crate) alpha: f64,
    /// Whether the law aims at a queue: kappa.
    pub(crate) has_target: bool,
}

/// A network and its state while it runs.
struct Bench {
    network: Network,
    narrow: LinkId,
    flows: Vec<FlowId>,
    capacity: RateSteps,
}

/// Runs a variant.
pub(crate) fn run(variant: &Router, seed: u64) -> Trace {
    let mut bench = Bench::new(variant, seed);
    let mut trace = Trace {
        flows: times(seed),
        alpha: variant.queue.explicit().map_or(f64::NAN, |(law, config)| config.alpha(law)),
        has_target: variant.queue.explicit().is_some_and(|(law, _)| !law.needs_capacity()),
        ..Trace::default()
    };
    let mut now = Instant::ZERO;
    while now < Instant::ZERO + END {
        for _ in 0..STEPS {
            now += STEP;
            bench.network.run_until(now);
            trace.queue.push(bench.waiting());
            trace.rates.push(bench.rates(&trace.flows, now));
        }
        trace.intervals.push(bench.count(now));
    }
    trace.records = bench.network.take_records(bench.narrow);
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
fn capacities(redrawn: Option<Redrawn>, seed: u64) -> RateSteps {
    let Some(Redrawn { least, every }) = redrawn else { return RateSteps::constant(CAPACITY) };
    let mut random = random::generator(seed, "capacities", 0);
    let steps = END.ns() / every.ns().max(1) + 1;
    let draw = |step| (every * step, CAPACITY.scale(random.random_range(least..=1.0)));
    let list: Vec<(Duration, Rate)> = (0..steps).map(draw).collect();
    RateSteps::try_from(list).expect("ascending times and no rate of zero")
}

impl Bench {
    fn new(variant: &Router, seed: u64) -> Bench {
        let mut network = Network::new(seed);
        let capacity = capacities(variant.redrawn, seed);
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
        let mss = if variant.controller.is_explicit() { EXPLICIT_MSS } else { MSS };
        let at = |s: f64| Instant::ZERO + Duration::from_secs_f64(s);
        let config = TcpConfig { mss, ..TcpConfig::new(variant.controller, vec![first, narrow], vec![back]) };
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
    fn rates(&self, times: &[(f64, f64)], now: Instant) -> [f64; FLOWS] {
        let now = (now - Instant::ZERO).secs_f64();
        std::array::from_fn(|index| {
            let flow = self.network.flow(self.flows[index]);
            let (start, stop) = times[index];
            let srtt = flow.srtt.filter(|_| (start..stop).contains(&now));
            srtt.map_or(0.0, |srtt| flow.window * PACKET_BITS * 1e-6 / srtt.secs_f64())
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
