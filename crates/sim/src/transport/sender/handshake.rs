//! The handshake, for a connection that is opened before its flow starts; its packets
//! pass through the queues.

use super::*;

/// RTTs of the empty path by which the handshake precedes the flow, and the minimum, ns: as in the kernel's
/// world.
const LEAD_ROUND_TRIPS: u64 = 3;
const MIN_LEAD: u64 = 10_000_000;
/// Bytes on the wire of the ACK of a SYN-ACK: 20 + 32 of headers with timestamps, and 38 of Ethernet.
const ACK_SIZE: u16 = 90;
/// Bytes on the wire of a SYN or SYN-ACK: 20 + 40 of headers with the options of Linux, and 38 of Ethernet.
const SIZE: u16 = 98;
/// RTO of the first SYN, ns (Linux's `TCP_TIMEOUT_INIT`); it doubles with each retransmission.
const INITIAL_RTO: u64 = 1_000_000_000;

/// When the handshake begins on a path with an RTT of `round_trip` when empty (ns).
pub(super) fn opening(config: &TcpConfig, round_trip: u64) -> u64 {
    config.start.ns().saturating_sub((LEAD_ROUND_TRIPS * round_trip).max(MIN_LEAD))
}

/// A handshake in progress.
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
    /// When the first packet is to be sent (ns).
    pub(crate) fn begin_at(&self) -> u64 {
        self.handshake.as_ref().map_or(self.application.start(), |handshake| handshake.at)
    }

    /// The SYN to send now, and when to send the next one (ns); `None` if the connection is open.
    pub(crate) fn send_syn(&mut self, now: u64) -> Option<(Packet, u64)> {
        let handshake = self.handshake.as_mut()?;
        let again = now + handshake.rto;
        if handshake.rto > INITIAL_RTO {
            // A retransmitted SYN does not ask for ECN, in case a middlebox drops such
            // SYNs (RFC 3168 6.1.1.1).
            self.ecn = Ecn::Off;
        }
        handshake.rto *= 2;
        let syn = Packet {
            sent: now,
            owner: self.owner,
            route: self.route,
            size: SIZE,
            kind: Kind::Syn,
            // SYNs of scalable senders, which are no segments, say ECT(0).
            flags: if self.ecn == Ecn::Dctcp { ECT } else { 0 },
            ..Packet::default()
        };
        Some((syn, again))
    }

    /// The SYN-ACK arrived; the SYN was sent at `asked` (ns).
    pub(crate) fn on_syn_ack(&mut self, now: u64, asked: u64) {
        if self.handshake.take().is_some() {
            self.init_rtt(now, now - asked);
        }
    }

    /// The ACK that ends the handshake.
    pub(crate) fn handshake_ack(&self, now: u64) -> Packet {
        Packet {
            sent: now,
            owner: self.owner,
            route: self.route,
            size: ACK_SIZE,
            kind: Kind::HandshakeAck,
            ..Packet::default()
        }
    }

    /// Takes the RTT measured by the handshake (ns).
    pub(super) fn init_rtt(&mut self, now: u64, round_trip: u64) {
        self.rtt.measured(round_trip, round_trip, (0, 0));
        self.controller.on_open(Instant::from_ns(now), Duration::from_ns(round_trip as i64));
        self.cwnd = self.controller.flight_limit();
    }
}
