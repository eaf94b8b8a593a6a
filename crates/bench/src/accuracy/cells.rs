//! Cells of tables about real packets: repeated runs of each, what came of them, and how they are shown.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use comfy_table::{Cell, CellAlignment, Table, presets};
use serde::Serialize;

use headway_program::progress::Progress;
use headway_program::{out, print_error, print_line};
use headway_runs::testbed::{self, Scored, Testbed};
use headway_units::statistics::median;

/// Attempts per cell and requested run before the machine counts as too busy.
const TRIES_PER_RUN: u32 = 3;

/// The measurements of one cell.
#[derive(Debug, Default, Serialize)]
pub(super) struct Runs {
    pub(super) runs: Vec<Scored>,
    /// Runs that the machine disturbed.
    pub(super) void_runs: u32,
    pub(super) failures: Vec<String>,
}

/// What watches over the cells: progress, and whether Ctrl-C was pressed.
pub(crate) struct Watch {
    progress: Progress,
    interrupted: Arc<AtomicBool>,
    runs: u32,
}

impl Watch {
    fn is_interrupted(&self) -> bool {
        self.interrupted.load(Ordering::Relaxed)
    }

    /// Calls `once`, with what `prepare` makes of the number of the run, until it has given as many valid
    /// results as wanted, or failures; `None` is a run that the machine disturbed, which is repeated, but not
    /// forever. Returns the results, the disturbed runs and the failures.
    ///
    /// # Errors
    /// The first of `prepare`.
    pub(crate) fn repeat<P, T>(
        &self,
        prepare: impl Fn(u64) -> anyhow::Result<P>,
        once: impl Fn(P) -> anyhow::Result<Option<T>>,
    ) -> anyhow::Result<(Vec<T>, u32, Vec<String>)> {
        let (mut results, mut void, mut failures) = (Vec::new(), 0, Vec::new());
        for number in 1..=u64::from(self.runs * TRIES_PER_RUN) {
            if results.len() + failures.len() >= self.runs as usize || self.is_interrupted() {
                break;
            }
            match once(prepare(number)?) {
                Ok(None) => {
                    void += 1;
                    continue;
                }
                Ok(Some(result)) => results.push(result),
                Err(error) => failures.push(format!("{error:#}")),
            }
            self.progress.step();
        }
        Ok((results, void, failures))
    }

    /// Measures until there are as many valid runs as wanted.
    pub(super) fn measure(&self, testbed: &Testbed, args: &[&str]) -> anyhow::Result<Runs> {
        let once = |()| Ok(Some(testbed.measure(args)?).filter(|scored| !scored.disturbed));
        let (runs, void_runs, failures) = self.repeat(|_| Ok(()), once)?;
        Ok(Runs { runs, void_runs, failures })
    }
}

/// Runs the cells of `plans` one after the other, each `runs` times, until Ctrl-C; `what`
/// says what is being done.
pub(crate) fn all<P, C>(
    plans: &[P],
    runs: u32,
    what: impl Fn(&P) -> String,
    cell: impl Fn(&P, u64, &Watch) -> anyhow::Result<C>,
) -> anyhow::Result<Vec<C>> {
    let interrupted = Arc::new(AtomicBool::new(false));
    signal_hook::flag::register(signal_hook::consts::SIGINT, Arc::clone(&interrupted))?;
    let progress = Progress::new(plans.len() as u64 * u64::from(runs));
    let watch = Watch { progress, interrupted, runs };
    let mut cells = Vec::new();
    for (index, plan) in plans.iter().enumerate() {
        watch.progress.show_activity(format!("cell {} of {}: {}", index + 1, plans.len(), what(plan)));
        cells.push(cell(plan, index as u64, &watch)?);
        if watch.is_interrupted() {
            break;
        }
    }
    if watch.is_interrupted() {
        drop(watch);
        print_error!("Interrupted: {} of {} cells, the last one incomplete.", cells.len(), plans.len());
    }
    Ok(cells)
}

/// Prints the cells, as JSON or as a table with sentences below it, and writes them to a
/// file, if one is named.
pub(crate) fn print(
    cells: &impl Serialize,
    json: bool,
    file: Option<&Path>,
    table: &Table,
    sentences: &[String],
) -> anyhow::Result<()> {
    let text = serde_json::to_string_pretty(cells)?;
    if json {
        out::document(&text);
    } else {
        print_line!("{table}");
        sentences.iter().for_each(|sentence| print_line!("{sentence}"));
    }
    if let Some(path) = file {
        testbed::write(path, &text)?;
        if !json {
            print_line!("every run: {}", path.display());
        }
    }
    Ok(())
}

impl Runs {
    /// The headers of [`Runs::columns`].
    pub(super) const COLUMNS: [&str; 10] =
        ["truth", "|error|", "worst", "bias", "covered", "cost", "time", "delay +", "displaced", "void"];

    /// Returns what came of the runs.
    pub(super) fn columns(&self) -> [String; 10] {
        let errors = self.errors();
        let worst = errors.iter().fold(0.0, |worst: f64, e| worst.max(e.abs()));
        let answered = self.answered();
        [
            format!("{:.1}", self.median_of(|run| run.truth_bps as f64 / 1e6)),
            format!("{:.1} %", self.median_error() * 100.0),
            format!("{:.1} %", worst * 100.0),
            format!("{:+.1} %", median(errors).unwrap_or(f64::NAN) * 100.0),
            format!("{}/{answered}", self.covered()),
            format!("{:.2} MB", self.median_of(|run| run.line.probe_bytes as f64 / 1e6)),
            format!("{:.2} s", self.median_of(|run| run.line.duration_ms / 1e3)),
            format!("{:.1} ms", self.median_of(|run| run.line.added_delay_median_us / 1e3)),
            self.displaced().to_string(),
            self.void_runs.to_string(),
        ]
    }

    /// Returns the number of valid runs.
    pub(super) fn answered(&self) -> usize {
        self.runs.len() + self.failures.len()
    }

    /// Returns the number of valid runs without an answer.
    pub(super) fn silent(&self) -> usize {
        self.answered() - self.errors().len()
    }

    fn errors(&self) -> Vec<f64> {
        self.runs.iter().filter_map(Scored::error).collect()
    }

    /// Returns the median absolute error; a run without an answer counts as wrong by the whole capacity.
    pub(super) fn median_error(&self) -> f64 {
        let mut errors: Vec<f64> = self.errors().iter().map(|e| e.abs()).collect();
        errors.resize(self.answered(), 1.0);
        median(errors).unwrap_or(1.0)
    }

    fn median_of(&self, value: impl Fn(&Scored) -> f64) -> f64 {
        median(self.runs.iter().map(value).collect()).unwrap_or(f64::NAN)
    }

    pub(super) fn covered(&self) -> usize {
        self.runs.iter().filter(|run| run.covered()).count()
    }

    pub(super) fn displaced(&self) -> u64 {
        self.runs.iter().map(|run| run.cross_displaced).sum()
    }
}

/// Says whether the intervals of enough runs hold the truth: 80 % is what is left of the nominal 90 % where
/// no more than a hundred runs or so tell.
pub(super) fn coverage<'a>(cells: impl Iterator<Item = &'a Runs> + Clone) -> String {
    let runs: usize = cells.clone().map(Runs::answered).sum();
    let covered: usize = cells.map(Runs::covered).sum();
    let reached = reached(covered * 5 >= runs * 4);
    format!("{reached}: the 90 % interval holds the truth in at least 80 % of runs ({covered} of {runs})")
}

/// Says what kept cells from their runs: a busy machine, or failures.
pub(super) fn troubles<'a>(cells: impl Iterator<Item = &'a Runs> + Clone, wanted: u32) -> Vec<String> {
    let mut troubles = Vec::new();
    let short = cells.clone().filter(|cell| cell.answered() < wanted as usize).count();
    if short > 0 {
        troubles
            .push(format!("the machine was too busy: {short} cells have fewer valid runs than requested"));
    }
    let failures: Vec<&String> = cells.flat_map(|cell| &cell.failures).collect();
    if let Some(reason) = failures.first() {
        troubles.push(format!("{} runs gave no answer, the first because: {reason}", failures.len()));
    }
    troubles
}

pub(crate) fn reached(yes: bool) -> &'static str {
    if yes { "reached" } else { "NOT reached" }
}

/// Returns a table with these headers and right-aligned rows.
pub(crate) fn table<'a>(
    header: impl IntoIterator<Item = &'a str>,
    rows: impl IntoIterator<Item = Vec<String>>,
) -> Table {
    let mut table = Table::new();
    table.load_style(presets::UTF8_HORIZONTAL_ONLY);
    table.set_header(header);
    for row in rows {
        table.add_row(row.into_iter().map(|text| Cell::new(text).set_alignment(CellAlignment::Right)));
    }
    table
}
