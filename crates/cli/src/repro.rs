//! `headway repro`: published numbers beside ours.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Context as _;
use clap::Args;
use comfy_table::{Cell, CellAlignment, Color, ContentArrangement, Table, presets};
use headway_repro::{Context, Experiment, Interrupted, Outcome, Size, catalogue, page};

use crate::exit::{Code, Failed};
use crate::progress::Progress;
use crate::stage;

/// Repeats the experiments of the papers in simulated testbeds and prints published numbers beside measured ones.
///
/// Every published number has a band in which ours counts as agreeing, with a reason; what lies outside fails. Numbers that
/// say how right an estimator is stand beside those of the null estimator, which looks at nothing. The same seed gives the
/// same numbers whatever the number of jobs.
#[derive(Args, Debug)]
#[command(after_help = "\
Exit codes:
  0    every claim holds
  1    a claim fails, or another error; the message says which
  2    wrong arguments
  130  interrupted; the experiments finished by then were printed")]
pub(crate) struct ReproArgs {
    /// Experiments or papers: `rapid/G4`, `bass/P7`, `ls-aimd/R2`, `rapid`, `bass`, `ls-aimd`, `all`.
    #[arg(value_name = "NAME", required_unless_present = "list")]
    names: Vec<String>,
    /// Print what there is instead: name, title, cost, and what is published.
    #[arg(long)]
    list: bool,
    /// Enough streams to judge every claim; the default.
    #[arg(long, conflicts_with = "full")]
    quick: bool,
    /// As many streams as were published.
    #[arg(long)]
    full: bool,
    /// Seed of all random numbers.
    #[arg(long, default_value_t = 1, value_name = "N")]
    seed: u64,
    /// Threads; as many as there are processors when absent.
    #[arg(long, value_name = "N")]
    jobs: Option<std::num::NonZeroUsize>,
    /// Folder for index.html with all figures, and results.json, table.csv and figure.svg of every experiment.
    #[arg(long, value_name = "DIR")]
    output: Option<PathBuf>,
    /// Print one JSON document instead of tables.
    #[arg(long)]
    json: bool,
}

impl ReproArgs {
    pub(crate) fn json(&self) -> bool {
        self.json
    }
}

pub(crate) fn run(args: &ReproArgs) -> Result<(), Failed> {
    if args.list {
        return list(args);
    }
    let experiments = catalogue::select(&args.names)?;
    let [stop, over] = [false; 2].map(|set| Arc::new(AtomicBool::new(set)));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        // The first signal stops the experiments; the next one, or one while results are written, ends the process.
        signal_hook::flag::register_conditional_default(signal, Arc::clone(&stop))?;
        signal_hook::flag::register_conditional_default(signal, Arc::clone(&over))?;
        signal_hook::flag::register(signal, Arc::clone(&stop))?;
    }
    let jobs = args.jobs.or_else(|| std::thread::available_parallelism().ok()).map_or(1, usize::from);
    let size = if args.full { Size::Full } else { Size::Quick };
    let context = Context { size, seed: args.seed, jobs, stop: &stop };
    let outcomes = carry_out(&experiments, &context)?;
    over.store(true, Ordering::Relaxed);
    print(args, &outcomes)?;
    if let Some(folder) = &args.output {
        write(folder, &outcomes, &context)?;
        if !args.json {
            println!("Figures: {}", folder.join("index.html").display());
        }
    }
    if stop.load(Ordering::Relaxed) {
        let done = format!("interrupted after {} of {} experiments", outcomes.len(), experiments.len());
        return Err(Failed::new(Code::Interrupted, anyhow::anyhow!(done)));
    }
    verdict(&outcomes)
}

/// All experiments in turn, as far as the user lets us.
fn carry_out(experiments: &[Experiment], context: &Context<'_>) -> Result<Vec<Outcome>, Failed> {
    let progress = Progress::new(experiments.len() as u64);
    let mut outcomes = Vec::new();
    for experiment in experiments {
        progress.say(format!("{}: {}", experiment.id, experiment.title));
        match headway_repro::run(experiment, context) {
            Ok(outcome) => outcomes.push(outcome),
            Err(Interrupted) => break,
        }
        progress.step();
    }
    Ok(outcomes)
}

fn print(args: &ReproArgs, outcomes: &[Outcome]) -> Result<(), Failed> {
    if args.json {
        println!("{}", serde_json::to_string_pretty(outcomes)?);
        return Ok(());
    }
    for outcome in outcomes {
        println!("{}: {} ({})", outcome.id, outcome.title, outcome.source);
        println!("Evidence: {}: {}.", outcome.evidence.label(), outcome.evidence.meaning());
        println!("{}", table(outcome));
        for check in outcome.checks.iter().filter(|check| !check.passed) {
            if let Some(why) = &check.claim.deviation {
                println!("Not reached: {}: {why}", check.claim.measure);
            }
        }
        for remark in &outcome.remarks {
            println!("{remark}");
        }
        println!();
    }
    Ok(())
}

fn table(outcome: &Outcome) -> Table {
    let mut table = Table::new();
    table.load_style(presets::UTF8_HORIZONTAL_ONLY);
    table.set_content_arrangement(ContentArrangement::Dynamic);
    table.set_header(["published", "measure", "measured", "null", "band", "", "reason for the band"]);
    for check in &outcome.checks {
        let (verdict, colour) = if check.passed { ("holds", Color::Blue) } else { ("FAILS", Color::Red) };
        let number = |text: String| Cell::new(text).set_alignment(CellAlignment::Right);
        table.add_row([
            Cell::new(&check.claim.published),
            Cell::new(&check.claim.measure),
            number(page::with_unit(check.measured, &check.claim.unit)),
            number(check.null.map_or(String::new(), page::number)),
            number(check.claim.band()),
            Cell::new(verdict).fg(colour),
            Cell::new(&check.claim.reason),
        ]);
    }
    table
}

fn write(folder: &Path, outcomes: &[Outcome], context: &Context<'_>) -> anyhow::Result<()> {
    for outcome in outcomes {
        let figure = outcome.figure.svg().with_context(|| outcome.id.clone())?;
        let folder = folder.join(&outcome.id);
        stage::write(&folder.join("figure.svg"), &figure)?;
        stage::write(&folder.join("results.json"), &serde_json::to_string_pretty(outcome)?)?;
        stage::write(&folder.join("table.csv"), &outcome.table.csv())?;
    }
    let heading = format!(
        "Experiments of the papers on Rapid, BASS and LS-AIMD in simulated testbeds; {} run, seed {}, headway {}.",
        context.size.name(),
        context.seed,
        env!("CARGO_PKG_VERSION")
    );
    stage::write(&folder.join("index.html"), &page::html(outcomes, &heading)?)
}

/// An error that names every claim that fails.
fn verdict(outcomes: &[Outcome]) -> Result<(), Failed> {
    let all: usize = outcomes.iter().map(|outcome| outcome.checks.len()).sum();
    let failed: Vec<String> = outcomes
        .iter()
        .flat_map(|outcome| outcome.checks.iter().map(move |check| (outcome, check)))
        .filter(|(_, check)| !check.passed)
        .map(|(outcome, check)| format!("{}: {}", outcome.id, check.claim.measure))
        .collect();
    if failed.is_empty() {
        return Ok(());
    }
    Err(anyhow::anyhow!("{} of {all} claims fail:\n  {}", failed.len(), failed.join("\n  ")).into())
}

/// Columns of the list where the width is not given by a terminal.
const LIST_WIDTH: u16 = 120;

fn list(args: &ReproArgs) -> Result<(), Failed> {
    let names = if args.names.is_empty() { vec!["all".to_owned()] } else { args.names.clone() };
    let experiments = catalogue::select(&names)?;
    if args.json {
        let entry = |e: &Experiment| {
            serde_json::json!({
                "id": e.id, "title": e.title, "source": e.source, "published": e.published,
                "evidence": e.evidence, "claims": e.claims,
                "packets": { "quick": e.packets(Size::Quick), "full": e.packets(Size::Full) },
            })
        };
        println!("{}", serde_json::to_string_pretty(&experiments.iter().map(entry).collect::<Vec<_>>())?);
        return Ok(());
    }
    let mut table = Table::new();
    table.load_style(presets::UTF8_HORIZONTAL_ONLY);
    table.set_content_arrangement(ContentArrangement::Dynamic);
    if table.width().is_none() {
        // Not a terminal: keep the lines readable all the same.
        table.set_width(LIST_WIDTH);
    }
    table.set_header(["name", "title", "evidence", "probe packets, quick and full", "published"]);
    let millions = |packets: u64| format!("{:.2} M", packets as f64 / 1e6);
    for experiment in &experiments {
        let cost = [Size::Quick, Size::Full].map(|size| millions(experiment.packets(size)));
        table.add_row([
            Cell::new(&experiment.id),
            Cell::new(&experiment.title),
            Cell::new(experiment.evidence.label()),
            Cell::new(cost.join(", ")),
            Cell::new(&experiment.published),
        ]);
    }
    println!("{table}");
    Ok(())
}
