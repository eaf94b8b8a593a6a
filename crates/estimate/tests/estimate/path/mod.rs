//! A FIFO link with cross traffic and a coalescing receiver, modelled by arithmetic on arrival times.

use headway_estimate::{Arrival, Schedule, StreamRecord};
use headway_units::{Bytes, Duration, Instant, Rate};
use rand::{RngExt, SeedableRng};
use rand_distr::{Distribution, Exp1, Geometric};
use rand_pcg::Pcg64Mcg;

/// The arrival process of the cross traffic, whose packets are as large as the probes.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Cross {
    Cbr,
    Poisson,
    /// Poisson batches of 12.4 packets on average (rapid 4.0, BCT).
    Bursty,
}

const PACKET: Bytes = Bytes::new(1538);
const LENGTH: Duration = Duration::from_ms(8_000);
const MEAN_BATCH: f64 = 12.4;

/// The path of one run.
pub(crate) struct Path {
    capacity: Rate,
    coalescing: Duration,
    arrivals: Vec<u64>,
    random: Pcg64Mcg,
}

impl Path {
    pub(crate) fn new(capacity: Rate, cross: Cross, load: f64, coalescing: Duration, seed: u64) -> Path {
        let mut random = Pcg64Mcg::seed_from_u64(seed + 1);
        let arrivals = arrivals(capacity.scale(load), cross, &mut random);
        Path { capacity, coalescing, arrivals, random }
    }

    pub(crate) fn capacity(&self) -> Rate {
        self.capacity
    }

    /// Returns the mean available bandwidth: capacity minus the cross traffic that arrived.
    pub(crate) fn free_between(&self, from: Instant, to: Instant) -> Rate {
        let count = self.arrivals.iter().filter(|a| (from.ns()..to.ns()).contains(a)).count();
        let cross = Rate::of(PACKET * count as u64, to - from).unwrap_or_default();
        self.capacity.saturating_sub(cross)
    }

    pub(crate) fn finished(&self, record: &StreamRecord) -> Instant {
        record.arrivals.iter().filter_map(|a| a.received).max().expect("packets arrive")
    }

    /// Sends one stream through the queue that the cross traffic of the preceding 300 ms has filled.
    pub(crate) fn send(&mut self, id: u32, start: Instant, schedule: &Schedule) -> StreamRecord {
        let service = |packet| self.capacity.time_for(packet).ns() as u64;
        let fastest = Duration::from_ns(5_000);
        let mut sent = vec![start];
        for gap in &schedule.gaps {
            sent.push(sent[sent.len() - 1] + (*gap).max(fastest));
        }
        let mut next_cross = self.arrivals.partition_point(|a| *a + 300_000_000 < start.ns());
        let mut free_at = 0;
        let mut received = Vec::new();
        for at in &sent {
            while self.arrivals.get(next_cross).is_some_and(|a| *a <= at.ns()) {
                free_at = free_at.max(self.arrivals[next_cross]) + service(PACKET);
                next_cross += 1;
            }
            free_at = free_at.max(at.ns()) + service(schedule.packet);
            received.push(free_at);
        }
        self.coalesce(&mut received);
        let arrivals = sent
            .iter()
            .zip(&received)
            .enumerate()
            .map(|(index, (sent, received))| Arrival {
                index: index as u32,
                size: schedule.packet,
                sent: *sent,
                received: Some(Instant::from_ns(received + self.random.random_range(0..4_000))),
            })
            .collect::<Vec<_>>();
        StreamRecord {
            id,
            packet: schedule.packet,
            average: schedule.average,
            intended: schedule.gaps.clone(),
            arrivals: in_order(arrivals),
        }
    }

    /// Holds packets until the next interrupt, 120 us +- 20 % apart, and delivers them 4
    /// us apart (rapid 2.15).
    fn coalesce(&mut self, received: &mut [u64]) {
        let interval = self.coalescing.ns() as f64;
        if interval == 0.0 {
            return;
        }
        let mut interrupt = received[0] - (interval * self.random.random::<f64>()) as u64;
        let mut index = 0;
        while index < received.len() {
            let spacing = interval * self.random.random_range(0.8..1.2);
            interrupt = (received[index] + 1_000).max(interrupt + spacing as u64);
            let mut drained = interrupt;
            while index < received.len() && received[index] <= drained {
                drained += 4_000;
                received[index] = drained;
                index += 1;
            }
        }
    }
}

/// Restores order, because timestamp noise must not reorder packets.
fn in_order(mut arrivals: Vec<Arrival>) -> Vec<Arrival> {
    for i in 1..arrivals.len() {
        arrivals[i].received = arrivals[i].received.max(arrivals[i - 1].received);
    }
    arrivals
}

fn arrivals(rate: Rate, cross: Cross, random: &mut Pcg64Mcg) -> Vec<u64> {
    let mut arrivals = Vec::new();
    if rate == Rate::ZERO {
        return arrivals;
    }
    let gap = rate.time_for(PACKET).ns() as f64;
    let batch = Geometric::new(1.0 / MEAN_BATCH).expect("a probability");
    let mut at = gap * random.random::<f64>();
    while at < LENGTH.ns() as f64 {
        let (count, pause) = match cross {
            Cross::Cbr => (1, gap),
            Cross::Poisson => (1, gap * <Exp1 as Distribution<f64>>::sample(&Exp1, random)),
            Cross::Bursty => {
                let pause: f64 = Exp1.sample(random);
                (batch.sample(random) + 1, gap * MEAN_BATCH * pause)
            }
        };
        arrivals.extend(std::iter::repeat_n(at as u64, count as usize));
        at += pause;
    }
    arrivals
}
