//! The default method: single-rate streams a little above what is free, read by the rate-response estimator.

use crate::estimate::response::{Credible, Delayed, Posterior, Sample, busy_sample};
use crate::stream::{Arrival, Refusal, Schedule, StreamRecord};
use crate::units::{Bytes, Duration, Instant, Rate};

use super::delay::Baseline;
use super::probe::Probe;

/// Gaps in a stream: long enough to average over bursts, short enough not to build a long queue.
const STREAM_GAPS: u32 = 96;
/// A stream lasts at least this long, so that it spans several coalesced interrupts (rapid 2.15: 120 us).
const SHORTEST: Duration = Duration::from_ms(1);
/// A stream lasts at most this long, so that slow paths are sampled more than once or twice.
const LONGEST: Duration = Duration::from_ms(400);
/// Gaps that a stream has at least and at most, whatever its duration.
pub(super) const GAP_LIMITS: (u32, u32) = (24, 1024);

/// Probing rate as a multiple of the current estimate: low enough to sample long for its bytes, high enough to keep
/// the queue busy through the pauses of bursty cross traffic.
const FACTOR: f64 = 1.35;
/// The multiple rises by this after a stream that hardly met a busy queue and falls back by the other after any other.
const FACTOR_UP: f64 = 1.2;
const FACTOR_DOWN: f64 = 0.97;
/// The most it rises to.
const FACTOR_MAX: f64 = 3.0;
/// A stream that met a busy queue for less than this share of its time says little.
const BUSY_SHARE: f64 = 0.25;
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
    top: Rate,
    current: Rate,
    factor: f64,
    lowest: Option<Duration>,
    seen: Vec<Seen>,
    posterior: Posterior,
    credible: Option<Credible>,
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
                busy_sample(&packets.iter().map(above).collect::<Vec<_>>(), packet, capacity)
            }
            Seen::Events(sample, late_delay) => {
                let censored = baseline.above(*late_delay) < capacity.time_for(packet) / 2;
                Some(Sample { censored, ..*sample })
            }
        }
    }
}

impl Response {
    pub(super) fn new(packet: Bytes, capacity: Rate, start: Rate, top: Rate) -> Response {
        Response {
            packet,
            capacity,
            top,
            current: start.min(capacity),
            factor: FACTOR,
            lowest: None,
            seen: Vec::new(),
            posterior: Posterior::new(capacity),
            credible: None,
        }
    }

    pub(super) fn schedule(&self) -> Schedule {
        let highest = self.capacity.scale(CAPACITY_MULTIPLE).min(self.top);
        let lowest = self.capacity.scale(LOWEST_SHARE).min(highest);
        let rate = self.current.scale(self.factor).clamp(lowest, highest);
        let gap = rate.time_for(self.packet).ns().max(1);
        let wanted = i64::from(STREAM_GAPS).max(SHORTEST.ns() / gap).min(LONGEST.ns() / gap);
        let gaps = (wanted as u32).clamp(GAP_LIMITS.0, GAP_LIMITS.1);
        Schedule::single_rate(rate, gaps as usize, self.packet)
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
        let seen = self.read(record, probe)?;
        let sample = seen.sample(baseline, self.packet, self.capacity);
        self.seen.push(seen);
        if baseline.lowest() == self.lowest {
            sample.iter().for_each(|sample| self.posterior.add(sample));
        } else {
            self.lowest = baseline.lowest();
            self.posterior = Posterior::new(self.capacity);
            let samples = self.seen.iter().filter_map(|s| s.sample(baseline, self.packet, self.capacity));
            samples.for_each(|sample| self.posterior.add(&sample));
        }
        if self.seen.iter().any(|seen| matches!(seen, Seen::Events(..))) {
            self.posterior.coalesced();
        }
        self.aim(record, sample);
        Ok(())
    }

    /// Forgets all samples and keeps the estimate to aim by.
    pub(super) fn restart(&mut self) {
        self.seen.clear();
        self.lowest = None;
        self.posterior = Posterior::new(self.capacity);
        self.credible = None;
    }

    fn read(&self, record: &StreamRecord, probe: &mut Probe) -> Result<Seen, Refusal> {
        let packet_time = self.capacity.time_for(record.packet);
        if !probe.coalesced(record, packet_time)? {
            let delayed = |a: &Arrival| Some((a.index, a.sent, a.one_way_delay()?));
            return Ok(Seen::Packets(record.arrivals.iter().filter_map(delayed).collect()));
        }
        let sums = probe.sums(record, packet_time)?;
        let rate = Rate::of(record.packet * sums.samples, sums.send).ok_or(Refusal::SenderGaps)?;
        let growth = (sums.receive - sums.send).ns() as f64 / sums.send.ns() as f64;
        let capacity = self.capacity.bps_f64();
        let available_bps = (rate.bps_f64() - capacity * growth).min(capacity);
        let late = &record.arrivals[record.arrivals.len() / 2..];
        let late_delay = late.iter().filter_map(Arrival::one_way_delay).min().ok_or(Refusal::Lost)?;
        Ok(Seen::Events(Sample { available_bps, duration: sums.send, censored: false }, late_delay))
    }

    /// Chooses where the next stream goes.
    fn aim(&mut self, record: &StreamRecord, sample: Option<Sample>) {
        let sent_for = record.arrivals.last().zip(record.arrivals.first()).map(|(l, f)| l.sent - f.sent);
        let enough = sent_for.unwrap_or_default().scale(BUSY_SHARE);
        let telling = sample.filter(|sample| !sample.censored && sample.duration >= enough);
        let change = if telling.is_some() { FACTOR_DOWN } else { FACTOR_UP };
        self.factor = (self.factor * change).clamp(FACTOR, FACTOR_MAX);
        if sample.is_some() {
            let credible = self.posterior.credible();
            self.current = credible.median;
            self.credible = Some(credible);
        } else {
            // Nothing of the stream queued: at least its rate is free.
            self.current = self.current.max(record.average);
        }
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

    /// The estimate with the interval of another level, given by its number.
    pub(super) fn credible_at(&self, level: usize) -> Credible {
        self.posterior.credible_at(level)
    }
}
