//! Time series.

use headway_units::{Bytes, Duration, Instant, Rate};

/// The ground truth for one link and interval, in wire bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Interval {
    /// Bytes that the link could have sent, or that its policer lets pass at its rate if fewer; `None` when
    /// the rate is unlimited.
    pub capacity: Option<Bytes>,
    /// TCP segments, ACKs and probes: the traffic being measured.
    pub measured: Bytes,
    /// The part of `measured` that is probes.
    pub probes: Bytes,
    /// Datagrams of traffic sources, which measured flows cannot influence.
    pub cross: Bytes,
    /// Packets that the queue dropped.
    pub dropped: u64,
    /// Backlog at the end of the interval; in the lab, the maximum during the interval.
    pub queue: Bytes,
}

impl Interval {
    /// Returns the capacity that cross traffic left unused; `None` when the rate is unlimited.
    pub fn free(&self) -> Option<Bytes> {
        self.capacity.map(|capacity| Bytes::new(capacity.get().saturating_sub(self.cross.get())))
    }

    /// Returns the capacity that all traffic except probes left unused; `None` when the rate is unlimited.
    pub fn free_of_others(&self) -> Option<Bytes> {
        let tcp = self.measured.get().saturating_sub(self.probes.get());
        self.free().map(|free| Bytes::new(free.get().saturating_sub(tcp)))
    }
}

/// State of a TCP sender at the end of an interval, and its counters during the interval.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct TcpInterval {
    /// cwnd, in segments.
    pub cwnd: u32,
    /// ssthresh, in segments; `None` before the first reduction.
    pub ssthresh: Option<u32>,
    /// Smoothed RTT; `None` before the first sample.
    pub srtt: Option<Duration>,
    /// Pacing rate; `None` where there is none or it is unknown.
    pub pacing: Option<Rate>,
    /// Segments sent, retransmissions included.
    pub sent: u64,
    /// Segments retransmitted.
    pub retransmitted: u64,
    /// Retransmission timeouts; `None` in worlds that do not report them.
    pub timeouts: Option<u64>,
    /// Segments that arrived CE-marked; `None` in worlds that do not report them.
    pub marks: Option<u64>,
    /// What the controller knows beside its window; `None` if it does not tell.
    pub inside: Option<Inside>,
}

/// What a controller knows beside its window.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Inside {
    /// The estimated fraction of marked segments, 0 to 1; `None` for controllers that do not follow it.
    pub alpha: Option<f64>,
    /// The state of LS-AIMD; `None` with other controllers.
    pub fractional: Option<Fractional>,
    /// The one-way delay of the latest packet with a stamp of the receiver less that of the first one, because
    /// the clocks of both ends differ; `None` before the first, and with controllers that take no stamps.
    pub one_way: Option<Duration>,
}

/// A window with a fraction, and how it grows.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Fractional {
    /// The window, in bytes.
    pub window: f64,
    /// ssthresh, in bytes; `None` before the first reduction.
    pub ssthresh: Option<f64>,
    /// The increase per round trip, in bytes.
    pub add: f64,
    /// The RTT by which departures are spaced; `None` before the first sample.
    pub pace_rtt: Option<Duration>,
}

/// The time series of a run; all have one value per interval.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Series {
    /// End of each interval; the first interval starts at zero.
    pub ends: Vec<Instant>,
    /// Payload bytes that arrived in order in each interval, for flows with a time series.
    pub goodput: Vec<Vec<Bytes>>,
    /// TCP state of the same flows; empty in worlds that do not report it.
    pub tcp: Vec<Vec<TcpInterval>>,
    /// Names of those flows.
    pub flows: Vec<String>,
    /// Ground truth of each link.
    pub links: Vec<Vec<Interval>>,
    /// Names of the links.
    pub names: Vec<String>,
}

impl Series {
    /// Iterates over index, begin, end and length of all intervals.
    pub fn intervals(&self) -> impl Iterator<Item = (usize, Instant, Instant, Duration)> + '_ {
        let begins = std::iter::once(Instant::ZERO).chain(self.ends.iter().copied());
        begins.zip(&self.ends).enumerate().map(|(index, (begin, &end))| (index, begin, end, end - begin))
    }

    /// Returns the link with the least capacity in an interval, the first of several, with its name; `None`
    /// if no link has a rate.
    pub fn narrowest(&self, interval: usize) -> Option<(&str, &Interval)> {
        let links =
            self.names.iter().zip(&self.links).map(|(name, values)| (name.as_str(), &values[interval]));
        links.filter(|(_, values)| values.capacity.is_some()).min_by_key(|(_, values)| values.capacity)
    }
}
