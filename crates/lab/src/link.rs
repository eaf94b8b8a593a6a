//! One direction of a link: queue, wire, delay, loss, the receiver's network card (NIC), and the cross traffic.

use std::collections::VecDeque;

use headway_core::explicit::{Header, Record};
use headway_core::{Bytes, Duration, Instant};
use headway_traffic::channel::Losses;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

use crate::coalesce::Coalescer;
use crate::cross::Source;
use crate::meter::{Meter, Owner};
use crate::queue::{HostFrame, Queue, Service, wire_size};
use crate::spec::{Cross, Direction, LinkSpec};
use crate::traced_delay::TracedDelay;
use crate::truth::Interval;
use crate::wire::Changed;

/// How long before its delivery a packet is judged at the latest. The emulator sleeps until so long before a delivery in any
/// case, because sleepers wake up late (50 to 100 us is sensible).
const LEAD: Duration = Duration::from_us(70);

/// The fate of a host packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It is delivered to the receiver.
    Deliver {
        /// When.
        at: Instant,
        /// Whether it is marked CE.
        marked: bool,
    },
    /// It was sent over the wire and lost there.
    Lost,
    /// The queue dropped it.
    Dropped,
    /// The queue decides when the packet departs: see [`Link::decided`].
    Pending,
}

/// The fate of a packet that waited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decided {
    /// The number of its frame.
    pub frame: u32,
    /// Any but [`Verdict::Pending`].
    pub verdict: Verdict,
    /// The feedback for its congestion header, if that changes.
    pub feedback: Option<u32>,
}

/// A link as pure arithmetic: the caller reports arrivals and is told departure times.
#[derive(Clone, Debug)]
pub struct Link {
    queue: Queue,
    /// Verdicts on host packets that waited.
    decided: VecDeque<Decided>,
    /// A drop-tail queue that sees cross traffic only. It shows whether a cross packet would have been dropped without
    /// the hosts' packets.
    shadow: Queue,
    sources: Vec<Source>,
    meter: Meter,
    delay: Duration,
    /// Replaces `delay` if the link has a delay trace.
    traced_delay: Option<TracedDelay>,
    loss: f64,
    loss_bursts: Option<Losses>,
    coalescer: Option<Coalescer>,
    rng: Pcg64Mcg,
    direction: Direction,
    seed: u64,
    /// How often path or traffic were replaced; each change uses new random numbers.
    generation: u64,
    /// Everything up to this time has been counted.
    clock: Instant,
    last_delivery: Instant,
}

impl Link {
    /// Creates a link that starts empty at `start`; `cross` entries of the other direction are ignored.
    pub fn new(
        direction: Direction,
        spec: &LinkSpec,
        cross: &[Cross],
        seed: u64,
        start: Instant,
        interval: Duration,
    ) -> Link {
        let rates = spec.rate_steps().starting_at(start);
        let queue_seed = sub_seed(seed, direction, 0, QUEUE);
        let policed = spec.police.map(|policer| policer.rate);
        let mut link = Link {
            queue: Queue::new(start, rates.clone(), &spec.discipline(), queue_seed),
            decided: VecDeque::new(),
            shadow: Queue::new(start, rates.clone(), &spec.drop_tail(), 0),
            sources: Vec::new(),
            meter: Meter::new(start, interval, rates).policed_at(policed),
            delay: spec.delay,
            traced_delay: spec.delay_trace.clone().map(|trace| TracedDelay::new(trace, start)),
            loss: spec.loss,
            loss_bursts: None,
            coalescer: None,
            rng: Pcg64Mcg::seed_from_u64(0),
            direction,
            seed,
            generation: 0,
            clock: start,
            last_delivery: Instant::ZERO,
        };
        link.rng = Pcg64Mcg::seed_from_u64(link.sub_seed(LOSS));
        link.loss_bursts = link.bursts(start, spec);
        link.coalescer = link.card(spec);
        link.queue.police(spec.police);
        link.shadow.police(spec.police);
        link.set_cross(start, cross);
        link
    }

    /// Logs the queueing delay of every packet in the `delays` of the intervals.
    pub fn log_delays(&mut self) {
        self.meter.log_delays();
    }

    /// Advances to `time` inclusive: cross traffic arrives, and waiting packets depart or are dropped.
    pub fn advance(&mut self, time: Instant) {
        while let Some(source) = self.sources.iter_mut().min_by_key(|source| source.next()) {
            let (at, size) = (source.next(), source.size());
            if at > time {
                break;
            }
            source.step();
            self.judge_departures(at);
            self.meter.cross_offered(at, size);
            let alone = self.shadow.push(at, size, false, None, None).is_some();
            match self.queue.push(at, size, false, None, None) {
                Some(accepted) => self.taken(at, Owner::Cross, size, accepted.service),
                None => self.meter.cross_dropped(at, alone),
            }
        }
        self.judge_departures(time);
        self.clock = self.clock.max(time);
    }

    /// Returns the versions of the congestion headers that the queue serves; none if it reads no headers.
    pub fn versions(&self) -> &'static [u8] {
        self.queue.versions()
    }

    /// Whether the queue checks what flows say and send.
    pub fn polices(&self) -> bool {
        self.queue.polices()
    }

    /// Returns the records of the control intervals that ended since the last call.
    pub fn take_records(&mut self) -> Vec<Record> {
        self.queue.take_records()
    }

    /// Offers a host packet with IP length `ip` bytes that arrives at `at`, ECN-capable or not (`ect`), with a congestion
    /// header and the number of its flow or without. A packet reported late, after time has advanced past `at`, counts as
    /// arriving now. If it waits, [`Link::decided`] returns the number of `frame`.
    pub fn offer(
        &mut self,
        at: Instant,
        ip: u64,
        ect: bool,
        header: Option<(&Header, u32)>,
        frame: HostFrame,
    ) -> Verdict {
        let at = at.max(self.clock);
        self.advance(at);
        let size = wire_size(ip);
        let Some(accepted) = self.queue.push(at, size, ect, header, Some(frame)) else {
            self.meter.host_dropped(at);
            return Verdict::Dropped;
        };
        self.taken(at, Owner::of(frame), size, accepted.service);
        match accepted.service {
            Some(service) => self.deliver(service, accepted.marked),
            None => Verdict::Pending,
        }
    }

    /// Returns the next verdict on a host packet that waited, in order of departure.
    pub fn decided(&mut self) -> Option<Decided> {
        self.decided.pop_front()
    }

    /// Returns when the next waiting packet's departure is judged; `None` if none waits.
    pub fn next_turn(&self) -> Option<Instant> {
        self.queue.next_turn()
    }

    /// Returns by when departures must be judged so that no host packet is late: not before [`Link::next_turn`]; `None` if
    /// no host packet waits.
    ///
    /// Nobody waits for cross traffic, and whatever happens later first judges the departures that were due before. So
    /// the result is the same, and the caller need not wake up for every packet.
    pub fn next_event(&self) -> Option<Instant> {
        let turn = self.queue.next_turn().filter(|_| self.queue.has_host())?;
        match self.queue.first_host() {
            Some((own_turn, size)) if self.traced_delay.is_none() => {
                let delivery = self.queue.time_after(own_turn, size) + self.delay;
                Some(own_turn.max(delivery - LEAD))
            }
            _ => Some(turn),
        }
    }

    /// Counts a packet that the queue accepted at `at`.
    fn taken(&mut self, at: Instant, owner: Owner, size: Bytes, service: Option<Service>) {
        if let Some(service) = service {
            self.meter.carried(owner, service, size);
            self.meter.queued(at, service.start);
        }
        self.meter.backlog(at, self.queue.scaled_backlog(at));
    }

    /// Judges the departures of all waiting packets up to `time`.
    fn judge_departures(&mut self, time: Instant) {
        while let Some(served) = self.queue.serve(time) {
            let owner = served.frame.map_or(Owner::Cross, Owner::of);
            if let Some((service, _)) = served.service {
                self.meter.carried(owner, service, served.size);
                self.meter.queued(served.arrived, service.start);
            }
            let verdict = match (served.service, served.frame) {
                (Some((service, marked)), Some(_)) => self.deliver(service, marked),
                (None, Some(_)) => {
                    self.meter.host_dropped(served.arrived);
                    Verdict::Dropped
                }
                (Some(_), None) => continue,
                // The queue accepted it on arrival, as it would have without the hosts' packets; so hosts are charged.
                (None, None) => {
                    self.meter.cross_dropped(served.arrived, true);
                    continue;
                }
            };
            let feedback = served.feedback;
            let decided = served.frame.map(|frame| Decided { frame: frame.number, verdict, feedback });
            self.decided.extend(decided);
        }
    }

    /// Handles a host packet that has been sent over the wire.
    fn deliver(&mut self, service: Service, marked: bool) -> Verdict {
        if marked {
            self.meter.host_marked(service.start);
        }
        // Lost on the wire, after it used its share of the capacity: the truth does not depend on losses.
        let burst = self.loss_bursts.as_mut().is_some_and(|bursts| bursts.loses(service.finish));
        if burst || self.loss > 0.0 && self.rng.random::<f64>() < self.loss {
            self.meter.host_lost(service.start);
            return Verdict::Lost;
        }
        let finish = service.finish;
        let arrival =
            finish + self.traced_delay.as_ref().map_or(self.delay, |traced_delay| traced_delay.delay(finish));
        let delivery = self.coalescer.as_mut().map_or(arrival, |card| card.deliver(arrival));
        // A path whose delay shrinks does not reorder.
        self.last_delivery = self.last_delivery.max(delivery);
        Verdict::Deliver { at: self.last_delivery, marked }
    }

    /// Replaces the link's parameters from `at` on, from which the times of `rates` and of a delay trace count; packets
    /// that already have a departure time keep it.
    pub fn set_link(&mut self, at: Instant, spec: &LinkSpec) {
        self.advance(at);
        self.generation += 1;
        let rates = spec.rate_steps().starting_at(at);
        self.queue.change(at, rates.clone(), &spec.discipline(), self.sub_seed(QUEUE));
        self.shadow.change(at, rates.clone(), &spec.drop_tail(), 0);
        self.queue.police(spec.police);
        self.shadow.police(spec.police);
        self.meter.set_capacity(at, rates, spec.police.map(|policer| policer.rate));
        self.delay = spec.delay;
        self.traced_delay = spec.delay_trace.clone().map(|trace| TracedDelay::new(trace, at));
        self.loss = spec.loss;
        self.loss_bursts = self.bursts(at, spec);
        self.coalescer = self.card(spec);
    }

    /// Replaces queue and buffer by those of `spec` from `at` on. Rates, outages, losses and delays go on as they were.
    pub fn set_queue(&mut self, at: Instant, spec: &LinkSpec) {
        self.advance(at);
        self.generation += 1;
        self.queue.change_discipline(at, &spec.discipline(), self.sub_seed(QUEUE));
        self.shadow.change_discipline(at, &spec.drop_tail(), 0);
    }

    /// Replaces the cross traffic from `at` on; `start` and `stop` of the sources count from `at`.
    pub fn set_cross(&mut self, at: Instant, cross: &[Cross]) {
        self.generation += 1;
        self.sources.clear();
        for (index, cross) in cross.iter().enumerate() {
            if cross.direction == self.direction {
                self.sources.push(Source::new(cross, at, self.sub_seed(index as u64)));
            }
        }
        // The shadow starts from the present queue, so drops caused by earlier host packets are not charged to hosts.
        self.shadow.follow(&self.queue);
    }

    /// Counts a packet that was due at `due` and left `late` after it.
    pub fn released(&mut self, due: Instant, late: Duration) {
        self.meter.released(due, late);
    }

    /// Counts what the wire did to a host packet that arrives at `at`.
    pub(crate) fn changed(&mut self, at: Instant, changed: Changed) {
        self.meter.host_changed(at, changed);
    }

    /// Counts packets that the emulator failed to read.
    pub fn missed(&mut self, at: Instant, count: u64) {
        self.meter.host_missed(at, count);
    }

    /// Returns the next completed interval of the truth, if there is one.
    pub fn take_finished(&mut self) -> Option<Interval> {
        // A waiting packet is counted at its departure, so the intervals since its arrival stay open.
        self.meter.take_finished(self.queue.oldest().map_or(self.clock, |oldest| oldest.min(self.clock)))
    }

    fn bursts(&self, at: Instant, spec: &LinkSpec) -> Option<Losses> {
        spec.loss_bursts.map(|bursts| Losses::new(bursts, at, self.sub_seed(LOSS), 0))
    }

    fn card(&self, spec: &LinkSpec) -> Option<Coalescer> {
        spec.coalesce.map(|interval| Coalescer::new(interval, self.sub_seed(CARD)))
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
const CARD: u64 = LOSS + 1;
const QUEUE: u64 = LOSS + 2;

#[cfg(test)]
#[path = "link_tests.rs"]
mod tests;
