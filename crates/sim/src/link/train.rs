//! Trains: segments that join a link at the same instant and share one slot of its ring.

use super::{Link, NextEvent};
use crate::packet::{Kind, Packet, Reports};
use headway_link::Spacing;

impl Link {
    /// Accepts a segment and the `more` segments behind it, at least one, which differ only in
    /// their sequence numbers.
    #[inline(never)]
    pub(crate) fn push_train(
        &mut self,
        now: u64,
        packet: Packet,
        more: u32,
        reports: &mut Reports,
    ) -> NextEvent {
        let (count, start) = (u64::from(more) + 1, now.max(self.free));
        let spacing = self.spacing_of(packet.size);
        let fits =
            |spacing: &Spacing| (start - now).saturating_add(spacing.upper_bound(count)) < self.admit_below;
        let (Some(spacing), Some(server)) = (spacing.filter(fits), self.server.constant()) else {
            return self.push_one_by_one(now, &packet, count, reports);
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
        self.totals.accepted.add_all(count, bytes);
        let at = served.first + self.delay;
        let first = self.flight.is_empty();
        self.flight.push(Packet {
            at,
            kind: Kind::Train,
            route: packet.route + 1,
            extra: more,
            joined: served.carry,
            ..packet
        });
        if first { self.first_arrival(now, at) } else { NextEvent::None }
    }

    /// Accepts the segments of a train one by one, where the queueing delay alone does not
    /// guarantee that all fit.
    #[inline(never)]
    fn push_one_by_one(&mut self, now: u64, packet: &Packet, count: u64, reports: &mut Reports) -> NextEvent {
        let first = self.push(now, *packet, reports);
        (1..count).fold(first, |next_event, offset| {
            let next = self.push(now, Packet { seq: packet.seq + offset, ..*packet }, reports);
            if next_event == NextEvent::None { next } else { next_event }
        })
    }

    /// Returns the spacing of packets in a train; `None` on links without trains.
    pub(super) fn spacing_of(&mut self, size: u16) -> Option<Spacing> {
        if self.spacing.is_none_or(|spacing| spacing.size != size) {
            self.spacing = if !self.is_lossy { self.server.spacing(size) } else { None };
        }
        self.spacing
    }

    /// Whether a train arrives next.
    #[inline(always)]
    pub(crate) fn is_train_next(&self) -> bool {
        self.flight.front().is_some_and(|packet| packet.kind == Kind::Train)
    }

    /// Returns the train that arrives next, and the spacing of its segments.
    pub(crate) fn next_train(&mut self) -> Option<(Packet, Spacing)> {
        let train = *self.flight.front()?;
        Some((train, self.spacing_of(train.size)?))
    }

    /// Removes from the train that arrives next the segments before those of `rest`; they have arrived.
    pub(crate) fn shorten_train(&mut self, rest: &Packet) {
        let train = self.flight.first();
        let count = rest.seq - train.seq;
        *train = *rest;
        if rest.extra == 0 {
            (train.kind, train.joined) = (Kind::Segment, train.sent);
        }
        let served = count.min(self.totals.on_wire.packets);
        self.totals.on_wire.remove_all(served, served * u64::from(rest.size));
        if self.unserved == self.flight.head() {
            self.train_served = self.train_served.saturating_sub(served);
        }
        if count > served {
            // Their transmission has not been counted yet.
            self.unserved = self.flight.head();
            self.totals.left.add_all(count - served, (count - served) * u64::from(rest.size));
        }
    }
}

#[cfg(test)]
mod tests {
    use headway_queue::{DropTailConfig, QueueSpec};
    use headway_units::{Bytes, Duration, Rate};
    use proptest::prelude::*;

    use super::*;
    use crate::config::{LinkConfig, Service};

    fn link(rate: u64, limit: u64) -> Link {
        let spec = QueueSpec::DropTail(DropTailConfig { limit: Some(Bytes::new(limit)), packets: None });
        let rate = Rate::from_bps(rate);
        let queue = spec.build(Some(rate), 1);
        Link::new(&LinkConfig::new(Service::Constant(rate), Duration::from_us(50), queue), 1, 0)
    }

    /// Takes all packets that arrive by `until`, with their times.
    fn arrivals(link: &mut Link, next: &mut Option<u64>, until: u64) -> Vec<(u64, u64, u32)> {
        let mut arrived = Vec::new();
        while let Some(at) = next.filter(|at| *at <= until) {
            if link.is_train_next()
                && let Some((mut train, spacing)) = link.next_train()
            {
                arrived.push((at, train.seq, train.owner));
                (train.seq, train.extra) = (train.seq + 1, train.extra - 1);
                train.at = spacing.after(train.at, &mut train.joined);
                link.shorten_train(&train);
                *next = Some(train.at);
                continue;
            }
            let (packet, event) = link.arrive(at, &mut Reports::default());
            arrived.extend(packet.map(|packet| (at, packet.seq, packet.owner)));
            *next = match event {
                NextEvent::Arrival { at, .. } => Some(at),
                _ => None,
            };
        }
        arrived
    }

    proptest! {
        #[test]
        fn a_train_is_its_segments_one_by_one(
            rate in 1_000_000u64..40_000_000_000,
            limit in 3_100u64..400_000,
            bursts in prop::collection::vec((0u64..400_000, 2u32..46, 100u16..1_539, 0u32..3), 1..40),
        ) {
            let (mut whole, mut single) = (link(rate, limit), link(rate, limit));
            let (mut next_of_whole, mut next_of_single) = (None, None);
            let (mut now, mut seq) = (0, 0);
            for (pause, count, size, owner) in bursts {
                now += pause;
                let arrived = arrivals(&mut whole, &mut next_of_whole, now);
                prop_assert_eq!(arrived, arrivals(&mut single, &mut next_of_single, now));
                let packet = Packet { seq, owner, size, sent: now, kind: Kind::Segment, ..Packet::default() };
                if let NextEvent::Arrival { at, .. } = whole.push_train(now, packet, count - 1, &mut Reports::default()) {
                    next_of_whole = Some(at);
                }
                for offset in 0..u64::from(count) {
                    if let NextEvent::Arrival { at, .. } = single.push(now, Packet { seq: seq + offset, ..packet }, &mut Reports::default()) {
                        next_of_single = Some(at);
                    }
                }
                seq += u64::from(count);
                prop_assert_eq!(next_of_whole, next_of_single);
                whole.catch_up(now, &mut Reports::default());
                single.catch_up(now, &mut Reports::default());
                prop_assert_eq!(whole.queued(), single.queued());
                prop_assert_eq!(format!("{:?}", whole.statistics()), format!("{:?}", single.statistics()));
            }
            let end = now + 1_000_000_000_000;
            let arrived = arrivals(&mut whole, &mut next_of_whole, end);
            prop_assert_eq!(arrived, arrivals(&mut single, &mut next_of_single, end));
            whole.catch_up(end, &mut Reports::default());
            single.catch_up(end, &mut Reports::default());
            prop_assert_eq!(format!("{:?}", whole.statistics()), format!("{:?}", single.statistics()));
        }
    }
}
