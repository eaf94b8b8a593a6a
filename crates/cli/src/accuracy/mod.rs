//! `headway accuracy`: the errors of measurements on paths whose available bandwidth is known.

mod cells;
mod chain;
mod emulated;
mod hard;
mod passive;
mod simulated;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::builder::PossibleValuesParser;
use clap::{Args, ValueEnum};
use headway_core::Rate;
use headway_core::measure::Method;
use headway_scenario::Change;

use crate::exit::Failed;

pub(crate) use emulated::traffic;

/// Measures paths whose available bandwidth is known, repeatedly, and prints error, coverage and cost.
///
/// On emulated paths (lab) with real packets: an RTT of 20 ms, an MTU of 1500 and a drop-tail buffer of 100 ms, but
/// at least 1 MB; cross traffic goes through the same queue as the probes. Errors are differences from the bandwidth
/// that the emulator logged as free during the measurement, as shares of the path's capacity. Runs that the machine
/// disturbed are void and repeated.
///
/// On simulated paths (sim) in virtual time, of many classes, drawn from a seed: one queue or several, rates
/// from 1 Mb/s to 100 Gb/s, every kind of traffic, shallow buffers, jitter, loss, shapers, receivers with
/// interrupt coalescing. Errors are shares of the available bandwidth, or of a quarter of the narrow link's
/// capacity where less was available.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  headway accuracy
  headway accuracy --hard --output report/hard.json
  headway accuracy --chain=1,3,5,7 --runs 12
  headway accuracy --passive --output report/passive.json
  headway accuracy --on sim --output report/accuracy
  headway accuracy --on sim --classes token-bucket,jitter --paths-per-class 10 --seed 7
  headway accuracy --on sim --paths my-path.toml --answers 20 --methods response,bass
  headway accuracy --on sim --paths-per-class 2 --write-paths paths

The same seed gives the same paths and answers, whatever the number of jobs.")]
pub(crate) struct AccuracyArgs {
    /// Where the paths are: emulated with real packets, or simulated.
    #[arg(long, value_enum, default_value_t = World::Lab, value_name = "WORLD")]
    on: World,
    /// Methods to compare; default: response, or the method in the file with --paths.
    #[arg(long, value_delimiter = ',', value_name = "NAME,...")]
    methods: Vec<Method>,
    /// Also write every answer: for lab to a JSON file, for sim to a folder with accuracy.json, report.html
    /// and reliability.svg.
    #[arg(long, value_name = "PATH")]
    output: Option<PathBuf>,
    #[command(flatten)]
    emulated: Emulated,
    #[command(flatten)]
    simulated: Simulated,
}

/// Where the paths are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum World {
    Lab,
    Sim,
}

/// Options for emulated paths.
#[derive(Args, Debug)]
#[command(next_help_heading = "Emulated paths (--on lab)")]
struct Emulated {
    /// Valid runs in each cell; default 10, with --hard 5.
    #[arg(long, value_name = "N")]
    runs: Option<u32>,
    /// Capacities of the path; default 10, 100 and 500 Mb/s.
    #[arg(long, value_delimiter = ',', value_name = "RATE,...")]
    rates: Vec<Rate>,
    /// Cross traffic as percent of the capacity; default 0, 40 and 80.
    #[arg(long, value_delimiter = ',', value_name = "PERCENT,...")]
    loads: Vec<u32>,
    /// Emulate a receiver that coalesces interrupts for 120 us, at 500 Mb/s, and compare BASS with raw gaps.
    #[arg(long)]
    coalesce: bool,
    /// Instead run `headway path` on chains of seven links whose narrow link of 30 Mb/s is at these hops [default: 5],
    /// with Poisson traffic on every link [default load: 20].
    #[arg(
        long,
        value_name = "HOP,...",
        value_delimiter = ',',
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "5",
        value_parser = clap::value_parser!(u8).range(1..=7),
        conflicts_with_all = ["rates", "coalesce", "idle", "methods"]
    )]
    chain: Vec<u8>,
    /// Instead compare `headway passive` beside a CUBIC flow of 10 s, `headway measure` on the same path after it, and
    /// the flow's own throughput, at 100 Mb/s with 20, 50 and 80 % of Poisson traffic; every run has a seed of its own.
    ///
    /// The truth is the capacity less the cross traffic that the emulator sent over the link, averaged from the first
    /// to the last packet of the capture, or of the measurement. The observed flow is not subtracted: what it uses is
    /// free for it. Errors are shares of the capacity; a run without an estimate counts as wrong by all of it, and one in
    /// which a program fails is listed and not counted. `interval`
    /// is the median width in Mb/s. `holds` counts rows of the live table, one per second, whose interval contains what
    /// was free in that second, and for `headway measure` runs.
    #[arg(long, conflicts_with_all = ["chain", "coalesce", "idle", "methods"])]
    passive: bool,
    /// Instead measure 20 hard paths from 3 to 500 Mb/s: two to four loaded links in a row, TCP of this host as cross
    /// traffic (greedy flows, sessions, films in chunks), CoDel, PIE and RED, and a policer.
    ///
    /// The truth is the least of all links: the capacity, or the policed rate, less what the emulator sent for others,
    /// TCP included, while the streams that the answer rests on were sent. --seed chooses the traffic.
    #[arg(
        long,
        conflicts_with_all = ["rates", "loads", "coalesce", "chain", "passive", "idle", "methods"]
    )]
    hard: bool,
    /// Instead measure the CPU usage of idle programs while a session is open.
    #[arg(long)]
    idle: bool,
}

/// Options for simulated paths.
#[derive(Args, Debug)]
#[command(next_help_heading = "Simulated paths (--on sim)")]
struct Simulated {
    /// Only these classes; default: all.
    #[arg(long, value_delimiter = ',', value_parser = PossibleValuesParser::new(simulated::classes()), value_name = "NAME,...")]
    classes: Vec<String>,
    /// Paths drawn for each class; default 10.
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=100_000), value_name = "N")]
    paths_per_class: Option<u32>,
    /// Consecutive answers on each path; default 5.
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=10_000), value_name = "N")]
    answers: Option<u32>,
    /// Seed from which paths are drawn, or the traffic of --hard; default 1.
    #[arg(long, value_name = "N")]
    seed: Option<u32>,
    /// Paths to simulate at the same time; default: one per core.
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=1024), value_name = "N")]
    jobs: Option<u16>,
    /// Use this path instead: a scenario with a [[measure]], or a folder of them; may be repeated.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["classes", "paths_per_class", "seed", "write_paths"])]
    paths: Vec<PathBuf>,
    /// Only write the paths as scenarios into this folder.
    #[arg(long, conflicts_with = "set", value_name = "DIR")]
    write_paths: Option<PathBuf>,
    /// Sets a value of every path, such as `measure.0.budget=16 MB`; may be repeated.
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<Change>,
    /// Print the results as JSON.
    #[arg(long)]
    json: bool,
}

impl AccuracyArgs {
    pub(crate) fn json(&self) -> bool {
        self.simulated.json
    }
}

impl Emulated {
    fn is_asked_for(&self) -> bool {
        let lists = !self.rates.is_empty() || !self.loads.is_empty() || !self.chain.is_empty();
        lists || self.runs.is_some() || self.coalesce || self.passive || self.hard || self.idle
    }
}

impl Simulated {
    /// Whether there is one besides the seed.
    fn is_asked_for(&self) -> bool {
        let numbers = [self.paths_per_class, self.answers];
        let lists = !self.classes.is_empty() || !self.paths.is_empty() || !self.set.is_empty();
        lists
            || numbers.iter().any(Option::is_some)
            || self.jobs.is_some()
            || self.write_paths.is_some()
            || self.json
    }
}

pub(crate) fn run(args: &AccuracyArgs) -> Result<ExitCode, Failed> {
    let wrong = |options: &str, world: &str| Err(anyhow::anyhow!("{options} are for --on {world}").into());
    let seeded = args.simulated.seed.is_some() && !args.emulated.hard;
    match args.on {
        World::Lab if args.simulated.is_asked_for() || seeded => wrong(
            "--classes, --paths-per-class, --answers, --seed, --jobs, --paths, --write-paths, --set and --json",
            "sim",
        ),
        World::Sim if args.emulated.is_asked_for() => {
            wrong("--runs, --rates, --loads, --coalesce, --chain, --passive, --hard and --idle", "lab")
        }
        World::Lab if !args.emulated.chain.is_empty() => chain::run(args).map(|()| ExitCode::SUCCESS),
        World::Lab if args.emulated.passive => passive::run(args).map(|()| ExitCode::SUCCESS),
        World::Lab if args.emulated.hard => hard::run(args).map(|()| ExitCode::SUCCESS),
        World::Lab => emulated::run(args).map(|()| ExitCode::SUCCESS),
        World::Sim => simulated::run(args),
    }
}
