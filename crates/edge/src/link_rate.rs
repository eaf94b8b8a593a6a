//! What flows may have towards both sides of a link: its rate where that is known, and what experiments find.
//!
//! An experiment in one direction changes the RTT of the other one, too, so only one is made at a time.

use headway_units::{Duration, Instant, Rate};

use crate::evaluate::{Estimate, Facts, Input, Quantity, TOWARDS_LINK};
use crate::knee::{Knee, Other, Seen};
use crate::load::{Load, Passed};
use crate::snapshot::RateState;

/// What a link whose rate is to be found has at most: windows for more could not be told with an RTT of a second.
pub const FASTEST: Rate = Rate::from_bps(10_000_000_000);

/// What is left in a second of the highest rate that flows had, if they have less: half of it after a minute.
const KEPT: f64 = 0.988;
/// A direction that carries this part of its rate may have a queue. Range 0.4 to 0.8.
const BUSY: f64 = 0.5;
/// The least that flows share, as a part of that: beside others who take all that is left, nothing would remain. Range 0.02 to 0.2.
const LEAST: f64 = 0.05;
/// The least and the most that windows are multiplied with where the rate is known. Range 0.5 to 0.9, and 2 to 10: a path may have become longer by so
/// much, or jitter is most of its RTT.
const FACTORS: [f64; 2] = [0.05, 10.0];
/// A capacity that somebody has measured is tried if it is this much more. Range 1.1 to 1.5.
const MORE: f64 = 1.2;
/// A queue that shows for so long stands. Range 0.5 to 2 s.
const STANDS: Duration = Duration::from_ms(1_000);
/// Who says it.
const SOURCE: &str = "queue";

/// What flows may have towards each side.
#[derive(Clone, Debug, Default)]
pub struct LinkRate {
    sides: [Side; 2],
    /// The direction whose turn it is to try something.
    turn: usize,
    at: Option<Instant>,
}

#[derive(Clone, Debug)]
struct Side {
    knee: Knee,
    /// What the link carries for flows, where that is known.
    goal: Option<Rate>,
    /// The queue, in s.
    queue: f64,
    /// By what windows are wider than that needs without jitter.
    factor: f64,
    /// The highest rate, which is forgotten slowly.
    highest: f64,
    /// All that passed when a queue stood last, or the most since.
    carried: Option<Rate>,
    /// For how long a queue has shown without a pause.
    queued: Duration,
}

impl Default for Side {
    fn default() -> Side {
        Side {
            knee: Knee::default(),
            goal: None,
            queue: 0.0,
            factor: 1.0,
            highest: 0.0,
            carried: None,
            queued: Duration::ZERO,
        }
    }
}

impl LinkRate {
    /// Takes what the flows that are limited, or would be, did since the last look, what passed `besides`, and what the link is known to carry for
    /// these flows; none where that is to be found.
    pub fn look(&mut self, now: Instant, loads: &[Load], besides: [Rate; 2], goals: [Option<Rate>; 2]) {
        let Some(before) = self.at.replace(now) else { return };
        let passed = [0, 1].map(|side| Passed::new(loads, side, now - before));
        for number in [self.turn, 1 - self.turn] {
            let tries = self.sides[1 - number].knee.is_trying();
            let there = &passed[1 - number];
            let is_busy = goals[1 - number].is_some_and(|goal| there.rate > BUSY * goal.bps_f64());
            let other = Other { tries, queues: Seen::of(there).shows_queue(), is_busy };
            let side = &mut self.sides[number];
            let was_trying = side.knee.is_trying();
            side.look(now, &passed[number], goals[number], other);
            side.carry(number == TOWARDS_LINK, &passed[number], besides[number]);
            if side.knee.is_trying() && !was_trying {
                self.turn = 1 - number;
            }
        }
    }

    /// Takes a capacity that somebody has measured towards a side, 0 or 1.
    pub fn raise(&mut self, side: usize, capacity: Rate) {
        let side = &mut self.sides[side & 1];
        if side.knee.tried().is_some_and(|tried| tried * MORE < capacity.bps_f64()) {
            side.knee.measured(capacity.bps_f64());
        }
    }

    /// Returns what flows share towards a side, 0 or 1; none before a queue stood there, and where the rate of the link is known.
    pub fn available(&self, side: usize) -> Option<Rate> {
        let side = &self.sides[side & 1];
        side.knee.tried().filter(|_| side.goal.is_none()).map(Rate::from_bps_f64)
    }

    /// Returns the queue towards a side, 0 or 1, at the last look, in s.
    pub(crate) fn queue(&self, side: usize) -> f64 {
        self.sides[side & 1].queue
    }

    /// Returns what windows towards each side are multiplied with where the rate of the link is known.
    pub fn factors(&self) -> [f64; 2] {
        self.sides.each_ref().map(|side| if side.goal.is_some() { side.factor } else { 1.0 })
    }

    /// Returns the number of the period of RTTs: with another one, connections find anew what theirs is without a queue.
    pub fn period(&self) -> u32 {
        let [one, other] = &self.sides;
        one.knee.renewals().wrapping_add(other.knee.renewals())
    }

    /// Returns the most that has passed towards a side, 0 or 1; none before a queue stood there.
    pub fn capacity(&self, side: usize) -> Option<Rate> {
        let side = &self.sides[side & 1];
        side.knee.tried().map(|_| Rate::from_bps_f64(side.highest))
    }

    /// Returns what flows share with its interval, as pages show it.
    pub fn state(&self, side: usize) -> Option<RateState> {
        let [rate, low, high] = self.sides[side & 1].interval()?;
        let (rate_bps, low_bps, high_bps) = (rate.bps(), low.bps(), high.bps());
        Some(RateState { rate_bps, low_bps, high_bps, age_ms: 0, source: SOURCE.to_owned() })
    }
}

impl Side {
    fn look(&mut self, now: Instant, passed: &Passed, goal: Option<Rate>, other: Other) {
        self.highest = (self.highest * KEPT.powf(passed.time)).max(passed.rate);
        (self.goal, self.queue) = (goal, passed.queue);
        if let Some(goal) = goal {
            self.knee.set_tried(Some(self.factor * goal.bps_f64()));
        }
        self.knee.look(now, passed, goal.map(Rate::bps_f64), other);
        if let Some(goal) = goal.filter(|goal| *goal > Rate::ZERO) {
            let factor = self.knee.tried().map_or(1.0, |tried| tried / goal.bps_f64());
            self.factor = factor.clamp(FACTORS[0], FACTORS[1]);
        } else if let Some(tried) = self.knee.tried() {
            self.knee.set_tried(Some(tried.max(LEAST * self.highest)));
        }
    }

    /// Notes what the link has carried. Where that `is_ahead` of the router, it does not carry all that leaves for it while a queue stands.
    fn carry(&mut self, is_ahead: bool, passed: &Passed, besides: Rate) {
        let all = Rate::from_bps_f64(passed.rate) + besides;
        let has_queue = Seen::of(passed).shows_queue();
        let queued = self.queued + Duration::from_secs_f64(passed.time);
        self.queued = if has_queue { queued } else { Duration::ZERO };
        let most = self.carried.filter(|_| is_ahead && has_queue);
        let all = most.map_or(all, |most| all.min(most));
        self.carried = match self.knee.is_backing_off() || self.queued >= STANDS {
            true => Some(all),
            false => self.carried.map(|carried| carried.max(all)),
        };
    }

    /// Returns what is believed of what flows may have, with its interval: what was delivered, and what is tried.
    fn interval(&self) -> Option<[Rate; 3]> {
        let tried = Rate::from_bps_f64(self.knee.tried().filter(|_| self.goal.is_none())?);
        let delivered = self.knee.delivered().map_or(tried, Rate::from_bps_f64);
        Some([tried, delivered.min(tried), tried.max(delivered)])
    }
}

impl Input for LinkRate {
    fn tell(&mut self, now: Instant, facts: &mut Facts) {
        facts.widening = self.factors();
        facts.carried = self.sides.each_ref().map(|side| side.carried);
        facts.queued = self.sides.each_ref().map(|side| side.queued);
        for (side, state) in (0..).zip(&self.sides) {
            let Some([rate, low, high]) = state.interval() else { continue };
            let estimate = |quantity, [rate, low, high]: [Rate; 3]| Estimate {
                source: SOURCE.into(),
                quantity,
                side,
                rate,
                low,
                high,
                at: now,
            };
            facts.estimates.push(estimate(Quantity::Available, [rate, low, high]));
            // The link has what once passed, beside what others use, and nobody knows how much more.
            let highest = Rate::from_bps_f64(state.highest).max(rate) + facts.besides[usize::from(side)];
            facts.estimates.push(estimate(Quantity::Narrow, [highest, highest, FASTEST]));
        }
    }
}
