//! What a scenario file may say.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use headway_core::measure::Method;
use headway_core::queue::{DropTailConfig, QueueSpec};
use headway_core::units::WIRE_OVERHEAD;
use headway_core::{Bytes, Duration, Instant, Rate};
use serde::{Deserialize, Deserializer};

use crate::controller::FlowController;
use crate::kernel_queue::KernelQueue;
use headway_host::gap::Mechanism;
use headway_host::nic::{Coalescing, Stamp};
use headway_traffic::Traffic;

/// A whole scenario.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Scenario {
    /// Name; the stem of the file when absent.
    #[serde(default)]
    pub name: String,
    /// Seed of everything random; default 1.
    #[serde(default = "default_seed")]
    pub seed: u64,
    /// How long the network runs.
    pub duration: Duration,
    /// Time at the start that the summary does not count; default 0.
    #[serde(default)]
    pub warmup: Duration,
    /// Interval of the time series and of the ground truth; default 100 ms.
    #[serde(default = "default_interval")]
    pub interval: Duration,
    /// Largest IP packet in bytes, 576 to 9000; default 1500.
    #[serde(default = "default_mtu")]
    pub mtu: u32,
    /// Hosts and routers; default: those that links name.
    #[serde(default)]
    pub nodes: Vec<String>,
    /// Links.
    #[serde(default)]
    pub link: Vec<LinkSpec>,
    /// TCP flows.
    #[serde(default)]
    pub flow: Vec<FlowSpec>,
    /// Datagrams that do not react to anything.
    #[serde(default)]
    pub traffic: Vec<TrafficSpec>,
    /// Measurements of available bandwidth.
    #[serde(default)]
    pub measure: Vec<MeasureSpec>,
    /// Programs of the host that run at nodes.
    #[serde(default)]
    pub program: Vec<ProgramSpec>,
    /// Properties of hosts, by node.
    #[serde(default)]
    pub host: BTreeMap<String, HostSpec>,
    /// The folder in which file names of the scenario are looked up.
    #[serde(skip)]
    pub folder: PathBuf,
}

/// A link between two nodes.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct LinkSpec {
    /// The node at the sending end.
    pub from: String,
    /// The node at the receiving end.
    pub to: String,
    /// Rate, counting wire bytes (IP length + 38); without it, and without a trace, packets take no time.
    pub rate: Option<Rate>,
    /// Time from the last bit's departure to its arrival; default 0.
    #[serde(default)]
    pub delay: Duration,
    /// Limit of the queue; default 100 ms at the rate, but at least 64 kB.
    pub buffer: Option<Buffer>,
    /// The queue discipline; default drop-tail.
    pub queue: Option<QueueSpec>,
    /// A queue discipline that only a kernel has, in place of `queue` and `buffer`; default none.
    pub kernel_queue: Option<KernelQueue>,
    /// Probability that a packet is lost after it has left the queue; default 0.
    #[serde(default)]
    pub loss: f64,
    /// Additional delay drawn evenly from zero to this for every packet; default 0.
    #[serde(default)]
    pub jitter: Duration,
    /// Whether jitter may let packets overtake each other; default no.
    #[serde(default)]
    pub reordering: bool,
    /// A file of opportunities to send one packet each, in milliseconds, one a line, instead of a rate.
    pub trace: Option<PathBuf>,
    /// Bucket of a token bucket that shapes to `rate`; default: every packet takes its time at `rate`.
    pub burst: Option<Bytes>,
    /// Drops at arrival what exceeds this.
    pub police: Option<Police>,
    /// Whether the same link exists in the other direction, too; default yes.
    #[serde(default = "yes")]
    pub duplex: bool,
}

/// What a policer lets pass.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Police {
    /// Long-run rate, counting wire bytes.
    pub rate: Rate,
    /// Bucket, in wire bytes.
    pub burst: Bytes,
}

/// The limit of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Buffer {
    /// In wire bytes.
    Bytes(Bytes),
    /// In packets of any size.
    Packets(u32),
}

/// A group of equal TCP flows.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct FlowSpec {
    /// Name in results; default: the controller.
    pub name: Option<String>,
    /// The sending host.
    pub from: String,
    /// The receiving host.
    pub to: String,
    /// Nodes to pass in this order; default: the path of the fewest links.
    #[serde(default)]
    pub via: Vec<String>,
    /// How many such flows there are; default 1.
    #[serde(default = "one")]
    pub count: u64,
    /// The congestion controller.
    pub controller: FlowController,
    /// When the first flow starts; default 0.
    #[serde(default)]
    pub start: Duration,
    /// Time between the starts of flows of this group; default 0.
    #[serde(default)]
    pub stagger: Duration,
    /// When the applications stop writing; default never.
    pub stop: Option<Duration>,
    /// Payload of each flow; default no end.
    pub size: Option<Bytes>,
    /// Rate at which the application writes payload; default at once.
    pub application_rate: Option<Rate>,
    /// Rate at which the receiving application reads payload; default at once.
    pub read_rate: Option<Rate>,
    /// Segments in the initial window; default 10.
    #[serde(default = "default_initial_window")]
    pub initial_window: u32,
    /// Receive buffer, in payload bytes; default 64 MB.
    #[serde(default = "default_receive_buffer")]
    pub receive_buffer: Bytes,
    /// Segments per acknowledgement; default 2.
    #[serde(default = "default_ack_every")]
    pub ack_every: u32,
    /// Longest time an acknowledgement is held back; default 40 ms.
    #[serde(default = "default_ack_timeout")]
    pub ack_timeout: Duration,
    /// ECN; default none.
    #[serde(default)]
    pub ecn: EcnMode,
    /// Whether segments are spread over the round trip; default no.
    #[serde(default)]
    pub pacing: bool,
    /// Whether the host leaves segmentation to its card, so that segments leave in bursts; default yes.
    #[serde(default = "yes")]
    pub offload: bool,
}

/// ECN as scenario files name it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum EcnMode {
    /// No ECN.
    #[default]
    Off,
    /// RFC 3168.
    Classic,
    /// RFC 8257.
    Dctcp,
}

/// A source of datagrams.
#[derive(Clone, Debug, Deserialize)]
pub struct TrafficSpec {
    /// The sending host.
    pub from: String,
    /// The receiving host.
    pub to: String,
    /// Nodes to pass in this order; default: the path of the fewest links.
    #[serde(default)]
    pub via: Vec<String>,
    /// When it starts; default 0.
    #[serde(default)]
    pub start: Duration,
    /// When it stops; default never.
    pub stop: Option<Duration>,
    /// When packets leave and how large they are: `model` and its keys.
    #[serde(flatten)]
    pub traffic: Traffic,
}

/// A measurement of available bandwidth, by the algorithm that `headway measure` runs on live paths.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct MeasureSpec {
    /// The host that sends the probes.
    pub from: String,
    /// The host that receives them.
    pub to: String,
    /// Nodes to pass in this order; default: the path of the fewest links.
    #[serde(default)]
    pub via: Vec<String>,
    /// The estimator; default `response`.
    #[serde(default, deserialize_with = "method")]
    pub method: Method,
    /// When the first measurement begins; default 0.
    #[serde(default)]
    pub start: Duration,
    /// Time from the begin of one measurement to that of the next; default: there is only one.
    pub every: Option<Duration>,
    /// Probe size on the wire; default that of a full packet.
    pub packet: Option<Bytes>,
    /// Bytes on the wire that one measurement may spend; default: the method decides.
    pub budget: Option<Bytes>,
    /// Whether to take more time and answer with wider intervals where others would be harmed; default no.
    #[serde(default)]
    pub gentle: bool,
    /// Rate of the sender's own line; default four times the narrowest link of the path.
    pub line: Option<Rate>,
    /// How the sender makes gaps; default exact.
    #[serde(default = "exact")]
    pub gaps: Mechanism,
    /// Where the receiver takes its stamps; default in the driver.
    #[serde(default = "driver")]
    pub stamp: Stamp,
}

/// A program of the host that runs at a node, where the network is a kernel's.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct ProgramSpec {
    /// The node.
    pub at: String,
    /// What `/bin/sh -c` runs there.
    pub command: String,
    /// When it starts; default 0.
    #[serde(default)]
    pub start: Duration,
    /// When it is ended; default with the run.
    pub stop: Option<Duration>,
    /// The congestion controller of sockets at this node that choose none; default the kernel's.
    pub controller: Option<FlowController>,
}

/// Properties of a host.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct HostSpec {
    /// Interrupt coalescing of its network card; default none.
    pub coalescing: Option<Coalescing>,
}

fn default_seed() -> u64 {
    1
}

fn default_interval() -> Duration {
    Duration::from_ms(100)
}

fn default_mtu() -> u32 {
    1500
}

fn default_initial_window() -> u32 {
    // RFC 6928.
    10
}

fn default_receive_buffer() -> Bytes {
    Bytes::new(64_000_000)
}

fn default_ack_every() -> u32 {
    2
}

fn default_ack_timeout() -> Duration {
    // Linux's least delayed-acknowledgement timer.
    Duration::from_ms(40)
}

fn exact() -> Mechanism {
    Mechanism::Exact
}

fn driver() -> Stamp {
    Stamp::Driver
}

fn method<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Method, D::Error> {
    String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
}

fn one() -> u64 {
    1
}

fn yes() -> bool {
    true
}

impl Scenario {
    /// How many TCP flows there are.
    pub fn flow_count(&self) -> u64 {
        self.flow.iter().fold(0, |sum, flow| flow.count.saturating_add(sum))
    }

    /// Payload bytes of a full segment: the MTU without 20 bytes of IP, 20 of TCP and 12 of the timestamp option.
    pub fn mss(&self) -> u32 {
        self.mtu - 52
    }
}

impl LinkSpec {
    /// The limit of the queue with its default: 100 ms at `rate` and at least 64 kB, as in the lab.
    pub fn buffer_at(&self, rate: Rate) -> Buffer {
        let depth = rate.bytes_in(Duration::from_ms(100)).max(Bytes::new(64_000));
        self.buffer.unwrap_or(Buffer::Bytes(depth))
    }

    /// The discipline with its limit, served at `rate` or without taking time.
    pub fn queue_spec(&self, rate: Option<Rate>) -> QueueSpec {
        let (limit, packets) = match rate.map(|rate| self.buffer_at(rate)).or(self.buffer) {
            Some(Buffer::Bytes(bytes)) => (Some(bytes), None),
            Some(Buffer::Packets(packets)) => (None, Some(packets)),
            None => (None, None),
        };
        match &self.queue {
            None => QueueSpec::DropTail(DropTailConfig { limit, packets }),
            Some(queue) => queue.clone().or_limits(limit, packets),
        }
    }
}

impl FlowSpec {
    /// When flow number `index` of the group starts.
    pub fn starts(&self, index: u64) -> Instant {
        Instant::ZERO + self.start + self.stagger * i64::try_from(index).unwrap_or(i64::MAX)
    }

    /// The name of the group in results.
    pub fn label(&self) -> String {
        self.name.clone().unwrap_or_else(|| self.controller.to_string())
    }
}

impl Buffer {
    /// About how many wire bytes fit, with full packets of `mtu` IP bytes.
    pub fn bytes(self, mtu: u32) -> Bytes {
        match self {
            Buffer::Bytes(bytes) => bytes,
            Buffer::Packets(packets) => (Bytes::new(u64::from(mtu)) + WIRE_OVERHEAD) * u64::from(packets),
        }
    }
}

impl fmt::Display for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Buffer::Bytes(bytes) => bytes.fmt(f),
            Buffer::Packets(packets) => f.pad(&format!("{packets} packets")),
        }
    }
}

impl FromStr for Buffer {
    type Err = String;

    /// Reads `250 kB` or `100 packets`.
    fn from_str(text: &str) -> Result<Buffer, String> {
        let packets = text.trim().strip_suffix("packets").or_else(|| text.trim().strip_suffix("packet"));
        let wrong = || format!("`{text}` is not a buffer such as `250 kB` or `100 packets`");
        match packets {
            Some(count) => count.trim().parse().map(Buffer::Packets).map_err(|_| wrong()),
            None => text.parse().map(Buffer::Bytes).map_err(|_| wrong()),
        }
    }
}

impl<'de> Deserialize<'de> for Buffer {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Buffer, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}
