//! The answer that a measurement gives in each phase.

use crate::stream::Refusal;
use headway_learned::Outside;
use headway_units::{Duration, Rate};

use super::Measurement;
use super::answer::{Answer, Claim, Failure, Interval};
use super::method::Method;
use super::mixture::LEVELS;
use super::path_kind::PathKind;
use super::phase::Phase;
use super::probe::FULL_PACKET;
use super::stalls::Stalls;

/// If this share of the streams is refused because of losses, the lower end is this share of what the others
/// show. The same holds where most streams overflow a queue, and for "at least" where a stream filled one.
const MANY_LOST: f64 = 0.12;
pub(super) const LOW_IF_LOST: f64 = 0.33;

/// What a policer leaves free that only one stream showed is taken to be this share of what that
/// stream received of it.
const DOUBTED: f64 = 0.5;

impl Measurement {
    /// Returns the answer so far, which is final once [`Measurement::next_step`] returns `Done`.
    pub fn answer(&self) -> Answer {
        let (added_delay, added_delay_max) = self.baseline.added().unwrap_or_default();
        let stalls = self.stalls();
        let available = self.available().map(|interval| Interval {
            rate: if interval.high.is_none() { self.doubted(interval.rate) } else { interval.rate },
            low: self.doubted(interval.low),
            ..interval
        });
        let evaluation = self.phase.evaluation();
        Answer {
            claims: available.map_or_else(|_| Vec::new(), |interval| self.claims(interval)),
            available,
            sampled_from: self.sampled_from,
            path_kind: match stalls {
                Some(_) => Some(PathKind::Stalls),
                None => evaluation.and_then(|phase| phase.path_kind()),
            },
            stalls,
            change: evaluation.and_then(|phase| phase.change()),
            // Timestamps that are too coarse do not give a capacity.
            capacity: evaluation
                .and_then(|phase| phase.capacity())
                .or(self.capacity.filter(|_| self.stamp_limit.is_none())),
            bucket: evaluation.and_then(|phase| phase.bucket(&self.account, &self.baseline)),
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
        if let Some(outside) = self.outside() {
            return Err(Failure::Unseen(outside));
        }
        if let Some(jitter) = self.unbearable_jitter() {
            return Err(Failure::Jitter(jitter));
        }
        let phase = match &self.phase {
            Phase::PolicerSearch(search) => &search.phase,
            phase => phase,
        };
        let at_least = |rate: Rate| {
            let rate = if self.is_doubtful && self.harms() { rate.scale(LOW_IF_LOST) } else { rate };
            Interval { rate, low: rate, high: None }
        };
        let verified = || phase.at_least().filter(|_| !self.is_unverified());
        let interval = phase.evaluation().map_or_else(|| verified().map(at_least), |phase| phase.interval());
        let interval = interval.map(|interval| match self.stalls() {
            Some(stalls) => stalls.averaged(interval, 1.0),
            None => interval,
        });
        if let Some(outside) = phase.evaluation().and_then(|phase| phase.outside()) {
            return Err(Failure::Unseen(outside));
        }
        let failure = || self.given_up.map_or_else(|| self.most_frequent_failure(), Failure::from);
        interval.ok_or_else(failure)
    }

    /// Returns in what the path is unlike all that the model of the learned method has seen: no training
    /// has jitter or stalls.
    pub(super) fn outside(&self) -> Option<Outside> {
        self.model.as_ref().filter(|model| model.has_domain())?;
        let jitter = self.jitter.map(|jitter| Outside::Jitter { span: jitter.most });
        jitter.or_else(|| self.stalls.longest().map(|length| Outside::Stall { length }))
    }

    /// Returns the lower end of an interval, which includes what refused streams would have shown, and the
    /// rate of a policer that is likely but not certain.
    fn doubted(&self, low: Rate) -> Rate {
        let low = low.scale(self.seen_of_full());
        let doubt = self.policer_search.doubt().filter(|_| !self.phase.is_policed());
        doubt.map_or(low, |received| low.min(received.scale(DOUBTED)))
    }

    /// Returns the factor on the lower end where many streams lost too many packets to count: they met a full
    /// queue, and those that count did not.
    fn seen_of_full(&self) -> f64 {
        let refused = self.tally.refusals.get(&Refusal::Lost).copied().unwrap_or_default();
        let all = f64::from(refused + self.tally.used).max(1.0);
        if f64::from(refused) < MANY_LOST * all { 1.0 } else { LOW_IF_LOST }
    }

    fn others_lost(&self, available: Result<Interval, Failure>) -> Option<f64> {
        if self.tally.lost_time == Duration::ZERO {
            return Some(0.0);
        }
        let others = self.capacity?.saturating_sub(available.ok()?.rate);
        Some(others.bytes_in(self.tally.lost_time).get() as f64 / FULL_PACKET.get() as f64)
    }

    fn claims(&self, available: Interval) -> Vec<Claim> {
        if available.high.is_none() {
            return LEVELS
                .iter()
                .map(|(percent, _)| Claim { percent: *percent, low: available.low, high: None })
                .collect();
        }
        let Some(spread) = self.phase.evaluation().and_then(|phase| phase.spread()) else {
            return Vec::new();
        };
        let stalls = self.stalls();
        let claim = |((percent, width), (low, high)): (&(u32, f64), (Rate, Rate))| {
            let between = Interval { rate: spread.median, low, high: Some(high) };
            let mean = stalls.map_or(between, |stalls| stalls.averaged(between, *width));
            Claim { percent: *percent, low: self.doubted(mean.low), high: mean.high }
        };
        LEVELS.iter().zip(spread.intervals).map(claim).collect()
    }

    /// Returns the stalls during the time that the answer is about, where the default
    /// method evaluates streams.
    pub(super) fn stalls(&self) -> Option<Stalls> {
        let from = self.sampled_from.filter(|_| self.config.method == Method::Response)?;
        let evaluation =
            self.phase.evaluation().filter(|phase| phase.path_kind() != Some(PathKind::Policed))?;
        let (between, capacity) = (evaluation.newest()?, evaluation.capacity().or(self.capacity)?);
        self.stalls.within(&(from..self.observed), between, capacity)
    }

    /// Returns the most common refusal, which explains a missing estimate better than an
    /// exhausted budget does.
    fn most_frequent_failure(&self) -> Failure {
        let commonest = self.tally.refusals.iter().max_by_key(|(_, count)| **count);
        match commonest {
            Some((refusal, count)) if *count > self.tally.used => (*refusal).into(),
            // What made streams so long, or met so many of them, explains it.
            _ => match self.jitter {
                Some(jitter) => Failure::Jitter(jitter.most),
                None if self.tally.refusals.contains_key(&Refusal::Stalled) => Failure::Stalls,
                None => Failure::Unfinished,
            },
        }
    }
}
