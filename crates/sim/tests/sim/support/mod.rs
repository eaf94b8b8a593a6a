//! Small networks and comparisons shared by several test files.

use headway_control::{FixedWindow, Kind};
use headway_estimate::measure::{Config, Method};
use headway_host::gap::Mechanism;
use headway_host::nic::Stamp;
use headway_queue::{DropTailConfig, Queue, QueueSpec, StepConfig};
use headway_sim::config::{AckPolicy, Burst, Service};
use headway_sim::measurement::{Measured, MeasurementConfig, Measurements};
use headway_sim::{FlowId, LinkConfig, LinkId, Network, SourceConfig, TcpConfig};
use headway_traffic::Traffic;
use headway_units::{Bytes, Duration, Instant, Rate};

/// Wire bytes of a segment with 1448 bytes of payload.
pub(crate) const SEGMENT: u64 = 1538;
/// Wire bytes of an ACK without SACK blocks.
pub(crate) const ACK: u64 = 90;

/// A controller whose window stays as it is.
pub(crate) fn window(segments: u32) -> Kind {
    Kind::FixedWindow(FixedWindow::new(segments))
}

pub(crate) fn at(seconds: f64) -> Instant {
    Instant::ZERO + Duration::from_secs_f64(seconds)
}

pub(crate) fn us(us: i64) -> Instant {
    Instant::ZERO + Duration::from_us(us)
}

pub(crate) fn mbps(mbps: f64) -> Rate {
    Rate::from_mbps(mbps)
}

pub(crate) fn drop_tail(bytes: Option<u64>) -> Queue {
    QueueSpec::DropTail(DropTailConfig { limit: bytes.map(Bytes::new), packets: None }).build(None, 1)
}

pub(crate) fn step(threshold: u64) -> Queue {
    QueueSpec::Step(StepConfig { threshold: Bytes::new(threshold).into(), limit: None, packets: None })
        .build(None, 1)
}

/// A wire without a queue.
pub(crate) fn wire(delay: Duration) -> LinkConfig {
    LinkConfig::new(Service::Unlimited, delay, drop_tail(None))
}

/// A link that never drops.
pub(crate) fn link(rate: Rate, delay: Duration, queue: Queue) -> LinkConfig {
    LinkConfig::new(Service::Constant(rate), delay, queue)
}

/// A flow that starts at once, always has data, and gets an ACK for every segment.
pub(crate) fn flow(controller: Kind, forward: LinkId, reverse: LinkId) -> TcpConfig {
    let ack = AckPolicy { every: 1, timeout: Duration::from_ms(40) };
    TcpConfig {
        ack,
        burst: Burst::Single,
        linux_rounding: false,
        ..TcpConfig::new(controller, vec![forward], vec![reverse])
    }
}

pub(crate) fn segments(count: u64) -> Bytes {
    Bytes::new(count * 1448)
}

/// A source that starts at once and never stops.
pub(crate) fn source(path: LinkId, traffic: Traffic) -> SourceConfig {
    SourceConfig { path: vec![path], traffic, start: Instant::ZERO, stop: None }
}

/// A single flow over a path of two links.
pub(crate) struct Pipe {
    pub(crate) network: Network,
    pub(crate) forward: LinkId,
    pub(crate) reverse: LinkId,
    pub(crate) flow: FlowId,
}

impl Pipe {
    /// Creates a pipe over `forward` and a return wire with delay `back`; `change` adjusts the
    /// flow made by [`flow`].
    pub(crate) fn new(
        controller: Kind,
        forward: &LinkConfig,
        back: Duration,
        change: impl FnOnce(&mut TcpConfig),
    ) -> Pipe {
        let mut network = Network::new(1);
        let (forward, reverse) = (network.add_link(forward), network.add_link(&wire(back)));
        let mut config = flow(controller, forward, reverse);
        change(&mut config);
        let flow = network.add_tcp(&config);
        Pipe { network, forward, reverse, flow }
    }

    /// Runs until `seconds` and calls `look` after every `step`.
    pub(crate) fn watch(&mut self, seconds: f64, step: Duration, mut look: impl FnMut(&Pipe)) {
        let mut now = self.network.now();
        while now < at(seconds) {
            now += step;
            self.network.run_until(now);
            look(self);
        }
    }

    pub(crate) fn run(&mut self, seconds: f64) -> headway_sim::FlowStatistics {
        self.network.run_until(at(seconds));
        self.network.flow(self.flow)
    }
}

/// Fails unless `value` is within `part` of `expected`; prints both.
#[track_caller]
pub(crate) fn assert_near(what: &str, value: f64, expected: f64, part: f64) {
    let off = value / expected - 1.0;
    println!("{what}: {value:.6}, expected {expected:.6} ({:+.2} %)", off * 100.0);
    assert!(off.abs() <= part, "{what}: {value} instead of {expected} ({:+.2} %)", off * 100.0);
}

/// Measures once over a link with `cross` on it, from a sender with a line of this rate; the RTT is 20 ms.
pub(crate) fn measure_over(link: &LinkConfig, line: Rate, cross: Option<Traffic>, seed: u64) -> Measured {
    let mut network = Network::new(seed);
    let path = network.add_link(link);
    if let Some(cross) = cross {
        network.add_source(&source(path, cross));
    }
    measure_path(&mut network, &[path], line, seed)
}

/// Measures once over `path`, whose first link is the narrow one, from one second on.
pub(crate) fn measure_path(network: &mut Network, path: &[LinkId], line: Rate, seed: u64) -> Measured {
    let config = MeasurementConfig {
        path: path.to_vec(),
        narrow: path[0],
        start: Instant::from_ns(1_000_000_000),
        every: None,
        measure: Config {
            method: Method::Response,
            packet: Bytes::new(SEGMENT),
            budget: None,
            gentle: false,
            duration: None,
            rtt: Duration::from_ms(20),
            top_rate: line,
            train_rate: line,
        },
        model: None,
        line,
        mechanism: Mechanism::Exact,
        coalescing: None,
        stamp: Stamp::Driver,
    };
    let mut measurements = Measurements::new(network, config, seed, 0);
    while let Some(next) = measurements.next() {
        network.run_until(next);
        measurements.poll(network);
    }
    measurements.ended()[0].clone()
}
