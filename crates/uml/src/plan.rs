//! The plan of a run: written by the host, read by the guest.

use std::net::Ipv4Addr;
use std::path::PathBuf;

use headway_scenario::MiddleboxPlan;
use headway_traffic::Traffic;
use headway_units::{Bytes, Duration, Rate};
use serde::{Deserialize, Serialize};

/// A run in the guest. Times count from time zero of the scenario.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// The host's folder for plan, report and captures.
    pub folder: PathBuf,
    /// Compiled kernel modules to load.
    pub modules: Vec<PathBuf>,
    /// Network namespaces.
    pub nodes: Vec<PlannedNode>,
    /// Lines for `ip -batch` that connect the namespaces; run first.
    pub wires: Vec<String>,
    /// Directions of links, in the order of the scenario.
    pub directions: Vec<PlannedDirection>,
    /// TCP flows, in the order of the scenario.
    pub flows: Vec<PlannedFlow>,
    /// Sources of datagrams, in the order of the scenario.
    pub sources: Vec<PlannedSource>,
    /// Programs, in the order of the scenario.
    pub programs: Vec<PlannedProgram>,
    /// Middleboxes, in the order of the scenario.
    pub middleboxes: Vec<PlannedMiddlebox>,
    /// Arguments with which the guest's program is a middlebox.
    pub middlebox_arguments: Vec<String>,
    /// Addresses and names of nodes, for programs; empty if there are none.
    pub hosts: Vec<(Ipv4Addr, String)>,
    /// Send buffer of a socket, in bytes as the kernel counts them.
    pub send_buffer: u64,
    /// Time from opening the first connections to time zero.
    pub lead: Duration,
    /// When counters start.
    pub warmup: Duration,
    /// Times at which counters are read, ascending; the last one ends the run.
    pub looks: Vec<Duration>,
    /// Whether segmentation and receive offloads stay on.
    pub offloads: bool,
}

impl Plan {
    /// Name of the file in the plan's folder with what has left over each line that PAUSE frames fill.
    pub const LINES: &str = "lines.csv";
}

/// A network namespace.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PlannedNode {
    /// Name of the namespace.
    pub name: String,
    /// Lines for `ip -batch` in the namespace: addresses and routes.
    pub ip: Vec<String>,
    /// Lines for `tc -batch` in the namespace: queue disciplines.
    pub tc: Vec<String>,
    /// RED disciplines, for which `tc` does not suffice.
    pub red: Vec<PlannedRed>,
    /// Cards of receivers at the other end of a device.
    pub cards: Vec<PlannedCard>,
    /// Lines that PAUSE frames fill.
    pub lines: Vec<PlannedLine>,
    /// Links with an explicit router.
    pub routers: Vec<PlannedRouter>,
    /// Routes with microsecond timestamps, which `ip` cannot make.
    pub routes: Vec<PlannedRoute>,
    /// Settings below `/proc/sys`, as file and value.
    pub settings: Vec<(String, String)>,
    /// Network devices.
    pub devices: Vec<String>,
    /// Default congestion control of the node's sockets; `None` for the kernel's default.
    pub controller: Option<String>,
}

/// RED, based on the average or on the present queue.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PlannedRed {
    /// The device.
    pub device: String,
    /// Handle of the parent class, such as `0x20_0001`.
    pub parent: u32,
    /// Handle of the discipline.
    pub handle: u32,
    /// Queue limit in bytes.
    pub limit: u32,
    /// Threshold in bytes from which the marking probability rises.
    pub min: u32,
    /// Threshold in bytes at which the marking probability reaches `probability`.
    pub max: u32,
    /// Probability of a mark just below `max`.
    pub probability: f64,
    /// Weight of a packet in the average, as the exponent of a negative power of two; zero
    /// uses the present queue.
    pub weight_log: u8,
    /// Whether the probability adapts to the average queue.
    pub adaptive: bool,
    /// Whether ECN-capable packets are marked instead of dropped.
    pub ecn: bool,
}

/// The card of a receiver: the module `headway_card`, at the end of the last wire before it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PlannedCard {
    /// The device.
    pub device: String,
    /// Time between interrupts before jitter.
    pub interval: Duration,
    /// Share of the interval by which each interrupt is early or late, in units of 2^-16.
    pub jitter: u32,
    /// Frames that interrupt at once; `None` for no limit.
    pub frames: Option<u32>,
    /// Whether it holds ACKs, and not data.
    pub acks: bool,
    /// Seed of its random numbers.
    pub seed: u64,
}

/// The line of a sender, filled with PAUSE frames: the module `headway_line` at its first device.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PlannedLine {
    /// The device.
    pub device: String,
    /// Rate of the line.
    pub rate: Rate,
    /// How long packets are held.
    pub held: Duration,
    /// Largest frame on the wire.
    pub largest: Bytes,
}

/// A link with an explicit router: the module `headway_router`, below a root discipline.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PlannedRouter {
    /// The device.
    pub device: String,
    /// Number of the direction.
    pub direction: u32,
    /// Rate of the link.
    pub rate: Rate,
    /// Limit of the queue in wire bytes, with the packet in transmission; `None` for no limit.
    pub limit: Option<Bytes>,
    /// The same in packets.
    pub packets: Option<u32>,
    /// Law and parameters, as the C code has them.
    pub config: Vec<u8>,
}

/// A route to one address.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PlannedRoute {
    /// The address.
    pub destination: Ipv4Addr,
    /// The next node.
    pub via: Ipv4Addr,
    /// The device.
    pub device: String,
    /// How TCP behaves there.
    pub metrics: PlannedMetrics,
}

/// How TCP behaves on a route.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlannedMetrics {
    /// Segments in the initial window; `None` for the kernel's default.
    pub initial_window: Option<u32>,
    /// The MTU; `None` for that of the device.
    pub mtu: Option<u32>,
    /// Whether every segment is acknowledged at once.
    pub quick_acks: bool,
    /// Whether connections negotiate ECN.
    pub ecn: bool,
    /// Whether timestamps are in microseconds.
    pub microseconds: bool,
}

/// A direction of a link.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PlannedDirection {
    /// Node whose device sends into this direction.
    pub node: usize,
    /// The sending device.
    pub device: String,
    /// Transit time of a packet that does not queue; `None` for a direction without queue and delay.
    pub fixed: Option<Duration>,
    /// Node and device with random losses.
    pub random: Option<(usize, String)>,
    /// File name of the packet capture, if there is one.
    pub capture: Option<String>,
}

/// A TCP flow.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PlannedFlow {
    /// Number of the sender's node.
    pub from: usize,
    /// Number of the receiver's node.
    pub to: usize,
    /// Address of the sender.
    pub source: Ipv4Addr,
    /// Address of the receiver.
    pub destination: Ipv4Addr,
    /// Congestion control of the sender.
    pub controller: String,
    /// Congestion control of both ends during the handshake; the receiver keeps it, and with it the
    /// way of echoing marks.
    pub opening: String,
    /// When the connection must be open; it is opened [`Plan::lead`] earlier.
    pub open: Duration,
    /// When it starts to send.
    pub start: Duration,
    /// When the application stops writing.
    pub stop: Option<Duration>,
    /// Payload bytes to send; `None` for no limit.
    pub size: Option<u64>,
    /// Rate at which the application writes.
    pub application_rate: Option<Rate>,
    /// Rate at which the receiver reads.
    pub read_rate: Option<Rate>,
    /// Receive buffer in payload bytes.
    pub receive_buffer: u64,
    /// Whether the kernel paces segments over the round trip.
    pub pacing: bool,
    /// Parameters of the controller's module, as file and value. They are set when the flow starts, just
    /// before the controller is chosen.
    pub parameters: Vec<(PathBuf, String)>,
}

/// A source of datagrams.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PlannedSource {
    /// Namespace from which it sends.
    pub from: usize,
    /// Namespace that counts arrivals.
    pub to: usize,
    /// Address of the sending end.
    pub source: Ipv4Addr,
    /// Address of the receiving end.
    pub destination: Ipv4Addr,
    /// The device at which arrivals are counted.
    pub sink: String,
    /// When it starts.
    pub start: Duration,
    /// When it stops.
    pub stop: Option<Duration>,
    /// The traffic model.
    pub traffic: Traffic,
    /// Seed of its random numbers, as in the simulator.
    pub seed: u64,
    /// Number of its random stream, as in the simulator.
    pub number: u64,
}

/// A middlebox, which is a program at a node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PlannedMiddlebox {
    /// Number of the node.
    pub node: usize,
    /// What it has to know.
    pub plan: MiddleboxPlan,
}

/// A host program.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PlannedProgram {
    /// Number of the node at which it runs.
    pub node: usize,
    /// Host name of the node.
    pub host: String,
    /// The shell command.
    pub command: String,
    /// Its working directory on the host.
    pub directory: PathBuf,
    /// When it starts.
    pub start: Duration,
    /// When it is stopped.
    pub stop: Duration,
}

impl PlannedProgram {
    /// Names of the files in the plan's folder for standard output and standard error of program `number`.
    pub fn outputs(number: usize) -> [String; 2] {
        ["out", "err"].map(|kind| format!("program-{number}.{kind}"))
    }
}
