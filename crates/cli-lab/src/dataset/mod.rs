//! `headway dataset`: streams and windows with the truth, for training and scoring estimators.

mod card;
mod hashed;

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::thread;

use anyhow::{Context as _, Result};
use clap::{Args, Subcommand};
use headway_dataset::{StreamTable, WindowTable, streams, windows};
use headway_input::toml_keys::Document;
use headway_learned::stream::Kind;
use headway_program::exit::{Code, Failed};
use headway_program::progress::Progress;
use headway_program::{out, print_line};
use headway_runs::interruption;
use headway_units::ConfigError;
use headway_worlds::{Cancellation, pool};
use serde::Serialize;
use serde::de::DeserializeOwned;

use card::{Card, Counts};
use hashed::HashedFile;

/// Runs that are held in memory for each thread before they are written.
const RUNS_AT_ONCE: usize = 4;

/// Makes streams or windows with the truth, for training and scoring estimators.
///
/// A plan in TOML says which paths and how many runs. Data are split by run, never by stream or
/// window: neighbours have nearly the same truth. The same plan gives the same bytes on every machine
/// and with any number of jobs.
#[derive(Args, Debug)]
pub(crate) struct DatasetArgs {
    #[command(subcommand)]
    kind: DatasetKind,
}

#[derive(Debug, Subcommand)]
enum DatasetKind {
    PStreams(StreamArgs),
    Sabes(WindowArgs),
}

/// P-streams, or streams of one rate: gaps at both ends, features, and what was available.
///
/// Streams that lost a packet are left out. A line is a stream: `free_bps` is what was available while it was
/// sent, `covered` whether that is within its probing rates, `above` whether its average rate is more.
#[derive(Args, Debug)]
#[command(after_help = "\
A plan:
  rates = 4                 # 1: streams to judge
  packets-per-rate = 12
  range = 0.5               # the highest rate is 50 % above the lowest
  averages = { from = 0.1, to = 0.9 }    # shares of the capacity, or with of = \"free\" of what the streams before had
                            # available; a step is optional
  ack-every = 2             # 1; packets per ACK: gaps are then those that a TCP sender sees
  [[path]]                  # any number; 10 Gb/s and packets of 9038 B on the wire unless it says otherwise
  traffic = [{ model = \"bct\" }, { model = \"sct\" }]
  coalescing = [\"120 us\", { kind = \"adaptive\", interval = \"100 us\", frames = 10 }]
  runs = 20                 # with each traffic and coalescing
  test-runs = 10            # how many of them are tests
  streams = 500             # of each run

Example:
  headway dataset p-streams plan.toml --output data     # data/plan.csv and data/plan.md")]
struct StreamArgs {
    #[command(flatten)]
    common: Common,
    /// Features in the columns `x_0`, `x_1` and so on, of gaps in nanoseconds: `fft`, `mag` or `raw`
    /// [default: none; all follow from the gaps].
    #[arg(long, value_name = "KIND")]
    features: Option<Kind>,
}

/// Windows of SABES: histogram, draws from the density, mean, and what was available.
///
/// A line is a window of one flow with at least four samples: `passed` says whether it passes the published
/// rules, `good` whether its mean is within 10 % of the bottleneck's capacity of the truth.
#[derive(Args, Debug)]
#[command(after_help = "\
A plan:
  windows = \"sliding\"       # or { tumbling = \"200 ms\" }
  keep-every = 20           # of sliding windows
  [[path]]
  capacity = \"100 Mb/s\"
  rtts = [\"20 ms\", \"140 ms\"]
  loads = [0.5, 0.9]        # cross traffic, as a share of the capacity
  pattern = \"on-off\"        # the default; or \"pareto\" gaps, or \"cbr\"
  sources = 30              # that make it up
  controller = \"reno\"       # the default
  flows = 50
  size = \"5 MB\"             # of each flow
  end = \"300 s\"
  runs = 8                  # with each RTT and load
  test-runs = 4

Example:
  headway dataset sabes plan.toml --output data         # data/plan.csv and data/plan.md")]
struct WindowArgs {
    #[command(flatten)]
    common: Common,
}

#[derive(Args, Debug)]
struct Common {
    /// The plan (TOML).
    file: PathBuf,
    /// Folder for the table (CSV) and its card, which says how it was made; both have the name of the plan.
    #[arg(long, default_value = ".", value_name = "DIR")]
    output: PathBuf,
    /// Runs at once [default: one per core].
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=1024), value_name = "N")]
    jobs: Option<u16>,
}

impl Common {
    fn jobs(&self) -> usize {
        self.jobs.map_or_else(|| thread::available_parallelism().map_or(1, usize::from), usize::from)
    }

    /// Returns where the table and its card go.
    fn places(&self) -> Result<[PathBuf; 2]> {
        let name = self.file.file_stem().context("the plan needs a name")?;
        let plan = self.file.canonicalize().ok();
        let places = ["csv", "md"].map(|extension| self.output.join(name).with_extension(extension));
        for place in &places {
            let is_plan = place.canonicalize().is_ok_and(|place| Some(place) == plan);
            anyhow::ensure!(
                !is_plan,
                "{} would replace the plan; rename it, or give --output",
                place.display()
            );
        }
        Ok(places)
    }
}

/// What was made.
#[derive(Serialize)]
struct Made {
    table: PathBuf,
    card: PathBuf,
    data_sha256: String,
    #[serde(flatten)]
    counts: Counts,
}

pub(crate) fn run(args: &DatasetArgs, json: bool) -> Result<(), Failed> {
    let cancellation = interruption()?;
    let made = match &args.kind {
        DatasetKind::PStreams(args) => make_streams(args, &cancellation)?,
        DatasetKind::Sabes(args) => make_windows(&args.common, &cancellation)?,
    };
    let Some(made) = made else {
        return Err(Failed::new(Code::Interrupted, anyhow::anyhow!("interrupted; nothing was written")));
    };
    if json {
        out::document(&serde_json::to_string_pretty(&made)?);
    } else {
        let Made { table, card, counts, .. } = &made;
        print_line!("{}: {counts}", table.display());
        print_line!("{}: how it was made", card.display());
    }
    Ok(())
}

/// Reads a plan; returns its text, too.
fn read<P: DeserializeOwned>(path: &Path, check: fn(&P) -> Result<(), ConfigError>) -> Result<(P, String)> {
    let text = headway_input::text(path, headway_input::SCENARIO)
        .with_context(|| format!("cannot read {}", path.display()))?;
    let document = Document::parse(&text, path)?;
    let plan: P = document.read()?;
    check(&plan).map_err(|mistake| document.locate(mistake))?;
    Ok((plan, text))
}

fn make_streams(args: &StreamArgs, stop: &Cancellation) -> Result<Option<Made>> {
    let (plan, text) = read::<streams::Plan>(&args.common.file, streams::Plan::check)?;
    let runs = plan.runs();
    let places = args.common.places()?;
    let mut table = StreamTable::new(&plan, args.features, HashedFile::create(&places[0])?)?;
    let mut counts = Counts::default();
    let send = |run: &streams::Run<'_>| run.send(|| !stop.is_cancelled());
    let flow = each_run(&runs, args.common.jobs(), stop, send, |run, streams| {
        counts.add(run.part, streams.len() as u64, u64::from(run.path.streams));
        streams.iter().try_for_each(|stream| table.write(&plan, run, stream)).map_err(anyhow::Error::from)
    })?;
    if flow.is_break() {
        return Ok(None);
    }
    finish(places, table.finish()?, Card { kind: "P-streams", plan: &text, unit: "streams" }, counts)
}

fn make_windows(args: &Common, stop: &Cancellation) -> Result<Option<Made>> {
    let (plan, text) = read::<windows::Plan>(&args.file, windows::Plan::check)?;
    let runs = plan.runs();
    let places = args.places()?;
    let mut table = WindowTable::new(HashedFile::create(&places[0])?)?;
    let mut counts = Counts::default();
    let flow = each_run(&runs, args.jobs(), stop, windows::Run::observe, |run, observed| {
        counts.add(run.part, observed.windows.len() as u64, observed.all);
        observed.windows.iter().try_for_each(|window| table.write(run, window)).map_err(anyhow::Error::from)
    })?;
    if flow.is_break() {
        return Ok(None);
    }
    finish(places, table.finish()?, Card { kind: "SABES windows", plan: &text, unit: "windows" }, counts)
}

/// Calls `make` for all runs on several threads, and `take` in their order; breaks when interrupted.
fn each_run<R: Sync, T: Send>(
    runs: &[R],
    jobs: usize,
    stop: &Cancellation,
    make: impl Fn(&R) -> T + Sync,
    mut take: impl FnMut(&R, T) -> Result<()>,
) -> Result<ControlFlow<()>> {
    let progress = Progress::new(runs.len() as u64);
    progress.show_activity("simulating".to_owned());
    let mut done = 0;
    for some in runs.chunks(jobs * RUNS_AT_ONCE) {
        let made = pool::each(some, jobs, stop, |run| Ok::<_, std::convert::Infallible>(Some(make(run))));
        if stop.is_cancelled() {
            return Ok(ControlFlow::Break(()));
        }
        for (run, result) in some.iter().zip(made.results) {
            take(run, result)?;
        }
        done += some.len() as u64;
        progress.reach(done, runs.len() as u64);
    }
    Ok(ControlFlow::Continue(()))
}

/// Puts the table in its place, and the card beside it.
fn finish(
    [table, path]: [PathBuf; 2],
    file: HashedFile,
    card: Card<'_>,
    counts: Counts,
) -> Result<Option<Made>> {
    let data_sha256 = file.keep()?;
    let text = card.text(&table, &data_sha256, &counts);
    std::fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
    Ok(Some(Made { table, card: path, data_sha256, counts }))
}
