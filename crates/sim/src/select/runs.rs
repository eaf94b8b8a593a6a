//! The choices of a scenario, one after the other.

use std::collections::VecDeque;
use std::sync::Arc;

use headway_record::SelectResult;
use headway_scenario::{Error, Scenario, SelectRival, SelectSpec, Topology};
use headway_units::{ConfigError, Duration, Instant};

use super::contestant::Contestant;
use super::timeline::Timeline;
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
            let rivals = spec.rivals.iter().map(|rival| (rival.name(), contestant(*rival)));
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
        self.results.push(result(&job, &timeline, &times));
        true
    }

    /// Returns the results so far.
    pub fn results(&self) -> &[SelectResult] {
        &self.results
    }
}

fn contestant(rival: SelectRival) -> Contestant {
    match rival {
        SelectRival::LowestPing => Contestant::LowestPing,
        SelectRival::Get => Contestant::Get,
        SelectRival::Iperf => Contestant::Iperf,
        SelectRival::LargestCapacity => Contestant::LargestCapacity,
        SelectRival::Oracle => Contestant::Oracle,
    }
}

fn result(job: &Job, timeline: &Timeline, times: &[Duration]) -> SelectResult {
    let score = timeline.score(&job.world);
    let part = |part: f64| {
        let index = (times.len() as f64 * part) as usize;
        times.get(index.min(times.len().saturating_sub(1))).map_or(0, |time| time.ns().unsigned_abs())
    };
    let right = |claims: &[(f64, bool)]| claims.iter().filter(|(_, right)| *right).count() as u64;
    SelectResult {
        select: job.select as u64,
        strategy: job.name.clone(),
        on_good: score.on_good,
        on_best: score.on_best,
        of_best: score.of_best,
        free_bps: score.goodput.bps(),
        fetch_p50_ns: part(0.5),
        fetch_p95_ns: part(0.95),
        bytes_per_path_hour: score.bytes_per_path_hour.get(),
        most_bytes_in_an_hour: score.most_in_an_hour.get(),
        changes_per_hour: score.changes,
        reaction_ns: score.reaction.ns().unsigned_abs(),
        others_lost_per_hour: score.others_lost_per_hour,
        questions: timeline.asked[0],
        measurements: timeline.asked[1],
        decisions: timeline.claims.len() as u64,
        right: right(&timeline.claims),
    }
}

/// Builds the paths of a `[[select]]`.
fn world(scenario: &Scenario, index: usize, spec: &SelectSpec, seed: u64) -> Result<PathsWorld, ConfigError> {
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
