//! The rates and lengths of the streams of the default method.

use crate::constants::constants;
use crate::response::Sample;
use crate::stream::{Schedule, StreamRecord};
use headway_units::{Bytes, Duration, Rate};

use super::evidence::Conclusion;
use crate::measure::delay::Baseline;
use crate::measure::jitter::Span;
use crate::measure::probe;
use crate::measure::queue_limit::QueueLimit;

/// Maximum number of gaps in a stream, regardless of its duration. Range: gaps, 96 to 2047.
pub(crate) const MOST_GAPS: u32 = 1024;

constants! {
    /// How streams of the default method are planned.
    PACE: PaceConstants {
        /// Gaps in a stream: enough to average over bursts, few enough not to build a long queue.
        stream_gaps: u32 = 96, "gaps, 24 to 1024";
        /// Where queues in series are more likely than this, streams are longer: short ones do not tell
        /// several queues from one.
        suspected: f64 = 0.3, "probability, 0 to 1";
        /// They have this many times as many gaps then.
        longer: i64 = 3, "times, from 1";
        /// The same holds up to this multiple of the estimate, because such streams add little delay, and
        /// short ones do not raise the suspicion.
        near: f64 = 1.2, "times the estimate, 0 to 1.6";
        /// Streams are shortened by varying amounts up to this share of their length, spread by the golden
        /// ratio. Half: error +1.1 points (equally-tight +20).
        uneven: f64 = 0.2, "share, 0 to 1";
        /// Minimum duration of a stream, to span several coalesced interrupts (rapid 2.15: 120 us).
        min_duration: Duration = Duration::from_ms(1), "time, 0.12 to 5 ms";
        /// The same where trains showed none: at 10 Gb/s, longer streams would leave the budget room for
        /// three of them.
        min_duration_without: Duration = Duration::from_us(250), "time, 0 to 1 ms";
        /// Maximum duration of a stream, so that slow paths are sampled more than once or twice.
        max_duration: Duration = Duration::from_ms(400), "time, 0.1 to 1 s";
        /// On a path with jitter, a stream lasts this many times the jitter span.
        spans: i64 = 8, "times the span of the jitter, from 2";
        /// But no longer than this.
        max_duration_with_jitter: Duration = Duration::from_ms(30), "time, 5 to 400 ms";
        /// Minimum number of gaps in a stream, regardless of its duration. Half: error +1.8 points
        /// (shallow-bursty +42). Double: error -0.8 points (tcp-many-greedy +18).
        fewest_gaps: u32 = 24, "gaps, 8 to 96";
        /// Before the first estimate, the available bandwidth may be as low as this share of the start-up
        /// result. Half: bytes +6 %.
        start_uncertainty: f64 = 0.5, "share, 0 to 1";
        /// After a stream that met no queue, at least this share of its rate counts as available for the next
        /// one. Half: error -0.7 points.
        quiet_share: f64 = 0.9, "share, 0 to 1";
        /// The share of this rate that still counts after each stream that met a queue. Double: error +0.7
        /// points (peak-rate +44), time -6 %.
        forgotten: f64 = 0.75, "share, 0 to 1";
        /// What a stream may add to the delay of any queue: a smaller growth could not be distinguished from
        /// timestamp noise and cross packets.
        min_added: i64 = 4, "packet times, 1 to 24";
        /// What a stream may add until a loss has revealed the length of the queue: every queue has room for
        /// these. Half: error +1.3 points (shallow-bursty +23).
        usually_added: i64 = 24, "packet times, 4 to 50";
        /// Assumed minimum growth of the delay, which limits streams below the available bandwidth.
        slowest_growth: f64 = 0.02, "seconds per second, 0 to 0.1";
        /// Probing rate: low enough to sample for long with few bytes, high enough to keep the queue busy
        /// during the pauses of bursty cross traffic.
        factor: f64 = 1.35, "times the estimate, 1 to 3";
        /// It rises by this after a stream that hardly met a busy queue.
        factor_up: f64 = 1.2, "factor, 1 to 2";
        /// It falls by this after others.
        factor_down: f64 = 0.97, "factor, 0.5 to 1";
        /// Upper limit of the probing rate.
        factor_max: f64 = 3.0, "times the estimate, 1.35 to 10";
        /// Above this probability of a single queue, all streams use the most informative rate.
        settled: f64 = 0.9, "probability, 0.5 to 1";
        /// But only after this many streams. Until then, rates alternate, because only differences between
        /// rates reveal the number of queues.
        min_streams: usize = 4, "streams, from 1";
        /// The rates that alternate. Half: bytes +6 %, time +8 %. Double: error +4.8 points (peak-rate +31),
        /// time +6 %.
        cycle: [f64; 6] = [1.35, 1.1, 1.6, 0.95, 1.35, 1.2], "times the estimate, 0.5 to 3";
        /// Even then, rates vary slightly, so that a wrong conclusion can be revised.
        around: [f64; 3] = [1.0, 0.85, 1.2], "times the usual rate, 0.7 to 1.5";
        /// A stream that met a busy queue for less than this share of its duration is uninformative. Double:
        /// error +0.6 points (tcp-several-links +14).
        busy_share: f64 = 0.25, "share, 0 to 1";
        /// Upper limit of the probing rate: a higher rate would only lengthen the queue. Half: error +3.8
        /// points (peak-rate +59).
        capacity_multiple: f64 = 1.15, "times the capacity, from 1";
        /// Lower limit of the probing rate: a stream at a lower rate would take too long.
        lowest_share: f64 = 0.02, "times the capacity, 0 to 0.1";
    }
}

const GOLDEN: f64 = 0.618_033_988_75;

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
    /// The rate of the latest stream that met no queue, the lower the longer ago that was, and
    /// whether it was the last.
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
            factor: PACE.factor,
            quiet: Rate::ZERO,
            met_none: false,
        }
    }

    /// Returns stream `turn`, which fits the queue length that the path allows; `coalesced` tells whether
    /// streams before it arrived in batches.
    pub(super) fn schedule(
        &self,
        turn: usize,
        coalesced: bool,
        known: &Conclusion,
        queue_limit: &QueueLimit,
        baseline: &Baseline,
    ) -> Schedule {
        let packet_time = self.capacity.time_for(self.packet);
        let usual = packet_time * PACE.usually_added * if known.series > PACE.suspected { 2 } else { 1 };
        let allowed = queue_limit.allowed(baseline, usual).max(packet_time * PACE.min_added);
        let shortest = match (coalesced, self.coalescing) {
            (false, _) if queue_limit.is_known(baseline) => Duration::ZERO,
            (false, false) => PACE.min_duration_without,
            _ => PACE.min_duration,
        };
        let through = self.jitter.map_or(Duration::ZERO, |jitter| jitter.most);
        let (allowed, shortest) =
            (allowed.max(through), shortest.max((through * PACE.spans).min(PACE.max_duration_with_jitter)));
        let rate = self.rate(turn, known).min(self.max_rate_for(allowed.max(shortest), known));
        let gap = rate.time_for(self.packet).ns().max(1);
        let longest = PACE.max_duration.min(allowed.scale(1.0 / self.growth(rate, known))).ns() / gap;
        let long = known.series > PACE.suspected || rate <= self.current.scale(PACE.near);
        let gaps = i64::from(PACE.stream_gaps) * if long { PACE.longer } else { 1 };
        let even = gaps.min(longest) as f64;
        let gaps = ((even * uneven(turn)) as i64).max(shortest.ns() / gap);
        Schedule::single_rate(rate, (gaps as u32).clamp(PACE.fewest_gaps, MOST_GAPS) as usize, self.packet)
    }

    /// Returns the most informative rate.
    fn rate(&self, turn: usize, known: &Conclusion) -> Rate {
        // Above the narrow link's rate its own queue fills, too, and hides the growth at another link. On an
        // idle path only such rates make a queue grow.
        let most = known.spread.map_or(self.current, |spread| spread.interval_90().1);
        let needed = most.scale(PACE.capacity_multiple).max(self.capacity);
        let highest = needed.min(self.capacity.scale(PACE.capacity_multiple)).min(self.top);
        let lowest = self.capacity.scale(PACE.lowest_share).min(highest);
        let settled = known.one_queue > PACE.settled && turn >= PACE.min_streams;
        let factor = if settled {
            self.factor * PACE.around[turn % PACE.around.len()]
        } else {
            PACE.cycle[turn % PACE.cycle.len()]
        };
        let rising = if self.met_none { self.quiet.scale(PACE.factor_up) } else { Rate::ZERO };
        self.current.scale(factor).max(rising).clamp(lowest, highest)
    }

    /// Returns how fast a stream of this rate makes the delay grow, in seconds per second, at the lowest
    /// plausible available bandwidth.
    fn growth(&self, rate: Rate, known: &Conclusion) -> f64 {
        (rate.saturating_sub(self.least(known)).bps_f64() / self.capacity.bps_f64()).max(PACE.slowest_growth)
    }

    /// Returns the highest rate at which the shortest stream adds no more than `allowed`.
    fn max_rate_for(&self, allowed: Duration, known: &Conclusion) -> Rate {
        let shortest = self.capacity.time_for(self.packet) * i64::from(PACE.fewest_gaps);
        let share = 1.0 - allowed.secs_f64() / shortest.secs_f64();
        if share > 0.0 { self.least(known).scale(1.0 / share) } else { self.top }
    }

    /// Returns the lowest plausible available bandwidth.
    fn least(&self, known: &Conclusion) -> Rate {
        let least =
            known.spread.map_or(self.current.scale(PACE.start_uncertainty), |spread| spread.interval_90().0);
        least.max(self.quiet.scale(PACE.quiet_share)).max(self.capacity.scale(PACE.lowest_share))
    }

    /// Chooses the rate of the next stream after one with this `sample`; `newest` is the available
    /// bandwidth at its end.
    pub(super) fn choose_rate(
        &mut self,
        record: &StreamRecord,
        sample: Option<Sample>,
        newest: Option<Rate>,
    ) {
        let enough = probe::sent_for(record).scale(PACE.busy_share);
        let telling = sample.filter(|sample| !sample.censored && sample.duration >= enough);
        let change = if telling.is_some() { PACE.factor_down } else { PACE.factor_up };
        self.factor = (self.factor * change).clamp(PACE.factor, PACE.factor_max);
        self.met_none = telling.is_none();
        self.quiet = if self.met_none {
            probe::send_rate(record).unwrap_or_default()
        } else {
            self.quiet.scale(PACE.forgotten)
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
    1.0 - PACE.uneven * (number as f64 * GOLDEN).fract()
}
