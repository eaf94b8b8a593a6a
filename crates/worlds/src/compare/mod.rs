//! Comparisons of a scenario across worlds: metrics, bands, and matrices of cells.

mod cell;
mod comparison;
pub mod controllers;
mod figure;
mod matrix;
mod metrics;
pub mod page;
mod real_time;
pub mod rows;
#[cfg(test)]
mod tests;
mod verdict;
mod wide;

use std::path::Path;

use headway_scenario::{Change, Scenario};
use headway_units::Bytes;
use serde_json::{Value, json};

use crate::error::{Error, bail};
use crate::memory;
use crate::options::{Event, Options};
use crate::outcome::Outcome;
use crate::pool::{self, Done};
use anyhow::Context as _;
pub use cell::Cell;
use comparison::Subject;
pub use comparison::{Comparison, Cost};
use headway_scenario::World;
pub use metrics::Metric;
pub use verdict::{Tally, Verdict};

/// Attempts at a run in real time before giving up on a busy machine.
const MAX_ATTEMPTS: u32 = 3;

/// The available matrices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Matrix {
    /// One bottleneck, with all its parameters varied.
    Bottleneck,
    /// Varied networks with links and flows of their own.
    Wide,
}

/// A selection of cells of a matrix.
#[derive(Clone, Copy, Debug)]
pub struct Selection<'a> {
    /// The matrix.
    pub matrix: Matrix,
    /// Whether to run only a subset that covers all values.
    pub quick: bool,
    /// Seed from which the networks of the wide matrix are drawn; `None` for the seed of published results.
    pub seed: Option<u64>,
    /// Properties that cells must have, such as `reno,cubic,1Gb/s`; values of the same
    /// property are alternatives.
    pub only: Option<&'a str>,
    /// Overrides applied to the scenario of every cell.
    pub set: &'a [Change],
    /// Time dilation: how many times slower every cell runs.
    pub dilation: u32,
}

/// A cell, and the scenarios of its runs.
pub type Planned = (Cell, Vec<Scenario>);

/// Runs a scenario in all worlds and compares them; `None` when cancelled. `set` lists the overrides already
/// applied to the scenario.
///
/// # Errors
/// When a run fails, or the worlds have no link in common.
pub fn single(
    scenario: &Scenario,
    set: &[Change],
    worlds: &[World],
    options: &Options<'_>,
) -> Result<Option<(Comparison, Vec<Outcome>)>, Error> {
    let Some(outcomes) = all_worlds(worlds, |world| run_once(scenario, world, options), options)? else {
        return Ok(None);
    };
    let runs: Vec<Vec<&Outcome>> = outcomes.iter().map(|outcome| vec![outcome]).collect();
    let comparison = Comparison::new(&Subject::new(scenario, set), worlds, &runs)?;
    Ok(Some((comparison, outcomes)))
}

/// Runs all cells, `options.jobs` at a time, and calls `on_result` with every finished comparison.
pub fn run_cells(
    cells: &[Planned],
    worlds: &[World],
    options: &Options<'_>,
    on_result: impl Fn(&Comparison) + Sync,
) -> Done<Comparison, Error> {
    let memory = match options.memory.map_or_else(memory::available, Ok) {
        Ok(memory) => Bytes::new(memory.get() / u64::from(options.jobs.max(1))),
        Err(error) => return Done { results: Vec::new(), error: Some(error) },
    };
    // Reports of cells that run in parallel would interleave.
    let report = options.report.filter(|_| options.jobs <= 1);
    let each = Options { jobs: 1, memory: Some(memory), report, ..options.clone() };
    pool::each(cells, options.jobs as usize, &options.cancellation, |(cell, scenarios)| {
        let mut runs: Vec<Vec<Outcome>> = Vec::new();
        for scenario in scenarios {
            let in_world = |world| run_once(scenario, world, &each);
            match all_worlds(worlds, in_world, &each).with_context(|| cell.to_string())? {
                Some(outcomes) => runs.push(outcomes),
                None => return Ok(None),
            }
        }
        let of_world = |world: usize| runs.iter().map(|outcomes| &outcomes[world]).collect();
        let by_world: Vec<Vec<&Outcome>> = (0..worlds.len()).map(of_world).collect();
        let comparison = Comparison::new(&Subject::of(cell, &scenarios[0]), worlds, &by_world)?;
        on_result(&comparison);
        Ok(Some(comparison))
    })
}

/// Returns the selected cells, each with the scenarios of its runs, which are based on the one in `file`.
///
/// # Errors
/// When no cell matches, or a cell is not a valid scenario; so mistakes show before anything runs.
pub fn cells(file: &Path, selection: &Selection<'_>, worlds: &[World]) -> Result<Vec<Planned>, Error> {
    let wide = selection.matrix == Matrix::Wide;
    if !wide && selection.seed.is_some() {
        bail!("--seed draws networks of the wide matrix: --matrix wide");
    }
    let mut cells = if worlds.contains(&World::Lab) {
        if selection.quick || wide {
            bail!(
                "--quick and the wide matrix are for worlds in virtual time; with lab there are only 24 cells"
            );
        }
        real_time::cells(&Scenario::load(file, selection.set)?, selection.set)?
    } else if wide {
        wide::cells(selection.seed.unwrap_or(wide::SEED), selection.quick, selection.set)?
    } else {
        matrix::cells(selection.quick, selection.set)?
    };
    if let Some(text) = selection.only {
        cells = cell::only(cells, text)?;
    }
    let load = |cell: Cell| {
        let scenario = |changes: &Vec<Change>| Scenario::load(file, changes)?.dilated(selection.dilation);
        let scenarios = cell.each_run().iter().map(scenario).collect::<Result<_, _>>();
        let scenarios = scenarios.with_context(|| cell.to_string())?;
        Ok((cell, scenarios))
    };
    cells.into_iter().map(load).collect()
}

/// Runs a scenario in one world, and repeats it in real time when the machine disturbed it; `None` when
/// cancelled before it began.
fn run_once(scenario: &Scenario, world: World, options: &Options<'_>) -> Result<Option<Outcome>, Error> {
    let mut attempts = 0;
    loop {
        attempts += 1;
        let outcomes = crate::run_all(scenario, world, &[scenario.seed], options)?;
        let Some(outcome) = outcomes.into_iter().next() else { return Ok(None) };
        let valid = outcome.results.summary.valid;
        if valid || attempts == MAX_ATTEMPTS || options.cancellation.is_cancelled() {
            return Ok(Some(outcome));
        }
        options.report_event(Event::Retrying(outcome.invalid_reason.as_deref().unwrap_or_default()));
    }
}

/// Runs a scenario in all worlds; `None` when cancelled.
fn all_worlds(
    worlds: &[World],
    in_world: impl Fn(World) -> Result<Option<Outcome>, Error>,
    options: &Options<'_>,
) -> Result<Option<Vec<Outcome>>, Error> {
    let mut outcomes = Vec::new();
    for &world in worlds {
        if options.cancellation.is_cancelled() {
            return Ok(None);
        }
        let Some(outcome) = in_world(world)?.filter(|outcome| !outcome.results.summary.partial) else {
            return Ok(None);
        };
        outcomes.push(outcome);
    }
    Ok(Some(outcomes))
}

/// Counts the cells within their bands, for every world but the reference.
pub fn tallies(done: &[Comparison]) -> Vec<Tally> {
    let Some(first) = done.first() else { return Vec::new() };
    let of_world = |world: usize| {
        let cells: Vec<_> = done.iter().filter_map(|cell| Some((cell.verdict(world)?, cell.valid))).collect();
        verdict::tally(&first.worlds[world], &cells)
    };
    let mut tallies: Vec<Tally> = first.others().flat_map(of_world).collect();
    let itself: Vec<bool> = done.iter().filter_map(|cell| cell.reference_beside_itself).collect();
    for tally in tallies.iter_mut().filter(|tally| tally.cells == itself.len()) {
        tally.reference_beside_itself = Some(itself.iter().filter(|agrees| **agrees).count());
    }
    tallies
}

/// Returns the cells, followed by the verdict, as JSON.
///
/// # Errors
/// When a number cannot be represented in JSON.
pub fn matrix_value(done: &[Comparison], tallies: &[Tally], partial: bool) -> Result<Value, Error> {
    let mut all: Vec<Value> = done.iter().map(serde_json::to_value).collect::<Result<_, _>>()?;
    let reached = tallies.iter().all(|tally| tally.reached);
    let goal = tallies.first().map(|tally| tally.group.goal());
    all.push(
        json!({ "type": "verdict", "goal": goal, "reached": reached, "partial": partial, "groups": tallies }),
    );
    Ok(Value::Array(all))
}
