//! What streams tell about the path, and the answer that follows.

use std::ops::Range;

use crate::agreement::Agreement;
use crate::belief::{Belief, Segment};
use crate::constants::constants;
use headway_units::{Bytes, Duration, Instant, Rate};

use crate::measure::busy::Busy;
use crate::measure::change::{Change, Changes, Context, StreamSample};
use crate::measure::delay::Baseline;
use crate::measure::marks::Marks;
use crate::measure::mixture::{LEVELS, Readings, Spread};
use crate::measure::observation::Observation;
use crate::measure::probe::FULL_PACKET;

constants! {
    /// What is made of the streams.
    EVIDENCE: EvidenceConstants {
        /// Error common to all streams (capacity, unaccounted headers); it is the minimum half width of an
        /// interval.
        common_error: f64 = 0.015, "share of the capacity, 0 to 0.05";
        /// The same with a coalescing receiver, where the capacity is known from only a few events.
        common_error_coalesced: f64 = 0.03, "share of the capacity, 0 to 0.1";
        /// Factors on the widths of the intervals, level by level, fitted to simulated paths. The readings
        /// allow for paths of many kinds, and most paths are simple: without the factors, intervals of 50 %
        /// held 69 % of the truths. Half: bytes -9 %, time -8 %. Double: error +3.2 points (peak-rate +36),
        /// time +7 %.
        calibration: [f64; LEVELS.len()] = [0.54, 0.67, 0.8, 0.9], "factors, 0.3 to 1";
        /// Factor on the width of the interval if the available bandwidth changed: when it did is not known
        /// well, and the capacity may have changed as well.
        changed: f64 = 2.0, "factor, from 1";
        /// Odds of a single queue on a path with jitter, where trains measure the capacity poorly.
        jittery_odds: f64 = 0.1, "odds, 0 to 1";
        /// Additional error on a path with jitter, which delays the packets of a stream more and more where
        /// they keep their order: answers are up to this much too high, mostly.
        jittery_error: f64 = 0.8, "share of the capacity, times the span of the jitter over the duration of a stream, 0 to 2";
        /// Additional error if the tight link is not the narrow one: the delay then grows more slowly, and
        /// packets and timestamps hide more of the growth.
        several_error: f64 = 0.03, "share of the capacity, 0 to 0.1";
        /// Correction for the start of a busy period, which becomes visible only once a cross packet has
        /// arrived. A sample of regular cross traffic lacks half a packet on average, one of random traffic
        /// lacks none; the correction lies in between.
        end_bias: f64 = 0.25, "full packets, 0 to 0.5";
        /// Its upper limit.
        max_bias: f64 = 0.05, "share of the capacity, 0 to 0.1";
        /// What the end of a busy period counts too much or too little. Half: error +0.6 points
        /// (shallow-bursty +9).
        end_share: f64 = 0.5, "full packets, 0 to 1";
    }
}

/// A stream that was read: its delays, or sums over what arrived at once, and when it was under way.
pub(super) type Observed = (Observation, Marks, Instant);

/// All that is derived from streams, given the baseline of their delays.
#[derive(Clone, Debug)]
pub(super) struct Evidence {
    packet: Bytes,
    capacity: Rate,
    readings: Readings,
    belief: Belief,
    changes: Changes,
    agreement: Agreement,
    busy: Busy,
    /// Whether a stream met a busy queue.
    sampled: bool,
    /// Memory for the parts of a stream.
    segments: Vec<Segment>,
}

/// The answer so far, and what it says about the queues.
#[derive(Clone, Copy, Debug)]
pub(super) struct Conclusion {
    /// Probabilities of a single queue, and of equal queues in series.
    pub(super) one_queue: f64,
    pub(super) series: f64,
    pub(super) spread: Option<Spread>,
    /// The available bandwidth at the end of the measurement.
    pub(super) newest: Option<Rate>,
    pub(super) change: Option<Change>,
}

impl Default for Conclusion {
    fn default() -> Conclusion {
        Conclusion { one_queue: 1.0, series: 0.0, spread: None, newest: None, change: None }
    }
}

/// What an answer depends on besides the evidence.
#[derive(Clone, Debug)]
pub(super) struct Circumstances {
    /// From the first stream to the end of what showed no change.
    pub(super) time: Range<Instant>,
    /// Whether streams arrived in batches.
    pub(super) coalesced: bool,
    /// How much delays vary on their own, as the first streams showed, as a share of the
    /// duration of a stream.
    pub(super) jitter: Option<f64>,
    /// Whether most streams were jittery.
    pub(super) jittery: bool,
}

impl Evidence {
    pub(super) fn new(packet: Bytes, capacity: Rate) -> Evidence {
        Evidence {
            packet,
            capacity,
            readings: Readings::new(capacity),
            belief: Belief::new(packet, capacity),
            changes: Changes::default(),
            agreement: Agreement::default(),
            busy: Busy::default(),
            sampled: false,
            segments: Vec::new(),
        }
    }

    /// Forgets all streams.
    pub(super) fn clear(&mut self) {
        self.readings = self.readings.emptied();
        self.belief.clear();
        self.changes.clear();
        (self.agreement, self.busy, self.sampled) = Default::default();
    }

    /// Adds a stream to both readings.
    pub(super) fn take(&mut self, (observation, marks, at): &Observed, baseline: &Baseline) {
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
    pub(super) fn conclude(&self, circumstances: &Circumstances, before: &Conclusion) -> Conclusion {
        let Circumstances { ref time, coalesced, jitter, jittery } = *circumstances;
        let error = if coalesced { EVIDENCE.common_error_coalesced } else { EVIDENCE.common_error };
        let error = error.hypot(self.busy.end_effect(self.capacity));
        let error = error.hypot(EVIDENCE.jittery_error * jitter.unwrap_or(0.0));
        // Jitter affects which gaps look busy, which biases this reading.
        let busy = (self.sampled && !jittery).then_some(&self.readings);
        let context = Context { time: time.clone(), capacity: self.capacity, error, busy };
        if let Some(found) = self.changes.find(&context) {
            return Conclusion {
                one_queue: found.one_queue,
                spread: Some(found.average.scaled([EVIDENCE.changed; LEVELS.len()])),
                newest: Some(found.change.after),
                change: Some(found.change),
                ..*before
            };
        }
        let trusted = if jitter.is_some() { EVIDENCE.jittery_odds } else { 1.0 };
        let summary = self.belief.summary(self.agreement.odds() * trusted);
        let (one_queue, series) = (summary.one_queue, summary.series);
        let error = error.hypot(EVIDENCE.several_error * (1.0 - one_queue));
        let spread = Spread::of(busy.map(Readings::density).as_ref(), &summary, self.capacity, error);
        let newest = Some(spread.median);
        Conclusion {
            one_queue,
            series,
            spread: Some(spread.scaled(EVIDENCE.calibration)),
            newest,
            change: None,
        }
    }
}

/// Returns the correction of a sample for the start of its busy periods, as a fraction of capacity.
pub(in crate::measure) fn end_bias(capacity: Rate, busy: Duration) -> f64 {
    let full = capacity.time_for(FULL_PACKET).secs_f64() / busy.secs_f64().max(1e-9);
    (EVIDENCE.end_bias * full).min(EVIDENCE.max_bias)
}

/// Returns the error due to the ends of streams, as a fraction of capacity.
///
/// Regular cross traffic puts up to one packet too many or too few into every busy period, and always the
/// same number if streams are alike.
pub(in crate::measure) fn end_effect(capacity: Rate, busy: Duration, streams: u32) -> f64 {
    let usual = busy.secs_f64() / f64::from(streams.max(1));
    let packet = capacity.time_for(FULL_PACKET).secs_f64();
    if usual > 0.0 { (EVIDENCE.end_share * packet / usual).min(0.5) } else { 0.0 }
}
