//! The packet, which is copied from ring to ring, and the reports that only some carry: SACK blocks, stamps
//! and congestion headers.

use headway_queue::explicit::Header;
use headway_queue::{Label, Packet as Seen};
use headway_units::Bytes;

/// The kind of a packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Kind {
    /// A datagram of a source.
    #[default]
    Datagram,
    /// A packet of a probe stream.
    Probe,
    /// A TCP segment.
    Segment,
    /// On a link: several segments, see [`Packet`].
    Train,
    /// An ACK without data.
    Ack,
    /// The SYN of a TCP connection, and the SYN-ACK that answers it.
    Syn,
    SynAck,
    /// The ACK that ends the handshake; only flows with a tap at the receiver or a middlebox send it.
    HandshakeAck,
    /// A packet of TCP with a wrong checksum, which its receiver drops.
    Damaged,
}

/// The packet is ECN-capable.
pub(crate) const ECT: u8 = 1;
/// A queue has marked the packet: congestion experienced.
pub(crate) const CE: u8 = 2;
/// The receiver echoes a mark; in ACKs.
pub(crate) const ECE: u8 = 4;
/// In a segment that is ECN-capable: its field says ECT(1), as those of scalable senders (RFC 9331).
pub(crate) const ECT1: u8 = ECE;
/// The sender has reduced its window (RFC 3168).
pub(crate) const CWR: u8 = 8;
/// A retransmitted segment; in an ACK: a retransmitted segment caused it.
pub(crate) const RETRANSMITTED: u8 = 16;
/// The packet is lost on its present link.
pub(crate) const LOST: u8 = 32;
/// A zero-window probe; carries no data.
pub(crate) const WINDOW_PROBE: u8 = 64;
/// In an ACK: the segment that caused it was a duplicate (RFC 2883).
pub(crate) const DUPLICATE: u8 = 64;

/// `extra` of this ACK, or segment with a congestion header, is the number of its [`Report`].
pub(crate) const REPORT: u8 = 128;

/// A packet, or a train: back-to-back segments of one flow that joined a link at the same instant and differ
/// only in their sequence numbers. It is kept small so that the packets in flight on a path with a large
/// bandwidth-delay product fit into the second-level cache.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub(crate) struct Packet {
    /// On a link: arrival time at the far end (ns), or while the packet is queued: the time
    /// it joined the queue.
    pub at: u64,
    /// When the segment was sent (ns); in an ACK: when the segment that caused it was sent; in a SYN-ACK:
    /// when the SYN was sent.
    pub sent: u64,
    /// Sequence number of the segment or datagram, counted in packets; in an ACK: the
    /// cumulative acknowledgement.
    pub seq: u64,
    /// Number of its flow, source or prober.
    pub owner: u32,
    /// Index of its next hop in the table of routes.
    pub route: u32,
    /// In an ACK: the advertised window in segments beyond `seq`, or the number of its report. In a
    /// segment with a congestion header: the number of its report. In a train: how many segments
    /// follow the first one.
    pub extra: u32,
    /// Wire bytes.
    pub size: u16,
    pub kind: Kind,
    pub flags: u8,
    /// On a link: when it joined (ns). A train joins when it is sent, so this field holds the remainder from
    /// rounding its times instead, in the units of [`headway_link::Spacing`].
    pub joined: u64,
}

const _: () = assert!(size_of::<Packet>() == 48);

impl Packet {
    /// Returns when the packet joined its present link (ns).
    pub(crate) fn joined(&self) -> u64 {
        if self.kind == Kind::Train { self.sent } else { self.joined }
    }

    /// Returns the number of packets in a train, 1 for a single packet.
    pub(crate) fn count(&self) -> u64 {
        if self.kind == Kind::Train { u64::from(self.extra) + 1 } else { 1 }
    }

    /// Returns what says in which queue it waits, where there are several.
    pub(crate) fn label(&self) -> Label {
        let is_segment = matches!(self.kind, Kind::Segment | Kind::Train);
        // Flows, sources and probers have numbers of their own, and ACKs other addresses than segments.
        let kind = match self.kind {
            Kind::Datagram => 1 << 31,
            Kind::Probe => 1 << 30,
            Kind::Ack => 1 << 29,
            _ => 0,
        };
        Label { flow: self.owner ^ kind, is_scalable: self.has(CE) || is_segment && self.has(ECT1) }
    }

    /// Returns what a discipline sees of a packet without a congestion header.
    pub(crate) fn seen(&self) -> Seen<'static> {
        Seen::new(Bytes::new(self.size.into()), self.has(ECT))
    }

    /// Returns what a discipline sees of a packet with a congestion header, or without.
    pub(crate) fn seen_with<'a>(&self, header: Option<&'a mut Header>) -> Seen<'a> {
        Seen { flow: header.is_some().then_some(self.owner), header, ..self.seen() }
    }

    pub(crate) fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }
}

/// Number of SACK blocks that fit beside the timestamp option (RFC 2018).
pub(crate) const SACK_BLOCKS: usize = 3;

/// The part of an ACK with SACK blocks or a stamp, or of a packet with a congestion header, that does not
/// fit into the packet.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Report {
    /// Advertised window in segments.
    pub window: u32,
    /// SACK blocks as offsets from the cumulative acknowledgement, first segment and one past the last;
    /// unused ones are (0, 0).
    pub blocks: [(u32, u32); SACK_BLOCKS],
    /// When the segment that caused the ACK arrived by the receiver's clock, in units of
    /// its flow; 0 for none.
    pub stamp: u32,
    /// The congestion header of a flow whose routers tell its rate.
    pub header: Option<Header>,
}

impl Report {
    /// Whether it has SACK blocks.
    pub(crate) fn has_blocks(&self) -> bool {
        self.blocks[0].1 > 0
    }

    /// Returns the blocks in ascending order. Their order within a report does not tell which
    /// segments arrived first.
    pub(crate) fn ascending(&self) -> impl Iterator<Item = (u32, u32)> + use<> {
        let mut blocks = self.blocks;
        blocks.sort_unstable();
        blocks.into_iter().filter(|block| block.1 > 0)
    }
}

/// The reports of all packets in flight.
#[derive(Debug, Default)]
pub(crate) struct Reports {
    reports: Vec<Report>,
    free: Vec<u32>,
}

impl Reports {
    /// Whether another report would need new memory.
    pub(crate) fn is_full(&self) -> bool {
        self.free.is_empty() && self.reports.len() == self.reports.capacity()
    }

    /// Grows the pool until at least half of it is free, so that it is seldom full.
    pub(crate) fn reserve(&mut self) {
        if self.free.len() <= self.reports.len() / 2 {
            self.reports.reserve(self.reports.len().max(64));
        }
    }

    /// Stores a report and returns its number.
    pub(crate) fn keep(&mut self, report: Report) -> u32 {
        if let Some(number) = self.free.pop() {
            self.reports[number as usize] = report;
            return number;
        }
        self.reports.push(report);
        (self.reports.len() - 1) as u32
    }

    /// Returns a second copy of a packet, with a report of its own if it has one.
    pub(crate) fn copy(&mut self, packet: &Packet) -> Packet {
        let extra = if packet.has(REPORT) { self.keep(*self.get(packet.extra)) } else { packet.extra };
        Packet { extra, ..*packet }
    }

    /// Returns the report of an ACK on its way.
    pub(crate) fn get(&self, number: u32) -> &Report {
        &self.reports[number as usize]
    }

    /// Returns the report of an ACK on its way, to be changed.
    pub(crate) fn get_mut(&mut self, number: u32) -> &mut Report {
        &mut self.reports[number as usize]
    }

    /// Returns the congestion header of a packet on its way.
    pub(crate) fn header(&mut self, packet: &Packet) -> Option<&mut Header> {
        if !packet.has(REPORT) {
            return None;
        }
        self.reports[packet.extra as usize].header.as_mut()
    }

    /// Returns the report of a packet that has arrived, and frees it.
    pub(crate) fn take(&mut self, number: u32) -> Report {
        self.release(number);
        self.reports[number as usize]
    }

    /// Frees the report of a packet that was dropped.
    pub(crate) fn release(&mut self, number: u32) {
        self.free.push(number);
    }

    pub(crate) fn memory(&self) -> usize {
        self.reports.capacity() * size_of::<Report>() + self.free.capacity() * 4
    }
}
