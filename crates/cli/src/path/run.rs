//! Runs one measurement over a session.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use headway_estimate::Refusal;
use headway_estimate::locate::{Config, Locator, Phase, Step};
use headway_net::{ConnectOptions, NetError, Session, StampSource, TrainOutcome};
use headway_units::{Bytes, Duration, Instant};

use super::pairs::PairWriter;
use super::report::{Context, human, line, why};
use super::{PathArgs, figure};
use crate::output_file::OutputFile;
use headway_program::build::stamped;
use headway_program::connection::{net_failure, stop_on_signals};
use headway_program::exit::{Code, Failed};
use headway_program::progress::Progress;
use headway_program::time::now;
use headway_program::{out, print_line};

/// Largest packet of pairs and trains, on the wire: larger ones may be fragmented or dropped on later links.
const LARGEST: Bytes = Bytes::new(1538);

/// Packets of surveys, on the wire.
const SMALL: Bytes = Bytes::new(128);

/// Noise of the kernel's timestamps and of the routers on the way.
const QUANTUM: Duration = Duration::from_us(5);

/// Steps of the progress bar.
const STEPS: u64 = 100;

pub(super) fn run(args: &PathArgs, json: bool) -> Result<(), Failed> {
    let interrupted = Arc::new(AtomicBool::new(false));
    stop_on_signals(&interrupted)?;
    let options = ConnectOptions {
        carrier: args.carrier.into(),
        stop: Some(Arc::clone(&interrupted)),
        ..args.connection.options(&args.host)?
    };
    let mut writer = args.pairs.as_deref().map(PairWriter::create).transpose()?;
    let mut session = Session::connect(&options).map_err(net_failure)?;
    let mut report = args.report.as_deref().map(OutputFile::open).transpose()?;
    // All sockets and files are open, and no thread has been started.
    headway_privileges::drop_all_but(&[]).map_err(anyhow::Error::from)?;
    let clock = std::time::Instant::now();
    let mut locator = Locator::new(config(args, &session), elapsed(clock));
    let driven = drive(&mut locator, &mut session, writer.as_mut(), clock);
    let answer = locator.answer();
    let context = Context {
        host: args.host.name.clone(),
        address: session.peer().ip(),
        rtt: session.rtt(),
        time: elapsed(clock) - Instant::ZERO,
        probes: session.probe_bytes(),
        control: session.control_bytes(),
        packet: config(args, &session).packet,
        carrier: options.carrier,
        interrupted: interrupted.load(Ordering::Relaxed),
    };
    if json {
        out::document(&serde_json::to_string(&stamped(line(&context, &answer)))?);
    } else {
        print_line!("{}", human(&context, &answer).trim_end());
    }
    if let Some(file) = &mut report {
        file.write(&figure::draw(&context, &locator, &answer)?)?;
    }
    if let Some(writer) = writer {
        writer.finish()?;
    }
    if context.interrupted {
        return Err(Failed::new(Code::Interrupted, anyhow::anyhow!("interrupted; the result is partial")));
    }
    driven?;
    let tight = answer.tight.and_then(Result::err);
    match answer.narrow.err().or(tight) {
        None => Ok(()),
        Some(refused) => Err(Failed::new(Code::Untrustworthy, anyhow::anyhow!(why(&context, &refused)))),
    }
}

fn config(args: &PathArgs, session: &Session) -> Config {
    Config {
        packet: session.packet_size().min(LARGEST),
        small: SMALL,
        // The packets that found the largest size count, too.
        budget: Bytes::new(args.budget().get().saturating_sub(session.probe_bytes().get())),
        time: args.time(),
        rule: args.rule(),
        all: args.all,
        tight: args.tight,
        quantum: QUANTUM,
        most_packets: session.max_packets(),
        seed: now().ns(),
    }
}

/// Sends what the measurement asks for until it is over.
fn drive(
    locator: &mut Locator,
    session: &mut Session,
    mut writer: Option<&mut PairWriter>,
    clock: std::time::Instant,
) -> Result<(), Failed> {
    let progress = Progress::new(STEPS);
    let mut phase = None;
    while let Step::Send { schedule, replies } = locator.next_step(elapsed(clock)) {
        if phase.replace(locator.phase()) != Some(locator.phase()) {
            progress.show_activity(activity(locator.phase()));
        }
        let outcome = match session.send_trains(&schedule, replies) {
            Ok(outcome) => outcome,
            Err(NetError::Interrupted) => return Ok(()),
            Err(error) => return Err(net_failure(error)),
        };
        let replies: Vec<_> = outcome.replies.iter().map(|reply| (reply.hops, reply.from)).collect();
        locator.observe_duplicates(outcome.duplicates as usize);
        locator.observe(&outcome.trains, &replies, refusal(&outcome));
        if let Some(writer) = &mut writer {
            writer.write(&outcome, schedule.packet)?;
        }
        let (share, _) = locator.progress(elapsed(clock));
        progress.reach((share * STEPS as f64) as u64, STEPS);
    }
    Ok(())
}

/// Returns why a stream cannot be used. Without kernel timestamps the times of packets
/// read together are equal.
fn refusal(outcome: &TrainOutcome) -> Option<Refusal> {
    let unstamped = outcome.receive_stamps == StampSource::Program && !outcome.trains.is_empty();
    outcome.refusal.or(unstamped.then_some(Refusal::TooShort))
}

fn activity(phase: Phase) -> String {
    match phase {
        Phase::Survey => "counting hops".to_owned(),
        Phase::Pairs => "capacity of the narrow link".to_owned(),
        Phase::Trains(hop) => format!("trains up to hop {hop}"),
        Phase::Prefix(hop) => format!("capacity up to hop {hop}"),
        Phase::Tight => "streams for the tight link".to_owned(),
        Phase::Recheck => "counting hops again".to_owned(),
        Phase::Done => "done".to_owned(),
    }
}

/// Returns the time on the measurement's own clock, which nobody steps.
fn elapsed(since: std::time::Instant) -> Instant {
    Instant::ZERO + since.elapsed().into()
}
