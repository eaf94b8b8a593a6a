//! Throughput and losses of a flow beside cross traffic (rapid 4.4).

use std::collections::BTreeMap;

use headway_figures::{Curve, Figure, Panel};
use headway_scenario::FlowController;
use headway_units::{Bytes, Duration};
use headway_worlds::World;
use serde::Deserialize;

use super::Study;
use crate::closed_loop::{Cross, Flow, Published, Setup, add_tracking, statistics};
use crate::context::{Error, Size};
use crate::experiment::Count;
use crate::job::Job;
use crate::number::number;
use crate::outcome::{Findings, Measures, Table, median, values};
use crate::statistics::{kendall, quantile};

/// Throughput and losses of a flow beside cross traffic.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ClosedLoop {
    /// Buffer of the bottleneck, the same in all cells.
    buffer: Bytes,
    /// Controllers of the test flow, by the name with which their measures begin.
    controllers: BTreeMap<String, FlowController>,
    /// Further keys of the test flow by the name of its controller, as a scenario file has
    /// them: `stamp = "ack"`.
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
    /// Names of controllers with keys that the Linux stack does not have.
    #[serde(default)]
    not_on_linux: Vec<String>,
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
/// The numbers of every cell, of those with web traffic, and of test flows that follow the free capacity.
const NUMBERS: [&str; 4] = ["goodput", "loss", "delay", "utilisation"];
const WEB: [&str; 5] = ["web-flows", "web-median", "web-p95", "web-p99", "web-mean"];
const TRACKING: [&str; 4] = ["share", "below-half", "correlation", "slow-correlation"];
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
    runs: Vec<Measures>,
    /// What a figure shows of the first run.
    drawn: Vec<[f64; 3]>,
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
    fn median(&self, what: &str) -> f64 {
        median(&self.runs, what)
    }

    fn goodput(&self) -> f64 {
        self.median("goodput")
    }
}

impl ClosedLoop {
    /// Whether the test flow of this name has keys that the world knows.
    fn runs(&self, name: &str, job: &Job<'_>) -> bool {
        job.world == World::Sim || !self.not_on_linux.iter().any(|other| other == name)
    }
}

impl Study for ClosedLoop {
    fn run(&self, job: &Job<'_>) -> Result<Findings, Error> {
        let time = job.time(job.choose(self.milliseconds, self.kernel_milliseconds));
        let (cells, missing): (Vec<_>, Vec<_>) =
            cells(self, job.context.size).into_iter().partition(|cell| {
                cell.controller.is_none_or(|(name, kind)| self.runs(name, job) && job.has(kind))
            });
        // The seed does not depend on the cell, so that all controllers meet the same cross traffic.
        let results = job.each_run(&cells, job.of(self.runs), |cell, run| {
            let setup = setup(self, cell, time, job);
            job.run_scenario(&setup.scenario(), &cell.name(), run, |results| {
                let mut statistics = statistics(results);
                if self.interval.is_some() {
                    add_tracking(&mut statistics, &results.series, &setup);
                }
                statistics
            })
        })?;
        let done = cells.into_iter().zip(results).map(|(cell, mut runs)| Done {
            cell,
            drawn: std::mem::take(&mut runs[0].drawn),
            runs: runs.into_iter().map(|run| run.numbers).collect(),
        });
        let done: Vec<Done<'_>> = done.collect();
        let mut findings = evaluate(self, &done);
        let mut missing: Vec<&str> = missing.iter().map(Cell::who).collect();
        missing.sort();
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
    let mut findings = Findings {
        table: table(study, done),
        figure: if study.interval.is_some() { series(done) } else { figure(study, done) },
        ..Findings::default()
    };
    for cell in done {
        let web: &[&str] = if cell.cell.cross == Cross::Web { &WEB } else { &[] };
        let names = NUMBERS.iter().chain(tracking_numbers(study)).chain(web);
        findings.add(&cell.cell.name(), names.map(|what| (what, cell.median(what))));
    }
    for column in columns(done) {
        let ranks = published(study, done, &column).map(|(_, ours, print)| (print, ours));
        let (print, ours): (Vec<f64>, Vec<f64>) = ranks.unzip();
        let tau = kendall(&print, &ours);
        findings.remarks.extend(beside_print(study, done, &column, tau));
        findings.add("tau", [(column, tau)]);
    }
    for who in study.controllers.keys().filter(|who| done.iter().any(|cell| cell.cell.who() == *who)) {
        findings.add("near", [(who, nearness(study, done, Some(who)))]);
    }
    findings.add("", [("near", nearness(study, done, None))]);
    findings
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
        let print = study.published.goodput(cell.cell.who(), column);
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

/// Returns the numbers of how test flows follow the free capacity; none where the study does not ask.
fn tracking_numbers(study: &ClosedLoop) -> &'static [&'static str] {
    if study.interval.is_some() { &TRACKING } else { &[] }
}

fn table(study: &ClosedLoop, done: &[Done<'_>]) -> Table {
    let mut table = Table::new(
        "controller,traffic,RTT ms,loss ratio,goodput Gb/s,lowest,highest,published,loss %,published,mean queueing delay us,utilisation,web median ms,web p95 ms,web p99 ms,web mean ms",
    );
    table.columns.extend(tracking_numbers(study).iter().map(|name| (*name).to_owned()));
    let has_web_medians = !study.published.web_median.is_empty();
    if has_web_medians {
        table.columns.push("published web median ms".to_owned());
    }
    let known =
        |value: f64, digits: usize| if value.is_nan() { String::new() } else { format!("{value:.digits$}") };
    for cell in done {
        let Cell { cross, rtt, loss, .. } = cell.cell;
        let goodputs = values(&cell.runs, "goodput");
        let print = &study.published;
        let print = |rows| print.cell(rows, cell.cell.who(), &cell.cell.column());
        let mut row = vec![
            cell.cell.who().to_owned(),
            cross.name().to_owned(),
            format!("{}", rtt.ms()),
            format!("{loss:e}"),
            known(cell.goodput(), 3),
            known(quantile(&goodputs, 0.0), 3),
            known(quantile(&goodputs, 1.0), 3),
            known(print(&study.published.goodput), 3),
            known(cell.median("loss"), 4),
            known(print(&study.published.loss), 4),
            known(cell.median("delay"), 1),
            known(cell.median("utilisation"), 3),
            known(cell.median("web-median"), 2),
            known(cell.median("web-p95"), 2),
            known(cell.median("web-p99"), 2),
            known(cell.median("web-mean"), 2),
        ];
        row.extend(tracking_numbers(study).iter().map(|what| known(cell.median(what), 3)));
        if has_web_medians {
            row.push(known(print(&study.published.web_median), 2));
        }
        table.rows.push(row);
    }
    table
}

/// Draws throughput and free capacity of the first run of each cell over time.
fn series(done: &[Done<'_>]) -> Figure {
    let panel = |cell: &Done<'_>| {
        let curve = |column: usize| cell.drawn.iter().map(|values| (values[0], values[column])).collect();
        let panel = Panel::new(&cell.cell.name(), "time, ms", "rate, Gb/s").with_y_range(0.0, 10.0);
        panel.with(Curve::line("throughput", curve(1))).with(Curve::reference("free", curve(2)))
    };
    Figure::curves(done.iter().map(panel))
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
    use crate::outcome::named;

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
        let run = |goodput, loss| named([("goodput", goodput), ("loss", loss)]);
        let runs = |name: &str| match name {
            "reno/bct/30" => vec![run(1.0, 0.1), run(1.5, 0.3), run(1.2, 0.2)],
            "cubic/bct/30" => vec![run(2.0, 0.1)],
            "slow/bct/30" => vec![run(1.3, 0.0)],
            "none/web" => vec![named([("web-flows", 7.0), ("web-median", 2.0), ("web-p95", 9.0)])],
            _ => vec![run(5.0, 0.0)],
        };
        let done = |cell: Cell<'static>| Done { runs: runs(&cell.name()), cell, drawn: Vec::new() };
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
        let done = |cell| Done { runs: vec![Measures::new()], cell, drawn: Vec::new() };
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
