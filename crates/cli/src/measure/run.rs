//! Driving a session through one measurement after the other.

use std::io::IsTerminal as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration as Span, SystemTime, UNIX_EPOCH};

use headway_core::measure::{Answer, Config, Failure, Measurement, Step};
use headway_core::{Instant, Schedule};
use headway_net::{NetError, Session, StampSource, StreamOutcome};
use indicatif::{ProgressBar, ProgressStyle};

use super::report::{self, Context, Direction, Line};
use super::streams::StreamWriter;
use super::watch::Watch;
use super::{MeasureArgs, TOP_RATE};
use crate::exit::{Code, Failed};

/// How often a pause between measurements looks for Ctrl-C.
const NAP: Span = Span::from_millis(100);

/// How often a pause says to the server that this side is still there.
const KEEP_ALIVE: Span = Span::from_secs(30);

/// Measures as often as asked for and prints the answers.
pub(crate) fn run(args: &MeasureArgs) -> Result<(), Failed> {
    let interrupted = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        // The second Ctrl-C ends the program at once.
        signal_hook::flag::register_conditional_shutdown(signal, 130, Arc::clone(&interrupted))?;
        signal_hook::flag::register(signal, Arc::clone(&interrupted))?;
    }
    let mut runner = Runner {
        args,
        session: Session::connect(&args.connect_options()?).map_err(net_failure)?,
        writer: args.streams.as_deref().map(StreamWriter::create).transpose()?,
        interrupted,
        watch: args.watch.then(|| Watch::new(&args.host)),
    };
    if args.csv {
        println!("{}", report::CSV_HEADER);
    }
    runner.repeat()
}

struct Runner<'a> {
    args: &'a MeasureArgs,
    session: Session,
    writer: Option<StreamWriter>,
    interrupted: Arc<AtomicBool>,
    watch: Option<Watch>,
}

impl Runner<'_> {
    fn repeat(&mut self) -> Result<(), Failed> {
        let last = self.args.count.unwrap_or(if self.args.repeat_every().is_some() { u64::MAX } else { 1 });
        let mut number = 0;
        loop {
            let began = std::time::Instant::now();
            self.once()?;
            number += 1;
            if number >= last {
                return Ok(());
            }
            if let Some(interval) = self.args.repeat_every() {
                self.pause(began + interval.to_std())?;
            }
        }
    }

    /// One answer in each direction asked for.
    fn once(&mut self) -> Result<(), Failed> {
        let directions: &[Direction] = match (self.args.both, self.args.reverse) {
            (true, _) => &[Direction::Forward, Direction::Reverse],
            (_, true) => &[Direction::Reverse],
            _ => &[Direction::Forward],
        };
        for direction in directions {
            let (context, answer) = self.measure(*direction)?;
            self.print(&context, &answer)?;
            if context.interrupted {
                return Err(Failed::new(Code::Interrupted, anyhow::anyhow!("interrupted")));
            }
            // A single measurement without an answer fails; in a series the next one may succeed.
            if let (Err(failure), None) = (&answer.available, self.args.repeat_every()) {
                return Err(Failed::new(failure_code(*failure), *failure));
            }
        }
        Ok(())
    }

    fn measure(&mut self, direction: Direction) -> Result<(Context, Answer), Failed> {
        let config = Config {
            method: self.args.method,
            packet: self.session.packet_size(),
            budget: self.args.budget,
            duration: self.args.duration,
            rtt: self.session.rtt(),
            top_rate: match direction {
                Direction::Forward => TOP_RATE,
                Direction::Reverse => TOP_RATE.min(self.session.reverse_rate()),
            },
        };
        let control_before = self.session.control_bytes().get();
        let started = now();
        let clock = std::time::Instant::now();
        let mut measurement = Measurement::new(config, elapsed(clock));
        let progress = self.progress();
        let mut stamps = (None, None);
        while !self.interrupted.load(Ordering::Relaxed) {
            let schedule = match measurement.next_step(elapsed(clock)) {
                Step::Send(schedule) => schedule,
                Step::Wait(time) => {
                    std::thread::sleep(time.to_std());
                    continue;
                }
                Step::Done => break,
            };
            let outcome = self.stream(direction, &schedule).map_err(net_failure)?;
            stamps = (Some(outcome.received_by), Some(outcome.sent_by));
            measurement.observe(elapsed(clock), &outcome.record, outcome.refusal);
            if let Some(writer) = &mut self.writer {
                writer.write(&outcome.record)?;
            }
            show_progress(&progress, &measurement.answer());
        }
        progress.finish_and_clear();
        let answer = measurement.answer();
        let context = Context {
            host: self.args.host.clone(),
            direction,
            method: self.args.method,
            packet: config.packet,
            started,
            finished: now(),
            rtt: self.session.rtt(),
            control: headway_core::Bytes::new(self.session.control_bytes().get() - control_before),
            receive_stamps: stamp_source(stamps.0),
            transmit_stamps: stamp_source(stamps.1),
            interrupted: self.interrupted.load(Ordering::Relaxed),
        };
        Ok((context, answer))
    }

    fn stream(&mut self, direction: Direction, schedule: &Schedule) -> Result<StreamOutcome, NetError> {
        match direction {
            Direction::Forward => self.session.send_stream(schedule),
            Direction::Reverse => self.session.receive_stream(schedule),
        }
    }

    /// A line that tells how far the measurement is, on terminals only.
    fn progress(&self) -> ProgressBar {
        let machine = self.args.json || self.args.csv;
        if machine || self.watch.is_some() || !std::io::stderr().is_terminal() {
            return ProgressBar::hidden();
        }
        let bar = ProgressBar::new_spinner();
        if let Ok(style) = ProgressStyle::with_template("{spinner} {elapsed_precise}  {msg}") {
            bar.set_style(style);
        }
        bar
    }

    fn print(&mut self, context: &Context, answer: &Answer) -> Result<(), Failed> {
        if let Some(watch) = &mut self.watch {
            watch.show(context, answer)?;
        } else if self.args.json {
            if answer.available.is_ok() || context.interrupted || self.args.repeat_every().is_some() {
                println!("{}", serde_json::to_string(&Line::new(context, answer))?);
            }
        } else if self.args.csv {
            println!("{}", report::csv_row(&Line::new(context, answer)));
        } else {
            print!("{}", report::human(context, answer));
        }
        Ok(())
    }

    /// Sleeps until `until`, and returns early with an error on Ctrl-C.
    fn pause(&mut self, until: std::time::Instant) -> Result<(), Failed> {
        let mut alive = std::time::Instant::now();
        loop {
            let left = until.saturating_duration_since(std::time::Instant::now());
            if left.is_zero() {
                return Ok(());
            }
            if self.interrupted.load(Ordering::Relaxed) {
                return Err(Failed::new(Code::Interrupted, anyhow::anyhow!("interrupted")));
            }
            if alive.elapsed() >= KEEP_ALIVE {
                self.session.ping().map_err(net_failure)?;
                alive = std::time::Instant::now();
            }
            std::thread::sleep(left.min(NAP));
        }
    }
}

fn show_progress(progress: &ProgressBar, answer: &Answer) {
    let so_far = match &answer.available {
        Ok(interval) => format!("about {}", interval.rate),
        Err(_) => "finding the range".to_owned(),
    };
    progress.set_message(format!("{} streams, {}, {so_far}", answer.streams_used, answer.bytes));
    progress.tick();
}

/// `CLOCK_REALTIME`, as the emulator's log and other machines' logs have it.
fn now() -> Instant {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Instant::from_ns(u64::try_from(since.as_nanos()).unwrap_or(u64::MAX))
}

/// The measurement's own clock, which nobody steps.
fn elapsed(since: std::time::Instant) -> Instant {
    Instant::ZERO + since.elapsed().into()
}

fn stamp_source(source: Option<StampSource>) -> String {
    match source {
        Some(StampSource::Hardware) => "network card",
        Some(StampSource::Kernel) => "kernel",
        Some(StampSource::Program) => "program",
        None => "none",
    }
    .to_owned()
}

fn failure_code(failure: Failure) -> Code {
    match failure {
        Failure::AllLost => Code::Blocked,
        _ => Code::Untrustworthy,
    }
}

fn net_failure(error: NetError) -> Failed {
    let code = match &error {
        NetError::UnknownHost { .. }
        | NetError::NoAddress { .. }
        | NetError::Unreachable { .. }
        | NetError::NotHeadway { .. }
        | NetError::ConnectionLost(_)
        | NetError::Timeout(..)
        | NetError::Protocol(_) => Code::Unreachable,
        NetError::VersionMismatch { .. }
        | NetError::TlsRequired
        | NetError::TlsMissing
        | NetError::Tls(_)
        | NetError::TokenRequired
        | NetError::WrongToken
        | NetError::Refused(_) => Code::Refused,
        NetError::UdpBlockedForward { .. }
        | NetError::UdpBlockedReverse { .. }
        | NetError::UdpOtherAddress
        | NetError::MtuTooSmall { .. } => Code::Blocked,
        _ => Code::Other,
    };
    Failed::new(code, error)
}
