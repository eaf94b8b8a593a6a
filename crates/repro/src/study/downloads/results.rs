//! Numbers of all cells, what is gained over the first control, and the figure.

use headway_figures::{BoxMark, Curve, Figure, Panel};

use super::{Cell, Downloads, Numbers};
use crate::job::Job;
use crate::outcome::{Findings, Table};
use crate::statistics::{largest, quantile, smallest, sorted};

/// The numbers of a cell over its runs.
struct Done {
    /// Completion times of all downloads, ascending, s.
    completions: Vec<f64>,
    /// Median over runs of the time until all of a set have ended, s.
    set: f64,
    /// Median over runs of the time between the first and the last end of a set, as a
    /// share of the latter in %.
    apart: f64,
    /// Medians over runs, as in [`Numbers`].
    rtt: [f64; 7],
    drops: f64,
    jain: f64,
    timeouts: f64,
}

impl Done {
    fn new(runs: &[Numbers]) -> Done {
        let median = |of: &dyn Fn(&Numbers) -> f64| quantile(&sorted(runs.iter().map(of).collect()), 0.5);
        Done {
            completions: sorted(runs.iter().flat_map(|run| run.completions.clone()).collect()),
            set: median(&|run| largest(run.completions.iter().copied())),
            apart: median(&|run| {
                let last = largest(run.completions.iter().copied());
                100.0 * (1.0 - smallest(run.completions.iter().copied()) / last)
            }),
            rtt: std::array::from_fn(|index| median(&|run| run.rtt[index])),
            drops: median(&|run| run.drops),
            jain: median(&|run| run.jain),
            timeouts: median(&|run| run.timeouts),
        }
    }

    fn completion(&self, part: f64) -> f64 {
        quantile(&self.completions, part)
    }
}

/// Returns the numbers of all cells, whose runs are in the same order.
pub(super) fn evaluate(
    study: &Downloads,
    job: &Job<'_>,
    cells: &[Cell<'_>],
    runs: &[Vec<Numbers>],
) -> Findings {
    let done: Vec<Done> = runs.iter().map(|runs| Done::new(runs)).collect();
    let mut findings = Findings { table: table(cells, &done), ..Findings::default() };
    let mut first = 0;
    for (index, (cell, one)) in cells.iter().zip(&done).enumerate() {
        if cell.control.name == study.controls[0].name {
            first = index;
        }
        add(&mut findings, study, job, cell, one);
        add_gains(&mut findings, cell, one, &done[first]);
    }
    for flows in &study.flows {
        add_best(&mut findings, study, cells, *flows);
    }
    findings.figure = figure(study, cells, &done);
    findings
}

fn add(findings: &mut Findings, study: &Downloads, job: &Job<'_>, cell: &Cell<'_>, done: &Done) {
    let base = cell.rtt.ms();
    findings.add(
        &cell.name(),
        [
            ("completion", done.completion(0.5)),
            ("completion-p25", done.completion(0.25)),
            ("completion-p75", done.completion(0.75)),
            ("of-ideal", done.completion(0.5) / study.ideal(cell, job)),
            ("completion-spread", done.completion(0.75) - done.completion(0.25)),
            ("set", done.set),
            ("apart", done.apart),
            ("rtt-mean", done.rtt[0]),
            ("rtt-p95", done.rtt[5]),
            ("rtt-ratio", done.rtt[0] / base),
            ("rtt-max-ratio", done.rtt[6] / base),
            ("drops", done.drops),
            ("jain", done.jain),
            ("timeouts", done.timeouts),
        ],
    );
}

/// What a control gains over the first, in %: of the median completion time, and of the time until all
/// of a set have ended; and by how much the mean rate until then is higher, which a shorter time makes more.
fn add_gains(findings: &mut Findings, cell: &Cell<'_>, done: &Done, first: &Done) {
    let gain = |with: f64, without: f64| 100.0 * (1.0 - with / without);
    findings.add(
        &cell.name(),
        [
            ("gain", gain(done.completion(0.5), first.completion(0.5))),
            ("set-gain", gain(done.set, first.set)),
            ("faster", 100.0 * (first.completion(0.5) / done.completion(0.5) - 1.0)),
            ("set-faster", 100.0 * (first.set / done.set - 1.0)),
            // Above zero: three of four downloads are faster than three of four without.
            ("quartile-gain", gain(done.completion(0.75), first.completion(0.25))),
        ],
    );
}

/// Adds the largest gains in sets of so many downloads.
fn add_best(findings: &mut Findings, study: &Downloads, cells: &[Cell<'_>], flows: u64) {
    for what in ["gain", "set-gain", "faster", "set-faster"] {
        let others = cells.iter().filter(|cell| cell.flows == flows);
        let others = others.filter(|cell| cell.control.name != study.controls[0].name);
        let gains: Vec<f64> = others
            .filter_map(|cell| findings.measures.get(&format!("{}/{what}", cell.name())))
            .copied()
            .collect();
        findings.add("best", [(format!("{flows}/{what}"), largest(gains))]);
    }
}

fn table(cells: &[Cell<'_>], done: &[Done]) -> Table {
    let mut table = Table::new(
        "RTT ms,buffer,flows,control,completion s,completion p25,completion p75,last of a set,ends apart %,RTT mean ms,RTT deviation,RTT p25,RTT p50,RTT p75,RTT p95,RTT max,drops,Jain,timeouts",
    );
    for (cell, done) in cells.iter().zip(done) {
        let mut row = vec![format!("{:.0}", cell.rtt.ms()), cell.buffer.to_owned(), cell.flows.to_string()];
        row.push(cell.control.name.clone());
        row.extend([0.5, 0.25, 0.75].map(|part| format!("{:.2}", done.completion(part))));
        row.extend([format!("{:.2}", done.set), format!("{:.1}", done.apart)]);
        row.extend(done.rtt.map(|ms| format!("{ms:.1}")));
        row.extend([
            format!("{:.0}", done.drops),
            format!("{:.3}", done.jain),
            format!("{:.0}", done.timeouts),
        ]);
        table.rows.push(row);
    }
    table
}

/// Draws completion times over the RTT; with one RTT, the distribution of RTTs.
fn figure(study: &Downloads, cells: &[Cell<'_>], done: &[Done]) -> Figure {
    let cells = || cells.iter().zip(done);
    if study.rtts.len() == 1 {
        let mark = |(cell, done): (&Cell<'_>, &Done)| {
            let [_, _, low, middle, high, _, most] = done.rtt;
            BoxMark { name: cell.name(), quantiles: [cell.rtt.ms(), low, middle, high, most], null: false }
        };
        return Figure::Boxes {
            axis: "RTT, ms: without queue, quartiles, maximum".to_owned(),
            marks: cells().map(mark).collect(),
        };
    }
    let panel = |buffer: &String, flows: u64| {
        let title = format!("{flows} downloads, buffer {buffer}");
        let panel = Panel::new(&title, "RTT without queue, ms", "median completion, s");
        study.controls.iter().fold(panel, |panel, control| {
            let own = cells().filter(|(cell, _)| {
                cell.buffer == buffer && cell.flows == flows && cell.control.name == control.name
            });
            let points = own.map(|(cell, done)| (cell.rtt.ms(), done.completion(0.5))).collect();
            panel.with(Curve::line(&control.name, points))
        })
    };
    let buffers = study.buffers.keys();
    Figure::curves(
        buffers
            .flat_map(|buffer| study.flows.iter().map(move |flows| (buffer, *flows)))
            .map(|(buffer, flows)| panel(buffer, flows)),
    )
}
