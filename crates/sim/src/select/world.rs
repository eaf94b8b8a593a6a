//! Parallel paths whose cross traffic moves, and what is truly free on them.

use headway_queue::QueueSpec;
use headway_scenario::Wire;
use headway_traffic::{Traffic, random};
use headway_units::{Bytes, Duration, Instant, Rate, RateSteps};
use rand::{Rng as _, RngExt};

use crate::build::with_wire;
use crate::config::{LinkConfig, QueueChange, Service};

/// One direction of a link of one or several paths.
#[derive(Clone, Debug)]
pub struct MovingLink {
    /// Its number among the links of the scenario.
    pub number: usize,
    /// How it is served; rates have the times of the run.
    pub service: Service,
    /// The rate that it has in the long run, the highest one if it changes; zero without one.
    pub rate: Rate,
    /// The propagation delay.
    pub delay: Duration,
    /// The queue discipline.
    pub queue: QueueSpec,
    /// What happens behind the queue.
    pub wire: Wire,
    /// The cross traffic; its rate is replaced by that of the time.
    pub cross: Traffic,
    /// From when on the cross traffic has which mean rate, from time zero on; empty without any.
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

/// Returns the levels of a link with these rates, where levels are shares of `full`: the same shares of
/// the rate at the time.
pub(super) fn of_rates(levels: &[(Instant, Rate)], full: Rate, rates: &RateSteps) -> Vec<(Instant, Rate)> {
    let steps = rates.list().map(|(at, _)| Instant::ZERO + at);
    let mut times: Vec<Instant> = steps.chain(levels.iter().map(|(at, _)| *at)).collect();
    times.sort_unstable();
    times.dedup();
    let share = |at: &Instant| level(levels, *at).bps_f64() / full.bps_f64().max(1.0);
    times.iter().map(|at| (*at, rates.at(*at).scale(share(at)))).collect()
}

/// Returns the level at `at`; zero if there is none.
fn level(levels: &[(Instant, Rate)], at: Instant) -> Rate {
    let next = levels.partition_point(|(from, _)| *from <= at);
    levels.get(next.saturating_sub(1)).map_or(Rate::ZERO, |(_, rate)| *rate)
}

/// A path over some of the links.
#[derive(Clone, Debug)]
pub struct MovingPath {
    /// Its name.
    pub name: String,
    /// The index of its tight link, which has the cross traffic.
    pub link: usize,
    /// The indices of the links that packets pass, in order.
    pub there: Vec<usize>,
    /// The links that they pass on the way back, in order. What other paths do there meets
    /// nothing of this one.
    pub back: Vec<MovingLink>,
    /// When it is down: from, to; in order of time.
    pub down: Vec<(Instant, Instant)>,
}

/// Paths from one host to another.
#[derive(Clone, Debug)]
pub struct PathsWorld {
    /// The links there.
    pub links: Vec<MovingLink>,
    /// The paths over them.
    pub paths: Vec<MovingPath>,
    /// The end of the run.
    pub end: Instant,
    /// The seed of the cross traffic's packets.
    pub seed: u64,
}

impl MovingLink {
    /// Returns the way back over the same link, on which nothing ever waits.
    pub fn unlimited_back(&self) -> MovingLink {
        MovingLink { service: Service::Unlimited, rate: Rate::ZERO, levels: Vec::new(), ..self.clone() }
    }

    /// Returns the mean rate of the cross traffic at `at`.
    pub fn level(&self, at: Instant) -> Rate {
        level(&self.levels, at)
    }

    /// Returns the rate at `at`; `None` if transmission takes no time.
    fn capacity(&self, at: Instant) -> Option<Rate> {
        match &self.service {
            Service::Unlimited => None,
            Service::Steps(rates) => Some(rates.at(at)),
            _ => Some(self.rate),
        }
    }

    /// Returns the times at which it changes.
    fn changes(&self) -> impl Iterator<Item = Instant> + '_ {
        let rates = match &self.service {
            Service::Steps(rates) => Some(rates),
            _ => None,
        };
        let steps = rates.into_iter().flat_map(|rates| rates.list().map(|(at, _)| Instant::ZERO + at));
        self.levels.iter().map(|(at, _)| *at).chain(steps)
    }

    fn delay(&self) -> Duration {
        self.delay + self.wire.jitter.mean()
    }

    /// Returns it in a network whose time zero is `from` after that of the run.
    pub(super) fn config(&self, from: Duration, seed: u64) -> LinkConfig {
        let (service, rate, rates) = match &self.service {
            Service::Steps(rates) => {
                let rates = rates.after(from);
                (Service::Steps(rates.clone()), Some(rates.at(Instant::ZERO)), Some(rates))
            }
            Service::Unlimited => (Service::Unlimited, None, None),
            other => (other.clone(), Some(self.rate), None),
        };
        let seed = random::generator(seed, "queue", self.number as u64).next_u64();
        let queue = QueueChange { spec: self.queue.clone(), rate, rates, seed };
        with_wire(service, queue, self.delay, self.wire.clone())
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

    /// Returns the links there of a path.
    pub(super) fn there(&self, path: usize) -> impl Iterator<Item = &MovingLink> {
        self.paths[path].there.iter().map(|link| &self.links[*link])
    }

    /// Returns the rate of a path at `at`, that of the slowest of its links.
    pub(super) fn capacity(&self, path: usize, at: Instant) -> Rate {
        self.there(path).filter_map(|link| link.capacity(at)).min().unwrap_or_default()
    }

    /// Returns what is free on a path at `at`, as the mean rate of its cross traffic leaves it.
    pub fn free(&self, path: usize, at: Instant) -> Rate {
        if !self.is_up(path, at) {
            return Rate::ZERO;
        }
        let of = |link: &MovingLink| Some(link.capacity(at)?.saturating_sub(link.level(at)));
        self.there(path).filter_map(of).min().unwrap_or_default()
    }

    /// Returns the times at which what is free on any path changes, in order.
    pub fn changes(&self) -> Vec<Instant> {
        let links = self.links.iter().flat_map(MovingLink::changes);
        let downs = self.paths.iter().flat_map(|path| path.down.iter().flat_map(|(from, to)| [*from, *to]));
        let mut times: Vec<Instant> = links.chain(downs).filter(|at| *at < self.end).collect();
        times.sort_unstable();
        times.dedup();
        times
    }

    /// Returns the round-trip time of an empty path, with the mean jitter.
    pub fn rtt(&self, path: usize) -> Duration {
        self.there(path).chain(&self.paths[path].back).map(MovingLink::delay).sum()
    }
}
