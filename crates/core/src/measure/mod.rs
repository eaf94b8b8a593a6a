//! A whole measurement: which stream to send next, when to stop, and the answer.
//!
//! [`Measurement`] does no I/O. Its user sends the streams it asks for and tells it what became of
//! them:
//!
//! ```text
//! start-up     double the rate until the receive gaps grow          (rapid 2.14)
//! capacity     three short trains, which also set the scale of all thresholds (rapid 2.10)
//! lengthening  longer trains where those fitted into a token bucket, or nothing made the gaps grow
//! measure      streams near what is free, until sure, out of budget or out of time
//! ```

mod answer;
mod bucket;
mod capacity;
mod change;
mod delay;
mod jitter;
mod knees;
mod marks;
mod method;
mod mixture;
mod path_kind;
mod phase;
mod probe;
mod response;
mod room;
mod search;
mod series;
mod shaped;
mod stamps;
mod startup;
mod track;

pub use answer::{Answer, Claim, Failure, Interval, SLOWEST};
pub use change::Change;
pub use method::Method;
pub use path_kind::PathKind;
pub use probe::settings;
pub use series::Series;

use crate::stream::{Refusal, Schedule, StreamRecord};
use crate::units::{Bytes, Duration, Instant, Rate};

use answer::Tally;
use bucket::Account;
use delay::Baseline;
use jitter::Span;
use knees::Knees;
use phase::Phase;
use probe::Probe;
use room::Room;
use stamps::Stamps;
use startup::Startup;

/// Packets that the longest stream of any method has.
pub const LONGEST_STREAM: u32 = response::GAP_LIMITS.1 + 1;

/// What to measure with and how much it may cost.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Config {
    /// The estimator.
    pub method: Method,
    /// Size of a probe packet on the wire.
    pub packet: Bytes,
    /// Bytes on the wire to spend at most; `None` lets the method decide (see [`Method`]).
    pub budget: Option<Bytes>,
    /// Whether to take more time and to answer with wider intervals where others would be harmed.
    pub gentle: bool,
    /// Time to spend at most; `None` suits the path. A stream that has begun is finished.
    pub duration: Option<Duration>,
    /// Round-trip time of the path, which every stream waits for.
    pub rtt: Duration,
    /// The highest average rate to try.
    pub top_rate: Rate,
    /// The rate of the short trains that measure the capacity; it may exceed the highest average rate.
    pub train_rate: Rate,
}

/// What a measurement wants done next.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Send a stream with these gaps and report it.
    Send(Schedule),
    /// Leave the path alone for this long, so that the queue which the last stream built can drain.
    Wait(Duration),
    /// Nothing more; the answer is final.
    Done,
}

/// The state of one measurement.
#[derive(Clone, Debug)]
pub struct Measurement {
    config: Config,
    started: Instant,
    phase: Phase,
    ready: Instant,
    available: Option<Rate>,
    capacity: Option<Rate>,
    stamps: Stamps,
    /// The highest rate that the receiver's stamps resolve, once trains have come near it.
    stamp_limit: Option<Rate>,
    /// How much delays vary where nothing queues, if that matters.
    jitter: Option<Span>,
    baseline: Baseline,
    room: Room,
    account: Account,
    knees: Knees,
    tally: Tally,
    /// When the last stream was reported.
    observed: Instant,
    /// Why no further stream is worth sending.
    given_up: Option<Refusal>,
    probe: Probe,
    /// The time that it should be over in.
    within: Option<Duration>,
    /// When the last stream was asked for, and how long it is.
    asked: (Instant, Duration),
    /// What that took beyond its own length.
    overhead: Duration,
}

impl Measurement {
    /// A measurement that begins at `now`, on any monotonic clock that later calls use too.
    pub fn new(config: Config, now: Instant) -> Measurement {
        Measurement {
            config,
            started: now,
            phase: Phase::Startup(Startup::new(config.packet, config.top_rate)),
            ready: now,
            available: None,
            capacity: None,
            stamps: Stamps::default(),
            stamp_limit: None,
            jitter: None,
            baseline: Baseline::default(),
            room: Room::new(config.gentle),
            account: Account::default(),
            knees: Knees::default(),
            observed: now,
            tally: Tally::default(),
            given_up: None,
            probe: Probe::default(),
            within: None,
            asked: (now, Duration::ZERO),
            overhead: Duration::ZERO,
        }
    }

    /// The same to be over within this time, with a wider interval if need be; where an answer takes longer, as soon as there is one.
    pub fn within(self, time: Duration) -> Measurement {
        Measurement { within: Some(time), ..self }
    }

    /// The next stream to send, or that the measurement is over.
    pub fn next_step(&mut self, now: Instant) -> Step {
        let schedule = match &self.phase {
            Phase::Startup(startup) => startup.schedule(),
            Phase::Capacity(capacity) => capacity.schedule(),
            Phase::Lengthening(found) => self.longer_train(found),
            Phase::Response(response) if !response.sure() && !self.does_harm() => {
                response.schedule(&self.room, &self.baseline)
            }
            Phase::Shaped(shaped) if !shaped.sure() && !self.does_harm() => {
                let idle = now.max(self.ready) - self.observed + self.config.rtt;
                shaped.schedule(&self.account, &self.room, &self.baseline, idle)
            }
            Phase::Track(track) if !track.sure() => track.schedule(),
            Phase::Search(search) if !search.sure() => search.schedule(),
            _ => return Step::Done,
        };
        if self.given_up.is_some() {
            return Step::Done;
        }
        let over_budget = self.tally.bytes + schedule.bytes() > self.budget();
        if over_budget || now - self.started >= self.time_limit() {
            return Step::Done;
        }
        let drained_in = (self.ready - now).max(Duration::ZERO);
        let over = now + drained_in + schedule.duration() + self.overhead - self.started;
        if self.within.is_some_and(|within| over > within) && self.has_enough() {
            return Step::Done;
        }
        if drained_in > Duration::ZERO {
            return Step::Wait(drained_in);
        }
        self.asked = (now, schedule.duration());
        Step::Send(schedule)
    }

    /// Takes in what became of a stream: what was seen of it, and why it cannot be used if its sender or a clock failed.
    pub fn observe(&mut self, now: Instant, record: &StreamRecord, refusal: Option<Refusal>) {
        self.tally.sent(record);
        self.overhead = now - self.asked.0 - self.asked.1;
        let sorted = self.reads_sorted().then(|| record.in_order()).flatten();
        let outcome = match (refusal, &self.phase) {
            // A train is to be sent as fast as the sender can; how fast that is does not matter.
            (None, _) | (Some(Refusal::SenderGaps), Phase::Capacity(_) | Phase::Lengthening(_)) => {
                self.take_in(now, sorted.as_ref().unwrap_or(record), sorted.is_some())
            }
            (Some(refusal), _) => Err(refusal),
        };
        if outcome == Err(Refusal::ClockStep) {
            // Delays from before the step cannot be compared with those after it.
            self.baseline.restart();
            self.room.restart();
            self.account.clear();
            match &mut self.phase {
                Phase::Response(response) => response.restart(),
                Phase::Shaped(shaped) => shaped.restart(),
                _ => {}
            }
        }
        match outcome {
            Ok(()) => self.tally.used += 1,
            Err(refusal) => {
                self.tally.refused(refusal);
                self.after_refusal(refusal);
            }
        }
        self.observed = now;
        let pause = if self.config.gentle { probe::sent_for(record) * GENTLE_PAUSE } else { Duration::ZERO };
        self.ready = now + self.draining(record).max(pause);
    }

    /// Whether others lose packets often enough that a wider interval is the better answer.
    fn does_harm(&self) -> bool {
        let answered = match &self.phase {
            Phase::Response(response) => response.spread().is_some(),
            Phase::Shaped(shaped) => shaped.spread().is_some(),
            _ => false,
        };
        let bearable = if self.config.gentle { GENTLE_OVERFLOWS } else { OVERFLOWS };
        answered && self.room.overflows(&self.baseline) > bearable
    }

    /// Whether there is an answer already.
    fn has_enough(&self) -> bool {
        match &self.phase {
            Phase::Response(response) => response.has_enough(),
            Phase::Shaped(shaped) => shaped.spread().is_some(),
            Phase::Track(track) => track.interval().is_some(),
            Phase::Search(search) => search.interval().is_some(),
            _ => false,
        }
    }

    /// How long the queue that a stream added takes to drain beyond the round trip that has passed already.
    fn draining(&self, record: &StreamRecord) -> Duration {
        if let Phase::Lengthening(_) = self.phase {
            // Also for tokens, at least some of them.
            let queued =
                delay::delayed(record, &self.baseline).last().map_or(Duration::ZERO, |last| last.queueing);
            let drained_in = (self.knees.refill() + queued).scale(2.0) - self.config.rtt;
            return drained_in.clamp(Duration::ZERO, LONGEST_WAIT);
        }
        let (Some(available), Some(capacity)) = (self.estimate(), self.capacity) else {
            return Duration::ZERO;
        };
        let share = (available.bps_f64() / capacity.bps_f64()).clamp(LEAST_SHARE, 1.0);
        let drained_in = delay::growth(record).scale(1.0 / share) - self.config.rtt;
        drained_in.clamp(Duration::ZERO, LONGEST_WAIT)
    }

    /// The available bandwidth as far as known.
    fn estimate(&self) -> Option<Rate> {
        match &self.phase {
            Phase::Response(response) => response.newest().or(self.available),
            Phase::Shaped(shaped) => shaped.spread().map(|spread| spread.median).or(self.available),
            _ => self.available,
        }
    }

    /// Whether packets that overtook others are put back in order: the default method needs no more than how many had arrived when.
    fn reads_sorted(&self) -> bool {
        self.config.method == Method::Response
    }

    fn take_in(&mut self, now: Instant, record: &StreamRecord, overtaken: bool) -> Result<(), Refusal> {
        if record.lost() == record.arrivals.len() {
            return Err(Refusal::Lost);
        }
        self.baseline.observe(record);
        self.room.observe(record);
        self.account.observe(record);
        self.stamps.observe(record);
        match &mut self.phase {
            Phase::Startup(startup) => {
                if record.lost() > 0 {
                    return Err(Refusal::Lost);
                }
                self.knees.observe_rising(record, &self.baseline);
                let range = startup.observe(record, overtaken, &mut self.probe)?;
                self.jitter = startup.jitter();
                if let Some(range) = range {
                    self.enter(range);
                }
            }
            Phase::Capacity(capacity) => {
                capacity.observe(record, &mut self.probe)?;
                self.capacity = capacity.capacity().filter(|_| capacity.narrow());
                self.knees.observe(record, &self.baseline);
                self.leave_capacity();
            }
            Phase::Lengthening(_) => {
                self.knees.observe(record, &self.baseline);
                self.leave_lengthening();
            }
            Phase::Shaped(shaped) => return shaped.observe(record, &self.baseline),
            Phase::Response(response) => {
                return response.observe(
                    now - self.config.rtt / 2,
                    record,
                    &self.baseline,
                    &mut self.probe,
                    overtaken,
                );
            }
            Phase::Track(track) => return track.observe(record),
            Phase::Search(search) => return search.observe(record),
            Phase::AtLeast(_) => {}
        }
        Ok(())
    }

    fn after_refusal(&mut self, refusal: Refusal) {
        match &mut self.phase {
            Phase::Startup(startup) => {
                if let Some(range) = startup.refused(refusal) {
                    self.enter(range);
                }
            }
            Phase::Capacity(capacity) => {
                capacity.refused();
                self.leave_capacity();
            }
            Phase::Lengthening(_) => {
                self.knees.refused();
                self.leave_lengthening();
            }
            Phase::Search(search) => search.refused(refusal),
            _ => {}
        }
        if self.tally.refused_in_a_row >= MOST_REFUSED_IN_A_ROW {
            self.given_up = Some(refusal);
        }
    }

    fn time_limit(&self) -> Duration {
        let slow = self.capacity.or(self.available).is_some_and(|rate| rate < SLOW);
        let usual = USUAL_TIME * if slow { 2 } else { 1 } + self.config.rtt * ROUND_TRIPS;
        self.config.duration.unwrap_or(usual * if self.config.gentle { GENTLE_TIME } else { 1 })
    }

    fn budget(&self) -> Bytes {
        self.config.budget.unwrap_or_else(|| self.config.method.budget(self.config.packet, self.capacity))
    }
}

/// Time that suffices for the default method on paths of 100 Mb/s and more, without the waiting for round trips.
const USUAL_TIME: Duration = Duration::from_ms(2_400);
/// Round trips that a measurement waits for, start-up included.
const ROUND_TRIPS: i64 = 40;
/// On paths slower than this a stream takes a tenth of a second or more, and the time is doubled.
const SLOW: Rate = Rate::from_bps(30_000_000);

/// The least share of the capacity that a queue is taken to drain with, and the longest wait for it: bursts of cross
/// traffic are not the probing's to wait for.
const LEAST_SHARE: f64 = 0.1;
const LONGEST_WAIT: Duration = Duration::from_ms(300);

/// After more packets lost at the end of the queue than this the default method has to answer with what it knows.
const OVERFLOWS: usize = 2;
const GENTLE_OVERFLOWS: usize = 0;
/// A gentle measurement pauses so many times as long as a stream lasted, and has so many times as much time.
const GENTLE_PAUSE: i64 = 3;
const GENTLE_TIME: i64 = 4;

/// Streams refused one after the other after which going on is pointless.
const MOST_REFUSED_IN_A_ROW: u32 = 12;
