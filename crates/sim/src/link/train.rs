//! Trains: segments that join a link at the same instant and take one place in its ring.

use super::{Link, Wish};
use crate::packet::Packet;
use crate::service::Step;

impl Link {
    /// A segment and `more` behind it, which differ in nothing but their number, join the link.
    #[inline(never)]
    pub(crate) fn push_train(&mut self, now: u64, packet: Packet, more: u32) -> Wish {
        let (count, start) = (u64::from(more) + 1, now.max(self.free));
        let step = self.step_of(packet.size);
        let fits = |step: &Step| (start - now).saturating_add(step.at_most(count)) < self.ample;
        let (Some(step), Some(server)) = (step.filter(fits), self.server.constant()) else {
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
                at = step.after(at, &mut carry);
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
        if first { self.first_arrival(now, at) } else { Wish::Nothing }
    }

    /// The segments of a train join the link where it does not follow from the time alone that all are admitted.
    #[inline(never)]
    fn push_one_by_one(&mut self, now: u64, packet: &Packet, count: u64) -> Wish {
        let first = self.push(now, *packet);
        (1..count).fold(first, |wish, offset| {
            let next = self.push(now, Packet { seq: packet.seq + offset, ..*packet });
            if wish == Wish::Nothing { next } else { wish }
        })
    }

    /// The time between packets of a train; none where there are no trains.
    #[inline]
    pub(super) fn step_of(&mut self, size: u16) -> Option<Step> {
        if self.step.is_none_or(|step| step.size != size) {
            self.step = if self.loss == 0 { self.server.step(size) } else { None };
        }
        self.step
    }

    /// Takes the first packet off a train.
    #[inline]
    pub(super) fn uncouple(&mut self) -> Option<Packet> {
        let step = self.step_of(self.flight.front()?.size)?;
        let train = self.flight.front_mut()?;
        let packet = Packet { extra: 0, ..*train };
        train.seq += 1;
        train.extra -= 1;
        train.at = step.after(train.at, &mut train.joined);
        if train.extra == 0 {
            train.joined = train.sent;
        }
        Some(packet)
    }
}
