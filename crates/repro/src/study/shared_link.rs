//! Queues of links shared by long flows with a short RTT (ls-aimd 4.2, 4.7).

use std::collections::{BTreeMap, BTreeSet};

use headway_control::Kind;
use headway_figures::{BoxMark, Curve, Figure, Panel};
use headway_units::Duration;
use headway_worlds::World;
use serde::Deserialize;

use super::Study;
use crate::context::Error;
use crate::experiment::Count;
use crate::job::Job;
use crate::outcome::{Findings, Measures, Table, median, values};
use crate::shared_link::{self as link, Marking, QUANTILES, SETTINGS, Setting};
use crate::statistics::{largest, smallest};

/// The queue of a link shared by long flows with a short RTT.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SharedLink {
    /// Marking scheme of the link.
    marking: Marking,
    /// Controllers, by the name with which their measures begin.
    variants: BTreeMap<String, Kind>,
    /// Experiments of the thesis, `1` to `4H`, in which all variants run.
    settings: Vec<String>,
    /// Runs per variant and setting, with different seeds; the median is reported.
    runs: Count,
    /// Simulated duration of what lasts one second in the thesis.
    milliseconds: Count,
    /// The same duration on the Linux stack, where packets take ten times as long to compute; absent when no
    /// kernel has the controllers.
    kernel_milliseconds: Option<Count>,
}

/// One run of a controller in a setting.
struct Part<'a> {
    variant: &'a str,
    controller: Kind,
    setting: &'static Setting,
}

/// All runs of one controller in one setting.
struct Cell<'a> {
    variant: &'a str,
    setting: &'static Setting,
    runs: Vec<Measures>,
}

impl Cell<'_> {
    fn median(&self, what: &str) -> f64 {
        median(&self.runs, what)
    }
}

/// Largest number of curves with distinct colours.
const MAX_CURVES: usize = 6;
/// Largest number of settings shown as single distributions instead of curves over the RTT.
const MAX_DISTRIBUTIONS: usize = 2;

/// Axes of utilisation start at this value or below.
const MIN_UTILISATION: f64 = 0.9;

/// The numbers of a run; the table shows the first nine in this order.
const NUMBERS: [&str; 12] = [
    "mean",
    "deviation",
    "p95",
    "p99",
    "max",
    "utilisation",
    "least-utilisation",
    "marked",
    "spread",
    "unsteadiness",
    "at-two",
    "correlation",
];

impl Study for SharedLink {
    fn run(&self, job: &Job<'_>) -> Result<Findings, Error> {
        let second = job.time(job.choose(self.milliseconds, self.kernel_milliseconds));
        let runs = job.of(self.runs);
        let parts = parts(self, runs);
        let stats = job.map(&parts, |index, part| self.run_part(part, index, second, job))?;
        let cells = parts.chunks(runs).zip(stats.chunks(runs)).map(|(parts, stats)| Cell {
            variant: parts[0].variant,
            setting: parts[0].setting,
            runs: stats.to_vec(),
        });
        let mut findings = evaluate(&cells.collect::<Vec<Cell<'_>>>());
        if job.as_scenarios {
            // Numbers missing from the world's results are not measured there.
            findings.measures.retain(|_, value| !value.is_nan());
            let ms = second.ms();
            findings
                .remarks
                .push(format!("One second of the thesis is scaled to {ms:.0} ms on the Linux stack."));
        }
        Ok(findings)
    }

    fn other_worlds(&self) -> &'static [World] {
        if self.kernel_milliseconds.is_some() { &[World::Uml] } else { &[] }
    }
}

impl SharedLink {
    fn run_part(
        &self,
        part: &Part<'_>,
        index: usize,
        second: Duration,
        job: &Job<'_>,
    ) -> Result<Measures, Error> {
        let (Part { variant, controller, setting }, seed) = (part, job.seed(index));
        if !job.as_scenarios {
            return Ok(link::run(setting, self.marking, *controller, seed, second));
        }
        let run = format!("{}, {variant} in {}, run {index}", job.experiment.id, setting.name);
        let results = job.results(&link::scenario(setting, self.marking, *controller, second), &run, seed)?;
        Ok(link::statistics(setting, second, &results))
    }
}

fn evaluate(cells: &[Cell<'_>]) -> Findings {
    let mut findings = Findings { table: table(cells), figure: figure(cells), ..Findings::default() };
    for cell in cells {
        let name = format!("{}/{}", cell.variant, cell.setting.name);
        findings.add(&name, NUMBERS.map(|what| (what, cell.median(what))));
    }
    let losses = cells.iter().flat_map(|cell| &cell.runs).map(|run| run["losses"]).sum::<f64>();
    findings.add("", [("losses", losses)]);
    derive(&mut findings.measures, cells);
    findings
}

/// Lists every variant in every setting, once per run.
fn parts(study: &SharedLink, runs: usize) -> Vec<Part<'_>> {
    let named = |setting: &&Setting| study.settings.iter().any(|name| name == setting.name);
    let mut parts = Vec::new();
    for (variant, controller) in &study.variants {
        for setting in SETTINGS.iter().filter(named) {
            parts.extend((0..runs).map(|_| Part { variant, controller: *controller, setting }));
        }
    }
    parts
}

/// Derives numbers that compare settings or variants.
fn derive(measures: &mut Measures, cells: &[Cell<'_>]) {
    let mean = |variant: &str, setting: &str| {
        let cell = cells.iter().find(|cell| cell.variant == variant && cell.setting.name == setting);
        cell.map(|cell| cell.median("mean"))
    };
    for cell in cells.iter().filter(|cell| cell.variant != "aimd") {
        let here = cell.median("mean");
        if let Some(baseline) = mean("aimd", cell.setting.name) {
            let name = format!("{}/{}", cell.variant, cell.setting.name);
            measures.insert(format!("{name}/ratio"), baseline / here);
            measures.insert(format!("{name}/saving"), baseline - here);
        }
    }
    // Slope of the queueing delay over the RTT: the shorter the RTT, the longer the queue (ls-aimd H2).
    if let (Some(short), Some(long)) = (mean("aimd", "4E"), mean("aimd", "4H")) {
        measures.insert("aimd/slope".to_owned(), (long - short) / 750.0);
    }
    for variant in variants(cells) {
        for mtu in [1500, 9000] {
            let here = cells.iter().filter(|cell| cell.variant == variant);
            let here: Vec<_> = here.filter(|cell| cell.setting.mtu == mtu && is_crowd(cell)).collect();
            extremes(measures, &format!("{variant}/{mtu}"), &here);
        }
    }
}

/// Inserts the extremes over the settings of one packet size.
fn extremes(measures: &mut Measures, name: &str, cells: &[&Cell<'_>]) {
    let all = |what: &'static str| cells.iter().map(move |cell| cell.median(what));
    let mut insert = |what: &str, value| measures.insert(format!("{name}/{what}"), value);
    insert("mean-least", smallest(all("mean")));
    insert("mean-most", largest(all("mean")));
    insert("utilisation-least", smallest(all("utilisation")));
    insert("marked-least", smallest(all("marked")));
    insert("marked-most", largest(all("marked")));
    insert("spread-most", largest(all("spread")));
}

/// Whether the setting has 16 flows.
fn is_crowd(cell: &Cell<'_>) -> bool {
    cell.setting.flows == 16
}

/// Returns the distinct names of the variants.
fn variants<'a>(cells: &[Cell<'a>]) -> BTreeSet<&'a str> {
    cells.iter().map(|cell| cell.variant).collect()
}

fn table(cells: &[Cell<'_>]) -> Table {
    let mut table = Table::new(
        "variant,setting,mean us,lowest mean,highest mean,deviation us,p95 us,p99 us,max us,utilisation,least of 10 ms,marked,spread of throughputs",
    );
    for cell in cells {
        let means = values(&cell.runs, "mean");
        let mut row = vec![cell.variant.to_owned(), cell.setting.name.to_owned()];
        row.push(format!("{:.0}", cell.median("mean")));
        row.extend(means.first().iter().chain(&means.last()).map(|mean| format!("{mean:.0}")));
        row.extend(NUMBERS[1..5].iter().map(|what| format!("{:.0}", cell.median(what))));
        row.extend(NUMBERS[5..9].iter().map(|what| format!("{:.3}", cell.median(what))));
        table.rows.push(row);
    }
    table
}

/// Draws delay and utilisation over the RTT; or utilisation over delay when there are too many variants to
/// distinguish; or, with few settings, the distribution of the delay.
fn figure(cells: &[Cell<'_>]) -> Figure {
    if settings(cells).count() <= MAX_DISTRIBUTIONS {
        return distributions(cells);
    }
    let mut panels = Vec::new();
    for (mtu, what) in [(1500, "MTU 1500"), (9000, "MTU 9000")] {
        let here: Vec<&Cell<'_>> =
            cells.iter().filter(|cell| cell.setting.mtu == mtu && is_crowd(cell)).collect();
        if here.is_empty() {
            continue;
        }
        let title = format!("16 flows, 600 Mb/s, {what}");
        if variants(cells).len() > MAX_CURVES {
            panels.push(trade_off(&title, &here));
        } else {
            panels.extend(over_round_trip(&title, &here, &variants(cells)));
        }
    }
    Figure::curves(panels)
}

/// Returns the distinct settings of the cells.
fn settings(cells: &[Cell<'_>]) -> impl Iterator<Item = &'static Setting> {
    SETTINGS.iter().filter(|setting| cells.iter().any(|cell| cell.setting.name == setting.name))
}

/// Draws the queueing delay of every variant, labelled with its utilisation.
fn distributions(cells: &[Cell<'_>]) -> Figure {
    let mut marks = Vec::new();
    for setting in settings(cells) {
        for cell in cells.iter().filter(|cell| cell.setting.name == setting.name) {
            let utilisation = cell.median("utilisation");
            marks.push(BoxMark {
                name: format!("{} {}, utilisation {utilisation:.3}", setting.name, cell.variant),
                quantiles: QUANTILES.map(|(name, _)| cell.median(name)),
                null: false,
            });
        }
    }
    Figure::Boxes { axis: "queueing delay, us".to_owned(), marks }
}

/// Returns mean queueing delay in us, and utilisation.
fn point(cell: &Cell<'_>) -> (f64, f64) {
    (cell.median("mean"), cell.median("utilisation"))
}

fn over_round_trip(title: &str, cells: &[&Cell<'_>], variants: &BTreeSet<&str>) -> [Panel; 2] {
    let x = "round trip without queue, us";
    let mut delay = Panel::new(title, x, "mean queueing delay, us").logarithmic();
    let mut utilisation = Panel::new("", x, "utilisation").with_y_range(MIN_UTILISATION, 1.0);
    for name in variants {
        let points = |what: &str| {
            let of = cells.iter().filter(|cell| cell.variant == *name);
            of.map(|cell| (cell.setting.base as f64, cell.median(what))).collect()
        };
        delay = delay.with(Curve::line(name, points("mean")));
        utilisation = utilisation.with(Curve::line(name, points("utilisation")));
    }
    [delay, utilisation]
}

/// Draws a line per setting through the variants in the order of their names, and the points of `auto`.
fn trade_off(title: &str, cells: &[&Cell<'_>]) -> Panel {
    let mut panel =
        Panel::new(title, "mean queueing delay, us", "utilisation").with_y_range(MIN_UTILISATION, 1.0);
    for setting in
        SETTINGS.iter().filter(|setting| cells.iter().any(|cell| cell.setting.name == setting.name))
    {
        let of = cells.iter().copied().filter(|cell| cell.setting.name == setting.name);
        let fixed = of.filter(|cell| cell.variant != "auto").map(|cell| point(cell)).collect();
        panel = panel.with(Curve::line(&format!("round trip {} us", setting.base), fixed));
    }
    let auto = cells.iter().filter(|cell| cell.variant == "auto").map(|cell| point(cell)).collect();
    panel.with(Curve::dots("automatic", auto))
}
