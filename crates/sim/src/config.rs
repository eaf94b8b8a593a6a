//! Configuration of a network: links, flows, sources.

use std::sync::Arc;

use headway_control::Factory;
use headway_host::nic::AckStamp;
use headway_learned::Model;
use headway_queue::explicit::HEADER_BYTES;
use headway_queue::{Queue, QueueSpec};
use headway_units::{Bytes, Duration, Instant, Rate, RateSteps};

pub use headway_link::Service;
pub use headway_link::wifi::Station;
use headway_traffic::Traffic;
use headway_traffic::channel::{DelayTrace, EcnField, Jitter, LossBursts};

/// Number of a link in its network, in the order in which links were added.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LinkId(pub u32);

/// Number of a TCP flow in its network, in the order in which flows were added, as long as none leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FlowId(pub u32);

/// Number of a group of TCP flows in its network, in the order in which groups were added.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct GroupId(pub u32);

/// Number of a source of datagrams in its network, in the order in which sources were added.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SourceId(pub u32);

/// Number of a receiving NIC in its network, in the order in which NICs were added.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NicId(pub u32);

/// Number of a sending host's line in its network, in the order in which lines were added.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LineId(pub u32);

/// Number of a prober in its network, in the order in which probers were added.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ProberId(pub u32);

/// Number of a tap in its network, in the order in which taps were added.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TapId(pub u32);

/// Number of a middlebox in its network, in the order in which middleboxes were added.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct MiddleboxId(pub u32);

/// Number of a radio channel in its network, in the order in which channels were added.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ChannelId(pub u32);

/// A middlebox on the path of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Passage {
    /// The middlebox.
    pub middlebox: MiddleboxId,
    /// Links of the forward path that segments have passed before it.
    pub forward: usize,
    /// Links of the reverse path that ACKs have passed before it.
    pub reverse: usize,
    /// On which of its sides the sender is, 0 or 1.
    pub sender_side: u8,
}

/// Where on the path of a flow a tap sees its segments and ACKs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TapPlace {
    /// At the sending host, behind the driver of its NIC: ACKs are seen when the NIC's driver hands them up.
    Sender,
    /// At the sending host, in its NIC: ACKs are seen when they arrive, as by hardware stamps.
    SenderNic,
    /// At the receiving host: segments are seen when they arrive, ACKs when they are sent. Such a flow opens
    /// with all three packets of a handshake, of which others omit some or all.
    Receiver,
    /// At the node behind this many links of the forward path, and of the reverse path.
    Node {
        /// Links of the forward path that segments have passed.
        forward: usize,
        /// Links of the reverse path that ACKs have passed.
        reverse: usize,
    },
}

/// One direction of a link: a queue, a server and a wire.
#[derive(Clone, Debug)]
pub struct LinkConfig {
    /// How fast the queue is served.
    pub service: Service,
    /// Propagation delay.
    pub delay: Duration,
    /// A propagation delay that changes with time, instead of `delay`.
    pub delay_trace: Option<DelayTrace>,
    /// Additional delay of every packet; order is kept unless `reordering`.
    pub jitter: Jitter,
    /// Whether jitter may let packets overtake each other.
    pub reordering: bool,
    /// Probability that a packet is lost on the wire.
    pub loss: f64,
    /// Losses in bursts, besides `loss`.
    pub loss_bursts: Option<LossBursts>,
    /// Probability that a packet arrives twice.
    pub duplicate: f64,
    /// Probability that a packet is damaged: a datagram or probe is lost, everything else
    /// dropped by its receiver.
    pub corrupt: f64,
    /// What becomes of the ECN field of packets that have left the queue.
    pub ecn: EcnField,
    /// The queue discipline with its limit.
    pub queue: Queue,
    /// Whether [`Network::change_queue`](crate::Network::change_queue) may replace the queue.
    pub changes: bool,
    /// Whether ACKs that wait are dropped where two newer ones of their flow make them redundant; not with
    /// disciplines that keep times of departure or queues of their own, except FQ-CoDel.
    pub ack_filter: bool,
    /// Rate and burst of a policer that drops excess packets on arrival.
    pub policer: Option<(Rate, Bytes)>,
    /// The radio channel over which the link sends, and how; its service then has the rate of its frames.
    pub wifi: Option<(ChannelId, Station)>,
}

impl LinkConfig {
    /// Whether the wire does no more than to delay all packets by the same time, and to lose some.
    pub(crate) fn is_plain(&self) -> bool {
        let changes = self.duplicate > 0.0 || self.corrupt > 0.0 || self.ecn != EcnField::Keep;
        !changes && self.jitter.is_none() && self.delay_trace.is_none()
    }

    /// Returns a link with this service, delay and queue; no jitter, no loss, no policer.
    pub fn new(service: Service, delay: Duration, queue: Queue) -> LinkConfig {
        LinkConfig {
            service,
            delay,
            delay_trace: None,
            jitter: Jitter::NONE,
            reordering: false,
            loss: 0.0,
            loss_bursts: None,
            duplicate: 0.0,
            corrupt: 0.0,
            ecn: EcnField::Keep,
            queue,
            changes: false,
            ack_filter: false,
            policer: None,
            wifi: None,
        }
    }
}

/// The queue of a link from a given time on.
#[derive(Clone, Debug)]
pub struct QueueChange {
    /// The discipline.
    pub spec: QueueSpec,
    /// The rate of the link that the discipline knows; `None` if transmission takes no time.
    pub rate: Option<Rate>,
    /// Its rates, if they change.
    pub rates: Option<RateSteps>,
    /// Seed of the discipline's random choices.
    pub seed: u64,
}

impl QueueChange {
    /// Makes the change at `now` (ns), where IP bytes and packets are `waiting`.
    pub(crate) fn apply(&self, queue: &mut Queue, now: u64, waiting: (u64, u32)) {
        queue.adopt(Instant::from_ns(now), &self.spec, self.rate, waiting, self.seed);
        if let Some(rates) = &self.rates {
            *queue = queue.clone().with_rates(rates.clone());
        }
    }
}

/// How a receiver sends ACKs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AckPolicy {
    /// Segments per ACK, at least 1.
    pub every: u32,
    /// Maximum delay of an ACK.
    pub timeout: Duration,
}

/// The variant of ECN that a flow uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ecn {
    /// None: packets are not ECN-capable.
    Off,
    /// RFC 3168: the receiver repeats the echo until the sender signals that it has reduced its window.
    Classic,
    /// RFC 8257: the echo mirrors the marks exactly.
    Dctcp,
}

/// How many segments a sender sends back to back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Burst {
    /// One: every segment is sent as soon as it may be, as in textbooks; closed forms assume this.
    Single,
    /// Large packets that are cut into segments at the bottom of the host's stack (TSO), as in Linux: up to
    /// 64 kB or one millisecond at the window's rate. The sender also waits for one or a few ACKs to make
    /// small packets larger.
    Host,
}

/// The line of a sending host.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Line {
    /// Its number.
    pub id: LineId,
    /// Its rate.
    pub rate: Rate,
}

/// A TCP flow.
#[derive(Clone, Debug)]
pub struct TcpConfig {
    /// Links from sender to receiver.
    pub forward: Vec<LinkId>,
    /// Links from receiver to sender.
    pub reverse: Vec<LinkId>,
    /// The factory of the congestion controller, such as a [`Kind`](headway_control::Kind).
    pub controller: Factory,
    /// When the first segment is sent.
    pub start: Instant,
    /// When the application stops writing; never if `None`.
    pub stop: Option<Instant>,
    /// Payload bytes to send; unlimited if `None`.
    pub size: Option<Bytes>,
    /// Rate at which the application writes payload; all at once if `None`.
    pub application_rate: Option<Rate>,
    /// Payload after which the application pauses, rounded up to whole segments, and for how long, counted
    /// from the time at which all of it is acknowledged; never if `None`. Not together with a rate.
    pub chunks: Option<(Bytes, Duration)>,
    /// Payload bytes in a full segment, after subtracting the 12 bytes of the timestamp option.
    pub mss: u32,
    /// Segments in the initial window.
    pub initial_window: u32,
    /// Receive buffer in payload bytes: the largest window that a textbook's receiver advertises. That of a
    /// host grows, see `transport::receive_window`.
    pub receive_buffer: Bytes,
    /// Rate at which the receiving application reads; at once if `None`.
    pub read_rate: Option<Rate>,
    /// How the receiver sends ACKs.
    pub ack: AckPolicy,
    /// The variant of ECN.
    pub ecn: Ecn,
    /// Whether packets that are ECN-capable say ECT(1), as those of scalable senders, and not ECT(0).
    pub ect1: bool,
    /// Whether segments, or bursts of them, are paced: at twice the window per RTT in slow start and 1.2
    /// times in congestion avoidance, unless the controller sets a rate. BBR is always paced.
    pub pacing: bool,
    /// Whether a window comes down by proportional rate reduction (RFC 6937), as far as the controller lets
    /// it; if not, at once.
    pub prr: bool,
    /// Whether CUBIC has HyStart.
    pub hystart: bool,
    /// How many segments are sent back to back.
    pub burst: Burst,
    /// Whether DCTCP reduces its window to whole segments and keeps its estimate in ten bits, as in Linux;
    /// closed forms assume neither.
    pub linux_rounding: bool,
    /// The receiving host's NIC, which coalesces interrupts; if `None`, every segment is passed up at once.
    pub nic: Option<NicId>,
    /// The sending host's NIC, which coalesces the interrupts of ACKs; if `None`, every ACK is passed up at
    /// once.
    pub ack_nic: Option<NicId>,
    /// The taps that see packets of this flow.
    pub taps: Vec<(TapId, TapPlace)>,
    /// The middleboxes that the flow passes. Such a flow opens with all three packets of a handshake.
    pub middleboxes: Vec<Passage>,
    /// The port to which the flow is connected, by which middleboxes know its class.
    pub port: u16,
    /// The line of the sending host, for controllers that schedule departures; if `None`, packets
    /// leave when they are due.
    pub line: Option<Line>,
    /// Whether segments that are paced also pass the line, one by one, so that what fills it or wakes
    /// the host makes their gaps; if not, the pace is exact.
    pub paced_by_line: bool,
    /// Where the stamps in ACKs are taken, if the controller wants any.
    pub stamp: AckStamp,
    /// The trained model that estimates for the controller, if it can have one.
    pub model: Option<Arc<Model>>,
}

impl TcpConfig {
    /// Returns a flow that starts at time zero and always has data to send: MTU 1500, an initial window of
    /// ten segments (RFC 6928), a receive buffer that does not limit, an ACK every two segments or after 40
    /// ms, no ECN, no pacing.
    pub fn new(controller: impl Into<Factory>, forward: Vec<LinkId>, reverse: Vec<LinkId>) -> TcpConfig {
        TcpConfig {
            forward,
            reverse,
            controller: controller.into(),
            start: Instant::ZERO,
            stop: None,
            size: None,
            application_rate: None,
            chunks: None,
            mss: 1448,
            initial_window: 10,
            receive_buffer: Bytes::new(1 << 30),
            read_rate: None,
            ack: AckPolicy { every: 2, timeout: Duration::from_ms(40) },
            ecn: Ecn::Off,
            ect1: false,
            pacing: false,
            prr: true,
            hystart: true,
            burst: Burst::Host,
            linux_rounding: true,
            nic: None,
            ack_nic: None,
            taps: Vec::new(),
            middleboxes: Vec::new(),
            port: 0,
            line: None,
            paced_by_line: false,
            stamp: AckStamp::default(),
            model: None,
        }
    }

    /// Bytes of the congestion header of every packet; zero without one.
    pub(crate) fn header_bytes(&self) -> u32 {
        if self.controller.is_explicit() { HEADER_BYTES as u32 } else { 0 }
    }

    /// Whether the receiver is a host's, as in Linux, and not that of textbooks. Segments with congestion
    /// headers leave one by one, but they arrive at a host, too.
    pub(crate) fn has_host_receiver(&self) -> bool {
        self.burst == Burst::Host || self.controller.is_explicit()
    }

    /// Whether something on the path needs to see all three packets of a handshake: a tap at the
    /// receiver, or a middlebox.
    pub(crate) fn completes_handshake(&self) -> bool {
        self.meets_middlebox() || self.taps.iter().any(|(_, place)| *place == TapPlace::Receiver)
    }

    /// Whether the flow passes a middlebox.
    pub(crate) fn meets_middlebox(&self) -> bool {
        !self.middleboxes.is_empty()
    }
}

/// A source of datagrams that does not respond to congestion.
#[derive(Clone, Debug)]
pub struct SourceConfig {
    /// Links from the source to the sink.
    pub path: Vec<LinkId>,
    /// Send times and sizes of packets.
    pub traffic: Traffic,
    /// When the source starts; the times of `traffic` are relative to this.
    pub start: Instant,
    /// When it stops; never if `None`.
    pub stop: Option<Instant>,
}
