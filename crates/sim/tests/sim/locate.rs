//! Narrow and tight links of random paths: `estimate::locate` over simulated chains.
//!
//! `HEADWAY_LOCATE_PATHS=400 cargo test -p headway-sim --test sim locate --
//! --nocapture` prints how often it is right.

use std::collections::BTreeMap;
use std::net::IpAddr;

use headway_estimate::hire::Rule;
use headway_estimate::locate::{Answer, Config, Locator, Step};
use headway_estimate::{TrainRecord, TrainSchedule};
use headway_sim::sweep::{ChainLink, Probe, sweep};
use headway_traffic::Traffic;
use headway_traffic::random::generator;
use headway_units::{Bytes, Duration, Instant, Rate};
use rand::Rng;

const PACKET: Bytes = Bytes::new(1_538);

/// Queues fill before anything is measured.
const WARM_UP: u64 = 300_000_000;

/// Time between the packets of a train: they leave at 3 Gb/s.
const BACK_TO_BACK: u64 = 4_000;

/// What cross traffic is like.
#[derive(Clone, Copy, Debug)]
enum Kind {
    Poisson,
    Pareto,
}

/// A path with the truth about it.
struct Path {
    links: Vec<ChainLink>,
    narrow: u32,
    tight: u32,
    /// The capacity of the narrowest link before the narrow one, in multiples of its; infinite without one.
    step: f64,
    /// What is free on the link with second-least to spare, in multiples of what is free on the tight one.
    contrast: f64,
}

/// Draws from `low` to `high`.
fn uniform(random: &mut impl Rng, low: f64, high: f64) -> f64 {
    low + (high - low) * (random.next_u64() >> 11) as f64 / (1u64 << 53) as f64
}

/// Returns the position of the smallest value, counted from 1.
fn smallest(values: &[f64]) -> u32 {
    1 + (0..values.len()).min_by(|a, b| values[*a].total_cmp(&values[*b])).unwrap_or(0) as u32
}

impl Path {
    /// Draws a path of 3 to 8 links of 20 to 100 Mb/s, each busy for a share of the time within `loads`.
    fn draw(seed: u64, kind: Kind, [low, high]: [f64; 2]) -> Path {
        let mut random = generator(seed, "paths", 0);
        let count = uniform(&mut random, 3.0, 9.0) as usize;
        let capacities: Vec<f64> = (0..count).map(|_| uniform(&mut random, 20.0, 100.0)).collect();
        let loads: Vec<f64> = (0..count).map(|_| uniform(&mut random, low, high)).collect();
        let mut free: Vec<f64> =
            capacities.iter().zip(&loads).map(|(mbps, load)| mbps * (1.0 - load)).collect();
        let (narrow, tight) = (smallest(&capacities), smallest(&free));
        free.sort_by(f64::total_cmp);
        let links = capacities.iter().zip(&loads).map(|(mbps, load)| {
            let rate = Rate::from_mbps(*mbps);
            let cross = match kind {
                Kind::Poisson => Traffic::Poisson { rate: rate.scale(*load), size: PACKET },
                Kind::Pareto => Traffic::Pareto {
                    rate: rate.scale(*load),
                    sources: 16,
                    shape: 1.9,
                    size: PACKET,
                    least_size: Some(Bytes::new(78)),
                    silence: Duration::ZERO,
                    period: Duration::ZERO,
                },
            };
            let buffer = Some(rate.bytes_in(Duration::from_ms(200)));
            ChainLink { rate, delay: Duration::from_ms(2), buffer, cross: vec![cross] }
        });
        let at = narrow as usize - 1;
        let before = capacities[..at].iter().copied().fold(f64::INFINITY, f64::min);
        let step = before / capacities[at];
        Path { links: links.collect(), narrow, tight, step, contrast: free[1] / free[0] }
    }

    /// Sends trains and returns what both ends see.
    fn send(&self, schedule: &TrainSchedule, seed: u64) -> Vec<TrainRecord> {
        let last = self.links.len() as u32;
        let mut probes = Vec::with_capacity(schedule.packets());
        let mut at = Instant::from_ns(WARM_UP);
        for (number, train) in schedule.trains.iter().enumerate() {
            for position in 0..train.packets() {
                let hidden = position > 0 && position + 1 < train.packets();
                let links = if hidden { u32::from(train.hops).min(last) } else { last };
                let at = at + Duration::from_ns((BACK_TO_BACK * position as u64) as i64);
                probes.push(Probe { at, size: schedule.packet, links });
            }
            at += schedule.gaps.get(number).copied().unwrap_or(Duration::ZERO);
        }
        let times = sweep(&self.links, &probes, seed);
        let mut records = Vec::with_capacity(schedule.trains.len());
        let mut first = 0;
        for train in &schedule.trains {
            let end = first + train.packets() - 1;
            let arrived = |index: &usize| times[*index].is_some() && probes[*index].links == last;
            let hidden_seen = (first + 1..end).filter(arrived).count() as u8;
            records.push(TrainRecord {
                train: *train,
                sent: [probes[first].at, probes[end].at],
                received: [times[first], times[end]],
                hidden_seen,
            });
            first = end + 1;
        }
        records
    }

    fn measure(&self, seed: u64, tight: bool) -> Answer {
        let (mb, s) = if tight { (12, 60) } else { (3, 30) };
        let config = Config {
            packet: PACKET,
            small: Bytes::new(128),
            budget: Bytes::new(mb * 1_000_000),
            time: Duration::from_ms(s * 1_000),
            rule: Rule::Step(0.15),
            all: false,
            tight,
            quantum: Duration::from_us(2),
            most_packets: 16_384,
            seed,
        };
        let mut now = Instant::from_ns(1);
        let mut locator = Locator::new(config, now);
        for step in 0.. {
            let Step::Send { schedule, .. } = locator.next_step(now) else { break };
            let records = self.send(&schedule, seed * 1_000 + step);
            let replies: [(u8, IpAddr); 0] = [];
            locator.observe(&records, &replies, None);
            now += schedule.duration() + Duration::from_ms(100);
        }
        locator.answer()
    }
}

/// Returns the number of paths of each kind: `usual`, or what the environment says.
fn paths(usual: usize) -> usize {
    std::env::var("HEADWAY_LOCATE_PATHS").ok().and_then(|paths| paths.parse().ok()).unwrap_or(usual)
}

/// Answers of one kind.
#[derive(Default, Debug)]
struct Tally {
    right: u32,
    wrong: u32,
    refused: u32,
    bytes: Vec<u64>,
}

/// Measures paths on which every other link has at least 1.1 times as much to spare as the tight
/// one; returns answers by cross traffic and by where the tight link is, or by how much more every
/// other link has to spare.
fn study(paths: usize) -> BTreeMap<(&'static str, &'static str), Tally> {
    let mut tallies: BTreeMap<_, Tally> = BTreeMap::new();
    for (kind, name) in [(Kind::Poisson, "Poisson"), (Kind::Pareto, "Pareto")] {
        let drawn = (1u64..).map(|seed| (seed, Path::draw(seed, kind, [0.2, 0.8])));
        for (seed, path) in drawn.filter(|(_, path)| path.contrast >= 1.1).take(paths) {
            let answer = path.measure(seed, true);
            let class = match path.contrast {
                _ if path.tight == path.narrow => "tight is narrow",
                contrast if contrast < 1.3 => "others 1.1 times",
                contrast if contrast < 1.6 => "others 1.3 times",
                _ => "others 1.6 times",
            };
            let tally = tallies.entry((name, class)).or_default();
            tally.bytes.push(answer.bytes.get());
            match answer.tight {
                Some(Ok(tight)) if tight.hop == path.tight => tally.right += 1,
                Some(Ok(_)) => tally.wrong += 1,
                _ => tally.refused += 1,
            }
        }
    }
    tallies
}

#[test]
fn tight_links_on_loaded_paths_are_found_or_refused() {
    let tallies = study(paths(20));
    for ((traffic, class), tally) in &tallies {
        let mut bytes = tally.bytes.clone();
        bytes.sort_unstable();
        let Tally { right, wrong, refused, .. } = tally;
        let median = bytes[bytes.len() / 2] as f64 / 1e6;
        println!("{traffic}, {class}: {right} right, {wrong} wrong, {refused} refused; {median:.1} MB");
    }
    let (mut right, mut wrong, mut all) = (0, 0, 0);
    for tally in tallies.values() {
        right += tally.right;
        wrong += tally.wrong;
        all += tally.right + tally.wrong + tally.refused;
    }
    assert!(wrong * 10 <= all, "{wrong} of {all} wrong");
    assert!(right * 2 >= all, "{right} of {all} right");
}

#[test]
fn narrow_links_are_found_or_refused_and_capacities_right_or_unclear() {
    let paths = paths(12);
    // The largest share of wrong ones among right ones, and the smallest share of right hops.
    for (loads, wrong_share, right_share) in
        [([0.0, 0.2], 0.01, 0.8), ([0.1, 0.4], 0.03, 0.5), ([0.2, 0.6], 0.07, 0.2), ([0.2, 0.8], 0.11, 0.05)]
    {
        // Right, wrong and refused hops; right, wrong and unclear capacities.
        let (mut hops, mut capacities) = ([0u32; 3], [0u32; 3]);
        for kind in [Kind::Poisson, Kind::Pareto] {
            // A step of a fifth is the least that the rule can see.
            let drawn = (1u64..).map(|seed| (seed, Path::draw(seed, kind, loads)));
            for (seed, path) in drawn.filter(|(_, path)| path.step >= 1.2).take(paths) {
                let answer = path.measure(seed, false);
                hops[answer.narrow.as_ref().map_or(2, |found| usize::from(found.hop != path.narrow))] += 1;
                let truth = path.links[path.narrow as usize - 1].rate;
                let clear = answer.capacity.filter(|capacity| capacity.is_clear());
                let near = |rate: Rate| (rate.bps_f64() / truth.bps_f64() - 1.0).abs() <= 0.02;
                capacities[clear.map_or(2, |capacity| usize::from(!near(capacity.rate)))] += 1;
            }
        }
        let percent = loads.map(|load| 100.0 * load);
        println!("loads of {percent:?} %: hops {hops:?}, capacities {capacities:?} (right, wrong, refused)");
        assert!(f64::from(hops[0]) >= right_share * (2 * paths) as f64, "{hops:?}");
        for [right, wrong, _] in [hops, capacities] {
            assert!(f64::from(wrong) <= 3.0 + wrong_share * f64::from(right), "{hops:?} {capacities:?}");
        }
    }
}
