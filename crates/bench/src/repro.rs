//! `headway-bench repro`: reproduces the published experiments.

mod table;
mod took;
mod totals;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use clap::{Args, ValueEnum};
use comfy_table::{Cell, ContentArrangement, Table, presets};
use headway_repro::{Check, Context, Error, Experiment, Outcome, Size, catalogue, page};

use headway_program::build::identity;
use headway_program::exit::{Code, Failed};
use headway_program::progress::Progress;
use headway_program::{build, out, print_error, print_line};
use headway_runs::Building;
use headway_worlds::{Cancellation, Event, Kept, Options, Output, World};

use took::Took;

/// Reproduces the experiments of the papers in simulated testbeds or on the Linux stack, and prints the
/// published numbers next to the measured ones.
///
/// Every published number has a band, with a reason; a measured number outside of it fails. Accuracy figures
/// are shown next to those of the null estimator, which ignores its input. The same seed gives the same
/// numbers, whatever the number of jobs.
#[derive(Args, Debug)]
#[command(after_help = "\
Exit codes:
  0    every claim holds
  1    a claim fails, or another error; the message says which
  2    invalid arguments
  130  interrupted; the experiments finished by then were printed")]
pub(crate) struct ReproArgs {
    /// Experiments or papers: `rapid/G4`, `bass/P7`, `ls-aimd/R2`, `wan/E13`, `xcp-rcp/E1`, `rapid`, `bass`,
    /// `ls-aimd`, `wan`, `xcp-rcp`, `all`.
    #[arg(value_name = "NAME", required_unless_present = "list")]
    names: Vec<String>,
    /// Where to run: `sim`, `uml` (the Linux stack in virtual time), `lab` (this host's TCP over an emulated
    /// path, in real time), or several, side by side. Only experiments of LS-AIMD, `rapid/R3`, `R5` and `R9`,
    /// and `wan/E1`, `E2`, `T3.1`, `F3.7`, `T4.1`, `RWM`, `RWM-jitter` and `rivals` run in `uml`; only
    /// `xcp-rcp/E1`, `E2`, `E6` and `E12` to `E16`, `wan/E16` and `wan/E17` in `lab`, as root.
    #[arg(long, value_enum, value_delimiter = ',', default_value = "sim", value_name = "WORLD")]
    on: Vec<Testbed>,
    /// List the experiments instead, with name, title and published result, and with --output what the last
    /// run that wrote into this folder took.
    #[arg(long)]
    list: bool,
    /// Send just enough streams to judge every claim; the default.
    #[arg(long, conflicts_with = "full")]
    quick: bool,
    /// Send as many streams as published.
    #[arg(long)]
    full: bool,
    /// Seed of all random numbers.
    #[arg(long, default_value_t = 1, value_name = "N")]
    seed: u64,
    /// Number of threads [default: one per processor].
    #[arg(long, value_name = "N")]
    jobs: Option<std::num::NonZeroUsize>,
    /// Write index.html with all figures, and results.json, table.csv, figure.svg and took.json of every
    /// experiment, into this folder.
    #[arg(long, value_name = "DIR")]
    output: Option<PathBuf>,
    /// Keep the result of every run of `rapid/R3`, `R5`, `R8` and `R9`, of downloads in `wan`, and of
    /// `xcp-rcp` in the lab, in this folder, and use those that it already has: an interrupted command
    /// continues where it was. Those of another build of this program are computed again.
    #[arg(long, value_name = "DIR")]
    keep: Option<PathBuf>,
}

/// Where an experiment runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Testbed {
    /// The simulator.
    Sim,
    /// The Linux stack in virtual time.
    Uml,
    /// This host's TCP over an emulated path.
    Lab,
}

impl Testbed {
    const ALL: [Testbed; 3] = [Testbed::Sim, Testbed::Uml, Testbed::Lab];

    const fn world(self) -> World {
        match self {
            Testbed::Sim => World::Sim,
            Testbed::Uml => World::Uml,
            Testbed::Lab => World::Lab,
        }
    }
}

impl ReproArgs {
    /// Returns the testbeds in which an experiment runs, in column order.
    fn testbeds(&self, experiment: &Experiment) -> Vec<Testbed> {
        let runs = |testbed: &Testbed| headway_repro::runs_in(experiment, testbed.world());
        Testbed::ALL.into_iter().filter(|testbed| self.on.contains(testbed) && runs(testbed)).collect()
    }
}

pub(crate) fn run(args: &ReproArgs, json: bool) -> Result<(), Failed> {
    if args.list {
        return list(args, json);
    }
    let experiments = catalogue::select(&args.names)?;
    if let Some(experiment) = experiments.iter().find(|experiment| args.testbeds(experiment).is_empty()) {
        let runs = |testbed: &Testbed| headway_repro::runs_in(experiment, testbed.world());
        let worlds: Vec<&str> =
            Testbed::ALL.into_iter().filter(runs).map(|testbed| testbed.world().name()).collect();
        let only = format!("{} does not run there; try --on {}", experiment.id, worlds.join(","));
        return Err(anyhow::anyhow!(only).into());
    }
    let [stop, over] = [false; 2].map(|set| Arc::new(AtomicBool::new(set)));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        // The first signal stops the experiments; a second one, or one while results are written, ends the
        // process.
        signal_hook::flag::register_conditional_default(signal, Arc::clone(&stop))?;
        signal_hook::flag::register_conditional_default(signal, Arc::clone(&over))?;
        signal_hook::flag::register(signal, Arc::clone(&stop))?;
    }
    let jobs = args.jobs.or_else(|| std::thread::available_parallelism().ok()).map_or(1, usize::from);
    let size = if args.full { Size::Full } else { Size::Quick };
    let stop = Cancellation::from(stop);
    let kept = args.keep.as_deref().map(keep).transpose()?;
    let context = Context { kept: kept.as_ref(), ..Context::new(size, args.seed, jobs, &stop) };
    let (outcomes, times): (Vec<_>, Vec<_>) =
        run_experiments(args, &experiments, &context)?.into_iter().unzip();
    over.store(true, Ordering::Relaxed);
    print(&outcomes, json)?;
    if let Some(folder) = &args.output {
        write(folder, &outcomes, &times, &context)?;
        if !json {
            print_line!("Figures: {}", folder.join("index.html").display());
        }
    }
    if stop.is_cancelled() {
        let all: usize = experiments.iter().map(|experiment| args.testbeds(experiment).len()).sum();
        let done = format!("interrupted after {} of {all} experiments", outcomes.len());
        return Err(Failed::new(Code::Interrupted, anyhow::anyhow!(done)));
    }
    verdict(&outcomes)
}

/// Opens a folder of kept results, and says if it has those of another build.
fn keep(folder: &Path) -> anyhow::Result<Kept> {
    let name = folder.display().to_string();
    let report = move |other: &str| {
        print_error!(
            "headway-bench: {name} has results of another build, {other}; they are computed again and replaced"
        );
    };
    Ok(Kept::open(folder, identity()?, report)?)
}

/// Carries out the experiments in turn, until interrupted; returns their outcomes and the
/// time that each took.
fn run_experiments(
    args: &ReproArgs,
    experiments: &[Experiment],
    context: &Context<'_>,
) -> Result<Vec<(Outcome, Duration)>, Failed> {
    let progress = Progress::new(experiments.len() as u64);
    let reach = |done: usize, all: usize| progress.reach(done as u64, all as u64);
    let context = Context { progress: Some(&reach), ..*context };
    let mut outcomes = Vec::new();
    for (index, experiment) in experiments.iter().enumerate() {
        for testbed in args.testbeds(experiment) {
            let what =
                format!("[{} of {}] {}: {}", index + 1, experiments.len(), experiment.id, experiment.title);
            progress.begin(&what, 1);
            let begin = Instant::now();
            let outcome = match testbed {
                Testbed::Sim => match headway_repro::run(experiment, &context) {
                    Err(error @ Error::NoTraining { .. }) if experiments.len() > 1 => {
                        print_error!("SKIPPED {}: {error}", experiment.id);
                        continue;
                    }
                    Err(Error::Interrupted) => None,
                    outcome => Some(outcome?),
                },
                Testbed::Uml | Testbed::Lab => on_linux(testbed.world(), experiment, &context, &progress)?,
            };
            let Some(outcome) = outcome else { return Ok(outcomes) };
            outcomes.push((outcome, begin.elapsed()));
        }
    }
    Ok(outcomes)
}

/// Carries out an experiment on the Linux stack; `None` when interrupted.
fn on_linux(
    world: World,
    experiment: &Experiment,
    context: &Context<'_>,
    progress: &Progress,
) -> anyhow::Result<Option<Outcome>> {
    let building = Building::default();
    let report = |event: Event<'_>| match event {
        Event::Started(what) => progress.show_activity(what.to_owned()),
        Event::Building(now) => building.show(now),
        _ => {}
    };
    let options = Options { cancellation: context.stop.clone(), report: Some(&report), ..Options::default() };
    // Runs in real time would disturb each other.
    let jobs = if world == World::Lab { 1 } else { context.jobs };
    match headway_repro::run_in(world, &options, experiment, &Context { jobs, ..*context }) {
        Err(Error::Interrupted) => Ok(None),
        outcome => Ok(outcome?),
    }
}

fn print(outcomes: &[Outcome], json: bool) -> Result<(), Failed> {
    if json {
        out::document(&serde_json::to_string_pretty(
            &outcomes.iter().map(build::stamped).collect::<Vec<_>>(),
        )?);
        return Ok(());
    }
    for worlds in outcomes.chunk_by(|one, other| one.id == other.id) {
        let outcome = &worlds[0];
        print_line!("{}: {} ({})", outcome.id, outcome.title, outcome.source);
        for outcome in worlds {
            print_line!("Evidence: {}: {}.", outcome.evidence.label(), outcome.evidence.meaning());
        }
        print_line!("{}", table::checks(worlds));
        for (outcome, check) in failed(worlds) {
            if let Some(why) = &check.claim.deviation {
                let place = if worlds.len() > 1 { format!(" in {}", outcome.world) } else { String::new() };
                print_line!("Known deviation{place}: {}: {why}", check.claim.measure);
            }
        }
        let mut said = Vec::new();
        for remark in worlds.iter().flat_map(|outcome| &outcome.remarks) {
            if !said.contains(&remark) {
                print_line!("{remark}");
                said.push(remark);
            }
        }
        print_line!();
    }
    if outcomes.len() > 1 {
        print_line!("{}", totals::table(outcomes));
    }
    Ok(())
}

fn write(
    folder: &Path,
    outcomes: &[Outcome],
    times: &[Duration],
    context: &Context<'_>,
) -> anyhow::Result<()> {
    let output = Output::make(folder)?;
    for (outcome, time) in outcomes.iter().zip(times) {
        let figure = outcome.figure.svg().with_context(|| outcome.name())?;
        let folder = PathBuf::from(outcome.name());
        output.write(folder.join("figure.svg"), &figure)?;
        output
            .write(folder.join("results.json"), &serde_json::to_string_pretty(&build::stamped(outcome))?)?;
        output.write(folder.join("table.csv"), &outcome.table.csv())?;
        Took::new(*time, context).write(&output, &folder)?;
    }
    let has = |world: World| outcomes.iter().any(|outcome| outcome.world == world.name());
    let uml = if has(World::Uml) { ", on the stack of Linux in virtual time (@uml)" } else { "" };
    let lab = if has(World::Lab) { ", with real packets over an emulated path (@lab)" } else { "" };
    let heading = format!(
        "Published experiments in simulated testbeds{uml}{lab}; {} run, seed {}, headway {}.",
        context.size.name(),
        context.seed,
        build::BUILD
    );
    Ok(output.write("index.html", &page::html(outcomes, &heading)?)?)
}

/// Fails if any claim fails, and names them all.
fn verdict(outcomes: &[Outcome]) -> Result<(), Failed> {
    let all: usize = outcomes.iter().map(|outcome| outcome.checks.len()).sum();
    let failed: Vec<String> = failed(outcomes)
        .map(|(outcome, check)| format!("{}: {}", outcome.name(), check.claim.measure))
        .collect();
    if failed.is_empty() {
        return Ok(());
    }
    Err(anyhow::anyhow!("{} of {all} claims failed:\n  {}", failed.len(), failed.join("\n  ")).into())
}

/// Iterates over the claims that fail.
fn failed(outcomes: &[Outcome]) -> impl Iterator<Item = (&Outcome, &Check)> {
    let all = outcomes.iter().flat_map(|outcome| outcome.checks.iter().map(move |check| (outcome, check)));
    all.filter(|(_, check)| !check.passed)
}

/// Width of the list when the output is not a terminal.
const LIST_WIDTH: u16 = 120;

fn list(args: &ReproArgs, json: bool) -> Result<(), Failed> {
    let names = if args.names.is_empty() { vec!["all".to_owned()] } else { args.names.clone() };
    let experiments = catalogue::select(&names)?;
    let last_run = |experiment: &Experiment| Took::read(args.output.as_deref()?, &experiment.id);
    if json {
        let entry = |e: &Experiment| {
            serde_json::json!({
                "id": e.id, "title": e.title, "source": e.source, "published": e.published,
                "evidence": e.evidence, "claims": e.claims,
                "last_run": last_run(e),
            })
        };
        out::document(&serde_json::to_string_pretty(&experiments.iter().map(entry).collect::<Vec<_>>())?);
        return Ok(());
    }
    let mut table = Table::new();
    table.load_style(presets::UTF8_HORIZONTAL_ONLY);
    table.set_content_arrangement(ContentArrangement::Dynamic);
    if table.width().is_none() {
        // Without a terminal, still wrap to a readable width.
        table.set_width(LIST_WIDTH);
    }
    table.set_header(["name", "title", "claims", "evidence", "last run", "published"]);
    for experiment in &experiments {
        table.add_row([
            Cell::new(&experiment.id),
            Cell::new(&experiment.title),
            Cell::new(experiment.claims.len()),
            Cell::new(experiment.evidence.label()),
            Cell::new(last_run(experiment).map_or(String::new(), |took| took.to_string())),
            Cell::new(&experiment.published),
        ]);
    }
    print_line!("{table}");
    Ok(())
}
