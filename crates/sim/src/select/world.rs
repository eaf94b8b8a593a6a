//! Parallel paths whose cross traffic moves, and what is truly free on them.

use headway_queue::QueueSpec;
use headway_traffic::{Traffic, random};
use headway_units::{Bytes, Duration, Instant, Rate};
use rand::RngExt;

use crate::config::{LinkConfig, Service};

/// A link that may be the tight one of one or several paths.
#[derive(Clone, Debug)]
pub struct MovingLink {
    /// Its number among the links of the scenario.
    pub number: usize,
    /// How it is served.
    pub service: Service,
    /// The rate that it has in the long run.
    pub rate: Rate,
    /// The propagation delay of each direction.
    pub delay: Duration,
    /// The queue discipline.
    pub queue: QueueSpec,
    /// The cross traffic; its rate is replaced by that of the time.
    pub cross: Traffic,
    /// From when on the cross traffic has which mean rate, from time zero on.
    pub levels: Vec<(Instant, Rate)>,
}

/// How cross traffic moves.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Moves {
    /// The least and the most of the link's rate that it takes; each new level is any in between.
    pub load: [f64; 2],
    /// The shortest and the longest time that it stays at a level.
    pub stays: [Duration; 2],
}

impl Moves {
    /// Returns the levels on a link of `rate` until `end`; `number` is that of the link.
    pub fn levels(&self, rate: Rate, end: Instant, seed: u64, number: u64) -> Vec<(Instant, Rate)> {
        let mut rng = random::generator(seed, "levels", number);
        let [least, most] = self.load;
        let [shortest, longest] = self.stays.map(Duration::secs_f64);
        let mut levels = Vec::new();
        let mut at = Instant::ZERO;
        // The first level began before the run.
        let stays = |rng: &mut _, part: f64| {
            Duration::from_secs_f64(part * (shortest + (longest - shortest) * RngExt::random::<f64>(rng)))
        };
        let mut part = rng.random::<f64>();
        while at < end {
            levels.push((at, rate.scale(least + (most - least) * rng.random::<f64>())));
            at += stays(&mut rng, part).max(Duration::from_ms(1_000));
            part = 1.0;
        }
        levels
    }
}

/// A path over one of the links.
#[derive(Clone, Debug)]
pub struct MovingPath {
    /// Its name.
    pub name: String,
    /// The number of its tight link.
    pub link: usize,
    /// When it is down: from, to; in order of time.
    pub down: Vec<(Instant, Instant)>,
}

/// Paths from one host to another.
#[derive(Clone, Debug)]
pub struct PathsWorld {
    /// The links.
    pub links: Vec<MovingLink>,
    /// The paths over them.
    pub paths: Vec<MovingPath>,
    /// The end of the run.
    pub end: Instant,
    /// The seed of the cross traffic's packets.
    pub seed: u64,
}

impl MovingLink {
    /// Returns the mean rate of the cross traffic at `at`.
    pub fn level(&self, at: Instant) -> Rate {
        let next = self.levels.partition_point(|(from, _)| *from <= at);
        self.levels.get(next.saturating_sub(1)).map_or(Rate::ZERO, |(_, rate)| *rate)
    }

    pub(super) fn config(&self, seed: u64) -> LinkConfig {
        LinkConfig::new(self.service.clone(), self.delay, self.queue.build(Some(self.rate), seed))
    }

    /// Returns the cross traffic at a mean rate.
    pub fn traffic(&self, rate: Rate) -> Traffic {
        at_rate(&self.cross, rate)
    }
}

/// Returns traffic with another mean rate.
fn at_rate(traffic: &Traffic, mean: Rate) -> Traffic {
    let mut traffic = traffic.clone();
    match &mut traffic {
        Traffic::Cbr { rate, .. }
        | Traffic::Poisson { rate, .. }
        | Traffic::Batches { rate, .. }
        | Traffic::Pareto { rate, .. } => *rate = mean,
        _ => return Traffic::Poisson { rate: mean, size: Bytes::new(1_538) },
    }
    traffic
}

impl PathsWorld {
    /// Whether a path is up at `at`.
    pub fn is_up(&self, path: usize, at: Instant) -> bool {
        !self.paths[path].down.iter().any(|(from, to)| *from <= at && at < *to)
    }

    /// Returns what is free on a path at `at`, as the mean rate of its cross traffic leaves it.
    pub fn free(&self, path: usize, at: Instant) -> Rate {
        let link = &self.links[self.paths[path].link];
        if self.is_up(path, at) { link.rate.saturating_sub(link.level(at)) } else { Rate::ZERO }
    }

    /// Returns the times at which what is free on any path changes, in order.
    pub fn changes(&self) -> Vec<Instant> {
        let levels = self.links.iter().flat_map(|link| link.levels.iter().map(|(at, _)| *at));
        let downs = self.paths.iter().flat_map(|path| path.down.iter().flat_map(|(from, to)| [*from, *to]));
        let mut times: Vec<Instant> = levels.chain(downs).filter(|at| *at < self.end).collect();
        times.sort_unstable();
        times.dedup();
        times
    }

    /// Returns the round-trip time of an empty path.
    pub fn rtt(&self, path: usize) -> Duration {
        self.links[self.paths[path].link].delay * 2
    }
}
