//! A complete measurement: it chooses the streams, decides when to stop, and computes the answer.
//!
//! [`Measurement`] does no I/O. Its user sends the streams it requests and reports their fate:
//!
//! ```text
//! start-up     double the rate until the receive gaps grow          (rapid 2.14)
//! capacity     three short trains, which also set the scale of all thresholds (rapid 2.10)
//! pairs        packet pairs, if the gaps of those differ (default method only)
//! shaper       longer trains, if those fitted into a token bucket or no stream made the gaps grow
//! measure      streams near the available bandwidth, until certain, out of budget or out of time
//! policer      a long train at the end, and further ones once loss sets in after a burst (default method only)
//! ```
//!
//! # How it is divided
//!
//! ```text
//! start-up  ->  capacity  ->  response          (default: two posteriors over single-rate streams, mixed)
//!                         ->  shaped            (the same behind a token bucket, which every stream exhausts first)
//!                         ->  policed           (pulses, each of which exhausts the token bucket of a policer)
//!                         ->  track             (multi-rate methods: p-streams or chirps around the latest estimate)
//!                         ->  search            (single-rate methods: binary search)
//! ```
//!
//! The modules of `measure/` each answer one question:
//!
//! - `phase.rs`: the phases and the transitions between them; `evaluation.rs`: what those do that evaluate;
//! - `jitter.rs`: how much delays vary without queueing. Start-up streams measure it, and every later phase
//!   then requests longer streams;
//! - `queue_limit.rs`: how long the path's queue can become, and how much of it a stream may fill;
//! - `mixture.rs`: two readings of one queue (`estimate/response.rs`: while it was busy, and over whole
//!   streams) and that of several (`estimate/belief.rs`), mixed by their probabilities. Equal queues in
//!   series have no closed form: `estimate/series.rs` reads tables that `examples/series_table.rs` computes;
//! - `busy.rs`: how long streams met a queue, and how much cross traffic they may have missed in that time;
//! - `change.rs`: whether the available bandwidth changed during the measurement;
//! - `stalls.rs`: for how long the path delivered nothing;
//! - `series.rs`: when the measurements of a series start, and how long each may take;
//! - `pairs.rs`: where few gaps of the capacity trains are alike, the default method sends packet pairs,
//!   which tell the capacity instead, if they agree;
//! - `shaper_search.rs`: where the capacity trains fit into a token bucket, or no start-up stream met a
//!   queue, it sends longer trains before the method begins or before the answer is "at least";
//! - `policer_search.rs`: whether loss that sets in after a burst is that of a policer (`estimate/onset.rs`
//!   finds the packet); `policer_phase.rs` sends the last, long train of every measurement, `policed.rs`
//!   measures behind a policer. The same train shows shapers with a peak rate (`estimate/bend.rs`);
//! - `bucket.rs`: the size and fill level of a token bucket, which acts as a queue whose first bytes cause no
//!   delay. `estimate/knee.rs` finds the packet at which a train exhausts it.
//!
//! A `StreamRecord` holds the actual send and receive time of every packet. `net` fills it from kernel
//! timestamps; all estimators read it. A stream that cannot be used is reported with a `Refusal`, which
//! is counted and shown.

mod answer;
mod bucket;
mod busy;
mod capacity;
mod change;
mod conclude;
mod delay;
mod evaluation;
mod jitter;
mod marks;
mod method;
mod mixture;
mod observation;
mod pairs;
mod path_kind;
mod phase;
mod policed;
mod policer_phase;
mod policer_search;
mod probe;
mod queue_limit;
mod response;
mod search;
mod series;
mod shaped;
mod shaper_search;
mod stalls;
mod startup;
mod timestamp_resolution;
mod track;

pub use answer::{Answer, Claim, Failure, Interval, SLOWEST};
pub use change::Change;
pub use method::{Method, UnknownMethod};
pub use path_kind::PathKind;
pub use probe::wait_for_late;
pub use series::Series;
pub use stalls::Stalls;

#[cfg(any(test, feature = "sensitivity"))]
pub(crate) use response::{EVIDENCE, PACE, RESPONSE};

use std::sync::Arc;

use crate::bend::Bend;
use crate::stream::{Refusal, Schedule, StreamRecord};
use headway_learned::Model;
use headway_units::{Bytes, Duration, Instant, Rate};

use answer::Tally;
use bucket::Account;
use delay::Baseline;
use evaluation::{Known, Received};
use jitter::Span;
use phase::Phase;
use policer_search::PolicerSearch;
use probe::Probe;
use queue_limit::QueueLimit;
use shaper_search::ShaperSearch;
use stalls::StallSearch;
use startup::{Range, Startup};
use timestamp_resolution::TimestampResolution;

/// Number of packets in the longest stream of any method: the last train of the default
/// method in packets of 1 kB.
pub const MAX_STREAM_PACKETS: u32 = 2_048;

/// The parameters and limits of a measurement.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Config {
    /// The estimator.
    pub method: Method,
    /// Size of a probe packet on the wire.
    pub packet: Bytes,
    /// Maximum number of bytes to send, on the wire; `None` leaves the limit to the method (see [`Method`]).
    pub budget: Option<Bytes>,
    /// Whether to take more time, and to accept wider intervals rather than harm other traffic.
    pub gentle: bool,
    /// Maximum duration; `None` derives it from the path. A stream in progress is completed.
    pub duration: Option<Duration>,
    /// Round-trip time of the path, which every stream waits for.
    pub rtt: Duration,
    /// The highest average rate to probe.
    pub top_rate: Rate,
    /// The rate of the short trains that measure the capacity; it may exceed `top_rate`.
    pub train_rate: Rate,
}

/// The next action that a measurement requests.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Send a stream with these gaps and report it.
    Send(Schedule),
    /// Leave the path idle for this long, so that the queue built by the last stream can drain.
    Wait(Duration),
    /// The measurement is over and its answer final.
    Done,
}

/// The state of one measurement.
#[derive(Debug)]
pub struct Measurement {
    config: Config,
    /// The model of the learned method.
    model: Option<Arc<Model>>,
    started: Instant,
    phase: Phase,
    ready: Instant,
    available: Option<Rate>,
    capacity: Option<Rate>,
    timestamp_resolution: TimestampResolution,
    /// The highest rate that the receiver's timestamps resolve, if the trains came close to it.
    stamp_limit: Option<Rate>,
    /// The highest rate of a whole stream that the sender kept the gaps of and the path carried.
    paced: Option<Rate>,
    /// Whether the sender paces so badly that the answer is "at least" what it can show.
    is_limited: bool,
    /// Whether that was decided because it kept the gaps of no stream that evaluates.
    is_resigned: bool,
    /// The delay variation without queueing, if it is significant.
    jitter: Option<Span>,
    baseline: Baseline,
    queue_limit: QueueLimit,
    stalls: StallSearch,
    account: Account,
    shaper_search: ShaperSearch,
    policer_search: PolicerSearch,
    /// How the last train bent, as behind a shaper with a peak rate.
    bend: Option<Bend>,
    /// Time and bytes spent before the latest search for a policer, its first train included.
    before_search: (Duration, Bytes),
    /// Whether a stream contradicted "at least", so that what is available is measured after all, once.
    is_doubtful: bool,
    /// Time and bytes of searches that found none.
    searched: (Duration, Bytes),
    tally: Tally,
    /// When the last stream was reported.
    observed: Instant,
    /// The reason for giving up, if any.
    given_up: Option<Refusal>,
    probe: Probe,
    /// The time limit set by [`Measurement::within`].
    within: Option<Duration>,
    /// The limit set by [`Measurement::brief`].
    longest: Option<Duration>,
    /// When the last stream was requested, and its duration.
    sampled_from: Option<Instant>,
    asked: (Instant, Duration),
    /// The time between request and report of the last stream, beyond its duration.
    overhead: Duration,
}

impl Measurement {
    /// Creates a measurement that starts at `now`, on any monotonic clock that later calls share.
    pub fn new(config: Config, now: Instant) -> Measurement {
        Measurement {
            config,
            model: None,
            started: now,
            phase: Phase::Startup(Startup::new(config.packet, config.top_rate)),
            ready: now,
            available: None,
            capacity: None,
            timestamp_resolution: TimestampResolution::default(),
            stamp_limit: None,
            paced: None,
            is_limited: false,
            is_resigned: false,
            jitter: None,
            baseline: Baseline::default(),
            queue_limit: QueueLimit::new(config.gentle),
            stalls: StallSearch::default(),
            account: Account::default(),
            shaper_search: ShaperSearch::default(),
            policer_search: PolicerSearch::default(),
            bend: None,
            before_search: (Duration::ZERO, Bytes::ZERO),
            is_doubtful: false,
            searched: (Duration::ZERO, Bytes::ZERO),
            observed: now,
            tally: Tally::default(),
            given_up: None,
            probe: Probe::default(),
            within: None,
            longest: None,
            sampled_from: None,
            asked: (now, Duration::ZERO),
            overhead: Duration::ZERO,
        }
    }

    /// Gives the learned method a model, which must be that of the method (see [`Method::of_model`]).
    pub fn with_model(self, model: Option<Arc<Model>>) -> Measurement {
        Measurement { model, ..self }
    }

    /// Limits the duration to `time`, at the cost of a wider interval if necessary.
    ///
    /// If no answer is possible in that time, the measurement ends as soon as there is one.
    pub fn within(self, time: Duration) -> Measurement {
        Measurement { within: Some(time), ..self }
    }

    /// Limits the duration of the streams that look for token buckets and measure behind policers, the
    /// longest of the default method, to `longest`: where others wait for the sender. Large buckets
    /// then remain unseen.
    pub fn brief(self, longest: Duration) -> Measurement {
        Measurement { longest: Some(longest), ..self }
    }

    /// Returns when the first of the streams that the answer rests on was requested: the answer is about the
    /// time from then on. `None` before.
    pub fn sampled_from(&self) -> Option<Instant> {
        self.sampled_from
    }

    /// Returns the next stream to send, or that the measurement is over.
    pub fn next_step(&mut self, now: Instant) -> Step {
        let refused = self.outside().is_some() || self.unbearable_jitter().is_some();
        if refused || self.given_up.is_some() || self.too_slow().is_some() {
            return Step::Done;
        }
        self.check_for_policer(now);
        self.check_for_overflow(now);
        let next = self.next_stream(now).filter(|schedule| self.is_affordable(now, schedule));
        let Some(schedule) = next.or_else(|| self.begin_last_train(now)) else { return Step::Done };
        let drained_in = (self.ready - now).max(Duration::ZERO);
        if drained_in > Duration::ZERO {
            return Step::Wait(drained_in);
        }
        self.asked = (now, schedule.duration());
        if let Phase::Evaluation(_) = self.phase {
            self.sampled_from.get_or_insert(now);
        }
        Step::Send(schedule)
    }

    /// Returns the next stream of the present phase, unless it is complete.
    fn next_stream(&self, now: Instant) -> Option<Schedule> {
        let sent_at = now.max(self.ready);
        // Since the last packet, including the wait for lost ones.
        let since_sent = sent_at - (self.asked.0 + self.asked.1);
        match &self.phase {
            Phase::Startup(startup) => Some(startup.schedule()),
            Phase::Capacity(capacity) => Some(capacity.schedule()),
            Phase::Pairs(pairs) => Some(pairs.schedule()),
            Phase::ShaperSearch(fallback) => Some(self.no_longer(self.longer_train(fallback))),
            Phase::PolicerSearch(search) => Some(match &search.train {
                Some(train) => train.clone(),
                None => self.no_longer(self.policer_search.schedule(self.config.packet, since_sent)),
            }),
            Phase::Evaluation(phase) => phase.schedule(&Known {
                account: &self.account,
                queue_limit: &self.queue_limit,
                baseline: &self.baseline,
                overflows: self.overflows(),
                since_sent,
                since_report: sent_at - self.observed + self.config.rtt,
            }),
            Phase::AtLeast(_) => None,
        }
    }

    /// Shortens a stream to the limit set by [`Measurement::brief`].
    fn no_longer(&self, schedule: Schedule) -> Schedule {
        match self.longest {
            Some(longest) => schedule.shortened(longest),
            None => schedule,
        }
    }

    /// Returns whether budget and time suffice for this stream.
    fn is_affordable(&self, now: Instant, schedule: &Schedule) -> bool {
        if matches!(&self.phase, Phase::PolicerSearch(search) if search.train.is_some()) {
            // Its size is what remains.
            return true;
        }
        let budget = self.budget();
        let kept = if self.last_train_is_due() { Bytes::new(budget.get() / KEPT) } else { Bytes::ZERO };
        let over_budget = self.tally.bytes + schedule.bytes() + kept > budget;
        if over_budget || now - self.started >= self.time_limit() {
            return false;
        }
        let drained_in = (self.ready - now).max(Duration::ZERO);
        let over = now + drained_in + schedule.duration() + self.overhead - self.started;
        !(self.within.is_some_and(|within| over > within) && self.can_answer())
    }

    /// Records the fate of a stream: its packets, and the reason if the sender or a clock made it unusable.
    pub fn observe(&mut self, now: Instant, record: &StreamRecord, refusal: Option<Refusal>) {
        self.tally.sent(record);
        self.overhead = now - self.asked.0 - self.asked.1;
        self.allow_for_startup(now, record, refusal);
        let sorted = self.reads_sorted().then(|| record.in_order()).flatten();
        let overtaken = sorted.is_some();
        let record = sorted.as_ref().unwrap_or(record);
        let (refusal, part) = self.without_stall(record, refusal);
        let record = part.as_ref().unwrap_or(record);
        let outcome = match (refusal, &self.phase) {
            // Trains are sent as fast as possible; the actual rate does not matter.
            (None, _) => self.take_in(now, record, overtaken),
            (Some(Refusal::SenderGaps), phase) if phase.accepts_any_gaps(self.is_limited) => {
                self.take_in(now, record, overtaken)
            }
            (Some(refusal), _) => Err(refusal),
        };
        if outcome == Err(Refusal::ClockStep) {
            // Delays from before the step cannot be compared with later ones.
            self.baseline.restart();
            self.queue_limit.restart();
            self.stalls.restart();
            self.account.clear();
            if let Phase::Evaluation(phase) = &mut self.phase {
                phase.restart();
            }
            self.sampled_from = None;
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

    /// Looks for stalls. Returns the refusal of the stream if one made it useless, and its longest part
    /// without one if that is of use.
    fn without_stall(
        &mut self,
        record: &StreamRecord,
        refusal: Option<Refusal>,
    ) -> (Option<Refusal>, Option<StreamRecord>) {
        let context = stalls::Context {
            asked: self.asked.0,
            capacity: self.capacity,
            free: self.free_share(),
            jitter: self.jitter.map_or(Duration::ZERO, |jitter| jitter.most),
            drops: self.phase.meets_policer(),
        };
        if refusal == Some(Refusal::ClockStep) {
            return (refusal, None);
        }
        let Some(longest) = self.stalls.observe(record, &context) else { return (refusal, None) };
        match &self.phase {
            _ if refusal.is_some() => (refusal, None),
            Phase::Evaluation(_) if self.config.method == Method::Response && longest.len() >= LEAST_PART => {
                (None, Some(record.part(longest)))
            }
            Phase::Evaluation(_) | Phase::PolicerSearch(_) => (Some(Refusal::Stalled), None),
            _ if self.stalls.leave_out() => (Some(Refusal::Stalled), None),
            _ => (None, None),
        }
    }

    /// Returns the capacity if it is known and below what can be measured.
    fn too_slow(&self) -> Option<Rate> {
        let known = !matches!(self.phase, Phase::Capacity(_) | Phase::Pairs(_));
        self.capacity.filter(|capacity| known && *capacity < SLOWEST.scale(ALMOST))
    }

    /// Returns the span of the jitter, if streams cannot outlast it.
    fn unbearable_jitter(&self) -> Option<Duration> {
        let carried = match &self.phase {
            Phase::Startup(startup) => startup.likely(),
            phase => self.available.or(phase.at_least()).unwrap_or_default(),
        };
        let jitter = self.jitter.filter(|jitter| !jitter.is_bearable(carried))?;
        (self.config.method == Method::Response).then_some(jitter.most)
    }

    /// Returns whether streams have filled a queue, so that others lost packets, too: then
    /// fewer bytes are spent.
    fn harms(&self) -> bool {
        self.config.method == Method::Response && self.queue_limit.overflows(&self.baseline) > 0
    }

    /// Returns whether other traffic loses packets so often that a wider interval is preferable.
    fn overflows(&self) -> bool {
        let bearable = if self.config.gentle { GENTLE_OVERFLOWS } else { OVERFLOWS };
        self.queue_limit.overflows(&self.baseline) > bearable
    }

    /// Returns whether there is an answer already.
    fn can_answer(&self) -> bool {
        self.phase.evaluation().is_some_and(|phase| phase.can_answer())
    }

    /// Returns how long the queue added by a stream takes to drain, beyond the round trip
    /// that has already passed.
    fn draining(&self, record: &StreamRecord) -> Duration {
        if let Phase::ShaperSearch(_) = self.phase {
            // Tokens need time, too, at least some of them.
            let queued =
                delay::delayed(record, &self.baseline).last().map_or(Duration::ZERO, |last| last.queueing);
            let drained_in = (self.shaper_search.refill() + queued).scale(2.0) - self.config.rtt;
            return drained_in.clamp(Duration::ZERO, MAX_WAIT);
        }
        match &self.phase {
            phase if phase.is_policed() => return Duration::ZERO,
            Phase::PolicerSearch(_) => {
                let queued = delay::growth(record).scale(2.0);
                if let Some(bend) = &self.bend {
                    return (bend.refill() + queued - self.config.rtt).clamp(Duration::ZERO, MAX_REFILL);
                }
                let drained_in = self.policer_search.refill(self.config.packet).max(queued) - self.config.rtt;
                return drained_in.clamp(Duration::ZERO, MAX_WAIT);
            }
            _ => {}
        }
        let drained_in = delay::growth(record).scale(1.0 / self.free_share()) - self.config.rtt;
        drained_in.clamp(Duration::ZERO, MAX_WAIT)
    }

    /// Returns the share of the capacity that is free, as far as known: a queue drains at that rate.
    fn free_share(&self) -> f64 {
        let share = match (self.estimate(), self.capacity) {
            (Some(available), Some(capacity)) => available.bps_f64() / capacity.bps_f64(),
            _ => USUAL_DRAIN_SHARE,
        };
        share.clamp(MIN_DRAIN_SHARE, 1.0)
    }

    /// Returns the available bandwidth as far as known.
    fn estimate(&self) -> Option<Rate> {
        self.phase.evaluation().and_then(|phase| phase.newest()).or(self.available)
    }

    /// Returns whether to sort reordered packets: the default method only needs the number
    /// of arrivals over time.
    fn reads_sorted(&self) -> bool {
        self.config.method == Method::Response
    }

    fn take_in(&mut self, now: Instant, record: &StreamRecord, overtaken: bool) -> Result<(), Refusal> {
        if record.lost() == record.arrivals.len() {
            return Err(Refusal::Lost);
        }
        // Its packets may be larger, and would start a new baseline.
        if let Phase::PolicerSearch(_) = self.phase {
            self.leave_policer_search(now, record);
            return Ok(());
        }
        if !self.phase.is_policed() {
            self.learn_from(record);
        }
        match &mut self.phase {
            Phase::Startup(startup) => {
                if record.lost() == 0 {
                    self.shaper_search.observe_rising(record, &self.baseline);
                }
                let range = startup.observe(record, overtaken, &mut self.probe)?;
                self.jitter = startup.jitter();
                self.paced = startup.paced();
                if let Some(range) = range {
                    self.enter(range);
                }
            }
            Phase::Capacity(capacity) => {
                capacity.observe(record, &mut self.probe)?;
                self.capacity = capacity.capacity().filter(|_| capacity.narrow());
                self.shaper_search.observe(record, &self.baseline);
                self.leave_capacity();
            }
            Phase::Pairs(pairs) => {
                pairs.observe(record);
                self.leave_pairs();
            }
            Phase::ShaperSearch(_) => {
                self.shaper_search.observe(record, &self.baseline);
                self.leave_shaper_search();
            }
            Phase::Evaluation(phase) => {
                let stream = Received { record, at: now - self.config.rtt / 2, overtaken };
                return phase.observe(&stream, &self.baseline, &mut self.probe);
            }
            Phase::AtLeast(_) | Phase::PolicerSearch(_) => {}
        }
        Ok(())
    }

    /// Allows as much more as a start-up stream took on a path with jitter, which it has to outlast, or from a
    /// sender that did not keep its gaps.
    fn allow_for_startup(&mut self, now: Instant, record: &StreamRecord, refusal: Option<Refusal>) {
        let is_long = self.jitter.is_some() || refusal == Some(Refusal::SenderGaps);
        if matches!(self.phase, Phase::Startup(_)) && is_long {
            self.searched.0 += now - self.asked.0;
            self.searched.1 += record.packet * record.arrivals.len() as u64;
        }
    }

    /// Takes in what a stream tells about delays, queues and buckets, whatever the phase.
    fn learn_from(&mut self, record: &StreamRecord) {
        if self.config.method == Method::Response {
            let unqueued = matches!(self.phase, Phase::ShaperSearch(_));
            let full = self.queue_limit.is_full_in(record, &self.baseline);
            self.policer_search.notice(record, unqueued, full);
        }
        self.baseline.observe(record);
        self.queue_limit.observe(record);
        self.account.observe(record);
        self.timestamp_resolution.observe(record);
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
            Phase::Pairs(pairs) => {
                pairs.refused();
                self.leave_pairs();
            }
            Phase::ShaperSearch(_) => {
                self.shaper_search.refused();
                self.leave_shaper_search();
            }
            Phase::PolicerSearch(_) => self.resume(),
            Phase::Evaluation(phase) => phase.refused(refusal),
            _ => {}
        }
        if self.tally.refused_in_a_row < MAX_REFUSED_IN_A_ROW || self.is_verifying() {
            return;
        }
        // What start-up found must be verified by trains that the sender can pace.
        let rate = self.paced.max(self.available.map(|available| available.scale(SURELY_FREE)));
        let is_new = !std::mem::replace(&mut self.is_resigned, true);
        match rate.filter(|_| refusal == Refusal::SenderGaps && is_new && !self.can_answer()) {
            Some(rate) => self.enter(Range::SenderLimit(rate)),
            None => self.given_up = Some(refusal),
        }
    }

    fn time_limit(&self) -> Duration {
        let slow = self.capacity.or(self.available).is_some_and(|rate| rate < SLOW);
        let usual = USUAL_TIME * if slow { 2 } else { 1 } + self.config.rtt * ROUND_TRIPS + self.searched.0;
        let usual =
            if self.phase.meets_policer() { usual.max(self.before_search.0) + POLICED_TIME } else { usual };
        self.config.duration.unwrap_or(usual * if self.config.gentle { GENTLE_TIME } else { 1 })
    }

    fn budget(&self) -> Bytes {
        let usual = || {
            let whole = self.config.method.budget(self.config.packet, self.capacity).get();
            let share = match (self.harms(), self.config.gentle) {
                (true, _) => AFTER_OVERFLOW,
                (false, true) => GENTLE_BUDGET,
                (false, false) => 1.0,
            };
            let budget = Bytes::new((whole as f64 * share) as u64) + self.searched.1;
            let policed = self.phase.meets_policer();
            if policed { self.before_search.1.max(budget) + POLICED_EXTRA } else { budget }
        };
        self.config.budget.unwrap_or_else(usual)
    }
}

/// Sufficient time for the default method on paths of 100 Mb/s and more, without waiting for round trips.
const USUAL_TIME: Duration = Duration::from_ms(2_400);
/// Number of round trips that a measurement waits for, including start-up.
const ROUND_TRIPS: i64 = 40;
/// Below this rate a stream takes 100 ms or more, and the time limit is doubled.
const SLOW: Rate = Rate::from_bps(30_000_000);

/// Minimum drain rate of a queue as a share of the capacity, and maximum wait for it: the measurement need
/// not wait for bursts of cross traffic to drain.
const MIN_DRAIN_SHARE: f64 = 0.1;
/// The same while neither available bandwidth nor capacity are known.
const USUAL_DRAIN_SHARE: f64 = 0.5;
const MAX_WAIT: Duration = Duration::from_ms(300);
/// Maximum wait for the bucket of a shaper with a peak rate.
const MAX_REFILL: Duration = Duration::from_ms(1_000);

/// The fewest packets of a stream between two stalls that tell something: the shortest streams of the default
/// method have as many.
const LEAST_PART: usize = 24;

/// A capacity that is measured as this share of [`SLOWEST`] may be that.
const ALMOST: f64 = 0.95;

/// The number of packets lost to a full queue above which the default method stops with what it knows.
const OVERFLOWS: usize = 2;
const GENTLE_OVERFLOWS: usize = 0;
/// The share of the budget that remains once a stream has filled a queue, because what others lose goes with
/// the bytes that follow.
const AFTER_OVERFLOW: f64 = 0.2;
/// Streams leave this part of the budget for the last train. Where the interval is soon narrow, more is left.
const KEPT: u64 = 5;
/// A policer may cost this much more, because every stream exhausts the bucket, and takes this much longer,
/// because every stream waits for lost packets and for the bucket.
const POLICED_EXTRA: Bytes = Bytes::new(2_500_000);
const POLICED_TIME: Duration = Duration::from_ms(2_500);
/// Pause of a gentle measurement after each stream, as a multiple of the stream's duration, and the factors
/// on its time limit and budget.
const GENTLE_PAUSE: i64 = 3;
const GENTLE_TIME: i64 = 4;
const GENTLE_BUDGET: f64 = 0.5;

/// The share of what start-up found available that is tried where the sender keeps the gaps of no stream near
/// that.
const SURELY_FREE: f64 = 0.5;

/// Number of consecutive refused streams after which the measurement gives up.
const MAX_REFUSED_IN_A_ROW: u32 = 12;
