//! What a network is made of: links, flows, sources, probers.

use headway_core::control::Factory;
use headway_core::queue::Queue;
use headway_core::{Bytes, Duration, Instant, Rate};

use headway_traffic::Traffic;

/// Number of a link in its network, in the order of adding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LinkId(pub u32);

/// Number of a TCP flow in its network, in the order of adding as long as none leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FlowId(pub u32);

/// Number of a group of TCP flows in its network, in the order of adding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct GroupId(pub u32);

/// Number of a source of datagrams in its network, in the order of adding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SourceId(pub u32);

/// Number of a receiving network card in its network, in the order of adding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CardId(pub u32);

/// Number of a prober in its network, in the order of adding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ProberId(pub u32);

/// How fast a link serves its queue.
#[derive(Clone, Debug, PartialEq)]
pub enum Service {
    /// Packets take no time.
    Unlimited,
    /// A constant rate of wire bytes.
    Constant(Rate),
    /// A token bucket: long-run rate, bucket in wire bytes (wan-measurements 2.6).
    TokenBucket {
        /// Rate at which tokens arrive.
        rate: Rate,
        /// Size of the bucket.
        burst: Bytes,
    },
    /// Opportunities to send one packet of up to 1538 wire bytes each, as times within a period that repeats.
    Trace {
        /// Times of the opportunities, ascending, the last one at most `period`.
        opportunities: Vec<Duration>,
        /// After this time the trace starts again.
        period: Duration,
    },
}

/// One direction of a link: a queue, a server, a wire.
#[derive(Clone, Debug)]
pub struct LinkConfig {
    /// How fast the queue is served.
    pub service: Service,
    /// Propagation delay.
    pub delay: Duration,
    /// Additional delay drawn evenly from zero to this for every packet; order is kept unless `reordering`.
    pub jitter: Duration,
    /// Whether jitter may let packets overtake each other.
    pub reordering: bool,
    /// Probability that a packet is lost after it has left the queue.
    pub loss: f64,
    /// The queue discipline with its limit.
    pub queue: Queue,
    /// Drops at arrival what exceeds this rate and burst.
    pub policer: Option<(Rate, Bytes)>,
}

/// How a receiver acknowledges.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AckPolicy {
    /// Segments per acknowledgement, at least 1.
    pub every: u32,
    /// Longest time an acknowledgement is held back.
    pub timeout: Duration,
}

/// What ECN a flow uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ecn {
    /// None: packets are not ECN-capable.
    Off,
    /// RFC 3168: the receiver repeats the echo until the sender says it has reduced.
    Classic,
    /// RFC 8257: the echo follows the marks exactly.
    Dctcp,
}

/// How many segments a sender hands down at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Burst {
    /// One: every segment leaves as soon as it may. Textbooks' senders do so, and closed forms assume it.
    Single,
    /// Large packets that are cut into segments at the end of the host's stack, as with Linux: up to 64 kB or a millisecond of the
    /// window's rate; and a sender waits for an acknowledgement or a few to make small ones larger.
    Host,
}

/// A TCP flow.
#[derive(Clone, Debug)]
pub struct TcpConfig {
    /// Links from sender to receiver.
    pub forward: Vec<LinkId>,
    /// Links from receiver to sender.
    pub reverse: Vec<LinkId>,
    /// What builds the congestion controller, such as a [`Kind`](headway_core::control::Kind).
    pub controller: Factory,
    /// When the first segment leaves.
    pub start: Instant,
    /// When the application stops writing; never when absent.
    pub stop: Option<Instant>,
    /// Payload bytes to be sent; no end when absent.
    pub size: Option<Bytes>,
    /// Rate at which the application writes payload; at once when absent.
    pub application_rate: Option<Rate>,
    /// Payload bytes in a full segment, without the 12 bytes of the timestamp option.
    pub mss: u32,
    /// Segments in the initial window.
    pub initial_window: u32,
    /// Receive buffer in payload bytes: the largest window that is advertised.
    pub receive_buffer: Bytes,
    /// Rate at which the receiving application reads; at once when absent.
    pub read_rate: Option<Rate>,
    /// How the receiver acknowledges.
    pub ack: AckPolicy,
    /// What ECN is used.
    pub ecn: Ecn,
    /// Whether segments, or bursts of them, are spread over the round trip, at twice the window per round trip in slow start and 1.2 times
    /// in congestion avoidance unless the controller gives a rate. BBR is paced always.
    pub pacing: bool,
    /// How many segments leave back to back.
    pub burst: Burst,
    /// Whether DCTCP reduces by whole segments and estimates in ten bits, as in Linux; closed forms know neither.
    pub whole: bool,
    /// The network card that the receiving host coalesces interrupts with; every segment is handed up at once when absent.
    pub card: Option<CardId>,
}

impl TcpConfig {
    /// A flow that starts at time zero and always has data: MTU 1500, an initial window of ten segments (RFC 6928), a receive
    /// buffer that does not limit, an acknowledgement for two segments or after 40 ms, no ECN, no pacing.
    pub fn new(controller: impl Into<Factory>, forward: Vec<LinkId>, reverse: Vec<LinkId>) -> TcpConfig {
        TcpConfig {
            forward,
            reverse,
            controller: controller.into(),
            start: Instant::ZERO,
            stop: None,
            size: None,
            application_rate: None,
            mss: 1448,
            initial_window: 10,
            receive_buffer: Bytes::new(1 << 30),
            read_rate: None,
            ack: AckPolicy { every: 2, timeout: Duration::from_ms(40) },
            ecn: Ecn::Off,
            pacing: false,
            burst: Burst::Host,
            whole: true,
            card: None,
        }
    }
}

/// A source of datagrams that does not react to anything.
#[derive(Clone, Debug)]
pub struct SourceConfig {
    /// Links from the source to the sink.
    pub path: Vec<LinkId>,
    /// When packets leave and how large they are.
    pub traffic: Traffic,
    /// When the source starts; the times of `traffic` count from here.
    pub start: Instant,
    /// When it stops; never when absent.
    pub stop: Option<Instant>,
}
