//! A network of links, flows, sources and probers, and the loop that runs it.

mod flows;
mod parts;

use std::collections::HashMap;

use headway_core::{Bytes, Instant};
use headway_host::nic::{Coalescing, Nic};
use headway_traffic::random;

pub use self::flows::Completion;
use self::flows::{Flow, Groups};
use self::parts::{Parts, Ties};
use crate::config::{CardId, LinkConfig, LinkId, ProberId, SourceConfig, SourceId};
use crate::link::{Link, Wish};
use crate::packet::{Kind, Packet, REPORT, Reports};
use crate::probe::{ProbeLog, Prober};
use crate::schedule::{Event, MAX_COMPONENTS, Schedule, Topic};
use crate::source::Source;
use crate::statistics::SourceStatistics;
use crate::transport::receiver::Receiver;
use crate::transport::sender::Sender;

/// End of a route.
const HERE: u32 = u32::MAX;

/// A card that coalesces interrupts.
#[derive(Debug)]
struct Card {
    nic: Nic<Packet>,
    /// Time of the pending event (ns); `u64::MAX` when there is none.
    event: u64,
    /// A link that leads to it.
    link: Option<LinkId>,
}

/// A network in virtual time.
///
/// Links, flows, sources and probers are added first; [`Network::run_until`] may be called again and again, and everything can
/// be looked at in between.
#[derive(Debug)]
pub struct Network {
    seed: u64,
    now: u64,
    events: u64,
    /// Of each part; that of the part which goes on now is number `part`.
    schedules: Vec<Schedule>,
    part: usize,
    parts: Parts,
    ties: Ties,
    /// Something has been added since the parts were found.
    grown: bool,
    links: Vec<Link>,
    /// Routes one behind the other: links, then `HERE`.
    routes: Vec<u32>,
    /// Where the route over these links begins.
    known_routes: HashMap<Vec<LinkId>, u32>,
    senders: Vec<Sender>,
    receivers: Vec<Receiver>,
    flows: Vec<Flow>,
    groups: Groups,
    sources: Vec<Source>,
    probers: Vec<Prober>,
    cards: Vec<Card>,
    reports: Reports,
}

impl Network {
    /// An empty network whose random numbers follow from `seed`.
    pub fn new(seed: u64) -> Network {
        Network {
            seed,
            now: 0,
            events: 0,
            schedules: vec![Schedule::default()],
            part: 0,
            parts: Parts::default(),
            ties: Ties::default(),
            grown: true,
            links: Vec::new(),
            routes: Vec::new(),
            known_routes: HashMap::new(),
            senders: Vec::new(),
            receivers: Vec::new(),
            flows: Vec::new(),
            groups: Groups::default(),
            sources: Vec::new(),
            probers: Vec::new(),
            cards: Vec::new(),
            reports: Reports::default(),
        }
    }

    /// Adds one direction of a link.
    pub fn add_link(&mut self, config: &LinkConfig) -> LinkId {
        let id = number(self.links.len());
        self.links.push(Link::new(config, self.seed, id.into()));
        self.grown = true;
        LinkId(id)
    }

    /// Adds a receiving network card.
    pub fn add_card(&mut self, coalescing: Coalescing) -> CardId {
        let id = number(self.cards.len());
        let rng = random::generator(self.seed, "card", id.into());
        self.cards.push(Card { nic: Nic::new(coalescing, rng), event: u64::MAX, link: None });
        CardId(id)
    }

    /// Adds a source of datagrams.
    pub fn add_source(&mut self, config: &SourceConfig) -> SourceId {
        let id = number(self.sources.len());
        let route = self.add_route(&config.path);
        let source = Source::new(config, self.seed, id, route, self.now);
        if let Some(at) = source.next() {
            let part = self.parts.near(self.routes[route as usize]);
            self.schedules[part].insert(self.now, at, Topic::Source, id as usize);
        }
        self.sources.push(source);
        SourceId(id)
    }

    /// Adds a prober, whose packets take `path`; the link `tap` records when they leave its queue, and what other traffic it has
    /// accepted before them.
    pub fn add_prober(&mut self, path: &[LinkId], tap: Option<LinkId>) -> ProberId {
        let id = number(self.probers.len());
        let route = self.add_route(path);
        self.probers.push(Prober::new(id, route, tap.map(|tap| tap.0)));
        ProberId(id)
    }

    /// Keeps account of what probes do to other packets on `path`; to be called before the network runs.
    pub fn watch(&mut self, path: &[LinkId]) {
        path.iter().for_each(|link| self.links[link.0 as usize].watch());
    }

    /// Packets of others that a watched link has turned away since the start of the run, beyond those that it would have turned away
    /// without probes; negative where probes have, by chance, saved some.
    pub fn displaced(&self, link: LinkId) -> i64 {
        self.links[link.0 as usize].displaced()
    }

    /// Wire bytes of a prober's packets that `link` has accepted since the start of the run.
    pub fn accepted_of(&self, prober: ProberId, link: LinkId) -> Bytes {
        Bytes::new(self.probers[prober.0 as usize].accepted_by(link.0))
    }

    /// Plans a probe packet of `size` wire bytes that enters the path at `at`; times must not go back.
    pub fn send_probe(&mut self, prober: ProberId, at: Instant, size: Bytes) {
        let id = prober.0 as usize;
        let at = at.ns().max(self.now);
        if self.probers[id].plan(at, size) {
            let part = self.parts.near(self.routes[self.probers[id].route() as usize]);
            self.schedules[part].insert(self.now, at, Topic::Probe, id);
        }
    }

    /// What has become of the probe packets sent since the last call, in order; those under way are not followed any further.
    pub fn take_probe_log(&mut self, prober: ProberId) -> Vec<ProbeLog> {
        self.probers[prober.0 as usize].take_log()
    }

    /// Whether every probe packet that was planned, and whose log has not been taken, has arrived.
    pub fn probes_arrived(&self, prober: ProberId) -> bool {
        self.probers[prober.0 as usize].all_arrived()
    }

    /// Where the route over `links` begins; flows of a group share one.
    fn add_route(&mut self, links: &[LinkId]) -> u32 {
        let (routes, ties, grown) = (&mut self.routes, &mut self.ties, &mut self.grown);
        *self.known_routes.entry(links.to_vec()).or_insert_with(|| {
            let start = number(routes.len());
            routes.extend(links.iter().map(|link| link.0));
            routes.push(HERE);
            ties.route(links);
            *grown = true;
            start
        })
    }

    /// The time the network has reached.
    pub fn now(&self) -> Instant {
        Instant::from_ns(self.now)
    }

    /// Events handled so far.
    pub fn events(&self) -> u64 {
        self.events
    }

    /// When the next event is due; `None` when nothing will ever happen again.
    pub fn next_event(&self) -> Option<Instant> {
        self.earliest().map(|(time, _)| Instant::from_ns(time))
    }

    /// When the next event is due, and in which part.
    fn earliest(&self) -> Option<(u64, usize)> {
        let times = self.schedules.iter().map(|schedule| schedule.peek().map(|event| event.time()));
        times.enumerate().filter_map(|(part, time)| Some((time?, part))).min()
    }

    /// Lets time pass until `end`, events at `end` included.
    pub fn run_until(&mut self, end: Instant) {
        self.run_some(end, u64::MAX);
    }

    /// Lets time pass until `end`, but not for more than `events` events; false when `end` was not reached.
    pub fn run_some(&mut self, end: Instant, events: u64) -> bool {
        if std::mem::take(&mut self.grown) {
            self.divide();
        }
        let end = end.ns();
        let last = self.events.saturating_add(events);
        while let Some((first, part)) = self.earliest()
            && first <= end
        {
            self.part = part;
            if !self.run_part(end.min(first.saturating_add(self.parts.lookahead[part]) - 1), last) {
                return false;
            }
        }
        self.now = self.now.max(end);
        for link in &mut self.links {
            link.catch_up(end);
        }
        true
    }

    /// Lets time pass in the present part until `end`, but not beyond the event number `last`; false when `end` was not reached.
    fn run_part(&mut self, end: u64, last: u64) -> bool {
        while let Some(event) = self.schedules[self.part].peek()
            && event.time() <= end
        {
            if self.events == last {
                return false;
            }
            self.now = event.time();
            self.events += 1;
            match event.topic() {
                Topic::Arrival => self.arrival(event.index(), (end, last)),
                Topic::Served => self.served(event.index()),
                Topic::Send => self.send(event.index()),
                Topic::Retransmit => self.retransmit(event.index()),
                Topic::Acknowledge => self.acknowledge(event.index()),
                Topic::Source => self.source(event.index()),
                Topic::Probe => self.probe(event.index()),
                Topic::Card => self.card(event.index()),
            }
        }
        true
    }

    /// Finds the parts, and gives each its events.
    fn divide(&mut self) {
        let delays: Vec<u64> = self.links.iter().map(Link::least_passage).collect();
        self.parts = Parts::new(&self.ties, &delays);
        for flow in &mut self.flows {
            flow.find_parts(&self.parts, &self.routes);
        }
        let mut events: Vec<Event> = self.schedules.iter_mut().flat_map(Schedule::take_all).collect();
        events.sort_unstable();
        let age = self.schedules.iter().map(Schedule::age).max().unwrap_or(0);
        self.schedules = self.parts.lookahead.iter().map(|_| Schedule::aged(age)).collect();
        for event in events {
            let part = self.part_of(event);
            self.schedules[part].put(event);
        }
    }

    /// The part in which an event happens.
    fn part_of(&self, event: Event) -> usize {
        let (index, parts) = (event.index(), &self.parts);
        let first = |route: u32| parts.near(self.routes[route as usize]);
        match event.topic() {
            Topic::Arrival => parts.far(index as u32),
            Topic::Served => parts.near(index as u32),
            Topic::Send | Topic::Retransmit => self.flows[index].sends.into(),
            Topic::Acknowledge => self.flows[index].receives.into(),
            Topic::Source => first(self.sources[index].route()),
            Topic::Probe => first(self.probers[index].route()),
            Topic::Card => self.cards[index].link.map_or(0, |link| parts.far(link.0)),
        }
    }

    /// The first packet on a link arrives, and those behind it as long as nothing else happens before: until `end`, and until `last`
    /// events have been handled.
    #[inline]
    fn arrival(&mut self, index: usize, (end, last): (u64, u64)) {
        loop {
            let (packet, wish) = self.links[index].arrive(self.now);
            let Wish::Arrival { at, since } = wish else {
                self.schedules[self.part].remove_first();
                if let Some(packet) = packet {
                    self.forward(&packet);
                }
                return;
            };
            // The event that is being handled stays where it is until something else comes first.
            let next = self.schedules[self.part].event(since, at, Topic::Arrival, index);
            if let Some(packet) = packet {
                self.forward(&packet);
            }
            let schedule = &mut self.schedules[self.part];
            if at > end || self.events == last || !schedule.is_next(next) {
                return schedule.replace_by(next);
            }
            self.now = at;
            self.events += 1;
        }
    }

    fn served(&mut self, index: usize) {
        self.schedules[self.part].remove_first();
        let (arrival, serve) = self.links[index].serve(self.now);
        self.grant(index, arrival);
        self.grant(index, serve);
    }

    #[inline]
    fn grant(&mut self, link: usize, wish: Wish) {
        match wish {
            Wish::Nothing => {}
            Wish::Arrival { at, since } => {
                let part = self.parts.far(link as u32);
                self.schedules[part].insert(since, at, Topic::Arrival, link);
            }
            Wish::Serve(at) => self.schedules[self.part].insert(self.now, at, Topic::Served, link),
        }
    }

    /// Sends a packet to the next hop of its route.
    #[inline]
    fn forward(&mut self, packet: &Packet) {
        let hop = self.routes[packet.route as usize];
        if hop == HERE {
            return self.deliver(packet);
        }
        if packet.kind == Kind::Probe {
            return self.pass(hop, packet);
        }
        let wish = self.links[hop as usize].push(self.now, *packet);
        self.grant(hop as usize, wish);
    }

    /// A probe packet comes to a link.
    #[inline(never)]
    fn pass(&mut self, hop: u32, packet: &Packet) {
        let link = &mut self.links[hop as usize];
        let before = link.accepted();
        let wish = link.push(self.now, *packet);
        self.probers[packet.owner as usize].passed(self.now, (hop, link), before, packet.seq);
        self.grant(hop as usize, wish);
    }

    /// Sends a packet that has just been made, to the first hop of its route.
    #[inline(always)]
    fn launch(&mut self, packet: Packet) {
        let hop = self.routes[packet.route as usize];
        if hop == HERE {
            return self.deliver_at_once(packet);
        }
        let wish = self.links[hop as usize].push(self.now, packet);
        self.grant(hop as usize, wish);
    }

    /// Sends a segment, and with it those that leave together with it.
    #[inline(always)]
    fn launch_burst(&mut self, flow: usize, segment: Packet) {
        let hop = self.routes[segment.route as usize];
        if hop == HERE {
            return self.deliver_at_once(segment);
        }
        let more = self.senders[flow].rest_of_burst(&segment);
        let link = &mut self.links[hop as usize];
        let wish = match more {
            0 => link.push(self.now, segment),
            _ => link.push_train(self.now, segment, more),
        };
        self.grant(hop as usize, wish);
    }

    /// Sender and receiver are one place.
    #[cold]
    fn deliver_at_once(&mut self, packet: Packet) {
        self.deliver(&packet);
    }

    #[inline]
    fn deliver(&mut self, packet: &Packet) {
        let owner = packet.owner as usize;
        match packet.kind {
            Kind::Datagram => self.sources[owner].delivered(packet.size),
            Kind::Probe => self.probers[owner].arrived(self.now, packet.seq),
            _ if packet.sent < self.flows[owner].born => self.discard_late(packet),
            Kind::Segment => match self.flows[owner].card {
                HERE => self.segment(owner, packet),
                card => self.receive(card as usize, packet),
            },
            Kind::Ack => {
                let report = packet.has(REPORT).then(|| self.reports.take(packet.extra));
                self.senders[owner].on_ack(self.now, packet, report.as_ref());
                self.transmit(owner);
                if self.flows[owner].leaves && self.senders[owner].finished().is_some() {
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

    /// A segment comes to a network card.
    fn receive(&mut self, card: usize, packet: &Packet) {
        self.cards[card].nic.arrive(Instant::from_ns(self.now), *packet);
        self.set_card(card);
    }

    fn set_card(&mut self, index: usize) {
        let card = &mut self.cards[index];
        if let Some(event) = card.nic.next_event().filter(|event| event.ns() < card.event) {
            card.event = event.ns();
            self.schedules[self.part].insert(self.now, card.event, Topic::Card, index);
        }
    }

    /// A network card interrupts, or its driver hands up a segment.
    fn card(&mut self, index: usize) {
        self.schedules[self.part].remove_first();
        if self.cards[index].event != self.now {
            return;
        }
        self.cards[index].event = u64::MAX;
        if let Some((packet, _)) = self.cards[index].nic.poll(Instant::from_ns(self.now))
            && packet.sent >= self.flows[packet.owner as usize].born
        {
            self.segment(packet.owner as usize, &packet);
        }
        self.set_card(index);
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
        if deadline < self.flows[flow].acknowledge {
            self.flows[flow].acknowledge = deadline;
            self.schedules[self.part].insert(self.now, deadline, Topic::Acknowledge, flow);
        }
    }

    /// Sends the acknowledgement that a receiver has just given.
    #[inline]
    fn reply(&mut self, flow: usize, mut ack: Packet) {
        if ack.has(REPORT) {
            if self.reports.is_full() {
                self.reclaim_reports();
            }
            ack.extra = self.reports.keep(self.receivers[flow].report(&ack));
        }
        self.launch(ack);
    }

    /// Takes back the reports of acknowledgements that were dropped, before there is room made for more.
    #[cold]
    fn reclaim_reports(&mut self) {
        for link in &mut self.links {
            link.take_discarded().for_each(|number| self.reports.release(number));
        }
        self.reports.reserve();
    }

    /// Sends what a sender may send, and sets its timers.
    #[inline]
    fn transmit(&mut self, flow: usize) {
        while let Some(segment) = self.senders[flow].poll(self.now) {
            self.launch_burst(flow, segment);
        }
        self.arm_retransmission(flow);
        let wake = self.senders[flow].wake(self.now);
        self.wake(flow, wake);
    }

    /// Lets a sender look what to send at `at` at the latest.
    #[inline]
    fn wake(&mut self, flow: usize, at: u64) {
        if at < self.flows[flow].send {
            self.flows[flow].send = at;
            self.schedules[self.part].insert(self.now, at, Topic::Send, flow);
        }
    }

    #[inline]
    fn arm_retransmission(&mut self, flow: usize) {
        let deadline = self.senders[flow].deadline();
        if deadline < self.flows[flow].retransmit {
            self.flows[flow].retransmit = deadline;
            self.schedules[self.part].insert(self.now, deadline, Topic::Retransmit, flow);
        }
    }

    /// Timers are moved lazily: an event that comes too early sets itself again, one that is not the last set is stale.
    fn send(&mut self, flow: usize) {
        self.schedules[self.part].remove_first();
        if self.flows[flow].send != self.now {
            return;
        }
        self.flows[flow].send = u64::MAX;
        if let Some((syn, again)) = self.senders[flow].ask(self.now) {
            self.forward(&syn);
            return self.wake(flow, again);
        }
        self.senders[flow].on_wake(self.now);
        self.transmit(flow);
    }

    fn retransmit(&mut self, flow: usize) {
        self.schedules[self.part].remove_first();
        if self.flows[flow].retransmit != self.now {
            return;
        }
        self.flows[flow].retransmit = u64::MAX;
        if !self.senders[flow].is_due(self.now) {
            // Nothing has happened to the sender: what it waits with, to send more at once, has to go on waiting.
            return self.arm_retransmission(flow);
        }
        if let Some(probe) = self.senders[flow].on_timeout(self.now) {
            self.forward(&probe);
        }
        self.transmit(flow);
    }

    fn acknowledge(&mut self, flow: usize) {
        self.schedules[self.part].remove_first();
        if self.flows[flow].acknowledge != self.now {
            return;
        }
        self.flows[flow].acknowledge = u64::MAX;
        if self.receivers[flow].deadline() <= self.now {
            let ack = self.receivers[flow].on_timer(self.now);
            self.reply(flow, ack);
        }
        let deadline = self.receivers[flow].deadline();
        if deadline < u64::MAX {
            self.flows[flow].acknowledge = deadline;
            self.schedules[self.part].insert(self.now, deadline, Topic::Acknowledge, flow);
        }
    }

    #[inline]
    fn source(&mut self, index: usize) {
        let (packet, next) = self.sources[index].send();
        match next {
            Some(at) => self.schedules[self.part].replace_first(self.now, at, Topic::Source, index),
            None => self.schedules[self.part].remove_first(),
        }
        self.forward(&packet);
    }

    fn probe(&mut self, index: usize) {
        let (packet, next) = self.probers[index].send(self.now);
        match next {
            Some(at) => self.schedules[self.part].replace_first(self.now, at, Topic::Probe, index),
            None => self.schedules[self.part].remove_first(),
        }
        if let Some(packet) = packet {
            self.forward(&packet);
        }
    }

    /// A link.
    pub fn link(&self, link: LinkId) -> &Link {
        &self.links[link.0 as usize]
    }

    /// Segments that a network card holds.
    pub fn held(&self, card: CardId) -> u64 {
        self.cards[card.0 as usize].nic.held() as u64
    }

    /// What a source has done.
    pub fn source_statistics(&self, source: SourceId) -> SourceStatistics {
        self.sources[source.0 as usize].statistics()
    }

    /// Forgets all counters, at the end of a warm-up; windows and estimates stay.
    pub fn reset_statistics(&mut self) {
        self.links.iter_mut().for_each(Link::reset);
        self.senders.iter_mut().for_each(Sender::reset);
        self.sources.iter_mut().for_each(Source::reset);
        for (flow, receiver) in self.flows.iter_mut().zip(&self.receivers) {
            flow.base_received = receiver.received();
            (flow.base_delivered, flow.base_marked) = (receiver.in_order(), receiver.marked());
        }
    }

    /// Bytes of memory held, without what the allocator adds.
    pub fn memory(&self) -> Bytes {
        let links: usize = self.links.iter().map(Link::memory).sum();
        let senders: usize = self.senders.iter().map(Sender::memory).sum();
        let receivers: usize = self.receivers.iter().map(Receiver::memory).sum();
        let probers: usize = self.probers.iter().map(Prober::memory).sum();
        let cards: usize = self.cards.iter().map(|card| card.nic.memory()).sum();
        let rest = self.flows.len() * size_of::<Flow>() + self.sources.len() * size_of::<Source>();
        Bytes::new(
            (links
                + senders
                + receivers
                + probers
                + cards
                + rest
                + self.schedules.iter().map(Schedule::memory).sum::<usize>()
                + self.reports.memory()
                + self.groups.memory()
                + self.routes.len() * 4) as u64,
        )
    }
}

/// The number of the next component of a kind.
///
/// # Panics
/// When there are more than the scheduler can tell apart; scenarios check this before.
fn number(count: usize) -> u32 {
    assert!(count < MAX_COMPONENTS, "a network holds at most {MAX_COMPONENTS} components of a kind");
    count as u32
}
