//! Drives what asks by streams over a session: a measurement, or a question about one rate.

use std::ops::ControlFlow;

use headway_estimate::measure::{Measurement, Step};
use headway_estimate::question::Question;
use headway_estimate::{Refusal, Schedule, StreamRecord};
use headway_units::Instant;

use crate::{NetError, Session, StreamOutcome};

/// Something that says which streams to send, and takes what became of them.
pub trait Asking {
    /// Says what to do at a time.
    fn next_step(&mut self, now: Instant) -> Step;
    /// Takes what became of a stream.
    fn observe(&mut self, now: Instant, record: &StreamRecord, refusal: Option<Refusal>);
}

impl Asking for Measurement {
    fn next_step(&mut self, now: Instant) -> Step {
        Measurement::next_step(self, now)
    }

    fn observe(&mut self, now: Instant, record: &StreamRecord, refusal: Option<Refusal>) {
        Measurement::observe(self, now, record, refusal);
    }
}

impl Asking for Question {
    fn next_step(&mut self, now: Instant) -> Step {
        Question::next_step(self, now)
    }

    fn observe(&mut self, now: Instant, record: &StreamRecord, refusal: Option<Refusal>) {
        Question::observe(self, now, record, refusal);
    }
}

/// Returns the time since, on a clock that nobody steps.
pub fn elapsed(since: std::time::Instant) -> Instant {
    Instant::ZERO + since.elapsed().into()
}

/// Sends a stream to the server, or has it sent from there.
///
/// # Errors
/// That of the session.
pub fn stream(session: &mut Session, reverse: bool, schedule: &Schedule) -> Result<StreamOutcome, NetError> {
    if reverse { session.receive_stream(schedule) } else { session.send_stream(schedule) }
}

/// Sends all streams that are asked for, until the answer is there, or what sees them wants no more. What
/// asks has begun at the time zero of `clock`, or later.
///
/// # Errors
/// That of the session; what was learned before is kept.
pub fn drive<A: Asking>(
    session: &mut Session,
    reverse: bool,
    asking: &mut A,
    clock: std::time::Instant,
    mut seen: impl FnMut(&A, &StreamOutcome) -> ControlFlow<()>,
) -> Result<(), NetError> {
    loop {
        match asking.next_step(elapsed(clock)) {
            Step::Send(schedule) => {
                let outcome = stream(session, reverse, &schedule)?;
                asking.observe(elapsed(clock), &outcome.record, outcome.refusal);
                if seen(asking, &outcome).is_break() {
                    return Ok(());
                }
            }
            Step::Wait(time) => std::thread::sleep(time.to_std()),
            Step::Done => return Ok(()),
        }
    }
}
