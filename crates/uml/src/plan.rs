//! What a guest has to do: made on the host, read in the guest.

use std::net::Ipv4Addr;
use std::path::PathBuf;

use headway_core::{Duration, Rate};
use headway_traffic::Traffic;
use serde::{Deserialize, Serialize};

/// A run in the guest. Times count from time zero of the scenario.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// The host's folder for plan, report and captures.
    pub folder: PathBuf,
    /// Compiled kernel modules to be loaded.
    pub modules: Vec<PathBuf>,
    /// Network namespaces.
    pub nodes: Vec<PlannedNode>,
    /// Lines for `ip -batch` that wire the namespaces up, before anything else.
    pub wires: Vec<String>,
    /// Directions of links, in the order of the scenario.
    pub directions: Vec<PlannedDirection>,
    /// TCP flows, in the order of the scenario.
    pub flows: Vec<PlannedFlow>,
    /// Sources of datagrams, in the order of the scenario.
    pub sources: Vec<PlannedSource>,
    /// Programs, in the order of the scenario.
    pub programs: Vec<PlannedProgram>,
    /// Addresses of nodes with their names, as programs find them; empty without programs.
    pub hosts: Vec<(Ipv4Addr, String)>,
    /// The most that a sender's socket may hold, in bytes as the kernel counts them.
    pub send_buffer: u64,
    /// From the first opening of connections to time zero.
    pub lead: Duration,
    /// When counters start to count.
    pub warmup: Duration,
    /// When counters are looked at, ascending; the last ends the run.
    pub looks: Vec<Duration>,
    /// Whether segmentation and receive offloads stay on.
    pub offloads: bool,
}

/// A network namespace.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PlannedNode {
    /// Name of the namespace.
    pub name: String,
    /// Lines for `ip -batch` within it: addresses and routes.
    pub ip: Vec<String>,
    /// Lines for `tc -batch` within it: disciplines.
    pub tc: Vec<String>,
    /// RED disciplines, which `tc` cannot express.
    pub red: Vec<PlannedRed>,
    /// Network devices.
    pub devices: Vec<String>,
    /// Congestion control of sockets that choose none; `None` for the kernel's own.
    pub controller: Option<String>,
}

/// RED, by the average queue or by the queue as it is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PlannedRed {
    /// The device.
    pub device: String,
    /// Handles, such as `0x20_0001`, of the parent class and of the discipline.
    pub parent: u32,
    /// See `parent`.
    pub handle: u32,
    /// Room, and the thresholds between which the probability of a mark rises, in bytes.
    pub limit: u32,
    /// See `limit`.
    pub min: u32,
    /// See `limit`.
    pub max: u32,
    /// Probability of a mark just below `max`.
    pub probability: f64,
    /// Weight of a packet in the average, as a negative power of two; zero judges by the queue as it is.
    pub weight_log: u8,
    /// Whether the probability follows the average.
    pub adaptive: bool,
    /// Whether packets that can be marked are, and not dropped.
    pub ecn: bool,
}

/// A direction of a link.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PlannedDirection {
    /// Number of the node whose device sends into it.
    pub node: usize,
    /// That device.
    pub device: String,
    /// Time between entering and leaving when nothing is queued; `None` where nothing ever is.
    pub fixed: Option<Duration>,
    /// Node and device that lose packets at random.
    pub random: Option<(usize, String)>,
    /// Whether its packets are captured, and under which file name.
    pub capture: Option<String>,
}

/// A TCP flow.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PlannedFlow {
    /// Numbers of the nodes.
    pub from: usize,
    /// See `from`.
    pub to: usize,
    /// Addresses of the two ends.
    pub source: Ipv4Addr,
    /// See `source`.
    pub destination: Ipv4Addr,
    /// Congestion control of the sender.
    pub controller: String,
    /// The one that both ends have while the connection is opened; the receiver keeps it, and with it the way of echoing marks.
    pub opening: String,
    /// When its connection is to be open; it is opened [`Plan::lead`] before.
    pub open: Duration,
    /// When it starts to send.
    pub start: Duration,
    /// When the application stops writing.
    pub stop: Option<Duration>,
    /// Payload bytes; absent for no end.
    pub size: Option<u64>,
    /// Rate at which the application writes.
    pub application_rate: Option<Rate>,
    /// Rate at which the receiver reads.
    pub read_rate: Option<Rate>,
    /// Receive buffer in payload bytes.
    pub receive_buffer: u64,
    /// Whether the kernel spreads segments over the round trip.
    pub pacing: bool,
    /// Parameters of the module that has the controller, as file and value, to be set before it is chosen, which
    /// is when the flow starts.
    pub parameters: Vec<(PathBuf, String)>,
}

/// A source of datagrams.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PlannedSource {
    /// The namespace it sends from, and the one that counts what arrives.
    pub from: usize,
    /// See `from`.
    pub to: usize,
    /// Addresses of the two ends.
    pub source: Ipv4Addr,
    /// See `source`.
    pub destination: Ipv4Addr,
    /// The device at which arrivals are counted.
    pub sink: String,
    /// When it starts.
    pub start: Duration,
    /// When it stops.
    pub stop: Option<Duration>,
    /// What it sends.
    pub traffic: Traffic,
    /// Seed and number of its random choices, as in the simulator.
    pub seed: u64,
    /// See `seed`.
    pub number: u64,
}

/// A program of the host.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PlannedProgram {
    /// Number of the node at which it runs.
    pub node: usize,
    /// What that node calls itself.
    pub host: String,
    /// What the shell runs.
    pub command: String,
    /// The host's folder in which it starts.
    pub directory: PathBuf,
    /// When it starts.
    pub start: Duration,
    /// When it is ended.
    pub stop: Duration,
}

impl PlannedProgram {
    /// Names of the files in the plan's folder that receive what program `number` prints, and its errors.
    pub fn outputs(number: usize) -> [String; 2] {
        ["out", "err"].map(|kind| format!("program-{number}.{kind}"))
    }
}
