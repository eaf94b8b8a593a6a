//! The constants of `headway path`, on chains of loaded links.

use std::net::IpAddr;

use headway_estimate::hire::Rule;
use headway_estimate::locate::{Answer, Config, Locator, Step};
use headway_estimate::{TrainRecord, TrainSchedule};
use headway_sim::sweep::{ChainLink, Probe, sweep};
use headway_traffic::Traffic;
use headway_units::{Bytes, Duration, Instant, Rate};

use super::compare::Outcome;
use super::measure::{choose, named};
use super::study::{Constant, Study, Variant};

/// The groups of `sensitivity::constants` that are used here.
const GROUPS: [&str; 3] = ["LOCATE", "TIGHT", "SURVEY"];

const PACKET: Bytes = Bytes::new(1_538);
/// Queues fill before anything is measured.
const WARM_UP: Instant = Instant::from_ns(300_000_000);
/// Time between the packets of a train: they leave at 3 Gb/s.
const BACK_TO_BACK: Duration = Duration::from_us(4);

/// A chain: capacities in Mb/s, loads as shares, and whether the traffic comes in bursts.
struct Chain {
    name: &'static str,
    links: &'static [(f64, f64)],
    bursty: bool,
}

/// The narrow link at the start, in the middle and at the end; the same as the tight one,
/// before it and behind it.
const CHAINS: [Chain; 7] = [
    Chain {
        name: "tight is narrow",
        links: &[(60.0, 0.2), (50.0, 0.2), (30.0, 0.4), (80.0, 0.2)],
        bursty: false,
    },
    Chain {
        name: "tight first",
        links: &[(80.0, 0.8), (60.0, 0.3), (40.0, 0.2), (60.0, 0.2), (90.0, 0.4)],
        bursty: false,
    },
    Chain {
        name: "narrow first",
        links: &[(25.0, 0.1), (60.0, 0.3), (50.0, 0.7), (40.0, 0.2)],
        bursty: false,
    },
    Chain {
        name: "bursty",
        links: &[(60.0, 0.2), (70.0, 0.3), (60.0, 0.2), (90.0, 0.2), (50.0, 0.3), (30.0, 0.3)],
        bursty: true,
    },
    Chain { name: "fast", links: &[(900.0, 0.2), (600.0, 0.3), (300.0, 0.3), (800.0, 0.4)], bursty: true },
    Chain { name: "slow", links: &[(8.0, 0.2), (4.0, 0.1), (9.0, 0.7)], bursty: false },
    Chain {
        name: "nearly equal",
        links: &[(50.0, 0.3), (42.0, 0.2), (34.0, 0.2), (60.0, 0.5)],
        bursty: false,
    },
];

pub(super) struct Chains(Vec<Vec<ChainLink>>);

impl Chains {
    pub(super) fn new() -> Chains {
        Chains(CHAINS.iter().map(Chain::links).collect())
    }
}

impl Chain {
    fn links(&self) -> Vec<ChainLink> {
        let link = |(mbps, load): &(f64, f64)| {
            let rate = Rate::from_mbps(*mbps);
            let load = rate.scale(*load);
            let cross = if self.bursty {
                Traffic::Pareto {
                    rate: load,
                    sources: 16,
                    shape: 1.9,
                    size: PACKET,
                    least_size: Some(Bytes::new(78)),
                    silence: Duration::ZERO,
                    period: Duration::ZERO,
                }
            } else {
                Traffic::Poisson { rate: load, size: PACKET }
            };
            let buffer = Some(rate.bytes_in(Duration::from_ms(200)));
            ChainLink { rate, delay: Duration::from_ms(2), buffer, cross: vec![cross] }
        };
        self.links.iter().map(link).collect()
    }

    /// Returns the hop with the smallest value, counted from 1.
    fn least(&self, value: impl Fn(&(f64, f64)) -> f64) -> u32 {
        let values = (1..).zip(self.links.iter().map(value));
        values.min_by(|(_, a), (_, b)| a.total_cmp(b)).map_or(0, |(hop, _)| hop)
    }
}

/// Sends trains over a chain and returns what both ends see.
fn send(chain: &[ChainLink], schedule: &TrainSchedule, seed: u64) -> Vec<TrainRecord> {
    let last = chain.len() as u32;
    let mut probes = Vec::with_capacity(schedule.packets());
    let mut at = WARM_UP;
    for (number, train) in schedule.trains.iter().enumerate() {
        for position in 0..train.packets() {
            let hidden = position > 0 && position + 1 < train.packets();
            let links = if hidden { u32::from(train.hops).min(last) } else { last };
            probes.push(Probe { at: at + BACK_TO_BACK * position as i64, size: schedule.packet, links });
        }
        at += schedule.gaps.get(number).copied().unwrap_or(Duration::ZERO);
    }
    let times = sweep(chain, &probes, seed);
    let mut sent = probes.iter().zip(&times);
    let record = |train: &headway_estimate::Train| {
        let packets: Vec<_> = sent.by_ref().take(train.packets()).collect();
        let ends = [packets.first()?, packets.last()?];
        let hidden = packets.get(1..packets.len().saturating_sub(1)).unwrap_or_default();
        let seen = hidden.iter().filter(|(probe, time)| time.is_some() && probe.links == last);
        Some(TrainRecord {
            train: *train,
            sent: ends.map(|(probe, _)| probe.at),
            received: ends.map(|(_, time)| **time),
            hidden_seen: seen.count() as u8,
        })
    };
    schedule.trains.iter().filter_map(record).collect()
}

/// Measures a chain; returns the answer and when it was known.
fn measure(chain: &[ChainLink], seed: u64) -> (Answer, Duration) {
    let config = Config {
        packet: PACKET,
        small: Bytes::new(128),
        budget: Bytes::new(12_000_000),
        time: Duration::from_ms(60_000),
        rule: Rule::Step(0.15),
        all: false,
        tight: true,
        quantum: Duration::from_us(2),
        most_packets: 16_384,
        seed,
    };
    let start = Instant::from_ns(1);
    let mut now = start;
    let mut locator = Locator::new(config, now);
    for step in 0.. {
        let Step::Send { schedule, .. } = locator.next_step(now) else { break };
        let records = send(chain, &schedule, seed * 1_000 + step);
        let replies: [(u8, IpAddr); 0] = [];
        locator.observe(&records, &replies, None);
        now += schedule.duration() + Duration::from_ms(100);
    }
    (locator.answer(), now - start)
}

impl Study for Chains {
    fn name(&self) -> &'static str {
        "Narrow and tight links"
    }

    fn columns(&self) -> [&'static str; 4] {
        ["error", "right", "MB", "s"]
    }

    fn legend(&self) -> &'static str {
        "error: of the narrow link's capacity, at most 100 %. right: of both hops, those that were found. MB and s: what an \
         answer cost."
    }

    fn rounds(&self) -> u64 {
        6
    }

    fn constants(&self) -> Vec<Constant> {
        named(&GROUPS)
    }

    fn paths(&self) -> Vec<String> {
        CHAINS.iter().map(|chain| chain.name.to_owned()).collect()
    }

    fn choose(&self, variant: Option<Variant>) {
        choose(&GROUPS, variant);
    }

    fn run(&self, path: usize, seed: u64, _: Option<Variant>) -> anyhow::Result<Outcome> {
        let chain = &CHAINS[path];
        let (answer, took) = measure(&self.0[path], seed);
        let narrow = chain.least(|(mbps, _)| *mbps);
        let tight = chain.least(|(mbps, load)| mbps * (1.0 - load));
        let right = [
            answer.narrow.as_ref().is_ok_and(|found| found.hop == narrow),
            answer.tight.as_ref().is_some_and(|found| found.as_ref().is_ok_and(|found| found.hop == tight)),
        ];
        let truth = self.0[path][narrow as usize - 1].rate.bps_f64();
        let error =
            answer.capacity.map_or(1.0, |capacity| (capacity.rate.bps_f64() / truth - 1.0).abs().min(1.0));
        let right = right.into_iter().map(|right| f64::from(u8::from(right))).sum::<f64>() / 2.0;
        Ok(Outcome { error, right, cost: answer.bytes.get() as f64 / 1e6, time: took.secs_f64() })
    }
}
