//! Methods with multi-rate streams: each stream gives an estimate, around which the next ones are sent.

use std::sync::Arc;

use crate::stream::{Refusal, Schedule, Shape, StreamRecord};
use crate::vhf::VerticalHorizontal;
use crate::{MultiRate, Scratch, Settings, StreamEstimate};
use headway_learned::{Model, Outside};
use headway_units::{Bytes, Rate};

use super::answer::Interval;
use super::delay::Baseline;
use super::evaluation::{Evaluation, Known, Received};
use super::probe::{self, Probe};

/// Rates, packets per rate and step of Rapid's p-streams (rapid 1.6).
const SHAPE: Shape = Shape { rates: 4, packets_per_rate: 16, step: 1.15 };
/// Gaps of a chirp and their spread factor: 48 gaps that shrink by 5 % each span a factor of ten.
const CHIRP_GAPS: usize = 48;
const CHIRP_SPREAD: f64 = 1.05;
/// The lowest rate of a chirp as a share of the current estimate, which puts the estimate in the
/// middle of the rates.
const CHIRP_BOTTOM: f64 = 0.32;
/// The reach of a reflected chirp as a share of the current estimate, its gaps on either side and the factor
/// between its steps: as wide as a chirp, with the last steps around the estimate 2 % wide.
const REFLECTED_REACH: f64 = 0.68;
const REFLECTED_HALF: usize = CHIRP_GAPS / 2;
const REFLECTED_SPREAD: f64 = 1.166;
/// Once settled, the average rate follows the estimates once per this many p-streams (rapid 2.12: gamma),
/// sent as one stream.
const GAMMA: usize = 3;
/// An additional p-stream precedes them and does not count: a stream that starts with an empty queue spends
/// part of its packets filling it, and its estimate is up to 9 % low.
const LEAD: usize = 1;
/// Maximum number of streams before the rate has settled. Until then, it jumps to every estimate. Behind a
/// coalescing receiver each estimate raises it by only 3 to 7 %, regardless of the available bandwidth (rapid
/// B.2), so doubling it takes this many streams.
const MAX_SETTLING: u32 = 20;
/// The rate has settled when an estimate exceeds it by no more than this.
const ARRIVED: f64 = 1.02;
/// What is available moves if the means of so many groups of p-streams or more, each sent as one stream, have
/// at least this standard deviation as a share of their mean, and a variance so many times that within
/// groups. Range 0.05 to 0.15 and 2 to 6: bursts vary within groups, too.
const FEWEST_GROUPS: usize = 3;
/// As many streams that have more than the capacity free, by this factor, say that the link has become
/// faster. Range 1.1 to 1.3: answers of models are off by some percent.
const ABOVE: f64 = 1.2;
const MOVING: f64 = 0.1;
const MOVING_APART: f64 = 3.0;
/// Number of streams used at which the method stops.
const ENOUGH_STREAMS: usize = 24;
/// Streams keep this share away from the ends of the rates that a trained model has seen: gaps are not
/// exactly as scheduled.
const SEEN_MARGIN: f64 = 0.02;
/// Error of an answer without the capacity, as a share of the answer: such paths lose packets at most rates.
const WITHOUT_CAPACITY: f64 = 0.3;
/// 95 % quantile of the normal distribution, for a two-sided 90 % interval.
const Z90: f64 = 1.645;

#[derive(Debug)]
pub(super) struct Track {
    method: MultiRate,
    shape: Shape,
    settings: Settings,
    packet: Bytes,
    capacity: Rate,
    average: Rate,
    settling: u32,
    estimates: Vec<Rate>,
    /// The intervals of these estimates, where a trained model gives them.
    intervals: Vec<(Rate, Rate)>,
    /// How many p-streams were unlike those that a trained model has seen, and in what the last one was.
    unseen: (usize, Option<Outside>),
    /// What a trained model said of streams that were far above the capacity as trains found it.
    above: Vec<Rate>,
    /// The average rates that a trained model has seen.
    seen: Option<(Rate, Rate)>,
    /// Smooths the estimates from reflected chirps.
    filter: VerticalHorizontal,
    filtered: Option<Rate>,
    scratch: Scratch,
    /// Error beyond that of the streams, as a share of the answer.
    error: f64,
}

impl Track {
    pub(super) fn new(method: MultiRate, packet: Bytes, start: Rate, capacity: Rate) -> Track {
        Track {
            method,
            shape: SHAPE,
            settings: Settings::for_link(packet, capacity),
            packet,
            capacity,
            average: start.min(capacity),
            settling: MAX_SETTLING,
            estimates: Vec::new(),
            intervals: Vec::new(),
            unseen: (0, None),
            above: Vec::new(),
            seen: None,
            filter: VerticalHorizontal::default(),
            filtered: None,
            scratch: Scratch::default(),
            error: 0.0,
        }
    }

    /// Takes the place of the default method where the trains show no capacity.
    pub(super) fn without_capacity(self) -> Track {
        Track { error: WITHOUT_CAPACITY, ..self }
    }

    /// Gives a learned estimator its model, whose streams are sent, and the capacity as
    /// far as it was measured.
    pub(super) fn with_model(self, model: Option<&Arc<Model>>, capacity: Option<Rate>) -> Track {
        let Some((model, shape)) = model.and_then(|model| Some((model, model.shape()?))) else { return self };
        let packet = probe::packet_of(model, self.packet);
        let track = Track {
            shape: Shape::with_range(shape.rates, shape.packets_per_rate, shape.range),
            settings: Settings { capacity, ..self.settings },
            packet,
            seen: model.rates(packet, capacity),
            scratch: Scratch::with_model(Arc::clone(model)),
            ..self
        };
        Track { average: track.within(track.average), ..track }
    }

    /// Returns the rate to probe next for an estimate: no more than the capacity, and within what a
    /// trained model has seen.
    fn within(&self, estimate: Rate) -> Rate {
        let seen = self.seen.map_or(estimate, |(low, high)| {
            estimate.min(high.scale(1.0 - SEEN_MARGIN)).max(low.scale(1.0 + SEEN_MARGIN))
        });
        seen.min(self.capacity)
    }

    fn next_stream(&self) -> Schedule {
        match self.method {
            MultiRate::PathChirp => {
                let bottom = self.average.scale(CHIRP_BOTTOM);
                return Schedule::chirp(bottom, CHIRP_SPREAD, CHIRP_GAPS, self.packet);
            }
            MultiRate::ReflectedChirp => {
                let reach = self.average.scale(REFLECTED_REACH);
                return Schedule::reflected_chirp(
                    self.average,
                    reach,
                    REFLECTED_SPREAD,
                    REFLECTED_HALF,
                    self.packet,
                );
            }
            _ => {}
        }
        let p_stream = Schedule::p_stream(self.shape, self.average, self.packet);
        if self.settling > 0 { p_stream } else { p_stream.repeated(LEAD + GAMMA) }
    }

    /// Returns the rate that a stream points to before the rate has settled. Far from it a stream may be
    /// unlike all that a model has seen, although the path is not: then BASS shows the way.
    fn towards(&mut self, record: &StreamRecord) -> Result<Rate, Refusal> {
        let mut found = self.method.estimate(record, &self.settings, &mut self.scratch);
        if let Err(Refusal::Unseen(_)) = found {
            found = MultiRate::Bass.estimate(record, &self.settings, &mut self.scratch);
        }
        Ok(found?.rate)
    }

    fn estimate(&mut self, p_stream: &StreamRecord) -> Result<StreamEstimate, Refusal> {
        let found = self.method.estimate(p_stream, &self.settings, &mut self.scratch);
        if let Some(outside) = self.scratch.outside() {
            self.unseen = (self.unseen.0 + 1, Some(outside));
        }
        // A model need not know the capacity, more than which is never free.
        let Some(most) = self.settings.capacity.filter(|_| self.method == MultiRate::Learned) else {
            return found;
        };
        self.above.extend(found.ok().map(|found| found.rate).filter(|rate| *rate > most.scale(ABOVE)));
        found.map(|found| StreamEstimate {
            rate: found.rate.min(most),
            interval: found.interval.map(|(low, high)| (low.min(most), high)),
            ..found
        })
    }
}

impl Track {
    /// Returns the lowest and the highest rate of streams that lie close together in time, if they differ far
    /// more than those of one time do: then what is available moves.
    fn moving(&self) -> Option<Outside> {
        let capacity = self.settings.capacity.unwrap_or_default();
        // A model that says so of all streams is off by as much.
        let others = self.estimates.len().saturating_sub(self.above.len());
        if self.above.len().min(others) >= FEWEST_GROUPS {
            return Some(Outside::Moving { low: capacity, high: mean(&self.above) });
        }
        let groups = || {
            self.estimates.chunks_exact(GAMMA).map(|group| spread(group.iter().map(|rate| rate.bps_f64())))
        };
        if groups().count() < FEWEST_GROUPS {
            return None;
        }
        let (mean, between) = spread(groups().map(|(mean, _)| mean));
        let (within, _) = spread(groups().map(|(_, variance)| variance));
        let means = || groups().map(|(mean, _)| mean);
        let moves = between > (MOVING * mean).powi(2) && between > MOVING_APART * within;
        moves.then(|| Outside::Moving {
            low: Rate::from_bps_f64(means().fold(f64::INFINITY, f64::min)),
            high: Rate::from_bps_f64(means().fold(0.0, f64::max)),
        })
    }
}

impl Evaluation for Track {
    fn schedule(&self, _: &Known<'_>) -> Option<Schedule> {
        (self.estimates.len() < ENOUGH_STREAMS).then(|| self.next_stream())
    }

    fn observe(&mut self, stream: &Received<'_>, _: &Baseline, _: &mut Probe) -> Result<(), Refusal> {
        let record = stream.record;
        if self.settling > 0 {
            let estimate = self.towards(record)?;
            let next = self.within(estimate);
            let arrived =
                estimate <= self.average.scale(ARRIVED) || self.seen.is_some() && next == self.average;
            self.settling = if arrived { 0 } else { self.settling - 1 };
            self.average = next;
            return Ok(());
        }
        let before = self.estimates.len();
        let mut refusal = None;
        if let MultiRate::PathChirp | MultiRate::ReflectedChirp = self.method {
            let estimate = self.estimate(record)?.rate;
            self.estimates.push(estimate);
            if self.method == MultiRate::ReflectedChirp {
                self.filtered = Some(self.filter.add(estimate));
            }
        } else {
            for p_stream in record.split(self.shape.gaps()).skip(LEAD) {
                match self.estimate(&p_stream) {
                    Ok(estimate) => {
                        self.estimates.push(estimate.rate);
                        self.intervals.extend(estimate.interval);
                    }
                    Err(reason) => refusal = Some(reason),
                }
            }
        }
        match (&self.estimates[before..], refusal) {
            ([], Some(refusal)) => return Err(refusal),
            ([], None) => return Err(Refusal::TooShort),
            (new, _) => self.average = self.within(self.filtered.unwrap_or_else(|| mean(new))),
        }
        Ok(())
    }

    /// Returns the mean over the settled streams, or the smoothed estimate of reflected chirps, with a 90 %
    /// interval; assumes that streams are independent. The errors of a trained model on one path are not: the
    /// means of the ends of its intervals are those of the interval of the mean.
    fn interval(&self) -> Option<Interval> {
        let settled = &self.estimates;
        if settled.len() < 2 {
            return None;
        }
        let mean = mean(settled);
        let squares: f64 = settled.iter().map(|e| (e.bps_f64() - mean.bps_f64()).powi(2)).sum();
        let rate = self.filtered.unwrap_or(mean);
        if self.intervals.len() == settled.len() {
            let (low, high): (Vec<Rate>, Vec<Rate>) = self.intervals.iter().copied().unzip();
            return Some(Interval { rate, low: self::mean(&low), high: Some(self::mean(&high)) });
        }
        let count = settled.len() as f64;
        let half = Rate::from_bps_f64(Z90 * (squares / (count - 1.0) / count).sqrt());
        let interval = Interval { rate, low: rate.saturating_sub(half), high: Some(rate + half) };
        Some(if self.error > 0.0 { widened(interval, self.error) } else { interval })
    }

    fn outside(&self) -> Option<Outside> {
        let unseen = self.unseen.1.filter(|_| self.unseen.0 > self.estimates.len());
        let moving = || self.moving().filter(|_| self.method == MultiRate::Learned);
        unseen
            .or_else(moving)
            .or_else(|| self.scratch.unlike_training(self.interval()?.rate, self.settings.capacity))
    }
}

/// Returns the mean of some rates in bit/s, and their variance around it.
fn spread(rates: impl Iterator<Item = f64> + Clone) -> (f64, f64) {
    let count = rates.clone().count().max(1) as f64;
    let mean = rates.clone().sum::<f64>() / count;
    (mean, rates.map(|rate| (rate - mean).powi(2)).sum::<f64>() / count)
}

/// Widens an interval by an independent error, as a share of the rate.
fn widened(interval: Interval, error: f64) -> Interval {
    let apart = |end: Rate, sign: f64| {
        let (end, rate) = (end.bps_f64(), interval.rate.bps_f64());
        Rate::from_bps_f64((rate + sign * (end - rate).hypot(error * rate)).max(0.0))
    };
    Interval { low: apart(interval.low, -1.0), high: interval.high.map(|high| apart(high, 1.0)), ..interval }
}

fn mean(rates: &[Rate]) -> Rate {
    Rate::from_bps_f64(rates.iter().map(|rate| rate.bps_f64()).sum::<f64>() / rates.len() as f64)
}
