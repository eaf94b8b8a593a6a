//! The event loop of a network: dispatch and handlers of events, and forwarding from link to link.

use headway_core::Instant;

use super::partitions::Partitions;
use super::{DESTINATION, NO_CARD, Network};
use crate::link::{Link, NextEvent};
use crate::packet::{Kind, Packet, REPORT};
use crate::schedule::{Event, EventKind, Schedule};

impl Network {
    /// Returns the time of the next event; `None` when no event is pending.
    pub fn next_event(&self) -> Option<Instant> {
        self.earliest().map(|(time, _)| Instant::from_ns(time))
    }

    /// Returns the time and the partition of the next event.
    fn earliest(&self) -> Option<(u64, usize)> {
        let times = self.schedules.iter().map(|schedule| schedule.peek().map(|event| event.time()));
        times.enumerate().filter_map(|(partition, time)| Some((time?, partition))).min()
    }

    /// Advances to `end`; events at `end` are handled.
    pub fn run_until(&mut self, end: Instant) {
        self.run_some(end, u64::MAX);
    }

    /// Advances to `end`, but handles at most `events` events; returns false when the event budget ran out before
    /// `end`.
    pub fn run_some(&mut self, end: Instant, events: u64) -> bool {
        if std::mem::take(&mut self.topology_changed) {
            self.assign_partitions();
        }
        let end = end.ns();
        let last = self.events.saturating_add(events);
        while let Some((first, partition)) = self.earliest()
            && first <= end
        {
            self.partition = partition;
            let horizon = first.saturating_add(self.partitions.lookahead[partition]) - 1;
            if !self.run_partition(end.min(horizon), last) {
                return false;
            }
        }
        self.now = self.now.max(end);
        for link in &mut self.links {
            link.catch_up(end);
        }
        true
    }

    /// Advances the current partition to `end`; returns false when event number `last` was handled before.
    fn run_partition(&mut self, end: u64, last: u64) -> bool {
        while let Some(event) = self.schedules[self.partition].peek()
            && event.time() <= end
        {
            if self.events == last {
                return false;
            }
            self.now = event.time();
            self.events += 1;
            match event.kind() {
                EventKind::Arrival => self.on_arrival(event.index(), (end, last)),
                EventKind::Served => self.on_served(event.index()),
                EventKind::Send => self.on_send(event.index()),
                EventKind::Retransmit => self.on_retransmit(event.index()),
                EventKind::Acknowledge => self.on_acknowledge(event.index()),
                EventKind::Source => self.on_source(event.index()),
                EventKind::Probe => self.on_probe(event.index()),
                EventKind::Card => self.on_card(event.index()),
            }
        }
        true
    }

    /// Computes the partitions and distributes the pending events among them.
    fn assign_partitions(&mut self) {
        let delays: Vec<u64> = self.links.iter().map(Link::min_latency).collect();
        self.partitions = Partitions::new(&self.constraints, &delays);
        for flow in &mut self.flows {
            flow.update_partitions(&self.partitions, &self.routes);
        }
        let mut events: Vec<Event> = self.schedules.iter_mut().flat_map(Schedule::take_all).collect();
        events.sort_unstable();
        let sequence = self.schedules.iter().map(Schedule::sequence).max().unwrap_or(0);
        self.schedules =
            self.partitions.lookahead.iter().map(|_| Schedule::with_sequence(sequence)).collect();
        for event in events {
            let partition = self.partition_of(event);
            self.schedules[partition].put(event);
        }
    }

    /// Returns the partition that handles an event.
    fn partition_of(&self, event: Event) -> usize {
        let (index, partitions) = (event.index(), &self.partitions);
        let first = |route: u32| partitions.ingress(self.routes[route as usize]);
        match event.kind() {
            EventKind::Arrival => partitions.egress(index as u32),
            EventKind::Served => partitions.ingress(index as u32),
            EventKind::Send | EventKind::Retransmit => self.flows[index].sender_partition.into(),
            EventKind::Acknowledge => self.flows[index].receiver_partition.into(),
            EventKind::Source => first(self.sources[index].route()),
            EventKind::Probe => first(self.probers[index].route()),
            EventKind::Card => self.cards[index].link.map_or(0, |link| partitions.egress(link.0)),
        }
    }

    /// Delivers the first packet on a link, and those behind it while no other event comes first, up to the time
    /// `end` and the event number `last`.
    #[inline]
    fn on_arrival(&mut self, index: usize, (end, last): (u64, u64)) {
        loop {
            let (packet, next_event) = self.links[index].arrive(self.now);
            let NextEvent::Arrival { at, since } = next_event else {
                self.schedules[self.partition].remove_first();
                if let Some(packet) = packet {
                    self.forward(&packet);
                }
                return;
            };
            // The current event keeps its place at the top of the heap until another event comes first.
            let next = self.schedules[self.partition].new_event(since, at, EventKind::Arrival, index);
            if let Some(packet) = packet {
                self.forward(&packet);
            }
            let schedule = &mut self.schedules[self.partition];
            if at > end || self.events == last || !schedule.is_next(next) {
                return schedule.replace_first_with(next);
            }
            self.now = at;
            self.events += 1;
        }
    }

    fn on_served(&mut self, index: usize) {
        self.schedules[self.partition].remove_first();
        let (arrival, serve) = self.links[index].serve(self.now);
        self.schedule_event(index, arrival);
        self.schedule_event(index, serve);
    }

    #[inline]
    pub(super) fn schedule_event(&mut self, link: usize, next_event: NextEvent) {
        match next_event {
            NextEvent::None => {}
            NextEvent::Arrival { at, since } => {
                let partition = self.partitions.egress(link as u32);
                self.schedules[partition].insert(since, at, EventKind::Arrival, link);
            }
            NextEvent::Serve(at) => {
                self.schedules[self.partition].insert(self.now, at, EventKind::Served, link)
            }
        }
    }

    /// Sends a packet to the next hop of its route.
    #[inline]
    pub(super) fn forward(&mut self, packet: &Packet) {
        let hop = self.routes[packet.route as usize];
        if hop == DESTINATION {
            return self.deliver(packet);
        }
        if packet.kind == Kind::Probe {
            return self.forward_probe(hop, packet);
        }
        let next_event = self.links[hop as usize].push(self.now, *packet);
        self.schedule_event(hop as usize, next_event);
    }

    /// Sends a new packet to the first hop of its route.
    #[inline(always)]
    fn send_new(&mut self, packet: Packet) {
        let hop = self.routes[packet.route as usize];
        if hop == DESTINATION {
            return self.deliver_locally(packet);
        }
        let next_event = self.links[hop as usize].push(self.now, packet);
        self.schedule_event(hop as usize, next_event);
    }

    /// Sends a segment together with the rest of its burst.
    #[inline(always)]
    fn send_burst(&mut self, flow: usize, segment: Packet) {
        let hop = self.routes[segment.route as usize];
        if hop == DESTINATION {
            return self.deliver_locally(segment);
        }
        let more = self.senders[flow].rest_of_burst(&segment);
        let link = &mut self.links[hop as usize];
        let next_event = match more {
            0 => link.push(self.now, segment),
            _ => link.push_train(self.now, segment, more),
        };
        self.schedule_event(hop as usize, next_event);
    }

    /// Sender and receiver share a node, so the route has no links.
    #[cold]
    fn deliver_locally(&mut self, packet: Packet) {
        self.deliver(&packet);
    }

    #[inline]
    fn deliver(&mut self, packet: &Packet) {
        let owner = packet.owner as usize;
        match packet.kind {
            Kind::Datagram => self.sources[owner].delivered(packet.size),
            Kind::Probe => self.probers[owner].arrived(self.now, packet.seq),
            _ if packet.sent < self.flows[owner].added_at => self.discard_late(packet),
            Kind::Segment => match self.flows[owner].card {
                NO_CARD => self.segment(owner, packet),
                card => self.receive_at_card(card as usize, packet),
            },
            Kind::Ack => {
                let report = packet.has(REPORT).then(|| self.reports.take(packet.extra));
                self.senders[owner].on_ack(self.now, packet, report.as_ref());
                self.transmit(owner);
                if self.flows[owner].is_temporary && self.senders[owner].finished().is_some() {
                    self.release(owner);
                }
            }
            Kind::Syn => {
                let answer = self.receivers[owner].answer(packet);
                self.forward(&answer);
            }
            Kind::SynAck => {
                self.senders[owner].opened(self.now, packet.sent);
                let begin = self.senders[owner].begin_at().max(self.now);
                self.wake(owner, begin);
            }
        }
    }

    /// Passes a segment to the network card of its receiver.
    fn receive_at_card(&mut self, card: usize, packet: &Packet) {
        self.cards[card].nic.arrive(Instant::from_ns(self.now), *packet);
        self.arm_card(card);
    }

    fn arm_card(&mut self, index: usize) {
        let card = &mut self.cards[index];
        if let Some(event) = card.nic.next_event().filter(|event| event.ns() < card.event) {
            card.event = event.ns();
            self.schedules[self.partition].insert(self.now, card.event, EventKind::Card, index);
        }
    }

    /// The card raises an interrupt, or its driver passes a segment up.
    fn on_card(&mut self, index: usize) {
        self.schedules[self.partition].remove_first();
        if self.cards[index].event != self.now {
            return;
        }
        self.cards[index].event = u64::MAX;
        if let Some((packet, _)) = self.cards[index].nic.poll(Instant::from_ns(self.now))
            && packet.sent >= self.flows[packet.owner as usize].added_at
        {
            self.segment(packet.owner as usize, &packet);
        }
        self.arm_card(index);
    }

    #[inline]
    fn segment(&mut self, flow: usize, packet: &Packet) {
        if let Some(ack) = self.receivers[flow].before(self.now, packet) {
            self.reply(flow, ack);
        }
        if let Some(ack) = self.receivers[flow].on_segment(self.now, packet) {
            self.reply(flow, ack);
        }
        let deadline = self.receivers[flow].deadline();
        if deadline < self.flows[flow].acknowledge_event {
            self.flows[flow].acknowledge_event = deadline;
            self.schedules[self.partition].insert(self.now, deadline, EventKind::Acknowledge, flow);
        }
    }

    /// Sends an ACK that a receiver has just produced.
    #[inline]
    fn reply(&mut self, flow: usize, mut ack: Packet) {
        if ack.has(REPORT) {
            if self.reports.is_full() {
                self.reclaim_reports();
            }
            ack.extra = self.reports.keep(self.receivers[flow].report(&ack));
        }
        self.send_new(ack);
    }

    /// Reclaims the reports of dropped ACKs before the pool of reports grows.
    #[cold]
    fn reclaim_reports(&mut self) {
        for link in &mut self.links {
            link.take_discarded().for_each(|number| self.reports.release(number));
        }
        self.reports.reserve();
    }

    /// Sends what the sender may send now, and arms its timers.
    #[inline]
    fn transmit(&mut self, flow: usize) {
        while let Some(segment) = self.senders[flow].poll(self.now) {
            self.send_burst(flow, segment);
        }
        self.arm_retransmission(flow);
        let wake = self.senders[flow].wake(self.now);
        self.wake(flow, wake);
    }

    /// Lets a sender poll for new segments at `at` or earlier.
    #[inline]
    fn wake(&mut self, flow: usize, at: u64) {
        if at < self.flows[flow].send_event {
            self.flows[flow].send_event = at;
            self.schedules[self.partition].insert(self.now, at, EventKind::Send, flow);
        }
    }

    #[inline]
    fn arm_retransmission(&mut self, flow: usize) {
        let deadline = self.senders[flow].deadline();
        if deadline < self.flows[flow].retransmit_event {
            self.flows[flow].retransmit_event = deadline;
            self.schedules[self.partition].insert(self.now, deadline, EventKind::Retransmit, flow);
        }
    }

    /// Timers are re-armed lazily: an event that fires too early arms itself again, and one that was superseded is
    /// ignored.
    fn on_send(&mut self, flow: usize) {
        self.schedules[self.partition].remove_first();
        if self.flows[flow].send_event != self.now {
            return;
        }
        self.flows[flow].send_event = u64::MAX;
        if let Some((syn, again)) = self.senders[flow].ask(self.now) {
            self.forward(&syn);
            return self.wake(flow, again);
        }
        self.senders[flow].on_wake(self.now);
        self.transmit(flow);
    }

    fn on_retransmit(&mut self, flow: usize) {
        self.schedules[self.partition].remove_first();
        if self.flows[flow].retransmit_event != self.now {
            return;
        }
        self.flows[flow].retransmit_event = u64::MAX;
        if !self.senders[flow].is_due(self.now) {
            // No timeout is due and the state of the sender is unchanged, so a burst that it is holding back keeps
            // waiting.
            return self.arm_retransmission(flow);
        }
        if let Some(probe) = self.senders[flow].on_timeout(self.now) {
            self.forward(&probe);
        }
        self.transmit(flow);
    }

    fn on_acknowledge(&mut self, flow: usize) {
        self.schedules[self.partition].remove_first();
        if self.flows[flow].acknowledge_event != self.now {
            return;
        }
        self.flows[flow].acknowledge_event = u64::MAX;
        if self.receivers[flow].deadline() <= self.now {
            let ack = self.receivers[flow].on_timer(self.now);
            self.reply(flow, ack);
        }
        let deadline = self.receivers[flow].deadline();
        if deadline < u64::MAX {
            self.flows[flow].acknowledge_event = deadline;
            self.schedules[self.partition].insert(self.now, deadline, EventKind::Acknowledge, flow);
        }
    }

    #[inline]
    fn on_source(&mut self, index: usize) {
        let (packet, next) = self.sources[index].send();
        match next {
            Some(at) => self.schedules[self.partition].replace_first(self.now, at, EventKind::Source, index),
            None => self.schedules[self.partition].remove_first(),
        }
        self.forward(&packet);
    }
}
