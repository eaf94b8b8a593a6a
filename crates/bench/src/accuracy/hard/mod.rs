//! Accuracy on emulated paths that are hard: several loaded links, kernel TCP as cross traffic,
//! managed queues, a policer.

mod path;

use std::path::PathBuf;
use std::thread;
use std::time::Duration as Span;

use clap::Args;
use comfy_table::Table;
use headway_estimate::measure::Method;
use serde::Serialize;

use self::path::{BETWEEN, Class, PATHS, Path};
use super::cells::{self, Runs, Watch, coverage, reached};
use headway_program::exit::Failed;
use headway_runs::testbed::{Scored, Testbed};
use headway_units::statistics::median;

/// Time in which TCP flows find their share before the first measurement: a hundred RTTs and more.
const WARM_UP: Span = Span::from_secs(3);

/// The runs on one path.
#[derive(Debug, Serialize)]
struct CellRuns {
    class: Class,
    path: String,
    #[serde(flatten)]
    measured: Runs,
}

/// Measures 20 hard paths from 3 to 500 Mb/s: two to four loaded links in a row, TCP of this host as cross
/// traffic (greedy flows, sessions, films in chunks), CoDel, PIE and RED, and a policer.
///
/// The truth is the least of all links: the capacity, or the policed rate, less what the emulator sent for
/// others, TCP included, while the streams that the answer rests on were sent.
#[derive(Args, Debug)]
pub(super) struct HardArgs {
    /// Valid runs on each path.
    #[arg(long, default_value_t = 5, value_name = "N")]
    runs: u32,
    /// Seed of the traffic.
    #[arg(long, default_value_t = 1, value_name = "N")]
    seed: u32,
    /// Also write every run to this JSON file.
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
}

pub(super) fn run(args: &HardArgs, json: bool) -> Result<(), Failed> {
    let (runs, seed) = (args.runs, u64::from(args.seed));
    let what = |path: &Path| format!("{}, {}", path.class.name(), path.describe());
    let cells = cells::all(&PATHS, runs, what, |path, index, watch| cell(path, seed, index, watch))?;
    Ok(cells::print(&cells, json, args.output.as_deref(), &table(&cells), &verdicts(&cells, runs))?)
}

fn cell(path: &Path, seed: u64, index: u64, watch: &Watch) -> anyhow::Result<CellRuns> {
    // Every path has random numbers of its own, also beside those of the next seed.
    let seed = seed * PATHS.len() as u64 + index;
    let mut testbed = Testbed::new(super::headway()?, &path.network(seed), "hard")?;
    let flows = path.flows(seed);
    if !flows.is_empty() {
        testbed.start_flows(&flows)?;
        thread::sleep(WARM_UP);
    }
    let measured = watch.measure(&testbed, &["--method", Method::Response.name()])?;
    Ok(CellRuns { class: path.class, path: path.describe(), measured })
}

fn table(cells: &[CellRuns]) -> Table {
    let header = ["class", "path, Mb/s", "kind", "interval"].into_iter().chain(Runs::COLUMNS);
    let row = |cell: &CellRuns| {
        let measured = &cell.measured;
        let path =
            [cell.class.name().to_owned(), cell.path.replace(BETWEEN, "\n"), kind(measured), width(measured)];
        path.into_iter().chain(measured.columns()).collect()
    };
    cells::table(header, cells.iter().map(row))
}

/// Returns the kind of path that most answers name, the first in the alphabet of several.
fn kind(measured: &Runs) -> String {
    let mut kinds: Vec<&str> = measured.runs.iter().filter_map(|run| run.line.path_kind.as_deref()).collect();
    kinds.sort_unstable();
    let most = kinds.chunk_by(|a, b| a == b).rev().max_by_key(|alike| alike.len());
    most.map_or("-", |alike| alike[0]).to_owned()
}

/// Returns the median width of the intervals that have two ends, in Mb/s.
fn width(measured: &Runs) -> String {
    let width = |run: &Scored| Some(run.line.available_high_bps? - run.line.available_low_bps?);
    let widths = measured.runs.iter().filter_map(width).map(|bps| bps as f64 / 1e6).collect();
    median(widths).map_or("-".to_owned(), |width| format!("{width:.1}"))
}

/// Whether an answer says "at least" and more than what was available.
fn is_false_at_least(run: &Scored) -> bool {
    run.line.available_high_bps.is_none() && run.line.available_low_bps.is_some_and(|low| low > run.truth_bps)
}

fn verdicts(cells: &[CellRuns], wanted: u32) -> Vec<String> {
    let measured = cells.iter().map(|cell| &cell.measured);
    let classes = Class::ALL.iter().filter_map(|class| {
        let of = cells.iter().filter(|cell| cell.class == *class).map(|cell| &cell.measured);
        let (held, all) = of.fold((0, 0), |sum, runs| (sum.0 + runs.covered(), sum.1 + runs.answered()));
        (all > 0).then(|| format!("{} {held} of {all}", class.name()))
    });
    let silent: usize = measured.clone().map(Runs::silent).sum();
    let wrong = measured.clone().flat_map(|cell| &cell.runs).filter(|run| is_false_at_least(run)).count();
    let mut verdicts = vec![
        coverage(measured.clone()),
        format!("of them {}; {silent} runs gave no answer", classes.collect::<Vec<_>>().join(", ")),
        format!("{}: no answer says \"at least\" of more than was available ({wrong})", reached(wrong == 0)),
    ];
    verdicts.extend(cells::troubles(measured, wanted));
    verdicts
}
