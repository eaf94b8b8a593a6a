//! The default method: single-rate streams a little above what is free, read by the rate-response estimator.

use crate::estimate::agreement::Agreement;
use crate::estimate::belief::{Belief, Part};
use crate::estimate::response::{Delayed, Posterior, Sample, busy_sample};
use crate::stream::{Arrival, Refusal, Schedule, StreamRecord};
use crate::units::{Bytes, Duration, Instant, Rate};

use super::change::{Change, Changes, Common, Told};
use super::delay::Baseline;
use super::jitter::Span;
use super::marks::Marks;
use super::mixture::Spread;
use super::path_kind::PathKind;
use super::probe::{self, FULL_PACKET, Probe};
use super::room::Room;

/// Gaps in a stream: long enough to average over bursts, short enough not to build a long queue.
const STREAM_GAPS: u32 = 96;
/// Streams are shorter than they could be by up to this share, each by another part of it (the golden ratio spreads them).
const UNEVEN: f64 = 0.2;
const GOLDEN: f64 = 0.618_033_988_75;
/// A stream lasts at least this long, so that it spans several coalesced interrupts (rapid 2.15: 120 us).
const SHORTEST: Duration = Duration::from_ms(1);
/// A stream lasts at most this long, so that slow paths are sampled more than once or twice.
const LONGEST: Duration = Duration::from_ms(400);
/// Where delays vary by themselves, a stream lasts this many times as long as they vary by, if that is not too long.
const SPANS: i64 = 8;
const LONGEST_THROUGH: Duration = Duration::from_ms(30);
/// Gaps that a stream has at least and at most, whatever its duration.
pub(super) const GAP_LIMITS: (u32, u32) = (24, 1024);

/// Before the first answer as little as this share of what start-up found may be free.
pub(super) const UNSURE: f64 = 0.5;
/// Packet times that a stream may add to the delay in any queue; with less it could not be told from stamps and others' packets.
pub(super) const LEAST_ADDED: i64 = 4;
/// Packet times that a stream may add as long as no loss has shown where the queue ends: room for so many is everywhere.
pub(super) const USUALLY_ADDED: i64 = 24;
/// The delay is taken to grow this fast at least, in seconds a second, so that a stream below what is free ends, too.
pub(super) const SLOWEST_GROWTH: f64 = 0.02;

/// Probing rate as a multiple of the current estimate: low enough to sample long for its bytes, high enough to keep
/// the queue busy through the pauses of bursty cross traffic.
const FACTOR: f64 = 1.35;
/// The multiple rises by this after a stream that hardly met a busy queue and falls back by the other after any other.
const FACTOR_UP: f64 = 1.2;
const FACTOR_DOWN: f64 = 0.97;
/// The most it rises to.
const FACTOR_MAX: f64 = 3.0;
/// A baseline that falls by less than this share of a packet time is the same.
const SAME_BASELINE: f64 = 0.1;
/// From this probability on one queue is taken for granted, and all streams go to the rate that tells most about it ...
const SETTLED: f64 = 0.9;
/// ... after this many streams; until then rates alternate, because only their differences tell how many queues there are.
const FEWEST: usize = 4;
const CYCLE: [f64; 6] = [1.35, 1.1, 1.6, 0.95, 1.35, 1.2];
/// Even then rates differ a little, so that what was taken for granted can turn out wrong.
const AROUND: [f64; 3] = [1.0, 0.85, 1.2];
/// Error common to all streams (capacity, headers not accounted for), as a share of capacity: no interval is narrower than this on either side.
const COMMON_ERROR: f64 = 0.015;
/// The same where the receiver coalesces: then the capacity itself is only known from a few events.
const COMMON_ERROR_COALESCED: f64 = 0.03;
/// Odds of one queue, as trains tell the capacity badly where delays vary by themselves.
const JITTERY_ODDS: f64 = 0.1;
/// The same where another link is the tight one: what is free shows in a slower growth, of which packets and stamps hide more.
const SEVERAL_ERROR: f64 = 0.03;
/// A busy time is seen to begin when a packet of others has come, of which that of regular traffic then does not count: half a packet in the mean.
/// Of random traffic, none. What is taken off lies between, and no more than this share of the capacity.
const END_BIAS: f64 = 0.25;
const MOST_BIAS: f64 = 0.05;
/// Half a full packet is what the end of a busy time counts too much or too little.
const END_SHARE: f64 = 0.5;
/// The first packets of a stream find hosts asleep, which wake up some 50 us late; that would look like a queue which is there from the beginning ...
const LEAD: usize = 4;
/// ... so they do not count where they are no more than one in so many.
const LEAST_LEADS: usize = 10;
/// Packets that arrive closer than this share of their time on the narrow link, of which the measured capacity may be that much too low, were held
/// up behind it.
const CLOSEST: f64 = 0.8;
/// A stream that met a busy queue for less than this share of its time says little.
const BUSY_SHARE: f64 = 0.25;
/// Never probe above this multiple of the capacity: it would only lengthen the queue.
const CAPACITY_MULTIPLE: f64 = 1.15;
/// Nor below this share of it: the stream would last for ever.
const LOWEST_SHARE: f64 = 0.02;

/// Share of packets that may be lost before a stream ends for its reader with the first loss; the queue then overflowed (rapid 2.13).
const LOSS_TOLERANCE: f64 = 0.03;
/// Gaps before the interval may be called narrow enough: eight of the usual streams.
const ENOUGH_GAPS: u32 = 8 * STREAM_GAPS;

#[derive(Clone, Debug)]
pub(super) struct Response {
    packet: Bytes,
    capacity: Rate,
    top: Rate,
    jitter: Option<Span>,
    current: Rate,
    factor: f64,
    lowest: Option<Duration>,
    began: Instant,
    ended: Instant,
    seen: Vec<(Seen, Marks, Instant)>,
    changes: Changes,
    /// Gaps of all streams seen.
    gaps: u32,
    posterior: Posterior,
    belief: Belief,
    agreement: Agreement,
    one_queue: f64,
    sampled: bool,
    /// Time with a busy queue, and streams that met it.
    busy: Duration,
    busy_streams: u32,
    coalesced: bool,
    jittery: u32,
    parts: Vec<Part>,
    spread: Option<Spread>,
    /// What is free in the end.
    newest: Option<Rate>,
    change: Option<Change>,
}

/// What is kept of a stream: its sample changes when the baseline falls.
#[derive(Clone, Debug)]
enum Seen {
    /// Every packet's send time and one-way delay.
    Packets(Vec<(u32, Instant, Duration)>),
    /// Sums over whole buffering events of a coalescing receiver, and the lowest delay in the second half of the stream.
    Events(Sample, Duration),
}

impl Seen {
    fn sample(&self, baseline: &Baseline, packet: Bytes, capacity: Rate) -> Option<Sample> {
        match self {
            Seen::Packets(packets) => {
                let above = |&(index, sent, delay): &(u32, Instant, Duration)| Delayed {
                    index,
                    sent,
                    queueing: baseline.above(delay),
                };
                let sample = busy_sample(&packets.iter().map(above).collect::<Vec<_>>(), packet, capacity)?;
                let full = capacity.time_for(FULL_PACKET).secs_f64() / sample.duration.secs_f64();
                let available_bps =
                    sample.available_bps - capacity.bps_f64() * (END_BIAS * full).min(MOST_BIAS);
                Some(Sample { available_bps, ..sample })
            }
            Seen::Events(sample, late_delay) => {
                let censored = baseline.above(*late_delay) < capacity.time_for(packet) / 2;
                Some(Sample { censored, ..*sample })
            }
        }
    }
}

impl Response {
    pub(super) fn new(
        packet: Bytes,
        capacity: Rate,
        start: Rate,
        top: Rate,
        jitter: Option<Span>,
        began: Instant,
    ) -> Response {
        Response {
            packet,
            capacity,
            top,
            // What varies by less than a packet's time is noise of the usual kind.
            jitter: jitter.filter(|jitter| jitter.most > capacity.time_for(packet)),
            current: start.min(capacity),
            factor: FACTOR,
            lowest: None,
            began,
            ended: began,
            seen: Vec::new(),
            gaps: 0,
            changes: Changes::default(),
            posterior: Posterior::new(capacity),
            belief: Belief::new(packet, capacity),
            agreement: Agreement::default(),
            one_queue: 1.0,
            sampled: false,
            busy: Duration::ZERO,
            busy_streams: 0,
            coalesced: false,
            jittery: 0,
            parts: Vec::new(),
            spread: None,
            newest: None,
            change: None,
        }
    }

    /// The next stream, which fits the room that the path has for a queue.
    pub(super) fn schedule(&self, room: &Room, baseline: &Baseline) -> Schedule {
        let packet_time = self.capacity.time_for(self.packet);
        let allowed = room.allowed(baseline, packet_time * USUALLY_ADDED).max(packet_time * LEAST_ADDED);
        let shortest = if room.is_known(baseline) && !self.coalesced { Duration::ZERO } else { SHORTEST };
        let through = self.jitter.map_or(Duration::ZERO, |jitter| jitter.most);
        let (allowed, shortest) =
            (allowed.max(through), shortest.max((through * SPANS).min(LONGEST_THROUGH)));
        let rate = self.rate().min(self.gentlest(allowed.max(shortest)));
        let gap = rate.time_for(self.packet).ns().max(1);
        let longest = LONGEST.min(allowed.scale(1.0 / self.growth(rate))).ns() / gap;
        let even = i64::from(STREAM_GAPS).min(longest) as f64;
        let gaps = ((even * uneven(self.seen.len())) as i64).max(shortest.ns() / gap);
        Schedule::single_rate(rate, (gaps as u32).clamp(GAP_LIMITS.0, GAP_LIMITS.1) as usize, self.packet)
    }

    /// The rate that tells most.
    fn rate(&self) -> Rate {
        // Above the narrow link's rate its queue fills, too, and hides how fast that of another link does.
        let needed = self.current.scale(CAPACITY_MULTIPLE).max(self.capacity);
        let highest = needed.min(self.capacity.scale(CAPACITY_MULTIPLE)).min(self.top);
        let lowest = self.capacity.scale(LOWEST_SHARE).min(highest);
        let settled = self.one_queue > SETTLED && self.seen.len() >= FEWEST;
        let turn = self.seen.len();
        let factor =
            if settled { self.factor * AROUND[turn % AROUND.len()] } else { CYCLE[turn % CYCLE.len()] };
        self.current.scale(factor).clamp(lowest, highest)
    }

    /// How fast a stream of this rate makes the delay grow, in seconds a second, even where only the least is free that may be.
    fn growth(&self, rate: Rate) -> f64 {
        (rate.saturating_sub(self.least()).bps_f64() / self.capacity.bps_f64()).max(SLOWEST_GROWTH)
    }

    /// The highest rate at which the shortest stream adds no more than `allowed`.
    fn gentlest(&self, allowed: Duration) -> Rate {
        let shortest = self.capacity.time_for(self.packet) * i64::from(GAP_LIMITS.0);
        let share = 1.0 - allowed.secs_f64() / shortest.secs_f64();
        if share > 0.0 { self.least().scale(1.0 / share) } else { self.top }
    }

    /// The least that may be free.
    fn least(&self) -> Rate {
        let least = self.spread.map_or(self.current.scale(UNSURE), |spread| spread.usual().0);
        least.max(self.capacity.scale(LOWEST_SHARE))
    }

    /// Takes in a stream; `jittery` when some of its packets overtook others.
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
        if record.lost() as f64 > LOSS_TOLERANCE * record.arrivals.len() as f64 {
            // The queue overflowed. Until then the stream says what is free as any other does; to refuse it would leave calm moments only.
            before_loss = record.before_loss();
            record = &before_loss;
            if record.arrivals.len() <= GAP_LIMITS.0 as usize {
                return Err(Refusal::Lost);
            }
        }
        let (seen, marks) = self.read(record, probe)?;
        let sample = seen.sample(baseline, self.packet, self.capacity);
        self.coalesced |= matches!(seen, Seen::Events(..));
        self.jittery += u32::from(marks.jittery || jittery);
        self.seen.push((seen, marks, now - probe::sent_for(record) / 2));
        self.gaps += record.arrivals.len() as u32;
        self.ended = now;
        let fell = self.lowest.zip(baseline.lowest()).map(|(before, now)| before - now);
        if fell.is_some_and(|fell| fell <= self.capacity.time_for(self.packet).scale(SAME_BASELINE)) {
            self.take(self.seen.len() - 1, baseline);
        } else {
            self.lowest = baseline.lowest();
            self.posterior = Posterior::new(self.capacity);
            self.belief.clear();
            self.changes.clear();
            self.agreement = Agreement::default();
            self.sampled = false;
            (self.busy, self.busy_streams) = (Duration::ZERO, 0);
            (0..self.seen.len()).for_each(|index| self.take(index, baseline));
        }
        self.conclude();
        self.aim(record, sample);
        Ok(())
    }

    /// Takes a stream into both readings.
    fn take(&mut self, index: usize, baseline: &Baseline) {
        let (seen, marks, at) = &self.seen[index];
        let sample = seen.sample(baseline, self.packet, self.capacity);
        if let Some(sample) = sample {
            self.posterior.add(&sample);
            self.sampled = true;
            if !sample.censored {
                self.busy += sample.duration;
                self.busy_streams += 1;
                let capacity = self.capacity.bps_f64();
                let (rate, free) = (marks.rate.bps_f64() / capacity, sample.available_bps / capacity);
                self.agreement.add(rate, free, sample.duration.secs_f64());
            }
        }
        marks.parts(baseline, &mut self.parts);
        self.belief.add(&self.parts, marks.blur);
        self.changes.add(Told { at: *at, rate: marks.rate, sample }, self.belief.ln_likelihood());
    }

    /// Weighs both readings into one answer.
    fn conclude(&mut self) {
        let error = if self.coalesced { COMMON_ERROR_COALESCED } else { COMMON_ERROR };
        let error = error.hypot(end_effect(self.capacity, self.busy, self.busy_streams));
        // Jitter decides which gaps look busy, and the reading of these is then biased.
        let busy = (self.sampled && !self.is_jittery()).then_some(&self.posterior);
        let common = Common { time: self.began..self.ended, capacity: self.capacity, error, busy };
        if let Some(found) = self.changes.find(&common) {
            self.one_queue = found.one_queue;
            self.spread = Some(found.average);
            self.newest = Some(found.change.after);
            self.change = Some(found.change);
            return;
        }
        self.change = None;
        let trusted = if self.jitter.is_some() { JITTERY_ODDS } else { 1.0 };
        let summary = self.belief.summary(self.agreement.odds() * trusted);
        self.one_queue = summary.one_queue;
        let error = error.hypot(SEVERAL_ERROR * (1.0 - self.one_queue));
        let spread = Spread::of(busy, &summary, self.capacity, error);
        self.newest = Some(spread.median);
        self.spread = Some(spread);
    }

    /// Whether most streams met delays that jump from packet to packet.
    fn is_jittery(&self) -> bool {
        self.jitter.is_some() || self.jittery as usize * 2 > self.seen.len()
    }

    /// What kind of path it looks like.
    pub(super) fn path_kind(&self) -> PathKind {
        match self.one_queue {
            _ if self.is_jittery() => PathKind::Jittery,
            one_queue if one_queue < 0.5 => PathKind::SeveralQueues,
            _ if self.coalesced => PathKind::Coalescing,
            _ => PathKind::OneQueue,
        }
    }

    /// Forgets all samples and keeps the estimate to aim by.
    pub(super) fn restart(&mut self) {
        self.seen.clear();
        self.gaps = 0;
        self.lowest = None;
        self.posterior = Posterior::new(self.capacity);
        self.belief.clear();
        self.changes.clear();
        self.change = None;
        self.agreement = Agreement::default();
        self.jittery = 0;
        self.sampled = false;
        (self.busy, self.busy_streams) = (Duration::ZERO, 0);
        self.spread = None;
    }

    fn read(&self, record: &StreamRecord, probe: &mut Probe) -> Result<(Seen, Marks), Refusal> {
        let packet_time = self.capacity.time_for(record.packet);
        // Jitter lets packets arrive in batches, too.
        if self.jitter.is_some() || !probe.coalesced(record, packet_time)? {
            let lead = if record.arrivals.len() >= LEAD * LEAST_LEADS { LEAD } else { 0 };
            let record = &record.without_lead(lead);
            let spaced = record.spaced(packet_time.scale(CLOSEST)).filter(|_| self.jitter.is_none());
            let record = spaced.as_ref().unwrap_or(record);
            let delayed = |a: &Arrival| Some((a.index, a.sent, a.one_way_delay()?));
            let packets = record.arrivals.iter().filter_map(delayed).collect();
            return Ok((Seen::Packets(packets), Marks::of_packets(record, packet_time, self.jitter)?));
        }
        let sums = probe.sums(record, packet_time)?;
        let rate = Rate::of(record.packet * sums.samples, sums.send).ok_or(Refusal::SenderGaps)?;
        let growth = (sums.receive - sums.send).ns() as f64 / sums.send.ns() as f64;
        let capacity = self.capacity.bps_f64();
        let available_bps = (rate.bps_f64() - capacity * growth).min(capacity);
        let late = &record.arrivals[record.arrivals.len() / 2..];
        let late_delay = late.iter().filter_map(Arrival::one_way_delay).min().ok_or(Refusal::Lost)?;
        let sample = Sample { available_bps, duration: sums.send, censored: false };
        Ok((Seen::Events(sample, late_delay), Marks::of_events(record)?))
    }

    /// Chooses where the next stream goes.
    fn aim(&mut self, record: &StreamRecord, sample: Option<Sample>) {
        let enough = probe::sent_for(record).scale(BUSY_SHARE);
        let telling = sample.filter(|sample| !sample.censored && sample.duration >= enough);
        let change = if telling.is_some() { FACTOR_DOWN } else { FACTOR_UP };
        self.factor = (self.factor * change).clamp(FACTOR, FACTOR_MAX);
        if let Some(newest) = self.newest {
            self.current = newest;
        }
    }

    /// Whether there are enough streams for an answer if time is short.
    pub(super) fn has_enough(&self) -> bool {
        self.seen.len() >= FEWEST && self.spread.is_some()
    }

    /// Whether the interval is so narrow that more streams are not worth their bytes.
    pub(super) fn sure(&self) -> bool {
        self.gaps >= ENOUGH_GAPS && self.spread.is_some_and(|spread| spread.is_narrow(self.capacity))
    }

    pub(super) fn spread(&self) -> Option<Spread> {
        self.spread
    }

    /// What is free in the end, which later streams are aimed by.
    pub(super) fn newest(&self) -> Option<Rate> {
        self.newest
    }

    /// How what is free changed.
    pub(super) fn change(&self) -> Option<Change> {
        self.change
    }
}

/// The error of the ends of streams, as a share of capacity: regular traffic puts up to a packet too many or too few into every busy time, and
/// always the same where streams are alike.
pub(super) fn end_effect(capacity: Rate, busy: Duration, streams: u32) -> f64 {
    let usual = busy.secs_f64() / f64::from(streams.max(1));
    let packet = capacity.time_for(FULL_PACKET).secs_f64();
    if usual > 0.0 { (END_SHARE * packet / usual).min(0.5) } else { 0.0 }
}

/// Streams are of different length, as regular traffic must not meet every one in the same phase: the share of the usual length that the
/// stream of this number has.
pub(super) fn uneven(number: usize) -> f64 {
    1.0 - UNEVEN * (number as f64 * GOLDEN).fract()
}
