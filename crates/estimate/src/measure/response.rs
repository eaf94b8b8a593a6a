//! The default method: single-rate streams slightly above the available bandwidth, evaluated by rate response.

use std::ops::Range;

use crate::agreement::Agreement;
use crate::belief::{Belief, Segment};
use crate::response::Sample;
use crate::stream::{Arrival, Refusal, Schedule, StreamRecord};
use headway_units::{Bytes, Duration, Instant, Rate};

use super::busy::Busy;
use super::change::{Change, Changes, Context, StreamSample};
use super::conclude::LOW_IF_LOST;
use super::delay::Baseline;
use super::jitter::Span;
use super::marks::Marks;
use super::mixture::{LEVELS, Readings, Spread};
use super::observation::Observation;
use super::path_kind::PathKind;
use super::probe::{self, FULL_PACKET, Probe};
use super::queue_limit::QueueLimit;

/// Gaps in a stream: enough to average over bursts, few enough not to build a long queue.
pub(super) const STREAM_GAPS: u32 = 96;
/// Where queues in series are more likely than this, streams have so many times as many gaps: short ones do not tell several
/// queues from one.
const SUSPECTED: f64 = 0.3;
const LONGER: i64 = 3;
/// The same holds up to this multiple of the estimate, because such streams add little delay, and short ones do not raise the
/// suspicion.
const NEAR: f64 = 1.2;
/// Streams are shortened by varying amounts up to this share of their length, spread by the golden ratio.
const UNEVEN: f64 = 0.2;
const GOLDEN: f64 = 0.618_033_988_75;
/// Minimum duration of a stream, to span several coalesced interrupts (rapid 2.15: 120 us).
const MIN_DURATION: Duration = Duration::from_ms(1);
/// The same where trains showed none: at 10 Gb/s, longer streams would leave the budget room for three of them.
const MIN_DURATION_WITHOUT: Duration = Duration::from_us(250);
/// Maximum duration of a stream, so that slow paths are sampled more than once or twice.
const MAX_DURATION: Duration = Duration::from_ms(400);
/// On a path with jitter, a stream lasts this many times the jitter span, up to [`MAX_DURATION_WITH_JITTER`].
const SPANS: i64 = 8;
const MAX_DURATION_WITH_JITTER: Duration = Duration::from_ms(30);
/// Minimum and maximum number of gaps in a stream, regardless of its duration.
pub(super) const GAP_LIMITS: (u32, u32) = (24, 1024);

/// Before the first estimate, the available bandwidth may be as low as this share of the start-up result.
pub(super) const START_UNCERTAINTY: f64 = 0.5;
/// After a stream that met no queue, at least this share of its rate counts as available for the next one.
const QUIET_SHARE: f64 = 0.9;
/// The share of this rate that still counts after each stream that met a queue.
const FORGOTTEN: f64 = 0.75;
/// Packet times that a stream may add to the delay of any queue: a smaller growth could not be distinguished from
/// timestamp noise and cross packets.
pub(super) const MIN_ADDED: i64 = 4;
/// Packet times that a stream may add until a loss has revealed the length of the queue: every queue has
/// room for these.
pub(super) const USUALLY_ADDED: i64 = 24;
/// Assumed minimum growth of the delay in seconds per second, which limits streams below the available bandwidth.
pub(super) const SLOWEST_GROWTH: f64 = 0.02;

/// Probing rate as a multiple of the current estimate: low enough to sample for long with few bytes, high enough to
/// keep the queue busy during the pauses of bursty cross traffic.
const FACTOR: f64 = 1.35;
/// The multiple rises by the first factor after a stream that hardly met a busy queue, and falls by the
/// second after others.
const FACTOR_UP: f64 = 1.2;
const FACTOR_DOWN: f64 = 0.97;
/// Upper limit of the multiple.
const FACTOR_MAX: f64 = 3.0;
/// A baseline that falls by less than this share of a packet time counts as unchanged.
const SAME_BASELINE: f64 = 0.1;
/// A probability of a single queue that excludes one, and one that excludes several.
pub(super) const UNLIKELY: f64 = 0.2;
const LIKELY: f64 = 0.8;
/// Above this probability of a single queue, all streams use the most informative rate ...
const SETTLED: f64 = 0.9;
/// ... after this many streams. Until then, rates alternate, because only differences between rates reveal
/// the number of queues.
const MIN_STREAMS: usize = 4;
const CYCLE: [f64; 6] = [1.35, 1.1, 1.6, 0.95, 1.35, 1.2];
/// Even then, rates vary slightly, so that a wrong conclusion can be revised.
const AROUND: [f64; 3] = [1.0, 0.85, 1.2];
/// Error common to all streams (capacity, unaccounted headers) as a fraction of capacity; it is the minimum half
/// width of an interval.
const COMMON_ERROR: f64 = 0.015;
/// The same with a coalescing receiver, where the capacity is known from only a few events.
const COMMON_ERROR_COALESCED: f64 = 0.03;
/// Factors on the widths of the intervals, level by level, fitted to simulated paths. The readings allow for paths of many
/// kinds, and most paths are simple: without the factors, intervals of 50 % held 69 % of the truths.
const CALIBRATION: [f64; LEVELS.len()] = [0.54, 0.67, 0.8, 0.9];
/// Factor on the width of the interval if the available bandwidth changed: when it did is not known well, and the capacity may
/// have changed as well.
const CHANGED: f64 = 2.0;
/// Odds of a single queue on a path with jitter, where trains measure the capacity poorly.
const JITTERY_ODDS: f64 = 0.1;
/// Additional error if the tight link is not the narrow one: the delay then grows more slowly, and packets and
/// timestamps hide more of the growth.
const SEVERAL_ERROR: f64 = 0.03;
/// Correction for the start of a busy period, which becomes visible only once a cross packet has arrived. A sample of
/// regular cross traffic lacks half a packet on average, one of random traffic lacks none. The correction lies in
/// between, in full packets, and is at most [`MAX_BIAS`] of the capacity.
const END_BIAS: f64 = 0.25;
const MAX_BIAS: f64 = 0.05;
/// Share of a full packet by which the end of a busy period counts too much or too little.
const END_SHARE: f64 = 0.5;
/// The first packets of a stream find hosts asleep, which wake up about 50 us late; this delay would look like a
/// queue that exists from the start.
const LEAD: usize = 4;
/// They are dropped from streams with at least this many times as many packets.
const MIN_LEADS: usize = 10;
/// Packets that arrive closer together than this share of their time on the narrow link were held up after it; the
/// share allows for a measured capacity that is too low.
const CLOSEST: f64 = 0.8;
/// A stream that met a busy queue for less than this share of its duration is uninformative.
const BUSY_SHARE: f64 = 0.25;
/// Upper limit of the probing rate as a multiple of the capacity: a higher rate would only lengthen the queue.
const CAPACITY_MULTIPLE: f64 = 1.15;
/// Lower limit of the probing rate as a share of the capacity: a stream at a lower rate would take too long.
const LOWEST_SHARE: f64 = 0.02;

/// If more than this share of its packets is lost, the queue overflowed, and a stream is used only up to its first
/// loss (rapid 2.13).
const LOSS_TOLERANCE: f64 = 0.03;
/// The fewest packets before a loss that are used. Streams that met a burst lose packets early, so leaving them out would
/// leave out bursts.
const FEWEST_BEFORE_LOSS: usize = 8;
/// Gaps required before the interval may be narrow enough: five full-length streams.
const ENOUGH_GAPS: u32 = 5 * STREAM_GAPS;

#[derive(Clone, Debug)]
pub(super) struct Response {
    packet: Bytes,
    capacity: Rate,
    top: Rate,
    jitter: Option<Span>,
    /// Whether trains arrived in batches.
    coalescing: bool,
    current: Rate,
    factor: f64,
    /// The rate of the latest stream that met no queue, the lower the longer ago that was, and whether it was the last.
    quiet: Rate,
    met_none: bool,
    lowest: Option<Duration>,
    /// From the first stream to the end of what showed no change.
    time: Range<Instant>,
    observations: Vec<(Observation, Marks, Instant)>,
    changes: Changes,
    /// Gaps of all streams used.
    gaps: u32,
    /// All streams, and the rates of those in which the queue overflowed.
    streams: usize,
    overflowed: Vec<Rate>,
    readings: Readings,
    belief: Belief,
    agreement: Agreement,
    /// Probabilities of a single queue, and of equal queues in series.
    one_queue: f64,
    series: f64,
    sampled: bool,
    busy: Busy,
    coalesced: bool,
    jittery: u32,
    segments: Vec<Segment>,
    spread: Option<Spread>,
    /// The available bandwidth at the end of the measurement.
    newest: Option<Rate>,
    change: Option<Change>,
}

impl Response {
    pub(super) fn new(
        packet: Bytes,
        capacity: Rate,
        start: Rate,
        top: Rate,
        jitter: Option<Span>,
        coalescing: bool,
    ) -> Response {
        Response {
            packet,
            capacity,
            top,
            // Variation of less than a packet time is ordinary noise.
            jitter: jitter.filter(|jitter| jitter.most > capacity.time_for(packet)),
            coalescing,
            current: start.min(capacity),
            factor: FACTOR,
            quiet: Rate::ZERO,
            met_none: false,
            lowest: None,
            time: Instant::ZERO..Instant::ZERO,
            observations: Vec::new(),
            gaps: 0,
            streams: 0,
            overflowed: Vec::new(),
            changes: Changes::default(),
            readings: Readings::new(capacity),
            belief: Belief::new(packet, capacity),
            agreement: Agreement::default(),
            one_queue: 1.0,
            series: 0.0,
            sampled: false,
            busy: Busy::default(),
            coalesced: false,
            jittery: 0,
            segments: Vec::new(),
            spread: None,
            newest: None,
            change: None,
        }
    }

    /// Returns the size of the packets.
    pub(super) fn packet(&self) -> Bytes {
        self.packet
    }

    /// Returns the next stream, which fits the queue length that the path allows.
    pub(super) fn schedule(&self, queue_limit: &QueueLimit, baseline: &Baseline) -> Schedule {
        let packet_time = self.capacity.time_for(self.packet);
        let usual = packet_time * USUALLY_ADDED * if self.series > SUSPECTED { 2 } else { 1 };
        let allowed = queue_limit.allowed(baseline, usual).max(packet_time * MIN_ADDED);
        let shortest = match (self.coalesced, self.coalescing) {
            (false, _) if queue_limit.is_known(baseline) => Duration::ZERO,
            (false, false) => MIN_DURATION_WITHOUT,
            _ => MIN_DURATION,
        };
        let through = self.jitter.map_or(Duration::ZERO, |jitter| jitter.most);
        let (allowed, shortest) =
            (allowed.max(through), shortest.max((through * SPANS).min(MAX_DURATION_WITH_JITTER)));
        let rate = self.rate().min(self.max_rate_for(allowed.max(shortest)));
        let gap = rate.time_for(self.packet).ns().max(1);
        let longest = MAX_DURATION.min(allowed.scale(1.0 / self.growth(rate))).ns() / gap;
        let long = self.series > SUSPECTED || rate <= self.current.scale(NEAR);
        let gaps = i64::from(STREAM_GAPS) * if long { LONGER } else { 1 };
        let even = gaps.min(longest) as f64;
        let gaps = ((even * uneven(self.observations.len())) as i64).max(shortest.ns() / gap);
        Schedule::single_rate(rate, (gaps as u32).clamp(GAP_LIMITS.0, GAP_LIMITS.1) as usize, self.packet)
    }

    /// Returns the most informative rate.
    fn rate(&self) -> Rate {
        // Above the narrow link's rate its own queue fills, too, and hides the growth at another link. On an idle path
        // only such rates make a queue grow.
        let most = self.spread.map_or(self.current, |spread| spread.interval_90().1);
        let needed = most.scale(CAPACITY_MULTIPLE).max(self.capacity);
        let highest = needed.min(self.capacity.scale(CAPACITY_MULTIPLE)).min(self.top);
        let lowest = self.capacity.scale(LOWEST_SHARE).min(highest);
        let settled = self.one_queue > SETTLED && self.observations.len() >= MIN_STREAMS;
        let turn = self.observations.len();
        let factor =
            if settled { self.factor * AROUND[turn % AROUND.len()] } else { CYCLE[turn % CYCLE.len()] };
        let rising = if self.met_none { self.quiet.scale(FACTOR_UP) } else { Rate::ZERO };
        self.current.scale(factor).max(rising).clamp(lowest, highest)
    }

    /// Returns how fast a stream of this rate makes the delay grow, in seconds per second, at the lowest plausible
    /// available bandwidth.
    fn growth(&self, rate: Rate) -> f64 {
        (rate.saturating_sub(self.least()).bps_f64() / self.capacity.bps_f64()).max(SLOWEST_GROWTH)
    }

    /// Returns the highest rate at which the shortest stream adds no more than `allowed`.
    fn max_rate_for(&self, allowed: Duration) -> Rate {
        let shortest = self.capacity.time_for(self.packet) * i64::from(GAP_LIMITS.0);
        let share = 1.0 - allowed.secs_f64() / shortest.secs_f64();
        if share > 0.0 { self.least().scale(1.0 / share) } else { self.top }
    }

    /// Returns the lowest plausible available bandwidth.
    fn least(&self) -> Rate {
        let least =
            self.spread.map_or(self.current.scale(START_UNCERTAINTY), |spread| spread.interval_90().0);
        least.max(self.quiet.scale(QUIET_SHARE)).max(self.capacity.scale(LOWEST_SHARE))
    }

    /// Adds a stream; `jittery` tells whether some of its packets overtook others.
    pub(super) fn observe(
        &mut self,
        now: Instant,
        record: &StreamRecord,
        baseline: &Baseline,
        probe: &mut Probe,
        jittery: bool,
    ) -> Result<(), Refusal> {
        let before_loss;
        let mut record = record;
        self.streams += 1;
        if record.lost() as f64 > LOSS_TOLERANCE * record.arrivals.len() as f64 {
            self.overflowed.push(record.average);
            // The queue overflowed. Up to that point the stream is as informative as any; refusing it would leave
            // only calm moments.
            before_loss = record.before_loss();
            record = &before_loss;
            if record.arrivals.len() < FEWEST_BEFORE_LOSS {
                return Err(Refusal::Lost);
            }
        }
        let (observation, marks) = self.read(record, probe)?;
        let (sample, _) = observation.samples(baseline, self.packet, self.capacity);
        self.coalesced |= matches!(observation, Observation::Events(..));
        self.jittery += u32::from(marks.jittery || jittery);
        self.observations.push((observation, marks, now - probe::sent_for(record) / 2));
        self.gaps += record.arrivals.len() as u32;
        if self.observations.len() == 1 {
            self.time.start = now - probe::sent_for(record);
        }
        self.time.end = now;
        let fell = self.lowest.zip(baseline.lowest()).map(|(before, now)| before - now);
        if fell.is_some_and(|fell| fell <= self.capacity.time_for(self.packet).scale(SAME_BASELINE)) {
            self.take(self.observations.len() - 1, baseline);
        } else {
            self.lowest = baseline.lowest();
            self.readings = Readings::new(self.capacity);
            self.belief.clear();
            self.changes.clear();
            self.agreement = Agreement::default();
            self.sampled = false;
            self.busy = Busy::default();
            (0..self.observations.len()).for_each(|index| self.take(index, baseline));
        }
        self.conclude();
        self.choose_rate(record, sample);
        Ok(())
    }

    /// Adds a stream to both readings.
    fn take(&mut self, index: usize, baseline: &Baseline) {
        let (observation, marks, at) = &self.observations[index];
        let (sample, whole) = observation.samples(baseline, self.packet, self.capacity);
        if let Some(whole) = &whole {
            self.readings.whole.add(whole);
        }
        if let Some(sample) = sample {
            self.readings.busy.add(&sample);
            self.sampled = true;
            if !sample.censored {
                let capacity = self.capacity.bps_f64();
                let (rate, free) = (marks.rate.bps_f64() / capacity, sample.available_bps / capacity);
                self.busy.add(sample.duration, 1.0 - free);
                self.agreement.add(rate, free, sample.duration.secs_f64());
            }
        }
        marks.segments(baseline, &mut self.segments);
        self.belief.add(&self.segments, marks.timestamp_variance);
        self.changes
            .add(StreamSample { at: *at, rate: marks.rate, sample, whole }, self.belief.ln_likelihood());
    }

    /// Combines both readings into one answer.
    fn conclude(&mut self) {
        let error = if self.coalesced { COMMON_ERROR_COALESCED } else { COMMON_ERROR };
        let error = error.hypot(self.busy.end_effect(self.capacity));
        // Jitter affects which gaps look busy, which biases this reading.
        let busy = (self.sampled && !self.is_jittery()).then_some(&self.readings);
        let context = Context { time: self.time.clone(), capacity: self.capacity, error, busy };
        if let Some(found) = self.changes.find(&context) {
            self.one_queue = found.one_queue;
            self.spread = Some(found.average.scaled([CHANGED; LEVELS.len()]));
            self.newest = Some(found.change.after);
            self.change = Some(found.change);
            return;
        }
        self.change = None;
        let trusted = if self.jitter.is_some() { JITTERY_ODDS } else { 1.0 };
        let summary = self.belief.summary(self.agreement.odds() * trusted);
        (self.one_queue, self.series) = (summary.one_queue, summary.series);
        let error = error.hypot(SEVERAL_ERROR * (1.0 - self.one_queue));
        let spread = Spread::of(busy.map(Readings::density).as_ref(), &summary, self.capacity, error);
        self.newest = Some(spread.median);
        self.spread = Some(spread.scaled(CALIBRATION));
    }

    /// Returns the rate that the path carried least well: the median of those whose streams overflowed a queue, if most did.
    /// Streams are used only up to a loss, and so miss what would have shown that less is available.
    fn too_fast(&self) -> Option<Rate> {
        let mut rates = self.overflowed.clone();
        rates.sort_unstable();
        rates.get(rates.len() / 2).copied().filter(|_| self.overflowed.len() * 2 > self.streams)
    }

    /// Returns whether the delays of most streams were jittery.
    pub(super) fn is_jittery(&self) -> bool {
        self.jitter.is_some() || self.jittery as usize * 2 > self.observations.len()
    }

    /// Returns the apparent kind of path.
    pub(super) fn path_kind(&self) -> PathKind {
        match self.one_queue {
            _ if self.is_jittery() => PathKind::Jittery,
            one_queue if one_queue < UNLIKELY => PathKind::SeveralQueues,
            one_queue if one_queue < LIKELY => PathKind::UnknownQueues,
            _ if self.coalesced => PathKind::Coalescing,
            _ => PathKind::OneQueue,
        }
    }

    /// Discards all samples but keeps the estimate that determines the next rate.
    pub(super) fn restart(&mut self) {
        self.observations.clear();
        self.overflowed.clear();
        self.streams = 0;
        self.gaps = 0;
        self.lowest = None;
        self.readings = Readings::new(self.capacity);
        self.belief.clear();
        self.changes.clear();
        self.change = None;
        self.agreement = Agreement::default();
        self.jittery = 0;
        self.sampled = false;
        self.busy = Busy::default();
        self.spread = None;
    }

    fn read(&self, record: &StreamRecord, probe: &mut Probe) -> Result<(Observation, Marks), Refusal> {
        let packet_time = self.capacity.time_for(record.packet);
        // Jitter makes packets arrive in batches, too.
        if self.jitter.is_some() || !probe.coalesced(record, packet_time)? {
            let lead = if record.arrivals.len() >= LEAD * MIN_LEADS { LEAD } else { 0 };
            let record = &record.skip_packets(lead);
            let spaced =
                record.with_min_spacing(packet_time.scale(CLOSEST)).filter(|_| self.jitter.is_none());
            let record = spaced.as_ref().unwrap_or(record);
            let delayed = |a: &Arrival| Some((a.index, a.sent, a.one_way_delay()?));
            let packets = record.arrivals.iter().filter_map(delayed).collect();
            return Ok((Observation::Packets(packets), Marks::of_packets(record, packet_time, self.jitter)?));
        }
        let sums = probe.sums(record, packet_time)?;
        let rate = Rate::of(record.packet * sums.samples, sums.send).ok_or(Refusal::SenderGaps)?;
        let growth = (sums.receive - sums.send).ns() as f64 / sums.send.ns() as f64;
        let capacity = self.capacity.bps_f64();
        let available_bps = (rate.bps_f64() - capacity * growth).min(capacity);
        let late = &record.arrivals[record.arrivals.len() / 2..];
        let late_delay = late.iter().filter_map(Arrival::one_way_delay).min().ok_or(Refusal::Lost)?;
        let sample = Sample { available_bps, duration: sums.send, censored: false };
        Ok((Observation::Events(sample, late_delay), Marks::of_events(record)?))
    }

    /// Chooses the rate of the next stream.
    fn choose_rate(&mut self, record: &StreamRecord, sample: Option<Sample>) {
        let enough = probe::sent_for(record).scale(BUSY_SHARE);
        let telling = sample.filter(|sample| !sample.censored && sample.duration >= enough);
        let change = if telling.is_some() { FACTOR_DOWN } else { FACTOR_UP };
        self.factor = (self.factor * change).clamp(FACTOR, FACTOR_MAX);
        self.met_none = telling.is_none();
        self.quiet = if self.met_none {
            probe::send_rate(record).unwrap_or_default()
        } else {
            self.quiet.scale(FORGOTTEN)
        };
        if let Some(newest) = self.newest {
            self.current = newest;
        }
    }

    /// Extends the time for which the answer holds to `now`: what came after the streams has shown no change.
    pub(super) fn extend(&mut self, now: Instant) {
        self.time.end = now;
        if self.spread.is_some() {
            self.conclude();
        }
    }

    /// Returns whether there are enough streams for an answer if time is short.
    pub(super) fn can_answer(&self) -> bool {
        self.observations.len() >= MIN_STREAMS && self.spread.is_some()
    }

    /// Returns whether the interval is so narrow that further streams are not worth their bytes.
    pub(super) fn is_done(&self) -> bool {
        self.gaps >= ENOUGH_GAPS && self.spread.is_some_and(|spread| spread.is_narrow(self.capacity))
    }

    /// Returns the answer so far: no more than a rate at which streams overflow a queue.
    pub(super) fn spread(&self) -> Option<Spread> {
        let spread = self.spread?;
        let capped = self.too_fast().filter(|rate| *rate < spread.median);
        Some(capped.map_or(spread, |rate| spread.capped(rate, LOW_IF_LOST)))
    }

    /// Returns the latest available bandwidth, at which later streams are aimed.
    pub(super) fn newest(&self) -> Option<Rate> {
        self.newest
    }

    /// Returns the change of the available bandwidth.
    pub(super) fn change(&self) -> Option<Change> {
        self.change
    }
}

/// Returns the correction of a sample for the start of its busy periods, as a fraction of capacity.
pub(super) fn end_bias(capacity: Rate, busy: Duration) -> f64 {
    let full = capacity.time_for(FULL_PACKET).secs_f64() / busy.secs_f64().max(1e-9);
    (END_BIAS * full).min(MAX_BIAS)
}

/// Returns the error due to the ends of streams, as a fraction of capacity.
///
/// Regular cross traffic puts up to one packet too many or too few into every busy period, and always the same number
/// if streams are alike.
pub(super) fn end_effect(capacity: Rate, busy: Duration, streams: u32) -> f64 {
    let usual = busy.secs_f64() / f64::from(streams.max(1));
    let packet = capacity.time_for(FULL_PACKET).secs_f64();
    if usual > 0.0 { (END_SHARE * packet / usual).min(0.5) } else { 0.0 }
}

/// Returns the share of the full length for the stream of this number.
///
/// Streams differ in length, so that regular cross traffic does not meet each of them in the same phase.
pub(super) fn uneven(number: usize) -> f64 {
    1.0 - UNEVEN * (number as f64 * GOLDEN).fract()
}
