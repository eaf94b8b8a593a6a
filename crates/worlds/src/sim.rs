//! Runs in the simulator, several at a time.

use std::time::Instant as Clock;

use headway_scenario::Scenario;
use headway_sim::Run;
use headway_units::{Bytes, Instant};

use crate::error::Error;
use crate::memory;
use crate::options::{Event, Options};
use crate::outcome::Outcome;
use crate::pool::each_seed;
use anyhow::Context as _;

/// Number of progress steps per run.
pub const STEPS: u64 = 1000;

/// Runs the scenario with every seed, in the order of the seeds; seeds not started before a
/// cancellation have no outcome.
pub(crate) fn run(scenario: &Scenario, seeds: &[u64], options: &Options<'_>) -> Result<Vec<Outcome>, Error> {
    let jobs = options.jobs.min(u32::try_from(seeds.len()).unwrap_or(u32::MAX)).max(1);
    let memory = options.memory.map_or_else(memory::available, Ok)?;
    let limit = Bytes::new(memory.get() / u64::from(jobs));
    each_seed(seeds, jobs, options, |seed| {
        options.report_event(Event::Started(&format!("{} in the simulator, seed {seed}", scenario.name)));
        run_once(scenario, seed, limit, options)
    })
}

fn run_once(scenario: &Scenario, seed: u64, limit: Bytes, options: &Options<'_>) -> Result<Outcome, Error> {
    let begin = Clock::now();
    let mut run = Run::new(scenario, seed, limit)?;
    let mut shown = 0;
    let mut more = true;
    while more && !options.cancellation.is_cancelled() {
        let before = run.now() - Instant::ZERO;
        more = run.step().with_context(|| format!("stopped after {before} of virtual time"))?;
        let done = run.now() - Instant::ZERO;
        options.report_part(&mut shown, done.secs_f64() / scenario.duration.secs_f64());
    }
    let events = run.events();
    Ok(Outcome { results: run.finish(), events, wall: begin.elapsed(), invalid_reason: None, files: None })
}
