//! A next hop for packets with a mark: a rule of routing, and a table with a route over
//! it, and one to nowhere.

use std::io;

use libc::{
    RT_SCOPE_UNIVERSE, RTA_DST, RTA_GATEWAY, RTA_MARK, RTA_OIF, RTA_PRIORITY, RTA_TABLE, RTM_DELROUTE,
    RTM_DELRULE, RTM_GETROUTE, RTM_NEWROUTE, RTM_NEWRULE, RTN_UNICAST, RTN_UNREACHABLE,
};

use crate::netlink::{
    ATTRIBUTE_HEAD, CREATE_NEW, Netlink, REPLACE, SockProtocol, address, attribute, attributes, family,
};
use crate::preferred::NextHop;
use crate::rule::marked_rule;

/// Behind the rule for addresses of this host, and before all that somebody is likely to have added.
const PRIORITY: u32 = 2;
/// Metric of the route that leads nowhere: behind those that lead somewhere.
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
        let family = family(gateway);
        let nowhere = self.nowhere(family, RT_SCOPE_UNIVERSE);
        netlink.ask(RTM_NEWROUTE, REPLACE, &nowhere)?;
        let rule = marked_rule(family, PRIORITY, self.mark, self.mark);
        match netlink.ask(RTM_NEWRULE, CREATE_NEW, &rule) {
            Err(error) if error.raw_os_error() == Some(libc::EEXIST) => {}
            result => result?,
        }
        let mut route = self.route(family, RT_SCOPE_UNIVERSE, RTN_UNICAST);
        route.extend(address(RTA_GATEWAY, gateway));
        if let Some(interface) = hop.interface {
            route.extend(attribute(RTA_OIF, &interface.to_ne_bytes()));
        }
        netlink.ask(RTM_NEWROUTE, REPLACE, &route)
    }

    /// Whether packets with the mark go anywhere but over the router of `hop`, or nowhere,
    /// whoever has set that.
    ///
    /// # Errors
    /// The system's error, or that there is no router.
    pub fn leads_elsewhere(&self, hop: &NextHop) -> io::Result<bool> {
        let gateway = hop.gateway.ok_or(io::ErrorKind::InvalidInput)?;
        let family = family(gateway);
        let somewhere = SOMEWHERE[usize::from(gateway.is_ipv6())];
        let mut body = vec![family as u8, 8 * somewhere.len() as u8, 0, 0, 0, 0, 0, 0];
        body.extend(LOOKUP_TABLE.to_ne_bytes());
        body.extend(attribute(RTA_DST, somewhere));
        body.extend(attribute(RTA_MARK, &self.mark.to_ne_bytes()));
        let mut netlink = Netlink::open(SockProtocol::NetlinkRoute)?;
        let Some(found) = netlink.answer((RTM_GETROUTE, &body), RTM_NEWROUTE)? else {
            return Ok(false);
        };
        let gateway = &address(RTA_GATEWAY, gateway)[ATTRIBUTE_HEAD..];
        let has = |kind, value: &[u8]| {
            attributes(found.body.get(12..).unwrap_or_default()).any(|found| found == (kind, value))
        };
        Ok(!has(RTA_TABLE, &self.mark.to_ne_bytes()) || !has(RTA_GATEWAY, gateway))
    }

    /// Removes what is there of it; returns whether anything was.
    ///
    /// # Errors
    /// The system's error.
    pub fn remove(&self) -> io::Result<bool> {
        let all = [libc::AF_INET, libc::AF_INET6].into_iter().flat_map(|family| {
            let rule = marked_rule(family, PRIORITY, self.mark, self.mark);
            // The rule first, so that none leads to an empty table. Of a scope that stands for all.
            let routes = [self.route(family, u8::MAX, RTN_UNICAST), self.nowhere(family, u8::MAX)];
            [(RTM_DELRULE, rule)].into_iter().chain(routes.map(|route| (RTM_DELROUTE, route)))
        });
        Netlink::open(SockProtocol::NetlinkRoute)?.remove(all)
    }

    /// Returns a message about the route for packets that have no other: they go nowhere.
    fn nowhere(&self, family: i32, scope: u8) -> Vec<u8> {
        let mut body = self.route(family, scope, RTN_UNREACHABLE);
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
