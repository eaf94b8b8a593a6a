//! Reads packets, refreshes the live table, and prints the results.

use std::fs::File;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant as Clock;

use anyhow::Context as _;
use headway_capture::ReadError;
use headway_learned::Model;
use headway_passive::{FlowRow, PathRow, Skipped, Tracker};
use headway_record::csv;
use headway_units::Instant;

use super::names::Names;
use super::page::History;
use super::source::{Failure, Source, Step, is_over};
use super::{PassiveArgs, lines, live, notes, page, table};
use crate::output_file::{self, OutputFile};
use headway_program::exit::{Code, Failed};
use headway_program::progress::Progress;
use headway_program::screen::Screen;
use headway_program::{out, print_error, print_line};

/// Files longer than this get a progress bar, bytes.
const LONG: u64 = 64 << 20;

/// Why a file is refused.
const UNSORTED: &str = "its packets are out of order by more than a second; `reordercap FILE NEW` sorts them";

pub(crate) fn run(args: &PassiveArgs, json: bool) -> Result<(), Failed> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        // The second signal ends the program at once.
        signal_hook::flag::register_conditional_shutdown(signal, 130, Arc::clone(&stop))?;
        signal_hook::flag::register(signal, Arc::clone(&stop))?;
    }
    let model = args.model()?;
    let source = Source::open(args)?;
    let csv = args.csv.as_deref().map(|path| {
        let file = output_file::create(path).with_context(|| format!("cannot write {}", path.display()))?;
        let sample = lines::csv_row(Instant::ZERO, &PathRow::default(), &mut Names::new(false));
        anyhow::Ok(csv::begin(file, sample)?)
    });
    let csv = csv.transpose()?;
    let report = args.report.as_deref().map(OutputFile::open).transpose()?;
    if args.interface.is_some() {
        // The ring and all files are open; from here on strangers' packets are read.
        headway_privileges::drop_all_but(&[]).map_err(anyhow::Error::from)?;
    }
    // A file that is not in order is read again from its start, unless what was read has been recorded.
    let records = csv.is_some() || report.is_some();
    let late = if source.is_live() {
        Late::Learned
    } else if records {
        Late::Expected
    } else {
        Late::Unexpected
    };
    let tracker = tracker(args, &source, model.as_ref(), late);
    let session = Session {
        args,
        json,
        model,
        names: Names::new(args.hide_addresses),
        history: args.report.is_some().then(History::default),
        csv,
        report,
        screen: Screen::new(source.is_live() && !json),
        source,
        tracker,
        late,
        before: 0,
        stop,
    };
    session.run()
}

/// What a tracker knows beforehand of packets that come behind later ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Late {
    Unexpected,
    /// It learns from the first seconds.
    Learned,
    Expected,
}

fn tracker(args: &PassiveArgs, source: &Source, model: Option<&Arc<Model>>, late: Late) -> Tracker {
    let mut tracker = Tracker::new(&args.options(source.speed()));
    args.filter.iter().for_each(|filter| tracker.set_filter(filter.clone()));
    model.into_iter().for_each(|model| tracker.set_model(Arc::clone(model)));
    if late != Late::Unexpected {
        tracker.expect_late(late == Late::Expected);
    }
    tracker
}

/// A run of the command.
struct Session<'a> {
    args: &'a PassiveArgs,
    json: bool,
    model: Option<Arc<Model>>,
    source: Source,
    tracker: Tracker,
    late: Late,
    /// Packets when the last interval ended.
    before: u64,
    names: Names,
    csv: Option<csv::Writer<File>>,
    report: Option<OutputFile>,
    history: Option<History>,
    screen: Screen,
    stop: Arc<AtomicBool>,
}

impl Session<'_> {
    fn run(mut self) -> Result<(), Failed> {
        let failures = self.read()?;
        // Also of a live capture, which a signal ends.
        self.tracker.finish();
        self.end_interval()?;
        self.screen.clear();
        if let Some(csv) = &mut self.csv {
            csv.flush().context("cannot write the CSV file")?;
        }
        self.print(&failures)?;
        // Of an interrupted capture, what is there counts.
        let failure = failures.into_iter().find(|failure| !matches!(failure.error, ReadError::Cut { .. }));
        if let Some(Failure { name, error }) = failure {
            return Err(anyhow::Error::from(error).context(name).into());
        }
        if self.tracker.counts().used == 0 {
            let filtered = self.tracker.counts().skipped(Skipped::Filtered) > 0;
            let passes = if filtered { " that passes the filter" } else { "" };
            let none = anyhow::anyhow!("there is no TCP connection{passes} in the capture");
            return Err(Failed::new(Code::Untrustworthy, none));
        }
        if self.stop.load(Ordering::Relaxed) && !self.source.is_live() {
            return Err(Failed::new(
                Code::Interrupted,
                anyhow::anyhow!("interrupted; the rest was not read"),
            ));
        }
        Ok(())
    }

    /// Reads until the end or a signal; returns the errors.
    fn read(&mut self) -> Result<Vec<Failure>, Failed> {
        let mut failures = Vec::new();
        let begun = Clock::now();
        let interval = self.args.interval.to_std();
        let length = self.args.duration.map(|length| length.to_std());
        let progress = self.source.progress().filter(|(_, length)| *length > LONG).map(|_| Progress::new(1));
        if let Some(progress) = &progress {
            progress.show_activity(format!("reading {}", self.name()));
        }
        // Of a file, intervals matter only where they are recorded.
        let records = self.csv.is_some() || self.history.is_some();
        let recorded = records.then_some(self.args.interval);
        let mut shown = Clock::now();
        while !self.stop.load(Ordering::Relaxed) && !out::is_closed() {
            let step = self.source.step(&mut self.tracker, recorded)?;
            let ended = matches!(step, Step::End);
            if let Step::Failed(failure) = step {
                failures.push(failure);
            }
            if ended {
                self.tracker.finish();
            }
            if !self.source.is_live() && self.late == Late::Unexpected && self.tracker.clock().late > 0 {
                self.late = Late::Expected;
                failures.clear();
                self.source = Source::open(self.args)?;
                self.tracker = tracker(self.args, &self.source, self.model.as_ref(), self.late);
                continue;
            }
            if !self.source.is_live() && self.tracker.clock().unsorted > 0 {
                return Err(anyhow::anyhow!(UNSORTED).context(self.name()).into());
            }
            if ended {
                break;
            }
            if self.source.is_live() {
                if shown.elapsed() >= interval {
                    shown = Clock::now();
                    // While nothing comes, nothing comes late.
                    let packets = self.tracker.counts().packets;
                    if std::mem::replace(&mut self.before, packets) == packets {
                        self.tracker.finish();
                    }
                    self.end_interval()?;
                }
            } else if is_over(&self.tracker, recorded) {
                self.end_interval()?;
            }
            if let (Some(progress), Some((done, all))) = (&progress, self.source.progress()) {
                progress.reach(done >> 20, all.max(done) >> 20);
            }
            if length.is_some_and(|length| begun.elapsed() >= length) {
                break;
            }
        }
        Ok(failures)
    }

    /// Shows and records what happened since the last interval.
    fn end_interval(&mut self) -> Result<(), Failed> {
        let Some(first) = self.tracker.first() else {
            self.screen.show(&live::waiting());
            return Ok(());
        };
        let rows = self.tracker.end_interval();
        let at = self.tracker.now();
        if let Some(csv) = &mut self.csv {
            for row in &rows {
                csv.serialize(lines::csv_row(at, row, &mut self.names))
                    .context("cannot write the CSV file")?;
            }
            if self.source.is_live() {
                csv.flush().context("cannot write the CSV file")?;
            }
        }
        if let Some(history) = &mut self.history {
            history.add((at - first).secs_f64(), &rows);
        }
        if self.source.is_live() {
            let drops = self.source.drops();
            if self.json {
                print_line!("{}", lines::interval(at, &rows, drops, &mut self.names));
            } else {
                let size = self.screen.size();
                self.screen.show(&live::lines(&rows, &self.tracker, drops, size, &mut self.names));
            }
        }
        Ok(())
    }

    /// Prints the result, and writes the report.
    fn print(&mut self, failures: &[Failure]) -> Result<(), Failed> {
        let drops = self.source.drops();
        let notes = notes::all(&self.tracker, drops, failures, self.args);
        let paths = self.tracker.paths();
        let per_flow = self.args.per_flow;
        if self.json {
            lines::print(&self.tracker, &paths, per_flow, drops, &notes, &mut self.names);
        } else {
            table::print(&self.tracker, &paths, per_flow, &mut self.names);
            for note in &notes {
                print_line!("{note}");
            }
        }
        if let (Some(history), Some(path)) = (&self.history, &self.args.report) {
            let flows: Vec<FlowRow> =
                self.tracker.each_flow().take(if per_flow { page::FLOWS } else { 0 }).collect();
            let html =
                page::html(&self.name(), &self.tracker, &paths, &flows, history, &notes, &mut self.names);
            if let Some(report) = &mut self.report {
                report.write(&html)?;
            }
            if !self.json {
                print_error!("The report is in {}.", path.display());
            }
        }
        Ok(())
    }

    /// Returns what the packets come from.
    fn name(&self) -> String {
        match (&self.args.interface, &self.args.files[..]) {
            (Some(name), _) => name.clone(),
            (None, [file]) if file.as_os_str() != "-" => file.display().to_string(),
            (None, [first, others @ ..]) if !others.is_empty() => {
                format!("{} and {} more", first.display(), others.len())
            }
            _ => "standard input".to_owned(),
        }
    }
}
