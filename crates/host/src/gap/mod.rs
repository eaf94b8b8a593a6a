//! Mechanisms by which a sender creates gaps between packets, with their errors (rapid 2.3, 2.4).
//!
//! The byte clock is the algorithm itself. Busy-waiting and the timer are error models calibrated on the
//! figures that rapid 4.1 publishes; their agreement with those figures says nothing about other hosts.

mod busy_wait;
mod byte_clock;
mod timer;

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use headway_units::{Bytes, Instant, Rate};
use serde::{Deserialize, Serialize};

use self::busy_wait::BusyWait;
pub use self::byte_clock::{ByteClock, Frame, MIN_PAUSE};
use self::timer::Timer;
use crate::LineClock;
use headway_traffic::random::generator;

/// A mechanism to create gaps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mechanism {
    /// PAUSE frames fill the gaps (rapid 2.3): exact to within 88 bytes, and errors do not accumulate.
    ByteClock,
    /// A process spins on a microsecond clock (rapid 2.4.1): every gap is up to a microsecond too short.
    ///
    /// It keeps gaps, not the schedule, and so runs ahead of the schedule until it sleeps for a
    /// gap of more than 2 ms.
    BusyWait,
    /// A kernel timer (rapid 2.4.2): correct on average, but at times expiries are deferred
    /// and handled together.
    Timer,
    /// Packets leave as scheduled, as far as the line rate permits.
    Exact,
}

impl Mechanism {
    /// Creates a sender of one flow on a line of positive rate; its largest packet has `packet` bytes.
    pub fn sender(self, line: Rate, packet: Bytes, seed: u64) -> GapSender {
        let rng = generator(seed, "gap", 0);
        let state = match self {
            Mechanism::ByteClock => State::ByteClock(ByteClock::new(line, packet)),
            Mechanism::BusyWait => State::BusyWait(BusyWait::new(0, 1, rng)),
            Mechanism::Timer => State::Timer(Timer::new(rng)),
            Mechanism::Exact => State::Exact,
        };
        GapSender { line, free: Instant::ZERO, state }
    }

    /// Returns when the packets of several flows of one host start on its line. Each flow gives the scheduled
    /// times of its packets, all of size `packet`; they must not decrease.
    pub fn departures(
        self,
        line: Rate,
        packet: Bytes,
        flows: &[Vec<Instant>],
        seed: u64,
    ) -> Vec<Vec<Instant>> {
        match self {
            Mechanism::ByteClock => byte_clock(line, packet, flows),
            Mechanism::BusyWait => processes(line, packet, flows, seed),
            Mechanism::Timer | Mechanism::Exact => merged(self.sender(line, packet, seed), packet, flows),
        }
    }
}

/// Sends the packets of one flow.
#[derive(Clone, Debug)]
pub struct GapSender {
    line: Rate,
    /// When the line becomes free.
    free: Instant,
    state: State,
}

#[derive(Clone, Debug)]
enum State {
    ByteClock(ByteClock),
    BusyWait(BusyWait),
    Timer(Timer),
    Exact,
}

impl GapSender {
    /// Returns when a packet scheduled for `scheduled` starts on the wire, which is after the
    /// previous packet has left.
    ///
    /// Times must not decrease. No mechanism but busy-waiting starts a packet early.
    pub fn depart(&mut self, scheduled: Instant, size: Bytes) -> Instant {
        let free = self.free;
        let departure = match &mut self.state {
            State::ByteClock(clock) => {
                clock.schedule(0, scheduled, size);
                next_packet(clock).map_or(free, |(_, departure)| departure).max(free)
            }
            State::BusyWait(process) => {
                let departure = process.ready(scheduled).max(free);
                process.sent(departure);
                departure
            }
            // A packet that is due before the line becomes free needs no timer.
            State::Timer(_) if scheduled <= free => free,
            State::Timer(timer) => timer.ready(scheduled).max(free),
            State::Exact => scheduled.max(free),
        };
        self.free = departure + self.line.time_for(size);
        departure
    }
}

/// Returns flow and departure of the next packet; `None` if nothing is scheduled.
fn next_packet(clock: &mut ByteClock) -> Option<(u32, Instant)> {
    clock.skip();
    loop {
        if let Frame::Packet { flow, departure, .. } = clock.dequeue()? {
            return Some((flow, departure));
        }
    }
}

fn byte_clock(line: Rate, packet: Bytes, flows: &[Vec<Instant>]) -> Vec<Vec<Instant>> {
    let mut clock = ByteClock::new(line, packet);
    for (flow, schedule) in flows.iter().enumerate() {
        for scheduled in schedule {
            clock.schedule(flow as u32, *scheduled, packet);
        }
    }
    let mut departures = vec![Vec::new(); flows.len()];
    while let Some((flow, departure)) = next_packet(&mut clock) {
        departures[flow as usize].push(departure);
    }
    departures
}

/// One sender for all flows, which takes packets in the order of their scheduled times.
fn merged(mut sender: GapSender, packet: Bytes, flows: &[Vec<Instant>]) -> Vec<Vec<Instant>> {
    let all =
        flows.iter().enumerate().flat_map(|(flow, schedule)| schedule.iter().map(move |at| (*at, flow)));
    let mut all: Vec<(Instant, usize)> = all.collect();
    all.sort_unstable();
    let mut departures = vec![Vec::new(); flows.len()];
    for (scheduled, flow) in all {
        departures[flow].push(sender.depart(scheduled, packet));
    }
    departures
}

/// One process per flow; packets leave in the order in which the processes send them.
fn processes(line: Rate, packet: Bytes, flows: &[Vec<Instant>], seed: u64) -> Vec<Vec<Instant>> {
    let mut line = LineClock::new(line);
    let mut processes: Vec<(BusyWait, std::slice::Iter<'_, Instant>)> = flows
        .iter()
        .enumerate()
        .map(|(i, schedule)| {
            (BusyWait::new(i, flows.len(), generator(seed, "gap", i as u64)), schedule.iter())
        })
        .collect();
    let mut departures = vec![Vec::new(); flows.len()];
    let mut ready = BinaryHeap::new();
    for (flow, (process, schedule)) in processes.iter_mut().enumerate() {
        ready.extend(schedule.next().map(|at| Reverse((process.ready(*at), flow))));
    }
    while let Some(Reverse((at, flow))) = ready.pop() {
        let departure = line.depart(at, packet);
        departures[flow].push(departure);
        let (process, schedule) = &mut processes[flow];
        process.sent(departure);
        ready.extend(schedule.next().map(|at| Reverse((process.ready(*at), flow))));
    }
    departures
}
