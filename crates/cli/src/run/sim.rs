//! Runs in the simulator, several at a time.

use std::sync::atomic::AtomicBool;
use std::time::Instant as Clock;

use anyhow::Context as _;
use headway_core::{Bytes, Instant};
use headway_scenario::Scenario;
use headway_sim::Run;

use super::{Outcome, is_set, side_by_side};
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
    let jobs = jobs.min(u32::try_from(seeds.len()).unwrap_or(u32::MAX)).max(1);
    let limit = Bytes::new(memory.get() / u64::from(jobs));
    let progress = Progress::new(STEPS * seeds.len() as u64);
    side_by_side(seeds, jobs, interrupted, |seed| {
        progress.say(format!("{} in the simulator, seed {seed}", scenario.name));
        one(scenario, seed, limit, &progress, interrupted)
    })
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
    Ok(Outcome { results: run.finish(), events, wall: begin.elapsed(), trouble: None, files: None })
}
