//! A dumbbell with taps at both ends of its flows, for passive estimation (wan 4.5).

use headway_control::Kind;
use headway_estimate::sabes::Segment;
use headway_host::nic::Coalescing;
use headway_queue::{DropTailConfig, QueueSpec};
use headway_sim::config::{Burst, Service};
use headway_sim::tap::Conversion;
use headway_sim::{LinkConfig, LinkId, Network, SourceConfig, TapId, TapPlace, TcpConfig};
use headway_traffic::Traffic;
use headway_units::{Bytes, Duration, Instant, Rate};

/// Wire bytes of a packet of cross traffic.
const PACKET: Bytes = Bytes::new(1538);
/// Rate of all links but the bottleneck.
const ACCESS: Rate = Rate::from_bps(1_000_000_000);
/// Shape of the on- and off-times of cross traffic, and their mean (wan 4.5).
const SHAPE: f64 = 1.9;
const MEAN_TIME: Duration = Duration::from_ms(500);
/// How often the cross traffic that has left the bottleneck is noted.
const STEP: Duration = Duration::from_ms(1);
/// The sequence number of the first byte of every flow, so that numbers of longer ones wrap.
const FIRST: u32 = u32::MAX - 1_000_000;

/// Where a flow is tapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// At the sending host, where software stamps ACKs.
    Sender,
    /// At the sending host, where its NIC stamps ACKs.
    SenderCard,
    /// At the receiving host.
    Receiver,
}

/// A dumbbell: hosts with links of 1 Gb/s around a bottleneck.
#[derive(Clone, Debug)]
pub struct Dumbbell {
    /// Rate of the bottleneck.
    pub capacity: Rate,
    /// RTT without queues.
    pub rtt: Duration,
    /// Packets that the queue of the bottleneck holds.
    pub queue: u64,
    /// Mean cross traffic, as a share of the capacity.
    pub load: f64,
    /// Number of on-off sources that make up the cross traffic.
    pub sources: u32,
    /// The TCP flows, which all take the same path.
    pub flows: Vec<Flow>,
    /// The NIC of the sending host, which coalesces the interrupts of ACKs.
    pub coalescing: Option<Coalescing>,
    /// The end of the run, at the latest.
    pub end: Instant,
}

/// A TCP flow through a dumbbell.
#[derive(Clone, Debug)]
pub struct Flow {
    /// The congestion controller.
    pub controller: Kind,
    /// When its first segment is sent.
    pub start: Instant,
    /// Payload; unlimited if `None`.
    pub size: Option<Bytes>,
    /// How many segments the sender sends back to back.
    pub burst: Burst,
    /// Rate at which the application writes payload; unlimited if `None`.
    pub application_rate: Option<Rate>,
    /// Rate at which the receiver reads payload; unlimited if `None`.
    pub read_rate: Option<Rate>,
    /// Largest window that the receiver advertises.
    pub receive_buffer: Bytes,
    /// Where it is tapped.
    pub taps: Vec<End>,
}

impl Default for Flow {
    /// Returns a Reno flow that always has data to send, without offloads, tapped at the sender (wan 4.5).
    fn default() -> Flow {
        Flow {
            controller: Kind::Reno,
            start: Instant::from_ns(1_000_000_000),
            size: None,
            burst: Burst::Single,
            application_rate: None,
            read_rate: None,
            receive_buffer: Bytes::new(1 << 26),
            taps: vec![End::Sender],
        }
    }
}

/// The cross traffic that left a bottleneck.
#[derive(Clone, Debug)]
pub struct Truth {
    capacity: Rate,
    /// Bytes that had left after every [`STEP`].
    left: Vec<u64>,
}

impl Truth {
    /// Returns the available bandwidth between two moments: the capacity minus the cross traffic that left the
    /// bottleneck (wan 2.10).
    pub fn between(&self, from: Instant, to: Instant) -> Rate {
        let bits = (self.at(to) - self.at(from)) * 8.0;
        let seconds = (to - from).secs_f64().max(1e-9);
        Rate::from_bps_f64(self.capacity.bps_f64() - bits / seconds)
    }

    /// Returns the bytes that had left at a moment, interpolated.
    fn at(&self, moment: Instant) -> f64 {
        let steps = moment.ns() as f64 / STEP.ns() as f64;
        let last = self.left.len() - 1;
        let before = (steps as usize).min(last);
        let after = (before + 1).min(last);
        let (low, high) = (self.left[before] as f64, self.left[after] as f64);
        low + (high - low) * (steps - before as f64).clamp(0.0, 1.0)
    }
}

/// What the taps of a flow saw, in the order of [`Flow::taps`].
pub type Seen = Vec<Vec<Segment>>;

impl Dumbbell {
    /// Runs the network until all flows with a size are complete; returns what the taps of every flow saw, and the
    /// truth.
    pub fn run(&self, seed: u64) -> (Vec<Seen>, Truth) {
        let mut network = Network::new(seed);
        let (there, bottleneck, back) = self.links(&mut network);
        let nic = self.coalescing.map(|coalescing| network.add_nic(coalescing));
        let mut flows = Vec::new();
        for flow in &self.flows {
            let taps: Vec<(TapId, TapPlace)> =
                flow.taps.iter().map(|end| (network.add_tap(), end.place())).collect();
            let config =
                TcpConfig { ack_nic: nic, taps: taps.clone(), ..flow.config(there.to_vec(), back.to_vec()) };
            flows.push((network.add_tcp(&config), Conversion::new(&config, FIRST), taps));
        }
        let mut truth = Truth { capacity: self.capacity, left: vec![0] };
        let mut seen: Vec<Seen> = self.flows.iter().map(|flow| vec![Vec::new(); flow.taps.len()]).collect();
        let mut records = Vec::new();
        let mut now = Instant::ZERO;
        while now < self.end {
            now += STEP;
            network.run_until(now);
            truth.left.push(network.link(bottleneck).statistics().served_other.bytes.get());
            for ((_, conversion, taps), seen) in flows.iter().zip(&mut seen) {
                for ((tap, _), seen) in taps.iter().zip(seen) {
                    network.take_tap_records(*tap, &mut records);
                    seen.extend(records.drain(..).map(|record| conversion.segment(&record)));
                }
            }
            let is_over = |id| network.flow(id).finished.is_some();
            if now.ns().is_multiple_of(100_000_000) && flows.iter().all(|(id, ..)| is_over(*id)) {
                break;
            }
        }
        (seen, truth)
    }

    /// Adds the links; returns those of the forward path, the bottleneck, and those of the reverse path.
    fn links(&self, network: &mut Network) -> ([LinkId; 3], LinkId, [LinkId; 1]) {
        let queue = |packets| {
            QueueSpec::DropTail(DropTailConfig { limit: None, packets }).build(Some(self.capacity), 1)
        };
        let mut add = |rate, delay: Duration, packets| {
            network.add_link(&LinkConfig::new(Service::Constant(rate), delay, queue(packets)))
        };
        let near = self.rtt / 20;
        let access = add(ACCESS, near, None);
        let bottleneck = add(self.capacity, self.rtt / 2 - near * 2, Some(self.queue as u32));
        let last = add(ACCESS, near, None);
        let back = add(ACCESS, self.rtt / 2, None);
        if self.load > 0.0 {
            let peak = self.capacity.scale(2.0 * self.load / f64::from(self.sources));
            let traffic = Traffic::ParetoOnOff {
                sources: self.sources,
                peak,
                on: MEAN_TIME,
                off: MEAN_TIME,
                shape: SHAPE,
                size: PACKET,
            };
            network.add_source(&SourceConfig {
                path: vec![bottleneck],
                traffic,
                start: Instant::ZERO,
                stop: None,
            });
        }
        ([access, bottleneck, last], bottleneck, [back])
    }
}

impl End {
    fn place(self) -> TapPlace {
        match self {
            End::Sender => TapPlace::Sender,
            End::SenderCard => TapPlace::SenderNic,
            End::Receiver => TapPlace::Receiver,
        }
    }
}

impl Flow {
    fn config(&self, forward: Vec<LinkId>, reverse: Vec<LinkId>) -> TcpConfig {
        TcpConfig {
            start: self.start,
            size: self.size,
            burst: self.burst,
            application_rate: self.application_rate,
            read_rate: self.read_rate,
            receive_buffer: self.receive_buffer,
            ..TcpConfig::new(self.controller, forward, reverse)
        }
    }
}
