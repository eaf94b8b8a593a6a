//! What flows share, and what one may have of it.

use std::borrow::Cow;

use headway_arithmetic::rwm;
use headway_units::{Bytes, Duration, Instant, PerSide, Rate, Side};

use super::hold::Hold;
use super::{Action, Basis, Estimate, Facts, FlowFacts, Means, Quantity};
use crate::allocator::share_rate;
use crate::classify::Behaviour;
use crate::weight::Hosts;
use crate::{Allocator, Policy, Rates, ShareBy, Split, Weight};

/// A flow of constant rate that has more than this part of the link is too aggressive for a call, and is
/// limited as others are (rule r2 in wan 2.20).
///
/// Range 0.2 to 0.8. Bulk in QUIC over a slow link looks like a constant rate, and has nearly all of it.
const MOST_OF_LINK: f64 = 0.5;
/// A flow of constant rate that is limited and has more than this part of its share would take more, so its
/// rate is not its own.
///
/// Range 0.4 to 0.8: a queue as long as the RTT halves what a window gives, and a call that is held at its
/// share loses nothing.
const USES_SHARE: f64 = 0.5;

/// Flows of UDP of a constant rate that have more than this part of the link each, and more than [`CROWD`]
/// together, are too aggressive for calls, too: several of QUIC look so. Range 0.02 to 0.2.
const PART_OF_LINK: f64 = 0.05;
/// See [`PART_OF_LINK`]. Range 0.15 to 0.5: fair queues do no harm to calls that are held with the rest.
const CROWD: f64 = 0.25;

/// The part of the link that a token bucket before it lets pass, so that the queue is there and not in the
/// link. Range 0.85 to 0.98.
const SHAPED: f64 = 0.95;

/// What there is towards one side.
#[derive(Clone, Copy, Debug)]
struct Towards {
    /// The lower of the capacities of access link and narrow link.
    ceiling: Rate,
    /// What others leave of that, or the least that flows share.
    left: Rate,
    /// The same as `ceiling`, or what has passed where it is unknown.
    has: Rate,
    /// What shares are computed from, and what others use of that.
    basis: Basis,
    besides: Rate,
    /// What a token bucket before the link lets pass, on the wire; none before anything is known of it.
    bucket: Option<Rate>,
}

/// The link, and who shares it.
#[derive(Debug)]
pub(super) struct Link {
    towards: PerSide<Towards>,
    /// What flows share towards each side; none where that is the whole link.
    pub(super) available: PerSide<Option<Rate>>,
    /// Who says that it is available, if it is not the narrow link that counts.
    pub(super) followed: PerSide<Option<Cow<'static, str>>>,
    allocator: Allocator,
    means: Means,
    payload: f64,
    /// What windows towards each side are multiplied with.
    widening: PerSide<f64>,
    /// Whether each class is never limited.
    priority: Vec<bool>,
    /// Whether bulk goes to each side.
    bulk: PerSide<bool>,
    /// Whether flows of UDP of a constant rate have most of the link towards each side.
    is_crowded: PerSide<bool>,
    /// Which connections of each class are split.
    splits: Vec<Option<Split>>,
    /// What hosts use, where they share first.
    hosts: Option<Hosts>,
}

/// A flow that is to be judged, with what it may have.
#[derive(Debug)]
pub struct Case<'a> {
    /// The flow.
    pub flow: &'a FlowFacts,
    /// What the router can do.
    pub means: Means,
    /// The part of what passes the link that is data.
    pub payload: f64,
    /// The lower of the capacities of access link and narrow link.
    pub ceiling: Rate,
    /// What others leave of that.
    pub left: Rate,
    /// What it may have of the link; none if it is of no class.
    pub share: Option<Rate>,
    /// How many flows of its class share with it; 0 if it takes no share.
    pub sharing: u32,
    /// What that is computed from.
    pub basis: Basis,
    /// What others use of that.
    pub besides: Rate,
    /// What a token bucket before the link lets pass, on the wire, so that no queue is in the link; none
    /// before anything is known of it.
    pub bucket: Option<Rate>,
    /// By how many percent windows are larger than share x RTT.
    pub wider: i32,
    /// Whether it is limited now.
    pub is_limited: bool,
    /// Whether its class is never limited.
    pub is_priority: bool,
    /// Which connections of its class are split.
    pub split: Option<Split>,
    /// Whether it counts among those who share its class.
    pub shares: bool,
    /// Whether bulk goes the other way.
    pub meets_bulk: bool,
    /// Whether it may be bulk though it has a constant rate, as it is of UDP, and whether all such flows
    /// have most of the link.
    pub takes_part: [bool; 2],
    /// What it has in parts of what others of its class have.
    pub(super) weight: Weight,
    /// The share as [`rwm::bytes`] takes it.
    exact: u64,
}

/// Returns what flows with a window have in fair queues of what is held, if each has as much as each without.
/// A lower window makes no queue shorter: the others take what is left.
fn fair_share(facts: &Facts, side: Side, hold: Hold, is_limited: impl Fn(u64) -> bool) -> Rate {
    let mut using = [0.0, 0.0];
    for flow in facts.flows.iter().filter(|flow| flow.side == side) {
        match flow.class {
            Some(_) => using[0] += 1.0 - flow.unused[side],
            None => using[1] += f64::from(u8::from(is_limited(flow.id))),
        }
    }
    let [with_window, without] = using;
    if without == 0.0 {
        return Rate::ZERO;
    }
    hold.rate().scale(facts.payload * with_window / (with_window + without))
}

/// Whether delay hurts a flow, and it leaves room for others.
fn is_modest(flow: &FlowFacts, left: Rate) -> bool {
    let takes_all = flow.behaviour == Behaviour::Cbr && flow.rate > left.scale(MOST_OF_LINK);
    flow.behaviour.is_latency_sensitive() && !takes_all
}

/// Whether it is a flow of UDP that may be bulk though it has a constant rate.
fn takes_part(flow: &FlowFacts, link: Rate) -> bool {
    !flow.is_tcp && flow.behaviour == Behaviour::Cbr && flow.rate > link.scale(PART_OF_LINK)
}

/// Returns what a token bucket before the link lets pass, on the wire. `narrow` is an estimate of the link.
fn bucket(
    facts: &Facts,
    side: Side,
    (ceiling, narrow): (Rate, Option<&Estimate>),
    hold: Option<Hold>,
) -> Option<Rate> {
    if facts.is_known {
        return Some(facts.on_wire(ceiling).scale(SHAPED));
    }
    // A queue does not say how much more a link could have.
    let measured = narrow.filter(|narrow| narrow.high < facts.capacity[side]);
    let measured = measured.map(|narrow| facts.on_wire(narrow.high).scale(SHAPED));
    measured.into_iter().chain(hold.map(|hold| hold.rate())).min()
}

impl Towards {
    /// Returns what there is, how much of it is available, and who says so.
    fn new(
        now: Instant,
        facts: &Facts,
        side: Side,
        (hold, least): (Option<Hold>, Rate),
    ) -> (Towards, Option<Rate>, Option<Cow<'static, str>>) {
        let access = facts.capacity[side];
        let narrow = facts.best(now, Quantity::Narrow, side).filter(|narrow| narrow.rate < access);
        let ceiling = narrow.map_or(access, |narrow| narrow.rate);
        let besides = facts.besides[side];
        let left = ceiling.saturating_sub(besides);
        let available = facts.best(now, Quantity::Available, side).filter(|free| free.rate <= left);
        let basis =
            available.or(narrow).map_or(Basis::Access { rate: access }, |estimate| Basis::of(now, estimate));
        let bucket = bucket(facts, side, (ceiling, narrow), hold);
        // What is available is so beside the others.
        let besides = if available.is_some() { Rate::ZERO } else { besides };
        let shared = available.map_or(left, |free| free.rate).max(least).min(ceiling).scale(facts.part[side]);
        let shared = Some(shared).filter(|shared| *shared < access);
        let has = facts.carried[side].map_or(ceiling, |carried| carried.min(ceiling));
        let left = left.max(least);
        let towards = Towards { ceiling, left, has, basis, besides, bucket };
        (towards, shared, available.map(|free| free.source.clone()))
    }
}

impl Link {
    /// Divides it among the flows that are limited, as `is_limited` says, or should be.
    pub(super) fn new(
        now: Instant,
        facts: &Facts,
        policy: &Policy,
        holds: PerSide<Option<Hold>>,
        is_limited: impl Fn(u64) -> bool,
    ) -> Link {
        let PerSide([one, other]) = PerSide::of(|side| {
            let least = holds[side].map_or(Rate::ZERO, |hold| fair_share(facts, side, hold, &is_limited));
            Towards::new(now, facts, side, (holds[side], least.max(facts.least[side])))
        });
        let towards = PerSide([one.0, other.0]);
        let mut allocator = Allocator::new(policy, towards.map(|towards| towards.ceiling));
        let available = PerSide([one.1, other.1]);
        allocator.follow(Rates { available, factors: facts.widening, ..Rates::default() });
        let priority = policy.class.iter().map(|class| class.priority).collect();
        let is_bulk = |flow: &FlowFacts| flow.behaviour == Behaviour::Bulk;
        let bulk = PerSide::of(|side| facts.flows.iter().any(|flow| flow.side == side && is_bulk(flow)));
        let is_crowded = PerSide::of(|side| {
            let has = towards[side].has;
            let takers = facts.flows.iter().filter(|flow| flow.side == side);
            let takers = takers.filter(|flow| takes_part(flow, has));
            Rate::from_bps(takers.map(|flow| flow.rate.bps()).sum()) > has.scale(CROWD)
        });
        let splits = policy.class.iter().map(|class| class.split).collect();
        let mut link = Link {
            towards,
            available,
            followed: PerSide([one.2, other.2]),
            allocator,
            means: facts.means,
            payload: facts.payload,
            widening: facts.widening,
            priority,
            bulk,
            is_crowded,
            splits,
            hosts: (policy.share_by == ShareBy::Host).then(Hosts::default),
        };
        for flow in &facts.flows {
            if let Some(class) = flow.class.filter(|_| link.counts(flow, is_limited(flow.id))) {
                link.allocator.begin(class);
                link.allocator.add_unused(class, flow.unused);
                if let Some(hosts) = &mut link.hosts {
                    hosts.add(class, flow.host, flow.unused);
                }
            }
        }
        link
    }

    fn is_priority(&self, flow: &FlowFacts) -> bool {
        flow.class.and_then(|class| self.priority.get(class as usize)).is_some_and(|priority| *priority)
    }

    /// Whether a flow counts among those who share its class. Where none is limited, all count, so that
    /// what they leave is lent.
    fn counts(&self, flow: &FlowFacts, is_limited: bool) -> bool {
        let left = self.towards[flow.side].left;
        flow.class.is_some() && (is_limited || !is_modest(flow, left) || self.is_priority(flow))
    }

    /// Returns the case of a flow.
    pub(super) fn case<'a>(&self, flow: &'a FlowFacts, is_limited: bool) -> Case<'a> {
        let side = flow.side;
        let Towards { ceiling, left, has, basis, besides, bucket } = self.towards[side];
        let hosts = self.hosts.as_ref().zip(flow.class);
        let weight = hosts.map_or_else(Weight::default, |(hosts, class)| hosts.weight(class, flow.host));
        let exact = flow.class.map_or(0, |class| weight.scale(side, self.allocator.shares(class)[side]));
        let widening = self.widening[side];
        let share = share_rate(exact).map(|rate| rate.scale(1.0 / widening).min(ceiling));
        let sharing = flow.class.map_or(0, |class| self.allocator.live(class));
        Case {
            flow,
            means: self.means,
            payload: self.payload,
            ceiling,
            left,
            share,
            sharing,
            basis,
            besides,
            bucket,
            wider: ((widening - 1.0) * 100.0).round() as i32,
            is_limited,
            is_priority: self.is_priority(flow),
            split: flow.class.and_then(|class| *self.splits.get(class as usize)?),
            shares: self.counts(flow, is_limited),
            meets_bulk: self.bulk[side.other()],
            takes_part: [takes_part(flow, has), self.is_crowded[side]],
            weight,
            exact,
        }
    }
}

impl Case<'_> {
    /// Whether it passes before others: delay hurts it, it leaves room for others, and no
    /// limit shapes its rate.
    pub fn comes_first(&self) -> bool {
        let [takes_part, is_crowded] = self.takes_part;
        let takes_share = |share: Rate| self.flow.rate > share.scale(USES_SHARE);
        let is_shaped = self.flow.behaviour == Behaviour::Cbr
            && self.is_limited
            && self.share.map_or(takes_part, takes_share);
        is_modest(self.flow, self.left) && !is_shaped && !(takes_part && is_crowded)
    }

    /// Returns what data of this rate takes of the wire of the link.
    pub fn on_wire(&self, data: Rate) -> Rate {
        data.scale(1.0 / self.payload)
    }

    /// Returns what the narrow link carries in an RTT, which no limit may exceed (wan F74).
    pub fn ceiling_bytes(&self) -> Option<Bytes> {
        let rtt = self.flow.rtt.filter(|rtt| *rtt > Duration::ZERO)?;
        Some(self.ceiling.bytes_in(rtt))
    }

    /// Returns the window of its share, as the middlebox computes it.
    pub fn window(&self) -> Option<Bytes> {
        let bytes = rwm::bytes(self.exact, self.flow.rtt?.ns().try_into().ok()?);
        (bytes != rwm::UNLIMITED).then_some(Bytes::new(bytes))
    }

    /// Returns the largest window that its receiver can ever tell (wan 2.20).
    pub fn largest_window(&self) -> Option<Bytes> {
        // Larger scales count as 14 (RFC 7323).
        self.flow.scale.map(|scale| Bytes::new(65_535 << scale.min(14)))
    }

    /// Returns an action within what the narrow link carries; `None` if it is not known how much that is.
    pub(super) fn bounded(&self, action: &Action) -> Option<Action> {
        Some(match *action {
            Action::Window { limit } => Action::Window { limit: limit.min(self.ceiling_bytes()?) },
            Action::Proxy { buffer } => Action::Proxy { buffer: buffer.min(self.ceiling_bytes()?) },
            Action::Rate { rate } => {
                let most = self.on_wire(self.ceiling).max(self.bucket.unwrap_or(Rate::ZERO));
                Action::Rate { rate: rate.min(most) }
            }
            Action::Mark { rate } => Action::Mark { rate: rate.min(self.ceiling) },
            Action::Pass { .. } | Action::SplitNext | Action::Other => *action,
        })
    }
}
