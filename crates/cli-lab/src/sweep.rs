//! `headway sweep`: runs a scenario with a grid of overrides and seeds.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::{Mutex, PoisonError};

use clap::Args;
use headway_program::build::{identity, stamped};
use headway_program::exit::{Code, Failed};
use headway_program::{print_error, print_line};
use headway_runs::{interruption, reporter_of_many};
use headway_units::Bytes;
use headway_worlds::Options;
use headway_worlds::sweep::{CellResult, Folder, Sweep};
use serde_json::{Value, json};

/// Runs a scenario once for each combination of values, with every seed.
///
/// The results are a table with a row for each cell, as CSV and as JSON lines, always in the same order and
/// with the same bytes, whatever the number of jobs. Every cell that has ended is kept: the same command goes
/// on where an earlier one was interrupted or killed, and runs only new cells where the file has changed.
#[derive(Args, Debug)]
#[command(after_help = "The file says which scenario, in which world, with which values:\n\n  \
    scenario = \"dumbbell-cubic.toml\"\n  \
    on = \"sim\"\n  \
    seeds = \"1-5\"\n  \
    [set]                                     # each list is a dimension\n  \
    \"link.1.rate\" = [\"50 Mb/s\", \"100 Mb/s\"]\n  \
    \"flow.0.controller\" = [\"reno\", \"cubic\"]\n\n\
    Examples:\n  \
    headway sweep scenarios/sweep.toml --dry-run\n  \
    headway sweep scenarios/sweep.toml --jobs 2 --output results/first\n  \
    headway sweep scenarios/sweep.toml --json | jq .\n\n\
    Exit codes:\n  \
    0    every cell has a result\n  \
    1    a cell failed, and its row says why; or another error\n  \
    2    invalid arguments\n  \
    130  interrupted; the rows of the cells that had ended were written\n\n\
    File format and columns: docs/sweep.md.")]
pub(crate) struct SweepArgs {
    /// File of the sweep (TOML).
    file: PathBuf,
    /// List the cells, and run nothing.
    #[arg(long)]
    dry_run: bool,
    /// Number of parallel runs in virtual time; results do not depend on it [default: one per processor].
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=1024), value_name = "N")]
    jobs: Option<u32>,
    /// Memory limit of all jobs together [default: three quarters of the available memory].
    #[arg(long, value_name = "SIZE")]
    memory: Option<Bytes>,
    /// Folder for the results [default: `results/NAME`, with the name of the file].
    #[arg(long, value_name = "DIR")]
    output: Option<PathBuf>,
}

impl SweepArgs {
    fn output(&self) -> PathBuf {
        let default = || PathBuf::from("results").join(self.file.file_stem().unwrap_or_default());
        self.output.clone().unwrap_or_else(default)
    }

    fn jobs(&self) -> u32 {
        let processors = || std::thread::available_parallelism().map_or(1, usize::from);
        self.jobs.unwrap_or_else(|| u32::try_from(processors()).unwrap_or(1))
    }
}

pub(crate) fn run(args: &SweepArgs, json: bool) -> Result<ExitCode, Failed> {
    let sweep = Sweep::load(&args.file)?;
    if args.dry_run {
        list(&sweep, json);
        return Ok(ExitCode::SUCCESS);
    }
    let output = args.output();
    let name = output.display().to_string();
    let other = move |build: &str| {
        print_error!(
            "headway: {name} has results of another build, {build}; they are computed again and replaced"
        );
    };
    let folder = Folder::open(&output, identity()?, other)?;
    folder.begin(&sweep)?;
    let mut results = folder.records(&sweep)?;
    let kept = results.iter().flatten().count();
    if kept > 0 {
        print_error!("headway: {kept} of {} cells have results already", results.len());
    }
    let shown = Shown::new(&sweep, &results, json);
    let report = reporter_of_many((results.len() - kept) as u64, "cells");
    let options = Options {
        jobs: args.jobs(),
        memory: args.memory,
        cancellation: interruption()?,
        report: Some(&*report),
        ..Options::default()
    };
    let ran = sweep.run(&folder, &mut results, &options, &|number, result| shown.ended(number, result));
    drop(report);
    // What has ended is written, also when a record could not be kept.
    for sentence in folder.write(&sweep, &results)? {
        print_error!("headway: {sentence}");
    }
    ran?;
    Ok(end(&sweep, &results, kept, &output, json))
}

/// Prints the cells.
fn list(sweep: &Sweep, json: bool) {
    for (number, cell) in sweep.cells().iter().enumerate() {
        if json {
            print_line!("{}", sweep.object(number, None));
        } else {
            print_line!("{:>6}  {}", number + 1, sweep.describe(cell));
        }
    }
    if !json {
        print_line!("{} cells of {} on {}", sweep.cells().len(), sweep.scenario.display(), sweep.world);
    }
}

/// Prints what ends: with JSON every cell, in their order, otherwise those that failed.
struct Shown<'a> {
    sweep: &'a Sweep,
    json: bool,
    /// The lines of cells that have ended before an earlier one, and the number of the next
    /// that is to be printed.
    waiting: Mutex<(BTreeMap<usize, Value>, usize)>,
}

impl<'a> Shown<'a> {
    /// Begins with the cells that have results already.
    fn new(sweep: &'a Sweep, results: &[Option<CellResult>], json: bool) -> Shown<'a> {
        let shown = Shown { sweep, json, waiting: Mutex::default() };
        for (number, result) in results.iter().enumerate() {
            if let Some(result) = result {
                shown.ended(number, result);
            }
        }
        shown
    }

    fn ended(&self, number: usize, result: &CellResult) {
        let cell = &self.sweep.cells()[number];
        if let Err(error) = result {
            print_error!("headway: {}: {error}", self.sweep.describe(cell));
        }
        if !self.json {
            return;
        }
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let (lines, next) = &mut *waiting;
        lines.insert(number, self.sweep.object(number, Some(result)));
        while let Some(line) = lines.remove(next) {
            print_line!("{line}");
            *next += 1;
        }
    }
}

/// Prints what there is in the end, and returns the exit code.
fn end(sweep: &Sweep, results: &[Option<CellResult>], kept: usize, output: &Path, json: bool) -> ExitCode {
    let (cells, ended) = (results.len(), results.iter().flatten().count());
    let failed = results.iter().flatten().filter(|result| result.is_err()).count();
    if json {
        let total = json!({
            "type": "sweep",
            "sweep": sweep.path,
            "cells": cells,
            "ended": ended,
            "failed": failed,
            "kept": kept,
            "output": output,
        });
        print_line!("{total}", total = serde_json::to_value(stamped(total)).unwrap_or_default());
    } else {
        let interrupted = if ended < cells { "Interrupted: " } else { "" };
        print_line!("{interrupted}{ended} of {cells} cells have ended, {failed} failed.");
        print_line!("results: {}", output.join("cells.csv").display());
    }
    match (ended < cells, failed > 0) {
        (true, _) => Code::Interrupted.into(),
        (false, true) => Code::Other.into(),
        (false, false) => ExitCode::SUCCESS,
    }
}
