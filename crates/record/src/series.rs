//! Values over time.

use headway_core::{Bytes, Duration, Instant, Rate};

/// What passed a link in one interval, in wire bytes: the ground truth.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Interval {
    /// What the link could have sent; `None` when it is unlimited.
    pub capacity: Option<Bytes>,
    /// TCP segments and acknowledgements, and probes: the traffic that is measured.
    pub measured: Bytes,
    /// Of these, probes.
    pub probes: Bytes,
    /// Datagrams of sources: the traffic that measured flows cannot influence.
    pub cross: Bytes,
    /// Packets dropped at the queue.
    pub dropped: u64,
    /// What the queue held at the end of the interval; in a real network, the most that it held.
    pub queue: Bytes,
}

impl Interval {
    /// What cross traffic left of the capacity.
    pub fn free(&self) -> Option<Bytes> {
        self.capacity.map(|capacity| Bytes::new(capacity.get().saturating_sub(self.cross.get())))
    }

    /// What all traffic but probes left of the capacity.
    pub fn free_of_others(&self) -> Option<Bytes> {
        let tcp = self.measured.get().saturating_sub(self.probes.get());
        self.free().map(|free| Bytes::new(free.get().saturating_sub(tcp)))
    }
}

/// The sender of a TCP flow at the end of an interval, and what it did within it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TcpInterval {
    /// Congestion window, segments.
    pub cwnd: u32,
    /// Slow-start threshold, segments; `None` before the first reduction.
    pub ssthresh: Option<u32>,
    /// Smoothed round-trip time; `None` before the first measurement.
    pub srtt: Option<Duration>,
    /// Rate of pacing; `None` where nothing is known of one.
    pub pacing: Option<Rate>,
    /// Segments sent, retransmissions included.
    pub sent: u64,
    /// Segments sent again.
    pub retransmitted: u64,
    /// Retransmission timeouts; `None` where the world does not tell.
    pub timeouts: Option<u64>,
    /// Segments that arrived marked; `None` where the world does not tell.
    pub marks: Option<u64>,
}

/// Time series of a run; all have a value for each of the intervals.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Series {
    /// Ends of the intervals; the first one begins at zero.
    pub ends: Vec<Instant>,
    /// Payload bytes that arrived in order in each interval, for the flows that have a series.
    pub goodput: Vec<Vec<Bytes>>,
    /// State of TCP, for the same flows; empty where the world does not tell.
    pub tcp: Vec<Vec<TcpInterval>>,
    /// Names of those flows.
    pub flows: Vec<String>,
    /// What passed each link.
    pub links: Vec<Vec<Interval>>,
    /// Names of the links.
    pub names: Vec<String>,
}

impl Series {
    /// Number, begin, end and length of every interval.
    pub fn intervals(&self) -> impl Iterator<Item = (usize, Instant, Instant, Duration)> + '_ {
        let begins = std::iter::once(Instant::ZERO).chain(self.ends.iter().copied());
        begins.zip(&self.ends).enumerate().map(|(index, (begin, &end))| (index, begin, end, end - begin))
    }
}
