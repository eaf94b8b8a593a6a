//! `headway compare`: compares one scenario across several worlds, or with several controllers.

mod controllers;
mod print;

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use clap::{Args, ValueEnum};
use headway_figures::CannotDraw;
use headway_scenario::{Change, MAX_DILATION, Scenario};
use headway_worlds::compare::{self, Selection, Tally, page, rows};
use headway_worlds::pool::Done;
use headway_worlds::{Cancellation, Options, Output, World};
use serde_json::Value;

use crate::build::{BUILD, stamped};
use crate::exit::{Code, Failed};
use crate::out::{print_error, print_line};
use crate::run::{self, reporter};

/// Runs a scenario in two or three worlds, or in one world with several controllers, and compares the results.
///
/// Compares goodput, fairness, utilisation of the bottleneck, queueing delay, loss, marks and retransmissions
/// after warm-up. The reference is the most realistic world given; differences are relative to it. Runs in real
/// time that the machine disturbed are repeated.
///
/// With --controllers the same scenario runs in one world, once per controller: goodput, utilisation, mean and 95 %
/// queueing delay, loss and retransmissions, and a picture of throughput, queueing delay and loss over time.
#[derive(Args, Debug)]
#[command(after_help = "\
Bands, for every world, against the reference (uml, else lab, else sim):
  one flow of reno, cubic or dctcp   goodput within 3 %, mean queueing delay within 10 % or 50 us,
                                     retransmitted packets within 25 % or 5 packets
  several flows                      Jain's index within 0.05
  bbr                                goodput within 10 %
  a run in real time (lab)           goodput within 5 %, mean queueing delay within 15 %
  a cell of the wide matrix          goodput within 5 %, mean queueing delay within 15 % or 0.3 ms, retransmitted packets
                                     within 30 % or 10 packets, timeouts within 3, slowest flow within 10 % of its goodput or of
                                     an equal share, median completion of flows with a size within 10 % or 5 ms

Examples:
  headway compare scenarios/compare.toml
  headway compare scenarios/compare.toml --set \"link.0.rate=10 Mb/s\" --set flow.0.controller=reno --json
  headway compare scenarios/compare.toml --matrix --output report/compare
  headway compare scenarios/compare.toml --on sim,uml --matrix --quick --only reno,cubic,1Gb/s --check
  headway compare scenarios/compare.toml --on sim,uml --matrix wide --check
  headway compare scenarios/rate-steps.toml --on sim --controllers cubic,bbr,reno --output report/controllers
  headway compare scenarios/rate-steps.toml --on sim --controllers cubic,bbr --flow 1 --repeat 10 --json

With --check the exit code is 1 when a group of cells misses its goal; 130 when interrupted.")]
pub(crate) struct CompareArgs {
    /// Scenario file (TOML).
    file: PathBuf,
    /// Worlds to compare, two or three; with --controllers the world to run in [default: sim,lab; with --controllers
    /// sim].
    #[arg(long, value_parser = run::world(), ignore_case = true, value_delimiter = ',', value_name = "WORLD,WORLD")]
    on: Vec<World>,
    /// Compare these congestion controllers instead of worlds, two to eight; see `headway run --help` for their names.
    ///
    /// Each of them in turn replaces the controllers of all flows, and sets their ECN mode to match.
    #[arg(long, value_delimiter = ',', conflicts_with_all = ["matrix", "check"], value_name = "NAME,NAME")]
    controllers: Vec<String>,
    /// Replace the controller of this [[flow]] only, counted from 0; may be repeated.
    ///
    /// The other flows keep their controllers. Goodput and retransmissions are then those of the replaced flows.
    #[arg(long, requires = "controllers", value_name = "N")]
    flow: Vec<usize>,
    /// Run this many times with every controller, with consecutive seeds, and print median, lowest and highest values.
    #[arg(long, requires = "controllers", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=10_000), value_name = "N")]
    repeat: u32,
    /// Set a key of the scenario; may be repeated.
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<Change>,
    /// Run everything slower by this factor: divides rates, multiplies times, keeps ratios.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=i64::from(MAX_DILATION)), value_name = "N")]
    dilate: u32,
    /// Run a matrix of cells instead of one comparison: `bottleneck`, the default, or `wide`.
    ///
    /// bottleneck: 288 cells that vary link 0 and flow 0: reno, cubic, dctcp and bbr; 100 Mb/s, 1 and 10 Gb/s;
    /// RTTs of 1, 10, 30 and 100 ms; buffers of 0.25, 1 and 4 bandwidth-delay products (BDP); one flow and four
    /// (the median of three staggers). If lab is one of the worlds, 24 cells: reno and cubic; 10 and 100 Mb/s;
    /// the RTT of the file; buffers of 0.5, 1 and 2 BDP; one flow and four.
    ///
    /// wide: 80 other networks, five of each class, with links and flows of their own; metrics are medians over
    /// five or nine runs per cell. Not with lab.
    #[arg(long, value_enum, num_args = 0..=1, default_missing_value = "bottleneck", value_name = "WHICH")]
    matrix: Option<Matrix>,
    /// Run a subset of the cells that covers all values: 21 of the 288, or one of each class; not with lab.
    #[arg(long, requires = "matrix")]
    quick: bool,
    /// Seed of the networks of the wide matrix; another seed draws others from the same ranges [default: 1].
    #[arg(long, requires = "matrix", value_name = "N")]
    seed: Option<u32>,
    /// Run only cells with these properties, such as `reno,cubic,1Gb/s`; values of the same property are
    /// alternatives.
    #[arg(long, requires = "matrix", value_name = "TEXT")]
    only: Option<String>,
    /// Runs in parallel: cells of a matrix, or controllers and seeds; always one with lab [default: one per core].
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=1024), value_name = "N")]
    jobs: Option<u16>,
    /// Write a report with tables and figures, report.html, and the numbers, compare.json, into this folder; with
    /// --controllers also the picture, controllers.svg.
    #[arg(long, value_name = "DIR")]
    output: Option<PathBuf>,
    /// Exit with code 1 if less than 90 % of a group of cells, or 95 % of the wide matrix, are within their
    /// bands.
    #[arg(long)]
    check: bool,
    /// Print JSON: an object, or with --matrix an array of objects, the last of which is the verdict.
    #[arg(long)]
    json: bool,
}

/// The available matrices.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Matrix {
    Bottleneck,
    Wide,
}

impl From<Matrix> for compare::Matrix {
    fn from(matrix: Matrix) -> compare::Matrix {
        match matrix {
            Matrix::Bottleneck => compare::Matrix::Bottleneck,
            Matrix::Wide => compare::Matrix::Wide,
        }
    }
}

impl CompareArgs {
    pub(crate) fn json(&self) -> bool {
        self.json
    }

    /// Returns the worlds.
    fn worlds(&self) -> Vec<World> {
        match (&self.on[..], self.controllers.is_empty()) {
            ([], true) => vec![World::Sim, World::Lab],
            ([], false) => vec![World::Sim],
            (given, _) => given.to_vec(),
        }
    }

    /// Returns the number of parallel runs.
    fn jobs(&self) -> usize {
        let cores = || thread::available_parallelism().map_or(1, usize::from);
        if self.worlds().contains(&World::Lab) { 1 } else { self.jobs.map_or_else(cores, usize::from) }
    }
}

pub(crate) fn run(args: &CompareArgs) -> Result<ExitCode, Failed> {
    let worlds = args.worlds();
    if !args.controllers.is_empty() {
        return controllers::run(args, &worlds);
    }
    if !(2..=3).contains(&worlds.len()) {
        return Err(anyhow::anyhow!("--on needs two or three worlds, such as `sim,uml`").into());
    }
    let cancellation = run::interruption()?;
    match args.matrix {
        Some(matrix) => run_matrix(args, &worlds, matrix, cancellation),
        None => single(args, &worlds, cancellation),
    }
}

/// Runs a single comparison.
fn single(args: &CompareArgs, worlds: &[World], cancellation: Cancellation) -> Result<ExitCode, Failed> {
    let scenario = Scenario::load(&args.file, &args.set)?.dilated(args.dilate)?;
    let report = reporter(1);
    let options = Options { cancellation, report: Some(&*report), ..Options::default() };
    let compared = compare::single(&scenario, &args.set, worlds, &options)?;
    drop(report);
    let Some((comparison, outcomes)) = compared else {
        return Ok(Code::Interrupted.into());
    };
    let tallies = compare::tallies(std::slice::from_ref(&comparison));
    let value = serde_json::to_value(stamped(&comparison))?;
    if args.json {
        print_line!("{}", serde_json::to_string_pretty(&value)?);
    } else {
        print_line!("{}", print::comparison(&comparison));
    }
    let page = || page::comparison(&scenario, &comparison, &outcomes);
    write(args, &value, page)?;
    Ok(ending(args.check, &tallies, false).map_or(ExitCode::SUCCESS, ExitCode::from))
}

/// Runs all cells of a matrix.
fn run_matrix(
    args: &CompareArgs,
    worlds: &[World],
    matrix: Matrix,
    cancellation: Cancellation,
) -> Result<ExitCode, Failed> {
    let selection = Selection {
        matrix: matrix.into(),
        quick: args.quick,
        seed: args.seed.map(u64::from),
        only: args.only.as_deref(),
        set: &args.set,
        dilation: args.dilate,
    };
    let cells = compare::cells(&args.file, &selection, worlds)?;
    let jobs = args.jobs();
    let report = reporter(1);
    let options = Options {
        jobs: u32::try_from(jobs).unwrap_or(u32::MAX),
        cancellation,
        report: Some(&*report),
        ..Options::default()
    };
    if worlds.contains(&World::Uml) {
        // Build the kernel once, with progress shown, before cells request it in parallel.
        headway_worlds::kernel(false, &options)?;
    }
    let begun = AtomicUsize::new(0);
    let Done { results, error } = compare::run_cells(&cells, worlds, &options, |comparison| {
        let number = begun.fetch_add(1, Ordering::Relaxed) + 1;
        print_error!("{number} of {}: {}", cells.len(), rows::progress(comparison));
    });
    drop(report);
    let partial = results.len() < cells.len();
    let tallies = compare::tallies(&results);
    let mut value = compare::matrix_value(&results, &tallies, partial)?;
    // The matrix is an array; the build stands with the verdict at its end.
    if let Some(verdict) = value.as_array_mut().and_then(|cells| cells.last_mut()) {
        verdict["build"] = BUILD.into();
    }
    if !args.json {
        print_line!("{}", print::matrix(&results, &tallies, cells.len()));
    } else if error.is_none() {
        print_line!("{}", serde_json::to_string_pretty(&value)?);
    }
    if !results.is_empty() {
        write(args, &value, || page::matrix(&results, &tallies, cells.len()))?;
    }
    match error {
        Some(error) => Err(error.into()),
        None => Ok(ending(args.check, &tallies, partial).map_or(ExitCode::SUCCESS, ExitCode::from)),
    }
}

/// Writes the report and the numbers if a folder was given.
fn write(
    args: &CompareArgs,
    value: &Value,
    page: impl Fn() -> Result<String, CannotDraw>,
) -> anyhow::Result<()> {
    let Some(folder) = &args.output else { return Ok(()) };
    let output = Output::make(folder)?;
    output.write("report.html", &page()?)?;
    output.write("compare.json", &format!("{}\n", serde_json::to_string_pretty(value)?))?;
    if !args.json {
        print_line!("Figures: {}", folder.join("report.html").display());
    }
    Ok(())
}

/// Returns why the command fails although it completed; `None` on success.
fn ending(check: bool, tallies: &[Tally], partial: bool) -> Option<Code> {
    let missed = tallies.iter().any(|tally| !tally.reached());
    if partial { Some(Code::Interrupted) } else { (check && missed).then_some(Code::Other) }
}
