//! The rates and lengths of the streams of the default method.

use crate::response::Sample;
use crate::stream::{Schedule, StreamRecord};
use headway_units::{Bytes, Duration, Rate};

use super::evidence::Conclusion;
use crate::measure::delay::Baseline;
use crate::measure::jitter::Span;
use crate::measure::probe;
use crate::measure::queue_limit::QueueLimit;

/// Gaps in a stream: enough to average over bursts, few enough not to build a long queue.
pub(in crate::measure) const STREAM_GAPS: u32 = 96;
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
pub(in crate::measure) const GAP_LIMITS: (u32, u32) = (24, 1024);
/// Before the first estimate, the available bandwidth may be as low as this share of the start-up result.
pub(in crate::measure) const START_UNCERTAINTY: f64 = 0.5;
/// After a stream that met no queue, at least this share of its rate counts as available for the next one.
const QUIET_SHARE: f64 = 0.9;
/// The share of this rate that still counts after each stream that met a queue.
const FORGOTTEN: f64 = 0.75;
/// Packet times that a stream may add to the delay of any queue: a smaller growth could not be distinguished from
/// timestamp noise and cross packets.
pub(in crate::measure) const MIN_ADDED: i64 = 4;
/// Packet times that a stream may add until a loss has revealed the length of the queue: every queue has
/// room for these.
pub(in crate::measure) const USUALLY_ADDED: i64 = 24;
/// Assumed minimum growth of the delay in seconds per second, which limits streams below the available bandwidth.
pub(in crate::measure) const SLOWEST_GROWTH: f64 = 0.02;
/// Probing rate as a multiple of the current estimate: low enough to sample for long with few bytes, high enough to
/// keep the queue busy during the pauses of bursty cross traffic.
const FACTOR: f64 = 1.35;
/// The multiple rises by the first factor after a stream that hardly met a busy queue, and falls by the
/// second after others.
const FACTOR_UP: f64 = 1.2;
const FACTOR_DOWN: f64 = 0.97;
/// Upper limit of the multiple.
const FACTOR_MAX: f64 = 3.0;
/// Above this probability of a single queue, all streams use the most informative rate ...
const SETTLED: f64 = 0.9;
/// ... after this many streams. Until then, rates alternate, because only differences between rates reveal
/// the number of queues.
pub(super) const MIN_STREAMS: usize = 4;
const CYCLE: [f64; 6] = [1.35, 1.1, 1.6, 0.95, 1.35, 1.2];
/// Even then, rates vary slightly, so that a wrong conclusion can be revised.
const AROUND: [f64; 3] = [1.0, 0.85, 1.2];
/// A stream that met a busy queue for less than this share of its duration is uninformative.
const BUSY_SHARE: f64 = 0.25;
/// Upper limit of the probing rate as a multiple of the capacity: a higher rate would only lengthen the queue.
const CAPACITY_MULTIPLE: f64 = 1.15;
/// Lower limit of the probing rate as a share of the capacity: a stream at a lower rate would take too long.
const LOWEST_SHARE: f64 = 0.02;

/// What a stream is planned by: the path, and what the streams before it met.
#[derive(Clone, Debug)]
pub(super) struct Pace {
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
}

impl Pace {
    pub(super) fn new(
        packet: Bytes,
        capacity: Rate,
        start: Rate,
        top: Rate,
        jitter: Option<Span>,
        coalescing: bool,
    ) -> Pace {
        Pace {
            packet,
            capacity,
            top,
            jitter,
            coalescing,
            current: start.min(capacity),
            factor: FACTOR,
            quiet: Rate::ZERO,
            met_none: false,
        }
    }

    /// Returns stream `turn`, which fits the queue length that the path allows; `coalesced` tells whether streams before it
    /// arrived in batches.
    pub(super) fn schedule(
        &self,
        turn: usize,
        coalesced: bool,
        known: &Conclusion,
        queue_limit: &QueueLimit,
        baseline: &Baseline,
    ) -> Schedule {
        let packet_time = self.capacity.time_for(self.packet);
        let usual = packet_time * USUALLY_ADDED * if known.series > SUSPECTED { 2 } else { 1 };
        let allowed = queue_limit.allowed(baseline, usual).max(packet_time * MIN_ADDED);
        let shortest = match (coalesced, self.coalescing) {
            (false, _) if queue_limit.is_known(baseline) => Duration::ZERO,
            (false, false) => MIN_DURATION_WITHOUT,
            _ => MIN_DURATION,
        };
        let through = self.jitter.map_or(Duration::ZERO, |jitter| jitter.most);
        let (allowed, shortest) =
            (allowed.max(through), shortest.max((through * SPANS).min(MAX_DURATION_WITH_JITTER)));
        let rate = self.rate(turn, known).min(self.max_rate_for(allowed.max(shortest), known));
        let gap = rate.time_for(self.packet).ns().max(1);
        let longest = MAX_DURATION.min(allowed.scale(1.0 / self.growth(rate, known))).ns() / gap;
        let long = known.series > SUSPECTED || rate <= self.current.scale(NEAR);
        let gaps = i64::from(STREAM_GAPS) * if long { LONGER } else { 1 };
        let even = gaps.min(longest) as f64;
        let gaps = ((even * uneven(turn)) as i64).max(shortest.ns() / gap);
        Schedule::single_rate(rate, (gaps as u32).clamp(GAP_LIMITS.0, GAP_LIMITS.1) as usize, self.packet)
    }

    /// Returns the most informative rate.
    fn rate(&self, turn: usize, known: &Conclusion) -> Rate {
        // Above the narrow link's rate its own queue fills, too, and hides the growth at another link. On an idle path
        // only such rates make a queue grow.
        let most = known.spread.map_or(self.current, |spread| spread.interval_90().1);
        let needed = most.scale(CAPACITY_MULTIPLE).max(self.capacity);
        let highest = needed.min(self.capacity.scale(CAPACITY_MULTIPLE)).min(self.top);
        let lowest = self.capacity.scale(LOWEST_SHARE).min(highest);
        let settled = known.one_queue > SETTLED && turn >= MIN_STREAMS;
        let factor =
            if settled { self.factor * AROUND[turn % AROUND.len()] } else { CYCLE[turn % CYCLE.len()] };
        let rising = if self.met_none { self.quiet.scale(FACTOR_UP) } else { Rate::ZERO };
        self.current.scale(factor).max(rising).clamp(lowest, highest)
    }

    /// Returns how fast a stream of this rate makes the delay grow, in seconds per second, at the lowest plausible
    /// available bandwidth.
    fn growth(&self, rate: Rate, known: &Conclusion) -> f64 {
        (rate.saturating_sub(self.least(known)).bps_f64() / self.capacity.bps_f64()).max(SLOWEST_GROWTH)
    }

    /// Returns the highest rate at which the shortest stream adds no more than `allowed`.
    fn max_rate_for(&self, allowed: Duration, known: &Conclusion) -> Rate {
        let shortest = self.capacity.time_for(self.packet) * i64::from(GAP_LIMITS.0);
        let share = 1.0 - allowed.secs_f64() / shortest.secs_f64();
        if share > 0.0 { self.least(known).scale(1.0 / share) } else { self.top }
    }

    /// Returns the lowest plausible available bandwidth.
    fn least(&self, known: &Conclusion) -> Rate {
        let least =
            known.spread.map_or(self.current.scale(START_UNCERTAINTY), |spread| spread.interval_90().0);
        least.max(self.quiet.scale(QUIET_SHARE)).max(self.capacity.scale(LOWEST_SHARE))
    }

    /// Chooses the rate of the next stream after one with this `sample`; `newest` is the available bandwidth at its end.
    pub(super) fn choose_rate(
        &mut self,
        record: &StreamRecord,
        sample: Option<Sample>,
        newest: Option<Rate>,
    ) {
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
        if let Some(newest) = newest {
            self.current = newest;
        }
    }
}

/// Returns the share of the full length for the stream of this number.
///
/// Streams differ in length, so that regular cross traffic does not meet each of them in the same phase.
pub(in crate::measure) fn uneven(number: usize) -> f64 {
    1.0 - UNEVEN * (number as f64 * GOLDEN).fract()
}
