//! `headway compare`: the same scenario in several worlds, side by side.

mod cell;
mod comparison;
mod figure;
mod matrix;
mod metrics;
mod page;
mod print;
mod real_time;
#[cfg(test)]
mod tests;
mod verdict;
mod wide;

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use anyhow::Context as _;
use clap::{Args, ValueEnum};
use headway_core::Bytes;
use headway_scenario::{Change, MOST_DILATION, Scenario};
use serde_json::{Value, json};

use crate::exit::{Code, Failed};
use crate::out::{say, tell};
use crate::output::Output;
use crate::pool::{self, Done};
use crate::run::{self, Outcome, World, lab, sim, uml};
use cell::Cell;
use comparison::{Comparison, Subject};
use verdict::Tally;

/// Runs a scenario in two or three worlds and prints how far apart their results are.
///
/// Goodput, fairness, use of the bottleneck, queueing delay, loss, marks and retransmissions after warm-up, each beside that
/// of the most real world given: differences are relative to it. Runs in real time that the machine disturbed are repeated.
#[derive(Args, Debug)]
#[command(after_help = "\
Bands, for every world beside the most real one:
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

With --check the exit code is 1 when a group of cells misses its goal; 130 when interrupted.")]
pub(crate) struct CompareArgs {
    /// Scenario (TOML).
    file: PathBuf,
    /// Two or three worlds.
    #[arg(long, value_enum, value_delimiter = ',', default_values = ["sim", "lab"], value_name = "WORLD,WORLD")]
    on: Vec<World>,
    /// Sets a value of the scenario; may be repeated.
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<Change>,
    /// Runs everything slower by this factor: rates divided, times multiplied, ratios the same.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=i64::from(MOST_DILATION)), value_name = "N")]
    dilate: u32,
    /// Instead of one comparison a matrix of cells.
    ///
    /// bottleneck (when none is named): 288 cells over link 0 and flow 0: reno, cubic, dctcp and bbr at 100 Mb/s, 1 and 10 Gb/s, round
    /// trips of 1, 10, 30 and 100 ms, buffers of 0.25, 1 and 4 bandwidth-delay products, one flow and four (the median of three staggers). With lab among the
    /// worlds 24 cells: reno and cubic at 10 and 100 Mb/s, the file's round trip, buffers of 0.5, 1 and 2 products, one flow and four.
    /// wide: 80 networks unlike those, five of each class, with links and flows of their own, five or nine runs a cell, whose median counts; not with lab.
    #[arg(long, value_enum, num_args = 0..=1, default_missing_value = "bottleneck", value_name = "WHICH")]
    matrix: Option<Matrix>,
    /// A part of the cells, spread over all values: 40 of the 288, or one of each class; not with lab.
    #[arg(long, requires = "matrix")]
    quick: bool,
    /// Draws other networks for the wide matrix, from the same ranges; default 1.
    #[arg(long, requires = "matrix", value_name = "N")]
    seed: Option<u32>,
    /// Only cells with these properties, such as `reno,cubic,1Gb/s`: of each kind one of those named.
    #[arg(long, requires = "matrix", value_name = "TEXT")]
    only: Option<String>,
    /// Cells at the same time; default: one a core. With lab it is always one.
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=1024), value_name = "N")]
    jobs: Option<u16>,
    /// Folder for a page of tables and figures, report.html, and for the numbers, compare.json.
    #[arg(long, value_name = "DIR")]
    output: Option<PathBuf>,
    /// End with exit code 1 when less than 90 % of a group of cells, or 95 % of the wide matrix, are within their bands.
    #[arg(long)]
    check: bool,
    /// Print results as JSON: an object, or with --matrix an array of them whose last is the verdict.
    #[arg(long)]
    json: bool,
}

/// The matrices there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Matrix {
    Bottleneck,
    Wide,
}

/// Runs in real time before the machine is declared too busy.
const TRIES: u32 = 3;

impl CompareArgs {
    pub(crate) fn json(&self) -> bool {
        self.json
    }

    /// Whether a world takes the machine's time.
    fn real_time(&self) -> bool {
        self.on.contains(&World::Lab)
    }

    /// How many runs there may be at the same time.
    fn jobs(&self) -> usize {
        let cores = || thread::available_parallelism().map_or(1, usize::from);
        if self.real_time() { 1 } else { self.jobs.map_or_else(cores, usize::from) }
    }
}

pub(crate) fn run(args: &CompareArgs) -> Result<ExitCode, Failed> {
    if !(2..=3).contains(&args.on.len()) {
        return Err(anyhow::anyhow!("--on needs two or three worlds, such as `sim,uml`").into());
    }
    let interrupted = run::interruption()?;
    if args.matrix.is_some() { many(args, &interrupted) } else { single(args, &interrupted) }
}

/// One comparison.
fn single(args: &CompareArgs, interrupted: &AtomicBool) -> Result<ExitCode, Failed> {
    let scenario = Scenario::load(&args.file, &args.set)?.dilated(args.dilate)?;
    let memory = run::limit(None)?;
    let in_world = |world| one(&scenario, world, memory, interrupted);
    let Some(outcomes) = all_worlds(&args.on, in_world, interrupted)? else {
        return Ok(Code::Interrupted.into());
    };
    let runs: Vec<Vec<&Outcome>> = outcomes.iter().map(|outcome| vec![outcome]).collect();
    let comparison = Comparison::new(&Subject::new(&scenario, &args.set), &args.on, &runs)?;
    let tallies = tallies(std::slice::from_ref(&comparison));
    if args.json {
        say!("{}", serde_json::to_string_pretty(&comparison)?);
    } else {
        say!("{}", print::comparison(&comparison));
    }
    let page = || page::comparison(&scenario, &comparison, &outcomes);
    write(args, &serde_json::to_value(&comparison)?, page)?;
    Ok(ending(args.check, &tallies, false).map_or(ExitCode::SUCCESS, ExitCode::from))
}

/// All cells of a matrix.
fn many(args: &CompareArgs, interrupted: &AtomicBool) -> Result<ExitCode, Failed> {
    let cells = cells(args)?;
    if args.on.contains(&World::Uml) {
        // Built once and with its progress shown, before cells ask for it side by side.
        crate::uml::kernel(false, interrupted)?;
    }
    let jobs = args.jobs();
    let memory = Bytes::new(run::limit(None)?.get() / jobs as u64);
    let begun = AtomicUsize::new(0);
    let work = |(cell, scenarios): &(Cell, Vec<Scenario>)| {
        let mut runs: Vec<Vec<Outcome>> = Vec::new();
        for scenario in scenarios {
            let in_world = |world| one(scenario, world, memory, interrupted);
            match all_worlds(&args.on, in_world, interrupted).with_context(|| cell.to_string())? {
                Some(outcomes) => runs.push(outcomes),
                None => return Ok(None),
            }
        }
        let of_world = |world: usize| runs.iter().map(|outcomes| &outcomes[world]).collect();
        let worlds: Vec<Vec<&Outcome>> = (0..args.on.len()).map(of_world).collect();
        let comparison = Comparison::new(&Subject::of(cell, &scenarios[0]), &args.on, &worlds)?;
        let number = begun.fetch_add(1, Ordering::Relaxed) + 1;
        tell!("{number} of {}: {}", cells.len(), print::progress(&comparison));
        Ok(Some(comparison))
    };
    let Done { results, error } = pool::each(&cells, jobs, interrupted, work);
    let partial = results.len() < cells.len();
    let tallies = tallies(&results);
    let value = matrix_value(&results, &tallies, partial)?;
    if !args.json {
        say!("{}", print::matrix(&results, &tallies, cells.len()));
    } else if error.is_none() {
        say!("{}", serde_json::to_string_pretty(&value)?);
    }
    if !results.is_empty() {
        write(args, &value, || page::matrix(&results, &tallies, cells.len()))?;
    }
    match error {
        Some(error) => Err(error.into()),
        None => Ok(ending(args.check, &tallies, partial).map_or(ExitCode::SUCCESS, ExitCode::from)),
    }
}

/// The cells that were asked for, each with the scenarios of its runs: a mistake shows before anything runs.
fn cells(args: &CompareArgs) -> anyhow::Result<Vec<(Cell, Vec<Scenario>)>> {
    let wide = args.matrix == Some(Matrix::Wide);
    anyhow::ensure!(wide || args.seed.is_none(), "--seed draws networks of the wide matrix: --matrix wide");
    let mut cells = if args.real_time() {
        anyhow::ensure!(
            !args.quick && !wide,
            "--quick and the wide matrix are for worlds in virtual time; with lab there are only 24 cells"
        );
        real_time::cells(&Scenario::load(&args.file, &args.set)?, &args.set)?
    } else if wide {
        wide::cells(args.seed.map_or(wide::SEED, u64::from), args.quick, &args.set)?
    } else {
        matrix::cells(args.quick, &args.set)?
    };
    if let Some(text) = &args.only {
        cells = cell::only(cells, text)?;
    }
    let load = |cell: Cell| {
        let scenario = |changes: &Vec<Change>| Scenario::load(&args.file, changes)?.dilated(args.dilate);
        let scenarios = cell.each_run().iter().map(scenario).collect::<Result<_, _>>();
        let scenarios = scenarios.with_context(|| cell.to_string())?;
        Ok((cell, scenarios))
    };
    cells.into_iter().map(load).collect()
}

/// A scenario in one world, in real time again when the machine disturbed it; `None` when it was interrupted before it began.
fn one(
    scenario: &Scenario,
    world: World,
    memory: Bytes,
    interrupted: &AtomicBool,
) -> anyhow::Result<Option<Outcome>> {
    let seeds = [scenario.seed];
    let mut tries = 0;
    loop {
        tries += 1;
        let outcomes = match world {
            World::Sim => sim::run(scenario, &seeds, 1, memory, interrupted)?,
            World::Uml => {
                let settings = uml::Settings::default();
                uml::Prepared::new(scenario, &settings, interrupted)?.run(&seeds, 1, interrupted)?
            }
            World::Lab => lab::run(scenario, &seeds, interrupted)?,
        };
        let Some(outcome) = outcomes.into_iter().next() else { return Ok(None) };
        let valid = outcome.results.summary.valid;
        if valid || tries == TRIES || run::is_set(interrupted) {
            return Ok(Some(outcome));
        }
        tell!("repeated, because {}", outcome.trouble.unwrap_or_default());
    }
}

/// The runs in all worlds; `None` when they were interrupted.
fn all_worlds(
    worlds: &[World],
    in_world: impl Fn(World) -> anyhow::Result<Option<Outcome>>,
    interrupted: &AtomicBool,
) -> anyhow::Result<Option<Vec<Outcome>>> {
    let mut outcomes = Vec::new();
    for &world in worlds {
        if run::is_set(interrupted) {
            return Ok(None);
        }
        let Some(outcome) = in_world(world)?.filter(|outcome| !outcome.results.summary.partial) else {
            return Ok(None);
        };
        outcomes.push(outcome);
    }
    Ok(Some(outcomes))
}

/// How many cells keep to their bands, for every world but the reference.
fn tallies(done: &[Comparison]) -> Vec<Tally> {
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

/// The cells and after them the verdict.
fn matrix_value(done: &[Comparison], tallies: &[Tally], partial: bool) -> anyhow::Result<Value> {
    let mut all: Vec<Value> = done.iter().map(serde_json::to_value).collect::<Result<_, _>>()?;
    let reached = tallies.iter().all(|tally| tally.reached);
    let goal = tallies.first().map(|tally| tally.group.goal());
    all.push(
        json!({ "type": "verdict", "goal": goal, "reached": reached, "partial": partial, "groups": tallies }),
    );
    Ok(Value::Array(all))
}

/// Writes the page and the numbers, if a folder was named.
fn write(args: &CompareArgs, value: &Value, page: impl Fn() -> anyhow::Result<String>) -> anyhow::Result<()> {
    let Some(folder) = &args.output else { return Ok(()) };
    let output = Output::make(folder)?;
    output.write("report.html", &page()?)?;
    output.write("compare.json", &format!("{}\n", serde_json::to_string_pretty(value)?))?;
    if !args.json {
        say!("Figures: {}", folder.join("report.html").display());
    }
    Ok(())
}

/// Why the command fails although it did its work; `None` when it does not.
fn ending(check: bool, tallies: &[Tally], partial: bool) -> Option<Code> {
    let missed = tallies.iter().any(|tally| !tally.reached);
    if partial { Some(Code::Interrupted) } else { (check && missed).then_some(Code::Other) }
}
