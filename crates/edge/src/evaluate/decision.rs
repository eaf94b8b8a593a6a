//! Decisions, and why they were made.

use std::borrow::Cow;
use std::fmt;

use headway_units::{Bytes, Duration, Instant, Rate};
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};

use super::{Case, Estimate, Quantity};
use crate::Weight;
use crate::classify::Behaviour;

/// What is done with a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// It passes as it is.
    Pass {
        /// Before all others.
        priority: bool,
    },
    /// It is split at a proxy.
    Proxy {
        /// Size of the proxy's buffer towards the link.
        buffer: Bytes,
    },
    /// It goes on as it is, and the next connections of its class from its host are split.
    SplitNext,
    /// Its receive window is lowered to this.
    Window {
        /// The most that is under way.
        limit: Bytes,
    },
    /// Its packets are marked where it is faster than this, with others that are marked.
    Mark {
        /// Its part of the rate, of data.
        rate: Rate,
    },
    /// Its packets are held to a rate.
    Rate {
        /// The rate on the wire of the link.
        rate: Rate,
    },
    /// What a strategy from outside does, whose name says it.
    Other,
}

impl Action {
    /// Whether it makes a flow slower.
    pub const fn limits(self) -> bool {
        matches!(self, Action::Window { .. } | Action::Mark { .. } | Action::Rate { .. })
    }
}

/// What shares are computed from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Basis {
    /// The rate of the access link, for lack of an estimate that is lower.
    Access {
        /// The rate.
        rate: Rate,
    },
    /// An estimate.
    Estimate {
        /// Of what.
        quantity: Quantity,
        /// The rate, and the ends of its interval.
        rates: [Rate; 3],
        /// Its age.
        age: Duration,
    },
}

impl Basis {
    pub(super) fn of(now: Instant, estimate: &Estimate) -> Basis {
        let rates = [estimate.rate, estimate.low, estimate.high];
        Basis::Estimate { quantity: estimate.quantity, rates, age: now - estimate.at }
    }

    /// Returns it with other rates.
    pub(super) fn map(self, of: impl Fn(Rate) -> Rate) -> Basis {
        match self {
            Basis::Access { rate } => Basis::Access { rate: of(rate) },
            Basis::Estimate { quantity, rates, age } => {
                Basis::Estimate { quantity, rates: rates.map(of), age }
            }
        }
    }
}

impl fmt::Display for Basis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (what, [rate, low, high], age) = match *self {
            Basis::Access { rate } => return write!(f, "the access link has {rate}"),
            Basis::Estimate { quantity: Quantity::Available, rates, age } => ("available are", rates, age),
            Basis::Estimate { quantity: Quantity::Narrow, rates, age } => ("the narrow link has", rates, age),
        };
        write!(f, "{what} {rate} ({low} to {high}, {age} ago)")
    }
}

/// Why something is done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Why {
    /// Delay hurts it.
    DelayHurts(Behaviour),
    /// Its receiver cannot tell windows that the link needs.
    SmallReceiver {
        /// The largest that it can tell.
        largest: Bytes,
        /// What the link needs.
        needed: Bytes,
    },
    /// Its receiver's window holds it below its share.
    HeldByReceiver {
        /// The window.
        window: Bytes,
        /// What its share needs.
        needed: Bytes,
    },
    /// It has this share of the link.
    Share {
        /// Its share.
        rate: Rate,
        /// How many flows of its class share, itself included.
        sharing: u32,
        /// What that is computed from.
        basis: Basis,
        /// What others use of that.
        besides: Rate,
        /// By how many percent windows are larger than share x RTT; below 0, smaller.
        wider: i32,
    },
    /// Its ends react to marks, and its window cannot be lowered.
    ReactsToMarks,
    /// Its class is never limited.
    Priority,
    /// It is of no class of the policy.
    NoClass,
    /// It is not known what it is for, and it is not faster than its share.
    NotKnown,
    /// Another reason, as a clause.
    Other(Cow<'static, str>),
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Why::DelayHurts(Behaviour::Cbr) => f.write_str("it has a constant rate, and delay hurts it"),
            Why::DelayHurts(behaviour) => write!(f, "it is {behaviour}, and delay hurts it"),
            Why::SmallReceiver { largest, needed } => {
                write!(f, "its receiver tells windows of {largest} at most, and the link needs {needed}")
            }
            Why::HeldByReceiver { window, needed } => write!(
                f,
                "the window of its receiver holds it at {window}, and its share needs {needed}; a connection can only be \
                 split from its first packet"
            ),
            Why::Share { rate, sharing, basis, besides, wider } => {
                let others = match sharing {
                    1 => "alone in its class".to_owned(),
                    _ => format!("as one of {sharing} flows of its class"),
                };
                write!(f, "its share is {rate}, {others}, and {basis}")?;
                if *besides > Rate::ZERO {
                    write!(f, ", of which others use {besides}")?;
                }
                match wider {
                    0 => Ok(()),
                    1.. => write!(f, "; windows are {wider} % wider, as more is delivered with that"),
                    _ => write!(f, "; windows are {} % narrower, as no less is delivered", wider.abs()),
                }
            }
            Why::ReactsToMarks => f.write_str("its ends react to marks, and its window cannot be lowered"),
            Why::Priority => f.write_str("its class has priority"),
            Why::NoClass => f.write_str("it is of no class of the policy"),
            Why::NotKnown => {
                f.write_str("it is not known what it is for, and it is not faster than its share")
            }
            Why::Other(reason) => f.write_str(reason),
        }
    }
}

/// What one strategy does with a flow.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// The name of the strategy.
    pub strategy: &'static str,
    /// What it does.
    pub action: Action,
    /// Why.
    pub why: Why,
    /// Whether it wanted to allow more than the narrow link carries.
    pub is_lowered: bool,
}

impl fmt::Display for Step {
    /// Says what is done and why.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.action {
            Action::Pass { priority: true } => f.write_str("passes before others"),
            Action::Pass { priority: false } => f.write_str("passes"),
            Action::Proxy { buffer } => write!(f, "is split at a proxy with a buffer of {buffer}"),
            Action::SplitNext => f.write_str("has the next connections of its class from its host split"),
            Action::Window { limit } => write!(f, "has a window of {limit} at most"),
            Action::Mark { rate } => write!(f, "is marked above {rate} of payload"),
            Action::Rate { rate } => write!(f, "is held to {rate} on the wire"),
            Action::Other => f.write_str(self.strategy),
        }?;
        write!(f, ", because {}", self.why)?;
        if self.is_lowered { f.write_str("; the narrow link carries no more") } else { Ok(()) }
    }
}

impl Serialize for Step {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("strategy", self.strategy)?;
        match self.action {
            Action::Proxy { buffer } => map.serialize_entry("buffer_bytes", &buffer.get())?,
            Action::Window { limit } => map.serialize_entry("limit_bytes", &limit.get())?,
            Action::Mark { rate } | Action::Rate { rate } => map.serialize_entry("rate_bps", &rate.bps())?,
            Action::Pass { .. } | Action::SplitNext | Action::Other => {}
        }
        map.serialize_entry("sentence", &self.to_string())?;
        map.end()
    }
}

/// What is done with a flow.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Decision {
    /// The number of the flow.
    pub flow: u64,
    /// What each strategy does, in their order.
    pub chain: Vec<Step>,
    /// Whether its strategies are others than before.
    pub changed: bool,
    /// The strategies that it gets if the next evaluation wants them, too.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub waiting: Vec<&'static str>,
    /// Whether it counts among those who share its class.
    #[serde(skip)]
    pub shares: bool,
    /// What it has in parts of what others of its class have.
    #[serde(skip)]
    pub weight: Weight,
}

impl Decision {
    pub(super) fn new(case: &Case<'_>, chain: &[Step], changed: bool, waiting: &[&'static str]) -> Decision {
        let (flow, shares, weight) = (case.flow.id, case.shares, case.weight);
        Decision { flow, chain: chain.to_vec(), changed, waiting: waiting.to_vec(), shares, weight }
    }

    /// Whether its packets are marked where it is too fast.
    pub fn marks(&self) -> bool {
        self.chain.iter().any(|step| matches!(step.action, Action::Mark { .. }))
    }

    /// Whether the next connections of its class from its host are to be split.
    pub fn splits_next(&self) -> bool {
        self.chain.iter().any(|step| step.action == Action::SplitNext)
    }

    /// Returns the rate of the token bucket in which it is to be, on the wire of the link.
    pub fn bucket(&self) -> Option<Rate> {
        self.chain.iter().find_map(|step| match step.action {
            Action::Rate { rate } => Some(rate),
            _ => None,
        })
    }

    /// Whether nothing makes the flow slower.
    pub fn passes(&self) -> bool {
        !self.chain.iter().any(|step| step.action.limits())
    }
}

impl fmt::Display for Decision {
    /// Says what is done with the flow, which is the subject of the sentence.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, step) in self.chain.iter().enumerate() {
            let between = if number == 0 { "" } else { "; then it " };
            write!(f, "{between}{step}")?;
        }
        match &self.waiting[..] {
            [] => Ok(()),
            names => write!(f, " (soon perhaps {})", names.join(", ")),
        }
    }
}
