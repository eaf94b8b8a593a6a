//! A next hop for all destinations that no more specific route has, beside the default route, which stays
//! (`include/uapi/linux/rtnetlink.h`).
//!
//! Two routes cover the two halves of all addresses: each is more specific than the default route and less than any other. So that
//! need not be replaced, and holds again when the two are removed, or when the kernel removes them with their interface.

use std::io;
use std::net::IpAddr;

use crate::netlink::{ACKNOWLEDGE, Netlink, REPLACE, REQUEST, SockProtocol, attribute, message};
use crate::route::{RTA_DST, RTA_GATEWAY, RTA_OIF, RTA_PRIORITY, RTM_NEWROUTE};
use crate::rule::{RTM_DELROUTE, is_not_there, is_without_ipv6};

const MAIN: u8 = 254;
pub(crate) const UNICAST: u8 = 1;
/// Where packets go that are for a next hop, and for hosts on the link.
pub(crate) const SCOPE_UNIVERSE: u8 = 0;
const SCOPE_LINK: u8 = 253;
/// Of scope, for a route that is to be removed: any.
const SCOPE_NOWHERE: u8 = 255;

/// The way to all destinations without a more specific route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NextHop {
    /// The router; without one, hosts are taken to be on the link of the interface.
    pub gateway: Option<IpAddr>,
    /// The number of the interface; without one, the kernel finds that of the router.
    pub interface: Option<u32>,
}

impl NextHop {
    /// Whether it is for IPv6. Without a router it is for IPv4.
    fn is_v6(&self) -> bool {
        self.gateway.is_some_and(|gateway| gateway.is_ipv6())
    }
}

/// Who makes such routes, by which they are told from those of others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Preferred {
    /// The number by which routes tell who made them; above 4, and of nobody else (`/etc/iproute2/rt_protos`).
    pub protocol: u8,
    /// Of routes to the same half the one with the lowest number counts.
    pub metric: u32,
}

impl Preferred {
    /// Has new packets take this next hop, in this thread's network namespace, in place of one that was set before.
    ///
    /// # Errors
    /// The system's error.
    pub fn set(&self, hop: &NextHop) -> io::Result<()> {
        let mut netlink = Netlink::open(SockProtocol::NetlinkRoute)?;
        let mut rest = attribute(RTA_PRIORITY, &self.metric.to_ne_bytes());
        match hop.gateway {
            Some(IpAddr::V4(gateway)) => rest.extend(attribute(RTA_GATEWAY, &gateway.octets())),
            Some(IpAddr::V6(gateway)) => rest.extend(attribute(RTA_GATEWAY, &gateway.octets())),
            None => {}
        }
        if let Some(interface) = hop.interface {
            rest.extend(attribute(RTA_OIF, &interface.to_ne_bytes()));
        }
        let scope = if hop.gateway.is_some() { SCOPE_UNIVERSE } else { SCOPE_LINK };
        for half in halves(hop.is_v6(), self.protocol, scope) {
            let body = [&half[..], &rest[..]].concat();
            netlink.ask(&message(RTM_NEWROUTE, REQUEST | ACKNOWLEDGE | REPLACE, 1, &body))?;
        }
        Ok(())
    }

    /// Removes what is there of it; returns whether anything was.
    ///
    /// # Errors
    /// The system's error.
    pub fn remove(&self) -> io::Result<bool> {
        let mut netlink = Netlink::open(SockProtocol::NetlinkRoute)?;
        let metric = attribute(RTA_PRIORITY, &self.metric.to_ne_bytes());
        let mut was_there = false;
        for is_v6 in [false, true] {
            for half in halves(is_v6, self.protocol, SCOPE_NOWHERE) {
                let body = [&half[..], &metric[..]].concat();
                match netlink.ask(&message(RTM_DELROUTE, REQUEST | ACKNOWLEDGE, 2, &body)) {
                    Ok(()) => was_there = true,
                    Err(error) if is_not_there(&error) || is_without_ipv6(&error) => {}
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(was_there)
    }
}

/// Returns the beginnings of messages about both halves: `struct rtmsg`, and the destination.
fn halves(is_v6: bool, protocol: u8, scope: u8) -> [Vec<u8>; 2] {
    let (family, length) = if is_v6 { (libc::AF_INET6, 16) } else { (libc::AF_INET, 4) };
    [0x00, 0x80].map(|first| {
        let mut body = vec![family as u8, 1, 0, 0, MAIN, protocol, scope, UNICAST, 0, 0, 0, 0];
        let mut destination = vec![0; length];
        destination[0] = first;
        body.extend(attribute(RTA_DST, &destination));
        body
    })
}
