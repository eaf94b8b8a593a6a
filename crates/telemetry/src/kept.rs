//! Next hops over which connections that pass this host are spread, and that they keep when the shares change
//! (resilient groups of Linux 5.13, `include/uapi/linux/nexthop.h`).
//!
//! The kernel has a table of buckets for a group. A packet takes that of its connection, and a bucket goes to
//! another next hop only when its own is gone, or when no packet has taken it for a while.
//!
//! Connections of this host itself do not use the group: the kernel would not choose the next hop by their
//! source address, and not see that they use a bucket, since a socket keeps its route. So rules have only
//! what comes in by an interface take the table with the group, and only where the main table has no more
//! specific route than [`crate::preferred`] makes.

use std::io;
use std::net::IpAddr;
use std::num::NonZeroU8;

use libc::{
    RT_SCOPE_UNIVERSE, RTA_DST, RTA_OIF, RTA_TABLE, RTM_DELROUTE, RTM_DELRULE, RTM_GETROUTE, RTM_NEWROUTE,
    RTM_NEWRULE, RTN_UNICAST,
};

use crate::netlink::{CREATE_NEW, Netlink, REPLACE, SockProtocol, address, attribute, attributes, family};
use crate::preferred::NextHop;
use crate::route::RTA_NH_ID;
use crate::rule::{FRA_PRIORITY, FRA_TABLE, TO_TABLE};

const RTM_NEWNEXTHOP: u16 = 104;
const RTM_DELNEXTHOP: u16 = 105;
/// Attributes of next hops and groups, and the kind of a group that keeps connections.
const NHA_ID: u16 = 1;
const NHA_GROUP: u16 = 2;
const NHA_GROUP_TYPE: u16 = 3;
const NHA_BLACKHOLE: u16 = 4;
const NHA_OIF: u16 = 5;
const NHA_GATEWAY: u16 = 6;
const NHA_RES_GROUP: u16 = 12;
const NHA_RES_GROUP_BUCKETS: u16 = 1;
const NHA_RES_GROUP_IDLE_TIMER: u16 = 2;
const RESILIENT: u16 = 1;
const NESTED: u16 = 0x8000;
/// Attributes of rules: the interface by which packets come in, and the longest prefix that does not count.
const FRA_IIFNAME: u16 = 3;
const FRA_SUPPRESS_PREFIXLEN: u16 = 14;
/// The flag of a rule that holds for all other packets.
const INVERT: u32 = 2;
const MAIN: u32 = 254;
/// The rules come right before that of the main table.
const PRIORITIES: [u32; 2] = [32_764, 32_765];

/// Buckets: many, so that few connections share one, of 48 bytes each. Range 256 to 65535.
const BUCKETS: u16 = 8_192;
/// A connection of which nothing was sent for so long may change its path, in hundredths of a second. Range 1
/// to 60 min: the longer, the later shares are what they should be.
const IDLE: u32 = 300 * 100;
/// Next hops of each path: the kernel marks no bucket of a group with one next hop as used.
const TWINS: u32 = 2;

/// A group, and what leads to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kept {
    /// The number of the group and of the table; those of its next hops follow. No other program has them.
    pub number: u32,
    /// The number by which routes tell who made them.
    pub protocol: u8,
}

impl Kept {
    /// Checks that the kernel has such groups; leaves nothing.
    ///
    /// # Errors
    /// The system's error.
    pub fn check(&self) -> io::Result<()> {
        let mut netlink = Netlink::open(SockProtocol::NetlinkRoute)?;
        let id = self.number + 1;
        let id =
            [self.head(libc::AF_INET), attribute(NHA_ID, &id.to_ne_bytes()), attribute(NHA_BLACKHOLE, &[])];
        netlink.ask(RTM_NEWNEXTHOP, REPLACE, &id.concat())?;
        let one = [(self.number + 1).to_ne_bytes(), [0; 4]].concat();
        let done = netlink.ask(RTM_NEWNEXTHOP, REPLACE, &self.group(&one));
        self.remove(1).and(done)
    }

    /// Has new connections that pass this host take these next hops of one version of IP, as many as their
    /// weights say; those that there are keep theirs. Each has a number below 1000 by which it is known
    /// later, and a weight of 255 at most.
    ///
    /// # Errors
    /// The system's error, after which there may be a part of it; there must be one at least.
    pub fn spread(&self, hops: &[(u32, NextHop, NonZeroU8)]) -> io::Result<()> {
        let first = hops.first().ok_or(io::ErrorKind::InvalidInput)?.1;
        let family = first.family();
        let mut netlink = Netlink::open(SockProtocol::NetlinkRoute)?;
        let mut group = Vec::new();
        for (number, hop, weight) in hops {
            for twin in 0..TWINS {
                let id = self.number + 1 + TWINS * number + twin;
                self.set_hop(&mut netlink, family, id, hop)?;
                group.extend(id.to_ne_bytes());
                group.extend([weight.get() - 1, 0, 0, 0]);
            }
        }
        let group = self.group(&group);
        netlink.ask(RTM_NEWNEXTHOP, REPLACE, &group)?;
        let by_group = attribute(RTA_NH_ID, &self.number.to_ne_bytes());
        let route = [self.route(family, RT_SCOPE_UNIVERSE), by_group].concat();
        netlink.ask(RTM_NEWROUTE, REPLACE, &route)?;
        for rule in self.rules(family) {
            match netlink.ask(RTM_NEWRULE, CREATE_NEW, &rule) {
                Err(error) if error.raw_os_error() == Some(libc::EEXIST) => {}
                result => result?,
            }
        }
        Ok(())
    }

    /// Returns a message about the group of these next hops.
    fn group(&self, hops: &[u8]) -> Vec<u8> {
        let buckets = [
            attribute(NHA_RES_GROUP_BUCKETS, &BUCKETS.to_ne_bytes()),
            attribute(NHA_RES_GROUP_IDLE_TIMER, &IDLE.to_ne_bytes()),
        ];
        let body = [
            self.head(libc::AF_UNSPEC),
            attribute(NHA_ID, &self.number.to_ne_bytes()),
            attribute(NHA_GROUP, hops),
            attribute(NHA_GROUP_TYPE, &RESILIENT.to_ne_bytes()),
            attribute(NHA_RES_GROUP | NESTED, &buckets.concat()),
        ];
        body.concat()
    }

    fn set_hop(&self, netlink: &mut Netlink, family: i32, id: u32, hop: &NextHop) -> io::Result<()> {
        let interface = match (hop.interface, hop.gateway) {
            (Some(interface), _) => interface,
            (None, Some(gateway)) => interface_of(netlink, gateway)?,
            (None, None) => return Err(io::ErrorKind::InvalidInput.into()),
        };
        let router = hop.gateway.map_or_else(Vec::new, |gateway| address(NHA_GATEWAY, gateway));
        let id = attribute(NHA_ID, &id.to_ne_bytes());
        let body = [self.head(family), id, attribute(NHA_OIF, &interface.to_ne_bytes()), router].concat();
        netlink.ask(RTM_NEWNEXTHOP, REPLACE, &body)
    }

    /// Removes what is there of it and of its next hops, of which there were at most this many; returns
    /// whether anything was.
    ///
    /// # Errors
    /// The system's error.
    pub fn remove(&self, hops: u32) -> io::Result<bool> {
        let mut requests = Vec::new();
        for family in [libc::AF_INET, libc::AF_INET6] {
            // The rules first, so that none leads to an empty table. Of a scope that stands for all.
            requests.extend(self.rules(family).map(|rule| (RTM_DELRULE, rule)));
            requests.push((RTM_DELROUTE, self.route(family, u8::MAX)));
        }
        for id in self.number..=self.number + TWINS * hops {
            let id = attribute(NHA_ID, &id.to_ne_bytes());
            requests.push((RTM_DELNEXTHOP, [vec![0; HEAD], id].concat()));
        }
        Netlink::open(SockProtocol::NetlinkRoute)?.remove(requests)
    }

    /// Returns the beginning of messages about next hops: `struct nhmsg`.
    fn head(&self, family: i32) -> Vec<u8> {
        vec![family as u8, 0, self.protocol, 0, 0, 0, 0, 0]
    }

    /// Returns the beginning of messages about the route: `struct rtmsg`, in which tables above 255
    /// are 0, and the table.
    fn route(&self, family: i32, scope: u8) -> Vec<u8> {
        let mut body = vec![family as u8, 0, 0, 0, 0, self.protocol, scope, RTN_UNICAST, 0, 0, 0, 0];
        body.extend(attribute(RTA_TABLE, &self.number.to_ne_bytes()));
        body
    }

    /// Returns the rules: what comes in takes the main table, where that has a route to less than a half of
    /// all addresses, and this one otherwise.
    fn rules(&self, family: i32) -> [Vec<u8>; 2] {
        let rule = |priority: u32, table: u32| {
            let small = if table < 256 { table as u8 } else { 0 };
            let mut rule = vec![family as u8, 0, 0, 0, small, 0, 0, TO_TABLE];
            rule.extend(INVERT.to_ne_bytes());
            rule.extend(attribute(FRA_PRIORITY, &priority.to_ne_bytes()));
            rule.extend(attribute(FRA_TABLE, &table.to_ne_bytes()));
            rule.extend(attribute(FRA_IIFNAME, b"lo\0"));
            rule
        };
        let suppressed = attribute(FRA_SUPPRESS_PREFIXLEN, &1_u32.to_ne_bytes());
        [[rule(PRIORITIES[0], MAIN), suppressed].concat(), rule(PRIORITIES[1], self.number)]
    }
}

/// Bytes of `struct nhmsg`.
const HEAD: usize = 8;

/// Returns the interface on whose link a router is.
fn interface_of(netlink: &mut Netlink, gateway: IpAddr) -> io::Result<u32> {
    let bits = if gateway.is_ipv6() { 128 } else { 32 };
    let mut body = vec![family(gateway) as u8, bits, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    body.extend(address(RTA_DST, gateway));
    let found = netlink.answer((RTM_GETROUTE, &body), RTM_NEWROUTE)?;
    let attributes = found.and_then(|found| found.body.get(12..)).map(attributes).into_iter().flatten();
    let interface =
        attributes.filter(|(kind, _)| *kind == RTA_OIF).find_map(|(_, value)| value.first_chunk());
    interface
        .map(|number| u32::from_ne_bytes(*number))
        .ok_or_else(|| io::Error::from_raw_os_error(libc::ENETUNREACH))
}
