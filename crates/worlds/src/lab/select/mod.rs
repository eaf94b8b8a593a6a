//! A choice among parallel paths in real time: `headway select` beside its rivals, each on paths of its own
//! that have the same cross traffic, with users whose new connections follow the choice.

mod chooser;
mod network;
mod transfer;
mod users;

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Instant as Clock;

use headway_lab::{Direction, Lab, Lateness, Life, Truth, Truths};
use headway_record::{Results, SelectResult, Summary};
use headway_scenario::Scenario;
use headway_sim::select::{PathsWorld, Timeline};
use headway_units::{Duration, Instant};

use self::chooser::Chooser;
use self::network::Network;
use self::users::Served;
use super::{TICK, results};
use crate::endpoint::now;
use crate::error::Error;
use crate::options::Options;
use crate::outcome::Outcome;

/// One who chooses, with paths and users of his own.
struct Stage<'a> {
    network: &'a Network,
    lab: &'a Lab,
    /// Time zero, on `CLOCK_REALTIME`.
    begin: Instant,
    ended: &'a AtomicBool,
    timeline: Mutex<Timeline>,
}

impl Stage<'_> {
    /// Returns the time of the run.
    fn now(&self) -> Instant {
        Instant::ZERO + (now() - self.begin).max(Duration::ZERO)
    }

    fn has_ended(&self) -> bool {
        self.ended.load(Ordering::Relaxed)
    }

    /// Waits until a time of the run; returns false when the run has ended by then.
    fn wait(&self, until: Instant) -> bool {
        while self.now() < until && !self.has_ended() {
            thread::sleep((until - self.now()).to_std().min(TICK));
        }
        !self.has_ended()
    }

    /// Ends the run.
    fn end(&self) {
        self.ended.store(true, Ordering::Relaxed);
    }

    /// Returns the path that is chosen.
    fn chosen(&self) -> usize {
        let now = self.now();
        self.with(|timeline| timeline.at(now))
    }

    /// Changes what is known of the choice.
    fn with<T>(&self, change: impl FnOnce(&mut Timeline) -> T) -> T {
        // Whoever panicked with it has ended the run.
        change(&mut self.timeline.lock().unwrap_or_else(std::sync::PoisonError::into_inner))
    }
}

/// Runs all choices of a scenario at the same time.
pub(super) fn run(scenario: &Scenario, seed: u64, options: &Options<'_>) -> Result<Outcome, Error> {
    let clock = Clock::now();
    let networks = network::all(scenario, seed)?;
    let paths = network::paths(scenario, seed, &networks)?;
    let program = options.program()?;
    let lab = Lab::up_with(&program, &paths, &format!("run-{}-{seed}", std::process::id()), Life::Owned)?;
    let ended = AtomicBool::new(false);
    let mut chosen = chooser::prepare(&lab, &networks, &program)?;
    let begin = lab.begin_with(network::cross(&networks))?;
    let stage = |(network, chooser): (_, &mut Chooser)| Stage {
        network,
        lab: &lab,
        begin,
        ended: &ended,
        // Users may be there before who chooses.
        timeline: Mutex::new(chooser.begin()),
    };
    let stages: Vec<Stage<'_>> = networks.iter().zip(&mut chosen).map(stage).collect();
    let served = thread::scope(|scope| {
        let mut threads = Vec::new();
        for (stage, chooser) in stages.iter().zip(&mut chosen) {
            // Who fails ends the run.
            let chooser = scope.spawn(|| chooser.run(stage).inspect_err(|_| stage.end()));
            let users = scope.spawn(|| users::run(stage).inspect_err(|_| stage.end()));
            threads.push((chooser, users));
        }
        watch(scenario, begin, &ended, options);
        ended.store(true, Ordering::Relaxed);
        let mut served = Vec::new();
        for (chooser, users) in threads {
            chooser.join().unwrap_or_else(|failed| std::panic::resume_unwind(failed))?;
            served.push(users.join().unwrap_or_else(|failed| std::panic::resume_unwind(failed))?);
        }
        Ok::<_, Error>(served)
    })?;
    let last = now().min(begin + scenario.duration).max(begin + Duration::from_ms(1));
    let truths = lab.truths_between(begin, last)?;
    drop(chosen);
    let timelines: Vec<Timeline> = stages.into_iter().map(|stage| stage.with(std::mem::take)).collect();
    lab.down()?;
    let ends = Ends { begin, last, truths: &truths };
    let judged = networks.iter().zip(timelines).zip(served);
    let selections =
        judged.map(|((network, timeline), served)| ends.judge(network, timeline, served)).collect();
    let invalid_reason = ends.invalid_reason(&networks);
    let results = ends.results(scenario, seed, selections, invalid_reason.is_none());
    Ok(Outcome { results, events: 0, wall: clock.elapsed(), invalid_reason, files: None })
}

/// Waits for the end, and tells the progress.
fn watch(scenario: &Scenario, begin: Instant, ended: &AtomicBool, options: &Options<'_>) {
    let end = begin + scenario.duration;
    let mut shown = 0;
    while now() < end && !options.cancellation.is_cancelled() && !ended.load(Ordering::Relaxed) {
        thread::sleep((end - now()).to_std().min(TICK));
        options.report_part(&mut shown, (now() - begin).secs_f64() / scenario.duration.secs_f64());
    }
}

/// A run that has ended.
struct Ends<'a> {
    begin: Instant,
    last: Instant,
    truths: &'a Truths,
}

impl Ends<'_> {
    /// Returns how well somebody chose.
    fn judge(&self, network: &Network, mut timeline: Timeline, served: Served) -> SelectResult {
        let lost = |link: &String| {
            let truth = self.truths.link(link).ok();
            let intervals = truth.map_or(&[][..], |truth| truth.intervals(Direction::Forward));
            intervals.iter().map(|one| one.cross_drops_due_to_hosts).sum::<u64>()
        };
        timeline.others_lost = network.links.iter().map(lost).sum();
        // A run that was ended early is judged until then.
        let world = PathsWorld { end: Instant::ZERO + (self.last - self.begin), ..network.world.clone() };
        let mut times = served.fetches;
        times.sort_unstable();
        let result = timeline.result(&world, (network.select, &network.name), &times);
        SelectResult { bulk_bps: served.bulk.map(|rate| rate.bps()), ..result }
    }

    fn invalid_reason(&self, networks: &[Network]) -> Option<String> {
        let links = networks.iter().flat_map(|network| &network.links);
        let truths = links.filter_map(|link| self.truths.link(link).ok());
        let of =
            |truth: &Truth| Direction::BOTH.map(|way| truth.lateness_between(way, self.begin, self.last));
        let all: Vec<Lateness> = truths.flat_map(of).collect();
        // Of all links together: over some pass a few packets only.
        let released: u64 = all.iter().map(|one| one.released).sum();
        let late: f64 = all.iter().map(|one| one.very_late_share * one.released as f64).sum();
        let together = Lateness {
            very_late_share: late / released.max(1) as f64,
            missed: all.iter().map(|one| one.missed).sum(),
            released,
            ..Lateness::default()
        };
        results::invalid_reason(&[together], 0)
    }

    fn results(&self, scenario: &Scenario, seed: u64, selections: Vec<SelectResult>, valid: bool) -> Results {
        let measured = self.last - self.begin;
        let summary = Summary {
            scenario: scenario.name.clone(),
            world: "lab".to_owned(),
            seed,
            partial: measured < scenario.duration,
            valid,
            measured_ns: measured.ns().unsigned_abs(),
            selections,
            ..Summary::default()
        };
        Results { summary, ..Results::default() }
    }
}
