//! The packet, which is copied from ring to ring, and the SACK blocks that few acknowledgements carry.

/// What a packet carries.
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
    /// A TCP acknowledgement without data.
    Ack,
    /// The packet that asks for a TCP connection, and the answer.
    Syn,
    SynAck,
}

/// The packet is ECN-capable.
pub(crate) const ECT: u8 = 1;
/// A queue has marked the packet.
pub(crate) const CE: u8 = 2;
/// Echo of a mark, in acknowledgements.
pub(crate) const ECE: u8 = 4;
/// The sender has reduced its window (RFC 3168).
pub(crate) const CWR: u8 = 8;
/// The segment was sent before; in an acknowledgement: the segment that caused it was.
pub(crate) const RETRANSMITTED: u8 = 16;
/// The packet does not reach the end of the link it is on.
pub(crate) const LOST: u8 = 32;
/// A probe of a closed receive window; carries no data.
pub(crate) const WINDOW_PROBE: u8 = 64;
/// In an acknowledgement: the segment that caused it had arrived before (RFC 2883).
pub(crate) const DUPLICATE: u8 = 64;

/// `extra` of this acknowledgement is the number of its [`Report`].
pub(crate) const REPORT: u8 = 128;

/// A packet on its way, or a train: segments of one flow that joined a link at the same instant, one behind the other, and differ in
/// nothing but their number. It is small so that what is under way on a long fat path stays in the second-level cache.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub(crate) struct Packet {
    /// On a link: when it arrives at the far end (ns), or when it joined the queue while it waits there.
    pub at: u64,
    /// When the segment was sent (ns); in an acknowledgement: when the segment that caused it was sent, in an answer: when it was asked.
    pub sent: u64,
    /// Number of the segment or datagram; in an acknowledgement: of the first segment that is missing.
    pub seq: u64,
    /// Flow, source or prober it belongs to.
    pub owner: u32,
    /// Where in the table of routes its next hop stands.
    pub route: u32,
    /// In an acknowledgement: segments that the receiver has room for beyond `seq`, or the number of its report. On a link, in a segment:
    /// how many more the train has.
    pub extra: u32,
    /// Bytes on the wire.
    pub size: u16,
    pub kind: Kind,
    pub flags: u8,
    /// On a link: when it joined (ns); in a train, which joined when it was sent: what rounding its times has left over, as
    /// [`crate::service::Step`] counts.
    pub joined: u64,
}

const _: () = assert!(size_of::<Packet>() == 48);

impl Packet {
    /// When it joined the link it is on (ns).
    #[inline]
    pub(crate) fn joined(&self) -> u64 {
        if self.count() > 1 { self.sent } else { self.joined }
    }

    /// Packets of the train, one for a packet by itself.
    #[inline]
    pub(crate) fn count(&self) -> u64 {
        if self.kind == Kind::Segment { u64::from(self.extra) + 1 } else { 1 }
    }

    #[inline]
    pub(crate) fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }
}

/// SACK blocks that fit beside the timestamp option (RFC 2018).
pub(crate) const SACK_BLOCKS: usize = 3;

/// What an acknowledgement with SACK blocks says besides its number.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Report {
    /// Segments that the receiver has room for.
    pub window: u32,
    /// Offsets from the acknowledgement's number, first and one past the last; empty ones are (0, 0).
    pub blocks: [(u32, u32); SACK_BLOCKS],
}

impl Report {
    /// The blocks in ascending order: a block below another of the same report says nothing about which came first.
    pub(crate) fn ascending(&self) -> impl Iterator<Item = (u32, u32)> + use<> {
        let mut blocks = self.blocks;
        blocks.sort_unstable();
        blocks.into_iter().filter(|block| block.1 > 0)
    }
}

/// The reports of all acknowledgements under way.
#[derive(Debug, Default)]
pub(crate) struct Reports {
    reports: Vec<Report>,
    free: Vec<u32>,
}

impl Reports {
    /// Whether there is no room for another report.
    #[inline]
    pub(crate) fn is_full(&self) -> bool {
        self.free.is_empty() && self.reports.len() == self.reports.capacity()
    }

    /// Makes room until at least half of it is free, so that it is seldom full.
    pub(crate) fn reserve(&mut self) {
        if self.free.len() <= self.reports.len() / 2 {
            self.reports.reserve(self.reports.len().max(64));
        }
    }

    /// Keeps a report and gives its number.
    pub(crate) fn keep(&mut self, report: Report) -> u32 {
        if let Some(number) = self.free.pop() {
            self.reports[number as usize] = report;
            return number;
        }
        self.reports.push(report);
        (self.reports.len() - 1) as u32
    }

    /// Takes out the report of an acknowledgement that has arrived.
    pub(crate) fn take(&mut self, number: u32) -> Report {
        self.release(number);
        self.reports[number as usize]
    }

    /// Forgets the report of an acknowledgement that has been dropped.
    pub(crate) fn release(&mut self, number: u32) {
        self.free.push(number);
    }

    pub(crate) fn memory(&self) -> usize {
        self.reports.capacity() * size_of::<Report>() + self.free.capacity() * 4
    }
}
