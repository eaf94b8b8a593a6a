//! `headway run`: runs a scenario in the simulator, on the Linux stack in virtual time, or in a lab.

mod table;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context as _;
use clap::Args;
use headway_control::Kind;
use headway_record::spread;
use headway_scenario::{Change, MAX_DILATION, Scenario};
use headway_uml::network::RunOptions;
use headway_units::{Bytes, Duration};
use headway_worlds::{Folder, Manifest, Options, Outcome, UmlOptions, World};

use headway_program::build::{BUILD, stamped};
use headway_program::exit::{Code, Failed};
use headway_program::{out, print_error, print_line};
use headway_runs::{interruption, reporter, world};

/// The long help of `--controller`, with a list of all controllers.
fn controllers() -> String {
    let mut text = "Use this congestion controller for all flows, and set their ECN mode to match.\n\n\
        With --on uml, also the name of a controller that only the kernel or a module has.\n\n"
        .to_owned();
    for entry in Kind::TABLE {
        text += &format!("- {}: {}\n", entry.form(), entry.about);
    }
    text
}

/// Runs a scenario: a network, its flows and its traffic, described by a TOML file.
///
/// Worlds: sim, the simulator, in virtual time; uml, the Linux network stack, in virtual time, in a kernel
/// that runs as a program; lab, this host's TCP over emulated links, in real time. In sim and uml the same
/// seed gives the same bytes, whatever the number of jobs. Results go to a folder: summary, flows, links,
/// time series, the true available bandwidth, and a report with figures.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
    headway run scenarios/dumbbell-cubic.toml --on sim\n  \
    headway run scenarios/dumbbell-cubic.toml --on lab --set flow.0.count=2 --set \"link.1.rate=50 Mb/s\"\n  \
    headway run scenarios/ls-dctcp.toml --on lab --dilate 10\n  \
    headway run scenarios/red-dctcp.toml --on sim --repeat 10 --jobs 2\n  \
    headway run scenarios/dumbbell-cubic.toml --on uml --pcap\n  \
    headway run scenarios/iperf3.toml --on uml\n\n\
    The exit code is 1 when a program of the scenario fails; results are written anyway.\n\
    File format: docs/simulate.md; how the kernel's world is built: docs/uml.md.")]
pub(crate) struct RunArgs {
    /// Scenario file (TOML).
    file: PathBuf,
    /// World to run in.
    #[arg(long, value_parser = world(), ignore_case = true, value_name = "WORLD")]
    on: World,
    /// Seed of all random numbers [default: the seed in the file].
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Set a key of the scenario, such as `link.0.rate=50 Mb/s` or `flow.1.controller=reno`; may be repeated.
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<Change>,
    /// Run everything slower by this factor: divides rates, multiplies times, keeps ratios. Reduces the
    /// relative timing error of --on lab.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=i64::from(MAX_DILATION)), value_name = "N")]
    dilate: u32,
    /// Run this many times, with consecutive seeds, and print the spread.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=10_000), value_name = "N")]
    repeat: u32,
    /// Number of parallel runs in virtual time; results do not depend on it.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1024), value_name = "N")]
    jobs: u32,
    /// Memory limit of all jobs together [default: three quarters of the available memory].
    #[arg(long, value_name = "SIZE")]
    memory: Option<Bytes>,
    /// With --on uml: compile the kernel module in this folder and load it; may be repeated.
    #[arg(long, value_name = "DIR")]
    module: Vec<PathBuf>,
    /// With --on uml: capture the packets that each link sends, in pcap files with nanosecond timestamps.
    #[arg(long)]
    pcap: bool,
    /// With --on uml: leave segmentation and receive offloads on.
    #[arg(long)]
    offloads: bool,
    /// With --on uml: use a kernel with debug checks (KASAN, lockdep); many times slower.
    #[arg(long)]
    debug: bool,
    /// With --on uml: abort if virtual time stands still for this long in real time [default: 2 min].
    #[arg(long, alias = "patience", value_name = "TIME")]
    stall_timeout: Option<Duration>,
    /// Use this congestion controller for all flows, and set their ECN mode to match.
    #[arg(long, value_name = "NAME", long_help = controllers())]
    controller: Option<String>,
    /// Folder for the results [default: `results/NAME-WORLD`].
    #[arg(long, value_name = "DIR")]
    output: Option<PathBuf>,
    /// Write into the folder even if it contains other files.
    #[arg(long)]
    force: bool,
}

impl RunArgs {
    fn uml(&self) -> UmlOptions {
        let default = UmlOptions::default();
        UmlOptions {
            modules: self.module.clone(),
            debug: self.debug,
            run: RunOptions { offloads: self.offloads, capture: self.pcap },
            stall_timeout: self.stall_timeout.map_or(default.stall_timeout, Duration::to_std),
        }
    }

    /// Returns the scenario with all overrides applied, and the overrides.
    fn scenario(&self, text: &str) -> anyhow::Result<(Scenario, Vec<Change>)> {
        let scenario = Scenario::parse(text, &self.file, &self.set)?;
        let Some(name) = &self.controller else { return Ok((scenario, self.set.clone())) };
        let others = headway_worlds::controller_changes(name, self.on, &scenario)?;
        let set = [self.set.clone(), others].concat();
        Ok((Scenario::parse(text, &self.file, &set)?, set))
    }
}

pub(crate) fn run(args: &RunArgs, json: bool) -> Result<ExitCode, Failed> {
    let text = headway_input::text(&args.file, headway_input::SCENARIO)
        .with_context(|| format!("cannot read {}", args.file.display()))?;
    let (scenario, set) = args.scenario(&text)?;
    for warning in &scenario.warnings {
        print_error!("headway: warning: {warning}");
    }
    let scenario = scenario.dilated(args.dilate)?;
    let first = args.seed.unwrap_or(scenario.seed);
    let seeds: Vec<u64> = (0..u64::from(args.repeat)).map(|index| first.wrapping_add(index)).collect();
    let default = || PathBuf::from("results").join(format!("{}-{}", scenario.name, args.on));
    let path = args.output.clone().unwrap_or_else(default);
    let folder = Folder::open(&path, args.force)?;
    let report = reporter(seeds.len() as u64);
    let options = Options {
        jobs: args.jobs,
        memory: args.memory,
        uml: args.uml(),
        cancellation: interruption()?,
        report: Some(&*report),
        ..Options::default()
    };
    let outcomes = headway_worlds::run_all(&scenario, args.on, &seeds, &options)?;
    drop(report);
    let partial = outcomes.len() < seeds.len() || outcomes.iter().any(|run| run.results.summary.partial);
    let manifest = Manifest {
        scenario: &text,
        set: &set,
        dilation: args.dilate,
        world: args.on,
        repeat: args.repeat,
        build: BUILD,
    };
    folder.write(&manifest, &outcomes, partial)?;
    print(args, json, &outcomes, &path)?;
    let failed = outcomes.iter().any(|run| run.failures().next().is_some());
    Ok(match (partial, failed) {
        (true, _) => Code::Interrupted.into(),
        (false, true) => Code::Other.into(),
        (false, false) => ExitCode::SUCCESS,
    })
}

fn print(args: &RunArgs, json: bool, outcomes: &[Outcome], path: &Path) -> anyhow::Result<()> {
    let summaries: Vec<_> = outcomes.iter().map(|run| run.results.summary.clone()).collect();
    if json {
        let value = match &summaries[..] {
            [one] if args.repeat == 1 => serde_json::to_value(stamped(one))?,
            all => serde_json::json!({ "build": BUILD, "runs": all, "spread": spread(all) }),
        };
        out::document(&serde_json::to_string_pretty(&value)?);
        return Ok(());
    }
    match &summaries[..] {
        [one] if args.repeat == 1 => print_line!("{}", table::summary(one)),
        all => print_line!("{}", table::spread(&spread(all))),
    }
    for run in outcomes {
        let summary = &run.results.summary;
        if let Some(reason) = &run.invalid_reason {
            print_line!("Seed {} is invalid: {reason}", summary.seed);
        }
        for failure in run.failures() {
            print_line!("Seed {}: {failure}", summary.seed);
        }
        if summary.partial {
            let seconds = (summary.warmup_ns + summary.measured_ns) as f64 / 1e9;
            print_line!("Interrupted: seed {} ran only {seconds:.1} s.", summary.seed);
        }
    }
    if outcomes.len() < args.repeat as usize {
        print_line!("Interrupted: {} of {} runs.", outcomes.len(), args.repeat);
    }
    print_line!("results: {}", path.display());
    Ok(())
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Alone {
        #[command(flatten)]
        args: RunArgs,
    }

    #[test]
    fn the_stall_timeout_has_its_earlier_spelling_too() {
        for spelling in ["--stall-timeout", "--patience"] {
            let words = ["run", "x.toml", "--on", "uml", spelling, "5 s"];
            let parsed = Alone::try_parse_from(words).map(|alone| alone.args.uml().stall_timeout.as_secs());
            assert_eq!(parsed.ok(), Some(5), "{spelling}");
        }
    }
}
