//! The answer that a measurement gives in each phase.

use crate::stream::Refusal;
use headway_units::{Bytes, Duration, Rate};

use super::answer::{Answer, Claim, Failure, Interval};
use super::mixture::{LEVELS, Spread};
use super::phase::{Fallback, Phase};
use super::probe::FULL_PACKET;
use super::{Change, Measurement, Method, PathKind};

/// An interval whose upper end exceeds this share of the timestamp limit has no upper end.
const NEAR_LIMIT: f64 = 0.9;

/// If this share of the streams is refused because of losses, the lower end is this share of what the others show. The same
/// holds where most streams overflow a queue, and for "at least" where a stream filled one.
const MANY_LOST: f64 = 0.12;
pub(super) const LOW_IF_LOST: f64 = 0.33;

/// Error of an answer without the capacity, as a share of the answer: such paths lose packets at most rates.
const WITHOUT_CAPACITY: f64 = 0.3;

/// What a policer leaves free that only one stream showed is taken to be this share of what that stream received of it.
const DOUBTED: f64 = 0.5;

impl Measurement {
    /// Returns the answer so far, which is final once [`Measurement::next_step`] returns `Done`.
    pub fn answer(&self) -> Answer {
        let (added_delay, added_delay_max) = self.baseline.added().unwrap_or_default();
        let available = self.available().map(|interval| Interval {
            rate: if interval.high.is_none() { self.doubted(interval.rate) } else { interval.rate },
            low: self.doubted(interval.low),
            ..interval
        });
        Answer {
            claims: available.map_or_else(|_| Vec::new(), |interval| self.claims(interval)),
            available,
            sampled_from: self.sampled_from,
            path_kind: self.path_kind(),
            change: self.change(),
            // Timestamps that are too coarse do not give a capacity.
            capacity: match &self.phase {
                Phase::Policed(policed) => Some(policed.rate()),
                _ => self.capacity.filter(|_| self.stamp_limit.is_none()),
            },
            bucket: self.bucket(),
            highest_rate: self.tally.highest,
            streams_used: self.tally.used,
            streams_refused: self.tally.refusals.clone(),
            bytes: self.tally.bytes,
            packets: self.tally.packets,
            lost: self.tally.lost,
            added_delay,
            added_delay_max,
            others_lost: self.others_lost(available),
        }
    }

    pub(super) fn available(&self) -> Result<Interval, Failure> {
        if self.tally.packets > 0 && self.tally.lost == self.tally.packets {
            return Err(Failure::AllLost);
        }
        if let Some(capacity) = self.too_slow() {
            return Err(Failure::TooSlow(capacity));
        }
        let between = |spread: Spread| {
            let (low, high) = spread.interval_90();
            Interval { rate: spread.median, low, high: Some(high) }
        };
        let interval = match self.phase.method() {
            Phase::Response(response) => response.spread().map(|spread| {
                let (low, high) = spread.interval_90();
                match self.stamp_limit {
                    Some(limit) if high > limit.scale(NEAR_LIMIT) => Interval { rate: low, low, high: None },
                    _ => Interval { rate: spread.median, low, high: Some(high) },
                }
            }),
            Phase::Shaped(shaped) => shaped.spread().map(between),
            Phase::Policed(policed) => policed.spread().map(between),
            Phase::Track(track) => track.interval().map(|interval| self.without_capacity(interval)),
            Phase::Search(search) => search.interval(),
            Phase::AtLeast(rate) | Phase::ShaperSearch(Fallback::AtLeast(rate)) => {
                let rate = if self.is_doubtful && self.harms() { rate.scale(LOW_IF_LOST) } else { *rate };
                Some(Interval { rate, low: rate, high: None })
            }
            Phase::Startup(_) | Phase::Capacity(_) | Phase::Pairs(_) | Phase::ShaperSearch(_) => None,
            Phase::PolicerSearch(_) => None,
        };
        let failure = || self.given_up.map_or_else(|| self.most_frequent_failure(), Failure::from);
        interval.ok_or_else(failure)
    }

    /// Returns the lower end of an interval, which includes what refused streams would have shown, and the rate of a policer
    /// that is likely but not certain.
    fn doubted(&self, low: Rate) -> Rate {
        let low = low.scale(self.seen_of_full());
        match (&self.phase, self.policer_search.doubt()) {
            (Phase::Policed(_), _) | (_, None) => low,
            (_, Some(received)) => low.min(received.scale(DOUBTED)),
        }
    }

    /// Returns the factor on the lower end where many streams lost too many packets to count: they met a full queue, and those
    /// that count did not.
    fn seen_of_full(&self) -> f64 {
        let refused = self.tally.refusals.get(&Refusal::Lost).copied().unwrap_or_default();
        let all = f64::from(refused + self.tally.used).max(1.0);
        if f64::from(refused) < MANY_LOST * all { 1.0 } else { LOW_IF_LOST }
    }

    /// Widens the interval of the multi-rate method that takes over from the default one where the trains show no capacity.
    fn without_capacity(&self, interval: Interval) -> Interval {
        if self.config.method != Method::Response {
            return interval;
        }
        let apart = |end: Rate, sign: f64| {
            let (end, rate) = (end.bps_f64(), interval.rate.bps_f64());
            Rate::from_bps_f64((rate + sign * (end - rate).hypot(WITHOUT_CAPACITY * rate)).max(0.0))
        };
        Interval {
            low: apart(interval.low, -1.0),
            high: interval.high.map(|high| apart(high, 1.0)),
            ..interval
        }
    }

    fn others_lost(&self, available: Result<Interval, Failure>) -> Option<f64> {
        if self.tally.lost_time == Duration::ZERO {
            return Some(0.0);
        }
        let others = self.capacity?.saturating_sub(available.ok()?.rate);
        Some(others.bytes_in(self.tally.lost_time).get() as f64 / FULL_PACKET.get() as f64)
    }

    fn path_kind(&self) -> Option<PathKind> {
        match self.phase.method() {
            Phase::Shaped(_) => Some(PathKind::Shaped),
            Phase::Policed(_) => Some(PathKind::Policed),
            Phase::Response(_) if self.stamp_limit.is_some() => Some(PathKind::TooFast),
            Phase::Response(response) if response.spread().is_some() => Some(response.path_kind()),
            _ => None,
        }
    }

    fn bucket(&self) -> Option<Bytes> {
        match &self.phase {
            Phase::Shaped(shaped) => Some(shaped.bucket(&self.account, &self.baseline)),
            Phase::Policed(policed) => Some(policed.bucket()),
            _ => None,
        }
    }

    fn change(&self) -> Option<Change> {
        let Phase::Response(response) = self.phase.method() else { return None };
        response.change().filter(|_| self.stamp_limit.is_none())
    }

    fn claims(&self, available: Interval) -> Vec<Claim> {
        let levels = LEVELS.iter().map(|(percent, _)| *percent);
        if available.high.is_none() {
            return levels.map(|percent| Claim { percent, low: available.low, high: None }).collect();
        }
        let spread = match self.phase.method() {
            Phase::Response(response) => response.spread(),
            Phase::Shaped(shaped) => shaped.spread(),
            Phase::Policed(policed) => policed.spread(),
            _ => None,
        };
        let intervals = spread.into_iter().flat_map(|spread| spread.intervals);
        levels
            .zip(intervals)
            .map(|(percent, (low, high))| Claim { percent, low: self.doubted(low), high: Some(high) })
            .collect()
    }

    /// Returns the most common refusal, which explains a missing estimate better than an exhausted budget does.
    fn most_frequent_failure(&self) -> Failure {
        let commonest = self.tally.refusals.iter().max_by_key(|(_, count)| **count);
        match commonest {
            Some((refusal, count)) if *count > self.tally.used => (*refusal).into(),
            _ => Failure::Unfinished,
        }
    }
}
