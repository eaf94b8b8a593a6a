//! How a connection is opened that is to be used later: its packets pass the queues that stand by then.

use super::*;

/// A connection is opened this many round trips of an empty path before its flow starts, and at least so long before, ns: as in the
/// kernel's world.
const LEAD_ROUND_TRIPS: u64 = 3;
const MIN_LEAD: u64 = 10_000_000;
/// Bytes on the wire of either packet: 20 + 40 of headers with the options of Linux, and 38 of Ethernet.
const SIZE: u16 = 98;
/// Time after which the first packet is sent again if nothing has come back, ns (Linux's `TCP_TIMEOUT_INIT`); it doubles.
const INITIAL_RTO: u64 = 1_000_000_000;

/// When the connection of a flow is opened over a path that takes `round_trip` when it is empty (ns).
pub(super) fn opening(config: &TcpConfig, round_trip: u64) -> u64 {
    config.start.ns().saturating_sub((LEAD_ROUND_TRIPS * round_trip).max(MIN_LEAD))
}

/// A handshake that is not over.
#[derive(Debug)]
pub(super) struct Handshake {
    at: u64,
    rto: u64,
}

impl Handshake {
    pub(super) fn new(at: u64) -> Handshake {
        Handshake { at, rto: INITIAL_RTO }
    }
}

impl Sender {
    /// When something is to be done for the first time (ns).
    pub(crate) fn begin_at(&self) -> u64 {
        self.handshake.as_ref().map_or(self.application.start(), |handshake| handshake.at)
    }

    /// The packet that asks for a connection, and when to ask again (ns); `None` when it is open.
    pub(crate) fn ask(&mut self, now: u64) -> Option<(Packet, u64)> {
        let handshake = self.handshake.as_mut()?;
        let again = now + handshake.rto;
        if handshake.rto > INITIAL_RTO {
            // What does not answer is asked without ECN, lest ECN be the reason (RFC 3168 6.1.1.1).
            self.ecn = Ecn::Off;
        }
        handshake.rto *= 2;
        let syn = Packet {
            sent: now,
            owner: self.owner,
            route: self.route,
            size: SIZE,
            kind: Kind::Syn,
            flags: if self.ecn == Ecn::Dctcp { ECT } else { 0 },
            ..Packet::default()
        };
        Some((syn, again))
    }

    /// The answer has come to what was asked at `asked` (ns).
    pub(crate) fn opened(&mut self, now: u64, asked: u64) {
        if self.handshake.take().is_some() {
            self.init_rtt(now, now - asked);
        }
    }

    /// Takes in the first round-trip time (ns).
    pub(super) fn init_rtt(&mut self, now: u64, round_trip: u64) {
        self.rtt.measured(round_trip, round_trip, (0, 0));
        self.controller.on_open(Instant::from_ns(now), Duration::from_ns(round_trip as i64));
        self.cwnd = self.controller.flight_limit();
    }
}
