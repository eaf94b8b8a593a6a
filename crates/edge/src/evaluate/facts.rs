//! What inputs know of flows and links.

use std::borrow::Cow;
use std::net::IpAddr;

use headway_units::{Bytes, Duration, Instant, PerSide, Rate, Side};

use super::hold::Passed;
use crate::classify::Behaviour;

/// Tells facts: a monitor of flows, an engine that probes, or a device that knows its link (wan 2.20).
pub trait Input {
    /// Adds what it knows at `now`.
    fn tell(&mut self, now: Instant, facts: &mut Facts);
}

/// All that is known when flows are judged.
#[derive(Clone, Debug)]
pub struct Facts {
    /// Rate of data of the access link towards each side, or the most that it could be.
    pub capacity: PerSide<Rate>,
    /// Whether that is known.
    pub is_known: bool,
    /// The least that flows share towards each side, whatever estimates say.
    pub least: PerSide<Rate>,
    /// What passes towards each side besides the flows that share: ACKs, and flows that are not limited.
    pub besides: PerSide<Rate>,
    /// All that has passed towards each side when a queue stood there last, or the most since, where
    /// the link is unknown.
    pub carried: PerSide<Option<Rate>>,
    /// For how long a queue has been seen towards each side without a pause.
    pub queued: PerSide<Duration>,
    /// The part of what passes the link that is data.
    pub payload: f64,
    /// The part of what flows share towards each side that those of this router have, where others share it.
    pub part: PerSide<f64>,
    /// What windows towards each side are multiplied with.
    pub widening: PerSide<f64>,
    /// What the router can do.
    pub means: Means,
    /// The flows that are there.
    pub flows: Vec<FlowFacts>,
    /// Estimates, also old ones and several of the same quantity.
    pub estimates: Vec<Estimate>,
}

/// What the router can do besides lowering windows and limiting rates.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Means {
    /// It can split connections at a proxy.
    pub proxy: bool,
    /// It can mark packets.
    pub marking: bool,
    /// It can smooth what leaves for a side, or hold it, in a token bucket.
    pub smoothing: bool,
    /// What only that holds shares the link with the rest, as the rate is known.
    pub shaping: bool,
}

/// What is known of a flow.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FlowFacts {
    /// Its number, which no other flow has.
    pub id: u64,
    /// What it is for.
    pub behaviour: Behaviour,
    /// The index of its class in the policy; none if it is of no class.
    pub class: Option<u32>,
    /// The host on the side of the hosts.
    pub host: IpAddr,
    /// The side to which most of its data goes.
    pub side: Side,
    /// Whether it is TCP.
    pub is_tcp: bool,
    /// RTT without a queue.
    pub rtt: Option<Duration>,
    /// The scale of its receiver's windows, if both ends told one.
    pub scale: Option<u8>,
    /// The window of the host that receives it, where it is that host, and not the router, which holds it.
    pub held_at: Option<Bytes>,
    /// Whether the router has split it, and this is the half towards the link.
    pub is_split: bool,
    /// Whether both ends react to marks.
    pub ecn: bool,
    /// Its rate: the mean of the last seconds, or that of the last one if it is higher.
    pub rate: Rate,
    /// The part that it leaves of its share towards each side, 0 to 1.
    pub unused: PerSide<f64>,
}

/// What an estimate is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quantity {
    /// What the flows of this router may have together on the path (A in the specification).
    Available,
    /// Capacity of the narrow link (C_n).
    Narrow,
}

/// For so long an available bandwidth is true (wan 2.20). Range 1 to 60 s: cross traffic comes and goes.
const AVAILABLE: Duration = Duration::from_ms(5_000);
/// For so long a capacity is true: it changes with the route, or when a modem trains
/// again. Range 10 s to 1 h.
const NARROW: Duration = Duration::from_ms(600_000);

/// A rate with its interval, and who says it.
#[derive(Clone, Debug, PartialEq)]
pub struct Estimate {
    /// Who.
    pub source: Cow<'static, str>,
    /// What it is of.
    pub quantity: Quantity,
    /// The side towards which it holds.
    pub side: Side,
    /// The rate, and the ends of its interval.
    pub rate: Rate,
    /// See `rate`.
    pub low: Rate,
    /// See `rate`.
    pub high: Rate,
    /// When it was made.
    pub at: Instant,
}

impl Estimate {
    /// Whether it still holds. One from the future does not.
    pub fn is_fresh(&self, now: Instant) -> bool {
        let longest = match self.quantity {
            Quantity::Available => AVAILABLE,
            Quantity::Narrow => NARROW,
        };
        (Duration::ZERO..longest).contains(&(now - self.at)) && self.rate > Rate::ZERO
    }

    /// Returns the width of its interval in parts of its rate.
    fn width(&self) -> f64 {
        self.high.saturating_sub(self.low).bps_f64() / self.rate.bps_f64()
    }
}

impl Facts {
    /// Returns what passed towards a side, where the link is unknown and a queue has stood.
    pub(super) fn passed(&self, at: Instant, side: Side) -> Option<Passed> {
        let shares = |flow: &&FlowFacts| flow.side == side && flow.class.is_some();
        let shared = self.flows.iter().filter(shares).map(|flow| flow.rate.bps()).sum();
        Some(Passed {
            at,
            now: self.on_wire(Rate::from_bps(shared) + self.besides[side]),
            carried: self.on_wire(self.carried[side]?),
            queued: self.queued[side],
        })
    }

    /// Returns what data of this rate takes of the wire of the link.
    pub(super) fn on_wire(&self, data: Rate) -> Rate {
        data.scale(1.0 / self.payload)
    }

    /// Returns the fresh estimate of a quantity with the narrowest interval; of equal ones the
    /// latest, then the first.
    pub fn best(&self, now: Instant, quantity: Quantity, side: Side) -> Option<&Estimate> {
        let fresh = self.estimates.iter().filter(|estimate| {
            estimate.quantity == quantity && estimate.side == side && estimate.is_fresh(now)
        });
        fresh.min_by(|a, b| a.width().total_cmp(&b.width()).then(b.at.cmp(&a.at)))
    }
}
