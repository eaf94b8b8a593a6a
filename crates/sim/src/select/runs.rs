//! The choices of a scenario, one after the other.

use std::collections::VecDeque;
use std::sync::Arc;

use headway_record::SelectResult;
use headway_scenario::{Error, Scenario, SelectPath, SelectRoute, SelectSpec, Topology};
use headway_units::{ConfigError, Instant, Rate};

use super::contestant::Contestant;
use super::users::Fetches;
use super::world::{Moves, MovingLink, MovingPath, PathsWorld, of_rates};
use crate::build;
use crate::config::Service;

/// Who chooses among the paths of which `[[select]]`.
#[derive(Debug)]
struct Job {
    select: usize,
    name: String,
    contestant: Contestant,
    world: Arc<PathsWorld>,
}

/// All choices of a scenario.
#[derive(Debug, Default)]
pub struct Selections {
    jobs: VecDeque<Job>,
    /// What users meet, and of which `[[select]]`.
    fetches: (usize, Fetches),
    results: Vec<SelectResult>,
}

impl Selections {
    /// Prepares them.
    ///
    /// # Errors
    /// When a path has no link that could be tight.
    pub fn new(scenario: &Scenario, seed: u64) -> Result<Selections, Error> {
        let mut jobs = VecDeque::new();
        for (index, spec) in scenario.select.iter().enumerate() {
            let world = Arc::new(world(scenario, index, spec, seed)?);
            let own = (spec.strategy.name(), Contestant::Selector(spec.settings()));
            let rivals = spec.rivals.iter().map(|rival| (rival.name(), Contestant::Rival(*rival)));
            let all = std::iter::once(own).chain(rivals);
            jobs.extend(all.map(|(name, contestant)| {
                let world = Arc::clone(&world);
                Job { select: index, name: name.to_owned(), contestant, world }
            }));
        }
        Ok(Selections { jobs, ..Selections::default() })
    }

    /// Runs the next one to its end; returns false when there is none left.
    pub fn step(&mut self) -> bool {
        let Some(job) = self.jobs.pop_front() else { return false };
        if self.fetches.0 != job.select {
            self.fetches = (job.select, Fetches::default());
        }
        let timeline = job.contestant.run(&job.world);
        let times = self.fetches.1.of(&job.world, &timeline);
        self.results.push(timeline.result(&job.world, (job.select, &job.name), &times));
        true
    }

    /// Returns the results so far.
    pub fn results(&self) -> &[SelectResult] {
        &self.results
    }
}

/// Builds the paths of the `[[select]]` with this index.
///
/// # Errors
/// When a path has no link that could be tight.
pub fn world(
    scenario: &Scenario,
    index: usize,
    spec: &SelectSpec,
    seed: u64,
) -> Result<PathsWorld, ConfigError> {
    let topology = Topology::new(scenario);
    let routes = spec.routes(index, scenario, &topology)?;
    let end = Instant::ZERO + scenario.duration;
    let moves = Moves { load: spec.load, stays: spec.stays };
    let mut hops: Vec<usize> = routes.iter().flat_map(|route| route.there.iter().copied()).collect();
    hops.sort_unstable();
    hops.dedup();
    let link = |hop: &usize| {
        let direction = &topology.directions()[*hop];
        let link = &scenario.link[direction.link];
        let (service, queue) = build::service(scenario, link, seed);
        MovingLink {
            number: direction.link,
            service,
            rate: link.highest_rate().unwrap_or_default(),
            delay: link.delay,
            queue: queue.spec,
            wire: link.wire(direction.back),
            cross: spec.cross.traffic(Rate::ZERO),
            levels: Vec::new(),
        }
    };
    let with_cross = |hop: &usize| {
        let mut link = link(hop);
        if routes.iter().any(|route| route.tight == *hop) {
            link.levels = moves.levels(link.rate, end, seed, link.number as u64);
            if let Service::Steps(rates) = &link.service {
                link.levels = of_rates(&link.levels, link.rate, rates);
            }
        }
        link
    };
    let number = |hop: &usize| hops.binary_search(hop).unwrap_or(0);
    let path = |(path, route): (&SelectPath, &SelectRoute)| MovingPath {
        name: path.name(),
        link: number(&route.tight),
        there: route.there.iter().map(number).collect(),
        back: route.back.iter().map(link).collect(),
        down: path.down.iter().map(|[from, to]| (Instant::ZERO + *from, Instant::ZERO + *to)).collect(),
    };
    let links = hops.iter().map(with_cross).collect();
    let paths = spec.path.iter().zip(&routes).map(path).collect();
    Ok(PathsWorld { links, paths, end, seed })
}
