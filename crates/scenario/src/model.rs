//! The data model of a scenario file.

use std::collections::BTreeMap;
use std::path::PathBuf;

use headway_control::Kind;
use headway_queue::{DropTailConfig, Policer, QueueSpec};
use headway_units::{Bytes, Duration, Instant, Rate, RateSteps};
use serde::Deserialize;

use crate::buffer::{Buffer, BufferSize};
use crate::change_spec::ChangeSpec;
use crate::controller::FlowController;
use crate::kernel_queue::KernelQueue;
use crate::middlebox::MiddleboxSpec;
use crate::model_file::ModelFile;
use crate::select::SelectSpec;
use headway_host::gap::Mechanism;
use headway_host::nic::{AckStamp, Coalescing, Stamp};
use headway_traffic::channel::{CapacityTrace, DelayTrace, EcnField, Jitter, LossBursts, Outages, Redrawn};
use headway_traffic::{ArrivalSpec, SizeDistribution, Traffic};

/// Bytes of IP, TCP and the timestamp option in every segment.
const HEADERS: u32 = 52;

/// A complete scenario.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Scenario {
    /// Name; default that of the file.
    #[serde(default)]
    pub name: String,
    /// Seed of all random numbers; default 1.
    #[serde(default = "default_seed")]
    pub seed: u64,
    /// Duration of the run; default none, for a network without flows.
    #[serde(default)]
    pub duration: Duration,
    /// Time at the start that the summary excludes; default 0.
    #[serde(default)]
    pub warmup: Duration,
    /// Interval of the time series and of the ground truth; default 100 ms.
    #[serde(default = "default_interval")]
    pub interval: Duration,
    /// Largest IP packet in bytes, 576 to 9000; default 1500.
    #[serde(default = "default_mtu")]
    pub mtu: u32,
    /// Hosts and routers; default: all nodes that links name.
    #[serde(default)]
    pub nodes: Vec<String>,
    /// Links.
    #[serde(default)]
    pub link: Vec<LinkSpec>,
    /// Groups of TCP flows.
    #[serde(default)]
    pub flow: Vec<FlowSpec>,
    /// Sources of datagrams that do not react to congestion.
    #[serde(default)]
    pub traffic: Vec<TrafficSpec>,
    /// Available-bandwidth measurements.
    #[serde(default)]
    pub measure: Vec<MeasureSpec>,
    /// Choices among parallel paths.
    #[serde(default)]
    pub select: Vec<SelectSpec>,
    /// Changes during the run.
    #[serde(default)]
    pub change: Vec<ChangeSpec>,
    /// Middleboxes on the paths of flows.
    #[serde(default)]
    pub middlebox: Vec<MiddleboxSpec>,
    /// Host programs that run at nodes.
    #[serde(default)]
    pub program: Vec<ProgramSpec>,
    /// Properties of hosts by node.
    #[serde(default)]
    pub host: BTreeMap<String, HostSpec>,
    /// Whether the truth log of a lab contains every packet's queueing delay, in microseconds; default no.
    #[serde(default)]
    pub delays: bool,
    /// IP protocol of the congestion headers that routers of a lab rewrite; default 253.
    #[serde(default = "default_header_protocol")]
    pub header_protocol: u8,
    /// A UDP port, source or destination, whose packets have such a header in a lab, too; default none.
    pub header_port: Option<u16>,
    /// The kind of TCP options that are congestion headers in a lab, 253 or 254; default 253.
    #[serde(default = "default_header_option")]
    pub header_option: u8,
    /// Lines in older forms, with what to write instead.
    #[serde(skip)]
    pub warnings: Vec<String>,
    /// The text of the file, in which [`Scenario::locate`] finds keys.
    #[serde(skip)]
    pub text: String,
    /// The file.
    #[serde(skip)]
    pub path: PathBuf,
    /// The folder against which file names in the scenario are resolved.
    #[serde(skip)]
    pub folder: PathBuf,
    /// The traces and captures that the scenario names, as it names them.
    #[serde(skip)]
    pub files: Vec<PathBuf>,
}

/// A link between two nodes.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct LinkSpec {
    /// The name of the link in labs; default `FROM-TO`.
    pub name: Option<String>,
    /// The node at the sending end.
    pub from: String,
    /// The node at the receiving end.
    pub to: String,
    /// Rate, counting wire bytes; default none: transmission takes no time.
    pub rate: Option<Rate>,
    /// Rates with the times from which they apply, such as `[["0 s", "100 Mb/s"], ["5 s", "20 Mb/s"]]`,
    /// instead of `rate`.
    pub rates: Option<RateSteps>,
    /// A rate drawn anew at intervals, at most `rate`, which is what routers believe in; default none.
    pub redrawn: Option<Redrawn>,
    /// Times in which nothing is transmitted; default none.
    pub outages: Option<Outages>,
    /// Rate of the line from the sending node to the queue, on which frames follow one another; default:
    /// none, frames reach the queue at once.
    pub line: Option<Rate>,
    /// Propagation delay, from the departure of the last bit to its arrival; default 0.
    #[serde(default)]
    pub delay: Duration,
    /// A delay that changes with time, instead of `delay`; default none.
    pub delay_trace: Option<DelayTrace>,
    /// Limit of the queue; default 100 ms at the link's rate, the highest one if it changes, but at least 64
    /// kB.
    pub buffer: Option<BufferSize>,
    /// The queue discipline; default drop-tail.
    pub queue: Option<QueueSpec>,
    /// A queue discipline of the kernel, such as `fq_codel limit 1000`, instead of `queue` and `buffer`;
    /// default none.
    pub kernel_queue: Option<KernelQueue>,
    /// Probability that a packet is lost after it left the queue; default 0.
    #[serde(default, deserialize_with = "headway_units::share::deserialize")]
    pub loss: f64,
    /// Losses in bursts, besides `loss`; default none.
    pub loss_bursts: Option<LossBursts>,
    /// Probability that a packet arrives twice; default 0.
    #[serde(default, deserialize_with = "headway_units::share::deserialize")]
    pub duplicate: f64,
    /// Probability that a packet is damaged, so that the checksum of its receiver drops it; default 0.
    #[serde(default, deserialize_with = "headway_units::share::deserialize")]
    pub corrupt: f64,
    /// What becomes of the ECN field behind the queue; default `keep`.
    #[serde(default)]
    pub ecn: EcnField,
    /// Additional random delay of each packet; default none.
    #[serde(default)]
    pub jitter: Jitter,
    /// Whether jitter may reorder packets; default no.
    #[serde(default)]
    pub reordering: bool,
    /// A mahimahi trace instead of `rate`: a time in ms per line for each packet of 1500 bytes; it repeats.
    pub trace: Option<CapacityTrace>,
    /// Bucket size of a token-bucket shaper at `rate`; default: no bucket, every packet takes its time at
    /// `rate`.
    pub burst: Option<Bytes>,
    /// Highest rate at which a token-bucket shaper sends its bursts, from a second bucket of one packet of
    /// the MTU; default: bursts leave at once.
    pub peak_rate: Option<Rate>,
    /// Whether queued ACKs are dropped where two newer ones of their connection make them redundant; default
    /// no.
    #[serde(default)]
    pub ack_filter: bool,
    /// Policer that drops excess packets at arrival; default none.
    pub police: Option<Policer>,
    /// A radio channel over which both directions send, as stations whose frames have this
    /// `rate`; default none.
    pub wifi: Option<WifiSpec>,
    /// Whether packets take turns over this link and the others like it between the same nodes; default no.
    #[serde(default)]
    pub spray: bool,
    /// Whether the link also exists in the reverse direction; default yes.
    #[serde(default = "yes")]
    pub duplex: bool,
    /// The wire of the reverse direction, with `loss`, `loss-bursts`, `duplicate`, `corrupt`, `ecn`,
    /// `jitter`, `reordering` and `delay-trace`, none of which it has unless given; default the same as
    /// forward.
    pub reverse: Option<Wire>,
}

/// A channel of 802.11a or g that links share; each of their directions is a station.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct WifiSpec {
    /// Name of the channel: links with the same name contend for it.
    pub channel: String,
    /// Attempts after the first before a frame is given up; default 7.
    #[serde(default = "seven")]
    pub retries: u32,
    /// Probability that a frame is damaged, so that it is sent again; default 0.
    #[serde(default, deserialize_with = "headway_units::share::deserialize")]
    pub damage: f64,
}

/// What happens to packets of one direction of a link once they have left its queue. In a file, keys that are
/// absent from `reverse` are none, and `delay-trace` is that of the link.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct Wire {
    /// A delay that changes with time, instead of `delay`.
    pub delay_trace: Option<DelayTrace>,
    /// Probability that a packet is lost.
    #[serde(deserialize_with = "headway_units::share::deserialize")]
    pub loss: f64,
    /// Losses in bursts, besides `loss`.
    pub loss_bursts: Option<LossBursts>,
    /// Probability that a packet arrives twice.
    #[serde(deserialize_with = "headway_units::share::deserialize")]
    pub duplicate: f64,
    /// Probability that a packet is damaged.
    #[serde(deserialize_with = "headway_units::share::deserialize")]
    pub corrupt: f64,
    /// What becomes of its ECN field.
    pub ecn: EcnField,
    /// Additional random delay of each packet.
    pub jitter: Jitter,
    /// Whether jitter may reorder packets.
    pub reordering: bool,
}

/// A group of identical TCP flows.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct FlowSpec {
    /// Name in results; default the controller's.
    pub name: Option<String>,
    /// The sending host.
    pub from: String,
    /// The receiving host.
    pub to: String,
    /// Nodes to pass in this order; default: the path with the fewest links.
    #[serde(default)]
    pub via: Vec<String>,
    /// Number of flows in the group; default 1.
    #[serde(default = "one")]
    pub count: u64,
    /// The congestion controller.
    pub controller: FlowController,
    /// Start time of the first flow; default 0.
    #[serde(default)]
    pub start: Duration,
    /// Time between the starts of successive flows of the group; default 0.
    #[serde(default)]
    pub stagger: Duration,
    /// Time at which the applications stop writing; default never.
    pub stop: Option<Duration>,
    /// Payload of each flow; default unlimited.
    pub size: Option<Bytes>,
    /// Rate at which the sending application writes payload; default unlimited.
    pub application_rate: Option<Rate>,
    /// Payload after which the sending application pauses, rounded up to whole segments; default never.
    pub chunk: Option<Bytes>,
    /// How long it pauses, from the time at which all of the chunk is acknowledged; default never.
    pub pause: Option<Duration>,
    /// Rate at which the receiving application reads payload; default unlimited.
    pub read_rate: Option<Rate>,
    /// Initial window, in segments; default 10.
    #[serde(default = "default_initial_window")]
    pub initial_window: u32,
    /// Receive buffer, as `SO_RCVBUF` asks for it: the window of a host becomes a fifth larger; default 64
    /// MB.
    #[serde(default = "default_receive_buffer")]
    pub receive_buffer: Bytes,
    /// Largest IP packet in bytes, from 576, or from 80 with `xcp` and `rcp`, to that of the scenario;
    /// default that of the scenario.
    pub mtu: Option<u32>,
    /// Segments per ACK; default 2.
    #[serde(default = "default_ack_every")]
    pub ack_every: u32,
    /// Timeout of the delayed ACK; default 40 ms.
    #[serde(default = "default_ack_timeout")]
    pub ack_timeout: Duration,
    /// ECN mode; default `off`.
    #[serde(default)]
    pub ecn: EcnMode,
    /// Whether the sender paces segments over the RTT; default no.
    #[serde(default)]
    pub pacing: bool,
    /// Whether the ends negotiate SACK, for all flows from that host; default yes.
    #[serde(default = "yes")]
    pub sack: bool,
    /// Whether losses are found by time (RACK, RFC 8985), for all flows from that host; default yes. If not, by
    /// SACKed segments (RFC 6675), as before Linux 4.18.
    #[serde(default = "yes")]
    pub rack: bool,
    /// Whether windows come down by proportional rate reduction (RFC 6937), and not at once; default yes.
    #[serde(default = "yes")]
    pub prr: bool,
    /// Whether `cubic` has HyStart, in the kernel for all flows; default yes.
    #[serde(default = "yes")]
    pub hystart: bool,
    /// Whether the host uses segmentation offload, so that segments leave in bursts; default yes.
    #[serde(default = "yes")]
    pub offload: bool,
    /// Rate of the sender's own line, for `rapid` and `gaps`; default that of the first link of the path
    /// with one.
    pub line: Option<Rate>,
    /// How the sender makes gaps, for `rapid` and with `pacing`; default `exact`.
    #[serde(default = "exact")]
    pub gaps: Mechanism,
    /// Where the stamps in ACKs are taken, for `rapid` and `fast:rtt=owd`; default `driver`.
    #[serde(default)]
    pub stamp: AckStamp,
    /// A trained model that estimates in place of BASS, for `rapid`; default none.
    pub model: Option<ModelFile>,
    /// Flows that come and go, in place of `count` flows that stay; default none.
    pub arrivals: Option<ArrivalSpec>,
}

/// The ECN modes of scenario files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum EcnMode {
    /// No ECN.
    #[default]
    Off,
    /// ECN as in RFC 3168.
    Classic,
    /// ECN as in RFC 8257 (DCTCP).
    Dctcp,
    /// The same with ECT(1) in packets, by which L4S queues know scalable senders (RFC 9331).
    Ect1,
}

/// A source of datagrams.
#[derive(Clone, Debug, Deserialize)]
pub struct TrafficSpec {
    /// The sending host.
    pub from: String,
    /// The receiving host.
    pub to: String,
    /// Nodes to pass in this order; default: the path with the fewest links.
    #[serde(default)]
    pub via: Vec<String>,
    /// Start time; default 0.
    #[serde(default)]
    pub start: Duration,
    /// Stop time; default never.
    pub stop: Option<Duration>,
    /// The model of packet times and sizes: `model` and its keys.
    #[serde(flatten)]
    pub traffic: Traffic,
}

/// An available-bandwidth measurement with the algorithm that `headway measure` runs on live paths.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct MeasureSpec {
    /// The host that sends the probes.
    pub from: String,
    /// The host that receives them.
    pub to: String,
    /// Nodes to pass in this order; default: the path with the fewest links.
    #[serde(default)]
    pub via: Vec<String>,
    /// The estimator, as for `headway measure --method`; default `response`.
    pub method: Option<String>,
    /// The trained model of the method `learned`; default none.
    pub model: Option<ModelFile>,
    /// Start time of the first measurement; default 0.
    #[serde(default)]
    pub start: Duration,
    /// Time between the starts of successive measurements; default: a single measurement.
    pub every: Option<Duration>,
    /// Wire size of probes; default that of a packet of the MTU.
    pub packet: Option<Bytes>,
    /// Wire bytes that one measurement may send; default: the method decides.
    pub budget: Option<Bytes>,
    /// Whether to spare other traffic, at the cost of longer measurements and wider intervals; default no.
    #[serde(default)]
    pub gentle: bool,
    /// Line rate of the sender; default four times the rate of the narrow link.
    pub line: Option<Rate>,
    /// How the sender makes gaps; default `exact`.
    #[serde(default = "exact")]
    pub gaps: Mechanism,
    /// Where the receiver takes timestamps; default `driver`.
    #[serde(default = "driver")]
    pub stamp: Stamp,
}

/// A host program that runs at a node; needs a world whose network is a kernel's.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct ProgramSpec {
    /// The node at which it runs.
    pub at: String,
    /// The command, run by `/bin/sh -c`.
    pub command: String,
    /// Start time; default 0.
    #[serde(default)]
    pub start: Duration,
    /// Time at which the program is terminated; default the end of the run.
    pub stop: Option<Duration>,
    /// Congestion controller of sockets at this node that choose none; default the kernel's.
    pub controller: Option<FlowController>,
}

/// Properties of a host.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct HostSpec {
    /// Interrupt coalescing of its NIC for the segments and probes that it receives; default none.
    pub coalescing: Option<Coalescing>,
    /// The same for the ACKs of the flows that it sends; default none.
    pub ack_coalescing: Option<Coalescing>,
}

headway_units::defaults! {
    seven: u32 = 7;
    default_header_protocol: u8 = headway_queue::explicit::PROTOCOL;
    default_header_option: u8 = headway_queue::explicit::OPTION_KIND;
    default_seed: u64 = 1;
    default_interval: Duration = Duration::from_ms(100);
    default_mtu: u32 = 1500;
    default_receive_buffer: Bytes = DEFAULT_RECEIVE_BUFFER;
    default_ack_every: u32 = 2;
    exact: Mechanism = Mechanism::Exact;
    driver: Stamp = Stamp::Driver;
    one: u64 = 1;
    yes: bool = true;
}

fn default_initial_window() -> u32 {
    // RFC 6928.
    10
}

/// More than any path of the usual scenarios holds, so that the network limits flows.
pub(crate) const DEFAULT_RECEIVE_BUFFER: Bytes = Bytes::new(64_000_000);

fn default_ack_timeout() -> Duration {
    // Linux's minimum delayed-ACK timeout.
    Duration::from_ms(40)
}

impl Scenario {
    /// Returns the number of TCP flows that stay.
    pub fn flow_count(&self) -> u64 {
        let staying = |flow: &FlowSpec| match &flow.arrivals {
            None => flow.count,
            Some(_) if flow.arrival_sizes().is_some() => 0,
            Some(arrivals) => arrivals.count(),
        };
        self.flow.iter().fold(0, |sum, flow| staying(flow).saturating_add(sum))
    }

    /// Returns the payload bytes of a full segment: the MTU less 20 bytes of IP, 20 of TCP and 12 of the
    /// timestamp option.
    pub fn mss(&self) -> u32 {
        self.mtu - HEADERS
    }

    /// Returns the payload bytes of a flow's full segments.
    pub fn mss_of(&self, flow: &FlowSpec) -> u32 {
        flow.mtu.unwrap_or(self.mtu) - HEADERS
    }
}

impl Wire {
    /// Whether it only delays packets by a constant time, and loses some.
    pub fn is_plain(&self) -> bool {
        let changes = self.duplicate > 0.0 || self.corrupt > 0.0 || self.ecn != EcnField::Keep;
        !changes && self.delay_trace.is_none()
    }
}

impl LinkSpec {
    /// Returns what happens on the wire, of a duplex link on the way `back` or there.
    pub fn wire(&self, back: bool) -> Wire {
        if let Some(reverse) = self.reverse.as_ref().filter(|_| back) {
            let delay_trace = reverse.delay_trace.clone().or_else(|| self.delay_trace.clone());
            return Wire { delay_trace, ..reverse.clone() };
        }
        Wire {
            delay_trace: self.delay_trace.clone(),
            loss: self.loss,
            loss_bursts: self.loss_bursts,
            duplicate: self.duplicate,
            corrupt: self.corrupt,
            ecn: self.ecn,
            jitter: self.jitter,
            reordering: self.reordering,
        }
    }

    /// Returns the delay at the start of the run, without jitter, from `from` to `to`.
    pub fn first_delay(&self) -> Duration {
        self.delay_trace.as_ref().map_or(self.delay, |trace| trace.at(Duration::ZERO))
    }

    /// Returns a delay of one direction, without queueing, that is seldom or never exceeded.
    pub fn longest_delay(&self) -> Duration {
        let of =
            |wire: &Wire| wire.delay_trace.as_ref().map_or(self.delay, DelayTrace::most) + wire.jitter.most();
        of(&self.wire(false)).max(of(&self.wire(true)))
    }

    /// Returns the rate, the highest one if it changes; `None` without `rate` and `rates`.
    pub fn highest_rate(&self) -> Option<Rate> {
        self.rates.as_ref().map(RateSteps::highest).max(self.rate)
    }

    /// Returns the rate, the lowest one if it changes; `None` without `rate` and `rates`.
    pub fn lowest_rate(&self) -> Option<Rate> {
        self.rates.as_ref().map(RateSteps::lowest).or(self.rate)
    }

    /// Returns the rate at which its queue is served, the highest one if it changes, the mean one of a trace;
    /// `None` if no packet ever waits.
    pub fn queue_rate(&self) -> Option<Rate> {
        self.highest_rate().or_else(|| self.trace.as_ref().map(CapacityTrace::mean_rate))
    }

    /// Whether packets may have to wait for it.
    pub fn has_queue(&self) -> bool {
        self.highest_rate().is_some() || self.trace.is_some()
    }

    /// Whether something limits its rate.
    pub fn is_limited(&self) -> bool {
        self.has_queue() || self.police.is_some()
    }

    /// Returns the limit of the queue; by default 100 ms at `rate` but at least 64 kB, as in the lab.
    pub fn buffer_at(&self, rate: Rate) -> Buffer {
        match self.buffer {
            None => Buffer::Bytes(rate.bytes_in(Duration::from_ms(100)).max(Bytes::new(64_000))),
            Some(BufferSize::Limit(limit)) => limit,
            Some(BufferSize::Latency(time)) => {
                Buffer::Bytes(rate.bytes_in(time) + self.burst.unwrap_or_default())
            }
        }
    }

    /// Returns the limit of the queue where it does not depend on the rate.
    fn fixed_buffer(&self) -> Option<Buffer> {
        match self.buffer {
            Some(BufferSize::Limit(limit)) => Some(limit),
            _ => None,
        }
    }

    /// Returns the discipline with its limit, for a link of this rate; `None` means that serialisation takes
    /// no time.
    pub fn queue_spec(&self, rate: Option<Rate>) -> QueueSpec {
        let (limit, packets) = match rate.map(|rate| self.buffer_at(rate)).or(self.fixed_buffer()) {
            Some(Buffer::Bytes(bytes)) => (Some(bytes), None),
            Some(Buffer::Packets(packets)) => (None, Some(packets)),
            None => (None, None),
        };
        match &self.queue {
            None => QueueSpec::DropTail(DropTailConfig { limit, packets }),
            Some(queue) => queue.clone().with_default_limits(limit, packets),
        }
    }
}

impl FlowSpec {
    /// Returns the start time of flow number `index` of the group.
    pub fn start_of(&self, index: u64) -> Instant {
        Instant::ZERO + self.start + self.stagger * i64::try_from(index).unwrap_or(i64::MAX)
    }

    /// Returns the sizes of flows that come and go; `None` if they stay.
    pub fn arrival_sizes(&self) -> Option<SizeDistribution> {
        self.arrivals.as_ref()?.sizes(self.size)
    }

    /// Returns whether the controller is Rapid, which says when each segment leaves.
    pub fn is_rapid(&self) -> bool {
        matches!(self.controller.known(), Some(Kind::Rapid(_)))
    }

    /// Returns whether PAUSE frames make the gaps.
    pub fn fills_line(&self) -> bool {
        self.gaps == Mechanism::ByteClock && (self.is_rapid() || self.pacing)
    }

    /// Returns the name of the group in results.
    pub fn group_name(&self) -> String {
        self.name.clone().unwrap_or_else(|| self.controller.to_string())
    }
}
