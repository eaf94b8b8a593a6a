//! What was found of a flow, and what is done with it.

use std::net::{IpAddr, SocketAddr};

use headway_units::{PerSide, Rate, Side};

use crate::classify::{Behaviour, Features, LimitedBy, Rule};
use crate::evaluate::Decision;
use crate::notes::News;
use crate::seen::Seen;
use crate::snapshot::{DecisionState, FlowState};
use crate::{Shares, Weight};

/// A flow that was judged.
#[derive(Clone, Debug)]
pub struct Judged {
    /// The flow.
    pub seen: Seen,
    /// What its packets looked like; none without any.
    pub features: Option<Features>,
    /// What it is for, and by which rule.
    pub behaviour: (Behaviour, Rule),
    /// What each end has sent in about the last second.
    pub rates: [Rate; 2],
    /// The side to which most of its data goes.
    pub main_side: Side,
    /// The part that it leaves of its share towards each side.
    pub unused: PerSide<f64>,
    /// What is done with it, and why.
    pub decision: Decision,
    /// Whether that is news.
    pub news: News,
}

/// What is done with the packets of a flow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Treatment {
    /// A connection has the window of its class, and all else passes.
    #[default]
    Window,
    /// A connection has a part of that, or more.
    Weighed(Weight),
    /// It passes, whatever its class may have.
    Passes,
    /// Its packets are marked where those of its class, which has this index, are too fast together.
    Marked(u32),
}

impl Judged {
    /// Returns what is done with its packets.
    pub fn treatment(&self) -> Treatment {
        match self.seen.class {
            Some(class) if self.decision.marks() => Treatment::Marked(class),
            _ if self.seen.tcp.is_some() && self.decision.passes() => Treatment::Passes,
            _ if self.seen.tcp.is_some() && self.decision.weight != Weight::default() => {
                Treatment::Weighed(self.decision.weight)
            }
            _ => Treatment::Window,
        }
    }

    /// Returns whether it takes a share of its class: what passes by itself takes nothing from others.
    pub fn shares(&self) -> bool {
        self.decision.shares && (self.seen.tcp.is_some() || !self.decision.passes())
    }

    /// Returns `tcp` or `udp`.
    pub const fn protocol(&self) -> &'static str {
        if self.seen.tcp.is_some() { "tcp" } else { "udp" }
    }

    /// Returns the address of the end on the side of the hosts.
    pub fn host(&self) -> IpAddr {
        self.seen.key.address(self.seen.sender_to(Side::Wan))
    }

    /// Returns the address of the end that began, and that of the other one.
    pub fn ends(&self) -> [SocketAddr; 2] {
        let key = &self.seen.key;
        [self.seen.client, 1 - self.seen.client].map(|end| SocketAddr::new(key.address(end), key.port(end)))
    }

    /// Returns what passes towards each side.
    pub fn towards(&self) -> PerSide<Rate> {
        PerSide::of(|side| self.rates[self.seen.sender_to(side)])
    }

    /// Returns the window that an end, 0 or 1, has told last, and what is let through of
    /// it with these shares.
    pub fn windows(&self, end: usize, shares: &Shares) -> [Option<u32>; 2] {
        let told = self.seen.tcp.as_ref().and_then(|flow| flow.told(end));
        let shares = if self.decision.passes() { &Shares::default() } else { shares };
        [told, self.seen.let_through(end, shares)]
    }

    /// Returns what pages and history show of it. `shares` is what a connection of each class
    /// may have from now on.
    pub fn state(&self, classes: &[String], shares: &Shares) -> FlowState {
        let [client, server] = self.ends();
        let PerSide([down, up]) = self.towards();
        let host = self.seen.sender_to(Side::Wan);
        let [told, let_through] = self.windows(host, shares).map(|bytes| bytes.map(u64::from));
        FlowState {
            id: self.seen.number,
            protocol: self.protocol().to_owned(),
            client,
            server,
            class: self.seen.class.and_then(|class| classes.get(class as usize)).cloned(),
            behaviour: self.behaviour.0.name().to_owned(),
            rule: self.behaviour.1.to_string(),
            down_bps: down.bps(),
            up_bps: up.bps(),
            rtt_ns: self.seen.rtt().map(|rtt| rtt.ns() as u64),
            window_bytes: told,
            window_let_through_bytes: let_through,
            limited_by: self.limited_by().name().to_owned(),
            mean_gap_ns: self.features.map_or(0, |features| features.mean_gap.ns() as u64),
            burstiness: self.features.map_or(0.0, |features| features.slot_variation),
            decision: self.decision.to_string(),
        }
    }

    /// Returns what limits its rate.
    pub fn limited_by(&self) -> LimitedBy {
        self.features.map_or(LimitedBy::Unknown, |features| features.limited_by)
    }

    /// Returns the decision about it, made at a time since 1970 in ms.
    pub fn decided(&self, time_ms: u64) -> DecisionState {
        let [client, server] = self.ends();
        DecisionState {
            time_ms,
            flow: self.seen.number,
            client,
            server,
            behaviour: self.behaviour.0.name().to_owned(),
            strategies: self.decision.chain.iter().map(|step| step.strategy.to_owned()).collect(),
            sentence: self.decision.to_string(),
        }
    }
}
