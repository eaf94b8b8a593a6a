//! The packets in flight in the order of sending, and what becomes of them (rapid 1.4, T_S).

use std::collections::VecDeque;

use headway_arithmetic::rapid::{Packet, Stream};

use super::super::{Ack, Arrival, Departure};
use headway_units::{Duration, Instant};

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

    /// Bytes of memory that the packets take.
    pub(super) fn memory(&self) -> usize {
        self.sent.capacity() * size_of::<Sent>()
    }

    /// The numbers of first transmissions whose fate is unknown.
    #[cfg(test)]
    pub(super) fn originals(&self) -> Vec<u64> {
        self.sent.iter().filter(|packet| !packet.retransmission).map(|packet| packet.segment).collect()
    }

    /// Tells `settled` of all packets whose fate is known now: of those sent before the one that caused the
    /// acknowledgement, and of those that it covers.
    pub(super) fn on_ack(&mut self, ack: &Ack, settled: &mut impl FnMut(&Packet)) {
        self.una = self.una.max(ack.una);
        if let Some(arrival) = ack.arrival {
            let stamp = self.stamp(ack, &arrival);
            self.settle_until(arrival.segment, stamp, settled);
        }
        while self.sent.front().is_some_and(|packet| packet.segment < self.una) {
            self.settle_first(None, settled);
        }
    }

    /// Tells `settled` of the packets sent before `segment` for the first time, and of that one, which arrived with this
    /// stamp.
    fn settle_until(&mut self, segment: u64, stamp: u32, settled: &mut impl FnMut(&Packet)) {
        while let Some(packet) = self.sent.front() {
            if packet.retransmission || packet.segment < segment {
                self.settle_first(None, settled);
            } else {
                if packet.segment == segment {
                    self.settle_first(Some(stamp), settled);
                }
                return;
            }
        }
    }

    /// Removes the first packet and tells `settled` of it, with its stamp if it is the one that arrived.
    fn settle_first(&mut self, arrived: Option<u32>, settled: &mut impl FnMut(&Packet)) {
        let Some(sent) = self.sent.pop_front() else { return };
        // Every segment above a hole is acknowledged by itself, so one that a later one overtakes is missing.
        let lost = !sent.retransmission && arrived.is_none() && sent.segment >= self.una;
        let usable = sent.probe && (self.bridges_holes || !lost && !sent.retransmission);
        let Sent { gap, stream, index, packets, .. } = sent;
        if sent.after_idle {
            // An idle time is no gap, so the next p-stream begins without the last one's arrival.
            settled(&Packet { stream, index, unusable: 1, ..Packet::default() });
        }
        let (unusable, stamp) = (u32::from(!usable), arrived.unwrap_or(0));
        settled(&Packet { gap, stream, index, stamp, unusable, packets, lost: lost.into() });
    }

    /// The receiver's stamp, 0 if it has stamped others only, or when the acknowledgement arrived if it stamps nothing.
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
