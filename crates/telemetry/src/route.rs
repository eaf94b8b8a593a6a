//! Routes, and whether TCP's timestamps on them are microseconds: `ip` knows that feature of Linux 6.7
//! since version 6.8 only.

use std::fmt::{self, Display, Formatter};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use libc::{
    RT_TABLE_MAIN, RTA_CACHEINFO, RTA_DST, RTA_METRICS, RTA_PRIORITY, RTM_F_CLONED, RTM_GETROUTE,
    RTM_NEWROUTE, RTN_UNICAST,
};

use crate::netlink::{Netlink, REPLACE, SockProtocol, attribute, attributes};

/// Attributes, metrics and features of `include/uapi/linux/rtnetlink.h` that the crate `libc` does
/// not have.
pub(crate) const RTA_NH_ID: u16 = 30;
/// The metric that is a set of features.
pub const RTAX_FEATURES: u16 = 12;
/// TCP's timestamps are microseconds (Linux 6.7).
pub const RTAX_FEATURE_TCP_USEC_TS: u32 = 1 << 4;

/// Fields of `struct rtmsg`, by their places in it, and its length.
const FAMILY: usize = 0;
const PREFIX: usize = 1;
const SERVICE: usize = 3;
const TABLE: usize = 4;
const PROTOCOL: usize = 5;
const KIND: usize = 7;
const FLAGS: usize = 8;
const HEAD: usize = 12;
/// Made by router advertisements, which renew it.
const OF_ADVERTISEMENTS: u8 = 9;
/// The flags that a request may have: the next hop is on the link whatever addresses say.
const ONLINK: u32 = 4;

/// A route to other hosts, in the main table of a network namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    head: [u8; HEAD],
    /// All attributes but the metrics and what only the kernel says.
    body: Vec<(u16, Vec<u8>)>,
    metrics: Vec<(u16, Vec<u8>)>,
}

impl Route {
    /// Returns the routes of this thread's network namespace. Left out are those that routers advertise,
    /// because messages of the routers renew them, those through nexthop objects, whose metrics the
    /// kernel does not take away again, and those of which there are several, because the kernel
    /// replaces any one of them.
    ///
    /// # Errors
    /// The system's error.
    pub fn all() -> io::Result<Vec<Route>> {
        let mut netlink = Netlink::open(SockProtocol::NetlinkRoute)?;
        let mut routes = Vec::new();
        for family in [libc::AF_INET, libc::AF_INET6] {
            let mut head = [0; HEAD];
            head[FAMILY] = family as u8;
            netlink.dump(RTM_GETROUTE, &head, |message| {
                routes.extend(Route::parse(message.body).filter(|_| message.kind == RTM_NEWROUTE));
            })?;
        }
        let single = |route: &&Route| routes.iter().filter(|other| route.is_alike(other)).count() == 1;
        Ok(routes.iter().filter(single).cloned().collect())
    }

    /// Whether the kernel takes the other route for this one.
    fn is_alike(&self, other: &Route) -> bool {
        self.key() == other.key()
    }

    fn key(&self) -> (u8, u8, IpAddr, u8, Option<&[u8]>) {
        let (address, length) = self.destination();
        let priority = self.body.iter().find(|(kind, _)| *kind == RTA_PRIORITY);
        (self.head[FAMILY], self.head[SERVICE], address, length, priority.map(|(_, value)| value.as_slice()))
    }

    /// Reads what the kernel says of a route; `None` if it leads to no other hosts, or is in another table.
    fn parse(body: &[u8]) -> Option<Route> {
        let (head, rest) = body.split_first_chunk::<HEAD>()?;
        let mut head = *head;
        let flags = u32::from_ne_bytes([head[FLAGS], head[FLAGS + 1], head[FLAGS + 2], head[FLAGS + 3]]);
        let ordinary = (head[TABLE], head[KIND]) == (RT_TABLE_MAIN, RTN_UNICAST) && flags & RTM_F_CLONED == 0;
        head[FLAGS..].copy_from_slice(&(flags & ONLINK).to_ne_bytes());
        let owned = |(kind, value): (u16, &[u8])| (kind, value.to_vec());
        let all: Vec<(u16, &[u8])> = attributes(rest).collect();
        let by_object = all.iter().any(|(kind, _)| *kind == RTA_NH_ID);
        if !ordinary || by_object || head[PROTOCOL] == OF_ADVERTISEMENTS {
            return None;
        }
        let metrics = all.iter().find(|(kind, _)| *kind == RTA_METRICS).map_or(&[][..], |(_, value)| value);
        Some(Route {
            head,
            body: all
                .iter()
                .copied()
                .filter(|(kind, _)| ![RTA_METRICS, RTA_CACHEINFO].contains(kind))
                .map(owned)
                .collect(),
            metrics: attributes(metrics).map(owned).collect(),
        })
    }

    fn features(&self) -> u32 {
        let found = self.metrics.iter().find(|(kind, _)| *kind == RTAX_FEATURES);
        found.and_then(|(_, value)| value.first_chunk()).map_or(0, |value| u32::from_ne_bytes(*value))
    }

    /// Whether new connections over the route have timestamps in microseconds.
    pub fn has_microseconds(&self) -> bool {
        self.features() & RTAX_FEATURE_TCP_USEC_TS != 0
    }

    /// Gives new connections over the route timestamps in microseconds, or the ordinary ones; those that
    /// there are keep theirs.
    ///
    /// # Errors
    /// The system's error: without the right to change routes, on a kernel before 6.7, or
    /// if the route is gone.
    pub fn set_microseconds(&self, on: bool) -> io::Result<()> {
        let features = self.features() & !RTAX_FEATURE_TCP_USEC_TS;
        let features = features | if on { RTAX_FEATURE_TCP_USEC_TS } else { 0 };
        let others = self.metrics.iter().filter(|(kind, _)| *kind != RTAX_FEATURES);
        let mut metrics: Vec<u8> = others.flat_map(|(kind, value)| attribute(*kind, value)).collect();
        if features != 0 {
            metrics.extend(attribute(RTAX_FEATURES, &features.to_ne_bytes()));
        }
        let mut body = self.head.to_vec();
        body.extend(self.body.iter().flat_map(|(kind, value)| attribute(*kind, value)));
        if !metrics.is_empty() {
            body.extend(attribute(RTA_METRICS, &metrics));
        }
        Netlink::open(SockProtocol::NetlinkRoute)?.ask(RTM_NEWROUTE, REPLACE, &body)
    }

    /// Returns the address and the length of its prefix.
    fn destination(&self) -> (IpAddr, u8) {
        let found = self.body.iter().find(|(kind, _)| *kind == RTA_DST).map(|(_, value)| value.as_slice());
        let bytes = found.unwrap_or_default();
        let address = if i32::from(self.head[FAMILY]) == libc::AF_INET {
            bytes.first_chunk::<4>().map_or(Ipv4Addr::UNSPECIFIED, |all| Ipv4Addr::from(*all)).into()
        } else {
            bytes.first_chunk::<16>().map_or(Ipv6Addr::UNSPECIFIED, |all| Ipv6Addr::from(*all)).into()
        };
        (address, self.head[PREFIX])
    }
}

/// The prefix of the destination.
impl Display for Route {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let (address, length) = self.destination();
        write!(f, "{address}/{length}")
    }
}
