//! Runs measurements over a session, one after the other.

use std::io::IsTerminal as _;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration as Span;

use headway_estimate::measure::{Answer, MAX_STREAM_PACKETS, Measurement, Method, SLOWEST, Series};
use headway_learned::Model;
use headway_net::asking::{drive, elapsed};
use headway_net::{ConnectOptions, LONGEST_REVERSE_STREAM, NetError, Session, StampSource};
use headway_program::lines::{Direction, MeasureLine};
use headway_record::csv;
use headway_units::{Bytes, Duration, Instant};
use indicatif::{ProgressBar, ProgressStyle};

use super::MeasureArgs;
use super::report::{self, Context};
use super::streams::StreamWriter;
use super::watch::Watch;
use crate::metrics::{MeasureMetrics, Prepared};
use headway_program::build::stamped;
use headway_program::connection::{failure_code, net_failure};
use headway_program::exit::{Code, Failed};
use headway_program::time::now;
use headway_program::{out, print_error, print_line};

/// Interval at which a pause between measurements checks for Ctrl-C.
const NAP: Span = Span::from_millis(100);

/// A pause this long closes the session: NATs on the way forget UDP flows after 30 s, and a server should not
/// hold a place for a client that measures only every five minutes.
const KEEP_OPEN: Span = Span::from_secs(15);

/// Pause before another attempt in a series without pauses.
const RETRY: Duration = Duration::from_ms(1_000);

/// Runs all requested measurements and prints the answers.
pub(super) fn run(args: &MeasureArgs, json: bool) -> Result<(), Failed> {
    let interrupted = Arc::new(AtomicBool::new(false));
    headway_program::connection::stop_on_signals(&interrupted)?;
    let (method, model) = args.method()?;
    let mut runner = Runner {
        args,
        json,
        method,
        model,
        options: ConnectOptions {
            stop: Some(Arc::clone(&interrupted)),
            gaps: args.gaps.gaps(),
            ..args.connection.options(&args.host)?
        },
        session: None,
        counted: Cost::default(),
        clock: std::time::Instant::now(),
        series: None,
        streams: args.streams.as_deref().map(StreamWriter::create).transpose()?,
        interrupted,
        watch: args.watch.then(|| Watch::new(&args.host.name)),
        metrics: Prepared::read(&args.metrics, args.connection.token_file())?
            .map(MeasureMetrics::start)
            .transpose()?,
        shown: false,
    };
    if args.csv {
        print_line(csv::header(report::csv_row(&MeasureLine::default())).trim_end())?;
    }
    runner.repeat()
}

/// Bytes sent and received by a session.
#[derive(Clone, Copy, Debug, Default)]
struct Cost {
    probes: u64,
    control: u64,
}

impl Cost {
    fn of(session: &Session) -> Cost {
        Cost { probes: session.probe_bytes().get(), control: session.control_bytes().get() }
    }
}

struct Runner<'a> {
    args: &'a MeasureArgs,
    /// Whether answers and errors are printed as JSON.
    json: bool,
    method: Method,
    /// The trained model of the learned method.
    model: Option<Arc<Model>>,
    options: ConnectOptions,
    session: Option<Session>,
    /// The part of the session's cost already reported with earlier answers.
    counted: Cost,
    /// The clock of the series.
    clock: std::time::Instant,
    series: Option<Series>,
    streams: Option<StreamWriter>,
    interrupted: Arc<AtomicBool>,
    watch: Option<Watch>,
    metrics: Option<MeasureMetrics>,
    /// Whether an answer of the current measurement was printed, even one without a rate.
    shown: bool,
}

impl Runner<'_> {
    fn repeat(&mut self) -> Result<(), Failed> {
        self.series = self.args.repeat_every().map(|every| Series::new(every, elapsed(self.clock)));
        let series = self.series.is_some();
        let last = self.args.count.unwrap_or(if series { u64::MAX } else { 1 });
        let mut answered = false;
        for number in 1..=last {
            let failed = self.once().err();
            answered |= failed.is_none();
            let is_last = number == last;
            match &failed {
                None => {}
                // In a series the next measurement may succeed; the last decides if none did.
                Some(failed) if series && failed.code != Code::Interrupted && (answered || !is_last) => {
                    self.report(failed)?;
                }
                Some(_) => return failed.map_or(Ok(()), Err),
            }
            if !is_last {
                self.wait_for_next(failed.is_some())?;
            }
        }
        Ok(())
    }

    fn directions(&self) -> &'static [Direction] {
        match (self.args.both, self.args.reverse) {
            (true, _) => &[Direction::Forward, Direction::Reverse],
            (_, true) => &[Direction::Reverse],
            _ => &[Direction::Forward],
        }
    }

    /// Measures once in each requested direction; returns the first failure after all were tried.
    fn once(&mut self) -> Result<(), Failed> {
        let directions = self.directions();
        self.shown = false;
        let mut outcome = Ok(());
        for (direction, left) in directions.iter().zip((1..=directions.len() as i64).rev()) {
            match self.measure(*direction, left) {
                Err(failed) if failed.code == Code::Interrupted => return Err(failed),
                result => outcome = outcome.and(result),
            }
        }
        outcome
    }

    /// Measures and prints one answer, even if it is partial or a failure. The `left` measurements share the
    /// time until the next one of the series.
    fn measure(&mut self, direction: Direction, left: i64) -> Result<(), Failed> {
        self.connect()?;
        let room = self.series.as_ref().and_then(|series| series.room(elapsed(self.clock)));
        let interval = self.series.as_ref().map(Series::interval);
        let Some(session) = &mut self.session else { return Ok(()) };
        let most = session.reverse_rate();
        if direction == Direction::Reverse && most < SLOWEST {
            let reason = anyhow::anyhow!(
                "the server sends at {most} at most, but {SLOWEST} is the least that can be measured; ask its \
                 operator to raise --max-rate"
            );
            return Err(Failed::new(Code::Refused, reason));
        }
        let spent = Bytes::new(Cost::of(session).probes - self.counted.probes);
        let config = self.args.config(self.method, direction, session, spent);
        let started = now();
        let clock = std::time::Instant::now();
        let mut measurement = Measurement::new(config, elapsed(clock)).with_model(self.model.clone());
        if let Some(room) = room {
            measurement = measurement.within(room / left);
        }
        if direction == Direction::Reverse {
            measurement = measurement.brief(LONGEST_REVERSE_STREAM);
        }
        let progress = progress(self.args, self.json);
        let mut stamps = (None, None);
        let (mut written, streams) = (Ok(()), &mut self.streams);
        let reverse = direction == Direction::Reverse;
        let broken = drive(session, reverse, &mut measurement, clock, |measurement, outcome| {
            stamps = (Some(outcome.receive_stamps), Some(outcome.send_stamps));
            written = streams.as_mut().map_or(Ok(()), |writer| writer.write(&outcome.record));
            show_progress(&progress, &measurement.answer());
            match written {
                Ok(()) if !self.interrupted.load(Ordering::Relaxed) => ControlFlow::Continue(()),
                _ => ControlFlow::Break(()),
            }
        });
        let broken = broken.err();
        written?;
        progress.finish_and_clear();
        let cost = Cost::of(session);
        let context = Context {
            host: self.args.host.name.clone(),
            direction,
            method: self.method,
            model: self.model.as_ref().map(|model| model.name().to_owned()),
            packet: config.packet,
            started,
            finished: started + clock.elapsed().into(),
            interval,
            rtt: session.rtt(),
            probes: Bytes::new(cost.probes - self.counted.probes),
            control: Bytes::new(cost.control - self.counted.control),
            receive_stamps: stamp_source(stamps.0),
            transmit_stamps: stamp_source(stamps.1),
            interrupted: self.interrupted.load(Ordering::Relaxed),
        };
        self.counted = cost;
        let answer = measurement.answer();
        self.print(&context, &answer)?;
        self.conclude(&context, &answer, broken)
    }

    /// Decides whether the printed answer counts as a success.
    fn conclude(
        &mut self,
        context: &Context,
        answer: &Answer,
        broken: Option<NetError>,
    ) -> Result<(), Failed> {
        if context.interrupted {
            return Err(Failed::new(
                Code::Interrupted,
                anyhow::anyhow!("interrupted; the result is partial"),
            ));
        }
        if let Some(error) = broken {
            self.session = None;
            return Err(net_failure(error));
        }
        match &answer.available {
            Ok(_) => Ok(()),
            Err(failure) => Err(Failed::new(failure_code(*failure), *failure)),
        }
    }

    /// Opens a session unless there is one.
    fn connect(&mut self) -> Result<(), Failed> {
        if self.session.is_some() {
            return Ok(());
        }
        let session = Session::connect(&self.options).map_err(net_failure)?;
        if session.max_packets() < MAX_STREAM_PACKETS {
            let allowed = session.max_packets();
            let reason = anyhow::anyhow!(
                "the server allows streams of {allowed} packets, but {MAX_STREAM_PACKETS} are needed; ask its \
                 operator to raise --max-stream-packets"
            );
            return Err(Failed::new(Code::Refused, reason));
        }
        self.counted = Cost::default();
        self.session = Some(session);
        Ok(())
    }

    fn print(&mut self, context: &Context, answer: &Answer) -> Result<(), Failed> {
        self.shown = true;
        if let Some(metrics) = &self.metrics {
            metrics.take(report::line(context, answer));
        }
        if let Some(watch) = &mut self.watch {
            drawn(watch.show(context, answer))?;
        } else if self.json {
            print_line(&serde_json::to_string(&stamped(report::line(context, answer)))?)?;
        } else if self.args.csv {
            print_line(csv::lines([report::csv_row(&report::line(context, answer))]).trim_end())?;
        } else {
            print_line(report::human(context, answer).trim_end())?;
        }
        Ok(())
    }

    /// Prints why one measurement of a series failed.
    fn report(&mut self, failed: &Failed) -> Result<(), Failed> {
        if let Some(metrics) = self.metrics.as_ref().filter(|_| !self.shown) {
            metrics.fail(self.directions());
        }
        if self.json {
            let text = anyhow::anyhow!("{failed}");
            return print_line(&Failed::new(failed.code, text).at_host(&self.args.host.name).to_json());
        }
        let (directions, shown) = (self.directions(), self.shown);
        match &mut self.watch {
            None => print_error!("headway: {failed}"),
            Some(_) if shown => {}
            Some(watch) => drawn(watch.fail(directions, &failed.to_string()))?,
        }
        Ok(())
    }

    /// Waits until the next measurement is due; tells the user if the interval had to be lengthened.
    fn wait_for_next(&mut self, failed: bool) -> Result<(), Failed> {
        let Some(series) = &mut self.series else { return Ok(()) };
        let before = series.interval();
        let mut begin = series.next(elapsed(self.clock));
        if failed && before == Duration::ZERO {
            begin += RETRY;
        }
        let kept = series.interval();
        if kept > before && self.watch.is_none() {
            print_error!(
                "headway: measurements take longer than {before} on this path; the interval is now {kept}"
            );
        }
        self.pause(begin)
    }

    /// Sleeps until `begin` on the clock of the series; returns early with an error on Ctrl-C.
    fn pause(&mut self, begin: Instant) -> Result<(), Failed> {
        let clock = self.clock;
        let left = || (begin - elapsed(clock)).max(Duration::ZERO).to_std();
        if left() >= KEEP_OPEN {
            self.session = None;
        }
        while !left().is_zero() {
            if self.interrupted.load(Ordering::Relaxed) {
                return Err(Failed::new(Code::Interrupted, anyhow::anyhow!("interrupted")));
            }
            std::thread::sleep(left().min(NAP));
        }
        Ok(())
    }
}

/// Ends the program if nobody looks at the live view any more.
fn drawn(result: std::io::Result<()>) -> std::io::Result<()> {
    match result {
        Err(reason) if out::is_broken_pipe(&reason) => std::process::exit(0),
        other => other,
    }
}

/// Prints a line; if nobody reads any more, as after `| head`, ends the program.
fn print_line(text: &str) -> Result<(), Failed> {
    print_line!("{text}");
    if out::is_closed() {
        std::process::exit(0);
    }
    Ok(out::check()?)
}

/// Returns a progress line, hidden unless on a terminal.
fn progress(args: &MeasureArgs, json: bool) -> ProgressBar {
    if json || args.csv || args.watch || !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::new_spinner();
    if let Ok(style) = ProgressStyle::with_template("{spinner} {elapsed_precise}  {msg}") {
        bar.set_style(style);
    }
    bar
}

fn show_progress(progress: &ProgressBar, answer: &Answer) {
    let so_far = match &answer.available {
        Ok(interval) => format!("about {}", interval.rate),
        Err(_) => "finding the range".to_owned(),
    };
    progress.set_message(format!("{} streams, {}, {so_far}", answer.streams_used, answer.bytes));
    progress.tick();
}

fn stamp_source(source: Option<StampSource>) -> String {
    match source {
        Some(StampSource::Hardware) => "NIC",
        Some(StampSource::Kernel) => "kernel",
        Some(StampSource::Program) => "program",
        None => "none",
    }
    .to_owned()
}
