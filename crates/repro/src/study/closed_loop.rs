//! Throughput and losses of a flow beside cross traffic (rapid 4.4).

use std::collections::BTreeMap;

use headway_figures::{Curve, Figure, Panel};
use headway_scenario::FlowController;
use headway_units::{Bytes, Duration};
use headway_worlds::World;
use serde::Deserialize;

use super::Study;
use crate::closed_loop::{Cross, Flow, Published, Setup, Statistics, Tracking, Web, statistics, tracking};
use crate::context::{Error, Size};
use crate::experiment::Count;
use crate::job::Job;
use crate::number::number;
use crate::outcome::{Findings, Measures, Table};
use crate::statistics::{kendall, quantile, sorted};

/// Throughput and losses of a flow beside cross traffic.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ClosedLoop {
    /// Buffer of the bottleneck, the same in all cells.
    buffer: Bytes,
    /// Controllers of the test flow, by the name with which their measures begin.
    controllers: BTreeMap<String, FlowController>,
    /// Further keys of the test flow by the name of its controller, as a scenario file has them: `stamp = "ack"`.
    #[serde(default)]
    keys: BTreeMap<String, String>,
    /// The cells to run.
    cells: Vec<Cells>,
    /// Runs per cell, with different seeds; the median is reported.
    runs: Count,
    /// Measured time.
    milliseconds: Count,
    /// Time before it.
    warmup: Count,
    /// Interval in which the throughput is compared with the free capacity; absent where it is not.
    interval: Option<Duration>,
    /// The measured time on the Linux stack; absent where that has no such traffic.
    kernel_milliseconds: Option<Count>,
    /// The published table, for comparison.
    #[serde(default)]
    published: Published,
}

/// All combinations of some controllers, kinds of cross traffic, RTTs and loss ratios.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Cells {
    /// Whether only the full size includes them.
    #[serde(default)]
    only_full: bool,
    /// Names of controllers; by default all.
    #[serde(default)]
    controllers: Vec<String>,
    /// Kinds of cross traffic.
    traffics: Vec<Cross>,
    /// RTTs without queueing.
    rtts: Vec<Duration>,
    /// Ratios of independent losses; by default zero only.
    #[serde(default = "lossless")]
    losses: Vec<f64>,
}

fn lossless() -> Vec<f64> {
    vec![0.0]
}

/// Name of the cell without a test flow.
const ALONE: &str = "none";
/// Interval of the time series where it is not used.
const INTERVAL: Duration = Duration::from_ms(1_000);
/// A measure of how a test flow follows the free capacity, with its name.
type TrackingMeasure = (&'static str, fn(&Tracking) -> f64);
const TRACKING: [TrackingMeasure; 4] = [
    ("share", |seen| seen.share),
    ("below-half", |seen| seen.below_half),
    ("correlation", |seen| seen.correlation),
    ("slow-correlation", |seen| seen.slow_correlation),
];
/// Largest number of columns of a table that a figure shows, each in a colour of its own.
const MAX_COLUMNS: usize = 6;

/// A controller beside some traffic over some path.
#[derive(Clone, Debug, PartialEq)]
struct Cell<'a> {
    /// Name and controller of the test flow; `None` for the cross traffic alone.
    controller: Option<(&'a str, &'a FlowController)>,
    cross: Cross,
    rtt: Duration,
    loss: f64,
}

/// A cell with the results of its runs.
struct Done<'a> {
    cell: Cell<'a>,
    runs: Vec<Statistics>,
}

impl Cell<'_> {
    fn who(&self) -> &str {
        self.controller.map_or(ALONE, |(name, _)| name)
    }

    /// Returns the name of all cells that differ in their controller only: `bct/30`, or `idle/30/1e-5`.
    fn column(&self) -> String {
        let cross = self.cross.name();
        if self.controller.is_none() {
            return cross.to_owned();
        }
        let column = format!("{cross}/{}", self.rtt.ms());
        if self.loss > 0.0 { format!("{column}/{:e}", self.loss) } else { column }
    }

    /// Returns the name with which the measures of the cell begin.
    fn name(&self) -> String {
        format!("{}/{}", self.who(), self.column())
    }
}

impl Done<'_> {
    fn values(&self, what: impl Fn(&Statistics) -> f64) -> Vec<f64> {
        sorted(self.runs.iter().map(what).collect())
    }

    fn median(&self, what: impl Fn(&Statistics) -> f64) -> f64 {
        quantile(&self.values(what), 0.5)
    }

    /// Returns a statistic of the web traffic; NaN without web traffic.
    fn web(&self, what: impl Fn(&Web) -> f64) -> f64 {
        self.median(|stats| stats.web.as_ref().map_or(f64::NAN, &what))
    }

    /// Returns a statistic of how the test flow follows the free capacity; NaN where it was not asked for.
    fn tracking(&self, what: impl Fn(&Tracking) -> f64) -> f64 {
        self.median(|stats| stats.tracking.as_ref().map_or(f64::NAN, &what))
    }

    fn goodput(&self) -> f64 {
        self.median(|stats| stats.goodput)
    }
}

impl Study for ClosedLoop {
    fn run(&self, job: &Job<'_>) -> Result<Findings, Error> {
        let time = job.time(job.choose(self.milliseconds, self.kernel_milliseconds));
        let (cells, missing): (Vec<_>, Vec<_>) = cells(self, job.context.size)
            .into_iter()
            .partition(|cell| cell.controller.is_none_or(|(_, kind)| job.has(kind)));
        // The seed does not depend on the cell, so that all controllers meet the same cross traffic.
        let results = job.each_run(&cells, job.of(self.runs), |cell, run| {
            let setup = setup(self, cell, time, job);
            job.run_scenario(setup.scenario(job.world), &cell.name(), run, |results| Statistics {
                tracking: self.interval.map(|_| tracking(&results.series, &setup)),
                ..statistics(results)
            })
        })?;
        let done: Vec<Done<'_>> =
            cells.into_iter().zip(results).map(|(cell, runs)| Done { cell, runs }).collect();
        let mut findings = evaluate(self, &done);
        let mut missing: Vec<&str> = missing.iter().map(Cell::who).collect();
        missing.dedup();
        findings.remarks.extend(job.not_run(&missing));
        Ok(findings)
    }

    fn other_worlds(&self) -> &'static [World] {
        if self.kernel_milliseconds.is_some() { &[World::Uml] } else { &[] }
    }
}

/// Lists the cells of this size, each once.
fn cells(study: &ClosedLoop, size: Size) -> Vec<Cell<'_>> {
    let mut all: Vec<Cell<'_>> = Vec::new();
    let mut add = |cell| {
        if !all.contains(&cell) {
            all.push(cell);
        }
    };
    for group in study.cells.iter().filter(|group| size == Size::Full || !group.only_full) {
        let named = |name: &String| group.controllers.is_empty() || group.controllers.contains(name);
        for &cross in &group.traffics {
            if cross == Cross::Web {
                add(Cell { controller: None, cross, rtt: Duration::ZERO, loss: 0.0 });
            }
            for (&rtt, &loss) in
                group.rtts.iter().flat_map(|rtt| group.losses.iter().map(move |loss| (rtt, loss)))
            {
                for (name, kind) in study.controllers.iter().filter(|(name, _)| named(name)) {
                    add(Cell { controller: Some((name, kind)), cross, rtt, loss });
                }
            }
        }
    }
    all
}

fn setup<'a>(study: &'a ClosedLoop, cell: &Cell<'a>, time: Duration, job: &Job<'_>) -> Setup<'a> {
    let keys = |name: &str| study.keys.get(name).map_or("", String::as_str);
    let test = |(name, controller)| Flow { controller, keys: keys(name), start: Duration::ZERO, stop: None };
    Setup {
        flows: cell.controller.map(test).into_iter().collect(),
        cross: cell.cross,
        rtt: cell.rtt,
        loss: cell.loss,
        buffer: study.buffer,
        warmup: job.time(study.warmup),
        measured: time,
        interval: study.interval.unwrap_or(INTERVAL),
    }
}

fn evaluate(study: &ClosedLoop, done: &[Done<'_>]) -> Findings {
    let mut measures = Measures::new();
    for cell in done {
        let name = cell.cell.name();
        let mut insert = |what: &str, value| measures.insert(format!("{name}/{what}"), value);
        insert("goodput", cell.goodput());
        insert("loss", cell.median(|stats| stats.loss));
        insert("delay", cell.median(|stats| stats.delay));
        insert("utilisation", cell.median(|stats| stats.utilisation));
        for (what, value) in tracking_measures(study) {
            insert(what, cell.tracking(value));
        }
        if cell.cell.cross == Cross::Web {
            insert("web-flows", cell.web(|web| web.flows as f64));
            insert("web-median", cell.web(|web| web.median));
            insert("web-p95", cell.web(|web| web.p95));
            insert("web-p99", cell.web(|web| web.p99));
            insert("web-mean", cell.web(|web| web.mean));
        }
    }
    let mut remarks = Vec::new();
    for column in columns(done) {
        let ranks: Vec<(f64, f64)> =
            published(study, done, &column).map(|(_, ours, print)| (print, ours)).collect();
        let (print, ours): (Vec<f64>, Vec<f64>) = ranks.into_iter().unzip();
        let tau = kendall(&print, &ours);
        measures.insert(format!("tau/{column}"), tau);
        remarks.extend(beside_print(study, done, &column, tau));
    }
    let ran = |who: &&String| done.iter().any(|cell| cell.cell.who() == who.as_str());
    for who in study.controllers.keys().filter(ran).map(Some).chain([None]) {
        let near = nearness(study, done, who.map(String::as_str));
        measures.insert(who.map_or_else(|| "near".to_owned(), |who| format!("near/{who}")), near);
    }
    Findings {
        measures,
        table: table(study, done),
        figure: if study.interval.is_some() { series(done) } else { figure(study, done) },
        remarks,
        ..Findings::default()
    }
}

/// Returns the share of the published cells of a controller, or of all, near the print; NaN without any.
fn nearness(study: &ClosedLoop, done: &[Done<'_>], who: Option<&str>) -> f64 {
    let of = done.iter().filter(|cell| who.is_none_or(|who| cell.cell.who() == who));
    let near: Vec<bool> = of
        .filter_map(|cell| study.published.is_near(cell.cell.who(), &cell.cell.column(), cell.goodput()))
        .collect();
    near.iter().filter(|near| **near).count() as f64 / near.len() as f64
}

/// Returns the names of the columns of the table, in the order of the cells.
fn columns(done: &[Done<'_>]) -> Vec<String> {
    let mut columns = Vec::new();
    for cell in done.iter().filter(|cell| cell.cell.controller.is_some()) {
        let column = cell.cell.column();
        if !columns.contains(&column) {
            columns.push(column);
        }
    }
    columns
}

/// Iterates over the published cells of a column: controller, our goodput and the published one in Gb/s.
fn published<'a>(
    study: &'a ClosedLoop,
    done: &'a [Done<'a>],
    column: &'a str,
) -> impl Iterator<Item = (&'a str, f64, f64)> {
    let here = done.iter().filter(move |cell| cell.cell.column() == column);
    here.filter_map(|cell| {
        let (print, _) = study.published.get(cell.cell.who(), column);
        (!print.is_nan()).then(|| (cell.cell.who(), cell.goodput(), print))
    })
}

/// Returns our goodputs in a column with the published ones, from the highest published one down.
fn beside_print(study: &ClosedLoop, done: &[Done<'_>], column: &str, tau: f64) -> Option<String> {
    let mut cells: Vec<_> = published(study, done, column).collect();
    cells.sort_by(|one, other| other.2.total_cmp(&one.2));
    let cells: Vec<String> = cells
        .iter()
        .map(|(who, ours, print)| format!("{who} {} ({})", number(*ours), number(*print)))
        .collect();
    let order = if tau.is_nan() { String::new() } else { format!("; rank correlation {tau:.2}") };
    (!cells.is_empty()).then(|| format!("{column}, Gb/s (published): {}{order}.", cells.join(", ")))
}

/// Returns the measures of how test flows follow the free capacity; none where the study does not ask.
fn tracking_measures(study: &ClosedLoop) -> &'static [TrackingMeasure] {
    if study.interval.is_some() { &TRACKING } else { &[] }
}

fn table(study: &ClosedLoop, done: &[Done<'_>]) -> Table {
    let mut table = Table::new(
        "controller,traffic,RTT ms,loss ratio,goodput Gb/s,lowest,highest,published,loss %,published,mean queueing delay us,utilisation,web median ms,web p95 ms,web p99 ms,web mean ms",
    );
    table.columns.extend(tracking_measures(study).iter().map(|(name, _)| (*name).to_owned()));
    let has_web_medians = !study.published.web_median.is_empty();
    if has_web_medians {
        table.columns.push("published web median ms".to_owned());
    }
    let known =
        |value: f64, digits: usize| if value.is_nan() { String::new() } else { format!("{value:.digits$}") };
    for cell in done {
        let Cell { cross, rtt, loss, .. } = cell.cell;
        let goodputs = cell.values(|stats| stats.goodput);
        let (print, print_loss) = study.published.get(cell.cell.who(), &cell.cell.column());
        let mut row = vec![
            cell.cell.who().to_owned(),
            cross.name().to_owned(),
            format!("{}", rtt.ms()),
            format!("{loss:e}"),
            known(cell.goodput(), 3),
            known(quantile(&goodputs, 0.0), 3),
            known(quantile(&goodputs, 1.0), 3),
            known(print, 3),
            known(cell.median(|stats| stats.loss), 4),
            known(print_loss, 4),
            known(cell.median(|stats| stats.delay), 1),
            known(cell.median(|stats| stats.utilisation), 3),
            known(cell.web(|web| web.median), 2),
            known(cell.web(|web| web.p95), 2),
            known(cell.web(|web| web.p99), 2),
            known(cell.web(|web| web.mean), 2),
        ];
        row.extend(tracking_measures(study).iter().map(|(_, value)| known(cell.tracking(value), 3)));
        if has_web_medians {
            row.push(known(study.published.web_median(cell.cell.who(), &cell.cell.column()), 2));
        }
        table.rows.push(row);
    }
    table
}

/// Draws throughput and free capacity of the first run of each cell over time.
fn series(done: &[Done<'_>]) -> Figure {
    let panel = |cell: &Done<'_>| {
        let drawn = cell.runs.first()?.tracking.as_ref()?.drawn.iter();
        let curve = |column: usize| drawn.clone().map(|values| (values[0], values[column])).collect();
        let panel = Panel::new(&cell.cell.name(), "time, ms", "rate, Gb/s").with_y_range(0.0, 10.0);
        Some(panel.with(Curve::line("throughput", curve(1))).with(Curve::reference("free", curve(2))))
    };
    Figure::curves(done.iter().filter_map(panel))
}

/// Draws our goodputs over the published ones.
fn figure(study: &ClosedLoop, done: &[Done<'_>]) -> Figure {
    let mut panel = Panel::new("", "published goodput, Gb/s", "goodput, Gb/s");
    for column in columns(done).iter().take(MAX_COLUMNS) {
        let points: Vec<_> = published(study, done, column).map(|(_, ours, print)| (print, ours)).collect();
        if !points.is_empty() {
            panel = panel.with(Curve::dots(column, points));
        }
    }
    Figure::curves([panel.with(Curve::reference("as published", vec![(0.0, 0.0), (10.0, 10.0)]))])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalogue;

    const FILE: &str = r#"
buffer = "1 MB"
runs = { quick = 1, full = 5 }
milliseconds = { quick = 20000, full = 120000 }
warmup = { quick = 5000, full = 5000 }
cells = [
  { controllers = ["reno"], traffics = ["bct", "web"], rtts = ["5 ms", "30 ms"] },
  { traffics = ["bct"], rtts = ["30 ms"] },
  { only_full = true, traffics = ["idle"], rtts = ["30 ms"], losses = [0.0, 1e-5] },
]
controllers = { cubic = "cubic", reno = "reno", slow = "kernel:cdg" }
[published]
columns = ["bct/5", "bct/30"]
goodput = { cubic = [5.5, 2.5], reno = [5.0, 1.4], slow = [1.0, 0.5] }
"#;

    fn study() -> ClosedLoop {
        toml::from_str(FILE).expect("well-formed")
    }

    #[test]
    fn every_cell_of_a_size_runs_once() {
        let study = study();
        let names = |size| cells(&study, size).iter().map(Cell::name).collect::<Vec<_>>();
        let quick = [
            "reno/bct/5",
            "reno/bct/30",
            "none/web",
            "reno/web/5",
            "reno/web/30",
            "cubic/bct/30",
            "slow/bct/30",
        ];
        assert_eq!(names(Size::Quick), quick);
        let full = names(Size::Full);
        assert_eq!((full.len(), full[..7] == quick), (13, true));
        assert_eq!(
            full[7..],
            [
                "cubic/idle/30",
                "reno/idle/30",
                "slow/idle/30",
                "cubic/idle/30/1e-5",
                "reno/idle/30/1e-5",
                "slow/idle/30/1e-5"
            ]
        );
    }

    #[test]
    fn results_are_medians_beside_the_print() {
        let study = study();
        let run = |goodput, loss| Statistics { goodput, loss, ..Statistics::default() };
        let web = Web { flows: 7, median: 2.0, p95: 9.0, ..Web::default() };
        let runs = |name: &str| match name {
            "reno/bct/30" => vec![run(1.0, 0.1), run(1.5, 0.3), run(1.2, 0.2)],
            "cubic/bct/30" => vec![run(2.0, 0.1)],
            "slow/bct/30" => vec![run(1.3, 0.0)],
            "none/web" => vec![Statistics { web: Some(web), ..Statistics::default() }],
            _ => vec![run(5.0, 0.0)],
        };
        let done = |cell: Cell<'static>| Done { runs: runs(&cell.name()), cell };
        let cells = cells(Box::leak(Box::new(self::study())), Size::Quick);
        let mut done: Vec<_> = cells.into_iter().map(done).collect();
        let found = evaluate(&study, &done);
        assert_eq!(found.measures["reno/bct/30/goodput"], 1.2);
        assert_eq!(found.measures["reno/bct/30/loss"], 0.2);
        // Of the published cells only Reno's at 5 ms is within a tenth: 5.0 Gb/s of 5.0.
        assert_eq!((found.measures["near/reno"], found.measures["near"]), (0.5, 0.25));
        assert_eq!(found.measures["none/web/web-p95"], 9.0);
        assert!(found.measures["reno/web/30/web-p95"].is_nan(), "this run had no web flows");
        // Of three pairs, one is in another order than in print.
        assert!((found.measures["tau/bct/30"] - 1.0 / 3.0).abs() < 1e-12, "{found:?}");
        assert!(found.measures["tau/bct/5"].is_nan(), "one cell has no order");
        let line = "bct/30, Gb/s (published): cubic 2.00 (2.50), reno 1.20 (1.40), slow 1.30 (0.50); rank correlation 0.33.";
        assert!(found.remarks.iter().any(|remark| remark == line), "{:?}", found.remarks);
        let row = found.table.rows.iter().find(|row| row[..3] == ["reno", "bct", "30"]).expect("a row");
        assert_eq!(row[4..8], ["1.200", "1.000", "1.500", "1.400"]);
        assert_eq!(found.table.columns.last().map(String::as_str), Some("web mean ms"));
        done.retain(|cell| cell.cell.who() != "slow");
        let found = evaluate(&study, &done);
        assert!(!found.measures.contains_key("near/slow"), "a world without this controller");
    }

    #[test]
    fn published_medians_of_web_flows_have_a_column() {
        let text = FILE.replace("[published]", "[published]\nweb_median = { reno = [nan, 1.75] }");
        let study: ClosedLoop = toml::from_str(&text).expect("well-formed");
        let done = |cell| Done { runs: vec![Statistics::default()], cell };
        let done: Vec<_> = cells(&study, Size::Quick).into_iter().map(done).collect();
        let table = table(&study, &done);
        assert_eq!(table.columns.last().map(String::as_str), Some("published web median ms"));
        let of = |who: &str, rtt: &str| {
            table.rows.iter().find(|row| row[..3] == [who, "bct", rtt]).and_then(|row| row.last()).cloned()
        };
        assert_eq!(["5", "30"].map(|rtt| of("reno", rtt)), [Some(String::new()), Some("1.75".to_owned())]);
        assert_eq!(of("cubic", "30"), Some(String::new()));
    }

    #[test]
    fn cells_name_controllers_of_their_file_and_rows_fit_the_columns() {
        for (id, study) in catalogue::studies::<ClosedLoop>("closed-loop") {
            let mut named = study.cells.iter().flat_map(|group| &group.controllers);
            assert!(named.all(|name| study.controllers.contains_key(name)), "{id}");
            let print = &study.published;
            let mut rows =
                [&print.goodput, &print.loss, &print.web_median].into_iter().flat_map(|rows| rows.values());
            assert!(rows.all(|row| row.len() == print.columns.len()), "{id}");
        }
    }
}
