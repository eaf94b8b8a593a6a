//! `headway-bench select-worlds`: choices in worlds whose packets are all simulated, with users whose traffic
//! meets the questions.

mod draw;

use clap::{Args, ValueEnum as _};
use headway_program::exit::Failed;
use headway_program::table::table;
use headway_program::{out, print_line};
use headway_select::{Settings, Strategy};
use headway_sim::select::{Chooser, PacketRun, PacketWorld, Statement};
use headway_units::statistics::median;
use headway_units::{Bytes, Duration, Instant};
use serde::Serialize;

use self::draw::{Class, world};
use crate::select::each;

/// Chooses among simulated paths for ten minutes while users send, and compares what is said with the truth,
/// and how long transfers take with rivals.
///
/// The oracle takes for each transfer the path over which it is fastest. `urltest` asks for 1 kB over each
/// path once a minute, and leaves a path for one that takes 50 ms less; `lowest-rtt` pings every 10 s;
/// `random` is the mean over all paths. Ratios are geometric means.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  headway-bench select-worlds
  headway-bench select-worlds --class flapping --worlds 10 --seed 100")]
pub(crate) struct SelectWorldsArgs {
    /// The kind of worlds; all in turn by default.
    #[arg(long, value_enum)]
    class: Option<Class>,
    /// Number of worlds of each kind.
    #[arg(long, default_value_t = 3, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1000))]
    worlds: u64,
    /// By what a path is chosen.
    #[arg(long, default_value = "transfer-time", value_name = "NAME")]
    strategy: Strategy,
    /// The first seed.
    #[arg(long, default_value_t = 1, value_name = "N")]
    seed: u64,
    /// Also print so many worlds in which rivals are better, the worst first.
    #[arg(long, default_value_t = 0, value_name = "N")]
    worst: usize,
}

/// Names of those who choose, in the order of their times.
const CHOOSERS: [&str; 4] = ["select", "urltest", "lowest-rtt", "random"];
/// Ends of sizes of transfers, in bytes.
const SIZES: [u64; 4] = [0, 1_000_000, 10_000_000, u64::MAX];

/// What was done in a world.
struct Judged {
    class: Class,
    seed: u64,
    /// For each transfer its size, and how many times as long as the oracle's it took, as logarithms,
    /// for each who chooses.
    transfers: Vec<(Bytes, [f64; 4])>,
    run: PacketRun,
    /// Odds of decisions, and those of paths that are not in use, each with whether it was so.
    claims: Vec<(f64, bool)>,
    looks: Vec<(f64, bool)>,
    /// Share of the time on a path with 90 % of the most that is free.
    on_good: f64,
}

/// What was done in several worlds.
#[derive(Debug, Serialize)]
struct Row {
    name: String,
    worlds: usize,
    /// Times of transfers beside the oracle: of all, and by size.
    ratio: [f64; 4],
    by_size: [f64; 3],
    /// Share of worlds in which transfers take at most 10 % longer than those of the best rival.
    not_worse: f64,
    on_good: f64,
    /// Share of statements whose 90 % interval holds the truth, their number, and the median of what is said
    /// by the truth; of the path in use.
    used_held: f64,
    used: usize,
    used_says: f64,
    others_held: f64,
    others: usize,
    decisions: usize,
    claimed: f64,
    right: f64,
    low_odds: f64,
    low_right: f64,
    lows: usize,
}

pub(crate) fn run(args: &SelectWorldsArgs, json: bool) -> Result<(), Failed> {
    let classes = args.class.map_or_else(|| Class::value_variants().to_vec(), |class| vec![class]);
    let jobs: Vec<(Class, u64)> = classes
        .iter()
        .flat_map(|class| (0..args.worlds).map(|number| (*class, args.seed + number)))
        .collect();
    let all = each(&jobs, |(class, seed)| judge(*class, *seed, args.strategy));
    let of = |class: &Class| {
        row(class_name(*class), &all.iter().filter(|one| one.class == *class).collect::<Vec<_>>())
    };
    let mut rows: Vec<Row> = classes.iter().map(of).collect();
    rows.push(row("all".to_owned(), &all.iter().collect::<Vec<_>>()));
    if json {
        out::document(&serde_json::to_string_pretty(&rows).map_err(anyhow::Error::from)?);
    } else {
        print(&rows);
        print_worst(&all, args.worst);
    }
    Ok(())
}

/// Prints the worlds in which select is worst beside the best rival.
fn print_worst(all: &[Judged], count: usize) {
    let behind = |one: &Judged| {
        let [select, rivals @ ..] = one.ratios();
        select / rivals.into_iter().fold(f64::INFINITY, f64::min)
    };
    let mut worst: Vec<&Judged> = all.iter().collect();
    worst.sort_by(|one, other| behind(other).total_cmp(&behind(one)));
    for one in worst.into_iter().take(count) {
        let [select, urltest, lowest, random] = one.ratios();
        print_line!(
            "{} {}: {:.2} x the best rival; {select:.2}, {urltest:.2}, {lowest:.2}, {random:.2} x the oracle",
            class_name(one.class),
            one.seed,
            behind(one)
        );
    }
}

fn class_name(class: Class) -> String {
    class.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
}

fn judge(class: Class, seed: u64, strategy: Strategy) -> Judged {
    let world = world(class, seed);
    let settings = Settings { strategy, ..Settings::default() };
    let run = world.run(&Chooser::Selector(settings));
    let fixed: Vec<PacketRun> =
        (0..world.paths.len()).map(|path| world.run(&Chooser::Always(path))).collect();
    let rtt = |every: i64, trips: i64, tolerance: i64| Chooser::LowestRtt {
        every: Duration::from_ms(every),
        trips,
        tolerance: Duration::from_ms(tolerance),
    };
    let rivals = [rtt(60_000, 2, 50), rtt(10_000, 1, 0)].map(|one| world.run(&one));
    let ln = |time: Duration| time.secs_f64().max(1e-4).ln();
    let transfer = |number: usize| {
        let each: Vec<f64> = fixed.iter().map(|run| ln(run.times[number])).collect();
        let best = each.iter().copied().fold(f64::INFINITY, f64::min);
        let random = each.iter().sum::<f64>() / each.len() as f64;
        let chosen = [&run, &rivals[0], &rivals[1]].map(|run| ln(run.times[number]));
        (world.transfers[number].1, [chosen[0] - best, chosen[1] - best, chosen[2] - best, random - best])
    };
    let transfers = (0..world.transfers.len()).map(transfer).collect();
    let on_good = on_good(&world, &run);
    let truth = Truth { world: &world, fixed: &fixed, settings: &settings };
    let claims = run.claims.iter().map(|(at, paths, odds)| (*odds, truth.is_better(*at, *paths))).collect();
    let used = |at: Instant| {
        let next = run.chosen.partition_point(|(from, _)| *from <= at);
        run.chosen[next.saturating_sub(1)].1
    };
    let others = run.statements.iter().filter(|one| !one.is_used);
    let looks = others.map(|one| (one.odds, truth.is_better(one.at, [used(one.at), one.path]))).collect();
    Judged { class, seed, transfers, run, claims, looks, on_good }
}

/// What shows whether a path is better than another.
struct Truth<'a> {
    world: &'a PacketWorld,
    /// What each path does if all transfers take it.
    fixed: &'a [PacketRun],
    settings: &'a Settings,
}

impl Truth<'_> {
    /// Whether the second path is better than the first by more than the tolerance: by what is free, or by
    /// the next transfers over both.
    fn is_better(&self, at: Instant, [before, path]: [usize; 2]) -> bool {
        /// So many transfers.
        const NEXT: usize = 16;
        let factor = 1.0 + self.settings.tolerance;
        if self.settings.strategy != Strategy::TransferTime {
            let free = |path: usize| self.world.free(path, at).bps_f64();
            return free(path) > factor * free(before);
        }
        let first = self.world.transfers.partition_point(|(start, _)| *start < at);
        let next = first..(first + NEXT).min(self.world.transfers.len());
        let mean = |path: usize| {
            geometric(next.clone().map(|number| self.fixed[path].times[number].secs_f64().ln()))
        };
        mean(before) > factor * mean(path)
    }
}

fn on_good(world: &PacketWorld, run: &PacketRun) -> f64 {
    let seconds = (world.end - Instant::ZERO).secs_f64() as i64;
    let good = |second: &i64| {
        let at = Instant::ZERO + Duration::from_ms(1_000 * second);
        let next = run.chosen.partition_point(|(from, _)| *from <= at);
        let chosen = run.chosen[next.saturating_sub(1)].1;
        let best = (0..world.paths.len()).map(|path| world.free(path, at)).max().unwrap_or_default();
        world.free(chosen, at) >= best.scale(0.9)
    };
    (0..seconds).filter(good).count() as f64 / seconds as f64
}

impl Judged {
    fn ratios(&self) -> [f64; 4] {
        std::array::from_fn(|chooser| geometric(self.transfers.iter().map(|(_, ln)| ln[chooser])))
    }
}

fn geometric(logarithms: impl Iterator<Item = f64>) -> f64 {
    let (sum, count) = logarithms.fold((0.0, 0), |(sum, count), one| (sum + one, count + 1));
    (sum / f64::from(count.max(1))).exp()
}

fn row(name: String, worlds: &[&Judged]) -> Row {
    let transfers = || worlds.iter().flat_map(|one| &one.transfers);
    let by_size = |number: usize| {
        let range = SIZES[number]..SIZES[number + 1];
        geometric(transfers().filter(|(size, _)| range.contains(&size.get())).map(|(_, ln)| ln[0]))
    };
    let is_not_worse = |one: &&&Judged| {
        let [select, rivals @ ..] = one.ratios();
        select <= 1.1 * rivals.into_iter().fold(f64::INFINITY, f64::min)
    };
    let count = worlds.len().max(1) as f64;
    let said = |is_used: bool| {
        worlds.iter().flat_map(|one| &one.run.statements).filter(move |one| one.is_used == is_used)
    };
    let (used_held, used) = held(said(true));
    let (others_held, others) = held(said(false));
    let used_says = said(true).map(|one| one.free[0].bps_f64() / one.truth.bps_f64().max(1.0)).collect();
    let claims: Vec<(f64, bool)> = worlds.iter().flat_map(|one| one.claims.clone()).collect();
    let low: Vec<(f64, bool)> =
        worlds.iter().flat_map(|one| one.looks.clone()).filter(|(odds, _)| *odds < 0.1).collect();
    let mean = |all: &[(f64, bool)]| {
        let count = all.len().max(1) as f64;
        let sum =
            all.iter().fold((0.0, 0.0), |(a, b), (odds, right)| (a + odds, b + f64::from(u8::from(*right))));
        (sum.0 / count, sum.1 / count)
    };
    let ((claimed, right), (low_odds, low_right)) = (mean(&claims), mean(&low));
    Row {
        name,
        worlds: worlds.len(),
        ratio: std::array::from_fn(|chooser| geometric(transfers().map(|(_, ln)| ln[chooser]))),
        by_size: std::array::from_fn(by_size),
        not_worse: worlds.iter().filter(is_not_worse).count() as f64 / count,
        on_good: worlds.iter().map(|one| one.on_good).sum::<f64>() / count,
        used_held,
        used,
        used_says: median(used_says).unwrap_or(0.0),
        others_held,
        others,
        decisions: claims.len(),
        claimed,
        right,
        low_odds,
        low_right,
        lows: low.len(),
    }
}

/// Returns the share of statements that hold the truth, and their number.
fn held<'a>(statements: impl Iterator<Item = &'a Statement>) -> (f64, usize) {
    let (mut held, mut count) = (0, 0);
    for Statement { free: [_, low, high], truth, .. } in statements {
        count += 1;
        held += usize::from(low <= truth && truth <= high);
    }
    (held as f64 / count.max(1) as f64, count)
}

fn print(rows: &[Row]) {
    let cells = rows.iter().map(|row| {
        let mut cells = vec![row.name.clone(), row.worlds.to_string()];
        cells.extend(row.ratio.iter().chain(&row.by_size).map(|ratio| format!("{ratio:.2}")));
        let percent = |part: f64| format!("{:.0} %", 100.0 * part);
        cells.push(percent(row.not_worse));
        cells.push(percent(row.on_good));
        cells.push(format!("{} of {}", percent(row.used_held), row.used));
        cells.push(format!("{:.2}", row.used_says));
        cells.push(format!("{} of {}", percent(row.others_held), row.others));
        cells.push(format!("{} of {} ({})", percent(row.right), row.decisions, percent(row.claimed)));
        cells.push(format!("{:.1} % of {} ({:.1} %)", 100.0 * row.low_right, row.lows, 100.0 * row.low_odds));
        cells
    });
    let mut columns = vec!["worlds", "n"];
    columns.extend(CHOOSERS);
    columns.extend([
        "< 1 MB",
        "1-10 MB",
        "> 10 MB",
        "not worse",
        "on good",
        "used: held",
        "says",
        "others: held",
        "right",
        "low odds",
    ]);
    print_line!("{}", table(columns, cells));
}
