//! A next hop for all destinations that no more specific route has, beside the default route, which stays
//! (`include/uapi/linux/rtnetlink.h`).
//!
//! Two routes cover the two halves of all addresses: each is more specific than the default route and less
//! than any other. So that need not be replaced, and holds again when the two are removed, or when the kernel
//! removes them with their interface.
//!
//! Over several next hops the kernel spreads what it takes for one connection: by addresses, or also by
//! ports, as `fib_multipath_hash_policy` of `net.ipv4` and `net.ipv6` says.

use std::io;
use std::net::IpAddr;
use std::num::NonZeroU8;

use libc::{
    RT_SCOPE_LINK, RT_SCOPE_NOWHERE, RT_SCOPE_UNIVERSE, RT_TABLE_MAIN, RTA_DST, RTA_GATEWAY, RTA_MULTIPATH,
    RTA_OIF, RTA_PRIORITY, RTM_DELROUTE, RTM_NEWROUTE, RTN_UNICAST,
};

use crate::netlink::{Netlink, REPLACE, SockProtocol, address, attribute, family};

/// Bytes of `struct rtnexthop`, one for each of several next hops, with attributes behind it.
const NEXT_HOP: usize = 8;

/// The way to all destinations without a more specific route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NextHop {
    /// The router; without one, hosts are taken to be on the link of the interface.
    pub gateway: Option<IpAddr>,
    /// The number of the interface; without one, the kernel finds that of the router.
    pub interface: Option<u32>,
}

impl NextHop {
    /// Returns the number of its version of IP: without a router IPv4.
    pub(crate) fn family(&self) -> i32 {
        self.gateway.map_or(libc::AF_INET, family)
    }

    /// Returns the attribute with the router, if there is one.
    fn router(&self) -> Vec<u8> {
        self.gateway.map_or_else(Vec::new, |gateway| address(RTA_GATEWAY, gateway))
    }

    /// Returns it as one of several.
    fn one_of_several(&self, weight: NonZeroU8) -> Vec<u8> {
        let router = self.router();
        let mut bytes = ((NEXT_HOP + router.len()) as u16).to_ne_bytes().to_vec();
        // Flags, and the weight less one.
        bytes.extend([0, weight.get() - 1]);
        bytes.extend(self.interface.unwrap_or(0).to_ne_bytes());
        bytes.extend(router);
        bytes
    }
}

/// Who makes such routes, by which they differ from those of others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Preferred {
    /// The number by which routes tell who made them; above 4, and of no other program
    /// (`/etc/iproute2/rt_protos`).
    pub protocol: u8,
    /// Of routes to the same half the one with the lowest number counts.
    pub metric: u32,
}

impl Preferred {
    /// Has new packets take this next hop, in this thread's network namespace, in place of one
    /// that was set before.
    ///
    /// # Errors
    /// The system's error.
    pub fn set(&self, hop: &NextHop) -> io::Result<()> {
        let mut way = hop.router();
        if let Some(interface) = hop.interface {
            way.extend(attribute(RTA_OIF, &interface.to_ne_bytes()));
        }
        let scope = if hop.gateway.is_some() { RT_SCOPE_UNIVERSE } else { RT_SCOPE_LINK };
        self.replace(hop.family(), scope, &way)
    }

    /// Has new connections take these next hops of one version of IP, as many as their weights say, in place
    /// of what was set before.
    ///
    /// # Errors
    /// The system's error; there must be one at least.
    pub fn spread(&self, hops: &[(NextHop, NonZeroU8)]) -> io::Result<()> {
        match hops {
            [] => Err(io::ErrorKind::InvalidInput.into()),
            [(hop, _)] => self.set(hop),
            [(first, _), ..] => {
                let all: Vec<u8> =
                    hops.iter().flat_map(|(hop, weight)| hop.one_of_several(*weight)).collect();
                self.replace(first.family(), RT_SCOPE_UNIVERSE, &attribute(RTA_MULTIPATH, &all))
            }
        }
    }

    /// Sets both routes to lead this way.
    fn replace(&self, family: i32, scope: u8, way: &[u8]) -> io::Result<()> {
        let mut netlink = Netlink::open(SockProtocol::NetlinkRoute)?;
        let metric = attribute(RTA_PRIORITY, &self.metric.to_ne_bytes());
        for half in halves(family, self.protocol, scope) {
            let body = [&half[..], &metric[..], way].concat();
            netlink.ask(RTM_NEWROUTE, REPLACE, &body)?;
        }
        Ok(())
    }

    /// Removes what is there of it; returns whether anything was.
    ///
    /// # Errors
    /// The system's error.
    pub fn remove(&self) -> io::Result<bool> {
        let metric = attribute(RTA_PRIORITY, &self.metric.to_ne_bytes());
        let halves = [libc::AF_INET, libc::AF_INET6]
            .into_iter()
            // Of a route that is to be removed: any.
            .flat_map(|family| halves(family, self.protocol, RT_SCOPE_NOWHERE))
            .map(|half| (RTM_DELROUTE, [&half[..], &metric[..]].concat()));
        Netlink::open(SockProtocol::NetlinkRoute)?.remove(halves)
    }
}

/// Returns the beginnings of messages about both halves: `struct rtmsg`, and the destination.
fn halves(family: i32, protocol: u8, scope: u8) -> [Vec<u8>; 2] {
    let length = if family == libc::AF_INET6 { 16 } else { 4 };
    [0x00, 0x80].map(|first| {
        let mut body = vec![family as u8, 1, 0, 0, RT_TABLE_MAIN, protocol, scope, RTN_UNICAST, 0, 0, 0, 0];
        let mut destination = vec![0; length];
        destination[0] = first;
        body.extend(attribute(RTA_DST, &destination));
        body
    })
}
