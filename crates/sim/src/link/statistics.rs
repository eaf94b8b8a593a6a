//! Counters of a link.

use headway_record::Histogram;
use headway_units::Bytes;

use crate::packet::Kind;

/// Packets and their wire bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// Packets.
    pub packets: u64,
    /// Wire bytes.
    pub bytes: Bytes,
}

impl Count {
    pub(crate) fn add(&mut self, size: u16) {
        self.packets += 1;
        self.bytes = Bytes::new(self.bytes.get().wrapping_add(size.into()));
    }

    /// Undoes [`Count::add_all`].
    pub(super) fn remove_all(&mut self, packets: u64, bytes: u64) {
        self.packets -= packets;
        self.bytes = Bytes::new(self.bytes.get().wrapping_sub(bytes));
    }

    /// Undoes [`Count::add`].
    pub(super) fn remove(&mut self, size: u16) {
        self.remove_all(1, size.into());
    }

    /// Returns this count without the packets of others that are part of it.
    fn without(self, others: &[Count]) -> Count {
        others.iter().fold(self, |rest, other| Count {
            packets: rest.packets - other.packets,
            bytes: Bytes::new(rest.bytes.get().wrapping_sub(other.bytes.get())),
        })
    }

    pub(super) fn add_all(&mut self, packets: u64, bytes: u64) {
        self.packets += packets;
        self.bytes = Bytes::new(self.bytes.get().wrapping_add(bytes));
    }
}

/// Packets since the start of the run. Each packet changes as few of these counters as
/// possible; all others follow.
#[derive(Clone, Debug, Default)]
pub(super) struct Totals {
    /// Accepted by the queue.
    pub(super) accepted: Count,
    /// Dropped on arrival, by the queue discipline or the policer.
    pub(super) refused: Count,
    /// Transmitted, or dropped while they waited or on departure.
    pub(super) left: Count,
    /// Of those, the dropped ones.
    pub(super) withdrawn: Count,
    /// Datagrams and probe packets transmitted.
    pub(super) datagrams: Count,
    pub(super) probes: Count,
    /// Transmitted, and neither delivered nor lost yet.
    pub(super) on_wire: Count,
    /// Lost on the wire.
    pub(super) lost: Count,
    /// Second copies that the wire made.
    pub(super) copies: Count,
    /// Packets damaged on the wire.
    pub(super) damaged: u64,
}

impl Totals {
    /// Counts a packet whose transmission has ended.
    #[inline(always)]
    pub(super) fn transmitted(&mut self, kind: Kind, size: u16) {
        self.left.add(size);
        match kind {
            Kind::Datagram => self.datagrams.add(size),
            Kind::Probe => self.probes.add(size),
            Kind::Segment | Kind::Train | Kind::Ack | Kind::Syn | Kind::SynAck => {}
            Kind::HandshakeAck | Kind::Damaged => {}
        }
    }

    /// Returns the packets queued or in service.
    pub(super) fn queued(&self) -> Count {
        self.accepted.without(&[self.left])
    }

    fn arrived(&self) -> Count {
        let mut arrived = self.accepted;
        arrived.add_all(self.refused.packets, self.refused.bytes.get());
        arrived
    }

    fn served_tcp(&self) -> Count {
        self.left.without(&[self.withdrawn, self.datagrams, self.probes])
    }

    fn delivered(&self) -> Count {
        let mut arrived = self.left;
        arrived.add_all(self.copies.packets, self.copies.bytes.get());
        arrived.without(&[self.withdrawn, self.on_wire, self.lost])
    }
}

/// Counters of a link since the start of the run or the last reset.
#[derive(Clone, Debug, Default)]
pub struct LinkStatistics {
    /// Packets that arrived at the link.
    pub arrived: Count,
    /// TCP segments and ACKs whose transmission has ended.
    pub served_tcp: Count,
    /// Datagrams of sources whose transmission has ended.
    pub served_other: Count,
    /// Probe packets whose transmission has ended.
    pub served_probe: Count,
    /// Packets delivered at the far end, second copies included.
    pub delivered: Count,
    /// Packets dropped by the queue discipline.
    pub dropped: Count,
    /// Packets dropped by the policer.
    pub policed: Count,
    /// ACKs that the ACK filter dropped.
    pub thinned: Count,
    /// Packets lost on the wire.
    pub lost: Count,
    /// Second copies of packets that the wire made.
    pub copies: Count,
    /// Packets damaged on the wire.
    pub damaged: u64,
    /// Packets marked CE.
    pub marked: u64,
    /// Queueing delay of all packets served: time between arrival and start of transmission.
    pub delay: Histogram,
}

impl LinkStatistics {
    /// Updates what follows from the totals now and at the last reset.
    pub(super) fn update(&mut self, now: &Totals, reset: &Totals) {
        self.arrived = now.arrived().without(&[reset.arrived()]);
        self.served_tcp = now.served_tcp().without(&[reset.served_tcp()]);
        self.served_other = now.datagrams.without(&[reset.datagrams]);
        self.served_probe = now.probes.without(&[reset.probes]);
        self.delivered = now.delivered().without(&[reset.delivered()]);
        self.lost = now.lost.without(&[reset.lost]);
        self.copies = now.copies.without(&[reset.copies]);
        self.damaged = now.damaged - reset.damaged;
    }
}
