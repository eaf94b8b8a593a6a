//! Runs in the simulator, several at a time.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Instant as Clock;

use anyhow::Context as _;
use headway_core::{Bytes, Instant};
use headway_sim::record::Run;
use headway_sim::scenario::Scenario;

use super::{Outcome, is_set};
use crate::progress::Progress;

/// Steps of the bar for every run.
const STEPS: u64 = 1000;

/// Runs the scenario with every seed, in the order of the seeds; those not begun before an interruption are missing.
pub(crate) fn run(
    scenario: &Scenario,
    seeds: &[u64],
    jobs: u32,
    memory: Bytes,
    interrupted: &AtomicBool,
) -> anyhow::Result<Vec<Outcome>> {
    let jobs = (jobs as usize).min(seeds.len());
    let limit = Bytes::new(memory.get() / jobs as u64);
    let progress = Progress::new(STEPS * seeds.len() as u64);
    let next = AtomicUsize::new(0);
    let outcomes: Vec<Mutex<Option<anyhow::Result<Outcome>>>> =
        seeds.iter().map(|_| Mutex::new(None)).collect();
    let work = || {
        while !is_set(interrupted)
            && let index = next.fetch_add(1, Ordering::Relaxed)
            && let Some(&seed) = seeds.get(index)
        {
            progress.say(format!("{} in the simulator, seed {seed}", scenario.name));
            let outcome = one(scenario, seed, limit, &progress, interrupted);
            if outcome.is_err() {
                // Nothing can come of the others.
                next.store(seeds.len(), Ordering::Relaxed);
            }
            if let Ok(mut place) = outcomes[index].lock() {
                *place = Some(outcome);
            }
        }
    };
    thread::scope(|scope| {
        for _ in 1..jobs {
            scope.spawn(work);
        }
        work();
    });
    let done = outcomes.into_iter().map(|place| place.into_inner().ok().flatten());
    done.take_while(Option::is_some).flatten().collect()
}

fn one(
    scenario: &Scenario,
    seed: u64,
    limit: Bytes,
    progress: &Progress,
    interrupted: &AtomicBool,
) -> anyhow::Result<Outcome> {
    let begin = Clock::now();
    let mut run = Run::new(scenario, seed, limit)?;
    let mut shown = 0;
    let mut more = true;
    while more && !is_set(interrupted) {
        let before = run.now() - Instant::ZERO;
        more = run.step().with_context(|| format!("stopped after {before} of virtual time"))?;
        let part = (run.now() - Instant::ZERO).secs_f64() / scenario.duration.secs_f64();
        let steps = (part * STEPS as f64) as u64;
        progress.advance(steps - shown);
        shown = steps;
    }
    let events = run.events();
    Ok(Outcome { results: run.finish(), events, wall: begin.elapsed(), trouble: None })
}
