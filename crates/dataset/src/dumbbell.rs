//! A dumbbell with taps at both ends of its flows, for passive estimation (wan 4.5).

use headway_control::Kind;
use headway_estimate::measure::{Config, Method};
use headway_estimate::sabes::Segment;
use headway_host::gap::Mechanism;
use headway_host::nic::{Coalescing, Stamp};
use headway_queue::{DropTailConfig, QueueSpec};
use headway_sim::config::{Burst, Service};
use headway_sim::measurement::{Measured, MeasurementConfig, Measurements};
use headway_sim::tap::Conversion;
use headway_sim::{LinkConfig, LinkId, Network, SourceConfig, TapId, TapPlace, TcpConfig};
use headway_traffic::Traffic;
use headway_units::{Bytes, Duration, Instant, Rate};
use serde::Deserialize;

/// Wire bytes of a packet of cross traffic.
const PACKET: Bytes = Bytes::new(1538);
/// Rate of all links but the bottleneck.
const ACCESS: Rate = Rate::from_bps(1_000_000_000);
/// Shape of the on- and off-times of cross traffic, and their mean (wan 4.5).
const SHAPE: f64 = 1.9;
const MEAN_TIME: Duration = Duration::from_ms(500);
/// When a tool begins to probe: a second after the first flow.
const PROBING: Instant = Instant::from_ns(2_000_000_000);
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

/// What cross traffic is like.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Pattern {
    /// Sources that switch on and off for half a second on average, with Pareto times (wan 4.5).
    #[default]
    OnOff,
    /// Sources with Pareto gaps between their packets (wan 4.6, 4.7).
    Pareto,
    /// Packets at equal intervals.
    Cbr,
}

impl Pattern {
    /// Returns the name of all but the usual one.
    pub const fn name(self) -> Option<&'static str> {
        match self {
            Pattern::OnOff => None,
            Pattern::Pareto => Some("pareto"),
            Pattern::Cbr => Some("cbr"),
        }
    }
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
    /// What it is like.
    pub pattern: Pattern,
    /// Number of sources that make it up.
    pub sources: u32,
    /// The TCP flows, which all take the same path.
    pub flows: Vec<Flow>,
    /// The NIC of the sending host, which coalesces the interrupts of ACKs.
    pub coalescing: Option<Coalescing>,
    /// The method of a tool that probes the path from the second second on, one measurement after the other.
    pub probing: Option<Method>,
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
    pub(crate) capacity: Rate,
    /// Bytes that had left after every [`Truth::STEP`].
    left: Vec<u64>,
}

impl Truth {
    /// How often the cross traffic that has left is noted.
    pub const STEP: Duration = Duration::from_ms(1);

    /// Returns the truth about a bottleneck of this rate; `left` has the bytes of cross traffic that had left
    /// after every [`Truth::STEP`] from zero on, at least one number.
    pub fn new(capacity: Rate, left: Vec<u64>) -> Truth {
        Truth { capacity, left }
    }

    /// Returns the available bandwidth between two moments: the capacity minus the cross traffic that left
    /// the bottleneck (wan 2.10).
    pub fn between(&self, from: Instant, to: Instant) -> Rate {
        let bits = (self.at(to) - self.at(from)) * 8.0;
        let seconds = (to - from).secs_f64().max(1e-9);
        Rate::from_bps_f64(self.capacity.bps_f64() - bits / seconds)
    }

    /// Returns the bytes that had left at a moment, interpolated.
    fn at(&self, moment: Instant) -> f64 {
        let steps = moment.ns() as f64 / Self::STEP.ns() as f64;
        let last = self.left.len().saturating_sub(1);
        let before = (steps as usize).min(last);
        let after = (before + 1).min(last);
        let (low, high) = (self.left[before] as f64, self.left[after] as f64);
        low + (high - low) * (steps - before as f64).clamp(0.0, 1.0)
    }
}

/// What the taps of a flow saw, in the order of [`Flow::taps`].
pub type Seen = Vec<Vec<Segment>>;

/// What a run showed.
#[derive(Clone, Debug)]
pub struct Ran {
    /// What the taps of every flow saw.
    pub seen: Vec<Seen>,
    /// The truth.
    pub truth: Truth,
    /// The measurements of the tool that probed.
    pub measured: Vec<Measured>,
}

impl Dumbbell {
    /// Runs the network until all flows with a size are complete.
    pub fn run(&self, seed: u64) -> Ran {
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
        let probing = self.probing.map(|method| self.probing(method, &there, bottleneck));
        let mut probing = probing.map(|config| Measurements::new(&mut network, config, seed, 0));
        let mut truth = Truth { capacity: self.capacity, left: vec![0] };
        let mut seen: Vec<Seen> = self.flows.iter().map(|flow| vec![Vec::new(); flow.taps.len()]).collect();
        let mut records = Vec::new();
        let mut now = Instant::ZERO;
        while now < self.end {
            now += Truth::STEP;
            advance(&mut network, probing.as_mut(), now);
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
        let measured = probing.map_or_else(Vec::new, |probing| probing.ended().to_vec());
        Ran { seen, truth, measured }
    }

    /// Returns the cross traffic; `None` without any.
    pub fn traffic(&self) -> Option<Traffic> {
        let rate = self.capacity.scale(self.load);
        (self.load > 0.0).then(|| match self.pattern {
            Pattern::OnOff => Traffic::ParetoOnOff {
                sources: self.sources,
                peak: self.capacity.scale(2.0 * self.load / f64::from(self.sources)),
                on: MEAN_TIME,
                off: MEAN_TIME,
                shape: SHAPE,
                size: PACKET,
            },
            Pattern::Pareto => Traffic::Pareto {
                rate,
                sources: self.sources,
                shape: SHAPE,
                size: PACKET,
                least_size: None,
                silence: Duration::ZERO,
                period: Duration::ZERO,
            },
            Pattern::Cbr => Traffic::Cbr { rate, size: PACKET },
        })
    }

    /// Returns how a tool probes; its clocks are exact.
    fn probing(&self, method: Method, path: &[LinkId], bottleneck: LinkId) -> MeasurementConfig {
        MeasurementConfig {
            path: path.to_vec(),
            narrow: bottleneck,
            start: PROBING,
            every: Some(Truth::STEP),
            measure: Config {
                method,
                packet: PACKET,
                budget: None,
                gentle: false,
                duration: None,
                rtt: self.rtt,
                top_rate: ACCESS,
                train_rate: ACCESS,
            },
            model: None,
            line: ACCESS,
            mechanism: Mechanism::Exact,
            coalescing: None,
            stamp: Stamp::Nic,
        }
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
        if let Some(traffic) = self.traffic() {
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

/// Advances to `until`, and lets a tool act whenever it is its turn.
fn advance(network: &mut Network, probing: Option<&mut Measurements>, until: Instant) {
    if let Some(probing) = probing {
        while let Some(next) = probing.next().filter(|next| *next <= until) {
            network.run_until(next.max(network.now()));
            probing.poll(network);
        }
    }
    network.run_until(until);
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

#[cfg(test)]
mod tests {
    use super::*;
    use headway_estimate::MultiRate;

    fn dumbbell(pattern: Pattern, probing: Option<Method>) -> Dumbbell {
        Dumbbell {
            capacity: Rate::from_mbps(50.0),
            rtt: Duration::from_ms(20),
            queue: 300,
            load: 0.5,
            pattern,
            sources: 30,
            flows: vec![Flow::default()],
            coalescing: None,
            probing,
            end: Instant::from_ns(12_000_000_000),
        }
    }

    #[test]
    fn every_pattern_has_the_load() {
        for (pattern, within) in [(Pattern::OnOff, 10.0), (Pattern::Pareto, 5.0), (Pattern::Cbr, 1.0)] {
            let truth = dumbbell(pattern, None).run(3).truth;
            let free = truth.between(Instant::from_ns(2_000_000_000), Instant::from_ns(12_000_000_000));
            assert!((free.mbps() - 25.0).abs() < within, "{pattern:?}: {free}");
        }
    }

    #[test]
    fn a_tool_measures_again_and_again_and_is_no_cross_traffic() {
        let method = Method::MultiRate(MultiRate::ReflectedChirp);
        let Ran { truth, measured, .. } = dumbbell(Pattern::Cbr, Some(method)).run(3);
        assert!(measured.len() >= 2 && measured[0].begin >= PROBING, "{}", measured.len());
        for one in &measured {
            assert!((truth.between(one.begin, one.end).mbps() - 25.0).abs() < 0.5);
            // The flow takes what the cross traffic leaves.
            let beside = one.truth.map_or(f64::NAN, |truth| truth.free.mbps());
            assert!(beside < 15.0, "{beside}");
        }
        assert!(measured.windows(2).all(|pair| pair[1].begin >= pair[0].end));
    }
}
