//! Rules of routing, by which packets with a mark are delivered to this host, whatever their destination
//! (`include/uapi/linux/fib_rules.h`).

use std::io;

use libc::{
    RT_SCOPE_HOST, RTA_OIF, RTA_TABLE, RTM_DELROUTE, RTM_DELRULE, RTM_NEWROUTE, RTM_NEWRULE, RTN_LOCAL,
    RTPROT_STATIC,
};

use crate::netlink::{CREATE_NEW, Netlink, SockProtocol, attribute};

/// Attributes and values of `include/uapi/linux/fib_rules.h`.
pub(crate) const FRA_PRIORITY: u16 = 6;
const FRA_FWMARK: u16 = 10;
pub(crate) const FRA_TABLE: u16 = 15;
const FRA_FWMASK: u16 = 16;
/// What a rule does: look a route up in a table.
pub(crate) const TO_TABLE: u8 = 1;
/// Behind the rule for addresses of this host, which has 0, and before all that somebody is
/// likely to have added.
const PRIORITY: u32 = 1;

/// Packets with a mark are delivered to this host: a rule, and a table with one route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LocalDelivery {
    /// The mark; all of its bits count.
    pub mark: u32,
    /// The number of the table, which nothing else may use; above 255.
    pub table: u32,
}

impl LocalDelivery {
    /// Sets it up in this thread's network namespace, for IPv4, and for IPv6 where the host has that.
    ///
    /// # Errors
    /// The system's error, after which nothing is set up.
    pub fn set(&self) -> io::Result<()> {
        let mut netlink = Netlink::open(SockProtocol::NetlinkRoute)?;
        let result = self.set_for(&mut netlink, libc::AF_INET).and_then(|()| {
            match self.set_for(&mut netlink, libc::AF_INET6) {
                Err(error) if is_without_ipv6(&error) => Ok(()),
                result => result,
            }
        });
        if result.is_err() {
            self.remove()?;
        }
        result
    }

    fn set_for(&self, netlink: &mut Netlink, family: i32) -> io::Result<()> {
        let [route, rule] = self.bodies(family)?;
        netlink.ask(RTM_NEWROUTE, CREATE_NEW, &route)?;
        netlink.ask(RTM_NEWRULE, CREATE_NEW, &rule)
    }

    /// Removes what is there of it; returns whether anything was.
    ///
    /// # Errors
    /// The system's error.
    pub fn remove(&self) -> io::Result<bool> {
        let mut all = Vec::new();
        for family in [libc::AF_INET, libc::AF_INET6] {
            let [route, rule] = self.bodies(family)?;
            all.extend([(RTM_DELRULE, rule), (RTM_DELROUTE, route)]);
        }
        Netlink::open(SockProtocol::NetlinkRoute)?.remove(all)
    }

    /// Returns what messages about the route and about the rule say.
    fn bodies(&self, family: i32) -> io::Result<[Vec<u8>; 2]> {
        let loopback = nix::net::if_::if_nametoindex("lo")?;
        // `struct rtmsg` and `struct fib_rule_hdr`, in which tables above 255 are 0.
        let mut route = vec![family as u8, 0, 0, 0, 0, RTPROT_STATIC, RT_SCOPE_HOST, RTN_LOCAL, 0, 0, 0, 0];
        route.extend(attribute(RTA_TABLE, &self.table.to_ne_bytes()));
        route.extend(attribute(RTA_OIF, &loopback.to_ne_bytes()));
        Ok([route, marked_rule(family, PRIORITY, self.mark, self.table)])
    }
}

/// Returns what messages say about a rule by which packets with a mark, of which all bits
/// count, take a table.
pub(crate) fn marked_rule(family: i32, priority: u32, mark: u32, table: u32) -> Vec<u8> {
    let mut rule = vec![family as u8, 0, 0, 0, 0, 0, 0, TO_TABLE, 0, 0, 0, 0];
    let mark = [(FRA_FWMARK, mark), (FRA_FWMASK, u32::MAX)];
    for (kind, value) in [(FRA_PRIORITY, priority), (FRA_TABLE, table)].into_iter().chain(mark) {
        rule.extend(attribute(kind, &value.to_ne_bytes()));
    }
    rule
}

/// No rule, no route, or no such table.
pub(crate) fn is_not_there(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ENOENT | libc::ESRCH))
}

/// A host without IPv6, or whose loopback interface has none.
pub(crate) fn is_without_ipv6(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EAFNOSUPPORT | libc::EOPNOTSUPP | libc::EACCES | libc::ENODEV))
}
