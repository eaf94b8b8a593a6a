//! `headway compare`: compares one scenario across several worlds, or with several controllers.

mod controllers;

use std::path::PathBuf;
use std::process::ExitCode;
use std::thread;

use clap::Args;
use headway_program::build::stamped;
use headway_program::exit::{Code, Failed};
use headway_program::table::table;
use headway_program::{out, print_line};
use headway_runs::{comparison, interruption, reporter, world};
use headway_scenario::{Change, MAX_DILATION, Scenario};
use headway_worlds::compare::rows::{metric_columns, metric_rows, remarks};
use headway_worlds::compare::{self, Comparison, page};
use headway_worlds::{Options, World};

/// Runs a scenario in several worlds, or with several controllers, and compares them.
///
/// Compares goodput, fairness, utilisation of the bottleneck, queueing delay, loss, marks and retransmissions
/// after warm-up. The reference is the most realistic world given; differences are relative to it. Runs in
/// real time that the machine disturbed are repeated.
///
/// With --controllers the same scenario runs in one world, once per controller: goodput, utilisation,
/// mean and 95 % queueing delay, loss and retransmissions, and a picture of throughput, queueing
/// delay and loss over time.
#[derive(Args, Debug)]
#[command(after_help = "\
Bands, for every world, against the reference (uml, else lab, else sim):
  one flow of reno, cubic or dctcp   goodput within 3 %, mean queueing delay within 10 % or 50 us,
                                     retransmitted packets within 25 % or 5 packets
  several flows                      Jain's index within 0.05
  bbr                                goodput within 10 %
  a run in real time (lab)           goodput within 5 %, mean queueing delay within 15 %

Examples:
  headway compare scenarios/compare.toml
  headway compare scenarios/compare.toml --set \"link.0.rate=10 Mb/s\" --set flow.0.controller=reno --json
  headway compare scenarios/compare.toml --on sim,uml --check --output report/compare
  headway compare scenarios/rate-steps.toml --on sim --controllers cubic,bbr,reno --output report/controllers
  headway compare scenarios/rate-steps.toml --on sim --controllers cubic,bbr --flow 1 --repeat 10 --json

With --check the exit code is 1 when a world is outside of its bands; 130 when interrupted.")]
pub(crate) struct CompareArgs {
    /// Scenario file (TOML).
    file: PathBuf,
    /// Worlds to compare, two or three; with --controllers the world to run in [default: sim,lab;
    /// with --controllers sim].
    #[arg(long, value_parser = world(), ignore_case = true, value_delimiter = ',', value_name = "WORLD,WORLD")]
    on: Vec<World>,
    /// Compare these congestion controllers instead of worlds, two to eight; see
    /// `headway run --help` for their names.
    ///
    /// Each of them in turn replaces the controllers of all flows, and sets their ECN mode to match.
    #[arg(long, value_delimiter = ',', conflicts_with = "check", value_name = "NAME,NAME")]
    controllers: Vec<String>,
    /// Replace the controller of this [[flow]] only, counted from 0; may be repeated.
    ///
    /// The other flows keep their controllers. Goodput and retransmissions are then those
    /// of the replaced flows.
    #[arg(long, requires = "controllers", value_name = "N")]
    flow: Vec<usize>,
    /// Run this many times with every controller, with consecutive seeds, and print median,
    /// lowest and highest values.
    #[arg(long, requires = "controllers", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=10_000), value_name = "N")]
    repeat: u32,
    /// Set a key of the scenario; may be repeated.
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<Change>,
    /// Run everything slower by this factor: divides rates, multiplies times, keeps ratios.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=i64::from(MAX_DILATION)), value_name = "N")]
    dilate: u32,
    /// Runs in parallel with --controllers: controllers and seeds; always one with lab
    /// [default: one per core].
    #[arg(long, requires = "controllers", value_parser = clap::value_parser!(u16).range(1..=1024), value_name = "N")]
    jobs: Option<u16>,
    /// Write a report with tables and figures, report.html, and the numbers, compare.json, into this folder;
    /// with --controllers also the picture, controllers.svg.
    #[arg(long, value_name = "DIR")]
    output: Option<PathBuf>,
    /// Exit with code 1 if a world is not within its bands.
    #[arg(long)]
    check: bool,
}

impl CompareArgs {
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

pub(crate) fn run(args: &CompareArgs, json: bool) -> Result<ExitCode, Failed> {
    let worlds = args.worlds();
    if !args.controllers.is_empty() {
        return controllers::run(args, &worlds, json);
    }
    comparison::check_worlds(&worlds)?;
    let cancellation = interruption()?;
    let scenario = Scenario::load(&args.file, &args.set)?.dilated(args.dilate)?;
    let report = reporter(1);
    let options = Options { cancellation, report: Some(&*report), ..Options::default() };
    let compared = compare::single(&scenario, &args.set, &worlds, &options)?;
    drop(report);
    let Some((comparison, outcomes)) = compared else {
        return Ok(Code::Interrupted.into());
    };
    let tallies = compare::tallies(std::slice::from_ref(&comparison));
    let value = serde_json::to_value(stamped(&comparison))?;
    if json {
        out::document(&serde_json::to_string_pretty(&value)?);
    } else {
        print_line!("{}", text(&comparison));
    }
    if let Some(folder) = &args.output {
        let page = page::comparison(&scenario, &comparison, &outcomes)?;
        comparison::write(folder, &page, &value, json)?;
    }
    Ok(comparison::ending(args.check, &tallies, false))
}

/// Formats the comparison: a table, the verdict by the bands, and the cost of the runs.
fn text(comparison: &Comparison) -> String {
    let mut text = table(metric_columns(comparison), metric_rows(comparison)).to_string();
    for line in remarks(comparison) {
        text += &format!("\n{line}");
    }
    text
}
