//! One direction of a link: queue, wire, delay, loss, and the cross traffic.

use std::collections::VecDeque;

use headway_link::RandomLosses;
use headway_queue::explicit::Record;
use headway_traffic::channel::DelayTrace;
use headway_units::{Duration, Instant};
use rand::SeedableRng;
use rand_pcg::Pcg64Mcg;

use crate::cross::Source;
use crate::meter::{Meter, Owner};
use crate::packet::Packet;
use crate::queue::{Departure, Queue, Transmission};
use crate::spec::{Cross, Direction, LinkSpec};
use crate::truth::Interval;
use crate::wire::Changed;

/// How long before its delivery a packet is judged at the latest. The emulator sleeps until so long before a
/// delivery in any case, because sleepers wake up late (50 to 100 us is sensible).
pub(crate) const LEAD: Duration = Duration::from_us(70);

/// The fate of a host's packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It arrives at the far end.
    Arrives {
        /// When.
        at: Instant,
        /// Whether it is marked CE.
        marked: bool,
    },
    /// It was sent over the wire and lost there.
    Lost,
    /// The queue dropped it.
    Dropped,
}

/// What became of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decided {
    /// Its number.
    pub frame: u32,
    /// Its fate.
    pub fate: Fate,
    /// The feedback of its congestion header, if it has one that a router reads.
    pub feedback: Option<u32>,
}

/// A link as pure arithmetic: the caller offers the packets of hosts, and takes out what became of them.
#[derive(Clone, Debug)]
pub struct Link {
    queue: Queue,
    /// What became of host packets.
    decided: VecDeque<Decided>,
    /// A drop-tail queue that sees cross traffic only. It shows whether a cross packet would have been
    /// dropped without the hosts' packets.
    shadow: Queue,
    sources: Vec<Source>,
    meter: Meter,
    delay: Duration,
    /// Replaces `delay` if the link has a delay trace; its times count from the instant.
    delay_trace: Option<(DelayTrace, Instant)>,
    losses: RandomLosses,
    rng: Pcg64Mcg,
    direction: Direction,
    mtu: u32,
    seed: u64,
    /// How often path or traffic were replaced; each change uses new random numbers.
    generation: u64,
    /// Everything up to this time has been counted.
    clock: Instant,
    last_arrival: Instant,
}

impl Link {
    /// Creates a link that starts empty at `start`; `cross` entries of the other direction are ignored. `mtu`
    /// is the largest IP packet in bytes.
    pub fn new(
        direction: Direction,
        spec: &LinkSpec,
        cross: &[Cross],
        (seed, mtu): (u64, u32),
        start: Instant,
        interval: Duration,
    ) -> Link {
        let rates = spec.served_from(start, mtu);
        let queue_seed = sub_seed(seed, direction, 0, QUEUE);
        let shadow = Queue::new(start, rates.clone(), &spec.drop_tail(), 0);
        let policed = spec.police.map(|policer| policer.rate);
        let mut link = Link {
            meter: Meter::new(start, interval, shadow.server().clone(), policed),
            queue: Queue::new(start, rates, &spec.discipline(), queue_seed),
            decided: VecDeque::new(),
            shadow,
            sources: Vec::new(),
            delay: spec.delay,
            delay_trace: spec.delay_trace.clone().map(|trace| (trace, start)),
            losses: RandomLosses::default(),
            rng: Pcg64Mcg::seed_from_u64(0),
            direction,
            mtu,
            seed,
            generation: 0,
            clock: start,
            last_arrival: Instant::ZERO,
        };
        link.rng = Pcg64Mcg::seed_from_u64(link.sub_seed(LOSS));
        link.losses = link.losses_from(start, spec);
        link.police(spec);
        link.set_cross(start, cross);
        link
    }

    /// Logs the queueing delay of every packet in the `delays` of the intervals.
    pub(crate) fn log_delays(&mut self) {
        self.meter.log_delays();
    }

    /// Advances to `time` inclusive: cross traffic arrives, and waiting packets depart or are dropped.
    pub(crate) fn advance(&mut self, time: Instant) {
        while let Some(source) = self.sources.iter_mut().min_by_key(|source| source.next()) {
            let (at, size) = (source.next(), source.size());
            if at > time {
                break;
            }
            source.step();
            self.judge_departures(at);
            self.meter.cross_offered(at, size);
            let alone = self.shadow.push(&mut Packet::new(at, size)).is_some();
            self.push(&mut Packet::new(at, size), alone);
        }
        self.judge_departures(time);
        self.clock = self.clock.max(time);
    }

    /// Returns the versions of the congestion headers that the queue serves; none if it reads no headers.
    pub fn versions(&self) -> &'static [u8] {
        self.queue.versions()
    }

    /// Whether the queue must know which flow a packet belongs to.
    pub(crate) fn needs_flows(&self) -> bool {
        self.queue.needs_flows()
    }

    /// Returns the records of the control intervals that ended since the last call.
    pub fn take_records(&mut self) -> Vec<Record> {
        self.queue.take_records()
    }

    /// Offers a host's packet that arrives at the queue; [`Link::take`] tells what became of it. A packet
    /// reported late, after time has advanced past its arrival, counts as arriving now.
    pub fn offer(&mut self, mut packet: Packet) {
        packet.arrived = packet.arrived.max(self.clock);
        self.advance(packet.arrived);
        self.push(&mut packet, false);
    }

    /// Returns by when [`Link::take`] must be called so that no packet of a host is late;
    /// `None` if none waits.
    ///
    /// Nobody waits for cross traffic, and whatever happens later first judges the departures that were due
    /// before. So the result is the same, and the caller need not wake up for every packet.
    pub(crate) fn next_event(&self) -> Option<Instant> {
        let turn = self.queue.next_turn().filter(|_| self.queue.has_host())?;
        match self.queue.first_host() {
            Some((own_turn, left)) if self.delay_trace.is_none() => {
                Some(own_turn.max(left + self.delay - LEAD))
            }
            _ => Some(turn),
        }
    }

    /// Returns when the next waiting packet's departure is judged, whoever sent it; `None` if none waits.
    #[cfg(test)]
    pub(crate) fn next_turn(&self) -> Option<Instant> {
        self.queue.next_turn()
    }

    /// Returns what became of the next packet of a host by `now`, in order of departure; call until `None`.
    pub fn take(&mut self, now: Instant) -> Option<Decided> {
        while self.decided.is_empty()
            && self.next_event().is_some_and(|event| event <= now)
            && let Some(turn) = self.queue.next_turn()
        {
            self.advance(turn);
        }
        self.decided.pop_front()
    }

    /// Passes a packet to the queue; `alone` says whether the queue would have accepted it without
    /// the packets of hosts.
    fn push(&mut self, packet: &mut Packet, alone: bool) {
        match self.queue.push(packet) {
            Some(Some(transmission)) => self.left(packet, transmission),
            Some(None) => {}
            None => self.dropped(packet, alone),
        }
        let backlog = self.queue.backlog(packet.arrived);
        self.meter.backlog(packet.arrived, backlog);
        // The packet may be the first, or one too many.
        self.judge_departures(packet.arrived);
    }

    /// Judges the departures of all waiting packets up to `time`.
    fn judge_departures(&mut self, time: Instant) {
        while let Some(Departure { packet, transmission }) = self.queue.serve(time) {
            match transmission {
                Some(transmission) => self.left(&packet, transmission),
                // The queue accepted it on arrival, as it would have without the hosts' packets;
                // so hosts are charged.
                None => self.dropped(&packet, true),
            }
        }
    }

    /// Counts a packet that has left the queue, and puts it on the wire.
    fn left(&mut self, packet: &Packet, transmission: Transmission) {
        self.meter.carried(packet.frame.map_or(Owner::Cross, Owner::of), transmission, packet.size);
        self.meter.queued(packet.arrived, transmission.start);
        if packet.frame.is_some() {
            let fate = self.send(transmission, packet.marked);
            self.decide(packet, fate);
        }
    }

    fn dropped(&mut self, packet: &Packet, alone: bool) {
        if packet.frame.is_some() {
            self.meter.host_dropped(packet.arrived);
            self.decide(packet, Fate::Dropped);
        } else {
            self.meter.cross_dropped(packet.arrived, alone);
        }
    }

    fn decide(&mut self, packet: &Packet, fate: Fate) {
        let feedback = packet.header.map(|header| header.feedback);
        if let Some(frame) = packet.frame {
            self.decided.push_back(Decided { frame: frame.number, fate, feedback });
        }
    }

    /// Sends a host's packet over the wire.
    fn send(&mut self, Transmission { start, finish }: Transmission, marked: bool) -> Fate {
        if marked {
            self.meter.host_marked(start);
        }
        // Lost on the wire, after it used its share of the capacity: the truth does not depend on losses.
        if self.losses.draw(finish, &mut self.rng) {
            self.meter.host_lost(start);
            return Fate::Lost;
        }
        let delay = match &self.delay_trace {
            None => self.delay,
            Some((trace, begin)) => trace.at(finish - *begin),
        };
        // A path whose delay shrinks does not reorder.
        self.last_arrival = self.last_arrival.max(finish + delay);
        Fate::Arrives { at: self.last_arrival, marked }
    }

    /// Replaces the link's parameters from `at` on, from which the times of `rates` and of a delay trace
    /// count; packets that already have a departure time keep it.
    pub(crate) fn set_link(&mut self, at: Instant, spec: &LinkSpec) {
        self.advance(at);
        self.generation += 1;
        let rates = spec.served_from(at, self.mtu);
        self.queue.change(at, rates.clone(), &spec.discipline(), self.sub_seed(QUEUE));
        self.shadow.change(at, rates, &spec.drop_tail(), 0);
        self.police(spec);
        let policed = spec.police.map(|policer| policer.rate);
        self.meter.set_capacity(at, self.queue.server().clone(), policed);
        self.delay = spec.delay;
        self.delay_trace = spec.delay_trace.clone().map(|trace| (trace, at));
        self.losses = self.losses_from(at, spec);
    }

    fn police(&mut self, spec: &LinkSpec) {
        self.queue.police(spec.police);
        self.shadow.police(spec.police);
    }

    /// Replaces queue and buffer by those of `spec` from `at` on. Rates, outages, losses and
    /// delays go on as they were.
    pub(crate) fn set_queue(&mut self, at: Instant, spec: &LinkSpec) {
        self.advance(at);
        self.generation += 1;
        self.queue.change_discipline(at, &spec.discipline(), self.sub_seed(QUEUE));
        self.shadow.change_discipline(at, &spec.drop_tail(), 0);
    }

    /// Replaces the cross traffic from `at` on; `start` and `stop` of the sources count from `at`.
    pub(crate) fn set_cross(&mut self, at: Instant, cross: &[Cross]) {
        self.generation += 1;
        self.sources.clear();
        for (index, cross) in cross.iter().enumerate() {
            if cross.direction == self.direction {
                self.sources.push(Source::new(cross, at, self.sub_seed(index as u64)));
            }
        }
        // The shadow starts from the present queue, so drops caused by earlier host packets are
        // not charged to hosts.
        self.shadow.follow(&self.queue);
    }

    /// Counts a packet that was due at `due` and left `late` after it.
    pub(crate) fn released(&mut self, due: Instant, late: Duration) {
        self.meter.released(due, late);
    }

    /// Counts what the wire did to a host packet that arrives at `at`.
    pub(crate) fn changed(&mut self, at: Instant, changed: Changed) {
        self.meter.host_changed(at, changed);
    }

    /// Counts a frame for the switch at the end of a line, which goes no further.
    pub(crate) fn control_frame(&mut self, at: Instant) {
        self.meter.control_frame(at);
    }

    /// Counts packets that the emulator failed to read.
    pub(crate) fn missed(&mut self, at: Instant, count: u64) {
        self.meter.host_missed(at, count);
    }

    /// Returns the next completed interval of the truth, if there is one.
    pub fn take_finished(&mut self) -> Option<Interval> {
        if !self.meter.has_finished(self.clock) {
            return None;
        }
        // A waiting packet is counted at its departure, so the intervals since its arrival stay open.
        self.meter.take_finished(self.queue.oldest().map_or(self.clock, |oldest| oldest.min(self.clock)))
    }

    fn losses_from(&self, at: Instant, spec: &LinkSpec) -> RandomLosses {
        RandomLosses::new(spec.loss, spec.loss_bursts, at, self.sub_seed(LOSS), 0)
    }

    fn sub_seed(&self, part: u64) -> u64 {
        sub_seed(self.seed, self.direction, self.generation, part)
    }
}

/// Derives a different seed for each use; `seed_from_u64` scrambles it.
fn sub_seed(seed: u64, direction: Direction, generation: u64, part: u64) -> u64 {
    let way = match direction {
        Direction::Forward => 0,
        Direction::Reverse => 1,
    };
    seed.wrapping_mul(0x9e37_79b9_7f4a_7c15)
        .wrapping_add(generation << 24)
        .wrapping_add(way << 20)
        .wrapping_add(part)
}

/// Seed parts beyond the indices of the cross sources.
const LOSS: u64 = 1 << 19;
const QUEUE: u64 = LOSS + 1;

#[cfg(test)]
#[path = "link_tests.rs"]
mod tests;
