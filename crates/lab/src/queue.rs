//! A queue with its discipline in front of a wire, in exact integer arithmetic.

use std::collections::VecDeque;

use headway_core::explicit::{Header, Record};
use headway_core::queue::{self, Backlog, Discipline, Policer, QueueSpec, TokenBucket, Verdict};
use headway_core::units::WIRE_OVERHEAD;
use headway_core::{Bytes, Duration, Instant, Rate, RateSteps};

pub use crate::waiting::HostFrame;
use crate::waiting::{Packet, Waiting};

const NS: u64 = 1_000_000_000;

/// Returns the size on the wire of a packet with IP length `ip`.
pub const fn wire_size(ip: u64) -> Bytes {
    Bytes::new(ip + WIRE_OVERHEAD.get())
}

/// When a packet occupies the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Service {
    /// When the first bit leaves.
    pub start: Instant,
    /// When the last bit has left.
    pub finish: Instant,
}

/// The result of accepting a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Accepted {
    /// Whether it was marked CE on arrival.
    pub marked: bool,
    /// When it occupies the wire; `None` if that is decided at its departure (see [`Queue::serve`]).
    pub service: Option<Service>,
}

/// The result of judging a packet at its departure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Served {
    /// A host's frame; `None` for cross traffic.
    pub frame: Option<HostFrame>,
    /// On the wire.
    pub size: Bytes,
    /// When it arrived.
    pub arrived: Instant,
    /// When it occupies the wire, and whether it is marked; `None` if it was dropped.
    pub service: Option<(Service, bool)>,
    /// The feedback for its congestion header, if that changes.
    pub feedback: Option<u32>,
}

/// A queue that drains at a rate that may change and whose discipline marks and drops: a FIFO, or one for each class of
/// packets. There may be a policer before it.
///
/// Its backlog counts all bytes that have not left yet, including the rest of the packet in service.
#[derive(Clone, Debug)]
pub struct Queue {
    /// Drops on arrival what exceeds its rate.
    policer: Option<(Policer, TokenBucket)>,
    wire: Wire,
    discipline: queue::Queue,
    /// What the discipline was built from.
    spec: QueueSpec,
    /// Finish times of packets that already have a service; past ones are removed at the next arrival.
    finishes: VecDeque<u64>,
    /// Packets that are judged at departure.
    waiting: Waiting,
    /// Records of a router that is no longer in force.
    records: Vec<Record>,
}

impl Queue {
    /// Creates an empty queue that drains at `rates` from `start` on; `seed` is for random choices of the discipline.
    pub fn new(start: Instant, rates: RateSteps, spec: &QueueSpec, seed: u64) -> Queue {
        let discipline = spec.build_at(start, Some(first(&rates)), seed);
        Queue {
            policer: None,
            discipline: prepared(discipline, &rates),
            spec: spec.clone(),
            wire: Wire { rates, free: 0, part: 0, switch: 0, old_rate: 0 },
            finishes: VecDeque::new(),
            waiting: Waiting::default(),
            records: Vec::new(),
        }
    }

    /// Replaces the policer before the queue; one that stays the same keeps its tokens, and another is full.
    pub fn police(&mut self, policer: Option<Policer>) {
        if self.policer.as_ref().map(|(policer, _)| *policer) != policer {
            self.policer = policer.map(|policer| (policer, TokenBucket::new(policer.rate, policer.burst)));
        }
    }

    /// Changes rates and discipline at `now`. Packets that already have a service keep it; the new discipline judges
    /// the rest. A discipline keeps its state if its parameters stay the same (but RED, whose average is one of packet
    /// times), and so does a router that tells senders their rate if it stays one.
    pub fn change(&mut self, now: Instant, rates: RateSteps, spec: &QueueSpec, seed: u64) {
        let is_new = *spec != self.spec || matches!(spec, QueueSpec::Red(_)) || spec.reads_headers();
        if is_new {
            self.adopt(now, &rates, spec, seed);
        }
        self.wire.change(now, rates);
    }

    /// Changes the discipline at `now` as [`Queue::change`] does, and leaves the rates as they are.
    pub fn change_discipline(&mut self, now: Instant, spec: &QueueSpec, seed: u64) {
        if *spec != self.spec {
            let rates = self.wire.rates.clone();
            self.adopt(now, &rates, spec, seed);
        }
    }

    fn adopt(&mut self, now: Instant, rates: &RateSteps, spec: &QueueSpec, seed: u64) {
        // A router that stays one keeps its records.
        self.records = self.take_records();
        let packets = self.waiting.len() as u64;
        let bytes = self.waiting.bytes() - packets * WIRE_OVERHEAD.get();
        let waiting = (bytes, u32::try_from(packets).unwrap_or(u32::MAX));
        let had_classes = matches!(self.discipline, queue::Queue::Classes(_));
        self.discipline.adopt(now, spec, Some(first(rates)), waiting, seed);
        self.discipline = prepared(self.discipline.clone(), rates);
        self.spec = spec.clone();
        if had_classes != matches!(self.discipline, queue::Queue::Classes(_)) {
            self.regroup();
        }
    }

    /// Distributes the packets that wait after another discipline has taken the place of one with other classes.
    fn regroup(&mut self) {
        for packet in std::mem::take(&mut self.waiting).in_order() {
            if let queue::Queue::Classes(classes) = &mut self.discipline {
                classes.take_over(packet.header.as_ref(), packet.size);
            }
            self.waiting.push(self.class(packet.header.as_ref()), packet);
        }
    }

    /// Returns the class of a packet with a congestion header or without.
    #[inline]
    fn class(&self, header: Option<&Header>) -> usize {
        match &self.discipline {
            queue::Queue::Classes(classes) => classes.class(header),
            _ => 0,
        }
    }

    /// Returns the versions of the congestion headers that the discipline serves; none if it reads no headers.
    pub fn versions(&self) -> &'static [u8] {
        self.discipline.versions()
    }

    /// Whether the discipline checks what flows say and send.
    pub fn polices(&self) -> bool {
        self.spec.polices()
    }

    /// Returns the records of the control intervals that ended since the last call.
    pub fn take_records(&mut self) -> Vec<Record> {
        let mut records = std::mem::take(&mut self.records);
        records.append(&mut self.discipline.take_records());
        records
    }

    /// Replaces this queue's contents by a copy of `other`'s.
    pub fn follow(&mut self, other: &Queue) {
        self.policer.clone_from(&other.policer);
        self.wire = other.wire.clone();
        self.finishes.clone_from(&other.finishes);
        for packet in other.waiting.in_order() {
            self.finishes.push_back(self.wire.send(packet.arrived, packet.size).finish.ns());
        }
    }

    /// Accepts a packet of `size` on the wire that arrives at `now`, ECN-capable or not (`ect`), with a congestion header and
    /// the number of its flow or without; `None` if it is dropped. `frame` is a host's, `None` for cross traffic.
    ///
    /// Arrival times must not decrease, and all departures up to `now` must have been served.
    pub fn push(
        &mut self,
        now: Instant,
        size: Bytes,
        ect: bool,
        header: Option<(&Header, u32)>,
        frame: Option<HostFrame>,
    ) -> Option<Accepted> {
        if let Some((_, bucket)) = &mut self.policer
            && !bucket.conforms(now, size)
        {
            return None;
        }
        let backlog = self.backlog_seen(now);
        let (flow, header) = header.map(|(header, flow)| (flow, *header)).unzip();
        let mut seen = header;
        let packet = queue::Packet { size, ect, header: seen.as_mut(), flow };
        let marked = match self.discipline.on_arrival(now, &backlog, &packet) {
            Verdict::Accept => false,
            Verdict::Mark => true,
            Verdict::Drop => return None,
        };
        // After a change of discipline packets may still be waiting: do not overtake them.
        if self.discipline.judges_departures() || self.waiting.len() > 0 {
            let packet = Packet { arrived: now, size, ect, marked, header, flow, frame };
            self.waiting.push(self.class(header.as_ref()), packet);
            return Some(Accepted { marked, service: None });
        }
        let service = self.wire.send(now, size);
        self.finishes.push_back(service.finish.ns());
        Some(Accepted { marked, service: Some(service) })
    }

    /// Returns when the next waiting packet's departure is judged; `None` if none waits.
    pub fn next_turn(&self) -> Option<Instant> {
        self.waiting.oldest().map(|arrived| arrived.max(Instant::from_ns(self.wire.free)))
    }

    /// Returns when the departure of the first host packet that waits is judged, and its size; `None` if none waits, or if
    /// what the discipline decides about others may change that.
    pub(crate) fn first_host(&self) -> Option<(Instant, Bytes)> {
        if self.discipline.delays_departures() {
            return None;
        }
        let (before, size) = self.waiting.first_host()?;
        Some((self.time_after(self.next_turn()?, before), size))
    }

    /// Whether a host packet waits for its departure to be judged.
    pub(crate) fn has_host(&self) -> bool {
        self.waiting.has_host()
    }

    /// Returns when `bytes` have been sent that begin at `at`, rounded down.
    pub(crate) fn time_after(&self, at: Instant, bytes: Bytes) -> Instant {
        at + self.wire.rates.time_for(at, bytes)
    }

    /// Returns when the oldest waiting packet arrived.
    pub fn oldest(&self) -> Option<Instant> {
        self.waiting.oldest()
    }

    /// Judges the next waiting packet if its departure is due by `now`; call until `None`.
    pub fn serve(&mut self, now: Instant) -> Option<Served> {
        let turn = self.next_turn().filter(|turn| *turn <= now)?;
        let class = match &mut self.discipline {
            queue::Queue::Classes(classes) => classes.next_class(self.waiting.first_sizes())?,
            _ => 0,
        };
        let Packet { arrived, size, ect, marked, header, flow, frame } = self.waiting.pop(class)?;
        let behind = self.backlog_seen(turn);
        let waited = turn - arrived;
        let mut rewritten = header;
        let seen = &mut queue::Packet { size, ect, header: rewritten.as_mut(), flow };
        let verdict = self.discipline.on_departure(turn, &behind, waited, seen);
        let feedback = rewritten.zip(header).filter(|(after, before)| after.feedback != before.feedback);
        let feedback = feedback.map(|(after, _)| after.feedback);
        let service = (verdict != Verdict::Drop).then(|| {
            let service = self.wire.send(turn, size);
            self.finishes.push_back(service.finish.ns());
            (service, marked || verdict == Verdict::Mark)
        });
        Some(Served { frame, size, arrived, service, feedback })
    }

    /// Returns the bytes that have not left at `now`.
    pub fn backlog(&self, now: Instant) -> Bytes {
        unscale(self.scaled_backlog(now))
    }

    /// The backlog in bits times 10^9, which avoids a division.
    pub(crate) fn scaled_backlog(&self, now: Instant) -> u128 {
        self.wire.scaled_backlog(now) + u128::from(self.waiting.bytes() * 8) * u128::from(NS)
    }

    /// The queue as an arriving packet sees it.
    fn backlog_seen(&mut self, now: Instant) -> Backlog {
        while self.finishes.front().is_some_and(|finish| *finish <= now.ns()) {
            self.finishes.pop_front();
        }
        let waits = Duration::from_ns(self.wire.free.saturating_sub(now.ns()) as i64);
        let turn = Instant::from_ns(self.wire.free.max(now.ns()));
        let behind = self.wire.rates.time_for(turn, Bytes::new(self.waiting.bytes()));
        let empty = self.finishes.is_empty() && self.waiting.len() == 0;
        let idle = if empty { now.ns().saturating_sub(self.wire.free) } else { 0 };
        Backlog {
            bytes: self.backlog(now),
            packets: u32::try_from(self.finishes.len() + self.waiting.len()).unwrap_or(u32::MAX),
            idle: Duration::from_ns(idle as i64),
            delay: waits + behind,
        }
    }
}

/// Returns the first of the rates, for which disciplines are built.
fn first(rates: &RateSteps) -> Rate {
    rates.at(Instant::ZERO)
}

/// Makes a discipline count on `rates`, and keep a record of every control interval if it has such.
fn prepared(discipline: queue::Queue, rates: &RateSteps) -> queue::Queue {
    let mut discipline = discipline.with_rates(rates.clone());
    discipline.keep_records();
    discipline
}

/// A wire. Carries over the fraction of a nanosecond that a packet takes, so the long-run rate is
/// exact.
#[derive(Clone, Debug)]
struct Wire {
    rates: RateSteps,
    /// When the wire becomes free: `free` nanoseconds plus what `part`, in bits times 10^9, takes.
    free: u64,
    part: u64,
    /// Until `switch`, bits accepted before the last replacement of `rates` leave, at `old_rate` on average.
    switch: u64,
    old_rate: u64,
}

impl Wire {
    fn change(&mut self, now: Instant, rates: RateSteps) {
        let left = u128::from(self.free.saturating_sub(now.ns()));
        self.old_rate = self.scaled_backlog(now).checked_div(left).unwrap_or(0) as u64;
        self.switch = self.free;
        self.part = 0;
        self.rates = rates;
    }

    fn send(&mut self, now: Instant, size: Bytes) -> Service {
        if self.free <= now.ns() {
            self.free = now.ns();
            self.part = 0;
        }
        let start = Instant::from_ns(self.free);
        (self.free, self.part) = self.rates.done_at(self.free, self.part + size.get() * 8 * NS);
        Service { start, finish: Instant::from_ns(self.free) }
    }

    fn scaled_backlog(&self, now: Instant) -> u128 {
        if now.ns() >= self.free {
            return 0;
        }
        let old = self.switch.saturating_sub(now.ns());
        u128::from(old) * u128::from(self.old_rate)
            + self.rates.work_between(self.switch.max(now.ns()), self.free)
            + u128::from(self.part)
    }
}

/// Converts bits times 10^9 to bytes, rounded up.
pub(crate) fn unscale(backlog: u128) -> Bytes {
    Bytes::new(backlog.div_ceil(8 * u128::from(NS)) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use headway_core::queue::{CodelConfig, DropTailConfig};

    fn drop_tail(limit: u64) -> QueueSpec {
        QueueSpec::DropTail(DropTailConfig { limit: Some(Bytes::new(limit)), packets: None })
    }

    fn queue(rate: Rate, limit: u64) -> Queue {
        Queue::new(Instant::ZERO, RateSteps::constant(rate), &drop_tail(limit), 1)
    }

    fn push(queue: &mut Queue, now: Instant, size: u64) -> Option<Service> {
        queue.push(now, Bytes::new(size), false, None, None).map(|accepted| accepted.service.unwrap())
    }

    #[test]
    fn a_million_packets_leave_at_exactly_the_rate() {
        for (mbps, size) in [(7.0, 1538), (97.3, 1538), (500.0, 102), (3.0, 9038)] {
            let rate = Rate::from_mbps(mbps);
            let mut queue = queue(rate, u64::MAX / 16);
            let mut finish = Instant::ZERO;
            for _ in 0..1_000_000 {
                finish = push(&mut queue, Instant::ZERO, size).unwrap().finish;
            }
            let exact = u128::from(size) * 8 * 1_000_000 * u128::from(NS) / u128::from(rate.bps());
            assert_eq!(u128::from(finish.ns()), exact);
        }
    }

    #[test]
    fn drop_tail_is_exact_at_the_byte_limit() {
        let mut queue = queue(Rate::from_mbps(100.0), 3 * 1538);
        let now = Instant::from_ns(1_000_000);
        for _ in 0..3 {
            assert!(push(&mut queue, now, 1538).is_some());
        }
        assert_eq!(queue.backlog(now), Bytes::new(3 * 1538));
        assert!(push(&mut queue, now, 1).is_none());
        // One byte takes 80 ns at 100 Mb/s.
        let later = now + Duration::from_ns(80 * 102);
        assert!(push(&mut queue, later, 103).is_none());
        assert!(push(&mut queue, later, 102).is_some());
    }

    #[test]
    fn an_idle_wire_starts_at_the_arrival() {
        let mut queue = queue(Rate::from_mbps(100.0), 10_000);
        let service = push(&mut queue, Instant::from_ns(500), 1250).unwrap();
        assert_eq!(service, Service { start: Instant::from_ns(500), finish: Instant::from_ns(100_500) });
        let service = push(&mut queue, Instant::from_ns(100_400), 125).unwrap();
        assert_eq!(service.start, Instant::from_ns(100_500));
        assert_eq!(queue.backlog(Instant::from_ns(9_000_000)), Bytes::ZERO);
    }

    #[test]
    fn a_change_of_rate_keeps_what_was_promised() {
        let mut queue = queue(Rate::from_mbps(10.0), 10_000);
        let first = push(&mut queue, Instant::ZERO, 1250).unwrap();
        let faster = RateSteps::constant(Rate::from_mbps(100.0));
        queue.change(Instant::ZERO, faster, &drop_tail(2_500), 1);
        assert_eq!(queue.backlog(Instant::ZERO), Bytes::new(1250));
        let second = push(&mut queue, Instant::ZERO, 1250).unwrap();
        assert_eq!(queue.backlog(Instant::ZERO), Bytes::new(2500));
        assert_eq!(second.start, first.finish);
        assert_eq!(second.finish - second.start, Duration::from_us(100));
    }

    #[test]
    fn a_wire_follows_its_rates_within_packets() {
        let us = |us: i64| Duration::from_us(us);
        let steps = vec![(Duration::ZERO, Rate::from_mbps(100.0)), (us(150), Rate::from_mbps(10.0))];
        let begin = Instant::from_ns(7_000_000);
        let rates = RateSteps::try_from(steps).unwrap().starting_at(begin);
        let mut queue = Queue::new(begin, rates, &drop_tail(10_000), 1);
        let finish = |queue: &mut Queue| push(queue, begin, 1250).unwrap().finish - begin;
        // 100 us each at 100 Mb/s; half of the second packet is left at the change, and the third takes 1 ms.
        assert_eq!(
            [finish(&mut queue), finish(&mut queue), finish(&mut queue)],
            [us(100), us(650), us(1_650)]
        );
        assert_eq!(queue.backlog(begin), Bytes::new(3 * 1250));
        assert_eq!(queue.backlog(begin + us(150)), Bytes::new(625 + 1250));
        assert_eq!(queue.backlog(begin + us(650)), Bytes::new(1250));
    }

    #[test]
    fn a_discipline_that_judges_departures_has_its_say_at_each_turn() {
        let at = |ms: u64| Instant::from_ns(ms * 1_000_000);
        // 12304 bits a packet: a millisecond each.
        let rate = RateSteps::constant(Rate::from_bps(12_304_000));
        let mut queue = Queue::new(at(0), rate, &QueueSpec::Codel(CodelConfig::default()), 1);
        for _ in 0..300 {
            let accepted = queue.push(at(0), Bytes::new(1538), true, None, None).unwrap();
            assert_eq!(accepted, Accepted { marked: false, service: None });
        }
        assert_eq!(queue.backlog(at(0)), Bytes::new(300 * 1538));
        assert_eq!((queue.next_turn(), queue.oldest()), (Some(at(0)), Some(at(0))));
        let first = queue.serve(at(0)).unwrap().service.unwrap();
        assert_eq!(first, (Service { start: at(0), finish: at(1) }, false));
        assert_eq!(queue.serve(at(0)), None);
        assert_eq!(queue.next_turn(), Some(at(1)));
        let mut marked = Vec::new();
        while let Some(served) = queue.serve(at(298)) {
            let (service, mark) = served.service.unwrap();
            assert_eq!(service.finish, service.start + Duration::from_ms(1));
            if mark {
                marked.push(service.start);
            }
        }
        // The sojourn time reaches 5 ms at the fifth packet; CoDel marks the first packet 100 ms later, the second
        // after another 100 ms.
        assert_eq!(marked[..2], [at(105), at(205)]);
    }

    #[test]
    fn a_change_of_rate_does_not_make_a_discipline_forget() {
        let ms = |ms: u64| Instant::from_ns(ms * 1_000_000);
        let rate = |bps| RateSteps::constant(Rate::from_bps(bps));
        let codel = QueueSpec::Codel(CodelConfig::default());
        let mut queue = Queue::new(ms(0), rate(12_304_000), &codel, 1);
        for _ in 0..300 {
            queue.push(ms(0), Bytes::new(1538), true, None, None).unwrap();
        }
        let marked = |queue: &mut Queue, until| {
            std::iter::from_fn(|| queue.serve(until)).filter(|served| served.service.unwrap().1).count()
        };
        assert_eq!(marked(&mut queue, ms(104)), 0);
        queue.change(ms(104), rate(12_304_001), &codel, 2);
        // CoDel has seen long delays since 5 ms, so the first mark comes at 105 ms. Beginning anew it would at 204 ms.
        assert_eq!(marked(&mut queue, ms(106)), 1);
    }

    #[test]
    fn nobody_overtakes_packets_that_wait_when_the_discipline_changes() {
        let rate = RateSteps::constant(Rate::from_mbps(10.0));
        let mut queue = Queue::new(Instant::ZERO, rate.clone(), &QueueSpec::Codel(CodelConfig::default()), 1);
        for _ in 0..2 {
            queue.push(Instant::ZERO, Bytes::new(1250), false, None, None).unwrap();
        }
        queue.change(Instant::ZERO, rate, &drop_tail(10_000), 1);
        assert_eq!(queue.push(Instant::ZERO, Bytes::new(1250), false, None, None).unwrap().service, None);
        let later = Instant::from_ns(3_000_000);
        let starts: Vec<u64> = std::iter::from_fn(|| queue.serve(later))
            .map(|served| served.service.unwrap().0.start.ns())
            .collect();
        assert_eq!(starts, [0, 1_000_000, 2_000_000]);
        assert!(push(&mut queue, later, 1250).is_some());
    }
}
