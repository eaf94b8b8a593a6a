//! The answer about a path, or the rule that kept it from being given.

use std::net::IpAddr;

use super::tight::Tight;
use crate::hire::{Location, NotMeasured, Unlocated};
use crate::ppdd::{Capacity, Dropped, Insufficient};
use crate::slcs::Member;
use crate::stream::Refusal;
use crate::tight::NotLocated;
use headway_units::{Bytes, Rate};

/// A node of the path: the far end of the link with the same number.
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    /// Its number: 1 is the first router, the last one is the receiver.
    pub hop: u8,
    /// Its addresses, as far as it answers; several where packets take several paths.
    pub addresses: Vec<IpAddr>,
    /// Capacity of the narrowest of the links up to this node, where it was measured.
    pub prefix: Option<Result<Rate, NotMeasured>>,
}

/// The trains whose hidden packets died at one node.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Group {
    /// The number of the node.
    pub hop: u8,
    /// Usable trains.
    pub trains: usize,
    /// Mean rate of the trains, hidden packets included: the capacity of the narrowest link up to this node,
    /// if there were no cross traffic.
    pub rate: Rate,
    /// Their standard deviation.
    pub deviation: Rate,
}

/// What is known about a path.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    /// The nodes; empty while the number of hops is unknown.
    pub nodes: Vec<Node>,
    /// Capacity of the narrow link, in the bytes on the wire.
    pub capacity: Option<Capacity>,
    /// Position of the narrow link.
    pub narrow: Result<Location, Refused>,
    /// Position of the tight link, if it was wanted.
    pub tight: Option<Result<Tight, Refused>>,
    /// The groups of trains, from the receiver towards the sender.
    pub groups: Vec<Group>,
    /// The links that are the narrow link of some prefix of the path, the narrow link first; only complete
    /// where the capacities of all prefixes were measured.
    pub slcs: Vec<Member>,
    /// Bytes of all packets sent, on the wire.
    pub bytes: Bytes,
    /// Pairs and trains sent for the narrow link.
    pub trains: usize,
    /// Pairs and trains not used, by reason.
    pub dropped: Dropped,
    /// Packets that arrived twice.
    pub duplicates: usize,
}

/// The reason why the narrow or the tight link is unknown, and what to do.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Refused {
    /// There are not enough measurements yet.
    #[error("the measurement was not finished")]
    Unfinished,
    /// No hidden packet of any TTL arrived.
    #[error(
        "no packet with a TTL of 1 to {} arrived, so the number of hops is unknown; a firewall may drop small TTLs, or the path is longer",
        super::MOST_HOPS
    )]
    NoneArrived,
    /// Packets with some TTLs arrived, with many larger ones not.
    #[error(
        "packets with small TTLs arrive and larger ones do not, so the number of hops is unclear; the path changes or loses packets, try again later"
    )]
    HopsUnclear,
    /// The number of hops changed.
    #[error("the path changed during the measurement, from {before} to {after} hops; measure again")]
    PathChanged {
        /// Hops at first.
        before: u8,
        /// Hops in the end.
        after: u8,
    },
    /// A node has another address than before.
    #[error(
        "the path changed during the measurement, or packets take several paths: hop {hop} was {before} and then {after}; measure again"
    )]
    NodeChanged {
        /// The number of the node.
        hop: u8,
        /// Its address at first.
        before: IpAddr,
        /// Its address in the end.
        after: IpAddr,
    },
    /// Hidden packets arrived, or no longer arrived, against what the number of hops says.
    #[error(
        "the path changed during the measurement: packets that end at hop {hop} {}; measure again",
        if *.arrived { "arrived at the receiver" } else { "no longer arrived" }
    )]
    HiddenArrived {
        /// The TTL of the hidden packets.
        hop: u8,
        /// Whether they arrived.
        arrived: bool,
    },
    /// Too few pairs were usable.
    #[error("too few pairs arrived for the capacity ({0}); give more --budget or --duration")]
    Capacity(Insufficient),
    /// Resampled pairs do not agree.
    #[error(
        "the capacity is unclear: between {} and {}; give more --budget, or measure when the path is less loaded",
        .0.low, .0.high
    )]
    CapacityUnclear(Capacity),
    /// Most pairs or trains were lost.
    #[error(
        "{lost} of {sent} pairs and trains lost packets; measure when fewer packets are lost, or check for a policer"
    )]
    Lost {
        /// Pairs and trains of which a packet was lost.
        lost: usize,
        /// Pairs and trains sent.
        sent: usize,
    },
    /// Many pairs arrived in the wrong order.
    #[error(
        "{reordered} of {sent} pairs arrived in the wrong order, so gaps mean nothing: packets take several paths, or a wireless link repeats lost ones; measure from the other side of it"
    )]
    Reordered {
        /// Pairs in the wrong order.
        reordered: usize,
        /// Pairs sent.
        sent: usize,
    },
    /// Many packets arrived twice.
    #[error(
        "{duplicates} of {packets} packets arrived twice, so gaps mean little: something on the way copies packets, such as a bridge with a loop; remove the cause"
    )]
    Duplicated {
        /// Packets that arrived twice.
        duplicates: usize,
        /// Packets that were to arrive.
        packets: usize,
    },
    /// Pairs arrive closer together than they were sent: something on the way or the
    /// receiver holds packets back.
    #[error(
        "{close} of {pairs} pairs arrived closer together than they were sent: the receiver's NIC or a shaper sends packets on in groups, which destroys the gaps; turn off GRO, LRO and interrupt coalescing at the receiver (ethtool -K, ethtool -C)"
    )]
    Grouped {
        /// Pairs closer together than sent.
        close: usize,
        /// Pairs sent.
        pairs: usize,
    },
    /// Pairs left the sender no faster than the narrow link carries them.
    #[error(
        "pairs arrive as they left this host, at {0}: every link on the path may be faster; measure from a faster host"
    )]
    SenderSlow(Rate),
    /// Several streams could not be used.
    #[error("several streams could not be used ({0}); measure from a host that is less busy")]
    Stream(Refusal),
    /// This host sent many pairs and trains more slowly than it should have.
    #[error(
        "this host was interrupted while it sent {late} of {sent} pairs and trains; measure from a host that is less busy"
    )]
    Interrupted {
        /// Pairs and trains that left too slowly.
        late: usize,
        /// Pairs and trains sent.
        sent: usize,
    },
    /// The bytes or the time are spent.
    #[error("{0} is used up; give more with {1}")]
    Spent(&'static str, &'static str),
    /// The groups of trains do not tell.
    #[error("{}", unlocated(.0))]
    Unlocated(Unlocated),
    /// Trains that die before the narrow link are hardly faster than it.
    #[error(
        "it looks like hop {hop}, but trains that end before it arrive at {rate}, hardly faster than the capacity of {capacity}: cross traffic makes such a step, too; measure when the path is less loaded"
    )]
    NotFaster {
        /// The hop that the groups of trains say.
        hop: u32,
        /// The lower of the rate of the group before it and the mean rate of all groups before it.
        rate: Rate,
        /// Capacity of the narrow link.
        capacity: Rate,
    },
    /// Trains that cross the narrow link are faster than it.
    #[error(
        "it looks like hop {hop}, but trains up to hop {group} arrive at {rate}, faster than the capacity of {capacity}: the narrow link is later, and links before it are nearly as narrow"
    )]
    FasterBehind {
        /// The hop that the groups of trains say.
        hop: u32,
        /// The hop at which the hidden packets of the faster group died.
        group: u8,
        /// Its mean rate.
        rate: Rate,
        /// Capacity of the narrow link.
        capacity: Rate,
    },
    /// The loads that should show the tight link were not sent at their rate, or did not arrive.
    #[error(
        "streams were lost or not sent at their rate; measure when fewer packets are lost, or from a host that is less busy"
    )]
    LoadsUnusable,
    /// No rate, or no hop, made delays grow.
    #[error("{0}; other traffic may have given way, or changed: measure again")]
    TightUnlocated(NotLocated),
    /// Hops differ too little.
    #[error(
        "hop {hop} is the most likely one ({:.0} %), but hops differ too little; give more --budget, or measure when cross traffic varies less",
        (100.0 * .confidence).floor()
    )]
    TightUnsure {
        /// The most likely position.
        hop: u32,
        /// How likely it is.
        confidence: f64,
    },
}

/// Returns the sentence for a search without an answer.
fn unlocated(reason: &Unlocated) -> String {
    let next = match reason {
        Unlocated::TooFewTrains { .. } => "measure when fewer packets are lost",
        Unlocated::SenderTooSlow => "measure from a faster host",
        Unlocated::Unsure { .. } => "give more --budget, or measure when the path is less loaded",
    };
    format!("{reason}; {next}")
}
