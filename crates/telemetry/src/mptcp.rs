//! Endpoints of Multipath TCP, from which the kernel's path manager opens subflows (RFC 8684,
//! `include/uapi/linux/mptcp_pm.h`).

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::netlink::{Netlink, SockProtocol, attribute, attributes, family};

/// The kind of messages about families of messages, and how one is asked for
/// (`include/uapi/linux/genetlink.h`).
const CONTROL: u16 = 16;
const GET_FAMILY: u8 = 3;
const FAMILY_ID: u16 = 1;
const FAMILY_NAME: u16 = 2;
/// Bytes of `struct genlmsghdr`.
const HEAD: usize = 4;

const ADD: u8 = 1;
const REMOVE: u8 = 2;
const GET: u8 = 3;
const SET_LIMITS: u8 = 5;
const GET_LIMITS: u8 = 6;
const SET_FLAGS: u8 = 7;
/// Attributes of messages, and those of an endpoint in the first.
const ENDPOINT: u16 = 1;
const SUBFLOWS: u16 = 3;
const FAMILY: u16 = 1;
const ID: u16 = 2;
const V4: u16 = 3;
const V6: u16 = 4;
const FLAGS: u16 = 6;
const INTERFACE: u16 = 7;
const NESTED: u16 = 0x8000;
const SUBFLOW: u32 = 2;
const BACKUP: u32 = 4;

/// The most endpoints of a network namespace, and the largest limit of subflows (`MPTCP_PM_ADDR_MAX`).
pub const MOST: u8 = 8;

/// An address from which connections of this host have a subflow each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// Its number, which no other one has; not 0.
    pub id: u8,
    /// The address.
    pub address: IpAddr,
    /// The number of the interface over which its packets leave; 0 where routes say that.
    pub interface: u32,
    /// Whether its subflows carry data only while no other one can.
    pub is_backup: bool,
}

/// The path manager of this thread's network namespace.
#[derive(Debug)]
pub struct PathManager {
    netlink: Netlink,
    /// The kind of its messages.
    kind: u16,
}

impl PathManager {
    /// Opens it; changes need CAP_NET_ADMIN.
    ///
    /// # Errors
    /// The system's error; `NotFound` where the kernel has no Multipath TCP.
    pub fn open() -> io::Result<PathManager> {
        let mut netlink = Netlink::open(SockProtocol::NetlinkGeneric)?;
        let body = [&[GET_FAMILY, 1, 0, 0][..], &attribute(FAMILY_NAME, b"mptcp_pm\0")].concat();
        let found = netlink.answer((CONTROL, &body), CONTROL)?;
        let rest = found.and_then(|found| found.body.get(HEAD..)).ok_or(io::ErrorKind::NotFound)?;
        let id = attributes(rest).find(|(kind, _)| *kind == FAMILY_ID);
        let id = id.and_then(|(_, value)| value.first_chunk()).ok_or(io::ErrorKind::NotFound)?;
        let kind = u16::from_ne_bytes(*id);
        Ok(PathManager { netlink, kind })
    }

    /// Returns all endpoints from which subflows are opened, whoever has made them.
    ///
    /// # Errors
    /// The system's error.
    pub fn endpoints(&mut self) -> io::Result<Vec<Endpoint>> {
        let mut found = Vec::new();
        self.netlink.dump(self.kind, &body(GET, &[]), |message| {
            found.extend(message.body.get(HEAD..).and_then(endpoint));
        })?;
        Ok(found)
    }

    /// Adds an endpoint: connections that are there get a subflow, too.
    ///
    /// # Errors
    /// The system's error; `AlreadyExists` where another one has its number or address.
    pub fn add(&mut self, endpoint: &Endpoint) -> io::Result<()> {
        self.netlink.ask(self.kind, 0, &body(ADD, &nested(endpoint)))
    }

    /// Removes the endpoint of this number with all its subflows; what they have not delivered is sent over
    /// others. A connection without another subflow fails.
    ///
    /// # Errors
    /// The system's error.
    pub fn remove(&mut self, id: u8) -> io::Result<()> {
        let id = attribute(ENDPOINT | NESTED, &attribute(ID, &[id]));
        self.netlink.ask(self.kind, 0, &body(REMOVE, &id))
    }

    /// Has the subflows of an endpoint that is there be backups, or not, as `endpoint` says. What is in
    /// their queues stays there.
    ///
    /// # Errors
    /// The system's error.
    pub fn set_backup(&mut self, endpoint: &Endpoint) -> io::Result<()> {
        self.netlink.ask(self.kind, 0, &body(SET_FLAGS, &nested(endpoint)))
    }

    /// Returns the most subflows of a connection besides its first.
    ///
    /// # Errors
    /// The system's error.
    pub fn limit(&mut self) -> io::Result<u8> {
        let found = self.netlink.answer((self.kind, &body(GET_LIMITS, &[])), self.kind)?;
        let rest = found.and_then(|found| found.body.get(HEAD..)).ok_or(io::ErrorKind::InvalidData)?;
        let limit = attributes(rest).find(|(kind, _)| *kind == SUBFLOWS);
        let limit = limit.and_then(|(_, value)| value.first_chunk()).ok_or(io::ErrorKind::InvalidData)?;
        Ok(u32::from_ne_bytes(*limit).min(MOST.into()) as u8)
    }

    /// Sets it, to [`MOST`] at most.
    ///
    /// # Errors
    /// The system's error.
    pub fn set_limit(&mut self, limit: u8) -> io::Result<()> {
        let limit = attribute(SUBFLOWS, &u32::from(limit).to_ne_bytes());
        self.netlink.ask(self.kind, 0, &body(SET_LIMITS, &limit))
    }
}

/// Returns what follows the head of a message.
fn body(command: u8, rest: &[u8]) -> Vec<u8> {
    [&[command, 1, 0, 0][..], rest].concat()
}

fn nested(endpoint: &Endpoint) -> Vec<u8> {
    let flags = SUBFLOW | if endpoint.is_backup { BACKUP } else { 0 };
    let address = match endpoint.address {
        IpAddr::V4(address) => attribute(V4, &address.octets()),
        IpAddr::V6(address) => attribute(V6, &address.octets()),
    };
    let mut inner = attribute(FAMILY, &(family(endpoint.address) as u16).to_ne_bytes());
    inner.extend(attribute(ID, &[endpoint.id]));
    inner.extend(address);
    inner.extend(attribute(FLAGS, &flags.to_ne_bytes()));
    if endpoint.interface > 0 {
        inner.extend(attribute(INTERFACE, &endpoint.interface.to_ne_bytes()));
    }
    attribute(ENDPOINT | NESTED, &inner)
}

/// Reads an endpoint from which subflows are opened.
fn endpoint(rest: &[u8]) -> Option<Endpoint> {
    let (_, inner) = attributes(rest).find(|(kind, _)| *kind == ENDPOINT)?;
    let word = |value: &[u8]| value.first_chunk().map(|bytes| u32::from_ne_bytes(*bytes));
    let (mut id, mut address, mut flags, mut interface) = (None, None, 0, 0);
    for (kind, value) in attributes(inner) {
        match kind {
            ID => id = value.first().copied(),
            V4 => address = Some(IpAddr::V4(Ipv4Addr::from(*value.first_chunk()?))),
            V6 => address = Some(IpAddr::V6(Ipv6Addr::from(*value.first_chunk::<16>()?))),
            FLAGS => flags = word(value)?,
            INTERFACE => interface = word(value)?,
            _ => {}
        }
    }
    let endpoint = Endpoint { id: id?, address: address?, interface, is_backup: flags & BACKUP != 0 };
    (flags & SUBFLOW != 0).then_some(endpoint)
}
