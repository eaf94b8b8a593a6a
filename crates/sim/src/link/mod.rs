//! One direction of a link: a policer, a queue with its discipline, a server, and a wire.
//!
//! Most disciplines judge a packet when it arrives, and then its whole future is known: when its transmission ends and when it
//! reaches the far end. Such a link keeps one ring of packets in the order of their arrival and has one pending event. A
//! discipline that also judges departures, and a wire with jitter, need a second event a packet; see [`Link::serve`].

mod staged;
mod train;

use std::collections::BTreeMap;

use headway_core::queue::{Backlog, Discipline, Queue, TokenBucket, Verdict};
use headway_core::{Bytes, Duration, Instant, Rate};
use rand::Rng;

use self::staged::Staged;
use crate::config::{LinkConfig, Service};
use crate::packet::{CE, ECT, Kind, LOST, Packet, REPORT};
use crate::ring::Ring;
use crate::service::{Server, Step};
use crate::shadow::Shadow;
use headway_record::Histogram;
use headway_traffic::random::{self, Pcg64Mcg};

/// Packets and bytes on the wire.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// Packets.
    pub packets: u64,
    /// Bytes on the wire.
    pub bytes: Bytes,
}

impl Count {
    #[inline]
    pub(crate) fn add(&mut self, size: u16) {
        self.packets += 1;
        self.bytes = Bytes::new(self.bytes.get().wrapping_add(size.into()));
    }

    #[inline]
    fn add_all(&mut self, packets: u64, bytes: u64) {
        self.packets += packets;
        self.bytes = Bytes::new(self.bytes.get().wrapping_add(bytes));
    }
}

/// What has happened on a link since the start of the run or the last reset.
#[derive(Clone, Debug, Default)]
pub struct LinkStatistics {
    /// Packets that came to the link.
    pub arrived: Count,
    /// Packets whose transmission has ended, TCP segments and acknowledgements.
    pub served_tcp: Count,
    /// Packets whose transmission has ended, datagrams of sources.
    pub served_other: Count,
    /// Packets whose transmission has ended, probes.
    pub served_probe: Count,
    /// Packets handed over at the far end.
    pub delivered: Count,
    /// Packets dropped by the queue discipline.
    pub dropped: Count,
    /// Packets dropped by the policer.
    pub policed: Count,
    /// Packets lost on the wire.
    pub lost: Count,
    /// Packets marked CE.
    pub marked: u64,
    /// Time between arrival and start of transmission, of all packets served.
    pub delay: Histogram,
}

/// Bytes of the packet that is being sent, which counts as a whole, and of one that comes.
const ROOM_TO_LOOK: u64 = 2 * u16::MAX as u64;

/// What a link wants its network to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wish {
    Nothing,
    /// Call [`Link::arrive`] at a time; among events of the same time this one counts as inserted at `since`, when it became the next
    /// to happen on the link. The ends of a link may be at different times, so that this need not be now.
    Arrival {
        at: u64,
        since: u64,
    },
    /// Call [`Link::serve`] at this time.
    Serve(u64),
}

/// One direction of a link.
#[derive(Debug)]
pub struct Link {
    queue: Queue,
    server: Server,
    delay: u64,
    /// Losses happen when a random number is below this; zero for none.
    loss: u64,
    rng: Pcg64Mcg,
    /// When the transmission of the last accepted packet ends (ns).
    free: u64,
    /// Packets on their way in order of arrival; without `staged` also those that still wait.
    flight: Ring<Packet>,
    /// Position in `flight` of the first packet or train whose transmission has not ended at the time of the last look.
    unserved: u64,
    /// When a packet arrived last (ns).
    last_arrival: u64,
    /// Packets of that train whose transmission has ended, and when the next one of it arrives, with its remainder.
    noted: u64,
    next_noted: (u64, u64),
    /// The time between packets of the train that arrived or was looked at last.
    step: Option<Step>,
    /// The queue admits everything while what remains to be sent takes less than this (ns), which follows from `free`, so that nobody
    /// has to look at the packets in between; zero where packets have to be looked at.
    ample: u64,
    /// Bytes and packets that wait or are being sent.
    backlog: u64,
    waiting: u32,
    policer: Option<TokenBucket>,
    /// The rate that the policer lets pass in the long run.
    policed: Option<Rate>,
    staged: Option<Box<Staged>>,
    statistics: LinkStatistics,
    /// Bytes accepted so far, of all packets and of datagrams, never reset: the ground truth of measurements. What is dropped on
    /// leaving the queue counts only when it is a probe.
    accepted: u64,
    accepted_datagrams: u64,
    /// The queue without probes, on the path of a measurement.
    shadow: Option<Box<Shadow>>,
    /// Reports of acknowledgements that were dropped or lost.
    discarded: Vec<u32>,
}

impl Link {
    /// An idle link; `seed` and `id` choose its random numbers.
    pub(crate) fn new(config: &LinkConfig, seed: u64, id: u64) -> Link {
        let staged = config.queue.judges_departures() || config.jitter > Duration::ZERO;
        let server = Server::new(&config.service);
        Link {
            queue: config.queue.clone(),
            ample: match &config.queue {
                Queue::DropTail(queue) if !staged && config.policer.is_none() => queue
                    .room()
                    .and_then(|room| room.get().checked_sub(ROOM_TO_LOOK))
                    .and_then(|bytes| server.time_in_which(bytes))
                    .map_or(0, |time| time + 1),
                _ => 0,
            },
            server,
            delay: config.delay.ns().unsigned_abs(),
            loss: (config.loss * u64::MAX as f64) as u64,
            rng: random::generator(seed, "link", id),
            free: 0,
            flight: Ring::new(),
            unserved: 0,
            last_arrival: 0,
            noted: 0,
            next_noted: (0, 0),
            step: None,
            backlog: 0,
            waiting: 0,
            policer: config.policer.map(|(rate, burst)| TokenBucket::new(rate, burst)),
            policed: config.policer.map(|(rate, _)| rate),
            staged: staged.then(|| {
                Box::new(Staged {
                    queue: Ring::new(),
                    sending: None,
                    jitter: config.jitter.ns().unsigned_abs(),
                    last: 0,
                    overtaking: config.reordering.then(BTreeMap::new),
                    entered: 0,
                })
            }),
            statistics: LinkStatistics::default(),
            accepted: 0,
            accepted_datagrams: 0,
            shadow: None,
            discarded: Vec::new(),
        }
    }

    /// A packet joins the link.
    #[inline(always)]
    pub(crate) fn push(&mut self, now: u64, packet: Packet) -> Wish {
        if self.free.saturating_sub(now) >= self.ample {
            return self.judge(now, &packet);
        }
        self.statistics.arrived.add(packet.size);
        self.enter(&packet);
        self.send(now, packet)
    }

    /// A packet joins the link, if policer and queue let it.
    #[inline(never)]
    fn judge(&mut self, now: u64, packet: &Packet) -> Wish {
        self.statistics.arrived.add(packet.size);
        let size = Bytes::new(packet.size.into());
        if let Some(shadow) = &mut self.shadow
            && packet.kind != Kind::Probe
        {
            shadow.arrive(now, packet);
        }
        if let Some(policer) = &mut self.policer
            && !policer.conforms(Instant::from_ns(now), size)
        {
            self.statistics.policed.add(packet.size);
            self.turn_away(packet);
            return Wish::Nothing;
        }
        let backlog = self.backlog(now);
        let mark = match self.queue.on_arrival(Instant::from_ns(now), &backlog, size, packet.has(ECT)) {
            Verdict::Accept => 0,
            Verdict::Mark => self.mark(),
            Verdict::Drop => {
                self.statistics.dropped.add(packet.size);
                self.turn_away(packet);
                return Wish::Nothing;
            }
        };
        self.enter(packet);
        let packet = Packet { flags: packet.flags | mark, ..*packet };
        if self.staged.is_some() { self.wait(now, &packet) } else { self.send(now, packet) }
    }

    /// Takes account of a packet that is accepted.
    #[inline(always)]
    fn enter(&mut self, packet: &Packet) {
        self.backlog += u64::from(packet.size);
        self.waiting += 1;
        self.accepted += u64::from(packet.size);
        if packet.kind == Kind::Datagram {
            self.accepted_datagrams += u64::from(packet.size);
        }
    }

    /// Sends a packet whose whole future is known now.
    #[inline(always)]
    fn send(&mut self, now: u64, packet: Packet) -> Wish {
        let start = now.max(self.free);
        self.statistics.delay.add(start - now);
        self.free = self.server.finish(start, packet.size);
        let at = self.free + self.delay;
        let lost = if self.loses() { LOST } else { 0 };
        let first = self.flight.len() == 0;
        self.flight.push(Packet {
            at,
            joined: now,
            route: packet.route + 1,
            flags: packet.flags | lost,
            ..packet
        });
        if first { self.first_arrival(now, at) } else { Wish::Nothing }
    }

    /// A packet that joins now arrives at `at`, and none before it.
    #[inline]
    fn first_arrival(&self, now: u64, at: u64) -> Wish {
        Wish::Arrival { at, since: now.max(self.last_arrival) }
    }

    /// A packet that finds no room goes no further.
    #[cold]
    fn turn_away(&mut self, packet: &Packet) {
        if let Some(shadow) = &mut self.shadow
            && packet.kind != Kind::Probe
        {
            shadow.turned_away();
        }
        self.discard(packet);
    }

    /// Remembers the report of an acknowledgement that goes no further.
    #[inline]
    fn discard(&mut self, packet: &Packet) {
        if packet.has(REPORT) {
            self.discarded.push(packet.extra);
        }
    }

    /// Numbers of the reports of acknowledgements that were dropped or lost since the last call.
    pub(crate) fn take_discarded(&mut self) -> std::vec::Drain<'_, u32> {
        self.discarded.drain(..)
    }

    #[inline]
    fn loses(&mut self) -> bool {
        self.loss > 0 && self.rng.next_u64() < self.loss
    }

    #[inline]
    fn mark(&mut self) -> u8 {
        self.statistics.marked += 1;
        CE
    }

    #[inline]
    fn backlog(&mut self, now: u64) -> Backlog {
        let sending = self.free.saturating_sub(now);
        if self.staged.is_none() {
            self.look(now);
        }
        let behind = self
            .staged
            .as_ref()
            .map_or(0, |staged| self.server.estimate(self.backlog - staged.bytes_sending()));
        Backlog {
            bytes: Bytes::new(self.backlog),
            packets: self.waiting,
            idle: Duration::from_ns(now.saturating_sub(self.free) as i64),
            delay: Duration::from_ns((sending + behind) as i64),
        }
    }

    /// Brings the statistics up to `now`.
    pub(crate) fn catch_up(&mut self, now: u64) {
        if self.staged.is_none() {
            self.look(now);
        }
    }

    /// Takes note of the transmissions that have ended by `now`.
    #[inline]
    fn look(&mut self, now: u64) {
        while self.unserved < self.flight.tail() {
            let packet = *self.flight.at(self.unserved);
            let (at, mut carry) = if self.noted == 0 { (packet.at, packet.joined) } else { self.next_noted };
            if at - self.delay > now {
                break;
            }
            self.noted += 1;
            self.served(packet.kind, packet.size);
            if self.noted == packet.count() {
                (self.unserved, self.noted) = (self.unserved + 1, 0);
            } else if let Some(step) = self.step_of(packet.size) {
                self.next_noted = (step.after(at, &mut carry), carry);
            }
        }
    }

    #[inline]
    fn served(&mut self, kind: Kind, size: u16) {
        self.backlog -= u64::from(size);
        self.waiting -= 1;
        match kind {
            Kind::Segment | Kind::Ack | Kind::Syn | Kind::SynAck => self.statistics.served_tcp.add(size),
            Kind::Datagram => self.statistics.served_other.add(size),
            Kind::Probe => self.statistics.served_probe.add(size),
        }
    }

    /// The first packet in flight arrives; also says when the next one does. Lost packets give none.
    #[inline]
    pub(crate) fn arrive(&mut self, now: u64) -> (Option<Packet>, Wish) {
        if let Some(staged) = &mut self.staged
            && let Some(flight) = &mut staged.overtaking
        {
            // An event of a packet that has been overtaken meanwhile finds nothing to do.
            if flight.first_key_value().is_none_or(|((at, _), _)| *at > now) {
                return (None, Wish::Nothing);
            }
            let packet = flight.pop_first().map(|(_, packet)| packet);
            let next = flight
                .first_key_value()
                .map_or(Wish::Nothing, |((at, _), _)| Wish::Arrival { at: *at, since: now });
            return (packet.and_then(|packet| self.hand_over(packet)), next);
        }
        let packet = self.take();
        self.last_arrival = now;
        let next = self
            .flight
            .front()
            .map_or(Wish::Nothing, |packet| Wish::Arrival { at: packet.at, since: now.max(packet.joined()) });
        (packet.and_then(|packet| self.hand_over(packet)), next)
    }

    /// Takes the first packet off the wire.
    #[inline(always)]
    fn take(&mut self) -> Option<Packet> {
        let position = self.flight.head();
        let is_train = self.flight.front()?.count() > 1;
        let packet = if is_train { self.uncouple() } else { self.flight.pop() }?;
        if self.unserved == position && self.staged.is_none() {
            if self.noted > 0 {
                self.noted -= 1;
            } else {
                // The statistics have not taken note of its transmission yet.
                self.unserved += u64::from(!is_train);
                self.served(packet.kind, packet.size);
            }
        }
        Some(packet)
    }

    #[inline]
    fn hand_over(&mut self, packet: Packet) -> Option<Packet> {
        if packet.has(LOST) {
            self.statistics.lost.add(packet.size);
            self.discard(&packet);
            return None;
        }
        self.statistics.delivered.add(packet.size);
        Some(packet)
    }

    /// What has happened since the start or the last reset, up to the time the network has reached.
    pub fn statistics(&self) -> &LinkStatistics {
        &self.statistics
    }

    /// Packets that wait or are being sent.
    pub fn queued(&self) -> Count {
        Count { packets: self.waiting.into(), bytes: Bytes::new(self.backlog) }
    }

    /// Packets whose transmission has ended and that have not arrived.
    pub fn in_flight(&self) -> u64 {
        let Some(staged) = &self.staged else {
            let sent = self.flight.head()..self.unserved;
            return sent.map(|position| self.flight.at(position).count()).sum::<u64>() + self.noted;
        };
        staged.overtaking.as_ref().map_or(self.flight.len(), BTreeMap::len) as u64
    }

    /// Wire bytes that the link could send between two instants; `None` when it is unlimited.
    pub fn capacity(&self, from: Instant, to: Instant) -> Option<Bytes> {
        self.server.capacity(from, to)
    }

    /// Wire bytes that the link could let pass between two instants: its capacity, or less where its policer lets less pass.
    pub(crate) fn limit(&self, from: Instant, to: Instant) -> Option<Bytes> {
        let policed = self.policed.map(|rate| rate.bytes_in(to - from));
        self.capacity(from, to).into_iter().chain(policed).min()
    }

    /// The least time from when a packet joins to when it arrives (ns); zero where packets may overtake each other, so that the next to
    /// arrive is not known.
    pub(crate) fn least_passage(&self) -> u64 {
        let overtaking = self.staged.as_ref().is_some_and(|staged| staged.overtaking.is_some());
        if overtaking { 0 } else { self.delay }
    }

    /// How long a packet of `size` wire bytes takes when nothing else is on the link (ns).
    pub(crate) fn passage(&self, size: u32) -> u64 {
        let busy =
            if matches!(self.server, Server::Constant(_)) { self.server.estimate(size.into()) } else { 0 };
        self.delay + busy
    }

    /// Bytes of all packets accepted since the start of the run.
    pub(crate) fn accepted(&self) -> u64 {
        self.accepted
    }

    /// Bytes of datagrams accepted since the start of the run.
    pub(crate) fn accepted_datagrams(&self) -> u64 {
        self.accepted_datagrams
    }

    /// Keeps account, from an idle link on, of what probes do to other packets.
    pub(crate) fn watch(&mut self) {
        let (server, queue, policer) = (self.server.clone(), self.queue.clone(), self.policer.clone());
        self.ample = 0;
        self.shadow.get_or_insert_with(|| Box::new(Shadow::new(server, queue, policer)));
    }

    /// Packets of others turned away since the start of the run, beyond those that would have been without probes; zero unless
    /// watched.
    pub(crate) fn displaced(&self) -> i64 {
        self.shadow.as_ref().map_or(0, |shadow| shadow.displaced())
    }

    /// How much longer a packet that comes now waits because of probes (ns); zero unless watched.
    pub(crate) fn added_delay(&mut self, now: u64) -> u64 {
        let Some(shadow) = &self.shadow else { return 0 };
        let without = shadow.delay(now);
        self.backlog(now).delay.ns().unsigned_abs().saturating_sub(without)
    }

    /// When the transmission of the last accepted packet ends (ns).
    pub(crate) fn free(&self) -> u64 {
        self.free
    }

    /// Whether the end of the transmission of a packet is known when it joins.
    pub(crate) fn is_immediate(&self) -> bool {
        self.staged.is_none()
    }

    /// Forgets the statistics, at the end of a warm-up.
    pub(crate) fn reset(&mut self) {
        self.statistics = LinkStatistics::default();
    }

    pub(crate) fn memory(&self) -> usize {
        let staged = self.staged.as_ref().map_or(0, |staged| {
            staged.queue.memory() + staged.overtaking.as_ref().map_or(0, |flight| flight.len() * 100)
        });
        let discarded = self.discarded.capacity() * size_of::<u32>();
        let shadow = self.shadow.as_ref().map_or(0, |shadow| shadow.memory());
        size_of::<Link>() + self.flight.memory() + staged + discarded + shadow + size_of::<Histogram>()
    }
}

impl LinkConfig {
    /// A link with the given service, delay and queue, and nothing else.
    pub fn new(service: Service, delay: Duration, queue: Queue) -> LinkConfig {
        LinkConfig {
            service,
            delay,
            jitter: Duration::ZERO,
            reordering: false,
            loss: 0.0,
            queue,
            policer: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use headway_core::queue::{DropTailConfig, QueueSpec};

    #[test]
    fn a_limit_in_bytes_counts_the_whole_packet_being_sent() {
        // One byte a nanosecond, and room for two packets and a half.
        let spec = QueueSpec::DropTail(DropTailConfig { limit: Some(Bytes::new(2_500)), packets: None });
        let service = Service::Constant(Rate::from_bps(8_000_000_000));
        let mut link = Link::new(&LinkConfig::new(service, Duration::from_us(1), spec.build(None, 1)), 1, 0);
        let packet = Packet { size: 1_000, ..Packet::default() };
        for (now, dropped) in [(0, 0), (0, 0), (0, 1), (999, 2), (1_000, 2), (1_001, 3), (2_000, 3)] {
            link.push(now, packet);
            assert_eq!(link.statistics().dropped.packets, dropped, "at {now} ns");
        }
        link.catch_up(2_000);
        assert_eq!((link.queued().packets, link.in_flight()), (2, 2));
        assert_eq!(link.arrive(2_000).1, Wish::Arrival { at: 3_000, since: 2_000 });
        assert_eq!((link.statistics().served_other.packets, link.statistics().delivered.packets), (2, 1));
    }
}
