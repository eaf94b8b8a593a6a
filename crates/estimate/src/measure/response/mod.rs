//! The default method: single-rate streams slightly above the available bandwidth, evaluated by rate response.

use std::ops::Range;

use crate::response::Sample;
use crate::stream::{Arrival, Refusal, Schedule, StreamRecord};
use headway_units::{Bytes, Duration, Instant, Rate};

use super::change::Change;
use super::conclude::LOW_IF_LOST;
use super::delay::Baseline;
use super::jitter::Span;
use super::marks::Marks;
use super::mixture::Spread;
use super::observation::Observation;
use super::path_kind::PathKind;
use super::probe::{self, Probe};
use super::queue_limit::QueueLimit;

mod evidence;
mod pace;

use evidence::{Circumstances, Conclusion, Evidence, Observed};
pub(super) use evidence::{end_bias, end_effect};
pub(super) use pace::{
    GAP_LIMITS, MIN_ADDED, SLOWEST_GROWTH, START_UNCERTAINTY, STREAM_GAPS, USUALLY_ADDED, uneven,
};
use pace::{MIN_STREAMS, Pace};

/// A baseline that falls by less than this share of a packet time counts as unchanged.
const SAME_BASELINE: f64 = 0.1;
/// A probability of a single queue that excludes one, and one that excludes several.
pub(super) const UNLIKELY: f64 = 0.2;
const LIKELY: f64 = 0.8;
/// The first packets of a stream find hosts asleep, which wake up about 50 us late; this delay would look like a
/// queue that exists from the start.
const LEAD: usize = 4;
/// They are dropped from streams with at least this many times as many packets.
const MIN_LEADS: usize = 10;
/// Packets that arrive closer together than this share of their time on the narrow link were held up after it; the
/// share allows for a measured capacity that is too low.
const CLOSEST: f64 = 0.8;

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
    jitter: Option<Span>,
    coalesced: bool,
    pace: Pace,
    seen: Seen,
    /// From the first stream to the end of what showed no change.
    time: Range<Instant>,
    evidence: Evidence,
    conclusion: Conclusion,
}

/// The streams so far.
#[derive(Clone, Debug, Default)]
struct Seen {
    /// Those that are used.
    observations: Vec<Observed>,
    /// Their gaps.
    gaps: u32,
    /// How many of them were jittery.
    jittery: u32,
    /// The lowest delay when they were read.
    lowest: Option<Duration>,
    /// All streams, and the rates of those in which the queue overflowed.
    streams: usize,
    overflowed: Vec<Rate>,
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
        // Variation of less than a packet time is ordinary noise.
        let jitter = jitter.filter(|jitter| jitter.most > capacity.time_for(packet));
        Response {
            packet,
            capacity,
            jitter,
            coalesced: false,
            pace: Pace::new(packet, capacity, start, top, jitter, coalescing),
            seen: Seen::default(),
            time: Instant::ZERO..Instant::ZERO,
            evidence: Evidence::new(packet, capacity),
            conclusion: Conclusion::default(),
        }
    }

    /// Returns the size of the packets.
    pub(super) fn packet(&self) -> Bytes {
        self.packet
    }

    /// Returns the next stream, which fits the queue length that the path allows.
    pub(super) fn schedule(&self, queue_limit: &QueueLimit, baseline: &Baseline) -> Schedule {
        let turn = self.seen.observations.len();
        self.pace.schedule(turn, self.coalesced, &self.conclusion, queue_limit, baseline)
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
        self.seen.streams += 1;
        if record.lost() as f64 > LOSS_TOLERANCE * record.arrivals.len() as f64 {
            self.seen.overflowed.push(record.average);
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
        self.seen.jittery += u32::from(marks.jittery || jittery);
        self.seen.observations.push((observation, marks, now - probe::sent_for(record) / 2));
        self.seen.gaps += record.arrivals.len() as u32;
        if self.seen.observations.len() == 1 {
            self.time.start = now - probe::sent_for(record);
        }
        self.time.end = now;
        let fell = self.seen.lowest.zip(baseline.lowest()).map(|(before, now)| before - now);
        if fell.is_some_and(|fell| fell <= self.capacity.time_for(self.packet).scale(SAME_BASELINE)) {
            let newest = self.seen.observations.last();
            newest.into_iter().for_each(|newest| self.evidence.take(newest, baseline));
        } else {
            self.seen.lowest = baseline.lowest();
            self.evidence.clear();
            self.seen.observations.iter().for_each(|observed| self.evidence.take(observed, baseline));
        }
        self.conclude();
        self.pace.choose_rate(record, sample, self.conclusion.newest);
        Ok(())
    }

    fn conclude(&mut self) {
        let circumstances = Circumstances {
            time: self.time.clone(),
            coalesced: self.coalesced,
            jitter: self.jitter.is_some(),
            jittery: self.is_jittery(),
        };
        self.conclusion = self.evidence.conclude(&circumstances, &self.conclusion);
    }

    /// Returns the rate that the path carried least well: the median of those whose streams overflowed a queue, if most did.
    /// Streams are used only up to a loss, and so miss what would have shown that less is available.
    fn too_fast(&self) -> Option<Rate> {
        let mut rates = self.seen.overflowed.clone();
        rates.sort_unstable();
        rates.get(rates.len() / 2).copied().filter(|_| self.seen.overflowed.len() * 2 > self.seen.streams)
    }

    /// Returns whether the delays of most streams were jittery.
    pub(super) fn is_jittery(&self) -> bool {
        self.jitter.is_some() || self.seen.jittery as usize * 2 > self.seen.observations.len()
    }

    /// Returns the apparent kind of path.
    pub(super) fn path_kind(&self) -> PathKind {
        match self.conclusion.one_queue {
            _ if self.is_jittery() => PathKind::Jittery,
            one_queue if one_queue < UNLIKELY => PathKind::SeveralQueues,
            one_queue if one_queue < LIKELY => PathKind::UnknownQueues,
            _ if self.coalesced => PathKind::Coalescing,
            _ => PathKind::OneQueue,
        }
    }

    /// Discards all samples but keeps the estimate that determines the next rate.
    pub(super) fn restart(&mut self) {
        self.seen = Seen::default();
        self.evidence.clear();
        self.conclusion = Conclusion { spread: None, change: None, ..self.conclusion };
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

    /// Extends the time for which the answer holds to `now`: what came after the streams has shown no change.
    pub(super) fn extend(&mut self, now: Instant) {
        self.time.end = now;
        if self.conclusion.spread.is_some() {
            self.conclude();
        }
    }

    /// Returns whether there are enough streams for an answer if time is short.
    pub(super) fn can_answer(&self) -> bool {
        self.seen.observations.len() >= MIN_STREAMS && self.conclusion.spread.is_some()
    }

    /// Returns whether the interval is so narrow that further streams are not worth their bytes.
    pub(super) fn is_done(&self) -> bool {
        self.seen.gaps >= ENOUGH_GAPS
            && self.conclusion.spread.is_some_and(|spread| spread.is_narrow(self.capacity))
    }

    /// Returns the answer so far: no more than a rate at which streams overflow a queue.
    pub(super) fn spread(&self) -> Option<Spread> {
        let spread = self.conclusion.spread?;
        let capped = self.too_fast().filter(|rate| *rate < spread.median);
        Some(capped.map_or(spread, |rate| spread.capped(rate, LOW_IF_LOST)))
    }

    /// Returns the latest available bandwidth, at which later streams are aimed.
    pub(super) fn newest(&self) -> Option<Rate> {
        self.conclusion.newest
    }

    /// Returns the change of the available bandwidth.
    pub(super) fn change(&self) -> Option<Change> {
        self.conclusion.change
    }
}
