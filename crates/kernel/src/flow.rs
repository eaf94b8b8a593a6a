//! What single connections of TCP Rapid know.

use std::net::SocketAddr;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use serde::Serialize;

/// What `stamps` of a connection is if an option tells arrivals (`RAPID_FLOW_TOLD_BY_OPTION`).
const TOLD_BY_OPTION: u8 = 3;

/// What tells when segments arrived (`enum rapid_stamps` for the receiver's timestamps).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Arrivals {
    /// Not known yet; the arrival of ACKs has to do.
    Unknown,
    /// They are microseconds.
    Timestamps,
    /// There are none, or their clock is another one: the arrival of ACKs has to do.
    Acks,
    /// The receiver notes arrivals before TCP does, and tells them in an option.
    Option,
}

/// A connection of TCP Rapid.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RapidFlow {
    /// Its own end.
    pub local: SocketAddr,
    /// The other end.
    pub remote: SocketAddr,
    /// What tells when segments arrived.
    pub arrivals: Arrivals,
    /// Times that the receiver's clock was moved.
    pub clock_moved: u32,
    /// Whether it is in start-up.
    pub starts: bool,
    /// R_avg in bit/s.
    pub rate_bps: u64,
    /// The latest estimate of the available bandwidth, in bit/s; 0 before the first.
    pub estimate_bps: u64,
    /// The smoothed RTT in ns.
    pub rtt_ns: u64,
    /// The queue that the latest packets found, in ns.
    pub queue_ns: u64,
    /// The one-way delay of the latest packet whose arrival is known less that of the first one, in ns, by the
    /// source and with the resolution of `arrivals` (rapid F26).
    pub one_way_ns: i64,
    /// P-streams that were begun.
    pub streams: u32,
    /// P-streams that yielded an estimate.
    pub estimated: u32,
    /// Complete p-streams with too few gaps for an estimate.
    pub too_short: u32,
    /// Complete p-streams of which this host sent packets back to back.
    pub back_to_back: u32,
    /// Loss episodes.
    pub losses: u32,
    /// Timeouts.
    pub timeouts: u32,
    /// Segments sent again.
    pub retransmitted: u32,
}

/// As the programs write it (`struct rapid_flow` in `bpf/rapid_flows.bpf.h`).
#[repr(C)]
struct Raw {
    local: [u8; 16],
    remote: [u8; 16],
    is_ipv6: u16,
    local_port: u16,
    remote_port: u16,
    stamps: u8,
    starts: u8,
    rate: u64,
    estimate: u64,
    rtt: u64,
    queue: u64,
    delay: u64,
    streams: u32,
    estimated: u32,
    refused: u32,
    crowded: u32,
    losses: u32,
    timeouts: u32,
    retransmitted: u32,
    moved: u32,
}

impl RapidFlow {
    /// Bytes of one connection.
    pub(crate) const SIZE: usize = size_of::<Raw>();

    /// Reads what the programs write of one connection.
    pub(crate) fn from_bytes(bytes: &[u8; Self::SIZE]) -> RapidFlow {
        // SAFETY: it consists of integers only, so any bits are valid; the read may be unaligned.
        let raw = unsafe { bytes.as_ptr().cast::<Raw>().read_unaligned() };
        let address = |bytes: [u8; 16], port: u16| {
            let [a, b, c, d, ..] = bytes;
            let v4 = IpAddr::V4(Ipv4Addr::new(a, b, c, d));
            let address = if raw.is_ipv6 == 0 { v4 } else { IpAddr::V6(Ipv6Addr::from(bytes)) };
            SocketAddr::new(address.to_canonical(), port)
        };
        RapidFlow {
            local: address(raw.local, raw.local_port),
            remote: address(raw.remote, raw.remote_port),
            arrivals: match raw.stamps {
                0 => Arrivals::Unknown,
                1 => Arrivals::Timestamps,
                TOLD_BY_OPTION => Arrivals::Option,
                _ => Arrivals::Acks,
            },
            clock_moved: raw.moved,
            starts: raw.starts != 0,
            rate_bps: raw.rate,
            estimate_bps: raw.estimate,
            rtt_ns: raw.rtt,
            queue_ns: raw.queue,
            one_way_ns: raw.delay.cast_signed(),
            streams: raw.streams,
            estimated: raw.estimated,
            too_short: raw.refused.saturating_sub(raw.crowded),
            back_to_back: raw.crowded,
            losses: raw.losses,
            timeouts: raw.timeouts,
            retransmitted: raw.retransmitted,
        }
    }
}
