//! Sweeps: a scenario with a grid of overrides and seeds, one result for each cell.
//!
//! [`Sweep`] reads the file and knows the cells. A [`Job`] is all that determines the result of a cell, and
//! can be run by another process or machine. [`Folder`] has the results: a table with a row for each cell,
//! and every finished cell in a file of its own, so that a sweep which ended early goes on where it was.
//! Neither depends on who ran which cell when.

mod columns;
mod file;
mod folder;
mod grid;
mod job;
mod seeds;
mod table;
#[cfg(test)]
mod tests;

use std::sync::atomic::{AtomicU64, Ordering};

use headway_scenario::World;
use headway_units::Bytes;

use crate::error::Error;
use crate::options::{Event, Options};
use crate::pool;
use crate::sim::STEPS;
use crate::{memory, pool::Done};

pub use folder::Folder;
pub use grid::{Cell, Sweep};
pub use job::{Job, Record};

/// What a cell came to: its record, or why there is none.
pub type CellResult = Result<Record, String>;

/// Receives the number of a cell that has just ended, and its result; may be called from any thread.
pub type OnCell<'a> = dyn Fn(usize, &CellResult) + Sync + 'a;

impl Sweep {
    /// Returns a cell as an object for programs: its number from 1, `world`, `values` by dimension and
    /// `seed`; with a result also `error` and `summary`, one of which is null.
    ///
    /// # Panics
    /// If there is no such cell.
    pub fn object(&self, number: usize, result: Option<&CellResult>) -> serde_json::Value {
        table::object(self, number, result)
    }

    /// Runs the cells that have no result yet, `options.jobs` at a time, and keeps each record as soon as it
    /// is there. A cell that fails does not stop the others. Cells that were not run because of a
    /// cancellation stay without a result.
    ///
    /// # Errors
    /// When a record cannot be kept.
    pub fn run(
        &self,
        folder: &Folder,
        results: &mut [Option<CellResult>],
        options: &Options<'_>,
        on_cell: &OnCell<'_>,
    ) -> Result<(), Error> {
        let missing: Vec<usize> = (0..results.len()).filter(|index| results[*index].is_none()).collect();
        // Runs in real time would disturb each other.
        let jobs = if self.world == World::Lab { 1 } else { options.jobs.max(1) };
        let jobs = (jobs as usize).min(missing.len().max(1));
        let memory = options.memory.map_or_else(memory::available, Ok)?;
        let memory = Some(Bytes::new(memory.get() / jobs as u64));
        let work = |index: &usize| {
            let job = self.job(&self.cells()[*index]);
            let Some(result) = run_cell(&job, memory, options) else { return Ok(None) };
            if let Ok(record) = &result {
                folder.keep(&job, record)?;
            }
            on_cell(*index, &result);
            Ok::<_, Error>(Some((*index, result)))
        };
        let Done { results: ended, error } = pool::each(&missing, jobs, &options.cancellation, work);
        for (index, result) in ended {
            results[index] = Some(result);
        }
        error.map_or(Ok(()), Err)
    }
}

/// Runs a cell; `None` when it was cancelled.
fn run_cell(job: &Job, memory: Option<Bytes>, options: &Options<'_>) -> Option<CellResult> {
    let advanced = AtomicU64::new(0);
    let report = |event: Event<'_>| {
        if let Event::Advanced(steps) = event {
            advanced.fetch_add(steps, Ordering::Relaxed);
        }
        options.report_event(event);
    };
    let alone = Options { jobs: 1, memory, report: Some(&report), ..options.clone() };
    let result = job.run(&alone);
    // A cell that failed counts as done, too.
    options.report_event(Event::Advanced(STEPS.saturating_sub(advanced.into_inner())));
    match result {
        Err(error) if error.is_cancelled() || options.cancellation.is_cancelled() => None,
        result => Some(result.map_err(|error| error.chain())),
    }
}
