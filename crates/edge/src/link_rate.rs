//! The rate of a link that nobody has told, found by the queue that flows make in it.
//!
//! While a queue stands, what passes is what the link has for these flows. So their rate is what they are to share, and windows
//! for it leave no queue. While none stands and flows use what they may have, they may have a little more every second: windows that are
//! too large by a tenth make a queue of a tenth of the RTT, so trying costs little.

use headway_units::{Duration, Instant, Rate};

use crate::evaluate::{Estimate, Facts, Input, Quantity};
use crate::load::{Load, Passed, Queue, STANDS_PART, queues};
use crate::snapshot::RateState;
use crate::widening::WIDEST;

/// What a link whose rate is to be found has at most: windows for more could not be told with an RTT of a second.
pub const FASTEST: Rate = Rate::from_bps(10_000_000_000);

/// Flows that have more than this part of what they may have would take more. Range 0.6 to 0.9: windows are whole segments.
const USES: f64 = 0.8;
/// The same in a second in which packets did not even wait, near the rate at which a queue stood last and far from it: bursts leave pauses.
/// Range 0.6 to [`USES`].
const CALM_USES: [f64; 2] = [0.7, 0.75];
/// Where both directions have traffic, an RTT does not say in which one the queue is. It is not in one that uses less than this part
/// of what the other one does, at first. Range 0.3 to 0.8.
const SUSPECT: f64 = 0.5;
/// Nor is it, at last, in one that uses less than this part of what it may have. Range 0.05 to 0.3.
const USES_SOME: f64 = 0.1;
/// What flows share is believed up to this factor of the most that has passed, when it is asked which direction has a queue: a capacity that
/// somebody has measured may be that of a token bucket's burst. Range 1.2 to 2.
const BELIEVED: f64 = 1.5;
/// A queue that is longer than this is taken from both directions at once, and one of them gets back what it had when the queue is gone.
/// Range 20 to 60 ms: one direction after the other takes two seconds for each.
const DEEP: Duration = Duration::from_ms(40);
/// By how much a queue becomes longer if there is another reason. Range 1.5 to 3.
const DEEPER: f64 = 2.0;
/// If the queue comes again within so many seconds, it was the wrong one. Range 2 to 5.
const DOUBTS: u32 = 3;
/// Growth in a second near the rate at which a queue stood last, and far from it. Range 1.01 to 1.2.
const GROWTH: [f64; 2] = [1.02, 1.15];
/// Growth near that rate in a second in which packets did not even wait, where what leaves is smoothed. No direction is full then, and both
/// may grow. Range 1.02 to 1.15.
const CALM_GROWTH: f64 = 1.1;
/// Where one-way delays tell in which direction a queue is: up to so much more than they have. A window above cwnd makes no queue until cwnd has
/// grown. Range 1.2 to 1.5: packets that wait in bursts take a part of what windows give.
const MOST_ABOVE: f64 = 1.3;
/// What is near: up to this factor. Above 1 + [`STANDS_PART`], so that a queue shows before growth becomes faster.
const NEAR: f64 = 1.35;
/// The least that flows share, as a part of what they had: beside others who take all that is left, nothing would remain.
const LEAST: f64 = 0.1;
/// What is left in a second of the highest rate that flows had, if they have less: half of it after a minute.
const KEPT: f64 = 0.988;
/// Seconds for which one direction grows while the other one would, too. Range 2 to 20: queues show within two.
const TURN: u32 = 5;
/// A queue that has become this part of what it was becomes empty. Range 0.5 to 0.95.
const DRAINS: f64 = 0.8;
/// Who says it.
const SOURCE: &str = "queue";

/// What flows share towards each side.
#[derive(Clone, Debug, Default)]
pub struct LinkRate {
    sides: [Side; 2],
    trial: Trial,
    /// The latest queue of each side, where that is known, and for how many looks the side has been slowed down because of one.
    queues: [Duration; 2],
    slowed: [u32; 2],
    /// For how many looks a queue has stood in neither of them and yet in RTTs.
    alternating: u32,
    is_smoothed: bool,
}

#[derive(Clone, Debug, Default)]
struct Side {
    /// None before a queue stood.
    available: Option<Rate>,
    /// What passed when a queue stood last.
    stood_at: Rate,
    /// The highest rate, which is forgotten slowly.
    highest: Rate,
    /// What somebody has measured and was tried last.
    raised: Option<Rate>,
    /// What was measured, too, but made a queue far below it.
    refuted: Option<Rate>,
    /// What somebody has measured last, where what leaves is smoothed: elsewhere bursts make the first queues, far below it.
    measured: Option<Rate>,
    /// All that passed when a queue stood last, or the most since; none before.
    carried: Option<Rate>,
}

/// Which direction has the queue, where both have traffic. An RTT does not say it, so only one grows at a time, and is the first that is
/// slowed down when a queue shows; and if that does not help, the other one.
#[derive(Clone, Debug, Default)]
struct Trial {
    /// The side that most likely has the next queue: it grew last, or slowing it down helped last.
    likely: usize,
    /// For how many seconds it has grown.
    grew: u32,
    /// The side that was slowed down first, and what it had before that, until it is known whether that helped.
    first: Option<(usize, Side)>,
    /// What the other one had.
    second: Option<Side>,
    other: Other,
    /// The latest queue.
    queue: Duration,
    /// Whether something was slowed down in the last look.
    settles: bool,
    /// The side that kept less when a deep queue was gone, what it had before, and for how many seconds that is doubted.
    doubted: Option<(usize, Side, u32)>,
}

/// What is done with the other direction of a trial.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Other {
    /// It has no traffic that could make a queue.
    #[default]
    Unloaded,
    /// It is tried if this does not help.
    Untried,
    /// It was slowed down, too.
    Tried,
    /// Both were at once.
    Both,
}

impl LinkRate {
    /// Says whether what leaves goes through a token bucket with fair queues. ACKs do not wait in bursts then, so that RTTs show whether anything
    /// waits at the link, and growth may be faster for as long as nothing does.
    pub fn set_smoothed(&mut self, is_smoothed: bool) {
        self.is_smoothed = is_smoothed;
    }

    /// Takes what the flows that are limited, or would be, did in the last second, and what passed `besides`. To be called every second.
    pub fn look(&mut self, loads: &[Load], besides: [Rate; 2]) {
        let passed = [0, 1].map(|side| Passed::new(loads, side));
        let all = [0, 1].map(|side| passed[side].rate + besides[side]);
        let used = [0, 1].map(|side| self.sides[side].used(passed[side]));
        for (side, passed) in self.sides.iter_mut().zip(passed) {
            side.highest = side.highest.scale(KEPT).max(passed.rate);
        }
        if let Some(queues) = queues(loads).filter(|queues| !self.alternates(&passed, queues)) {
            self.look_at_each(passed, all, queues);
            return;
        }
        (self.queues, self.slowed) = Default::default();
        let Some(queue) = passed.iter().filter_map(|passed| passed.queue).max_by_key(|queue| queue.queue)
        else {
            for (side, all) in self.sides.iter_mut().zip(all) {
                side.carried = side.carried.map(|carried| carried.max(all));
            }
            self.trial.end(&mut self.sides);
            self.trial.believe();
            self.grow(used, !passed.iter().any(|passed| passed.waits));
            return;
        };
        self.trial.begin_anew(queue.queue);
        // The least RTT of the time before is in what is seen now.
        if std::mem::take(&mut self.trial.settles) {
            self.trial.queue = queue.queue;
            return;
        }
        // Both directions have one RTT.
        let is_first = !self.trial.recall(&mut self.sides);
        let used = [0, 1].map(|side| self.sides[side].presses(passed[side]));
        let slow = self.trial.next(queue.queue, used, is_first, &self.sides);
        for side in (0..2).filter(|side| slow[*side]) {
            self.slow_down(side, passed[side].rate, all[side], queue);
            self.trial.settles = true;
        }
    }

    /// Does the same where the queue of each direction is known: each is slowed down and grows by itself.
    fn look_at_each(&mut self, passed: [Passed; 2], all: [Rate; 2], queues: [Queue; 2]) {
        self.trial = Trial::default();
        for side in 0..2 {
            let queue = queues[side];
            let before = std::mem::replace(&mut self.queues[side], queue.queue);
            if !queue.stands_one_way() {
                self.slowed[side] = 0;
                let carried = &mut self.sides[side].carried;
                *carried = carried.map(|carried| carried.max(all[side]));
                if self.alternating == 0 {
                    self.grow_alone(side, passed[side].whole, !queue.waits());
                }
                continue;
            }
            if !self.settles(side, before) {
                self.slow_down(side, passed[side].rate, all[side], queue);
                self.slowed[side] = 0;
            }
            self.slowed[side] += 1;
            (self.trial.likely, self.trial.settles) = (side, true);
        }
    }

    /// Returns whether a queue stands in RTTs for more than a look and in neither direction: data and ACKs wait behind each other, so that the
    /// queue is now here and now there (Zhang, Shenker and Clark, 1991). In the first look it may only have moved.
    fn alternates(&mut self, passed: &[Passed; 2], queues: &[Queue; 2]) -> bool {
        let stands = passed.iter().any(|passed| passed.queue.is_some());
        let is_in_one = queues.iter().any(Queue::stands_one_way);
        self.alternating = if stands && !is_in_one { self.alternating + 1 } else { 0 };
        self.alternating > 1
    }

    /// Returns whether a side that was slowed down needs another moment: the least delays of the time before are in what is seen now, and a
    /// queue may shrink.
    fn settles(&self, side: usize, before: Duration) -> bool {
        let queue = self.queues[side];
        match self.slowed[side] {
            0 => false,
            1 => queue <= DEEP || queue <= before.scale(DEEPER),
            _ => queue < before.scale(DRAINS),
        }
    }

    /// Lets flows towards a side have more if they use what they may have, in a second in which packets waited there or not.
    fn grow_alone(&mut self, side: usize, rate: Rate, is_calm: bool) {
        let (uses, growth) = self.growth(side, is_calm);
        let used = self.sides[side].part(rate);
        if used >= uses {
            self.sides[side].grow(growth.min((used * MOST_ABOVE).max(1.0)));
        }
    }

    /// Has flows towards a side share less, as a queue stood.
    fn slow_down(&mut self, side: usize, rate: Rate, all: Rate, queue: Queue) {
        self.sides[side].slow_down(rate, self.is_smoothed.then(|| queue.part()));
        self.sides[side].carried = Some(all);
    }

    /// Returns which part flows have to use of what they may have to be let have more, and by how much that grows, after a second in
    /// which packets waited or not.
    fn growth(&self, side: usize, is_calm: bool) -> (f64, f64) {
        let is_near = self.sides[side].is_near();
        match (self.is_smoothed, is_calm) {
            (false, _) => (USES, GROWTH[usize::from(!is_near)]),
            (true, false) => (USES, GROWTH[0]),
            (true, true) if is_near => (CALM_USES[0], CALM_GROWTH),
            (true, true) => (CALM_USES[1], GROWTH[1]),
        }
    }

    /// Lets flows have more that use these parts of what they may have, in a second in which packets waited or not.
    fn grow(&mut self, used: [f64; 2], is_calm: bool) {
        let growths = [0, 1].map(|side| self.growth(side, is_calm));
        let would = [0, 1].map(|side| used[side] >= growths[side].0);
        let turn = self.trial.turn(would);
        let both = self.is_smoothed && is_calm;
        for side in (0..2).filter(|side| both && would[*side] || turn == Some(*side)) {
            self.sides[side].grow(growths[side].1);
        }
    }

    /// Takes a capacity that somebody has measured towards a side, 0 or 1: what is far below it grows no slower than that, unless it has
    /// made a queue before. A trial that gives back what a direction had forgets that, too.
    pub fn raise(&mut self, side: usize, capacity: Rate) {
        let side = &mut self.sides[side & 1];
        side.measured = self.is_smoothed.then_some(capacity);
        let is_refuted = side.refuted.is_some_and(|refuted| refuted < capacity.scale(NEAR));
        if side.available.is_some_and(|rate| rate.scale(NEAR) < capacity) && !is_refuted {
            (side.available, side.raised) = (Some(capacity), Some(capacity));
            side.carried = side.carried.map(|carried| carried.max(capacity));
        }
    }

    /// Returns what flows share towards a side, 0 or 1; none before a queue stood there.
    pub fn available(&self, side: usize) -> Option<Rate> {
        self.sides[side & 1].available
    }

    /// Returns the most that has passed towards a side, 0 or 1; none before a queue stood there.
    pub fn capacity(&self, side: usize) -> Option<Rate> {
        let side = &self.sides[side & 1];
        side.available.map(|rate| side.highest.max(rate))
    }

    /// Returns all that has passed towards a side, 0 or 1, when a queue stood last, or the most since; none before one stood.
    pub fn carried(&self, side: usize) -> Option<Rate> {
        self.sides[side & 1].carried
    }

    /// Returns the same with its interval, as pages show it.
    pub fn state(&self, side: usize) -> Option<RateState> {
        let [rate, low, high] = self.sides[side & 1].interval()?;
        let (rate_bps, low_bps, high_bps) = (rate.bps(), low.bps(), high.bps());
        Some(RateState { rate_bps, low_bps, high_bps, age_ms: 0, source: SOURCE.to_owned() })
    }
}

/// Returns whether flows use all of what they may have towards each side, without a queue.
pub(crate) fn presses(loads: &[Load], may_have: [Rate; 2]) -> [bool; 2] {
    let passed = [0, 1].map(|side| Passed::new(loads, side));
    let queue = passed.iter().any(|passed| passed.queue.is_some());
    [0, 1].map(|side| !queue && passed[side].asks > may_have[side].scale(USES))
}

impl Trial {
    /// Returns the side that may grow, of those that would.
    fn turn(&mut self, would: [bool; 2]) -> Option<usize> {
        let side = match would {
            [true, true] if self.grew < TURN => self.likely,
            [true, true] => 1 - self.likely,
            [down, up] => (down || up).then_some(usize::from(up))?,
        };
        self.grew = if side == self.likely { self.grew + 1 } else { 1 };
        self.likely = side;
        Some(side)
    }

    /// Gives a trial up whose queue has become far deeper: that is another one.
    fn begin_anew(&mut self, queue: Duration) {
        if queue > DEEP && queue > self.queue.scale(DEEPER) {
            (self.first, self.second, self.settles) = (None, None, false);
        }
    }

    /// Takes back which direction was slowed down because of a deep queue, if that has come again soon; returns whether it has.
    fn recall(&mut self, sides: &mut [Side; 2]) -> bool {
        let Some((kept, before, _)) = self.doubted.take() else { return false };
        sides[kept] = before;
        self.likely = 1 - kept;
        true
    }

    /// Notes a second without a queue.
    fn believe(&mut self) {
        self.doubted = self
            .doubted
            .take()
            .filter(|(.., left)| *left > 1)
            .map(|(kept, before, left)| (kept, before, left - 1));
    }

    /// Returns the directions that are to be slowed down because of a queue, of those that may have it.
    fn next(&mut self, queue: Duration, used: [f64; 2], is_first: bool, sides: &[Side; 2]) -> [bool; 2] {
        let suspect = [0, 1].map(|side| used[side] > 0.0 && used[side] >= SUSPECT * used[1 - side]);
        let shrinks = queue < self.queue.scale(DRAINS);
        self.queue = queue;
        let only = |side: usize| [side == 0, side == 1];
        match self.first {
            // What was slowed down helps, and needs another moment.
            Some(_) if shrinks => [false; 2],
            // What was slowed down first uses less now, so that it cannot be judged by that.
            Some((first, _)) if self.other == Other::Untried => {
                self.other = Other::Tried;
                only(1 - first)
            }
            _ => {
                let (side, other) = match suspect {
                    _ if !is_first => (self.likely, Other::Untried),
                    [true, true] if queue > DEEP => (self.likely, Other::Both),
                    [true, true] => (self.likely, Other::Untried),
                    [down, _] => {
                        let side = usize::from(!down);
                        // Its rate may be a third of what it was, so that it seems to use little.
                        let is_used = used[1 - side] > USES_SOME;
                        (side, if is_used { Other::Untried } else { Other::Unloaded })
                    }
                };
                self.other = other;
                self.first = Some((side, sides[side].clone()));
                self.second = Some(sides[1 - side].clone());
                if other == Other::Both { [true; 2] } else { only(side) }
            }
        }
    }

    /// Notes that there is no queue any more. What was taken from the wrong direction is given back.
    fn end(&mut self, sides: &mut [Side; 2]) {
        self.settles = false;
        let Some((first, before)) = self.first.take() else { return };
        self.likely = first;
        match (self.other, self.second.take()) {
            (Other::Tried, _) => {
                self.likely = 1 - first;
                sides[first] = before;
            }
            // The first queue that a side has shows what it can have, and nothing is given back that nobody knows.
            (Other::Both, Some(mut second)) => {
                second.available = second.available.or(second.measured);
                if before.available.or(before.measured).is_some() && second.available.is_some() {
                    sides[1 - first] = second;
                    self.doubted = Some((first, before, DOUBTS));
                }
            }
            _ => {}
        }
    }
}

impl Side {
    /// Returns the part that is used of what flows may have.
    fn used(&self, passed: Passed) -> f64 {
        self.part(passed.asks)
    }

    /// Returns a rate as a part of what flows may have; 1 for any where that is not known.
    fn part(&self, rate: Rate) -> f64 {
        self.available.map_or(f64::from(u8::from(rate > Rate::ZERO)), |most| rate.bps_f64() / most.bps_f64())
    }

    /// Returns the same for the question where a queue is.
    fn presses(&self, passed: Passed) -> f64 {
        let Some(most) = self.available else { return self.used(passed) };
        passed.asks.bps_f64() / most.min(self.highest.scale(BELIEVED)).bps_f64()
    }

    fn grow(&mut self, growth: f64) {
        self.available = self.available.map(|most| most.scale(growth));
    }

    /// Sets what flows share to what passed while a queue stood; where the queue is told as a part of the RTT without it, to what they had in
    /// flight besides it.
    fn slow_down(&mut self, rate: Rate, queue: Option<f64>) {
        if rate > Rate::ZERO {
            self.refuted = self.raised.take().filter(|raised| rate.scale(NEAR) < *raised).or(self.refuted);
            self.stood_at = rate;
            let besides = |queue: f64| {
                // A link that has become slower has a queue that grows.
                let grows = |most: &Rate| *most > rate.scale((1.0 + queue) * WIDEST);
                self.available.filter(|most| !grows(most)).map(|most| most.saturating_sub(rate.scale(queue)))
            };
            let left = queue.and_then(besides).unwrap_or(rate).clamp(rate, rate.scale(WIDEST));
            self.available = Some(left.max(self.highest.scale(LEAST)));
        }
    }

    /// Returns whether flows share about as much as when a queue stood last.
    fn is_near(&self) -> bool {
        let near = self.stood_at.scale(1.0 / NEAR)..=self.stood_at.scale(NEAR);
        self.available.is_some_and(|most| near.contains(&most))
    }

    /// Returns what flows share, with its interval: what has passed, and what would have made a queue that shows.
    fn interval(&self) -> Option<[Rate; 3]> {
        let rate = self.available?;
        Some([rate, rate.min(self.stood_at), rate.scale(1.0 + STANDS_PART)])
    }
}

impl Input for LinkRate {
    fn tell(&mut self, now: Instant, facts: &mut Facts) {
        facts.carried = [0, 1].map(|side| self.carried(side));
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
            let highest = state.highest.max(rate) + facts.besides[usize::from(side)];
            facts.estimates.push(estimate(Quantity::Narrow, [highest, highest, FASTEST]));
        }
    }
}
