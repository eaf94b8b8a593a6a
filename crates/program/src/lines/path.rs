//! What `headway path --json` prints.

use std::net::IpAddr;

use serde::{Deserialize, Serialize};

/// The answer, with units in the keys. Rates count all bytes on the wire.
#[derive(Debug, Serialize, Deserialize)]
pub struct PathLine {
    /// Always `path`; for errors it is `error`.
    pub r#type: String,
    /// The host that was measured, as given on the command line.
    pub host: String,
    /// The nodes of the path, the receiver last.
    pub hops: Vec<HopLine>,
    /// Capacity of the narrow link; absent if it is unclear.
    pub capacity_bps: Option<u64>,
    /// The range of 90 % of the estimates from resampled pairs, and the share of these estimates within 3 %
    /// of that from all pairs.
    pub capacity_low_bps: Option<u64>,
    /// See `capacity_low_bps`.
    pub capacity_high_bps: Option<u64>,
    /// See `capacity_low_bps`.
    pub capacity_confidence: Option<f64>,
    /// Pairs with a rate near the capacity, and all usable ones.
    pub pairs_selected: Option<usize>,
    /// See `pairs_selected`.
    pub pairs_usable: Option<usize>,
    /// The far end of the narrow link; absent if it was not located.
    pub narrow_hop: Option<u32>,
    /// Probability that it is right.
    pub narrow_confidence: Option<f64>,
    /// The reason why it was not located.
    pub error: Option<String>,
    /// The far end of the tight link; absent if it was not wanted or not located.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tight_hop: Option<u32>,
    /// Probability that it is right.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tight_confidence: Option<f64>,
    /// A rate that overloads it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tight_below_bps: Option<u64>,
    /// The reason why it was not located.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tight_error: Option<String>,
    /// Trains by the hop at which their hidden packets died.
    pub groups: Vec<GroupLine>,
    /// The narrow links of the prefixes of the path, if all capacities were measured.
    pub slcs: Vec<MemberLine>,
    /// Pairs and trains sent.
    pub trains_sent: usize,
    /// Those of which a packet was lost.
    pub trains_lost: usize,
    /// Those whose packets arrived in another order.
    pub trains_reordered: usize,
    /// Those that the sender did not send on time.
    pub trains_late: usize,
    /// Packets that arrived twice.
    pub packets_duplicated: usize,
    /// Bytes of all probes on the wire.
    pub probe_bytes: u64,
    /// Bytes of the control connection.
    pub control_bytes: u64,
    /// Time from the first packet to the answer.
    pub duration_ms: f64,
    /// RTT without queueing.
    pub rtt_us: f64,
    /// Size of the packets of pairs and trains on the wire.
    pub packet_wire_bytes: u64,
    /// What carried pairs and trains: `udp` or `icmp`.
    pub carrier: String,
    /// Whether a signal ended the measurement, so that the result is partial.
    pub interrupted: bool,
}

/// A node of the path.
#[derive(Debug, Serialize, Deserialize)]
pub struct HopLine {
    /// Number of the hop, from 1.
    pub hop: u8,
    /// Addresses that answered from there.
    pub addresses: Vec<IpAddr>,
    /// Capacity of the narrowest link up to here, where it was measured.
    pub prefix_capacity_bps: Option<u64>,
}

/// Trains whose hidden packets died at one hop.
#[derive(Debug, Serialize, Deserialize)]
pub struct GroupLine {
    /// Number of the hop, from 1.
    pub hop: u8,
    /// Number of trains.
    pub trains: usize,
    /// Mean of their rates.
    pub mean_rate_bps: u64,
    /// Standard deviation of their rates.
    pub deviation_bps: u64,
}

/// A link that is narrower than all links before it.
#[derive(Debug, Serialize, Deserialize)]
pub struct MemberLine {
    /// Number of the hop, from 1.
    pub hop: u32,
    /// Capacity of the narrow link.
    pub capacity_bps: u64,
}
