//! `headway-bench select`: choices among simulated paths, beside their rivals.

mod cases;
mod figure;

use std::convert::Infallible;
use std::path::PathBuf;

use clap::Args;
use headway_program::exit::Failed;
use headway_program::table::table;
use headway_program::{out, print_line};
use headway_scenario::SelectRival;
use headway_select::{Settings, Strategy};
use headway_sim::select::{Contestant, Fetches, PathsWorld, Score};
use headway_units::statistics::{median, quantile, sorted};
use headway_units::{Bytes, Duration, Instant};
use headway_worlds::{Cancellation, pool};
use serde::Serialize;

use self::cases::Case;

/// Chooses among simulated parallel paths for hours, and compares that with rivals that know
/// the same, more or less.
///
/// Cross traffic on every link takes any share from 0 to 95 % for 2 to 8 minutes, then another. A path is
/// good if what is free there is at least 90 % of what the best has. Numbers are medians over seeds, with the
/// least and the greatest. `right` counts the decisions for a path that was better by more than the
/// tolerance, of those made for that reason with odds of 90 % or more.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  headway-bench select
  headway-bench select --case eight --hours 6 --seeds 4")]
pub(crate) struct SelectArgs {
    /// The kind of paths.
    #[arg(long, value_enum, default_value_t = Case::Three)]
    case: Case,
    /// Virtual hours of each run.
    #[arg(long, default_value_t = 24, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=168))]
    hours: u32,
    /// Number of seeds, from 1 on.
    #[arg(long, default_value_t = 10, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1000))]
    seeds: u64,
    /// Leave out the rivals that send traffic.
    #[arg(long)]
    quick: bool,
    /// Draw what was free on the paths in use of the first seed to this SVG file, and do no more.
    #[arg(long, value_name = "FILE")]
    figure: Option<PathBuf>,
}

/// Ends of ranges of odds.
const TENTHS: [f64; 11] = [0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.01];
/// Ends of ranges of odds with which decisions are made.
const DECIDED: [f64; 5] = [0.9, 0.925, 0.95, 0.975, 1.01];

/// What one of them did in one run.
#[derive(Clone, Debug)]
struct Run {
    name: String,
    score: Score,
    /// Median and 95th percentile of fetches of 1 MB, in seconds.
    fetches: [f64; 2],
    claims: Vec<(f64, bool)>,
    looks: Vec<(f64, bool)>,
    vain: f64,
}

/// A median with the least and the greatest value.
#[derive(Clone, Copy, Debug, Serialize)]
struct Range {
    median: f64,
    min: f64,
    max: f64,
}

/// What one of them did over all seeds.
#[derive(Debug, Serialize)]
struct Row {
    strategy: String,
    on_good: Range,
    on_best: Range,
    free_mbps: Range,
    fetch_p50_s: Range,
    fetch_p95_s: Range,
    mb_per_path_hour: Range,
    most_mb_in_an_hour: f64,
    changes_per_hour: Range,
    reaction_s: Range,
    others_lost_per_hour: Range,
    vain: Range,
    decisions: usize,
    right: usize,
    /// Mean of the odds with which they were made.
    claimed: f64,
    /// The decisions by their odds.
    decided: Vec<Bin>,
    calibration: Vec<Bin>,
}

/// Odds that were claimed, and how often that was right.
#[derive(Debug, Serialize)]
struct Bin {
    claimed: f64,
    right: f64,
    count: usize,
}

pub(crate) fn run(args: &SelectArgs, json: bool) -> Result<(), Failed> {
    if let Some(file) = &args.figure {
        return figure::draw(file, &world(args, 1), &contestants(args));
    }
    let seeds: Vec<u64> = (1..=args.seeds).collect();
    let runs: Vec<Run> = each(&seeds, |seed| runs(args, *seed)).into_iter().flatten().collect();
    let mut names: Vec<&str> = Vec::new();
    for run in &runs {
        if !names.contains(&run.name.as_str()) {
            names.push(&run.name);
        }
    }
    let row = |name: &&str| row(name, &runs.iter().filter(|run| run.name == **name).collect::<Vec<_>>());
    let rows: Vec<Row> = names.iter().map(row).collect();
    if json {
        out::document(&serde_json::to_string_pretty(&rows).map_err(anyhow::Error::from)?);
        return Ok(());
    }
    print(&rows);
    Ok(())
}

/// Calls `work` on every item, on all processors.
pub(crate) fn each<T: Sync, R: Send>(items: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let work = |item: &T| Ok::<_, Infallible>(Some(work(item)));
    pool::each(items, processors, &Cancellation::default(), work).results
}

fn runs(args: &SelectArgs, seed: u64) -> Vec<Run> {
    let world = world(args, seed);
    let mut fetches = Fetches::default();
    let all = contestants(args).into_iter();
    all.map(|(name, one)| run_one(name, &one, &world, &mut fetches)).collect()
}

fn world(args: &SelectArgs, seed: u64) -> PathsWorld {
    args.case.world(seed, Instant::ZERO + Duration::from_ms(3_600_000) * i64::from(args.hours))
}

fn contestants(args: &SelectArgs) -> Vec<(String, Contestant)> {
    let mut contestants: Vec<(String, Contestant)> = Vec::new();
    for budget in args.case.budgets() {
        let max_bytes_per_hour = Bytes::new(*budget);
        for strategy in [Strategy::Available, Strategy::TransferTime] {
            // What users fetch here.
            let transfer = Some(Bytes::new(1_000_000));
            let settings = Settings { strategy, transfer, max_bytes_per_hour, ..Settings::default() };
            contestants.push((format!("{strategy}, {max_bytes_per_hour}"), Contestant::Selector(settings)));
        }
    }
    use SelectRival::{Get, Iperf, LargestCapacity, LowestPing, Oracle};
    let rivals = [LowestPing, Get, Iperf, LargestCapacity, Oracle].into_iter();
    let rivals = rivals.filter(|rival| !args.quick || !matches!(rival, Get | Iperf));
    contestants.extend(rivals.map(|rival| (rival.name().to_owned(), Contestant::Rival(rival))));
    contestants
}

fn run_one(name: String, contestant: &Contestant, world: &PathsWorld, fetches: &mut Fetches) -> Run {
    let timeline = contestant.run(world);
    let times: Vec<f64> = fetches.of(world, &timeline).into_iter().map(Duration::secs_f64).collect();
    let part = |part: f64| quantile(&times, part).unwrap_or(0.0);
    Run {
        name,
        score: timeline.score(world),
        fetches: [part(0.5), part(0.95)],
        vain: timeline.vain.secs_f64() / (world.end - Instant::ZERO).secs_f64(),
        claims: timeline.claims,
        looks: timeline.looks,
    }
}

fn row(name: &str, runs: &[&Run]) -> Row {
    let range = |value: &dyn Fn(&Run) -> f64| {
        let values = sorted(runs.iter().map(|run| value(run)).collect());
        let end = |index: usize| values.get(index).copied().unwrap_or(0.0);
        Range {
            median: median(values.clone()).unwrap_or(0.0),
            min: end(0),
            max: end(values.len().saturating_sub(1)),
        }
    };
    let mb = |bytes: Bytes| bytes.get() as f64 / 1e6;
    let claims: Vec<(f64, bool)> = runs.iter().flat_map(|run| run.claims.clone()).collect();
    let looks: Vec<(f64, bool)> = runs.iter().flat_map(|run| run.looks.clone()).collect();
    Row {
        strategy: name.to_owned(),
        on_good: range(&|run| run.score.on_good),
        on_best: range(&|run| run.score.on_best),
        free_mbps: range(&|run| run.score.goodput.mbps()),
        fetch_p50_s: range(&|run| run.fetches[0]),
        fetch_p95_s: range(&|run| run.fetches[1]),
        mb_per_path_hour: range(&|run| mb(run.score.bytes_per_path_hour)),
        most_mb_in_an_hour: range(&|run| mb(run.score.most_in_an_hour)).max,
        changes_per_hour: range(&|run| run.score.changes),
        reaction_s: range(&|run| run.score.reaction.secs_f64()),
        others_lost_per_hour: range(&|run| run.score.others_lost_per_hour),
        vain: range(&|run| run.vain),
        decisions: claims.len(),
        claimed: claims.iter().map(|(odds, _)| odds).sum::<f64>() / claims.len().max(1) as f64,
        decided: bins(&claims, &DECIDED),
        right: claims.iter().filter(|(_, right)| *right).count(),
        calibration: bins(&looks, &TENTHS),
    }
}

/// Divides odds into ranges.
fn bins(looks: &[(f64, bool)], ends: &[f64]) -> Vec<Bin> {
    let bin = |ends: &[f64]| {
        let range = ends[0]..ends[1];
        let within: Vec<&(f64, bool)> = looks.iter().filter(|(odds, _)| range.contains(odds)).collect();
        let count = within.len();
        let mean = |value: &dyn Fn(&(f64, bool)) -> f64| {
            within.iter().map(|one| value(one)).sum::<f64>() / count.max(1) as f64
        };
        Bin {
            claimed: mean(&|(odds, _)| *odds),
            right: mean(&|(_, right)| f64::from(u8::from(*right))),
            count,
        }
    };
    ends.windows(2).map(bin).filter(|bin| bin.count > 0).collect()
}

fn decisions(row: &Row) -> String {
    let share = row.right as f64 / row.decisions.max(1) as f64;
    let (share, claimed) = (share * 100.0, row.claimed * 100.0);
    format!("{} of {}, {share:.1} % ({claimed:.1} % claimed)", row.right, row.decisions)
}

fn print(rows: &[Row]) {
    let percent = |range: &Range| {
        let [median, min, max] = [range.median, range.min, range.max].map(|part| part * 100.0);
        format!("{median:.1} % ({min:.1} to {max:.1})")
    };
    let number = |range: &Range| format!("{:.1} ({:.1} to {:.1})", range.median, range.min, range.max);
    let seconds = |range: &Range| format!("{:.2} s", range.median);
    let cells = rows.iter().map(|row| {
        [
            row.strategy.clone(),
            percent(&row.on_good),
            percent(&row.on_best),
            number(&row.free_mbps),
            seconds(&row.fetch_p50_s),
            seconds(&row.fetch_p95_s),
            number(&row.mb_per_path_hour),
            format!("{:.1}", row.most_mb_in_an_hour),
            number(&row.changes_per_hour),
            number(&row.reaction_s),
            number(&row.others_lost_per_hour),
            percent(&row.vain),
            if row.decisions > 0 { decisions(row) } else { String::new() },
        ]
    });
    let columns = [
        "choice",
        "on a good path",
        "on the best",
        "free there, Mb/s",
        "1 MB, median",
        "95 %",
        "MB per path and hour",
        "most in an hour",
        "changes/h",
        "reacts in, s",
        "others' losses/h",
        "says vain",
        "right",
    ];
    print_line!("{}", table(columns, cells));
    for row in rows.iter().filter(|row| !row.calibration.is_empty()) {
        let bins = row.calibration.iter().chain(&row.decided);
        let cells = bins.map(|bin| {
            [
                format!("{:.1} %", bin.claimed * 100.0),
                format!("{:.1} %", bin.right * 100.0),
                bin.count.to_string(),
            ]
        });
        print_line!("{}", table([row.strategy.as_str(), "was better", "looks, then decisions"], cells));
    }
}
