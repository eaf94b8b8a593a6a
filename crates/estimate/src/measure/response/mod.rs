//! The default method: single-rate streams slightly above the available bandwidth,
//! evaluated by rate response.

use std::ops::Range;

use crate::constants::constants;
use crate::response::Sample;
use crate::stream::{Arrival, Refusal, Schedule, StreamRecord};
use headway_units::{Bytes, Duration, Instant, Rate};

use super::answer::Interval;
use super::change::Change;
use super::conclude::LOW_IF_LOST;
use super::delay::Baseline;
use super::evaluation::{Evaluation, Known, Received};
use super::jitter::Span;
use super::marks::Marks;
use super::mixture::Spread;
use super::observation::Observation;
use super::path_kind::PathKind;
use super::probe::{self, Probe};

mod evidence;
mod pace;

#[cfg(any(test, feature = "sensitivity"))]
pub(crate) use evidence::EVIDENCE;
use evidence::{Circumstances, Conclusion, Evidence, Observed};
pub(super) use evidence::{end_bias, end_effect};
use pace::Pace;
pub(super) use pace::uneven;
pub(crate) use pace::{MOST_GAPS, PACE};

/// One that excludes several. Range: probability, 0.5 to 1.
const LIKELY: f64 = 0.8;
/// An interval whose upper end exceeds this share of what timestamps resolve has no upper end. Range: share,
/// 0.5 to 1.
const NEAR_LIMIT: f64 = 0.9;

constants! {
    /// What is read from streams, and how many are enough.
    RESPONSE: ResponseConstants {
        /// A baseline that falls by less than this counts as unchanged.
        same_baseline: f64 = 0.1, "packet times, 0 to 1";
        /// A probability of a single queue that excludes one.
        unlikely: f64 = 0.2, "probability, 0 to 0.5";
        /// The first packets of a stream find hosts asleep, which wake up about 50 us late; this delay would
        /// look like a queue that exists from the start.
        lead: usize = 4, "packets, 0 to 16";
        /// They are dropped from streams with at least this many times as many packets.
        min_leads: usize = 10, "times, from 2";
        /// Packets that arrive closer together than this share of their time on the narrow link were held up
        /// after it; the share allows for a measured capacity that is too low. Half: error +0.7 points
        /// (tcp-several-links +18). Double: error +7.0 points (slow +43), held -3 points.
        closest: f64 = 0.8, "packet times, 0 to 1";
        /// Where jitter spans more than this share of a stream, trains and streams show too little of the
        /// path for an upper end.
        hidden: f64 = 0.4, "share of the duration of a stream, 0.2 to 1";
        /// If more than this share of its packets is lost, the queue overflowed, and a stream is used only up
        /// to its first loss (rapid 2.13).
        loss_tolerance: f64 = 0.03, "share, 0 to 0.2";
        /// The fewest packets before a loss that are used. Streams that met a burst lose packets early, so
        /// leaving them out would leave out bursts.
        fewest_before_loss: usize = 8, "packets, from 3";
        /// Gaps required before the interval may be narrow enough: five full-length streams.
        enough_gaps: u32 = 480, "gaps, from 96";
        /// The last train counts as so many streams, so that a load that set in during it shows in more than
        /// one.
        last_parts: usize = 4, "streams, from 1";
        /// The answer is at most so many times the rate at which the fastest stream was delivered: a queue is
        /// as fast as it is, however close together some packets came. Streams are faster than what is
        /// available now and then. Half: error +9.2 points (peak-rate +33).
        delivered: f64 = 1.25, "times the rate, 1 to 2";
        /// A train at less than this share of what is available hardly meets a queue, and bursts of others
        /// decide what it samples.
        telling: f64 = 0.85, "times the estimate, 0 to 1";
    }
}

#[derive(Debug)]
pub(super) struct Response {
    packet: Bytes,
    capacity: Rate,
    /// The highest rate that the receiver's timestamps resolve, if the trains came close to it.
    stamp_limit: Option<Rate>,
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
    /// Their gaps, and how long it took to send them.
    gaps: u32,
    sent: Duration,
    /// How many of them were jittery.
    jittery: u32,
    /// The lowest delay when they were read.
    lowest: Option<Duration>,
    /// The highest rate at which one was delivered.
    delivered: Rate,
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
        stamp_limit: Option<Rate>,
    ) -> Response {
        // Variation of less than a packet time is ordinary noise.
        let jitter = jitter.filter(|jitter| jitter.most > capacity.time_for(packet));
        Response {
            packet,
            capacity,
            stamp_limit,
            jitter,
            coalesced: false,
            pace: Pace::new(packet, capacity, start, top, jitter, coalescing),
            seen: Seen::default(),
            time: Instant::ZERO..Instant::ZERO,
            evidence: Evidence::new(packet, capacity),
            conclusion: Conclusion::default(),
        }
    }

    fn conclude(&mut self) {
        let circumstances = Circumstances {
            time: self.time.clone(),
            coalesced: self.coalesced,
            jitter: self.jitter_share(),
            jittery: self.is_jittery(),
        };
        self.conclusion = self.evidence.conclude(&circumstances, &self.conclusion);
    }

    /// Returns the span of the jitter as a share of the duration of a stream, if there is any.
    fn jitter_share(&self) -> Option<f64> {
        let usual = self.seen.sent.secs_f64() / self.seen.observations.len().max(1) as f64;
        self.jitter.map(|jitter| jitter.most.secs_f64() / usual.max(1e-9))
    }

    /// Returns the rate that the path carried least well: the median of those whose streams overflowed
    /// a queue, if most did. Streams are used only up to a loss, and so miss what would have shown
    /// that less is available.
    fn too_fast(&self) -> Option<Rate> {
        let mut rates = self.seen.overflowed.clone();
        rates.sort_unstable();
        rates.get(rates.len() / 2).copied().filter(|_| self.seen.overflowed.len() * 2 > self.seen.streams)
    }

    fn read(&self, record: &StreamRecord, probe: &mut Probe) -> Result<(Observation, Marks), Refusal> {
        let packet_time = self.capacity.time_for(record.packet);
        // Jitter makes packets arrive in batches, too.
        if self.jitter.is_some() || !probe.coalesced(record, packet_time)? {
            let lead =
                if record.arrivals.len() >= RESPONSE.lead * RESPONSE.min_leads { RESPONSE.lead } else { 0 };
            let record = &record.skip_packets(lead);
            let spaced = record
                .with_min_spacing(packet_time.scale(RESPONSE.closest))
                .filter(|_| self.jitter.is_none());
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

    /// Returns whether the interval is so narrow that further streams are not worth their bytes.
    fn is_done(&self) -> bool {
        self.seen.gaps >= RESPONSE.enough_gaps
            && self.conclusion.spread.is_some_and(|spread| spread.is_narrow(self.capacity))
    }
}

impl Evaluation for Response {
    /// Returns the next stream, which fits the queue length that the path allows.
    fn schedule(&self, known: &Known<'_>) -> Option<Schedule> {
        if self.is_done() || known.overflows && self.conclusion.spread.is_some() {
            return None;
        }
        let turn = self.seen.observations.len();
        let (queue_limit, baseline) = (known.queue_limit, known.baseline);
        Some(self.pace.schedule(turn, self.coalesced, &self.conclusion, queue_limit, baseline))
    }

    fn observe(
        &mut self,
        &Received { mut record, at, overtaken }: &Received<'_>,
        baseline: &Baseline,
        probe: &mut Probe,
    ) -> Result<(), Refusal> {
        let before_loss;
        self.seen.streams += 1;
        self.seen.delivered = self.seen.delivered.max(probe::receive_rate(record).unwrap_or_default());
        if record.lost() as f64 > RESPONSE.loss_tolerance * record.arrivals.len() as f64 {
            self.seen.overflowed.push(record.average);
            // The queue overflowed. Up to that point the stream is as informative as any; refusing it would
            // leave only calm moments.
            before_loss = record.before_loss();
            record = &before_loss;
            if record.arrivals.len() < RESPONSE.fewest_before_loss {
                return Err(Refusal::Lost);
            }
        }
        let (observation, marks) = self.read(record, probe)?;
        let (sample, _) = observation.samples(baseline, self.packet, self.capacity);
        self.coalesced |= matches!(observation, Observation::Events(..));
        self.seen.jittery += u32::from(marks.jittery || overtaken);
        self.seen.observations.push((observation, marks, at - probe::sent_for(record) / 2));
        self.seen.gaps += record.arrivals.len() as u32;
        self.seen.sent += probe::sent_for(record);
        if self.seen.observations.len() == 1 {
            self.time.start = at - probe::sent_for(record);
        }
        self.time.end = at;
        let fell = self.seen.lowest.zip(baseline.lowest()).map(|(before, now)| before - now);
        if fell.is_some_and(|fell| fell <= self.capacity.time_for(self.packet).scale(RESPONSE.same_baseline))
        {
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

    /// Takes in a train as some more streams, if its packets are as large.
    fn observe_last(&mut self, train: &Received<'_>, baseline: &mut Baseline, probe: &mut Probe) {
        let &Received { record, at, .. } = train;
        let near = self.newest().unwrap_or_default().scale(RESPONSE.telling);
        if record.packet == self.packet && record.average >= near {
            baseline.observe(record);
            let gaps = record.arrivals.len().saturating_sub(1);
            let parts = (gaps / PACE.stream_gaps as usize).clamp(1, RESPONSE.last_parts);
            for part in record.split(gaps / parts) {
                // How long ago a part ended follows from when its last packet was sent.
                let ends = [&part, record].map(|record| record.arrivals.last().map(|arrival| arrival.sent));
                let ago = ends[1].zip(ends[0]).map_or(Duration::ZERO, |(last, own)| last - own);
                let part = Received { record: &part, at: at - ago, overtaken: false };
                // A part that lost too many packets is left out.
                let _ = self.observe(&part, baseline, probe);
            }
        }
        // What came after the streams has shown no change.
        self.time.end = at;
        if self.conclusion.spread.is_some() {
            self.conclude();
        }
    }

    fn restart(&mut self) {
        self.seen = Seen::default();
        self.evidence.clear();
        self.conclusion = Conclusion { spread: None, change: None, ..self.conclusion };
    }

    /// Returns the answer so far: no more than a rate at which streams overflow a queue, or than
    /// any was delivered at.
    fn spread(&self) -> Option<Spread> {
        let spread = self.conclusion.spread?;
        let delivered = self.seen.delivered.scale(RESPONSE.delivered);
        let most = self.too_fast().map_or(delivered, |rate| rate.min(delivered));
        let capped = Some(most).filter(|rate| *rate < spread.median);
        Some(capped.map_or(spread, |rate| spread.capped(rate, LOW_IF_LOST)))
    }

    fn interval(&self) -> Option<Interval> {
        let interval = Interval::from(self.spread()?);
        let near = |(limit, high): (Rate, Rate)| high > limit.scale(NEAR_LIMIT);
        let hidden = self.jitter_share().is_some_and(|share| share > RESPONSE.hidden);
        let unlimited = hidden || self.stamp_limit.zip(interval.high).is_some_and(near);
        Some(if unlimited { Interval { rate: interval.low, high: None, ..interval } } else { interval })
    }

    fn can_answer(&self) -> bool {
        self.seen.observations.len() >= PACE.min_streams && self.conclusion.spread.is_some()
    }

    fn newest(&self) -> Option<Rate> {
        self.conclusion.newest
    }

    fn path_kind(&self) -> Option<PathKind> {
        if self.stamp_limit.is_some() {
            return Some(PathKind::TooFast);
        }
        self.conclusion.spread?;
        Some(match self.conclusion.one_queue {
            _ if self.is_jittery() => PathKind::Jittery,
            one_queue if one_queue < RESPONSE.unlikely => PathKind::SeveralQueues,
            one_queue if one_queue < LIKELY => PathKind::UnknownQueues,
            _ if self.coalesced => PathKind::Coalescing,
            _ => PathKind::OneQueue,
        })
    }

    fn change(&self) -> Option<Change> {
        self.conclusion.change.filter(|_| self.stamp_limit.is_none())
    }

    /// Returns whether the delays of most streams were jittery.
    fn is_jittery(&self) -> bool {
        self.jitter.is_some() || self.seen.jittery as usize * 2 > self.seen.observations.len()
    }
}
