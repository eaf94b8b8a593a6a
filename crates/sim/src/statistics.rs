//! Counters of flows and sources.

use headway_control::Inside;
use headway_units::{Bytes, Duration, Instant, Rate};

use crate::link::Count;

/// Counters and state of a TCP flow; counters start at the start of the run or the last reset.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct FlowStatistics {
    /// Segments sent, retransmissions and window probes included.
    pub sent: u64,
    /// Segments retransmitted.
    pub retransmitted: u64,
    /// Segments that arrived, duplicates included.
    pub received: u64,
    /// Segments that arrived in order.
    pub delivered: u64,
    /// Payload bytes that arrived in order.
    pub goodput: Bytes,
    /// Segments that arrived marked CE.
    pub marked: u64,
    /// Segments that the sender learned to be marked, from ECN echoes in ACKs.
    pub echoed: u64,
    /// Expiries of the retransmission timer.
    pub timeouts: u64,
    /// Fast recoveries started.
    pub recoveries: u64,
    /// Window reductions started, after losses or marks.
    pub reductions: u64,
    /// Reductions that were undone because nothing had been lost.
    pub undone: u64,
    /// Congestion window now, in whole segments: the limit of segments in flight.
    pub cwnd: u32,
    /// Congestion window now in segments, including a fraction for controllers that keep one.
    pub window: f64,
    /// Slow-start threshold now, segments; infinite before the first reduction.
    pub ssthresh: f64,
    /// Smoothed round-trip time now; `None` before the first measurement.
    pub srtt: Option<Duration>,
    /// Smallest round-trip time so far; `None` before the first measurement.
    pub min_rtt: Option<Duration>,
    /// Pacing rate set by the controller now, in wire bytes; `None` when it leaves pacing to the transport.
    pub pacing: Option<Rate>,
    /// What the controller tells beside this.
    pub inside: Option<Inside>,
    /// When all data were acknowledged, for a flow of finite size.
    pub finished: Option<Instant>,
}

/// Counters of a source since the start of the run or the last reset.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SourceStatistics {
    /// Datagrams sent.
    pub sent: Count,
    /// Datagrams that arrived.
    pub delivered: Count,
}
