//! The interfaces of a network namespace, their addresses, and what changes
//! (`include/uapi/linux/if_link.h`, `if_addr.h`).

use std::io;
use std::net::IpAddr;

use libc::{
    IFA_ADDRESS, IFA_LOCAL, IFLA_IFNAME, IFLA_STATS64, RTM_DELADDR, RTM_DELLINK, RTM_DELROUTE, RTM_GETADDR,
    RTM_GETLINK, RTM_NEWADDR, RTM_NEWLINK, RTM_NEWROUTE,
};

use crate::netlink::{Message, Netlink, SockProtocol, attributes, messages};

/// Bytes of `struct ifinfomsg` and `struct ifaddrmsg`.
const LINK_HEAD: usize = 16;
const ADDRESS_HEAD: usize = 8;
/// Groups of changes: interfaces, addresses of IPv4 and IPv6, routes of both.
const GROUPS: u32 = 0x1 | 0x10 | 0x100 | 0x40 | 0x400;
/// The place of the protocol in `struct rtmsg`.
const PROTOCOL: usize = 5;

/// An interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    /// Its number and name.
    pub index: u32,
    /// Its name.
    pub name: String,
    /// Whether it is up and has a carrier.
    pub works: bool,
    /// Bytes that it has received and sent.
    pub bytes: [u64; 2],
}

/// Returns the interfaces of the network namespace of a socket for routing.
///
/// # Errors
/// The system's error.
pub fn interfaces(netlink: &mut Netlink) -> io::Result<Vec<Interface>> {
    let mut found = Vec::new();
    netlink.dump(RTM_GETLINK, &[0; LINK_HEAD], |message| found.extend(interface(&message)))?;
    Ok(found)
}

/// Returns the addresses of interfaces there, each with the number of its interface.
///
/// # Errors
/// The system's error.
pub fn addresses(netlink: &mut Netlink) -> io::Result<Vec<(IpAddr, u32)>> {
    let mut found = Vec::new();
    netlink.dump(RTM_GETADDR, &[0; ADDRESS_HEAD], |message| found.extend(address(&message)))?;
    Ok(found)
}

/// What changes of interfaces, addresses and routes in a network namespace.
#[derive(Debug)]
pub struct Changes {
    netlink: Netlink,
    /// By which routes of the one who asks are known.
    own: u8,
}

impl Changes {
    /// Listens from now on, in this thread's network namespace. Routes of this protocol do not count.
    ///
    /// # Errors
    /// The system's error.
    pub fn open(own: u8) -> io::Result<Changes> {
        Ok(Changes { netlink: Netlink::open_for(SockProtocol::NetlinkRoute, GROUPS)?, own })
    }

    /// Waits until something has changed since the last time.
    ///
    /// # Errors
    /// The system's error.
    pub fn wait(&mut self) -> io::Result<()> {
        let own = self.own;
        let counts = |datagram: &[u8]| messages(datagram).any(|message| is_change(&message, own));
        // One for which there was no room counts, too.
        let lost = |error: io::Error| {
            if error.raw_os_error() == Some(libc::ENOBUFS) { Ok(true) } else { Err(error) }
        };
        let mut has_changed = false;
        while !has_changed {
            has_changed = self.netlink.receive().map(counts).or_else(lost)?;
        }
        while self.netlink.receive_now().map(|datagram| datagram.is_some()).or_else(lost)? {}
        Ok(())
    }
}

fn is_change(message: &Message<'_>, own: u8) -> bool {
    match message.kind {
        RTM_NEWLINK | RTM_DELLINK | RTM_NEWADDR | RTM_DELADDR => true,
        RTM_NEWROUTE | RTM_DELROUTE => message.body.get(PROTOCOL) != Some(&own),
        _ => false,
    }
}

fn interface(message: &Message<'_>) -> Option<Interface> {
    let head: &[u8; LINK_HEAD] = message.body.first_chunk().filter(|_| message.kind == RTM_NEWLINK)?;
    let [_, _, _, _, a, b, c, d, e, f, g, h, ..] = *head;
    let flags = u32::from_ne_bytes([e, f, g, h]) as i32;
    let of = |kind| attributes(&message.body[LINK_HEAD..]).find(|(found, _)| *found == kind);
    let name = of(IFLA_IFNAME)?.1.split(|byte| *byte == 0).next()?;
    let counter = |place: usize| {
        let bytes = of(IFLA_STATS64)?.1.get(8 * place..)?;
        Some(u64::from_ne_bytes(*bytes.first_chunk()?))
    };
    let needed = libc::IFF_UP | libc::IFF_RUNNING;
    Some(Interface {
        index: u32::from_ne_bytes([a, b, c, d]),
        name: String::from_utf8_lossy(name).into_owned(),
        works: flags & needed == needed,
        bytes: [counter(2).unwrap_or(0), counter(3).unwrap_or(0)],
    })
}

fn address(message: &Message<'_>) -> Option<(IpAddr, u32)> {
    let head: &[u8; ADDRESS_HEAD] = message.body.first_chunk().filter(|_| message.kind == RTM_NEWADDR)?;
    let [_, _, _, _, index @ ..] = *head;
    let of = |kind| attributes(&message.body[ADDRESS_HEAD..]).find(|(found, _)| *found == kind);
    // Between two ends of a link the address is that of the other.
    let (_, bytes) = of(IFA_LOCAL).or_else(|| of(IFA_ADDRESS))?;
    let v4 = <[u8; 4]>::try_from(bytes).map(IpAddr::from);
    let address = v4.or_else(|_| <[u8; 16]>::try_from(bytes).map(IpAddr::from)).ok()?;
    Some((address, u32::from_ne_bytes(index)))
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;
    use crate::netlink::SockProtocol;

    #[test]
    fn what_others_change_counts() {
        let body = |protocol: u8| [2, 1, 0, 0, 254, protocol, 0, 1, 0, 0, 0, 0];
        for (kind, protocol, counts) in [
            (RTM_NEWLINK, 0, true),
            (RTM_DELADDR, 0, true),
            (RTM_NEWROUTE, 4, true),
            (RTM_DELROUTE, 126, false),
            (RTM_NEWROUTE, 126, false),
            (68, 0, false),
        ] {
            let message = Message { kind, flags: 0, sequence: 0, body: &body(protocol) };
            assert_eq!(is_change(&message, 126), counts, "{kind} {protocol}");
        }
    }

    #[test]
    fn the_loopback_interface_is_there_with_its_address() {
        let mut netlink = Netlink::open(SockProtocol::NetlinkRoute).unwrap();
        let found = interfaces(&mut netlink).unwrap();
        let loopback = found.iter().find(|one| one.name == "lo").unwrap();
        assert_eq!(loopback.bytes[0], loopback.bytes[1]);
        if loopback.works {
            let expected = (IpAddr::from(Ipv4Addr::LOCALHOST), loopback.index);
            assert!(addresses(&mut netlink).unwrap().contains(&expected));
        }
    }
}
