//! Transfers of this host's TCP through the dumbbell of passive experiments, as real packets
//! over an emulated link.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::Duration as Span;

use headway_capture::Live;
use headway_dataset::dumbbell::{Dumbbell, Truth};
use headway_dataset::windows::Watched;
use headway_lab::{Direction, Lab, Life};
use headway_scenario::{Buffer, BufferSize, LinkSpec, Scenario, TrafficSpec};
use headway_units::{Bytes, Instant, Rate};
use headway_worlds::{Background, Demand, Event, TcpFlows, disturbed};

use crate::context::Error;
use crate::job::Job;
use crate::recording::Recording;

/// Nodes of the sender and the receiver.
const NODES: [&str; 2] = ["client", "server"];
/// Where the sender is tapped.
const INTERFACE: &str = "eth0";
/// Wire bytes of a full packet.
const PACKET: u64 = 1_538;
/// Rate of the way back, as in the simulator.
const BACK: Rate = Rate::from_bps(1_000_000_000);
/// Attempts of a run before it is left out.
const TRIES: usize = 3;
/// How long the tap waits for packets, and how often it is checked whether the work was cancelled.
const PAUSE: Span = Span::from_millis(50);

/// What a tap at the sender saw.
#[derive(Clone, Debug)]
pub(crate) struct Emulated {
    pub(crate) watched: Watched,
    pub(crate) recording: Recording,
}

/// Runs the flows of a dumbbell with the stack of this host until its end, whatever their size; attempts that
/// the machine disturbed do not count. Returns how many these are, too, and `None` where no other is left.
/// `name` describes the run.
///
/// # Errors
/// [`Error::World`] where there can be no lab, and [`Error::Interrupted`].
pub(crate) fn watch(
    job: &Job<'_>,
    dumbbell: &Dumbbell,
    seed: u64,
    name: &str,
) -> Result<(Option<Emulated>, usize), Error> {
    if let Some(report) = job.options.report {
        report(Event::Started(name));
    }
    for void in 0..TRIES {
        let found = run(job, dumbbell, seed);
        job.check()?;
        let found = found.map_err(|source| Error::World { run: name.to_owned(), source })?;
        if found.is_some() {
            return Ok((found, void));
        }
    }
    Ok((None, TRIES))
}

/// Returns `None` if the machine disturbed the run.
fn run(job: &Job<'_>, dumbbell: &Dumbbell, seed: u64) -> Result<Option<Emulated>, headway_worlds::Error> {
    let lab = Lab::up(&network(dumbbell, seed), &format!("dumbbell-{}", std::process::id()), Life::Owned)?;
    let stop = AtomicBool::new(false);
    let (recording, drops) = thread::scope(|scope| {
        let (ready, opened) = mpsc::channel();
        let tap = scope.spawn(|| lab.inside(NODES[0], || record(&stop, ready)));
        let flows = match opened.recv() {
            Ok(()) => send(job, &lab, dumbbell).map(Some),
            // The tap says why.
            Err(_) => Ok(None),
        };
        // The flows end after the tap.
        stop.store(true, Ordering::Relaxed);
        let seen = tap.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        flows?;
        Ok::<_, headway_worlds::Error>(seen??)
    })?;
    let Some(last) = recording.last() else { return Ok(None) };
    let log = lab.truth_until(last)?;
    let lateness = Direction::BOTH.map(|way| log.lateness_between(way, Instant::ZERO, last));
    if drops > 0 || lateness.iter().any(disturbed) {
        return Ok(None);
    }
    let (origin, truth) = truth(dumbbell, &log)?;
    Ok(Some(Emulated { watched: Watched::new(recording.flows(origin), truth), recording }))
}

/// Returns the dumbbell as one link; cross traffic exists in the emulator only.
fn network(dumbbell: &Dumbbell, seed: u64) -> Scenario {
    let ([client, server], delay) = (NODES, dumbbell.rtt / 2);
    let buffer = Some(BufferSize::Limit(Buffer::Bytes(Bytes::new(dumbbell.queue * PACKET))));
    let forward = LinkSpec { buffer, ..LinkSpec::at(client, server, dumbbell.capacity, delay) };
    let links = [forward, LinkSpec::at(server, client, BACK, delay)];
    let links = links.into_iter().map(|link| LinkSpec { duplex: false, ..link }).collect();
    let traffic = dumbbell.traffic().map(|traffic| TrafficSpec::new(client, server, traffic));
    Scenario { seed, interval: Truth::STEP, traffic: traffic.into_iter().collect(), ..Scenario::of(links) }
}

/// Starts the flows and waits until the end of the run.
fn send(job: &Job<'_>, lab: &Lab, dumbbell: &Dumbbell) -> Result<Background, headway_worlds::Error> {
    let controller = dumbbell.flows.first().map_or_else(String::new, |flow| flow.controller.to_string());
    let flows = TcpFlows {
        nodes: NODES.map(str::to_owned),
        controller,
        count: dumbbell.flows.len() as u32,
        demand: Demand::Greedy,
    };
    let flows = Background::start(lab, &[flows])?;
    let mut left = (dumbbell.end - Instant::ZERO).to_std();
    while !left.is_zero() && job.check().is_ok() {
        thread::sleep(left.min(PAUSE));
        left = left.saturating_sub(PAUSE);
    }
    Ok(flows)
}

/// Records the TCP packets of the interface until `stop` is set; returns how many were lost, too.
fn record(stop: &AtomicBool, ready: mpsc::Sender<()>) -> std::io::Result<(Recording, u64)> {
    let mut live = Live::open(INTERFACE).map_err(std::io::Error::other)?;
    // The receiver waits for this.
    let _ = ready.send(());
    let mut recording = Recording::default();
    while !stop.load(Ordering::Relaxed) {
        match live.packet() {
            Some((packet, outgoing)) => recording.push(&packet, outgoing),
            None => live.wait(PAUSE).map_err(std::io::Error::other)?,
        }
    }
    Ok((recording, live.drops()))
}

/// Returns the first moment of the emulator's log, from which times count, and the truth since then.
fn truth(dumbbell: &Dumbbell, log: &headway_lab::Truth) -> std::io::Result<(Instant, Truth)> {
    let intervals = log.intervals(Direction::Forward);
    let origin = intervals.first().map_or(Instant::ZERO, |first| first.start);
    let mut left = vec![0];
    let mut bits = 0;
    for (number, interval) in intervals.iter().enumerate() {
        if interval.start != origin + Truth::STEP * number as i64 || interval.length != Truth::STEP {
            return Err(std::io::Error::other("the emulator's log has a gap"));
        }
        bits += interval.cross_bits;
        left.push(bits / 8);
    }
    Ok((origin, Truth::new(dumbbell.capacity, left)))
}
