//! Links that serve their queue packet by packet.

use std::collections::BTreeMap;

use headway_queue::{Label, Queue, Verdict};
use headway_units::{Bytes, Instant, WIRE_OVERHEAD};

use super::wire::Wire;
use super::{Link, NextEvent};
use crate::packet::{Kind, LOST, Packet, Reports};
use headway_link::{Waiting, Waits};

/// The queue and the wire of a link that serves its queue packet by packet.
#[derive(Debug)]
pub(super) struct Staged {
    /// Packets that wait.
    pub(super) waiting: Waiting<Packet>,
    pub(super) sending: Option<Packet>,
    pub(super) wire: Wire,
    /// Earliest arrival of the next packet (ns) unless packets may overtake each other.
    pub(super) last: u64,
    /// Packets in flight by arrival time and sequence number, where they may overtake each other.
    pub(super) overtaking: Option<BTreeMap<(u64, u64), Packet>>,
    pub(super) entered: u64,
}

impl Staged {
    pub(super) fn bytes_sending(&self) -> u64 {
        self.sending.map_or(0, |packet| packet.size.into())
    }

    /// Returns the IP bytes and the packets that wait, without the one in transmission.
    pub(super) fn waiting(&self) -> (u64, u32) {
        self.waiting.iter().fold((0, 0), |(bytes, packets), packet| {
            (bytes + u64::from(packet.size).saturating_sub(WIRE_OVERHEAD.get()), packets + 1)
        })
    }
}

impl Waits for Packet {
    fn size(&self) -> Bytes {
        Bytes::new(self.size.into())
    }

    fn arrived(&self) -> Instant {
        Instant::from_ns(self.at)
    }

    fn label(&self) -> Label {
        self.label()
    }
}

impl Link {
    /// Returns the number of the queue in which a packet waits, which is to be judged next.
    fn sort(&mut self, packet: &Packet, reports: &mut Reports) -> usize {
        if self.queue.queues() == 1 {
            return 0;
        }
        self.queue.sort(reports.header(packet).as_deref(), packet.label())
    }

    /// Adds a packet to its queue and serves it at once if the server is idle.
    pub(super) fn enqueue(&mut self, now: u64, packet: &Packet, reports: &mut Reports) -> NextEvent {
        let number = self.sort(packet, reports);
        let Some(staged) = &mut self.staged else { return NextEvent::None };
        staged.waiting.push(number, Packet { at: now, route: packet.route + 1, ..*packet });
        let is_idle = staged.sending.is_none();
        if matches!(self.queue, Queue::FqCodel(_)) {
            self.drop_excess();
        }
        if self.filters_acks && packet.kind == Kind::Ack {
            self.filter_acks(number);
        }
        if is_idle { self.start_next(now, reports) } else { NextEvent::None }
    }

    /// Drops packets while all queues together are too long.
    fn drop_excess(&mut self) {
        while let Some(staged) = &mut self.staged
            && let Some(packet) = staged.waiting.pop_excess(&mut self.queue)
        {
            self.drop_waiting(&packet);
        }
    }

    /// Distributes the packets that wait after another discipline has taken the place of
    /// one with other queues.
    pub(super) fn regroup(&mut self, reports: &mut Reports) {
        let Some(staged) = &mut self.staged else { return };
        let packets = staged.waiting.regroup(&self.queue);
        for packet in packets {
            let number = self.sort(&packet, reports);
            let (header, size) = (reports.header(&packet), Bytes::new(packet.size.into()));
            self.queue.take_over(header.as_deref(), Instant::from_ns(packet.at), size);
            if let Some(staged) = &mut self.staged {
                staged.waiting.push(number, packet);
            }
        }
        self.drop_excess();
    }

    /// Counts a packet that is dropped although its queue had accepted it.
    fn drop_waiting(&mut self, packet: &Packet) {
        self.statistics.dropped.add(packet.size);
        self.withdraw(packet);
    }

    /// A packet that the queue had accepted leaves it without being sent.
    pub(super) fn withdraw(&mut self, packet: &Packet) {
        self.totals.left.add(packet.size);
        self.totals.withdrawn.add(packet.size);
        if packet.kind != Kind::Probe {
            self.withdrawn += u64::from(packet.size);
        }
        if packet.kind == Kind::Datagram {
            self.accepted_datagrams -= u64::from(packet.size);
        }
        self.discard(packet);
    }

    /// Serves the next packet of the queue that the discipline does not drop.
    fn start_next(&mut self, now: u64, reports: &mut Reports) -> NextEvent {
        while let Some(staged) = &mut self.staged
            && let Some(mut packet) = staged.waiting.pop(&mut self.queue)
        {
            let waited = now - packet.at;
            match self.judge(now, waited, &packet, reports) {
                Verdict::Accept => {}
                Verdict::Mark => packet.flags |= self.mark(),
                Verdict::Drop => {
                    self.drop_waiting(&packet);
                    continue;
                }
            }
            self.statistics.delay.add(waited);
            self.free = if self.is_wifi { now } else { self.server.finish(now, packet.size) };
            if let Some(staged) = &mut self.staged {
                staged.sending = Some(packet);
            }
            return if self.is_wifi { NextEvent::Contend(packet.size) } else { NextEvent::Serve(self.free) };
        }
        NextEvent::None
    }

    /// The transmission of a packet has ended: puts it on the wire, unless it has not `arrived` there, and
    /// serves the next one. Returns the events of both.
    pub(crate) fn serve(&mut self, now: u64, arrived: bool, reports: &mut Reports) -> (NextEvent, NextEvent) {
        let Some(packet) = self.staged.as_mut().and_then(|staged| staged.sending.take()) else {
            return (NextEvent::None, NextEvent::None);
        };
        self.totals.transmitted(packet.kind, packet.size);
        self.totals.on_wire.add(packet.size);
        let arrival = self.propagate(now, packet, arrived, reports);
        (arrival, self.start_next(now, reports))
    }

    /// Puts a packet on the wire, where it may be lost, damaged or doubled.
    fn propagate(&mut self, now: u64, mut packet: Packet, arrived: bool, reports: &mut Reports) -> NextEvent {
        let lost = self.loses(now) || !arrived;
        let Some(staged) = &mut self.staged else { return NextEvent::None };
        let delay = staged.wire.delay(now, &mut self.rng);
        (packet.at, packet.joined) = (now + delay, now);
        let is_doubled = if lost {
            packet.flags |= LOST;
            false
        } else {
            staged.wire.pass(&mut packet, &mut self.totals)
        };
        let copy = is_doubled.then(|| reports.copy(&packet));
        let event = self.fly(now, packet);
        if let Some(copy) = copy {
            self.totals.on_wire.add(copy.size);
            self.totals.copies.add(copy.size);
            // It arrives right behind the first one.
            self.fly(now, copy);
        }
        event
    }

    /// Adds a packet to those on the wire.
    fn fly(&mut self, now: u64, mut packet: Packet) -> NextEvent {
        let Some(staged) = &mut self.staged else { return NextEvent::None };
        if let Some(flight) = &mut staged.overtaking {
            staged.entered += 1;
            let first = flight.first_key_value().is_none_or(|((at, _), _)| packet.at < *at);
            flight.insert((packet.at, staged.entered), packet);
            return if first { NextEvent::Arrival { at: packet.at, since: now } } else { NextEvent::None };
        }
        packet.at = packet.at.max(staged.last);
        staged.last = packet.at;
        let first = self.flight.is_empty();
        self.flight.push(packet);
        if first { self.first_arrival(now, packet.at) } else { NextEvent::None }
    }
}
