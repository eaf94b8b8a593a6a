//! Experiments on the stack of Linux in virtual time.

use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::sync::{Mutex, PoisonError};

use anyhow::Context as _;
use headway_repro::shared_link::{BOTTLENECK, Records, Request};
use headway_repro::{Context, Experiment, Interrupted, Outcome};
use headway_scenario::Scenario;

use crate::exit::Failed;
use crate::progress::Progress;
use crate::run::uml::{Prepared, Settings};
use crate::run::{World, is_set};

/// Carries an experiment out; `None` when it was interrupted, or is one that only the simulator can do.
pub(super) fn run(
    experiment: &Experiment,
    context: &Context<'_>,
    progress: &Progress,
) -> Result<Option<Outcome>, Failed> {
    let trouble = Mutex::new(None);
    let first = || trouble.lock().unwrap_or_else(PoisonError::into_inner);
    let world = |request: &Request| {
        if first().is_some() {
            return Err(Interrupted);
        }
        progress.say(request.name.clone());
        let records = records(request, context.stop).unwrap_or_else(|error| {
            // What an interruption breaks is no failure.
            if !is_set(context.stop) {
                first().get_or_insert(error);
            }
            None
        });
        records.ok_or(Interrupted)
    };
    let outcome = headway_repro::run_in(&world, World::Uml.name(), experiment, context);
    match trouble.into_inner().unwrap_or_else(PoisonError::into_inner) {
        Some(error) => Err(error.into()),
        None => Ok(outcome.unwrap_or(None)),
    }
}

/// What a kernel recorded; `None` when it was interrupted.
fn records(request: &Request, interrupted: &AtomicBool) -> anyhow::Result<Option<Records>> {
    let read = || -> anyhow::Result<Option<Records>> {
        let mut scenario = Scenario::parse(&request.scenario, Path::new("experiment.toml"), &[])?;
        scenario.name.clone_from(&request.name);
        let settings = Settings::default();
        let prepared = Prepared::new(&scenario, &settings, interrupted)?;
        let (results, waits) = prepared.results_and_waits(request.seed, BOTTLENECK, interrupted)?;
        Ok((!results.summary.partial).then_some(Records { results, waits }))
    };
    read().with_context(|| request.name.clone())
}
