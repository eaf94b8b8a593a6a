//! The interfaces of a network namespace, their addresses, and what changes (`include/uapi/linux/if_link.h`, `if_addr.h`).

use std::io;
use std::net::IpAddr;

use crate::netlink::{Message, Netlink, attributes};

/// Kinds of messages.
const RTM_NEWLINK: u16 = 16;
const RTM_GETLINK: u16 = 18;
const RTM_NEWADDR: u16 = 20;
const RTM_GETADDR: u16 = 22;
/// Bytes of `struct ifinfomsg` and `struct ifaddrmsg`, and attributes.
const LINK_HEAD: usize = 16;
const ADDRESS_HEAD: usize = 8;
const IFLA_IFNAME: u16 = 3;
const IFLA_STATS64: u16 = 23;
const IFA_ADDRESS: u16 = 1;
const IFA_LOCAL: u16 = 2;

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
