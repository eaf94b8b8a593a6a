//! What a guest tells: one line of JSON a look.

use headway_core::{Duration, Rate};
use serde::{Deserialize, Serialize};

/// All counters at one time; they count from the begin.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Look {
    /// When, from time zero of the scenario.
    pub at: Duration,
    /// Both ends of every flow.
    pub flows: Vec<FlowLook>,
    /// Every direction of a link.
    pub directions: Vec<DirectionLook>,
    /// Every source.
    pub sources: Vec<SourceLook>,
}

/// A TCP flow as the kernel counts it. All counts are since it began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FlowLook {
    /// Payload bytes that arrived in order.
    pub received: u64,
    /// Segments with payload, retransmissions included.
    pub sent: u64,
    /// Segments sent again.
    pub retransmitted: u64,
    /// Retransmission timeouts.
    pub timeouts: u64,
    /// Segments that the receiver reported as marked.
    pub marks: u64,
    /// Congestion window, segments.
    pub cwnd: u32,
    /// Slow-start threshold, segments; `None` before the first reduction.
    pub ssthresh: Option<u32>,
    /// Smoothed round-trip time.
    pub srtt: Duration,
    /// Least round-trip time; zero before the first measurement.
    pub min_rtt: Duration,
    /// Rate at which the kernel paces or would pace.
    pub pacing: Rate,
    /// When all was acknowledged.
    pub finished: Option<Duration>,
}

/// A direction of a link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DirectionLook {
    /// Packets that came, and that left.
    pub arrived: u64,
    /// See `arrived`.
    pub departed: u64,
    /// Wire bytes of TCP that left.
    pub measured: u64,
    /// Wire bytes of everything else that left.
    pub cross: u64,
    /// Packets that left marked CE.
    pub marked: u64,
    /// Sum of their waiting times, ns.
    pub waited: u64,
    /// The longest waiting time since the begin or the end of warm-up, ns.
    pub waited_max: u64,
    /// Wire bytes in the queue.
    pub queue: u64,
    /// Packets dropped at the queue.
    pub dropped: u64,
    /// Packets lost at random behind it.
    pub lost: u64,
}

/// A source of datagrams.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SourceLook {
    /// Packets and wire bytes handed to the network.
    pub sent: u64,
    /// See `sent`.
    pub sent_bytes: u64,
    /// Packets and wire bytes that arrived.
    pub delivered: u64,
    /// See `delivered`.
    pub delivered_bytes: u64,
}

/// How a program ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ProgramEnd {
    /// Its number in the plan.
    pub program: usize,
    /// When, from time zero of the scenario.
    pub at: Duration,
    /// Its exit status; `None` when a signal ended it.
    pub status: Option<i32>,
    /// That signal.
    pub signal: Option<i32>,
    /// Whether it was ended because its time was over.
    pub stopped: bool,
}

/// The last line of a report.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct End {
    /// Waiting times of every direction since warm-up, as bins of a histogram with their counts.
    pub waits: Vec<Vec<(usize, u64)>>,
}

/// A line of a report.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Line {
    /// Counters at a time.
    Look(Look),
    /// A program has ended.
    Program(ProgramEnd),
    /// The run is over.
    End(End),
    /// The guest could not do its plan.
    Failed(String),
}
