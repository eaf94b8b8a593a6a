//! Trains: segments that join a link at the same instant and share one slot of its ring.

use super::{Link, NextEvent};
use crate::packet::Packet;
use crate::service::Spacing;

impl Link {
    /// Accepts a segment and the `more` segments behind it, which differ only in their sequence numbers.
    #[inline(never)]
    pub(crate) fn push_train(&mut self, now: u64, packet: Packet, more: u32) -> NextEvent {
        let (count, start) = (u64::from(more) + 1, now.max(self.free));
        let spacing = self.spacing_of(packet.size);
        let fits =
            |spacing: &Spacing| (start - now).saturating_add(spacing.upper_bound(count)) < self.admit_below;
        let (Some(spacing), Some(server)) = (spacing.filter(fits), self.server.constant()) else {
            return self.push_one_by_one(now, &packet, count);
        };
        let served = server.finish_train(start, packet.size, count);
        self.free = served.last;
        let delay = &mut self.statistics.delay;
        if !delay.add_all(start - now, served.last_start - now, count, served.waits) {
            delay.add(start - now);
            let (mut at, mut carry) = (served.first, served.carry);
            for _ in 1..count {
                delay.add(at - now);
                at = spacing.after(at, &mut carry);
            }
        }
        let bytes = count * u64::from(packet.size);
        self.statistics.arrived.add_all(count, bytes);
        self.backlog += bytes;
        self.waiting += count as u32;
        self.accepted += bytes;
        let at = served.first + self.delay;
        let first = self.flight.len() == 0;
        self.flight.push(Packet { at, route: packet.route + 1, extra: more, joined: served.carry, ..packet });
        if first { self.first_arrival(now, at) } else { NextEvent::None }
    }

    /// Accepts the segments of a train one by one, where the queueing delay alone does not guarantee that all fit.
    #[inline(never)]
    fn push_one_by_one(&mut self, now: u64, packet: &Packet, count: u64) -> NextEvent {
        let first = self.push(now, *packet);
        (1..count).fold(first, |next_event, offset| {
            let next = self.push(now, Packet { seq: packet.seq + offset, ..*packet });
            if next_event == NextEvent::None { next } else { next_event }
        })
    }

    /// Returns the spacing of packets in a train; `None` on links without trains.
    #[inline]
    pub(super) fn spacing_of(&mut self, size: u16) -> Option<Spacing> {
        if self.spacing.is_none_or(|spacing| spacing.size != size) {
            self.spacing = if self.loss == 0 { self.server.spacing(size) } else { None };
        }
        self.spacing
    }

    /// Takes the first packet off a train.
    #[inline]
    pub(super) fn take_from_train(&mut self) -> Option<Packet> {
        let spacing = self.spacing_of(self.flight.front()?.size)?;
        let train = self.flight.front_mut()?;
        let packet = Packet { extra: 0, ..*train };
        train.seq += 1;
        train.extra -= 1;
        train.at = spacing.after(train.at, &mut train.joined);
        if train.extra == 0 {
            train.joined = train.sent;
        }
        Some(packet)
    }
}
