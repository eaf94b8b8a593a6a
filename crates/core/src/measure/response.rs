//! The default method: single-rate streams a little above what is free, read by the rate-response estimator.

use crate::estimate::response::{Credible, Posterior, Sample};
use crate::stream::{Refusal, Schedule, Shape, StreamRecord};
use crate::units::{Bytes, Duration, Rate};

use super::delay::Baseline;
use super::probe::Probe;

/// Gaps in a stream: long enough to average over bursts, short enough not to build a long queue.
const STREAM_GAPS: u32 = 96;
/// A stream lasts at least this long, so that it spans several coalesced interrupts (rapid 2.15: 120 us).
const SHORTEST: Duration = Duration::from_ms(1);
/// A stream lasts at most this long, so that slow paths are sampled more than once or twice.
const LONGEST: Duration = Duration::from_ms(400);
/// Gaps that a stream has at least and at most, whatever its duration.
const GAP_LIMITS: (u32, u32) = (24, 1024);

/// Probing rate as a multiple of the current estimate: where it starts and its limits. Too low and
/// the queue runs empty in many streams; too high and streams are short and their queue long.
const FACTOR_START: f64 = 1.5;
const FACTOR_RANGE: (f64, f64) = (1.15, 3.0);
/// The multiple grows after a stream that ran empty and shrinks slowly after one that did not,
/// which settles where about one stream in seven runs empty.
const FACTOR_UP: f64 = 1.2;
const FACTOR_DOWN: f64 = 0.97;
/// Never probe above this multiple of the capacity: it would only lengthen the queue.
const CAPACITY_MULTIPLE: f64 = 1.15;
/// Nor below this share of it: the stream would last for ever.
const LOWEST_SHARE: f64 = 0.02;

/// Share of packets that may be lost before a stream is refused; the queue then overflowed (rapid 2.13).
const LOSS_TOLERANCE: f64 = 0.03;
/// Streams before the interval may be called narrow enough.
const ENOUGH_STREAMS: usize = 8;
/// Half width of the interval, as a share of capacity, at which measuring on is not worth its bytes.
const NARROW_ENOUGH: f64 = 0.025;

#[derive(Clone, Debug)]
pub(super) struct Response {
    packet: Bytes,
    capacity: Rate,
    current: Rate,
    factor: f64,
    seen: Vec<Seen>,
    posterior: Posterior,
    credible: Option<Credible>,
}

/// A sample and what decides whether it is censored; that may change as the baseline falls.
#[derive(Clone, Copy, Debug)]
struct Seen {
    sample: Sample,
    /// The lowest one-way delay in the second half of the stream.
    late_delay: Duration,
}

impl Response {
    pub(super) fn new(packet: Bytes, capacity: Rate, start: Rate) -> Response {
        Response {
            packet,
            capacity,
            current: start.min(capacity),
            factor: FACTOR_START,
            seen: Vec::new(),
            posterior: Posterior::new(capacity),
            credible: None,
        }
    }

    pub(super) fn schedule(&self) -> Schedule {
        let highest = self.capacity.scale(CAPACITY_MULTIPLE);
        let lowest = self.capacity.scale(LOWEST_SHARE);
        let rate = self.current.scale(self.factor).clamp(lowest, highest);
        let gap = rate.time_for(self.packet).ns().max(1);
        let wanted = i64::from(STREAM_GAPS).max(SHORTEST.ns() / gap).min(LONGEST.ns() / gap);
        let gaps = (wanted as u32).clamp(GAP_LIMITS.0, GAP_LIMITS.1);
        Schedule::p_stream(Shape { rates: 1, packets_per_rate: gaps, step: 1.0 }, rate, self.packet)
    }

    pub(super) fn observe(
        &mut self,
        record: &StreamRecord,
        baseline: &Baseline,
        probe: &mut Probe,
    ) -> Result<(), Refusal> {
        if record.lost() as f64 > LOSS_TOLERANCE * record.arrivals.len() as f64 {
            return Err(Refusal::Lost);
        }
        let sums = probe.sums(record, self.capacity.time_for(record.packet))?;
        let rate = Rate::of(record.packet * sums.samples, sums.send).ok_or(Refusal::SenderGaps)?;
        let growth = (sums.receive - sums.send).ns() as f64 / sums.send.ns() as f64;
        let capacity = self.capacity.bps_f64();
        let late = &record.arrivals[record.arrivals.len() / 2..];
        let sample = Sample {
            available_bps: (rate.bps_f64() - capacity * growth).min(capacity),
            duration: sums.send,
            censored: false,
        };
        let late_delay = late.iter().filter_map(super::delay::one_way).min().ok_or(Refusal::Lost)?;
        self.seen.push(Seen { sample, late_delay });
        self.update(baseline);
        Ok(())
    }

    /// Brings the censoring of all samples and the posterior up to date.
    fn update(&mut self, baseline: &Baseline) {
        let margin = self.capacity.time_for(self.packet) / 2;
        let last = self.seen.len() - 1;
        let mut stale = false;
        for (index, seen) in self.seen.iter_mut().enumerate() {
            let censored = baseline.above(seen.late_delay) < margin;
            stale |= index < last && censored != seen.sample.censored;
            seen.sample.censored = censored;
        }
        if stale {
            self.posterior = Posterior::new(self.capacity);
            self.seen.iter().for_each(|seen| self.posterior.add(&seen.sample));
        } else {
            self.posterior.add(&self.seen[last].sample);
        }
        let change = if self.seen[last].sample.censored { FACTOR_UP } else { FACTOR_DOWN };
        self.factor = (self.factor * change).clamp(FACTOR_RANGE.0, FACTOR_RANGE.1);
        let credible = self.posterior.credible();
        self.current = credible.median;
        self.credible = Some(credible);
    }

    /// Whether the interval is so narrow that more streams are not worth their bytes.
    pub(super) fn sure(&self) -> bool {
        self.seen.len() >= ENOUGH_STREAMS
            && self.credible.is_some_and(|credible| {
                let half = credible.high.saturating_sub(credible.low).bps_f64() / 2.0;
                half < NARROW_ENOUGH * self.capacity.bps_f64()
            })
    }

    pub(super) fn credible(&self) -> Option<Credible> {
        self.credible
    }
}
