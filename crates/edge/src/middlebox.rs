//! A middlebox that lowers windows: tables of connections, their classes, and what they may have.

use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;

use headway_arithmetic::flow::{Flow, Framing, Half, Key, Kind, Meter, NotSegment, Packet, Rules};
use headway_arithmetic::rwm;
use headway_units::{Duration, Instant, PerSide, Rate, Side};

use crate::connections::Sharing;
use crate::table::Recent;
use crate::usage::NEW;
use crate::{
    Allocator, Judged, LOOKS, Monitor, News, Policy, Seen, Shares, Ticket, Treatment, Treatments, Weight,
};

/// Most decisions that are kept; the oldest make room.
const MOST_NOTED: usize = 200;

/// How many connections there are at most, and how long they may be silent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Connections in their handshake; the oldest make room for new ones.
    pub half_open: usize,
    /// Established connections; while there are so many, new ones pass unchanged.
    pub established: usize,
    /// After so long without a packet, a connection has ended (wan 2.1).
    pub idle: Duration,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { half_open: 65_536, established: 65_536, idle: Duration::from_ms(300_000) }
    }
}

/// What has passed since the beginning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Segments of TCP.
    pub segments: u64,
    /// Those whose window was lowered.
    pub lowered: u64,
    /// Packets that are not TCP.
    pub other: u64,
    /// Parts of packets.
    pub fragments: u64,
    /// Packets within others, or encrypted.
    pub tunnels: u64,
    /// Packets with headers that cannot be read.
    pub malformed: u64,
    /// Connections that began.
    pub begun: u64,
    /// Connections that have ended.
    pub ended: u64,
    /// Connections that began without a scale of both ends, or without an RTT: they pass
    /// unchanged, but count.
    pub unlimited: u64,
    /// Connections that are of no class: they pass unchanged.
    pub without_class: u64,
    /// Connections for which the table had no room: they pass unchanged.
    pub without_room: u64,
    /// Handshakes that were pushed out by later ones.
    pub pushed_out: u64,
}

/// An established connection.
#[derive(Clone, Debug)]
pub struct Tracked {
    flow: Flow,
    ticket: Ticket,
    sharing: Sharing,
    /// The packets with data that each end has sent.
    sent: [Meter; 2],
    /// Whether it passes, whatever its class may have.
    passes: bool,
    /// What it has in parts of what others of its class have.
    weight: Weight,
}

/// A decision that differs in kind from the one before about the same connection.
#[derive(Clone, Debug)]
pub struct Noted {
    /// When it was made.
    pub at: Instant,
    /// What it is about, with what was known of it.
    pub judged: Judged,
}

impl Tracked {
    /// Returns what is known of the connection.
    pub const fn flow(&self) -> &Flow {
        &self.flow
    }

    /// Returns its number, counted from 1 in the order in which connections began.
    pub const fn number(&self) -> u64 {
        self.ticket.number()
    }
}

/// The two ends of a connection without their ports.
type Hosts = [IpAddr; 2];

/// A middlebox between two sides.
#[derive(Debug)]
pub struct Middlebox {
    rules: Rules,
    no_shrink: bool,
    allocator: Allocator,
    limits: Limits,
    half_open: Recent<Half>,
    established: HashMap<Key, Tracked>,
    /// The latest RTT between hosts whose handshake was not repeated, in ns.
    earlier: HashMap<Hosts, u64>,
    counts: Counts,
    /// What a connection leaves of its share until it was looked at.
    new: PerSide<f64>,
    /// None where connections count by their number.
    watch: Option<Watch>,
}

/// What judges the connections, and when it does so next.
#[derive(Debug)]
struct Watch {
    monitor: Monitor,
    due: Instant,
    /// The number of the period of RTTs.
    period: u32,
    noted: VecDeque<Noted>,
}

impl Middlebox {
    /// Creates a middlebox at a link with these rates towards its two sides.
    pub fn new(policy: &Policy, capacity: impl Into<PerSide<Rate>>, limits: Limits) -> Middlebox {
        Middlebox {
            rules: policy.rules(),
            no_shrink: policy.no_shrink,
            allocator: Allocator::new(policy, capacity),
            limits,
            half_open: Recent::new(limits.half_open),
            established: HashMap::new(),
            earlier: HashMap::new(),
            counts: Counts::default(),
            new: PerSide::default(),
            watch: None,
        }
    }

    /// The same, which has a monitor judge its connections, and does what that says.
    pub fn with_monitor(self, monitor: Monitor) -> Middlebox {
        let watch =
            Watch { monitor, due: Instant::ZERO, period: 0, noted: VecDeque::with_capacity(MOST_NOTED) };
        Middlebox { watch: Some(watch), new: NEW, ..self }
    }

    /// Has its monitor, if it has one, share the link with that of an edge at the other end.
    pub fn coordinate(&mut self) {
        if let Some(watch) = &mut self.watch {
            watch.monitor.coordinate();
        }
    }

    /// Lets the bytes of a packet pass that arrived on a side, 0 or 1; returns whether
    /// its window was lowered.
    pub fn on_bytes(&mut self, bytes: &mut [u8], framing: Framing, side: u8, now: Instant) -> bool {
        let packet = match Packet::read(bytes, framing, side) {
            Ok(packet) => packet,
            Err(why) => {
                *match why {
                    NotSegment::Other => &mut self.counts.other,
                    NotSegment::Fragment => &mut self.counts.fragments,
                    NotSegment::Tunnel => &mut self.counts.tunnels,
                    NotSegment::Malformed => &mut self.counts.malformed,
                } += 1;
                return false;
            }
        };
        let window = self.on_packet(&packet, now);
        if window < packet.window {
            packet.write_window(bytes, window);
        }
        window < packet.window
    }

    /// Lets a segment pass, and returns the window field with which it leaves.
    pub fn on_packet(&mut self, packet: &Packet, now: Instant) -> u16 {
        self.counts.segments += 1;
        if self.watch.as_ref().is_some_and(|watch| watch.due <= now) {
            self.look(now);
        }
        match packet.kind() {
            Kind::Ask => self.on_syn(packet, now),
            Kind::Answer => self.on_answer(packet, now),
            Kind::Later => return self.on_later(packet, now),
        }
        packet.window
    }

    fn on_syn(&mut self, packet: &Packet, now: Instant) {
        if let Some(half) = self.half_open.get_mut(packet.key()) {
            half.on_syn(packet, now.ns());
        } else if let Some(half) = Half::begin(packet, now.ns()) {
            self.counts.pushed_out += u64::from(self.half_open.insert(*packet.key(), half));
        }
    }

    fn on_answer(&mut self, packet: &Packet, now: Instant) {
        let half = self.half_open.get_mut(packet.key());
        if half.is_some_and(|half| half.on_answer(packet, now.ns())) {
            self.remove(packet.key());
        }
    }

    fn on_later(&mut self, packet: &Packet, now: Instant) -> u16 {
        let key = *packet.key();
        if !self.established.contains_key(&key) {
            self.complete(packet, now);
        }
        let period = self.period();
        let Some(tracked) = self.established.get_mut(&key) else { return packet.window };
        // The segment that completes the handshake may be the last one of its end, too.
        if tracked.flow.on_segment(packet, now.ns()) {
            self.remove(&key);
            return packet.window;
        }
        if packet.data > 0 {
            tracked.sent[packet.sender()].add(now.ns(), packet.data, 1);
        }
        if let Some(period) = period {
            tracked.flow.follow_rtt(packet, period, now.ns());
        }
        if tracked.passes {
            return packet.window;
        }
        let shares = self.allocator.shares_since(tracked.flow.class, tracked.ticket);
        let side = Side::of(packet.side);
        let share = tracked.weight.scale(side, shares[side]);
        let mut bytes = rwm::bytes(share, tracked.flow.rtt().unwrap_or(0));
        if period.is_some() {
            bytes = rwm::beside(bytes, packet.sacked);
        }
        let window = tracked.flow.window(packet, bytes, self.no_shrink);
        self.counts.lowered += u64::from(window < packet.window);
        window
    }

    /// Has all connections judged, and does what is to be done.
    fn look(&mut self, now: Instant) {
        let Some(mut watch) = self.watch.take() else { return };
        let treatments = watch.monitor.look(now, self.seen(), &self.shares_by_class());
        watch.due = now + LOOKS;
        watch.period = treatments.rates.period;
        for judged in treatments.judged.iter().filter(|judged| judged.news == News::Kind) {
            if watch.noted.len() == MOST_NOTED {
                watch.noted.pop_front();
            }
            watch.noted.push_back(Noted { at: now, judged: judged.clone() });
        }
        self.apply(&treatments);
        self.watch = Some(watch);
    }

    /// Returns what there is to see of all connections, in the order of their beginning.
    pub fn seen(&self) -> Vec<Seen> {
        let seen = self.established.iter().map(|(key, Tracked { flow, ticket, sent, .. })| Seen {
            number: ticket.number(),
            key: *key,
            client: flow.client(),
            side: Side::of(flow.side() as u8),
            class: Some(flow.class).filter(|class| *class != u32::MAX),
            tcp: Some(flow.clone()),
            sent: *sent,
            is_split: false,
            ecn: [false; 2],
            passive: Default::default(),
            weight: Weight::default(),
        });
        let mut seen: Vec<Seen> = seen.collect();
        seen.sort_unstable_by_key(|seen| seen.number);
        seen
    }

    /// Does what is to be done with the connections.
    pub fn apply(&mut self, treatments: &Treatments) {
        for judged in &treatments.judged {
            let Some(tracked) = self.established.get_mut(&judged.seen.key) else { continue };
            tracked.sharing.set(&mut self.allocator, judged.shares(), judged.unused);
            tracked.passes = judged.treatment() == Treatment::Passes;
            tracked.weight = judged.decision.weight;
        }
        self.allocator.follow(treatments.rates);
    }

    fn shares_by_class(&self) -> Shares {
        PerSide::of(|side| std::array::from_fn(|class| self.allocator.shares(class as u32)[side]))
    }

    /// Returns what judges the connections, if anything does.
    pub fn monitor(&mut self) -> Option<&mut Monitor> {
        self.watch.as_mut().map(|watch| &mut watch.monitor)
    }

    /// Returns the latest decisions that differ in kind from those before, the oldest first.
    pub fn noted(&self) -> impl Iterator<Item = &Noted> {
        self.watch.iter().flat_map(|watch| &watch.noted)
    }

    /// Makes a connection of a handshake, if a segment completes one.
    fn complete(&mut self, packet: &Packet, now: Instant) {
        let key = packet.key();
        let Some(half) = self.half_open.get_mut(key) else { return };
        let hosts = [key.address(0), key.address(1)];
        let earlier = self.earlier.get(&hosts).copied().unwrap_or(0);
        let Some(mut flow) = half.on_third(packet, now.ns(), earlier) else { return };
        self.half_open.remove(key);
        if let Some(rtt) = flow.rtt().filter(|_| !flow.is_ambiguous()) {
            // When it is full it begins anew: only repeated handshakes need it.
            if self.earlier.len() >= self.limits.half_open {
                self.earlier.clear();
            }
            self.earlier.insert(hosts, rtt);
        }
        if self.established.len() >= self.limits.established {
            self.counts.without_room += 1;
            return;
        }
        let class = self.rules.classify(key, flow.client(), flow.dscp());
        flow.class = class.unwrap_or(u32::MAX);
        let (sharing, ticket) = Sharing::begin(&mut self.allocator, flow.class, self.new);
        self.counts.begun += 1;
        self.counts.unlimited += u64::from(flow.rtt().is_none() || flow.scale(0).is_none());
        self.counts.without_class += u64::from(class.is_none());
        let tracked = Tracked {
            flow,
            ticket,
            sharing,
            sent: Default::default(),
            passes: false,
            weight: Weight::default(),
        };
        self.established.insert(*key, tracked);
    }

    fn remove(&mut self, key: &Key) {
        if let Some(tracked) = self.established.remove(key) {
            tracked.sharing.end(&mut self.allocator);
            self.counts.ended += 1;
        }
    }

    /// Removes the connections that were silent for too long. Looks at all of them, so call it now and then.
    pub fn expire(&mut self, now: Instant) {
        let (allocator, counts, idle) = (&mut self.allocator, &mut self.counts, self.limits.idle);
        self.established.retain(|_, tracked| {
            let stays = now - Instant::from_ns(tracked.flow.seen()) <= idle;
            if !stays {
                tracked.sharing.end(allocator);
                counts.ended += 1;
            }
            stays
        });
    }

    /// Gives the connections classes and shares of another policy.
    pub fn set_policy(&mut self, policy: &Policy, capacity: impl Into<PerSide<Rate>>) {
        self.rules = policy.rules();
        self.no_shrink = policy.no_shrink;
        self.allocator = Allocator::new(policy, capacity);
        if let Some(watch) = &mut self.watch {
            watch.monitor.set_policy(policy);
        }
        for (key, tracked) in &mut self.established {
            let flow = &mut tracked.flow;
            flow.class = self.rules.classify(key, flow.client(), flow.dscp()).unwrap_or(u32::MAX);
            (tracked.sharing, tracked.ticket) = Sharing::begin(&mut self.allocator, flow.class, self.new);
        }
    }

    /// Returns what is shared and by whom, to set the link's rate or what is free of it.
    pub const fn allocator(&mut self) -> &mut Allocator {
        &mut self.allocator
    }

    /// Returns what a connection of a class may have towards each side, as [`Allocator::shares`] does.
    pub fn shares(&self, class: u32) -> PerSide<u64> {
        self.allocator.shares(class)
    }

    /// Returns the established connections, in no order.
    pub fn connections(&self) -> impl Iterator<Item = (&Key, &Tracked)> {
        self.established.iter()
    }

    /// Returns an established connection.
    pub fn connection(&self, key: &Key) -> Option<&Tracked> {
        self.established.get(key)
    }

    /// Returns the limit of a connection towards each side, in bytes; none where it passes unchanged.
    pub fn limits_of(&self, tracked: &Tracked) -> PerSide<Option<u64>> {
        let shares = self.allocator.shares_since(tracked.flow.class, tracked.ticket);
        let rtt = tracked.flow.rtt().filter(|_| tracked.flow.scale(0).is_some());
        shares.map(|share| rtt.map(|rtt| rwm::bytes(share, rtt)).filter(|bytes| *bytes != rwm::UNLIMITED))
    }

    /// Returns the number of the period of RTTs; none where they are not followed.
    pub fn period(&self) -> Option<u32> {
        self.watch.as_ref().map(|watch| watch.period)
    }

    /// Returns how many handshakes are under way.
    pub fn half_open(&self) -> usize {
        self.half_open.len()
    }

    /// Returns what has passed.
    pub const fn counts(&self) -> Counts {
        self.counts
    }
}
