//! The choices of a scenario, one after the other.

use std::collections::VecDeque;
use std::sync::Arc;

use headway_record::SelectResult;
use headway_scenario::{Error, Scenario, SelectSpec, Topology};
use headway_units::{ConfigError, Duration, Instant};

use super::contestant::Contestant;
use super::users::Fetches;
use super::world::{Moves, MovingLink, MovingPath, PathsWorld};
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
            let rivals = spec.rivals.iter().map(|rival| (rival.name(), Contestant::from(*rival)));
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
    let tight = spec.tight_links(index, scenario, &Topology::new(scenario))?;
    let end = Instant::ZERO + scenario.duration;
    let moves = Moves { load: spec.load, stays: spec.stays };
    let mut numbers: Vec<usize> = tight.iter().map(|(link, _)| *link).collect();
    numbers.sort_unstable();
    numbers.dedup();
    let link = |number: &usize| {
        let link = &scenario.link[*number];
        let rate = link.rate.unwrap_or_default();
        let service = match link.burst {
            Some(burst) => Service::TokenBucket { rate, burst, peak: None },
            None => Service::Constant(rate),
        };
        let delay = tight.iter().find(|(one, _)| one == number).map(|(_, delay)| *delay);
        MovingLink {
            number: *number,
            service,
            rate,
            delay: delay.unwrap_or_default(),
            queue: link.queue_spec(link.rate),
            cross: spec.cross.traffic(),
            levels: moves.levels(rate, end, seed, *number as u64),
        }
    };
    let path = |(path, (link, _)): (&headway_scenario::SelectPath, &(usize, Duration))| MovingPath {
        name: path.name(),
        link: numbers.binary_search(link).unwrap_or(0),
        down: path.down.iter().map(|[from, to]| (Instant::ZERO + *from, Instant::ZERO + *to)).collect(),
    };
    let links = numbers.iter().map(link).collect();
    let paths = spec.path.iter().zip(&tight).map(path).collect();
    Ok(PathsWorld { links, paths, end, seed })
}
