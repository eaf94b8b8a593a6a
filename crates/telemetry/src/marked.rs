//! A next hop for packets with a mark: a rule of routing, and a table with a route over
//! it, and one to nowhere.

use std::io;
use std::net::IpAddr;

use libc::{
    RTA_DST, RTA_GATEWAY, RTA_MARK, RTA_OIF, RTA_PRIORITY, RTA_TABLE, RTM_DELROUTE, RTM_DELRULE,
    RTM_GETROUTE, RTM_NEWROUTE, RTM_NEWRULE,
};

use crate::netlink::{
    ACKNOWLEDGE, CREATE_NEW, Netlink, REPLACE, REQUEST, SockProtocol, attribute, attributes, message,
    messages,
};
use crate::preferred::{NextHop, SCOPE_UNIVERSE, UNICAST};
use crate::rule::{is_not_there, is_without_ipv6, marked_rule};

/// Behind the rule for addresses of this host, and before all that somebody is likely to have added.
const PRIORITY: u32 = 2;
/// A route that leads nowhere, and its metric: behind those that lead somewhere.
const UNREACHABLE: u8 = 7;
const LAST: u32 = 1 << 30;
/// The flag of a question for a route that the answer names the table.
const LOOKUP_TABLE: u32 = 0x1000;
/// Destinations for such questions, of which no host has a route: of documentation (RFC 5737, RFC 3849).
const SOMEWHERE: [&[u8]; 2] =
    [&[192, 0, 2, 1], &[0x20, 0x01, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]];

/// Where packets with a mark go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MarkedRoute {
    /// The mark, of which all bits count, and the number of the table: above 255, and used by nothing else.
    pub mark: u32,
    /// The number by which the route tells who made it; above 4, and of no other program
    /// (`/etc/iproute2/rt_protos`).
    pub protocol: u8,
}

impl MarkedRoute {
    /// Sends packets with the mark over the router of `hop`, in this thread's network namespace, in place of
    /// one that was set before. May be called again in case the kernel has removed the route with its
    /// interface; meanwhile they go nowhere, and not where all others go.
    ///
    /// # Errors
    /// The system's error, or that there is no router; packets may go nowhere then.
    pub fn set(&self, hop: &NextHop) -> io::Result<()> {
        let gateway = hop.gateway.ok_or(io::ErrorKind::InvalidInput)?;
        let mut netlink = Netlink::open(SockProtocol::NetlinkRoute)?;
        let family = if gateway.is_ipv6() { libc::AF_INET6 } else { libc::AF_INET };
        let nowhere = self.nowhere(family, SCOPE_UNIVERSE);
        netlink.ask(&message(RTM_NEWROUTE, REQUEST | ACKNOWLEDGE | REPLACE, 1, &nowhere))?;
        let rule = marked_rule(family, PRIORITY, self.mark, self.mark);
        match netlink.ask(&message(RTM_NEWRULE, REQUEST | ACKNOWLEDGE | CREATE_NEW, 2, &rule)) {
            Err(error) if error.raw_os_error() == Some(libc::EEXIST) => {}
            result => result?,
        }
        let mut route = self.route(family, SCOPE_UNIVERSE, UNICAST);
        route.extend(match gateway {
            IpAddr::V4(gateway) => attribute(RTA_GATEWAY, &gateway.octets()),
            IpAddr::V6(gateway) => attribute(RTA_GATEWAY, &gateway.octets()),
        });
        if let Some(interface) = hop.interface {
            route.extend(attribute(RTA_OIF, &interface.to_ne_bytes()));
        }
        netlink.ask(&message(RTM_NEWROUTE, REQUEST | ACKNOWLEDGE | REPLACE, 3, &route))
    }

    /// Whether packets with the mark go anywhere but over the router of `hop`, or nowhere,
    /// whoever has set that.
    ///
    /// # Errors
    /// The system's error, or that there is no router.
    pub fn leads_elsewhere(&self, hop: &NextHop) -> io::Result<bool> {
        let gateway = hop.gateway.ok_or(io::ErrorKind::InvalidInput)?;
        let family = if gateway.is_ipv6() { libc::AF_INET6 } else { libc::AF_INET };
        let somewhere = SOMEWHERE[usize::from(gateway.is_ipv6())];
        let mut body = vec![family as u8, 8 * somewhere.len() as u8, 0, 0, 0, 0, 0, 0];
        body.extend(LOOKUP_TABLE.to_ne_bytes());
        body.extend(attribute(RTA_DST, somewhere));
        body.extend(attribute(RTA_MARK, &self.mark.to_ne_bytes()));
        let mut netlink = Netlink::open(SockProtocol::NetlinkRoute)?;
        netlink.send(&message(RTM_GETROUTE, REQUEST, 4, &body))?;
        let answer = netlink.receive()?;
        let Some(found) = messages(answer).next().filter(|found| found.kind == RTM_NEWROUTE) else {
            return Ok(false);
        };
        let gateway = match gateway {
            IpAddr::V4(gateway) => gateway.octets().to_vec(),
            IpAddr::V6(gateway) => gateway.octets().to_vec(),
        };
        let has = |kind, value: &[u8]| {
            attributes(found.body.get(12..).unwrap_or_default()).any(|found| found == (kind, value))
        };
        Ok(!has(RTA_TABLE, &self.mark.to_ne_bytes()) || !has(RTA_GATEWAY, &gateway))
    }

    /// Removes what is there of it; returns whether anything was.
    ///
    /// # Errors
    /// The system's error.
    pub fn remove(&self) -> io::Result<bool> {
        let mut netlink = Netlink::open(SockProtocol::NetlinkRoute)?;
        let mut was_there = false;
        for family in [libc::AF_INET, libc::AF_INET6] {
            let rule = marked_rule(family, PRIORITY, self.mark, self.mark);
            let routes = [self.route(family, u8::MAX, UNICAST), self.nowhere(family, u8::MAX)];
            // The rule first, so that none leads to an empty table. Of a scope that stands for all.
            let routes = routes.map(|route| (RTM_DELROUTE, route));
            for (kind, body) in [(RTM_DELRULE, rule)].into_iter().chain(routes) {
                match netlink.ask(&message(kind, REQUEST | ACKNOWLEDGE, 3, &body)) {
                    Ok(()) => was_there = true,
                    Err(error) if is_not_there(&error) || is_without_ipv6(&error) => {}
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(was_there)
    }

    /// Returns a message about the route for packets that have no other: they go nowhere.
    fn nowhere(&self, family: i32, scope: u8) -> Vec<u8> {
        let mut body = self.route(family, scope, UNREACHABLE);
        body.extend(attribute(RTA_PRIORITY, &LAST.to_ne_bytes()));
        body
    }

    /// Returns the beginning of messages about a route of this kind: `struct rtmsg`, in which tables above
    /// 255 are 0, and the table.
    fn route(&self, family: i32, scope: u8, kind: u8) -> Vec<u8> {
        let mut body = vec![family as u8, 0, 0, 0, 0, self.protocol, scope, kind, 0, 0, 0, 0];
        body.extend(attribute(RTA_TABLE, &self.mark.to_ne_bytes()));
        body
    }
}
