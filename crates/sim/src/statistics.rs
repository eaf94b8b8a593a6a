//! What flows and sources have done.

use headway_core::{Bytes, Duration, Instant, Rate};

use crate::link::Count;

/// What a TCP flow has done since the start of the run or the last reset.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct FlowStatistics {
    /// Segments sent, retransmissions and window probes included.
    pub sent: u64,
    /// Segments sent again.
    pub retransmitted: u64,
    /// Segments that arrived, those that had arrived before included.
    pub received: u64,
    /// Segments that arrived in order.
    pub delivered: u64,
    /// Payload bytes that arrived in order.
    pub goodput: Bytes,
    /// Segments that arrived marked CE.
    pub marked: u64,
    /// Segments that acknowledgements with an echo of marks reported to the sender.
    pub echoed: u64,
    /// Expiries of the retransmission timer.
    pub timeouts: u64,
    /// Fast recoveries begun.
    pub recoveries: u64,
    /// Window reductions begun, after losses or marks.
    pub reductions: u64,
    /// Of the reductions, those taken back because nothing had been lost.
    pub undone: u64,
    /// The most segments that may be in flight now.
    pub cwnd: u32,
    /// Congestion window now, segments; a fraction of one for controllers that can.
    pub window: f64,
    /// Slow-start threshold now, segments; infinite before the first reduction.
    pub ssthresh: f64,
    /// Smoothed round-trip time now; `None` before the first measurement.
    pub srtt: Option<Duration>,
    /// Smallest round-trip time so far; `None` before the first measurement.
    pub min_rtt: Option<Duration>,
    /// The controller's rate of pacing now, counting wire bytes; `None` when it leaves that to the transport.
    pub pacing: Option<Rate>,
    /// When all data had been acknowledged, for a flow of finite size.
    pub finished: Option<Instant>,
}

/// What a source has done since the start of the run or the last reset.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SourceStatistics {
    /// Datagrams sent.
    pub sent: Count,
    /// Datagrams that arrived.
    pub delivered: Count,
}
