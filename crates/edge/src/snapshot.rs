//! What a router knows and does, once a second, for those who show it or keep it.
//!
//! In JSON, names end in their unit. Rates are those of the last second, counters count since the beginning.

use std::net::SocketAddr;

use headway_units::Rate;
use serde::{Deserialize, Serialize};

/// What the edge knows and does at one moment.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Snapshot {
    /// Time since 1970, ms.
    pub time_ms: u64,
    /// The interface towards the hosts.
    pub lan: String,
    /// The interface towards the link.
    pub wan: String,
    /// Whether nothing is changed, and what would be done is only told.
    pub dry_run: bool,
    /// The access link: towards the hosts, and from them.
    pub links: [LinkState; 2],
    /// Paths through the access link, those with most data first.
    pub paths: Vec<PathState>,
    /// Flows, those with the highest rate first.
    pub flows: Vec<FlowState>,
    /// How many flows there are; `flows` may have fewer.
    pub flows_in_all: u64,
    /// Decisions since the last snapshot.
    pub decisions: Vec<DecisionState>,
    /// What was spent on probes, if the edge probes.
    pub probes: Option<ProbeState>,
    /// Segments whose window was lowered, or would have been.
    pub lowered_segments: u64,
    /// Segments of TCP.
    pub segments: u64,
    /// Packets of something else.
    pub other_packets: u64,
    /// Snapshots that a slow or full disk kept out of the history, if there is one.
    pub history_lost: Option<u64>,
}

/// A rate that somebody estimates.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RateState {
    /// The rate.
    pub rate_bps: u64,
    /// The lower end of its interval.
    pub low_bps: u64,
    /// The upper end of its interval.
    pub high_bps: u64,
    /// How old it is.
    pub age_ms: u64,
    /// Who says it, such as `passive` or `probes`.
    pub source: String,
}

impl RateState {
    /// Returns it with all rates multiplied.
    pub(crate) fn scale(self, factor: f64) -> RateState {
        let scale = |bps: u64| Rate::from_bps(bps).scale(factor).bps();
        RateState {
            rate_bps: scale(self.rate_bps),
            low_bps: scale(self.low_bps),
            high_bps: scale(self.high_bps),
            ..self
        }
    }
}

/// An estimate older than this is not shown as one of now, ms: the link may have changed.
/// Range 5000 to 600 000.
const OLDEST_MS: u64 = 60_000;

impl RateState {
    /// Returns, of estimates of the same quantity that are not a minute old, that with the narrowest
    /// interval for its size.
    pub fn best(rates: &[RateState]) -> Option<&RateState> {
        let fresh = rates.iter().filter(|rate| rate.age_ms <= OLDEST_MS);
        let width =
            |rate: &RateState| rate.high_bps.saturating_sub(rate.low_bps) as f64 / rate.rate_bps as f64;
        fresh.min_by(|a, b| width(a).total_cmp(&width(b)))
    }
}

/// One direction of the access link.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LinkState {
    /// What it carries. Where nobody has told, what probes found, or the most that was seen to pass since a
    /// queue stood; 0 before.
    pub capacity_bps: u64,
    /// What passed in the last second.
    pub rate_bps: u64,
    /// What is available to the flows of this router, as everybody says who estimates it.
    pub available: Vec<RateState>,
    /// Who of them flows' shares follow; none where these are of the whole link, or of the narrow one.
    pub followed: Option<String>,
    /// The capacity of the narrow link, as everybody says who estimates it.
    pub narrow: Vec<RateState>,
}

impl LinkState {
    /// Returns the estimate of what is available that is drawn: the one that shares follow, or else the best.
    pub fn drawn(&self) -> Option<&RateState> {
        let followed = self.available.iter().find(|rate| self.followed.as_ref() == Some(&rate.source));
        followed.or_else(|| RateState::best(&self.available))
    }
}

/// A path through the access link, as passive estimates see it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PathState {
    /// Where it leads to or comes from, such as `from 192.0.2.0/24`.
    pub to: String,
    /// Connections with data in the last interval.
    pub connections: u64,
    /// Their rate together.
    pub rate_bps: u64,
    /// Their RTT.
    pub rtt_ns: Option<u64>,
    /// The capacity of its narrow link.
    pub capacity_bps: Option<u64>,
    /// What is free on it.
    pub available: Option<RateState>,
    /// What limits most of its connections.
    pub limited_by: Option<String>,
}

/// A flow.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FlowState {
    /// Its number in decisions.
    pub id: u64,
    /// `tcp` or `udp`.
    pub protocol: String,
    /// The end that began.
    pub client: SocketAddr,
    /// The other one.
    pub server: SocketAddr,
    /// Its class in the policy.
    pub class: Option<String>,
    /// What it is for: `bulk`, `interactive`, `cbr` or `unknown`.
    pub behaviour: String,
    /// The rule by which that was judged, as a clause.
    pub rule: String,
    /// Towards the hosts.
    pub down_bps: u64,
    /// From the hosts.
    pub up_bps: u64,
    /// RTT without a queue.
    pub rtt_ns: Option<u64>,
    /// The receive window that the host told, for what comes down.
    pub window_bytes: Option<u64>,
    /// What is let through of it.
    pub window_let_through_bytes: Option<u64>,
    /// What limits its rate.
    pub limited_by: String,
    /// Mean time between its packets, pauses left out.
    pub mean_gap_ns: u64,
    /// Burstiness: standard deviation of the bytes in slots of 100 ms in parts of their mean.
    pub burstiness: f64,
    /// What is done with it, and why.
    pub decision: String,
}

/// A decision that differs from the one before about the same flow.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DecisionState {
    /// Time since 1970, ms.
    pub time_ms: u64,
    /// The number of the flow.
    pub flow: u64,
    /// The end that began.
    pub client: SocketAddr,
    /// The other one.
    pub server: SocketAddr,
    /// What it was taken for.
    pub behaviour: String,
    /// The strategies in their order.
    pub strategies: Vec<String>,
    /// What is done with it, and why; the flow is the subject of the sentence.
    pub sentence: String,
}

/// What probes cost, and what they bought.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ProbeState {
    /// Most bytes an hour.
    pub budget_bytes: u64,
    /// Bytes spent in the last hour.
    pub spent_bytes: u64,
    /// Estimates that they bought in the last hour.
    pub estimates: u64,
    /// The last thing that it did or why it waits, as a sentence.
    pub state: String,
}
