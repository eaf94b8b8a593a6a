//! What a router sees of a flow.

use headway_arithmetic::flow::{Delays, Flow, Key, Meter};
use headway_arithmetic::rwm;
use headway_units::{Bytes, Duration, PerSide, Rate, Side};

use crate::classify::{Behaviour, LimitedBy};
use crate::evaluate::FlowFacts;
use crate::{Load, Shares, Weight};

/// A connection that has more than this part of what its window allows is limited by it.
///
/// Range 0.6 to 0.95: a window holds whole segments, and is younger than the rate.
const FILLS_WINDOW: f64 = 0.8;

/// A sender that makes a queue has more to send if its segments have this part of the largest
/// one: an application that sets the rate ends its messages with shorter ones, as each frame of
/// video. Range 0.95 to 0.99.
const FULL: f64 = 0.97;

/// Whether a flow of this rate is as fast as a window in bytes allows.
fn fills_window(rate: Rate, rtt: Duration, window: u32) -> bool {
    rate.bytes_in(rtt).get() as f64 >= FILLS_WINDOW * f64::from(window)
}

/// What a capture says of the data that one end of a connection sends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Passive {
    /// What limited it in the last seconds.
    pub limited_by: LimitedBy,
}

/// A flow as a world shows it: the tables of the kernel, or a simulated middlebox. Arrays have an entry for
/// each end of its key.
#[derive(Clone, Debug)]
pub struct Seen {
    /// Its number, which no other flow has.
    pub number: u64,
    /// Its ends.
    pub key: Key,
    /// The end that began.
    pub client: usize,
    /// The side of that.
    pub side: Side,
    /// The index of its class in the policy.
    pub class: Option<u32>,
    /// What is known of a connection of TCP; none of other flows.
    pub tcp: Option<Flow>,
    /// The packets with data that each end has sent.
    pub sent: [Meter; 2],
    /// Whether the router has split it, and this is the half towards the link.
    pub is_split: bool,
    /// Whether each end has sent packets that may be marked, so that its peer tells it of
    /// marks (RFC 3168 6.1).
    pub ecn: [bool; 2],
    /// What a capture says of them.
    pub passive: [Passive; 2],
    /// What it has in parts of what others of its class have, as the last look decided.
    pub weight: Weight,
}

impl Seen {
    /// Returns what it did at this rate towards a side, with these delays.
    pub(crate) fn load(&self, side: Side, rate: Rate, delays: Option<(Delays, Duration)>) -> Load {
        let time = |ns: u64| Duration::from_ns(ns as i64);
        let (delays, longer) = delays.unzip();
        Load {
            side,
            rate,
            segment: Bytes::new(self.tcp.as_ref().map_or(0, |flow| flow.segment().into())),
            rtts: delays.map(|delays| [delays.rtt, delays.least].map(time)),
            longer: longer.unwrap_or(Duration::ZERO),
            queues: delays.and_then(|delays| delays.queues).map(|queues| PerSide(queues.map(time))),
        }
    }

    /// Returns the side on which an end, 0 or 1, is.
    pub(crate) fn side_of(&self, end: usize) -> Side {
        if end == self.client { self.side } else { self.side.other() }
    }

    /// Returns the end, 0 or 1, that sends towards a side.
    pub(crate) fn sender_to(&self, side: Side) -> usize {
        usize::from(self.side_of(0) == side)
    }

    pub(crate) fn rtt(&self) -> Option<Duration> {
        self.tcp.as_ref()?.rtt().map(|rtt| Duration::from_ns(rtt as i64))
    }

    /// Returns what it may have towards a side with these shares; 0 for any.
    pub(crate) fn share(&self, side: Side, shares: &Shares) -> u64 {
        let class = self.class.and_then(|class| shares[side].get(class as usize));
        self.weight.scale(side, class.copied().unwrap_or(0))
    }

    /// Returns the window of an end that is let through with these shares; none where it cannot be lowered.
    pub(crate) fn let_through(&self, end: usize, shares: &Shares) -> Option<u32> {
        let flow = self.tcp.as_ref()?;
        flow.let_through(end, rwm::bytes(self.share(self.side_of(end), shares), flow.rtt().unwrap_or(0)))
    }

    /// Returns what limits what an end sends at this rate and RTT in segments of this mean size, which make a
    /// queue or not. A window that the router has lowered is not in a capture on the hosts' side of it.
    pub(crate) fn limited_by(
        &self,
        sender: usize,
        rate: Rate,
        rtt: Option<Duration>,
        (mean_size, makes_queue): (Bytes, bool),
        shares: &Shares,
    ) -> LimitedBy {
        let window = self.let_through(1 - sender, shares);
        if rtt.zip(window).is_some_and(|(rtt, window)| fills_window(rate, rtt, window)) {
            return LimitedBy::ReceiveWindow;
        }
        let full = self.tcp.as_ref().map_or(f64::INFINITY, |flow| FULL * f64::from(flow.segment()));
        match self.passive[sender].limited_by {
            LimitedBy::Unknown if makes_queue && mean_size.get() as f64 >= full => LimitedBy::Path,
            known => known,
        }
    }

    /// Returns the window that a host, not the router, lets an end beyond the link fill, if it is
    /// filled at this rate.
    pub(crate) fn held_at(&self, sender: usize, rate: Rate, shares: &Shares) -> Option<Bytes> {
        let host = 1 - sender;
        // A window of nothing is that of an application which does not read.
        let told =
            self.tcp.as_ref()?.told(host).filter(|told| self.side_of(host) == Side::Lan && *told > 0)?;
        let is_own = self.let_through(host, shares) == Some(told);
        (is_own && fills_window(rate, self.rtt()?, told)).then_some(Bytes::new(told.into()))
    }

    pub(crate) fn facts(&self, sender: usize, behaviour: Behaviour, rate: Rate) -> FlowFacts {
        let receiver = 1 - sender;
        FlowFacts {
            id: self.number,
            behaviour,
            class: self.class,
            host: self.key.address(self.sender_to(Side::Wan)),
            side: self.side_of(receiver),
            is_tcp: self.tcp.is_some(),
            rtt: self.rtt(),
            scale: self.tcp.as_ref().and_then(|flow| flow.scale(receiver)),
            held_at: None,
            is_split: self.is_split,
            ecn: self.ecn[sender],
            rate,
            unused: PerSide::default(),
        }
    }
}
