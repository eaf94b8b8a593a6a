//! A queue with its discipline in front of a server.

use std::collections::VecDeque;

use headway_link::{Server, Waiting};
use headway_queue::explicit::Record;
use headway_queue::{self, Backlog, Discipline, Policer, QueueSpec, TokenBucket, Verdict};
use headway_units::{Bytes, Duration, Instant, WIRE_OVERHEAD};

pub use crate::packet::{HostFrame, Packet};
use crate::spec::Rates;

/// Returns the size on the wire of a packet with IP length `ip`.
pub const fn wire_size(ip: u64) -> Bytes {
    Bytes::new(ip + WIRE_OVERHEAD.get())
}

/// When a packet occupies the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transmission {
    /// When its turn comes.
    pub start: Instant,
    /// When the last bit has left.
    pub finish: Instant,
}

/// What became of a packet: it left the queue, or was dropped after the queue had accepted it.
#[derive(Clone, Copy, Debug)]
pub struct Departure {
    /// The packet, marked if a discipline has marked it, and with the feedback of a router in its header.
    pub packet: Packet,
    /// When it occupies the wire; `None` if it was dropped.
    pub transmission: Option<Transmission>,
}

/// A queue in front of a server, whose discipline marks and drops. There may be a policer before it.
///
/// Its backlog counts all packets whose transmission has not ended.
#[derive(Clone, Debug)]
pub struct Queue {
    /// Drops on arrival what exceeds its rate.
    policer: Option<(Policer, TokenBucket)>,
    rates: Rates,
    server: Server,
    /// When the transmission of the last packet ends.
    free: Instant,
    discipline: headway_queue::Queue,
    /// What the discipline was built from.
    spec: QueueSpec,
    /// Packets that have a time of departure: when their transmission ends, and their size. Past ones are
    /// removed at the next arrival.
    leaving: VecDeque<(Instant, Bytes)>,
    leaving_bytes: u64,
    /// Packets whose departure will be judged, and how many bytes, packets and packets of hosts these are.
    waiting: Waiting<Packet>,
    waiting_bytes: u64,
    waiting_packets: u32,
    waiting_hosts: u32,
    /// Position of the first host packet of the only queue, and the bytes before it; `None` if there is none.
    first_host: Option<(u64, u64)>,
    /// The arrival of the packet that ended the last time without packets that wait.
    ready: Instant,
    /// Records of a router that is no longer in force.
    records: Vec<Record>,
}

impl Queue {
    /// Creates an empty queue that is served at `rates` from `start` on; `seed` is for random
    /// choices of the discipline.
    pub(crate) fn new(start: Instant, rates: Rates, spec: &QueueSpec, seed: u64) -> Queue {
        let discipline = prepared(spec.build_at(start, Some(rates.known), seed), &rates);
        Queue {
            policer: None,
            waiting: Waiting::new(&discipline),
            discipline,
            spec: spec.clone(),
            server: Server::new(&rates.service, start),
            rates,
            free: Instant::ZERO,
            leaving: VecDeque::new(),
            leaving_bytes: 0,
            waiting_bytes: 0,
            waiting_packets: 0,
            waiting_hosts: 0,
            first_host: None,
            ready: Instant::ZERO,
            records: Vec::new(),
        }
    }

    /// Replaces the policer before the queue; one that stays the same keeps its tokens, and another is full.
    pub(crate) fn police(&mut self, policer: Option<Policer>) {
        if self.policer.as_ref().map(|(policer, _)| *policer) != policer {
            self.policer = policer.map(|policer| (policer, TokenBucket::new(policer.rate, policer.burst)));
        }
    }

    /// Changes rates and discipline at `now`. Packets that already have a time of departure keep it; the new
    /// discipline judges the rest. A discipline keeps its state if its parameters stay the same (but RED,
    /// whose average is one of packet times), and so does an explicit router if it stays one. A token bucket
    /// that stays the same keeps its tokens.
    pub(crate) fn change(&mut self, now: Instant, rates: Rates, spec: &QueueSpec, seed: u64) {
        let is_new = *spec != self.spec || matches!(spec, QueueSpec::Red(_)) || spec.reads_headers();
        if rates != self.rates {
            self.server = Server::new(&rates.service, now);
            self.rates = rates;
        }
        if is_new {
            self.adopt(now, spec, seed);
        }
    }

    /// Changes the discipline at `now` as [`Queue::change`] does, and leaves the rates as they are.
    pub(crate) fn change_discipline(&mut self, now: Instant, spec: &QueueSpec, seed: u64) {
        if *spec != self.spec {
            self.adopt(now, spec, seed);
        }
    }

    fn adopt(&mut self, now: Instant, spec: &QueueSpec, seed: u64) {
        // A router that stays one keeps its records.
        self.records = self.take_records();
        let ip = self.waiting_bytes - u64::from(self.waiting_packets) * WIRE_OVERHEAD.get();
        let kinds = |queue: &headway_queue::Queue| {
            (queue.queues(), matches!(queue, headway_queue::Queue::Classes(_)))
        };
        let before = kinds(&self.discipline);
        self.discipline.adopt(now, spec, Some(self.rates.known), (ip, self.waiting_packets), seed);
        self.discipline = prepared(self.discipline.clone(), &self.rates);
        self.spec = spec.clone();
        // Classes that stay classes keep what waits in them.
        if kinds(&self.discipline) != before || spec.sorts_by_label() {
            self.regroup();
        }
    }

    /// Distributes the packets that wait after another discipline has taken the place of
    /// one with other queues.
    fn regroup(&mut self) {
        self.first_host = None;
        let packets = self.waiting.regroup(&self.discipline);
        (self.waiting_bytes, self.waiting_packets, self.waiting_hosts) = (0, 0, 0);
        for packet in packets {
            let number = self.discipline.sort(packet.header.as_ref(), packet.label);
            self.discipline.take_over(packet.header.as_ref(), packet.arrived, packet.size);
            self.wait(number, packet);
        }
    }

    /// Returns the versions of the congestion headers that the discipline serves; none if
    /// it reads no headers.
    pub(crate) fn versions(&self) -> &'static [u8] {
        self.discipline.versions()
    }

    /// Whether the discipline must know which flow a packet belongs to.
    pub(crate) fn needs_flows(&self) -> bool {
        self.spec.polices() || self.spec.sorts_by_label()
    }

    /// Returns the records of the control intervals that ended since the last call.
    pub(crate) fn take_records(&mut self) -> Vec<Record> {
        let mut records = std::mem::take(&mut self.records);
        records.append(&mut self.discipline.take_records());
        records
    }

    /// Returns the server.
    pub(crate) fn server(&self) -> &Server {
        &self.server
    }

    /// Replaces this queue's contents by a copy of `other`'s.
    pub(crate) fn follow(&mut self, other: &Queue) {
        self.policer.clone_from(&other.policer);
        (self.server, self.free) = (other.server.clone(), other.free);
        self.leaving.clone_from(&other.leaving);
        self.leaving_bytes = other.leaving_bytes;
        let mut waiting: Vec<&Packet> = other.waiting.iter().collect();
        waiting.sort_by_key(|packet| packet.arrived);
        for packet in waiting {
            self.send(packet.arrived, packet.size);
        }
    }

    /// Accepts a packet that arrives at `packet.arrived`, and marks it where the discipline says so; `None`
    /// if it is dropped. Otherwise returns when it occupies the wire, unless that is decided at its departure
    /// (see [`Queue::serve`]).
    ///
    /// Arrival times must not decrease, and all departures up to then must have been served.
    pub(crate) fn push(&mut self, packet: &mut Packet) -> Option<Option<Transmission>> {
        let now = packet.arrived;
        if let Some((_, bucket)) = &mut self.policer
            && !bucket.conforms(now, packet.size)
        {
            return None;
        }
        let backlog = self.backlog_seen(now);
        if self.discipline.sorts_by_label() {
            if self.waiting_packets == 0 && self.free <= now {
                // When the server became free it asked for a packet, and there was none.
                self.discipline.next_queue(|_| None);
            }
            self.discipline.sort(None, packet.label);
        }
        packet.marked = match self.discipline.on_arrival(now, &backlog, &packet.seen()) {
            Verdict::Accept => false,
            Verdict::Mark => true,
            Verdict::Drop => return None,
        };
        // After a change of discipline packets may still be waiting: do not overtake them.
        if self.discipline.judges_departures() || self.waiting_packets > 0 {
            let number = match self.discipline.queues() {
                1 => 0,
                _ => self.discipline.sort(packet.header.as_ref(), packet.label),
            };
            self.wait(number, *packet);
            return Some(None);
        }
        Some(Some(self.send(now, packet.size)))
    }

    fn wait(&mut self, number: usize, packet: Packet) {
        if self.waiting_packets == 0 {
            self.ready = packet.arrived;
        }
        self.waiting.push(number, packet);
        if packet.frame.is_some() {
            self.waiting_hosts += 1;
            if let [only] = self.waiting.queues() {
                self.first_host.get_or_insert((only.tail() - 1, self.waiting_bytes));
            }
        }
        self.waiting_bytes += packet.size.get();
        self.waiting_packets += 1;
    }

    fn forget(&mut self, packet: &Packet) {
        self.waiting_bytes -= packet.size.get();
        self.waiting_packets -= 1;
        self.waiting_hosts -= u32::from(packet.frame.is_some());
        if let (Some((position, before)), [only]) = (&mut self.first_host, self.waiting.queues()) {
            if *position >= only.head() {
                *before -= packet.size.get();
                return;
            }
            // Each packet of cross traffic is looked at once in its life, because the search stops at
            // the next host packet.
            let mut before = 0;
            self.first_host = (only.head()..only.tail()).find_map(|position| {
                let packet = only.at(position);
                let found = packet.frame.map(|_| (position, before));
                before += packet.size.get();
                found
            });
        }
    }

    /// Returns when the next waiting packet's departure is judged; `None` if none waits.
    pub(crate) fn next_turn(&self) -> Option<Instant> {
        (self.waiting_packets > 0).then(|| self.free.max(self.ready))
    }

    /// Returns when the departure of the first host packet that waits is judged, and when it has
    /// left, both rounded down; `None` if none waits, or if what discipline and server decide about
    /// others may change that.
    pub(crate) fn first_host(&self) -> Option<(Instant, Instant)> {
        if self.discipline.delays_departures() || !self.server.is_predictable() {
            return None;
        }
        let (position, before) = self.first_host?;
        let turn = self.next_turn()?;
        let size = self.waiting.queues()[0].at(position).size.get();
        let after = |at: Instant, bytes| Instant::from_ns(at.ns() + self.server.estimate(at.ns(), bytes));
        let own_turn = after(turn, before);
        Some((own_turn, after(own_turn, size)))
    }

    /// Whether a host packet waits for its departure to be judged.
    pub(crate) fn has_host(&self) -> bool {
        self.waiting_hosts > 0
    }

    /// Returns when the oldest waiting packet arrived.
    pub(crate) fn oldest(&self) -> Option<Instant> {
        self.waiting.oldest()
    }

    /// Judges the next waiting packet if its departure is due by `now`, or drops one because too many
    /// wait; call until `None`.
    pub(crate) fn serve(&mut self, now: Instant) -> Option<Departure> {
        if let Some(packet) = self.waiting.pop_excess(&mut self.discipline) {
            self.forget(&packet);
            return Some(Departure { packet, transmission: None });
        }
        let turn = self.next_turn().filter(|turn| *turn <= now)?;
        let mut packet = self.waiting.pop(&mut self.discipline)?;
        self.forget(&packet);
        let behind = self.backlog_seen(turn);
        let waited = turn - packet.arrived;
        let verdict = self.discipline.on_departure(turn, &behind, waited, &mut packet.seen());
        packet.marked |= verdict == Verdict::Mark;
        let transmission = (verdict != Verdict::Drop).then(|| self.send(turn, packet.size));
        Some(Departure { packet, transmission })
    }

    /// Returns the bytes of the packets whose transmission has not ended, and forgets the others.
    pub(crate) fn backlog(&mut self, now: Instant) -> Bytes {
        while let Some((_, size)) = self.leaving.pop_front_if(|(finish, _)| *finish <= now) {
            self.leaving_bytes -= size.get();
        }
        Bytes::new(self.leaving_bytes + self.waiting_bytes)
    }

    fn send(&mut self, now: Instant, size: Bytes) -> Transmission {
        let start = self.free.max(now);
        self.free = Instant::from_ns(self.server.finish(start.ns(), size.get() as u16));
        self.leaving.push_back((self.free, size));
        self.leaving_bytes += size.get();
        Transmission { start, finish: self.free }
    }

    /// The queue as an arriving packet sees it.
    fn backlog_seen(&mut self, now: Instant) -> Backlog {
        let bytes = self.backlog(now);
        let turn = self.free.max(now);
        let behind = match self.waiting_bytes {
            0 => 0,
            waiting => self.server.estimate(turn.ns(), waiting),
        };
        let packets =
            u32::try_from(self.leaving.len()).unwrap_or(u32::MAX).saturating_add(self.waiting_packets);
        Backlog {
            bytes,
            packets,
            idle: if packets == 0 { now - self.free } else { Duration::ZERO },
            delay: (turn - now) + Duration::from_ns(behind as i64),
        }
    }
}

/// Makes a discipline count on rates that change, and keep a record of every control interval if it has such.
fn prepared(discipline: headway_queue::Queue, rates: &Rates) -> headway_queue::Queue {
    let mut discipline = match &rates.service {
        headway_link::Service::Steps(steps) => discipline.with_rates(steps.clone()),
        _ => discipline,
    };
    discipline.keep_records();
    discipline
}

#[cfg(test)]
mod tests {
    use headway_link::Service;
    use headway_queue::{CodelConfig, DropTailConfig};
    use headway_units::{Rate, RateSteps};

    use super::*;

    fn drop_tail(limit: u64) -> QueueSpec {
        QueueSpec::DropTail(DropTailConfig { limit: Some(Bytes::new(limit)), packets: None })
    }

    fn constant(rate: Rate) -> Rates {
        Rates { service: Service::Constant(rate), known: rate }
    }

    fn queue(rate: Rate, limit: u64) -> Queue {
        Queue::new(Instant::ZERO, constant(rate), &drop_tail(limit), 1)
    }

    fn push(queue: &mut Queue, now: Instant, size: u64) -> Option<Transmission> {
        queue.push(&mut Packet::new(now, Bytes::new(size))).map(Option::unwrap)
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
            let exact = u128::from(size) * 8 * 1_000_000 * 1_000_000_000 / u128::from(rate.bps());
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
        // One byte takes 80 ns at 100 Mb/s; a packet counts until its last byte has left.
        let left = now + Duration::from_ns(80 * 1538);
        assert!(push(&mut queue, left - Duration::from_ns(1), 1).is_none());
        assert!(push(&mut queue, left, 1539).is_none());
        assert!(push(&mut queue, left, 1538).is_some());
    }

    #[test]
    fn an_idle_wire_starts_at_the_arrival() {
        let mut queue = queue(Rate::from_mbps(100.0), 10_000);
        let service = push(&mut queue, Instant::from_ns(500), 1250).unwrap();
        assert_eq!(service, Transmission { start: Instant::from_ns(500), finish: Instant::from_ns(100_500) });
        let service = push(&mut queue, Instant::from_ns(100_400), 125).unwrap();
        assert_eq!(service.start, Instant::from_ns(100_500));
        assert_eq!(queue.backlog(Instant::from_ns(9_000_000)), Bytes::ZERO);
    }

    #[test]
    fn a_change_of_rate_keeps_what_was_promised() {
        let mut queue = queue(Rate::from_mbps(10.0), 10_000);
        let first = push(&mut queue, Instant::ZERO, 1250).unwrap();
        let faster = constant(Rate::from_mbps(100.0));
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
        let rates = Rates { service: Service::Steps(rates), known: Rate::from_mbps(100.0) };
        let mut queue = Queue::new(begin, rates, &drop_tail(10_000), 1);
        let finish = |queue: &mut Queue| push(queue, begin, 1250).unwrap().finish - begin;
        // 100 us each at 100 Mb/s; half of the second packet is left at the change, and the third takes 1 ms.
        assert_eq!(
            [finish(&mut queue), finish(&mut queue), finish(&mut queue)],
            [us(100), us(650), us(1_650)]
        );
        assert_eq!(queue.backlog(begin), Bytes::new(3 * 1250));
        assert_eq!(queue.backlog(begin + us(150)), Bytes::new(2 * 1250));
        assert_eq!(queue.backlog(begin + us(650)), Bytes::new(1250));
    }

    #[test]
    fn a_discipline_that_judges_departures_has_its_say_at_each_turn() {
        let at = |ms: u64| Instant::from_ns(ms * 1_000_000);
        // 12304 bits a packet: a millisecond each.
        let rate = constant(Rate::from_bps(12_304_000));
        let mut queue = Queue::new(at(0), rate, &QueueSpec::Codel(CodelConfig::default()), 1);
        for _ in 0..300 {
            assert_eq!(
                queue.push(&mut Packet { ect: true, ..Packet::new(at(0), Bytes::new(1538)) }),
                Some(None)
            );
        }
        assert_eq!(queue.backlog(at(0)), Bytes::new(300 * 1538));
        assert_eq!((queue.next_turn(), queue.oldest()), (Some(at(0)), Some(at(0))));
        let first = queue.serve(at(0)).unwrap();
        assert_eq!(first.transmission, Some(Transmission { start: at(0), finish: at(1) }));
        assert!(!first.packet.marked && queue.serve(at(0)).is_none());
        assert_eq!(queue.next_turn(), Some(at(1)));
        let mut marked = Vec::new();
        while let Some(Departure { packet, transmission }) = queue.serve(at(298)) {
            let Transmission { start, finish } = transmission.unwrap();
            assert_eq!(finish, start + Duration::from_ms(1));
            if packet.marked {
                marked.push(start);
            }
        }
        // The sojourn time reaches 5 ms at the fifth packet; CoDel marks the first packet 100 ms later, the
        // second after another 100 ms.
        assert_eq!(marked[..2], [at(105), at(205)]);
    }

    #[test]
    fn a_change_of_rate_does_not_make_a_discipline_forget() {
        let ms = |ms: u64| Instant::from_ns(ms * 1_000_000);
        let rate = |bps| constant(Rate::from_bps(bps));
        let codel = QueueSpec::Codel(CodelConfig::default());
        let mut queue = Queue::new(ms(0), rate(12_304_000), &codel, 1);
        for _ in 0..300 {
            queue.push(&mut Packet { ect: true, ..Packet::new(ms(0), Bytes::new(1538)) }).unwrap();
        }
        let marked = |queue: &mut Queue, until| {
            std::iter::from_fn(|| queue.serve(until)).filter(|served| served.packet.marked).count()
        };
        assert_eq!(marked(&mut queue, ms(104)), 0);
        queue.change(ms(104), rate(12_304_001), &codel, 2);
        // CoDel has seen long delays since 5 ms, so the first mark comes at 105 ms. Beginning
        // anew it would at 204 ms.
        assert_eq!(marked(&mut queue, ms(106)), 1);
    }

    #[test]
    fn nobody_overtakes_packets_that_wait_when_the_discipline_changes() {
        let rate = constant(Rate::from_mbps(10.0));
        let mut queue = Queue::new(Instant::ZERO, rate.clone(), &QueueSpec::Codel(CodelConfig::default()), 1);
        for _ in 0..2 {
            queue.push(&mut Packet::new(Instant::ZERO, Bytes::new(1250))).unwrap();
        }
        queue.change(Instant::ZERO, rate, &drop_tail(10_000), 1);
        assert_eq!(queue.push(&mut Packet::new(Instant::ZERO, Bytes::new(1250))), Some(None));
        let later = Instant::from_ns(3_000_000);
        let starts: Vec<u64> = std::iter::from_fn(|| queue.serve(later))
            .map(|served| served.transmission.unwrap().start.ns())
            .collect();
        assert_eq!(starts, [0, 1_000_000, 2_000_000]);
        assert!(push(&mut queue, later, 1250).is_some());
    }
}
