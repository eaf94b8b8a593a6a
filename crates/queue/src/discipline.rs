//! What a discipline is asked, and what it is given.

use crate::explicit::Header;
use headway_units::{Bytes, Duration, Instant};

/// The queue that a packet finds on arrival.
#[derive(Clone, Copy, Debug)]
pub struct Backlog {
    /// Wire bytes waiting or in transmission, without the packet in question.
    ///
    /// The packet in transmission counts in full or with its remaining bytes.
    pub bytes: Bytes,
    /// Packets waiting or in transmission, without the packet in question.
    pub packets: u32,
    /// How long the queue has been empty; zero if it is not.
    pub idle: Duration,
    /// How long a packet that joins now waits until its own transmission starts.
    pub delay: Duration,
}

/// What a discipline sees of a packet.
#[derive(Debug)]
pub struct Packet<'a> {
    /// Its size on the wire.
    pub size: Bytes,
    /// Whether it is ECN-capable, so that it may be marked instead of dropped.
    pub ect: bool,
    /// Its congestion header, if it has one.
    pub header: Option<&'a mut Header>,
    /// Number or hash of its flow, where it is known.
    pub flow: Option<u32>,
}

impl Packet<'_> {
    /// Creates a packet without a congestion header.
    pub const fn new(size: Bytes, ect: bool) -> Self {
        Packet { size, ect, header: None, flow: None }
    }
}

/// What says in which queue a packet waits, besides its congestion header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Label {
    /// Number or hash of its flow.
    pub flow: u32,
    /// Whether its ECN field says ECT(1) or CE (RFC 9331).
    pub is_scalable: bool,
}

/// The fate of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It is forwarded unchanged.
    Accept,
    /// It is forwarded with a CE mark.
    Mark,
    /// It is dropped.
    Drop,
}

impl Verdict {
    /// Returns the congestion signal for a packet: a mark if it is ECN-capable, otherwise a drop.
    pub const fn congested(ect: bool) -> Verdict {
        if ect { Verdict::Mark } else { Verdict::Drop }
    }
}

/// Judges packets that arrive at and leave a FIFO queue.
pub trait Discipline {
    /// Judges an arriving packet (xcp-rcp 2.4 for those with a congestion header).
    fn on_arrival(&mut self, now: Instant, backlog: &Backlog, packet: &Packet<'_>) -> Verdict;

    /// Judges the packet at the head of the queue before transmission, and may rewrite its congestion header
    /// (xcp-rcp 2.7); it has waited for `waited`, and `backlog` is behind it.
    fn on_departure(
        &mut self,
        _now: Instant,
        _backlog: &Backlog,
        _waited: Duration,
        _packet: &mut Packet<'_>,
    ) -> Verdict {
        Verdict::Accept
    }

    /// Returns whether the discipline must see every packet as it departs: [`Discipline::on_departure`] may
    /// return anything but `Accept`, or headers are rewritten.
    fn judges_departures(&self) -> bool {
        false
    }

    /// Returns whether the times of departures depend on the discipline, because it may drop packets that
    /// depart or let them overtake each other. Where they do not, they are known when a packet arrives.
    fn delays_departures(&self) -> bool {
        self.judges_departures()
    }
}
