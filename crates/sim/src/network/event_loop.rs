//! The event loop of a network: dispatch and handlers of events, and forwarding from link to link.

use headway_queue::explicit::Header;
use headway_units::{Bytes, Instant};

use super::event_queues::EventQueues;
use super::partitions::Partitions;
use super::{DESTINATION, FIRST_STATION, NO_LINE, NO_NIC, Network, first_link};
use crate::link::Link;
use crate::packet::{Kind, LOST, Packet, REPORT, Report};
use crate::schedule::{Event, EventKind};

impl Network {
    /// Returns the time of the next event; `None` when no event is pending.
    pub fn next_event(&self) -> Option<Instant> {
        self.queues.earliest().map(|(time, _)| Instant::from_ns(time))
    }

    /// Advances to `end`; events at `end` are handled.
    pub fn run_until(&mut self, end: Instant) {
        self.run_some(end, u64::MAX);
    }

    /// Advances to `end`, but handles at most `events` events; returns false when the event budget
    /// ran out before `end`.
    pub(crate) fn run_some(&mut self, end: Instant, events: u64) -> bool {
        if std::mem::take(&mut self.topology_changed) {
            self.assign_partitions();
        }
        let end = end.ns();
        let last = self.events.saturating_add(events);
        while let Some((first, partition)) = self.queues.earliest()
            && first <= end
        {
            self.queues.current = partition;
            let horizon = first.saturating_add(self.queues.partitions.lookahead[partition]) - 1;
            if !self.run_partition(end.min(horizon), last) {
                return false;
            }
        }
        self.queues.now = self.queues.now.max(end);
        for link in &mut self.links {
            link.catch_up(end, &mut self.reports);
        }
        true
    }

    /// Advances the current partition to `end`; returns false when event number `last` was handled before.
    fn run_partition(&mut self, end: u64, last: u64) -> bool {
        while let Some(event) = self.queues.queue().peek()
            && event.time() <= end
        {
            if self.events == last {
                return false;
            }
            self.queues.now = event.time();
            self.events += 1;
            match event.kind() {
                EventKind::Arrival => self.on_arrival(event.index(), (end, last)),
                EventKind::Served => self.on_served(event.index()),
                EventKind::Send => self.on_send(event.index()),
                EventKind::Retransmit => self.on_retransmit(event.index()),
                EventKind::Acknowledge => self.on_acknowledge(event.index()),
                EventKind::Source => self.on_source(event.index()),
                EventKind::Probe => self.on_probe(event.index()),
                EventKind::Nic => self.on_nic(event.index()),
            }
        }
        true
    }

    /// Computes the partitions and distributes the pending events among them.
    fn assign_partitions(&mut self) {
        let delays: Vec<u64> = self.links.iter().map(Link::min_latency).collect();
        let partitions = Partitions::new(&self.constraints, &delays);
        for flow in &mut self.flows {
            flow.update_partitions(&partitions, &self.routes);
        }
        let mut queues = std::mem::replace(&mut self.queues, EventQueues::new());
        queues.redistribute(partitions, |partitions, event| self.partition_of(partitions, event));
        self.queues = queues;
    }

    /// Returns the partition that handles an event.
    fn partition_of(&self, partitions: &Partitions, event: Event) -> usize {
        let index = event.index();
        let first = |route: u32| partitions.ingress(first_link(&self.routes, route));
        match event.kind() {
            EventKind::Arrival => partitions.egress(index as u32),
            EventKind::Served => partitions.ingress(index as u32),
            EventKind::Send | EventKind::Retransmit => self.flows[index].sender_partition.into(),
            EventKind::Acknowledge => self.flows[index].receiver_partition.into(),
            EventKind::Source => first(self.sources[index].route()),
            EventKind::Probe => first(self.probers[index].route()),
            EventKind::Nic => self.nics[index].link.map_or(0, |link| partitions.egress(link.0)),
        }
    }

    /// Delivers the first packet on a link, and those behind it while no other event comes first, up to the
    /// time `end` and the event number `last`.
    #[inline(always)]
    fn on_arrival(&mut self, index: usize, (end, last): (u64, u64)) {
        if !self.links[index].knows_departure() {
            return self.on_staged_arrival(index);
        }
        let mut is_train = self.links[index].is_train_next();
        loop {
            if is_train && !self.on_train(index, (end, last)) {
                return;
            }
            let link = &mut self.links[index];
            let packet = link.take(self.queues.now, &mut self.reports);
            let Some((at, since)) = link.next_arrival(self.queues.now) else {
                self.queues.queue().remove_first();
                return self.receive(packet);
            };
            is_train = link.is_train_next();
            // The current event keeps its place at the top of the heap until another event comes first.
            let sequence = self.queues.queue().next_sequence();
            self.receive(packet);
            let queue = self.queues.queue();
            if at > end || self.events == last || !queue.is_next(at) {
                return queue.replace_first_with(sequence, since, at, EventKind::Arrival, index);
            }
            self.queues.now = at;
            self.events += 1;
        }
    }

    /// Delivers the segments of a train while no other event comes first, all but the last one. Returns
    /// whether the event being handled is still the arrival of the first packet on the link.
    #[inline(never)]
    fn on_train(&mut self, index: usize, (end, last): (u64, u64)) -> bool {
        let Some((mut train, spacing)) = self.links[index].next_train() else { return true };
        let flow = train.owner as usize;
        // Nothing that the receiver does affects this link, so the train is shortened once at the end.
        let is_direct = self.routes[train.route as usize] == DESTINATION
            && self.flows[flow].nic == NO_NIC
            && self.is_current(&train)
            && first_link(&self.routes, self.receivers[flow].route()) != index as u32;
        let mut segment = Packet { kind: Kind::Segment, extra: 0, ..train };
        let goes_on = loop {
            let now = self.queues.now;
            train.seq += 1;
            train.extra -= 1;
            train.at = spacing.after(train.at, &mut train.joined);
            let sequence = self.queues.queue().next_sequence();
            if is_direct {
                self.plain_segment(flow, &segment);
            } else {
                self.links[index].shorten_train(&train);
                self.forward(&segment);
            }
            segment.seq = train.seq;
            let queue = self.queues.queue();
            if train.at > end || self.events == last || !queue.is_next(train.at) {
                queue.replace_first_with(sequence, now, train.at, EventKind::Arrival, index);
                break false;
            }
            self.queues.now = train.at;
            self.events += 1;
            if train.extra == 0 {
                break true;
            }
        };
        if is_direct {
            self.links[index].shorten_train(&train);
        }
        goes_on
    }

    /// Delivers the first packet on a link that serves its queue packet by packet.
    #[inline(never)]
    fn on_staged_arrival(&mut self, index: usize) {
        let (packet, next_event) = self.links[index].arrive(self.queues.now, &mut self.reports);
        self.queues.queue().remove_first();
        self.queues.add_link_event(index, next_event);
        if let Some(packet) = packet.filter(|packet| !packet.has(LOST)) {
            self.forward(&packet);
        }
    }

    /// Handles a packet at the far end of a link.
    #[inline(always)]
    fn receive(&mut self, packet: Packet) {
        if packet.has(LOST) {
            return;
        }
        let hop = self.routes[packet.route as usize];
        let owner = packet.owner as usize;
        match packet.kind {
            Kind::Segment | Kind::Ack | Kind::Datagram if hop < FIRST_STATION => self.join(hop, packet),
            _ if hop != DESTINATION => self.forward(&packet),
            Kind::Segment if self.is_current(&packet) && self.flows[owner].nic == NO_NIC => {
                self.segment(owner, &packet);
            }
            Kind::Ack if self.is_current(&packet) => self.acknowledge(owner, &packet),
            _ => self.forward(&packet),
        }
    }

    /// Whether a segment or ACK belongs to the flow that has its number now.
    #[inline(always)]
    pub(super) fn is_current(&self, packet: &Packet) -> bool {
        packet.sent >= self.flows[packet.owner as usize].added_at
    }

    /// Puts a packet on a link.
    #[inline(always)]
    pub(super) fn join(&mut self, link: u32, packet: Packet) {
        let next_event = self.links[link as usize].push(self.queues.now, packet, &mut self.reports);
        self.queues.add_link_event(link as usize, next_event);
    }

    /// Takes an ACK of a flow, and sends what it allows to be sent.
    #[inline(always)]
    fn acknowledge(&mut self, flow: usize, ack: &Packet) {
        self.note_ack(flow, ack);
        let report = ack.has(REPORT).then(|| self.reports.take(ack.extra));
        self.senders[flow].on_ack(self.queues.now, ack, report.as_ref());
        self.transmit_now(flow);
        if self.flows[flow].is_temporary && self.senders[flow].finished().is_some() {
            self.release(flow);
        }
    }

    fn on_served(&mut self, index: usize) {
        self.queues.queue().remove_first();
        if self.links[index].is_wifi() {
            return self.on_air(index);
        }
        self.end_transmission(index, true);
    }

    /// The transmission of a link that serves its queue packet by packet has ended.
    pub(super) fn end_transmission(&mut self, index: usize, arrived: bool) {
        let (arrival, serve) = self.links[index].serve(self.queues.now, arrived, &mut self.reports);
        self.queues.add_link_event(index, arrival);
        self.queues.add_link_event(index, serve);
    }

    /// Sends a packet to the next hop of its route.
    #[inline(never)]
    pub(super) fn forward(&mut self, packet: &Packet) {
        let hop = self.routes[packet.route as usize];
        if hop >= FIRST_STATION {
            return self.arrive_at_station(hop, packet);
        }
        if packet.kind == Kind::Probe {
            return self.forward_probe(hop, packet);
        }
        self.join(hop, *packet);
    }

    /// Sends a new packet to the first hop of its route.
    #[inline(always)]
    fn send_new(&mut self, packet: Packet) {
        let hop = self.routes[packet.route as usize];
        if hop >= FIRST_STATION {
            return self.arrive_at_first_station(hop, packet);
        }
        self.join(hop, packet);
    }

    /// The route of a new packet begins with a station, or has no links.
    #[cold]
    fn arrive_at_first_station(&mut self, hop: u32, packet: Packet) {
        self.arrive_at_station(hop, &packet);
    }

    /// Handles a packet at the end of its route, or at a tap, a NIC or a bundle on the way.
    fn arrive_at_station(&mut self, hop: u32, packet: &Packet) {
        if hop == DESTINATION { self.deliver(packet) } else { self.pass_station(hop, packet) }
    }

    fn deliver(&mut self, packet: &Packet) {
        let owner = packet.owner as usize;
        match packet.kind {
            Kind::Datagram => self.sources[owner].delivered(packet.size),
            Kind::Probe => self.probers[owner].arrived(self.queues.now, packet.seq),
            Kind::Damaged => {
                self.damaged += 1;
                self.discard_late(packet);
            }
            _ if !self.is_current(packet) => self.discard_late(packet),
            Kind::Segment | Kind::Train => match self.flows[owner].nic {
                NO_NIC => self.segment(owner, packet),
                nic => self.receive_at_nic(nic as usize, packet),
            },
            Kind::Ack => self.acknowledge(owner, packet),
            Kind::Syn => {
                let answer = self.receivers[owner].answer(packet);
                self.note_reply(owner, &answer);
                self.forward(&answer);
            }
            Kind::SynAck => {
                self.senders[owner].on_syn_ack(self.queues.now, packet.sent);
                let begin = self.senders[owner].begin_at().max(self.queues.now);
                self.wake(owner, begin);
                if self.flows[owner].ends_handshake {
                    let ack = self.senders[owner].handshake_ack(self.queues.now);
                    self.forward(&ack);
                }
            }
            Kind::HandshakeAck => {}
        }
    }

    /// Passes a segment to the NIC of its receiver.
    pub(super) fn receive_at_nic(&mut self, nic: usize, packet: &Packet) {
        self.nics[nic].model.arrive(Instant::from_ns(self.queues.now), *packet);
        self.arm_nic(nic);
    }

    fn arm_nic(&mut self, index: usize) {
        let nic = &mut self.nics[index];
        if let Some(event) = nic.model.next_event().filter(|event| event.ns() < nic.event) {
            nic.event = event.ns();
            self.queues.add(nic.event, EventKind::Nic, index);
        }
    }

    /// The NIC raises an interrupt, or its driver passes a segment up.
    fn on_nic(&mut self, index: usize) {
        self.queues.queue().remove_first();
        if self.nics[index].event != self.queues.now {
            return;
        }
        self.nics[index].event = u64::MAX;
        if let Some((packet, _)) = self.nics[index].model.poll(Instant::from_ns(self.queues.now)) {
            self.pass_up(index, &packet);
        }
        if self.nics[index].model.is_batch_over() {
            self.pass_up_held(index);
        }
        self.arm_nic(index);
    }

    /// The driver of a NIC hands a packet up.
    fn pass_up(&mut self, index: usize, packet: &Packet) {
        if packet.kind != Kind::Segment {
            return self.forward(packet);
        }
        if !self.is_current(packet) {
            self.discard_late(packet);
        } else if self.receivers[packet.owner as usize].stamps_acks() {
            self.nics[index].held.push(*packet);
        } else {
            self.segment(packet.owner as usize, packet);
        }
    }

    /// Passes up the segments that waited for the end of their batch.
    fn pass_up_held(&mut self, index: usize) {
        let mut held = std::mem::take(&mut self.nics[index].held);
        for packet in held.drain(..) {
            if self.is_current(&packet) {
                self.segment(packet.owner as usize, &packet);
            } else {
                self.discard_late(&packet);
            }
        }
        self.nics[index].held = held;
    }

    /// Passes a segment to its receiver, and sends the ACKs that are due.
    #[inline(always)]
    fn segment(&mut self, flow: usize, packet: &Packet) {
        if packet.has(REPORT) {
            self.take_header(flow, packet);
        }
        self.plain_segment(flow, packet);
    }

    /// As [`Network::segment`], for one without a congestion header.
    #[inline(always)]
    fn plain_segment(&mut self, flow: usize, packet: &Packet) {
        let now = self.queues.now;
        if let Some(ack) = self.receivers[flow].before(now, packet) {
            self.reply(flow, ack);
        }
        if let Some(ack) = self.receivers[flow].on_segment(now, packet) {
            self.reply(flow, ack);
        }
        let deadline = self.receivers[flow].deadline();
        let pending = &mut self.flows[flow].acknowledge_event;
        if deadline < *pending {
            *pending = deadline;
            self.queues.add(deadline, EventKind::Acknowledge, flow);
        }
    }

    /// The congestion header of a segment has reached its receiver.
    #[inline(never)]
    fn take_header(&mut self, flow: usize, packet: &Packet) {
        if let Some(header) = self.reports.take(packet.extra).header {
            self.receivers[flow].on_header(&header);
        }
    }

    /// Sends an ACK that a receiver has just produced.
    #[inline(always)]
    fn reply(&mut self, flow: usize, ack: Packet) {
        self.note_reply(flow, &ack);
        if ack.has(REPORT) {
            return self.reply_with_report(flow, ack);
        }
        self.send_new(ack);
    }

    #[inline(never)]
    fn reply_with_report(&mut self, flow: usize, mut ack: Packet) {
        if self.reports.is_full() {
            self.reclaim_reports();
        }
        ack.extra = self.reports.keep(self.receivers[flow].report(self.queues.now, &ack));
        self.send_new(ack);
    }

    /// Reclaims the reports of dropped packets before the pool of reports grows.
    #[cold]
    fn reclaim_reports(&mut self) {
        for link in &mut self.links {
            link.take_discarded().for_each(|number| self.reports.release(number));
        }
        self.reports.reserve();
    }

    /// Sends what the sender may send now, and arms its timers.
    #[inline(never)]
    fn transmit(&mut self, flow: usize) {
        self.transmit_now(flow);
    }

    #[inline(always)]
    fn transmit_now(&mut self, flow: usize) {
        let hop = self.routes[self.senders[flow].route() as usize];
        if hop >= FIRST_STATION {
            return self.transmit_past_station(flow);
        }
        if self.senders[flow].sends_one_by_one() {
            return self.transmit_one_by_one(flow);
        }
        let (sender, link) = (&mut self.senders[flow], &mut self.links[hop as usize]);
        while let Some(segment) = sender.poll(self.queues.now) {
            let next_event = match sender.rest_of_burst(&segment) {
                0 => link.push(self.queues.now, segment, &mut self.reports),
                more => link.push_train(self.queues.now, segment, more, &mut self.reports),
            };
            self.queues.add_link_event(hop as usize, next_event);
        }
        self.arm_timers(flow);
    }

    /// As [`Network::transmit`], where the controller schedules departures, or segments
    /// have congestion headers.
    #[inline(never)]
    fn transmit_one_by_one(&mut self, flow: usize) {
        let now = self.queues.now;
        loop {
            let sender = &mut self.senders[flow];
            if let Some((due, size)) = sender.due(now) {
                let at = due.max(now);
                let departure = match self.flows[flow].line {
                    NO_LINE => at,
                    line => {
                        let line = &mut self.lines[line as usize];
                        line.depart(Instant::from_ns(at), Bytes::new(size.into())).ns().max(now)
                    }
                };
                sender.takes_line(departure);
            }
            let Some(mut segment) = sender.poll(now) else { break };
            if let Some(header) = sender.header() {
                self.attach(&mut segment, header);
            }
            self.send_new(segment);
        }
        self.arm_timers(flow);
    }

    /// Gives a segment its congestion header.
    fn attach(&mut self, segment: &mut Packet, header: Header) {
        if self.reports.is_full() {
            self.reclaim_reports();
        }
        segment.extra = self.reports.keep(Report { header: Some(header), ..Report::default() });
        segment.flags |= REPORT;
    }

    /// As [`Network::transmit`], where segments pass a tap first, or sender and receiver share a node.
    #[cold]
    fn transmit_past_station(&mut self, flow: usize) {
        let is_local = self.routes[self.senders[flow].route() as usize] == DESTINATION;
        if !is_local && self.senders[flow].sends_one_by_one() {
            return self.transmit_one_by_one(flow);
        }
        while let Some(segment) = self.senders[flow].poll(self.queues.now) {
            self.forward(&segment);
        }
        self.arm_timers(flow);
    }

    /// Sets the timers of a sender that can send nothing now.
    #[inline(always)]
    fn arm_timers(&mut self, flow: usize) {
        let (sender, timers) = (&self.senders[flow], &mut self.flows[flow]);
        let deadline = sender.deadline();
        if deadline < timers.retransmit_event {
            timers.retransmit_event = deadline;
            self.queues.add(deadline, EventKind::Retransmit, flow);
        }
        let wake = sender.wake(self.queues.now);
        if wake < timers.send_event {
            timers.send_event = wake;
            self.queues.add(wake, EventKind::Send, flow);
        }
    }

    /// Lets a sender poll for new segments at `at` or earlier.
    fn wake(&mut self, flow: usize, at: u64) {
        if at < self.flows[flow].send_event {
            self.flows[flow].send_event = at;
            self.queues.add(at, EventKind::Send, flow);
        }
    }

    fn arm_retransmission(&mut self, flow: usize) {
        let deadline = self.senders[flow].deadline();
        if deadline < self.flows[flow].retransmit_event {
            self.flows[flow].retransmit_event = deadline;
            self.queues.add(deadline, EventKind::Retransmit, flow);
        }
    }

    /// Timers are re-armed lazily: an event that fires too early arms itself again, and one that was
    /// superseded is ignored.
    fn on_send(&mut self, flow: usize) {
        self.queues.queue().remove_first();
        if self.flows[flow].send_event != self.queues.now {
            return;
        }
        self.flows[flow].send_event = u64::MAX;
        if let Some((syn, again)) = self.senders[flow].send_syn(self.queues.now) {
            self.forward(&syn);
            return self.wake(flow, again);
        }
        self.senders[flow].on_wake(self.queues.now);
        self.transmit(flow);
    }

    fn on_retransmit(&mut self, flow: usize) {
        self.queues.queue().remove_first();
        if self.flows[flow].retransmit_event != self.queues.now {
            return;
        }
        self.flows[flow].retransmit_event = u64::MAX;
        if !self.senders[flow].is_due(self.queues.now) {
            // No timeout is due and the state of the sender is unchanged, so a burst that it is
            // holding back keeps waiting.
            return self.arm_retransmission(flow);
        }
        if let Some(probe) = self.senders[flow].on_timeout(self.queues.now) {
            self.forward(&probe);
        }
        self.transmit(flow);
    }

    fn on_acknowledge(&mut self, flow: usize) {
        self.queues.queue().remove_first();
        if self.flows[flow].acknowledge_event != self.queues.now {
            return;
        }
        self.flows[flow].acknowledge_event = u64::MAX;
        if self.receivers[flow].deadline() <= self.queues.now
            && let Some(ack) = self.receivers[flow].on_timer(self.queues.now)
        {
            self.reply(flow, ack);
        }
        let deadline = self.receivers[flow].deadline();
        if deadline < u64::MAX {
            self.flows[flow].acknowledge_event = deadline;
            self.queues.add(deadline, EventKind::Acknowledge, flow);
        }
    }

    fn on_source(&mut self, index: usize) {
        let (packet, next) = self.sources[index].send();
        self.queues.replace_first(next, EventKind::Source, index);
        self.forward(&packet);
    }
}
