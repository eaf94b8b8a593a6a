//! What to do with each flow, and why: the control strategy evaluator (wan 2.20).
//!
//! An [`Evaluator`] judges all flows at once, whenever one begins or ends, an estimate is new, and every
//! second. [`Input`]s tell [`Facts`]. The [`Strategy`]s of a [`Registry`] are asked in their order for a
//! flow's next [`Step`], until one ends the chain. Both are small traits, so that others can be added from
//! outside (wan F71). No limit of any strategy is above the capacity of the narrow link x RTT (wan F74).
//!
//! It has no clock and no I/O, and is not asked for packets: after the same facts in the same order,
//! it decides the same.

mod decision;
mod facts;
mod hold;
mod link;
mod registry;
mod splits;
mod strategies;
mod windows;

use std::borrow::Cow;
use std::collections::HashMap;

use headway_units::{Duration, Instant, PerSide, Rate, Side};

use crate::Policy;

pub use decision::{Action, Basis, Decision, Step, Why};
pub use facts::{Estimate, Facts, FlowFacts, Input, Means, Quantity};
use hold::Hold;
pub(crate) use hold::STANDS;
pub use link::Case;
use link::Link;
pub use registry::{Proposal, Registry, Strategy};
pub use splits::{RELAY_BUFFER, Splits};
pub use strategies::{Marks, Passes, Priority, Proxied, RateControl, ReceiveWindow};
pub use windows::{Shaped, Smoothed, Spared, Unheld};

/// Evaluations that are nearer to each other judge the same measurements, and count as one when
/// strategies are to change.
///
/// Range 0 to 1 s, which is the time between regular ones.
const APART: Duration = Duration::from_ms(500);

/// The least that flows share, as a part of the access link: beside others who take all that is left,
/// nothing would remain.
///
/// Range 0.02 to 0.5.
const LEAST: f64 = 0.1;

/// The strategies of a flow.
#[derive(Clone, Debug)]
struct Held {
    chain: Vec<Step>,
    /// Since when each evaluation has wanted other strategies, and which.
    wanted: Option<(Instant, Vec<&'static str>)>,
    /// The evaluation that judged it last.
    round: u64,
}

/// Decides what to do with flows.
///
/// A flow's strategies change only when two evaluations in a row want the same other ones. What they
/// allow it changes at once.
#[derive(Debug)]
pub struct Evaluator {
    policy: Policy,
    registry: Registry,
    facts: Facts,
    held: HashMap<u64, Held>,
    /// To what all that leaves for each side is to be held, where the link is unknown; none
    /// before a queue has stood.
    holds: PerSide<Option<Hold>>,
    available: PerSide<Option<Rate>>,
    followed: PerSide<Option<Cow<'static, str>>>,
    round: u64,
}

impl Evaluator {
    /// Creates one at an access link with these rates towards its two sides, without flows.
    pub fn new(
        policy: Policy,
        registry: Registry,
        capacity: impl Into<PerSide<Rate>>,
        means: Means,
    ) -> Evaluator {
        let capacity = capacity.into();
        let least = capacity.map(|rate| rate.scale(LEAST));
        let facts = Facts {
            capacity,
            is_known: true,
            least,
            besides: PerSide::default(),
            carried: PerSide::default(),
            queued: PerSide::default(),
            payload: 1.0,
            part: PerSide::both(1.0),
            widening: PerSide::both(1.0),
            means,
            flows: Vec::new(),
            estimates: Vec::new(),
        };
        let (held, available, followed) = (HashMap::new(), PerSide::default(), PerSide::default());
        Evaluator { policy, registry, facts, held, holds: PerSide::default(), available, followed, round: 0 }
    }

    /// Takes the rates of the access link for the most that it could have, of which
    /// estimates may leave any part.
    pub fn of_unknown_link(mut self) -> Evaluator {
        (self.facts.is_known, self.facts.least) = (false, PerSide::default());
        self
    }

    /// Judges by another policy, and with what the router can do, from now on.
    pub fn set_policy(&mut self, policy: Policy, means: Means) {
        self.policy = policy;
        self.facts.means = means;
    }

    /// Returns what flows share towards each side, as the last evaluation has it; none where
    /// that is the whole link.
    pub const fn available(&self) -> PerSide<Option<Rate>> {
        self.available
    }

    /// Returns who says what is available towards a side, if flows share that; none where that is the whole
    /// link, or the narrow one.
    pub fn followed(&self, side: Side) -> Option<&str> {
        self.followed[side].as_deref()
    }

    /// Returns the rates of the access link.
    pub const fn capacity(&self) -> PerSide<Rate> {
        self.facts.capacity
    }

    /// Judges all flows of which the inputs tell, in their order.
    ///
    /// One of which none tells has ended, and its number may be used again.
    pub fn evaluate(&mut self, now: Instant, inputs: &mut [&mut dyn Input]) -> Vec<Decision> {
        self.round += 1;
        self.facts.flows.clear();
        self.facts.estimates.clear();
        (self.facts.besides, self.facts.carried) = (PerSide::default(), PerSide::default());
        self.facts.queued = PerSide::default();
        (self.facts.part, self.facts.widening) = (PerSide::both(1.0), PerSide::both(1.0));
        inputs.iter_mut().for_each(|input| input.tell(now, &mut self.facts));
        let is_limited = |flow| self.held.get(&flow).is_some_and(Held::is_limited);
        self.holds = PerSide::of(|side| self.hold(now, side));
        let link = Link::new(now, &self.facts, &self.policy, self.holds, is_limited);
        self.available = link.available;
        self.followed.clone_from(&link.followed);
        let mut decisions = Vec::with_capacity(self.facts.flows.len());
        for flow in &self.facts.flows {
            let case = link.case(flow, self.held.get(&flow.id).is_some_and(Held::is_limited));
            let decision = match self.held.get_mut(&flow.id) {
                Some(held) => {
                    held.round = self.round;
                    held.judge(now, &self.registry, &case)
                }
                None => {
                    let held = Held { chain: self.registry.chain(&case), wanted: None, round: self.round };
                    let begun = Decision::new(&case, &held.chain, true, &[]);
                    self.held.insert(flow.id, held);
                    begun
                }
            };
            decisions.push(decision);
        }
        self.held.retain(|_, held| held.round == self.round);
        decisions
    }
}

impl Evaluator {
    /// Returns to what all that leaves for a side is to be held, where the link is unknown
    /// and a queue has stood.
    fn hold(&self, now: Instant, side: Side) -> Option<Hold> {
        let is_held = |flow: &FlowFacts| self.held.get(&flow.id).is_some_and(Held::is_shaped);
        let is_held = self.facts.flows.iter().any(|flow| flow.side == side && is_held(flow));
        let passed = self.facts.passed(now, side)?;
        Some(self.holds[side].map_or_else(|| Hold::new(passed), |hold| hold.look(passed, is_held)))
    }
}

impl Held {
    fn is_shaped(&self) -> bool {
        self.chain.iter().any(|step| matches!(step.action, Action::Rate { .. }))
    }

    fn is_limited(&self) -> bool {
        self.chain.iter().any(|step| step.action.limits())
    }

    /// Decides whether a flow gets the strategies that are wanted now.
    fn judge(&mut self, now: Instant, registry: &Registry, case: &Case<'_>) -> Decision {
        let wanted = registry.chain(case);
        let (had, others) = (names(&self.chain), names(&wanted));
        if had == others {
            (self.chain, self.wanted) = (wanted, None);
            return Decision::new(case, &self.chain, false, &[]);
        }
        let since = self.wanted.take().filter(|(_, before)| *before == others).map(|(since, _)| since);
        let is_confirmed = since.is_some_and(|since| now - since >= APART);
        // What cannot be held within the narrow link any more does not stay either.
        let kept = registry.again(case, &had).or_else(|| bounded(&self.chain, case));
        let Some(kept) = kept.filter(|_| !is_confirmed) else {
            self.chain = wanted;
            return Decision::new(case, &self.chain, true, &[]);
        };
        self.chain = kept;
        self.wanted = Some((since.unwrap_or(now), others.clone()));
        Decision::new(case, &self.chain, false, &others)
    }
}

fn names(chain: &[Step]) -> Vec<&'static str> {
    chain.iter().map(|step| step.strategy).collect()
}

/// Returns a chain within what the narrow link carries now.
fn bounded(chain: &[Step], case: &Case<'_>) -> Option<Vec<Step>> {
    let bound = |step: &Step| Some(Step { action: case.bounded(&step.action)?, ..step.clone() });
    chain.iter().map(bound).collect()
}
