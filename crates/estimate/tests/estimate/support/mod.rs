//! A deterministic path model: a 10 Gb/s queue with cross traffic, and a receiver that coalesces interrupts.
//!
//! rapid 2.15, 4.0 and appendix B. It is deliberately small: it evaluates estimators; the simulator
//! evaluates protocols.

// Each test file uses a different part of this module.
#![allow(dead_code, unreachable_pub)]

use headway_estimate::stream::Arrival;
use headway_estimate::{Schedule, Shape, StreamRecord};
use headway_host::LineClock;
use headway_units::statistics::closest;
use headway_units::{Bytes, Duration, Instant, Rate};
use rand::{RngExt, SeedableRng};
use rand_distr::{Distribution, Exp, Geometric};
use rand_pcg::Pcg64Mcg;

pub const CAPACITY: Rate = Rate::from_bps(10_000_000_000);
/// MTU 9000 with all overhead on the wire.
pub const PACKET: Bytes = Bytes::new(9038);
/// Size of a cross packet on the wire, MTU 1500.
const CROSS_PACKET: f64 = 1538.0;
/// Nanoseconds per byte at 10 Gb/s.
const NS_PER_BYTE: f64 = 0.8;
/// rapid 2.2: four rates over a range of 52 %, 64 gaps.
pub const SHAPE: Shape = Shape { rates: 4, packets_per_rate: 16, step: 1.15 };

/// The path on which streams are sent.
#[derive(Clone, Copy)]
pub struct Path {
    /// Mean rate of the cross traffic.
    pub cross: Rate,
    /// Mean number of packets per batch of cross traffic: 1 for Poisson arrivals, 12.4 for the bursty B-CT.
    pub batch: f64,
    /// Minimum time between receive interrupts before its jitter of 20 %; zero for one interrupt per packet.
    pub coalescing: Duration,
    pub seed: u64,
}

impl Path {
    /// Returns a path with 7.53 Gb/s available among Poisson traffic, and interrupts 120 us apart.
    pub fn usual(seed: u64) -> Path {
        Path { cross: gbps(2.47), batch: 1.0, coalescing: Duration::from_us(120), seed }
    }
}

pub fn gbps(gbps: f64) -> Rate {
    Rate::from_mbps(gbps * 1e3)
}

/// A stream as observed at both ends, with the true available bandwidth.
pub struct Observed {
    pub record: StreamRecord,
    /// Capacity minus the cross traffic that left the queue between the first and the last
    /// packet (rapid 2.16).
    pub available: Rate,
    /// Capacity minus the cross traffic that arrived at the queue in that time, which does not depend on
    /// the stream itself.
    pub offered: Rate,
}

impl Observed {
    /// Returns the relative error of an estimate.
    pub fn error(&self, estimate: Rate) -> f64 {
        estimate.bps_f64() / self.available.bps_f64() - 1.0
    }

    /// Returns whether the probed rates enclose the available bandwidth.
    pub fn covered(&self) -> bool {
        let rate = |gap: Option<&Duration>| gap.and_then(|gap| Rate::of(self.record.packet, *gap));
        rate(self.record.intended.first()) <= Some(self.available)
            && Some(self.available) <= rate(self.record.intended.last())
    }
}

/// Sends streams with `silence` between them and returns what was observed of each.
///
/// Without silence they follow each other as in Rapid: the first packet of a stream is the last one of the
/// previous stream.
pub fn send(path: Path, schedules: &[Schedule], silence: Option<Duration>) -> Vec<Observed> {
    let mut line = LineClock::new(CAPACITY);
    let mut scheduled = Instant::from_ns(1_000_000);
    let mut departures = vec![line.depart(scheduled, PACKET)];
    let mut firsts = Vec::new();
    for (i, schedule) in schedules.iter().enumerate() {
        if let Some(silence) = silence.filter(|_| i > 0) {
            scheduled += silence;
            departures.push(line.depart(scheduled, PACKET));
        }
        firsts.push(departures.len() - 1);
        for gap in &schedule.gaps {
            scheduled += *gap;
            departures.push(line.depart(scheduled, PACKET));
        }
    }
    let mut rng = Pcg64Mcg::seed_from_u64(path.seed);
    let exits = bottleneck(path, &departures, &mut rng);
    let stamps = receiver(path.coalescing, &exits, &mut rng);
    let observe = |(id, (schedule, first)): (usize, (&Schedule, usize))| {
        let last = first + schedule.gaps.len();
        let arrivals = (first..=last)
            .map(|k| Arrival {
                index: (k - first) as u32,
                size: PACKET,
                sent: departures[k],
                received: Some(stamps[k]),
            })
            .collect();
        let bits = (exits[last].1 - exits[first].1) * 8.0;
        let left = |seconds: f64| CAPACITY.saturating_sub(Rate::from_bps_f64(bits / seconds));
        Observed {
            record: StreamRecord {
                id: id as u32,
                packet: PACKET,
                average: schedule.average,
                intended: schedule.gaps.clone(),
                arrivals,
            },
            available: left((exits[last].0 - exits[first].0) * 1e-9),
            offered: left((departures[last] - departures[first]).secs_f64()),
        }
    };
    schedules.iter().zip(firsts).enumerate().map(observe).collect()
}

/// Returns for each packet the time in ns at which it leaves the queue, and the bytes of cross traffic that
/// left before it.
fn bottleneck(path: Path, departures: &[Instant], rng: &mut Pcg64Mcg) -> Vec<(f64, f64)> {
    let between_batches = path.batch * CROSS_PACKET * 8e9 / path.cross.bps_f64().max(1.0);
    let spacing = Exp::new(1.0 / between_batches).expect("a positive rate");
    let more = Geometric::new(1.0 / path.batch).expect("a probability");
    let mut cross_at = spacing.sample(rng);
    let (mut free, mut crossed) = (0.0f64, 0.0);
    let mut exits = Vec::with_capacity(departures.len());
    for departure in departures {
        let departure = departure.ns() as f64;
        while cross_at <= departure {
            let bytes = CROSS_PACKET * (1 + more.sample(rng)) as f64;
            free = free.max(cross_at) + bytes * NS_PER_BYTE;
            crossed += bytes;
            cross_at += spacing.sample(rng);
        }
        free = free.max(departure) + PACKET.get() as f64 * NS_PER_BYTE;
        exits.push((free, crossed));
    }
    exits
}

/// Models interrupts with jitter, delivery at 0.6 to 1.0 us per packet, and timestamps in whole microseconds
/// (rapid 2.15).
fn receiver(coalescing: Duration, exits: &[(f64, f64)], rng: &mut Pcg64Mcg) -> Vec<Instant> {
    if coalescing == Duration::ZERO {
        return exits.iter().map(|(exit, _)| microseconds(*exit)).collect();
    }
    let mut stamps = Vec::with_capacity(exits.len());
    let mut last_interrupt = 0.0;
    while let Some((arrival, _)) = exits.get(stamps.len()) {
        let earliest = last_interrupt + coalescing.ns() as f64 * rng.random_range(0.8..1.2);
        let mut clock = earliest.max(arrival + 1_000.0);
        last_interrupt = clock;
        while exits.get(stamps.len()).is_some_and(|(arrival, _)| *arrival <= clock) {
            clock += rng.random_range(600.0..1_000.0);
            stamps.push(microseconds(clock));
        }
    }
    stamps
}

fn microseconds(ns: f64) -> Instant {
    Instant::from_ns((ns / 1e3) as u64 * 1_000)
}

/// Returns streams of four rates whose averages are distributed uniformly at random over `low..high` Gb/s.
pub fn random_averages(count: usize, low: f64, high: f64, seed: u64) -> Vec<Schedule> {
    let mut rng = Pcg64Mcg::seed_from_u64(seed);
    (0..count).map(|_| Schedule::p_stream(SHAPE, gbps(rng.random_range(low..high)), PACKET)).collect()
}

/// Returns `count` streams of four rates around the same average.
pub fn same_average(count: usize, average: f64) -> Vec<Schedule> {
    vec![Schedule::p_stream(SHAPE, gbps(average), PACKET); count]
}

/// Returns `count` single-rate streams.
pub fn same_rate(count: usize, rate: f64, gaps: usize) -> Vec<Schedule> {
    vec![Schedule::single_rate(gbps(rate), gaps, PACKET); count]
}

/// Returns the value below which a fraction `part` of the values lies; sorts the values.
pub fn quantile(values: &mut [f64], part: f64) -> f64 {
    values.sort_by(f64::total_cmp);
    closest(values, part).unwrap_or(f64::NAN)
}

/// Returns the fraction of errors within 10 %.
pub fn within_ten_percent(errors: &[f64]) -> f64 {
    errors.iter().filter(|error| error.abs() < 0.1).count() as f64 / errors.len() as f64
}
