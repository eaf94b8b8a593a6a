//! What flows may have towards both sides of a link: its rate where that is known, and what experiments find.
//!
//! An experiment in one direction changes the RTT of the other one, too, so only one is made at a time, and
//! none while both have bulk.

use headway_units::{Duration, Instant, PerSide, Rate, Side};

use crate::evaluate::{Estimate, Facts, Input, Quantity, STANDS};
use crate::knee::{Both, Knee, Other, Seen};
use crate::load::{Load, Passed};
use crate::snapshot::RateState;

/// What a link whose rate is to be found has at most: windows for more could not be announced
/// with an RTT of a second.
pub const FASTEST: Rate = Rate::from_bps(10_000_000_000);

/// What is left in a second of the highest rate that flows had, if they have less: half of it after a minute.
/// Range 0.95 to 0.999.
const KEPT: f64 = 0.988;
/// A direction with this part of its rate has bulk, if that was given and if it is the most that was seen.
/// Range 0.2 to 0.5, and 0.1 to 0.3: beside the other one it may have far less than it could.
const BUSY: [f64; 2] = [0.3, 0.15];
/// Both directions have bulk until one has none for so long. Range 1 to 5 s.
const ENDS: Duration = Duration::from_ms(2_000);
/// A flow makes a queue if it has this part of what passes. Range 0.1 to 0.4: others may fill the link.
const MAKES: f64 = 0.2;
/// What others send at once, who have this part of what passes and more than twice of what they had, makes a
/// queue of theirs. Range 0.2 to 0.5.
const BURST: f64 = 0.3;
/// The time in which the mean of what others have follows, in s. Range 1 to 10.
const OTHERS: f64 = 3.0;
/// The least that flows share, as a part of that: beside others who take all that is left, nothing would
/// remain. Range 0.02 to 0.2.
const LEAST: f64 = 0.05;
/// The least and the most that windows are multiplied with where the rate is known. Range 0.02 to 0.5,
/// and 2 to 10: what was given may be far too much, and a path may have become longer by so much, or
/// jitter is most of its RTT.
const FACTORS: [f64; 2] = [0.05, 10.0];
/// A capacity that somebody has measured is tried if it is this much more. Range 1.1 to 1.5.
const MORE: f64 = 1.2;
/// Who says it.
const SOURCE: &str = "queue";

/// What flows may have towards each side.
#[derive(Clone, Debug)]
pub struct LinkRate {
    sides: PerSide<Towards>,
    /// The direction whose turn it is to try something.
    turn: Side,
    at: Option<Instant>,
    /// Until when both directions are taken to have bulk.
    both: Instant,
}

#[derive(Clone, Debug)]
struct Towards {
    knee: Knee,
    /// What the link carries for flows, where that is known.
    goal: Option<Rate>,
    /// By what windows are wider than that, or what is tried, needs without jitter.
    factor: f64,
    /// The queue, in s.
    queue: f64,
    /// Whether it shows.
    shows: bool,
    /// Whether enough is in flight for that to say something, or what others have met tells it.
    is_clear: bool,
    /// The RTT without a queue as a part of that from which windows are computed.
    shorter: f64,
    /// What is tried while the other direction has bulk, too.
    both: Both,
    /// The highest rate, which is forgotten slowly.
    highest: f64,
    /// What others had in the last seconds, in bit/s.
    others: f64,
    /// All that passed.
    all: Rate,
    /// The same when a queue stood last, or the most since.
    carried: Option<Rate>,
    /// For how long a queue has shown without a pause.
    queued: Duration,
}

impl Default for LinkRate {
    fn default() -> LinkRate {
        LinkRate { sides: PerSide::default(), turn: Side::Lan, at: None, both: Instant::ZERO }
    }
}

impl Default for Towards {
    fn default() -> Towards {
        Towards {
            knee: Knee::default(),
            goal: None,
            factor: 1.0,
            queue: 0.0,
            shows: false,
            is_clear: false,
            shorter: 1.0,
            both: Both::default(),
            highest: 0.0,
            others: 0.0,
            all: Rate::ZERO,
            carried: None,
            queued: Duration::ZERO,
        }
    }
}

impl LinkRate {
    /// Takes what the flows that are limited, or would be, did since the last look, what passed `besides`,
    /// and what the link is known to carry for these flows; none where that is to be found.
    pub fn look(
        &mut self,
        now: Instant,
        loads: &[Load],
        besides: PerSide<Rate>,
        goals: PerSide<Option<Rate>>,
    ) {
        let Some(before) = self.at.replace(now) else { return };
        let passed = PerSide::of(|side| Passed::new(loads, side, now - before));
        if Side::BOTH.into_iter().all(|side| self.sides[side].is_busy(&passed[side], goals[side])) {
            self.both = now + ENDS;
        }
        // The least RTT, where both have.
        let both = (now < self.both).then(|| passed[Side::Lan].least.min(passed[Side::Wan].least));
        for side in [self.turn, self.turn.other()] {
            let tries = self.sides[side.other()].knee.is_trying();
            let there = &passed[side.other()];
            let queues = there.rate > 0.0 && Seen::of(there).shows_queue();
            let towards = &mut self.sides[side];
            let was_trying = towards.knee.is_trying();
            towards.look(now, &passed[side], besides[side], goals[side], Other { tries, queues }, both);
            towards.carry(side == Side::Wan, &passed[side]);
            if towards.knee.is_trying() && !was_trying {
                self.turn = side.other();
            }
        }
    }

    /// Takes a capacity that somebody has measured towards a side.
    pub fn raise(&mut self, side: Side, capacity: Rate) {
        let towards = &mut self.sides[side];
        if towards.knee.tried().is_some_and(|tried| tried * MORE < capacity.bps_f64()) {
            towards.knee.measured(capacity.bps_f64());
        }
    }

    /// Returns what flows share towards a side; none before a queue stood there, and where the rate
    /// of the link is known.
    pub fn available(&self, side: Side) -> Option<Rate> {
        let towards = &self.sides[side];
        towards.knee.tried().filter(|_| towards.goal.is_none()).map(Rate::from_bps_f64)
    }

    /// Returns the queues towards each side at the last look, in s, where there was enough in
    /// flight to tell; else 0.
    pub(crate) fn queues(&self) -> PerSide<f64> {
        self.sides.each_ref().map(|side| if side.is_clear { side.queue } else { 0.0 })
    }

    /// Whether a queue showed towards a side, at the last look, of which a flow with this
    /// rate makes a good part.
    pub(crate) fn makes_queue(&self, side: Side, rate: Rate) -> bool {
        let towards = &self.sides[side];
        towards.shows && towards.is_clear && rate > towards.all.scale(MAKES)
    }

    /// Returns the queue towards a side, at the last look, in s.
    pub(crate) fn queue(&self, side: Side) -> f64 {
        self.sides[side].queue
    }

    /// Returns what windows towards each side are multiplied with.
    pub fn factors(&self) -> PerSide<f64> {
        let factor = |towards: &Towards| match towards.goal.is_some() || towards.both.carries().is_some() {
            true => towards.factor,
            false => 1.0,
        };
        self.sides.each_ref().map(|side| side.shorter * factor(side))
    }

    /// Returns the number of the period of RTTs: with another one, connections find anew what
    /// theirs is without a queue.
    pub fn period(&self) -> u32 {
        let PerSide([one, other]) = &self.sides;
        one.knee.renewals().wrapping_add(other.knee.renewals())
    }

    /// Returns the most that has passed towards a side; none before a queue stood there.
    pub fn capacity(&self, side: Side) -> Option<Rate> {
        let towards = &self.sides[side];
        towards.knee.tried().map(|_| Rate::from_bps_f64(towards.highest))
    }

    /// Returns what was delivered with what is tried as its interval, as pages show it.
    pub fn state(&self, side: Side) -> Option<RateState> {
        let towards = &self.sides[side];
        let [tried, delivered] = towards.believed()?;
        let (rate_bps, low_bps, high_bps) =
            (delivered.bps(), delivered.min(tried).bps(), tried.max(delivered).bps());
        Some(RateState { rate_bps, low_bps, high_bps, age_ms: 0, source: SOURCE.to_owned() })
    }
}

impl Towards {
    /// Whether this direction has bulk that may make a queue.
    fn is_busy(&self, passed: &Passed, goal: Option<Rate>) -> bool {
        if let Some(goal) = goal {
            return passed.rate > BUSY[0] * goal.bps_f64();
        }
        let has_stood = self.knee.tried().is_some() || Seen::of(passed).shows_queue();
        has_stood && passed.fills_rtt() && passed.rate > BUSY[1] * self.highest
    }

    fn look(
        &mut self,
        now: Instant,
        passed: &Passed,
        besides: Rate,
        goal: Option<Rate>,
        other: Other,
        both: Option<f64>,
    ) {
        self.highest = (self.highest * KEPT.powf(passed.time)).max(passed.rate);
        (self.goal, self.queue, self.shows) = (goal, passed.queue, Seen::of(passed).shows_queue());
        self.is_clear = passed.rate == 0.0 || passed.fills_rtt();
        if passed.least > 0.0 {
            self.shorter = passed.least / (passed.least + passed.longer);
        }
        if both.is_none()
            && let Some(carries) = self.both.end()
        {
            self.factor = 1.0;
            self.knee.set_tried(Some(carries));
        }
        if let Some(goal) = goal {
            self.knee.set_tried(Some(self.factor * goal.bps_f64()));
        }
        let others = besides.bps_f64();
        let is_burst = others > BURST * (passed.rate + others) + 2.0 * self.others;
        self.others += (passed.time / OTHERS).min(1.0) * (others - self.others);
        match both {
            _ if is_burst => self.knee.pause(now),
            Some(least) => {
                let [carries, windows] = self.both.look((passed, least), besides, goal, self.highest);
                self.factor = windows;
                self.knee.follow(now, if goal.is_some() { windows * carries } else { carries });
            }
            None => self.knee.look(now, passed, goal.map(Rate::bps_f64), other),
        }
        if let Some(goal) = goal.filter(|goal| *goal > Rate::ZERO) {
            let factor = self.knee.tried().map_or(1.0, |tried| tried / goal.bps_f64());
            self.factor = factor.clamp(FACTORS[0], FACTORS[1]);
        } else if let Some(tried) = self.knee.tried() {
            self.knee.set_tried(Some(tried.max(LEAST * self.highest)));
        }
        self.all = Rate::from_bps_f64(passed.rate) + besides;
    }

    /// Notes what the link has carried. Where that `is_ahead` of the router, it does not carry all that
    /// leaves for it while there is a standing queue.
    fn carry(&mut self, is_ahead: bool, passed: &Passed) {
        let queued = self.queued + Duration::from_secs_f64(passed.time);
        self.queued = if self.shows { queued } else { Duration::ZERO };
        let most = self.carried.filter(|_| is_ahead && self.shows);
        let all = most.map_or(self.all, |most| self.all.min(most));
        self.carried = match self.knee.is_backing_off() || self.queued >= STANDS {
            true => Some(all),
            false => {
                let begun = self.both.most().filter(|_| self.shows).map(Rate::from_bps_f64);
                self.carried.or(begun).map(|carried| carried.max(all))
            }
        };
    }

    /// Returns what is tried and what was delivered, between which is what flows may have; none
    /// where that is known.
    fn believed(&self) -> Option<[Rate; 2]> {
        let tried = Rate::from_bps_f64(self.knee.tried().filter(|_| self.goal.is_none())?);
        let delivered = self.both.carries().or(self.knee.delivered());
        Some([tried, delivered.map_or(tried, Rate::from_bps_f64)])
    }
}

impl Input for LinkRate {
    fn tell(&mut self, now: Instant, facts: &mut Facts) {
        facts.widening = self.factors();
        facts.carried = self.sides.each_ref().map(|side| side.carried);
        facts.queued = self.sides.each_ref().map(|side| side.queued);
        for (side, state) in self.sides.iter() {
            let Some([tried, delivered]) = state.believed() else { continue };
            let estimate = |quantity, [rate, low, high]: [Rate; 3]| Estimate {
                source: SOURCE.into(),
                quantity,
                side,
                rate,
                low,
                high,
                at: now,
            };
            let rates = [tried, delivered.min(tried), tried.max(delivered)];
            facts.estimates.push(estimate(Quantity::Available, rates));
            // The link has what once passed, beside what others use, and how much more is unknown.
            let highest = Rate::from_bps_f64(state.highest).max(tried) + facts.besides[side];
            facts.estimates.push(estimate(Quantity::Narrow, [highest, highest, FASTEST]));
        }
    }
}
