//! A link as simple as possible, against which the fast ones are held: what a link of this
//! project does, in one place.
//!
//! A packet arrives. A policer may drop it, then the discipline, which sees the bytes and packets that have
//! not left. It waits behind all others of its queue. When the server is free, the discipline chooses a
//! queue, judges its first packet, and the server sends that packet. Sums are computed anew each time, and
//! nothing is remembered that can be counted.

use std::collections::VecDeque;

use headway_link::Service;
use headway_queue::{Backlog, Discipline, Label, Packet, Queue, Verdict};
use headway_units::{Bytes, Duration, Instant};

/// Nanoseconds in a second.
const SECOND: u128 = 1_000_000_000;

/// A packet: its number, arrival, size, whether it is ECN-capable, and its flow.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Offered {
    pub(crate) number: usize,
    pub(crate) at: u64,
    pub(crate) size: u64,
    pub(crate) ect: bool,
    pub(crate) flow: u32,
}

/// When a packet leaves and whether it is marked; `None` if it was dropped.
pub(crate) type Fate = Option<(u64, bool)>;

/// A link and what has happened on it so far.
pub(crate) struct Reference {
    service: Service,
    /// Rate, size and tokens of a policer, and when they were counted.
    policer: Option<(u128, u128, u128, u64)>,
    discipline: Queue,
    /// Packets that wait, each marked or not, by queue.
    queues: Vec<VecDeque<(Offered, bool)>>,
    /// When each packet leaves that has been sent, and its size.
    sent: Vec<(u64, u64)>,
    /// When the server is free (ns), and the work that rounding down to nanoseconds has left
    /// over, in bits times 10^9.
    free: u64,
    rest: u128,
    /// Tokens of a shaper and when they were counted, or of a trace the number of opportunities
    /// used and the bytes left.
    tokens: u128,
    counted: u64,
    /// Fates by number.
    pub(crate) fates: Vec<Fate>,
}

impl Reference {
    /// An idle link; `policer` is a rate in b/s and a burst in bytes.
    pub(crate) fn new(service: Service, discipline: Queue, policer: Option<(u64, u64)>) -> Reference {
        let queues = vec![VecDeque::new(); discipline.queues()];
        let full = |(rate, burst): (u64, u64)| {
            let tokens = u128::from(burst) * 8 * SECOND;
            (u128::from(rate), tokens, tokens, 0)
        };
        let policer = policer.map(full);
        let tokens = match &service {
            Service::TokenBucket { burst, .. } => u128::from(burst.get()) * 8 * SECOND,
            _ => 0,
        };
        let (sent, fates) = (Vec::new(), Vec::new());
        Reference { service, policer, discipline, queues, sent, free: 0, rest: 0, tokens, counted: 0, fates }
    }

    /// Offers a packet; times ascend.
    pub(crate) fn offer(&mut self, packet: Offered) {
        self.run(packet.at);
        self.fates.resize(packet.number + 1, None);
        if self.queues.iter().all(VecDeque::is_empty) && self.free <= packet.at {
            // When the server became free it asked for a packet, and there was none.
            self.discipline.next_queue(|_| None);
        }
        if let Some((rate, full, tokens, at)) = &mut self.policer {
            *tokens = (*full).min(*tokens + *rate * u128::from(packet.at - *at));
            *at = packet.at;
            let Some(left) = tokens.checked_sub(u128::from(packet.size) * 8 * SECOND) else { return };
            *tokens = left;
        }
        let label = Label { flow: packet.flow, is_scalable: false };
        if self.discipline.sorts_by_label() {
            self.discipline.sort(None, label);
        }
        let backlog = self.backlog(packet.at);
        let seen = Packet::new(Bytes::new(packet.size), packet.ect);
        let verdict = self.discipline.on_arrival(Instant::from_ns(packet.at), &backlog, &seen);
        if verdict != Verdict::Drop {
            let number = self.discipline.sort(None, label);
            self.queues[number].push_back((packet, verdict == Verdict::Mark));
        }
        // Too many packets in all queues together: the longest queue loses its first ones.
        while let Queue::FqCodel(fq) = &mut self.discipline
            && let Some(number) = fq.overfull()
            && let Some((dropped, _)) = self.queues[number].pop_front()
        {
            fq.dropped(number, Bytes::new(dropped.size));
        }
        self.run(packet.at);
    }

    /// Sends what waits, up to `until`.
    pub(crate) fn run(&mut self, until: u64) {
        loop {
            let oldest =
                self.queues.iter().filter_map(|queue| queue.front()).map(|(first, _)| first.at).min();
            let Some(turn) = oldest.map(|at| at.max(self.free)).filter(|turn| *turn <= until) else { return };
            let queues = &self.queues;
            let first = |number: usize| queues[number].front().map(|(first, _)| Bytes::new(first.size));
            let Some(number) = self.discipline.next_queue(first) else { return };
            let Some((packet, marked)) = self.queues[number].pop_front() else { return };
            if self.discipline.sorts_by_label() {
                self.discipline.sort(None, Label { flow: packet.flow, is_scalable: false });
            }
            let behind = self.backlog(turn);
            let waited = Duration::from_ns((turn - packet.at) as i64);
            let mut seen = Packet::new(Bytes::new(packet.size), packet.ect);
            let verdict = self.discipline.on_departure(Instant::from_ns(turn), &behind, waited, &mut seen);
            if verdict == Verdict::Drop {
                continue;
            }
            let leaves = self.send(turn, packet.size);
            self.sent.push((leaves, packet.size));
            self.fates[packet.number] = Some((leaves, marked || verdict == Verdict::Mark));
        }
    }

    /// Bytes and packets that have not left at `now`, by counting all of them.
    fn backlog(&self, now: u64) -> Backlog {
        let sending = self.sent.iter().filter(|(leaves, _)| *leaves > now).map(|(_, size)| *size);
        let waiting = self.queues.iter().flatten().map(|(packet, _)| packet.size);
        let sizes: Vec<u64> = sending.chain(waiting).collect();
        let free = self.free;
        Backlog {
            bytes: Bytes::new(sizes.iter().sum()),
            packets: sizes.len() as u32,
            idle: Duration::from_ns(if sizes.is_empty() { (now - free.min(now)) as i64 } else { 0 }),
            delay: Duration::from_ns((free.max(now) - now) as i64),
        }
    }

    /// Sends `size` bytes from `turn` on; returns when the last one has left.
    fn send(&mut self, turn: u64, size: u64) -> u64 {
        let work = u128::from(size) * 8 * SECOND;
        self.free = match self.service.clone() {
            Service::Unlimited => turn,
            Service::Constant(rate) => {
                let (work, rate) = (self.rest + work, u128::from(rate.bps()));
                self.rest = work % rate;
                turn + (work / rate) as u64
            }
            Service::Steps(steps) => {
                let rate = |at: u64| u128::from(steps.at(Instant::from_ns(at)).bps());
                if (self.free..turn).any(|at| rate(at) != rate(at + 1)) {
                    self.rest = 0;
                }
                // Nanosecond by nanosecond.
                let (mut left, mut at) = (self.rest + work, turn);
                while left >= rate(at) {
                    left -= rate(at);
                    at += 1;
                }
                self.rest = left;
                at
            }
            Service::TokenBucket { rate, burst, .. } => {
                let (mut at, full) = (turn.max(self.counted), u128::from(burst.get()) * 8 * SECOND);
                let rate = u128::from(rate.bps());
                self.tokens = full.max(self.tokens).min(self.tokens + rate * u128::from(at - self.counted));
                if self.tokens < work {
                    let wait = (work - self.tokens).div_ceil(rate);
                    self.tokens += wait * rate;
                    at += wait as u64;
                }
                self.tokens -= work;
                self.counted = at;
                at
            }
            Service::Trace { opportunities, period } => {
                let time = |number: u64| {
                    let (turns, within) =
                        (number / opportunities.len() as u64, number % opportunities.len() as u64);
                    turns * period.ns().unsigned_abs() + opportunities[within as usize].ns().unsigned_abs()
                };
                // Opportunities that pass while nothing waits are lost, and what is left of the last one.
                if turn > self.free {
                    self.tokens = 0;
                    while time(self.counted) < turn {
                        self.counted += 1;
                    }
                }
                let mut at = self.free;
                while self.tokens < u128::from(size) {
                    at = time(self.counted);
                    (self.tokens, self.counted) = (self.tokens + 1538, self.counted + 1);
                }
                self.tokens -= u128::from(size);
                at
            }
        };
        self.free
    }
}
