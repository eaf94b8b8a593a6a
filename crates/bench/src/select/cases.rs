//! Kinds of parallel paths, each drawn by a seed.

use clap::ValueEnum;
use headway_queue::{DropTailConfig, QueueSpec};
use headway_scenario::{SelectCross, Wire};
use headway_sim::config::Service;
use headway_sim::select::{Moves, MovingLink, MovingPath, PathsWorld};
use headway_traffic::random;
use headway_units::{Bytes, Duration, Instant, Rate};
use rand::RngExt;

/// A kind of paths.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Case {
    /// 50 Mb/s with 20 ms, 30 Mb/s with 10 ms, 80 Mb/s with 60 ms; Pareto traffic.
    Three,
    /// The same with cross traffic in batches of four packets.
    Bursty,
    /// Two paths, each any of 10 to 100 Mb/s and 5 to 100 ms, as for all further ones.
    Two,
    /// Eight paths.
    Eight,
    /// 32 paths.
    ThirtyTwo,
    /// Three paths of 1 to 10 Mb/s.
    Slow,
    /// `three` behind token buckets of 40 kB.
    SmallBucket,
    /// `three` behind token buckets of 400 kB, which hold whole questions.
    Bucket,
    /// `three`, of which one after the other fails for half a minute to five minutes.
    Failing,
    /// Three paths over one link.
    Shared,
}

impl Case {
    /// Returns the budgets of an hour that are compared.
    pub(super) fn budgets(self) -> &'static [u64] {
        match self {
            Case::Slow => &[2_000_000],
            _ => &[4_000_000, 20_000_000],
        }
    }

    /// Draws the paths.
    pub(super) fn world(self, seed: u64, end: Instant) -> PathsWorld {
        let specs = self.specs(seed);
        let moves =
            Moves { load: [0.0, 0.95], stays: [Duration::from_ms(120_000), Duration::from_ms(480_000)] };
        let cross = if self == Case::Bursty { SelectCross::Batches } else { SelectCross::Pareto };
        let link = |(number, (rate, rtt)): (usize, &(Rate, Duration))| MovingLink {
            number,
            service: self.service(*rate),
            rate: *rate,
            delay: *rtt / 2,
            queue: QueueSpec::DropTail(DropTailConfig {
                limit: Some(rate.bytes_in(Duration::from_ms(100)).max(Bytes::new(15_380))),
                packets: None,
            }),
            wire: Wire::default(),
            cross: cross.traffic(Rate::ZERO),
            levels: moves.levels(*rate, end, seed, number as u64),
        };
        let count = specs.len();
        let mut links: Vec<MovingLink> = specs.iter().enumerate().map(link).collect();
        let tight = |number: usize| if self == Case::Shared { 0 } else { number };
        let path = |number: usize| MovingPath {
            name: format!("path {}", number + 1),
            link: tight(number),
            there: vec![tight(number)],
            back: vec![links[tight(number)].unlimited_back()],
            down: if self == Case::Failing { outages(seed, number, count, end) } else { Vec::new() },
        };
        let paths = (0..count).map(path).collect();
        if self == Case::Shared {
            links.truncate(1);
        }
        PathsWorld { links, paths, end, seed }
    }

    fn service(self, rate: Rate) -> Service {
        let burst = match self {
            Case::SmallBucket => Bytes::new(40_000),
            Case::Bucket => Bytes::new(400_000),
            _ => return Service::Constant(rate),
        };
        Service::TokenBucket { rate, burst, peak: None }
    }

    /// Returns the rate and the round-trip time of each path.
    fn specs(self, seed: u64) -> Vec<(Rate, Duration)> {
        let (count, [low, high]) = match self {
            Case::Two => (2, [10.0, 100.0]),
            Case::Eight => (8, [10.0, 100.0]),
            Case::ThirtyTwo => (32, [10.0, 100.0]),
            Case::Slow => (3, [1.0, 10.0]),
            _ => {
                let fixed = [(50.0, 20), (30.0, 10), (80.0, 60)];
                return fixed.map(|(rate, rtt)| (Rate::from_mbps(rate), Duration::from_ms(rtt))).to_vec();
            }
        };
        let mut rng = random::generator(seed, "paths", count);
        let mut between = |low: f64, high: f64| low * (high / low).powf(rng.random::<f64>());
        let one = |_| (Rate::from_mbps(between(low, high)), Duration::from_secs_f64(between(0.005, 0.1)));
        (0..count).map(one).collect()
    }
}

/// Returns when a path is down: each in its turn, one about every quarter of an hour.
fn outages(seed: u64, path: usize, count: usize, end: Instant) -> Vec<(Instant, Instant)> {
    /// Mean time between outages of any path, in seconds.
    const EVERY: f64 = 900.0;
    let mut rng = random::generator(seed, "outages", 0);
    let (mut at, mut down, mut turn) = (Instant::ZERO, Vec::new(), 0);
    while at < end {
        let (wait, time) = (rng.random::<f64>(), rng.random::<f64>());
        let from = at + Duration::from_secs_f64(EVERY * (0.5 + wait));
        let to = from + Duration::from_secs_f64(30.0 + 270.0 * time);
        if turn % count == path {
            down.push((from, to));
        }
        (at, turn) = (to, turn + 1);
    }
    down
}
