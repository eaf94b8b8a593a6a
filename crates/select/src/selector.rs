//! The choice among paths.

use std::collections::VecDeque;
use std::sync::Arc;

use headway_estimate::measure::Interval;
use headway_estimate::question::Reply;
use headway_units::{Bytes, Duration, Instant, Rate};

use crate::belief::Belief;
use crate::decision::{Decision, Why};
use crate::hold::Hold;
use crate::path::{Beside, Path};
use crate::presence::Trouble;
use crate::settings::{Settings, Strategy};
use crate::shared::Shared;
use crate::transfer::{Prospect, Sizes};

/// The time for an answer after which it counts as lost. Range 10 to 300 s: a full measurement takes some.
const PATIENCE: Duration = Duration::from_ms(60_000);
/// Variance of the difference of two answers about the same rate, in squared steps of 4 %. Range 1
/// to 20.
const ERRORS: f64 = 4.0;
/// The interval of a measurement behind a token bucket counts as so many times as wide, in the logarithm: on
/// simulated paths half of the decisions by such answers were wrong. Range 1 to 5.
const BEHIND_BUCKET: f64 = 3.0;
/// What own traffic carries is news if it is above this quantile of what was thought to be
/// free. Range 0.01 to 0.5.
const CARRIED: f64 = 0.05;
/// What is free where own traffic fills the queue, in times of what it has, and at least: TCP takes some from
/// others, and leaves some at times. Range 0.5 to 1, and 1 to 1.2.
const FULL: [f64; 2] = [0.75, 1.05];
/// The part of the capacity that a queue of a quarter of a second may have taken of five
/// seconds. Range 0.02 to 0.1.
const QUEUED: f64 = 0.05;
/// Decisions that are kept, to be shown: more than a screen has.
pub(crate) const LOG: usize = 256;

/// What is to be done next.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Ask a path whether a rate is free, with a [`Question`](headway_estimate::question::Question) of this
    /// kind, and tell [`Selector::answer`].
    Ask {
        /// The path.
        path: usize,
        /// The rate.
        rate: Rate,
        /// The capacity, if it is known.
        capacity: Option<Rate>,
        /// A token bucket that must be emptied first.
        bucket: Option<Bytes>,
        /// The most that it may cost.
        most: Bytes,
    },
    /// Ask two paths the same at the same time, to learn whether they share their tight link,
    /// and tell both answers.
    Together {
        /// The paths.
        paths: [usize; 2],
        /// The rate.
        rate: Rate,
        /// The capacities, as far as they are known.
        capacities: [Option<Rate>; 2],
        /// The most that it may cost on each.
        most: Bytes,
    },
    /// Measure what is free on a path, with its capacity.
    Measure {
        /// The path.
        path: usize,
        /// The most that it may cost.
        most: Bytes,
    },
    /// Ask for the round-trip time of a path.
    Ping {
        /// The path.
        path: usize,
    },
    /// Use another path from now on.
    Choose(Decision),
}

/// What came of an action.
#[derive(Clone, Debug)]
pub enum Answer {
    /// What streams of one rate said.
    Reply(Reply),
    /// What a measurement found.
    Measured {
        /// What is free.
        free: Interval,
        /// The capacity of the narrow link.
        capacity: Option<Rate>,
        /// The burst that a shaper passes before it enforces its rate, where one was found.
        bucket: Option<Bytes>,
    },
    /// Nothing but the round-trip time was asked for.
    Pong,
}

/// What is under way.
#[derive(Clone, Debug)]
pub(crate) struct Pending {
    pub(crate) since: Instant,
    /// The paths that have not answered.
    pub(crate) open: Vec<usize>,
    /// The token bucket that was to be emptied first.
    pub(crate) bucket: Option<Bytes>,
    pub(crate) pair: Option<Pair>,
}

/// Two paths that are asked at the same time.
#[derive(Clone, Debug)]
pub(crate) struct Pair {
    pub(crate) paths: [usize; 2],
    pub(crate) rate: Rate,
    /// How much more likely the replies so far are if they share, as a logarithm.
    pub(crate) ln_ratio: f64,
}

/// Chooses among paths. It does no I/O: [`Selector::poll`] says what is to be done, other functions tell what
/// came of it. All times are of one clock that never steps.
#[derive(Clone, Debug)]
pub struct Selector {
    pub(crate) settings: Settings,
    pub(crate) names: Vec<Arc<str>>,
    pub(crate) paths: Vec<Path>,
    pub(crate) chosen: usize,
    pub(crate) hold: Hold,
    pub(crate) shared: Shared,
    /// The sizes of own transfers.
    pub(crate) sizes: Sizes,
    pub(crate) pending: Option<Pending>,
    /// When to look next, and whether something was learned since the last decision.
    next: Instant,
    is_news: bool,
    pub(crate) log: VecDeque<Decision>,
    pub(crate) current: Decision,
    pub(crate) changes: u64,
    /// How many questions about one rate and how many whole measurements there were.
    pub(crate) asked: [u64; 2],
    now: Instant,
}

/// Returns an interval that is wider by [`BEHIND_BUCKET`].
fn widened(free: &Interval) -> Interval {
    let away =
        |end: Rate| free.rate.scale((end.bps_f64() / free.rate.bps_f64().max(1.0)).powf(BEHIND_BUCKET));
    Interval { rate: free.rate, low: away(free.low), high: free.high.map(away) }
}

impl Selector {
    /// Creates one for the paths of these names, the first of which is chosen; `None` without any.
    pub fn new(
        settings: Settings,
        names: impl IntoIterator<Item = impl Into<Arc<str>>>,
        now: Instant,
    ) -> Option<Selector> {
        let names: Vec<Arc<str>> = names.into_iter().map(Into::into).collect();
        let name = Arc::clone(names.first()?);
        let first = Decision { at: now, path: 0, name, before: None, why: Why::First };
        Some(Selector {
            paths: names.iter().map(|_| Path::new(&settings, now)).collect(),
            names,
            chosen: 0,
            hold: Hold::new(settings.interval),
            shared: Shared::default(),
            sizes: Sizes::new(settings.transfer),
            pending: None,
            next: now,
            is_news: false,
            log: VecDeque::from([first.clone()]),
            current: first,
            changes: 0,
            asked: [0, 0],
            now,
            settings,
        })
    }

    /// Returns the number of the chosen path; there always is one.
    pub const fn chosen(&self) -> usize {
        self.chosen
    }

    /// Returns why it is chosen.
    pub const fn decision(&self) -> &Decision {
        &self.current
    }

    /// Returns the last decisions, the newest last: changes, and other reasons for staying.
    pub fn decisions(&self) -> impl DoubleEndedIterator<Item = &Decision> {
        self.log.iter()
    }

    /// Returns how many questions about one rate and how many whole measurements there were.
    pub const fn asked(&self) -> [u64; 2] {
        self.asked
    }

    /// Returns when to call [`Selector::poll`] at the latest, if nothing happens before.
    pub fn next(&self) -> Instant {
        match &self.pending {
            _ if self.is_news => self.now,
            Some(pending) => (pending.since + PATIENCE).min(self.next.max(self.now)),
            None => self.next,
        }
    }

    /// Returns what is to be done now, if anything is. To be called until it returns nothing.
    pub fn poll(&mut self, now: Instant) -> Option<Action> {
        let now = self.advance(now);
        self.give_up_waiting(now);
        let is_due = now >= self.next;
        if is_due || self.is_news {
            self.is_news = false;
            if let Some(decision) = self.decide(now) {
                return Some(Action::Choose(decision));
            }
            let action = if self.pending.is_none() { self.wanted(now) } else { None };
            if action.is_none() && is_due {
                self.next = now + self.settings.interval;
            }
            return action;
        }
        None
    }

    /// Takes the answer to what was asked of a path, its round-trip time, and what it has cost.
    pub fn answer(&mut self, now: Instant, path: usize, answer: &Answer, rtt: Option<Duration>, cost: Bytes) {
        let now = self.advance(now);
        let Some(state) = self.paths.get_mut(path) else { return };
        state.purse.spend(now, cost);
        state.answered(now, rtt);
        let asked = self.pending.as_ref().filter(|pending| pending.open.contains(&path));
        let emptied = asked.and_then(|pending| pending.bucket);
        let pair = self.pending.as_mut().and_then(|pending| pending.pair.as_mut());
        let pair = pair.filter(|pair| pair.paths.contains(&path));
        match (answer, pair) {
            // What the other stream took is not known, so it tells nothing about the path alone.
            (Answer::Reply(reply), Some(pair)) => {
                pair.ln_ratio += state.belief.ln_shares(now, reply, pair.rate, state.own) / 2.0;
            }
            (Answer::Reply(reply), None) => {
                state.lost(now, reply);
                let beside = state.beside(now, reply);
                let capacity = state.belief.capacity();
                if capacity.is_none_or(|capacity| state.bucket.replied(reply, emptied, capacity)) {
                    match beside {
                        Beside::Steady(own) => {
                            self.learn(now, path, |belief| belief.reply(now, reply, own));
                        }
                        Beside::Full(own) => {
                            let [low, rate] = FULL.map(|part| own.scale(part));
                            let high = rate.max(own + reply.rate.scale(0.5));
                            let used = Interval { rate, low, high: Some(high) };
                            self.learn(now, path, |belief| belief.interval(now, &used, Rate::ZERO));
                        }
                        Beside::Unknown => {}
                    }
                }
            }
            (Answer::Measured { free, capacity, bucket }, _) => {
                state.purse.measured(now, cost);
                state.bucket.found = bucket.or(state.bucket.found);
                if let Some(capacity) = capacity {
                    state.belief.set_capacity(*capacity);
                }
                let free = if state.bucket.found.is_some() { widened(free) } else { *free };
                let own = state.own;
                self.learn(now, path, |belief| belief.interval(now, &free, own));
            }
            (Answer::Pong, _) => {}
        }
        self.done(now, path);
    }

    /// Takes that a path could not be asked, or is down; `cost` is what was sent in vain.
    pub fn failed(&mut self, now: Instant, path: usize, trouble: Trouble, cost: Bytes) {
        let now = self.advance(now);
        let Some(state) = self.paths.get_mut(path) else { return };
        state.purse.spend(now, cost);
        if trouble == Trouble::Unclear {
            state.purse.unclear(cost);
        }
        state.presence.failed(now, trouble);
        self.done(now, path);
    }

    /// Takes that a path that was down is there again.
    pub fn up(&mut self, now: Instant, path: usize) {
        let now = self.advance(now);
        let Some(state) = self.paths.get_mut(path) else { return };
        state.presence.came_up(now);
        self.is_news = true;
    }

    /// Takes what is free on a path by packets that are there anyway. An interval without an upper end says
    /// that at least so much is.
    pub fn passive(&mut self, now: Instant, path: usize, free: &Interval) {
        let now = self.advance(now);
        let Some(state) = self.paths.get_mut(path) else { return };
        let own = state.own;
        state.belief.interval(now, free, own);
        self.is_news = true;
    }

    /// Learns from an answer about a path, also which others share its tight link: what was last heard of
    /// those then fits the answer, and better than what was heard of the path itself before that.
    fn learn(&mut self, now: Instant, path: usize, take: impl FnOnce(&mut Belief) -> Vec<f64>) {
        let before = self.paths[path].belief.clone();
        let likelihood = take(&mut self.paths[path].belief);
        if !before.is_known() {
            return;
        }
        let by_itself = before.at(now).given(&likelihood).1;
        for other in (0..self.paths.len()).filter(|other| *other != path) {
            let belief = &self.paths[other].belief;
            if belief.is_known() && belief.answered_at() > before.answered_at() {
                let mut there = belief.at(now);
                // Both were heard with errors of their own.
                there.blur(ERRORS);
                let shared = (there.given(&likelihood).1 + by_itself) / 2.0;
                let ln_ratio = (shared.max(1e-9) / by_itself.max(1e-9)).ln();
                self.shared.learn(now, path, other, ln_ratio);
            }
        }
    }

    /// Takes the rate that own traffic has on a path: what it uses counts as free there.
    pub fn own(&mut self, now: Instant, path: usize, rate: Rate) {
        self.advance(now);
        if let Some(state) = self.paths.get_mut(path) {
            state.own = rate;
        }
    }

    /// Takes the rate that own traffic has had on a path for a second, to be called once a second while
    /// nothing is asked there. Once an interval traffic that has gone on for some seconds tells that at least
    /// so much is free, but for what a queue took of it.
    pub fn carried(&mut self, now: Instant, path: usize, rate: Rate) {
        self.advance(now);
        let interval = self.settings.interval;
        let Some(state) = self.paths.get_mut(path) else { return };
        if let Some(size) = state.carry(now, rate) {
            self.sizes.learn(size);
        }
        let is_due = state.carried_at.is_none_or(|at| now - at >= interval);
        let Some((least, _)) = state.lately(now).filter(|_| is_due) else { return };
        let queued = state.belief.capacity().unwrap_or(least).scale(QUEUED);
        let least = least.saturating_sub(queued);
        if least > state.belief.at(now).quantile(CARRIED) {
            state.carried_at = Some(now);
            state.belief.at_least(now, least);
            self.is_news = true;
        }
    }

    /// Takes a round-trip time that was seen anyway.
    pub fn rtt(&mut self, now: Instant, path: usize, rtt: Duration) {
        let now = self.advance(now);
        if let Some(state) = self.paths.get_mut(path) {
            state.take_rtt(now, rtt);
            self.is_news = true;
        }
    }

    /// Returns the share of traffic that each path should get, in proportion to what is free there; they add
    /// up to one. A path of which nothing is known, or that cannot be chosen, gets none.
    pub fn weights(&self, now: Instant) -> Vec<f64> {
        let candidates = self.candidates(now);
        let mut weights = vec![0.0; self.paths.len()];
        let is_known = |path: &&usize| self.paths[**path].belief.is_known();
        for path in candidates.iter().filter(is_known) {
            weights[*path] = self.paths[*path].belief.at(now).quantile(0.5).bps_f64();
        }
        let sum: f64 = weights.iter().sum();
        if sum <= 0.0 {
            weights[self.chosen] = 1.0;
            return weights;
        }
        weights.iter_mut().for_each(|weight| *weight /= sum);
        weights
    }

    /// Returns the odds that what is free on a path is better than on the chosen one by
    /// more than the tolerance.
    pub fn odds(&self, now: Instant, path: usize) -> f64 {
        match self.paths.get(path) {
            Some(_) if path != self.chosen => {
                let (here, there) = (self.prospect(now, self.chosen), self.prospect(now, path));
                self.shared.odds_of(self.chosen, path, (&here, &there), 1.0 + self.settings.tolerance)
            }
            _ => 0.0,
        }
    }

    /// Returns what is thought of a path, as it is compared with others.
    pub(crate) fn prospect(&self, now: Instant, path: usize) -> Prospect {
        let state = &self.paths[path];
        let free = state.belief.at(now);
        match self.settings.strategy {
            Strategy::TransferTime => {
                Prospect::of_speed(free, self.sizes.speeds(&state.conditions(), &state.losses))
            }
            _ => Prospect::of_free(free),
        }
    }

    pub(crate) fn advance(&mut self, now: Instant) -> Instant {
        self.now = self.now.max(now);
        self.now
    }

    /// Forgets what nobody will answer.
    fn give_up_waiting(&mut self, now: Instant) {
        let late = self.pending.take_if(|pending| now - pending.since >= PATIENCE);
        for path in late.into_iter().flat_map(|pending| pending.open) {
            self.paths[path].presence.failed(now, Trouble::Away);
            self.is_news = true;
        }
    }

    /// Notes that a path has answered what was asked, or will not.
    fn done(&mut self, now: Instant, path: usize) {
        self.is_news = true;
        let Some(pending) = &mut self.pending else { return };
        pending.open.retain(|one| *one != path);
        if pending.open.is_empty() {
            if let Some(pair) = &pending.pair {
                let [one, other] = pair.paths;
                self.shared.learn(now, one, other, pair.ln_ratio);
            }
            self.pending = None;
        }
    }
}
