//! `headway-bench compare`: compares worlds in all cells of a matrix.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use clap::{Args, ValueEnum};
use headway_program::build::BUILD;
use headway_program::exit::Failed;
use headway_program::table::table;
use headway_program::{out, print_error, print_line};
use headway_runs::{comparison, interruption, reporter, world};
use headway_scenario::{Change, MAX_DILATION};
use headway_worlds::compare::rows::{
    TALLY_COLUMNS, cell_columns, cell_rows, progress, tally_rows, total_cost, verdict,
};
use headway_worlds::compare::{self, Comparison, Selection, Tally, page};
use headway_worlds::pool::Done;
use headway_worlds::{Options, World};

/// Compares two or three worlds in all cells of a matrix, as `headway compare` does in one.
#[derive(Args, Debug)]
#[command(after_help = "\
Bands, for every world, against the reference (uml, else lab, else sim), are those of `headway compare`, and
  a cell of the wide matrix          goodput within 5 %, mean queueing delay within 15 % or 0.3 ms, retransmitted packets
                                     within 30 % or 10 packets, timeouts within 3, slowest flow within 10 % of its goodput or of
                                     an equal share, median completion of flows with a size within 10 % or 5 ms

Examples:
  headway-bench compare scenarios/compare.toml --output report/compare
  headway-bench compare scenarios/compare.toml --on sim,uml --quick --only reno,cubic,1Gb/s --check
  headway-bench compare scenarios/compare.toml --on sim,uml --matrix wide --check

With --check the exit code is 1 when a group of cells misses its goal; 130 when interrupted.")]
pub(crate) struct CompareArgs {
    /// Scenario file (TOML).
    file: PathBuf,
    /// Worlds to compare, two or three.
    #[arg(
        long,
        value_parser = world(),
        ignore_case = true,
        value_delimiter = ',',
        default_value = "sim,lab",
        value_name = "WORLD,WORLD"
    )]
    on: Vec<World>,
    /// Set a key of the scenario; may be repeated.
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<Change>,
    /// Run everything slower by this factor: divides rates, multiplies times, keeps ratios.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=i64::from(MAX_DILATION)), value_name = "N")]
    dilate: u32,
    /// The matrix.
    ///
    /// bottleneck: 288 cells that vary link 0 and flow 0: reno, cubic, dctcp and bbr; 100 Mb/s, 1 and 10
    /// Gb/s; RTTs of 1, 10, 30 and 100 ms; buffers of 0.25, 1 and 4 bandwidth-delay products (BDP); one flow
    /// and four (the median of three staggers). If lab is one of the worlds, 24 cells: reno and cubic; 10 and
    /// 100 Mb/s; the RTT of the file; buffers of 0.5, 1 and 2 BDP; one flow and four.
    ///
    /// wide: 80 other networks, five of each class, with links and flows of their own; metrics are medians
    /// over five or nine runs per cell. Not with lab.
    #[arg(long, value_enum, default_value_t = Matrix::Bottleneck, hide_possible_values = true, value_name = "bottleneck|wide")]
    matrix: Matrix,
    /// Run a subset of the cells that covers all values: 21 of the 288, or one of each class; not with lab.
    #[arg(long)]
    quick: bool,
    /// Seed of the networks of the wide matrix; another seed draws others from the same ranges [default: 1].
    #[arg(long, value_name = "N")]
    seed: Option<u32>,
    /// Run only cells with these properties, such as `reno,cubic,1Gb/s`; values of the same property are
    /// alternatives.
    #[arg(long, value_name = "TEXT")]
    only: Option<String>,
    /// Cells to run in parallel; always one with lab [default: one per core].
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=1024), value_name = "N")]
    jobs: Option<u16>,
    /// Write a report with tables and figures, report.html, and the numbers, compare.json, into this folder.
    #[arg(long, value_name = "DIR")]
    output: Option<PathBuf>,
    /// Exit with code 1 if less than 90 % of a group of cells, or 95 % of the wide matrix,
    /// are within their bands.
    #[arg(long)]
    check: bool,
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
    fn selection(&self) -> Selection<'_> {
        Selection {
            matrix: self.matrix.into(),
            quick: self.quick,
            seed: self.seed.map(u64::from),
            only: self.only.as_deref(),
            set: &self.set,
            dilation: self.dilate,
        }
    }

    /// Returns the number of parallel runs.
    fn jobs(&self) -> u32 {
        let cores = || thread::available_parallelism().map_or(1, |cores| cores.get() as u32);
        if self.on.contains(&World::Lab) { 1 } else { self.jobs.map_or_else(cores, u32::from) }
    }
}

/// Runs all cells. With `json`, prints an array with an object for each, the last of which is the verdict.
pub(crate) fn run(args: &CompareArgs, json: bool) -> Result<ExitCode, Failed> {
    let worlds = &args.on;
    comparison::check_worlds(worlds)?;
    let cells = compare::cells(&args.file, &args.selection(), worlds)?;
    let report = reporter(1);
    let cancellation = interruption()?;
    let options = Options { jobs: args.jobs(), cancellation, report: Some(&*report), ..Options::default() };
    if worlds.contains(&World::Uml) {
        // Build the kernel once, with progress shown, before cells request it in parallel.
        headway_worlds::kernel(false, &options)?;
    }
    let begun = AtomicUsize::new(0);
    let Done { results, error } = compare::run_cells(&cells, worlds, &options, |comparison| {
        let number = begun.fetch_add(1, Ordering::Relaxed) + 1;
        print_error!("{number} of {}: {}", cells.len(), progress(comparison));
    });
    drop(report);
    let partial = results.len() < cells.len();
    let tallies = compare::tallies(&results);
    let mut value = compare::matrix_value(&results, &tallies, partial)?;
    // The matrix is an array; the build stands with the verdict at its end.
    if let Some(verdict) = value.as_array_mut().and_then(|cells| cells.last_mut()) {
        verdict["build"] = BUILD.into();
    }
    if !json {
        print_line!("{}", text(&results, &tallies, cells.len()));
    } else if error.is_none() {
        out::document(&serde_json::to_string_pretty(&value)?);
    }
    if let Some(folder) = args.output.as_ref().filter(|_| !results.is_empty()) {
        comparison::write(folder, &page::matrix(&results, &tallies, cells.len())?, &value, json)?;
    }
    match error {
        Some(error) => Err(error.into()),
        None => Ok(comparison::ending(args.check, &tallies, partial)),
    }
}

/// Formats the matrix: one row per cell, the groups, and the verdict.
fn text(cells: &[Comparison], tallies: &[Tally], all: usize) -> String {
    let mut text = format!(
        "{}\n\n{}\n{}",
        table(cell_columns(), cell_rows(cells)),
        table(TALLY_COLUMNS.map(str::to_owned).to_vec(), tally_rows(tallies)),
        verdict(tallies)
    );
    if let Some(line) = total_cost(cells) {
        text += &format!("\n{line}");
    }
    if cells.len() < all {
        text += &format!("\nInterrupted: {} of {all} cells.", cells.len());
    }
    text
}
