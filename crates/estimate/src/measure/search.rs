//! Methods with single-rate streams: a binary search over the verdicts above, not above and ambiguous.

use std::sync::Arc;

use crate::stream::{Refusal, Schedule};
use crate::{Decision, RateSearch, Scratch, Settings, SingleRate};
use headway_learned::{Model, Outside};
use headway_units::{Bytes, Rate};

use super::answer::Interval;
use super::delay::Baseline;
use super::evaluation::{Evaluation, Known, Received};
use super::probe::{self, Probe};

/// The search starts with a bracket of this factor below and above the start-up result.
const BRACKET: f64 = 3.0;
/// Upper limit of the bracket as a multiple of the capacity.
const CAPACITY_MULTIPLE: f64 = 1.1;
/// The search ends when the bracket is narrower than this share of the start-up result.
const RESOLUTION: f64 = 0.05;
/// Lower limit of the bracket.
const LOWEST: Rate = Rate::from_bps(500_000);
/// Streams at each rate, of which the majority decides.
const FLEET: usize = 3;

/// Returns the number of gaps in a stream of each method: 100 packets as in Pathload, a multiple of eight for
/// the wavelet, and 320 for PRC-MT unless BASS removes the truncated events (rapid 2.17, 2.18).
const fn stream_gaps(method: SingleRate) -> usize {
    match method {
        SingleRate::Pathload | SingleRate::ImrAvg | SingleRate::BassImrAvg => 100,
        SingleRate::ImrWavelet => 128,
        // After the removal of cut-off events, 64 must remain.
        SingleRate::BassImrWavelet => 192,
        SingleRate::PrcMt => 320,
        SingleRate::BassPrcMt => 64,
        // Without a model, which refuses any number.
        SingleRate::Learned => 48,
    }
}

#[derive(Debug)]
pub(super) struct Search {
    method: SingleRate,
    gaps: usize,
    settings: Settings,
    packet: Bytes,
    search: RateSearch,
    resolution: Rate,
    /// The lowest rate that a trained model has seen.
    lowest: Rate,
    highest: Rate,
    seen_below: bool,
    seen_above: bool,
    rate: Option<Rate>,
    fleet: Vec<Decision>,
    scratch: Scratch,
}

impl Search {
    pub(super) fn new(method: SingleRate, packet: Bytes, start: Rate, capacity: Rate) -> Search {
        let highest = capacity.scale(CAPACITY_MULTIPLE);
        let (low, high) = (start.scale(1.0 / BRACKET), start.scale(BRACKET).min(highest));
        let resolution = start.scale(RESOLUTION);
        let search = RateSearch::new(low, high, resolution);
        let rate = search.next_rate();
        Search {
            method,
            gaps: stream_gaps(method),
            settings: Settings::for_link(packet, capacity),
            packet,
            search,
            resolution,
            lowest: Rate::ZERO,
            highest,
            seen_below: false,
            seen_above: false,
            rate,
            fleet: Vec::new(),
            scratch: Scratch::default(),
        }
    }

    /// Gives a learned estimator its model, whose streams are sent, and the capacity as
    /// far as it was measured.
    pub(super) fn with_model(self, model: Option<&Arc<Model>>, capacity: Option<Rate>) -> Search {
        let Some((model, shape)) = model.and_then(|model| Some((model, model.shape()?))) else { return self };
        let packet = probe::packet_of(model, self.packet);
        let (lowest, highest) = model.rates(packet, capacity).unwrap_or((Rate::ZERO, self.highest));
        let (low, high) = self.search.range();
        // Where nothing of the bracket has been seen, the model says so.
        let seen = Some((low.max(lowest), high.min(highest))).filter(|(low, high)| low < high);
        let (low, high) = seen.unwrap_or((low, high));
        let search = RateSearch::new(low, high, self.resolution);
        Search {
            gaps: shape.packets_per_rate as usize,
            settings: Settings { capacity, ..self.settings },
            packet,
            scratch: Scratch::with_model(Arc::clone(model)),
            lowest,
            highest: highest.min(self.highest),
            rate: search.next_rate(),
            search,
            ..self
        }
    }

    fn decided(&mut self, decision: Decision) {
        self.fleet.push(decision);
        let votes = |wanted| self.fleet.iter().filter(|decision| **decision == wanted).count();
        let majority = FLEET / 2 + 1;
        let verdict = if votes(Decision::Above) >= majority {
            Decision::Above
        } else if votes(Decision::NotAbove) >= majority {
            Decision::NotAbove
        } else if self.fleet.len() >= FLEET {
            Decision::Ambiguous
        } else {
            return;
        };
        self.fleet.clear();
        self.seen_above |= verdict == Decision::Above;
        self.seen_below |= verdict == Decision::NotAbove;
        self.search.observe(verdict);
        self.rate = self.search.next_rate();
        if self.rate.is_none() {
            self.widen();
        }
    }

    /// Moves a bracket that proved not to contain the answer.
    fn widen(&mut self) {
        let (low, high) = self.search.range();
        let moved = match (self.seen_below, self.seen_above) {
            (true, false) if high < self.highest => (high, high.scale(BRACKET).min(self.highest)),
            (false, true) if low > self.lowest.max(LOWEST) => {
                (low.scale(1.0 / BRACKET).max(self.lowest), low)
            }
            _ => return,
        };
        self.search = RateSearch::new(moved.0, moved.1, moved.0.scale(RESOLUTION));
        self.rate = self.search.next_rate();
    }
}

impl Evaluation for Search {
    fn schedule(&self, _: &Known<'_>) -> Option<Schedule> {
        Some(Schedule::single_rate(self.rate?, self.gaps, self.packet))
    }

    fn observe(&mut self, stream: &Received<'_>, _: &Baseline, _: &mut Probe) -> Result<(), Refusal> {
        let decision = self.method.decide(stream.record, &self.settings, &mut self.scratch)?;
        self.decided(decision);
        Ok(())
    }

    /// Counts a stream that lost packets as above: it overflowed the queue.
    fn refused(&mut self, refusal: Refusal) {
        if refusal == Refusal::Lost {
            self.decided(Decision::Above);
        }
    }

    /// Returns the middle of the bracket, with the bracket as the interval; `None` before the first verdict.
    fn interval(&self) -> Option<Interval> {
        let begun = self.seen_above || self.seen_below || self.search.grey_region().is_some();
        let (low, high) = self.search.range();
        begun.then(|| Interval { rate: self.search.middle(), low, high: Some(high) })
    }

    /// Returns why no stream was like those that a trained model has seen, or why the answer is not.
    fn outside(&self) -> Option<Outside> {
        if self.seen_above || self.seen_below {
            return self.scratch.unlike_training(self.interval()?.rate, self.settings.capacity);
        }
        self.scratch.outside()
    }
}
