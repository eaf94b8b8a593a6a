//! The packets in flight in the order of sending, and what becomes of them (rapid 1.4, T_S).

use std::collections::VecDeque;

use headway_arithmetic::rapid::{Packet, Rapid, Stream};

use super::super::{Ack, Arrival, Departure};
use crate::units::{Duration, Instant};

/// A packet in flight.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sent {
    segment: u64,
    /// Time since the departure before it, ns.
    gap: u64,
    stream: u32,
    index: u32,
    /// Packets in its p-stream.
    packets: u32,
    retransmission: bool,
    /// Whether it belongs to a p-stream.
    probe: bool,
    /// Whether the gap before it is an idle time.
    after_idle: bool,
}

impl Sent {
    /// A packet of a p-stream, unless it is shorter than the others.
    pub(super) fn in_stream(departure: &Departure, stream: &Stream, index: u32, after_idle: bool) -> Sent {
        let (probe, packets) = (departure.full, stream.shape.len());
        Sent { probe, stream: stream.id, index, packets, after_idle, ..Sent::outside(departure) }
    }

    /// A packet that belongs to no p-stream.
    pub(super) fn outside(departure: &Departure) -> Sent {
        Sent {
            segment: departure.segment,
            gap: 0,
            stream: 0,
            index: 0,
            packets: 0,
            retransmission: departure.retransmission,
            probe: false,
            after_idle: false,
        }
    }
}

/// All packets in flight.
#[derive(Clone, Debug)]
pub(super) struct Flight {
    sent: VecDeque<Sent>,
    /// When the last packet left.
    last: Instant,
    una: u64,
    /// Whether a lost packet counts as one without a stamp, and a p-stream with holes yields an estimate.
    bridges_holes: bool,
    unit: Duration,
    /// Whether the receiver has stamped a segment.
    has_stamps: bool,
}

impl Flight {
    pub(super) fn new(bridges_holes: bool, unit: Duration) -> Flight {
        let (sent, last) = (VecDeque::new(), Instant::ZERO);
        Flight { sent, last, una: 0, bridges_holes, unit, has_stamps: false }
    }

    /// A packet leaves at `at`.
    pub(super) fn push(&mut self, packet: Sent, at: Instant) {
        let gap = (at - self.last).ns().unsigned_abs();
        self.sent.push_back(Sent { gap, ..packet });
        self.last = at;
    }

    /// The number of packets whose fate is unknown.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.sent.len()
    }

    /// Tells `rapid` of all packets whose fate is known now: of those sent before the one that caused the
    /// acknowledgement, and of those that it covers.
    pub(super) fn on_ack(&mut self, ack: &Ack, rapid: &mut Rapid) {
        self.una = self.una.max(ack.una);
        let Some(arrival) = ack.arrival else { return self.settle_acknowledged(rapid) };
        let stamp = self.stamp(ack, &arrival);
        while let Some(packet) = self.sent.front() {
            let arrived = !packet.retransmission && packet.segment >= arrival.segment;
            if arrived && packet.segment > arrival.segment {
                return;
            }
            self.settle_first(if arrived { stamp } else { 0 }, rapid);
            if arrived {
                return;
            }
        }
    }

    /// Tells `rapid` of the packets that are acknowledged, none of which has a stamp.
    fn settle_acknowledged(&mut self, rapid: &mut Rapid) {
        while self.sent.front().is_some_and(|packet| packet.segment < self.una) {
            self.settle_first(0, rapid);
        }
    }

    /// Removes the first packet and tells `rapid` of it.
    fn settle_first(&mut self, stamp: u32, rapid: &mut Rapid) {
        let Some(sent) = self.sent.pop_front() else { return };
        // Every segment above a hole is acknowledged by itself, so one that a later one overtakes is missing.
        let hole = sent.retransmission || stamp == 0 && sent.segment >= self.una;
        let usable = sent.probe && (self.bridges_holes || !hole);
        let Sent { gap, stream, index, packets, .. } = sent;
        if sent.after_idle {
            // An idle time is no gap, so the next p-stream begins without the last one's arrival.
            rapid.on_packet(&Packet { stream, index, unusable: 1, ..Packet::default() });
        }
        let (unusable, lost) = (u32::from(!usable), u32::from(hole && !sent.retransmission));
        rapid.on_packet(&Packet { gap, stream, index, stamp, unusable, packets, lost });
    }

    /// The receiver's stamp, or when the acknowledgement arrived if there are none; never 0, which means none.
    fn stamp(&mut self, ack: &Ack, arrival: &Arrival) -> u32 {
        match arrival.stamp {
            Some(stamp) => {
                self.has_stamps = true;
                stamp
            }
            None if self.has_stamps => 0,
            None => ((ack.now.ns() / self.unit.ns().unsigned_abs().max(1)) as u32).max(1),
        }
    }
}
