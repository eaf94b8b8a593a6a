//! What stands before the IP header of a packet: link layers, tags, labels and tunnels.

use std::fmt;

use crate::{Link, Packet, wireless};

/// EtherTypes, most of them from IANA's registry; the numbers of PPP for the same protocols follow.
const IPV4: u16 = 0x0800;
const IPV6: u16 = 0x86dd;
/// Tag protocol identifiers of VLANs: 802.1Q, 802.1ad, and older numbers of stacked tags.
const VLAN: [u16; 5] = [0x8100, 0x88a8, 0x9100, 0x9200, 0x9300];
/// Tags of ports behind a switch (Cisco's VN-Tag, 802.1BR), with their lengths.
const PORT_TAGS: [(u16, usize); 2] = [(0x8926, 4), (0x893f, 6)];
/// The tag of a service in provider backbones (802.1ah); an Ethernet frame follows.
const SERVICE_TAG: u16 = 0x88e7;
const MPLS: [u16; 2] = [0x8847, 0x8848];
const PPPOE_SESSION: u16 = 0x8864;
/// An Ethernet frame within GRE or Geneve.
const ETHERNET: u16 = 0x6558;
/// PPP within GRE, as PPTP uses it.
const PPP: u16 = 0x880b;
/// Mirrored frames within GRE (ERSPAN types I and II, and III).
const ERSPAN: [u16; 2] = [0x88be, 0x22eb];
/// A packet that a router redirects within GRE (WCCP), and an Ethernet frame within GRE of
/// another form (EoIP).
const REDIRECTED: u16 = 0x883e;
const EOIP: u16 = 0x6400;
/// EtherTypes begin here; smaller numbers are lengths of 802.3 frames.
const LEAST_TYPE: u16 = 0x0600;
/// Linux's number for 802.2 frames, which have no EtherType.
const LLC: u16 = 4;
/// Where the EtherType of an Ethernet header is, behind two addresses.
const ETHERNET_TYPE: usize = 12;
/// Most headers before TCP that are passed, so that forged packets cost little.
const MAX_HEADERS: usize = 32;

/// What the capturing host says about a packet in a Linux cooked capture: for this host, or sent by it. The
/// others are for all or for another host.
const FOR_US: u16 = 0;
const SENT: u16 = 4;

/// A protocol that is not read, by its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Unread {
    /// A link layer, by its LINKTYPE number.
    Link(u16),
    /// An EtherType; 4 stands for 802.2 frames, which have none.
    EtherType(u16),
    /// A protocol within PPP.
    Ppp(u16),
    /// An address family.
    Family(u16),
    /// A protocol within IP, by its number.
    Protocol(u8),
    /// An EtherType within a tunnel.
    Tunnelled(u16),
    /// Frames of 802.11 of which no packet can be read, and why.
    Wireless(&'static str),
}

impl fmt::Display for Unread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unread::Link(number) => write!(f, "link type {number}"),
            Unread::EtherType(LLC) => f.write_str("802.2"),
            Unread::EtherType(0x0806) => f.write_str("EtherType 0x0806, ARP"),
            Unread::EtherType(number) => write!(f, "EtherType 0x{number:04x}"),
            Unread::Ppp(number) => write!(f, "PPP protocol 0x{number:04x}"),
            Unread::Family(number) => write!(f, "address family {number}"),
            Unread::Tunnelled(number) => write!(f, "{} in a tunnel", Unread::EtherType(*number)),
            Unread::Protocol(50) => f.write_str("IP protocol 50, ESP"),
            Unread::Protocol(number) => write!(f, "IP protocol {number}"),
            Unread::Wireless(what) => write!(f, "802.11, {what}"),
        }
    }
}

/// Why no IP header was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// A protocol that is not read.
    Unread(Unread),
    /// The capture kept less than the headers before it.
    Snapped,
}

/// A header that leads to an IP header, and where it begins.
#[derive(Clone, Copy, Debug)]
enum Header {
    Ethernet(usize),
    /// The two bytes of an EtherType.
    Type(usize),
    Llc(usize),
    Ppp(usize),
    PppoE(usize),
    Mpls(usize),
    Ip(usize),
}

pub(crate) fn half(data: &[u8], at: usize) -> Result<u16, Stop> {
    let bytes = data.get(at..at + 2).ok_or(Stop::Snapped)?;
    Ok(u16::from_be_bytes([bytes[0], bytes[1]]))
}

pub(crate) fn byte(data: &[u8], at: usize) -> Result<u8, Stop> {
    data.get(at).copied().ok_or(Stop::Snapped)
}

/// Returns where the outermost IP header of a packet starts, and whether the packet is outgoing, if
/// its link layer tells.
///
/// # Errors
/// [`Stop`] if there is none, or it cannot be found.
pub fn network(packet: &Packet<'_>) -> Result<(usize, Option<bool>), Stop> {
    let data = packet.data;
    let heading = |kind: u16| match kind {
        SENT => Some(true),
        FOR_US => Some(false),
        _ => None,
    };
    let (header, outgoing) = match packet.link {
        // Nearly every packet.
        Link::Ethernet if half(data, ETHERNET_TYPE)? == IPV4 => return Ok((ETHERNET_TYPE + 2, None)),
        Link::Ethernet => (Header::Type(ETHERNET_TYPE), None),
        Link::Raw => return Ok((0, None)),
        Link::Cooked => (Header::Type(14), heading(half(data, 0)?)),
        // The protocol comes first here; what it is follows the header.
        Link::Cooked2 => (typed(half(data, 0)?, 20)?, heading(byte(data, 10)?.into())),
        Link::Loopback => return Ok((family(data, 4)?, None)),
        Link::Ppp if matches!(byte(data, 0)?, 0x0f | 0x8f) => (Header::Type(2), None),
        Link::Ppp => (Header::Ppp(0), None),
        Link::CiscoHdlc => (Header::Type(2), None),
        // The direction takes the place of the address; the control field may follow.
        Link::PppDirected => {
            let control = usize::from(byte(data, 1)? == 3);
            (Header::Ppp(1 + control), Some(byte(data, 0)? != 0))
        }
        Link::PppoE => (Header::PppoE(0), None),
        Link::Netfilter => (netfilter(data)?, None),
        Link::Wireless => (Header::Llc(wireless::data(data, 0, false)?), None),
        Link::Radiotap => {
            let (at, padded) = wireless::radiotap(data)?;
            (Header::Llc(wireless::data(data, at, padded)?), None)
        }
        Link::Ppi => return ppi(packet),
        Link::Other(number) => return Err(Stop::Unread(Unread::Link(number))),
    };
    Ok((follow(data, header)?, outgoing))
}

/// Returns the length in bytes of a packet from its outermost IP header on, without what its link
/// layer puts behind it.
///
/// # Errors
/// [`Stop`] if there is no such header, or it cannot be found.
pub fn ip_length(packet: &Packet<'_>) -> Result<u32, Stop> {
    /// Length of an IPv6 header.
    const FIXED: u32 = 40;
    let (start, _) = network(packet)?;
    let length = match byte(packet.data, start)? >> 4 {
        6 => match half(packet.data, start + 4)? {
            0 => 0,
            payload => FIXED + u32::from(payload),
        },
        _ => half(packet.data, start + 2)?.into(),
    };
    // Packets captured before segmentation may have none.
    Ok(if length > 0 { length } else { packet.length.saturating_sub(start as u32) })
}

/// Passes headers until one of IP.
fn follow(data: &[u8], mut header: Header) -> Result<usize, Stop> {
    for _ in 0..MAX_HEADERS {
        header = match header {
            Header::Ip(at) => return Ok(at),
            Header::Type(at) => typed(half(data, at)?, at + 2)?,
            Header::Ethernet(at) => Header::Type(at + ETHERNET_TYPE),
            Header::Llc(at) => llc(data, at)?,
            Header::PppoE(at) => pppoe(data, at)?,
            Header::Ppp(at) => ppp(data, at)?,
            Header::Mpls(at) => mpls(data, at)?,
        };
    }
    Err(Stop::Snapped)
}

/// Returns the header with an EtherType, which begins at `at`.
fn typed(number: u16, at: usize) -> Result<Header, Stop> {
    Ok(match number {
        IPV4 | IPV6 => Header::Ip(at),
        PPPOE_SESSION => Header::PppoE(at),
        ETHERNET => Header::Ethernet(at),
        SERVICE_TAG => Header::Ethernet(at + 4),
        PPP => Header::Ppp(at),
        number if VLAN.contains(&number) => Header::Type(at + 2),
        number if MPLS.contains(&number) => Header::Mpls(at),
        number if number < LEAST_TYPE => Header::Llc(at),
        number => match PORT_TAGS.iter().find(|(tag, _)| *tag == number) {
            Some((_, length)) => Header::Type(at + length),
            None => return Err(Stop::Unread(Unread::EtherType(number))),
        },
    })
}

/// 802.2: with a SNAP header an EtherType follows.
fn llc(data: &[u8], at: usize) -> Result<Header, Stop> {
    if data.get(at..at + 3).ok_or(Stop::Snapped)? == [0xaa, 0xaa, 3] {
        return Ok(Header::Type(at + 6));
    }
    Err(Stop::Unread(Unread::EtherType(LLC)))
}

/// PPPoE (RFC 2516): version and type 1, code 0 for data.
fn pppoe(data: &[u8], at: usize) -> Result<Header, Stop> {
    if half(data, at)? == 0x1100 {
        return Ok(Header::Ppp(at + 6));
    }
    Err(Stop::Unread(Unread::EtherType(PPPOE_SESSION)))
}

/// PPP (RFC 1661): address and control may be left out, and the first byte of the protocol, if it is zero.
fn ppp(data: &[u8], at: usize) -> Result<Header, Stop> {
    let at = if half(data, at)? == 0xff03 { at + 2 } else { at };
    let (number, next) = match byte(data, at)? {
        odd if odd & 1 == 1 => (u16::from(odd), at + 1),
        _ => (half(data, at)?, at + 2),
    };
    match number {
        0x0021 | 0x0057 => Ok(Header::Ip(next)),
        0x0281 | 0x0283 => Ok(Header::Mpls(next)),
        number => Err(Stop::Unread(Unread::Ppp(number))),
    }
}

/// A label of MPLS (RFC 3032). Nothing says what follows the last one: its first four bits are a version of
/// IP, or zero in the control word of a pseudowire (RFC 4385); else an Ethernet frame without one is likely.
fn mpls(data: &[u8], at: usize) -> Result<Header, Stop> {
    let next = at + 4;
    if byte(data, at + 2)? & 1 == 0 {
        return Ok(Header::Mpls(next));
    }
    Ok(match byte(data, next)? {
        0x45..=0x4f | 0x60..=0x6f => Header::Ip(next),
        0x00..=0x0f => Header::Ethernet(next + 4),
        _ => Header::Ethernet(next),
    })
}

/// Returns where the IP header behind an address family of four bytes starts.
fn family(data: &[u8], header: usize) -> Result<usize, Stop> {
    let family = u32::from_le_bytes(*data.first_chunk().ok_or(Stop::Snapped)?);
    match family.min(family.swap_bytes()) {
        // AF_INET, and AF_INET6 of Linux, NetBSD, FreeBSD and macOS.
        2 | 10 | 24 | 28 | 30 => Ok(header),
        other => Err(Stop::Unread(Unread::Family(other as u16))),
    }
}

/// Per-packet information (PPI): its length and the link layer behind it, in little-endian order.
fn ppi(packet: &Packet<'_>) -> Result<(usize, Option<bool>), Stop> {
    let number = half(packet.data, 4)?.swap_bytes();
    let at = usize::from(half(packet.data, 2)?.swap_bytes());
    let link = match Link::from_number(number) {
        Link::Ppi => return Err(Stop::Unread(Unread::Link(number))),
        link => link,
    };
    let inner = Packet { data: packet.data.get(at..).ok_or(Stop::Snapped)?, link, ..*packet };
    network(&inner).map(|(start, outgoing)| (at + start, outgoing))
}

/// The log of Netfilter: family, version and group, then attributes, of which one is the packet, and one
/// before it tells the EtherType, which families other than those of IP need.
fn netfilter(data: &[u8]) -> Result<Header, Stop> {
    const ABOUT: u16 = 1;
    const PAYLOAD: u16 = 9;
    let family = byte(data, 0)?;
    let (mut at, mut kind_of_payload) = (4, None);
    for _ in 0..MAX_HEADERS {
        // In the byte order of the capturing host; attribute numbers are small.
        let [length, kind] = [half(data, at)?, half(data, at + 2)?];
        let big_endian = kind < kind.swap_bytes();
        let [length, kind] = if big_endian { [length, kind] } else { [length, kind].map(u16::swap_bytes) };
        match (kind, family, kind_of_payload) {
            (PAYLOAD, 2 | 10, _) => return Ok(Header::Ip(at + 4)),
            (PAYLOAD, _, Some(number)) => return typed(number, at + 4),
            (PAYLOAD, other, None) => return Err(Stop::Unread(Unread::Family(other.into()))),
            (ABOUT, ..) => kind_of_payload = Some(half(data, at + 4)?),
            _ => {}
        }
        at += usize::from(length).max(4).next_multiple_of(4);
    }
    Err(Stop::Snapped)
}

/// Returns where the IP header of the packet inside another one starts, whose IP `protocol` begins at `at`;
/// `None` if there is none.
pub fn inside(data: &[u8], protocol: u8, at: usize) -> Option<Result<usize, Stop>> {
    const IPIP: u8 = 4;
    const UDP: u8 = 17;
    const IPV6_IN_IP: u8 = 41;
    const GRE: u8 = 47;
    const ETHERIP: u8 = 97;
    const L2TP: u8 = 115;
    const MPLS_IN_IP: u8 = 137;
    let header = match protocol {
        IPIP | IPV6_IN_IP => Ok(Some(Header::Ip(at))),
        GRE => gre(data, at),
        ETHERIP => Ok(Some(Header::Ethernet(at + 2))),
        MPLS_IN_IP => Ok(Some(Header::Mpls(at))),
        L2TP => session(data, at),
        UDP => udp(data, at),
        _ => return None,
    };
    header.and_then(|header| header.map(|header| follow(data, header)).transpose()).transpose()
}

/// GRE (RFC 2784, 2890): optional checksum, key and sequence number; version 1 carries PPP (RFC 2637).
fn gre(data: &[u8], at: usize) -> Result<Option<Header>, Stop> {
    const CHECKSUM: u16 = 0x8000;
    const ROUTING: u16 = 0x4000;
    const KEY: u16 = 0x2000;
    const SEQUENCE: u16 = 0x1000;
    const ACKNOWLEDGEMENT: u16 = 0x0080;
    let [flags, number] = [half(data, at)?, half(data, at + 2)?];
    let optional = |fields: &[u16]| 4 * fields.iter().filter(|field| flags & **field != 0).count();
    let next = match flags & 7 {
        // The key is the frame's length and a number; the sequence bit is not set.
        1 if number == EOIP => return Ok(Some(Header::Ethernet(at + 8))),
        0 if flags & ROUTING == 0 => at + 4 + optional(&[CHECKSUM, KEY, SEQUENCE]),
        1 if flags & SEQUENCE != 0 => at + 4 + optional(&[KEY, SEQUENCE, ACKNOWLEDGEMENT]),
        _ => return Ok(None),
    };
    if number == REDIRECTED {
        // A header of four bytes may come first.
        let direct = matches!(byte(data, next)? >> 4, 4);
        return Ok(Some(Header::Ip(if direct { next } else { next + 4 })));
    }
    Ok(Some(match ERSPAN.iter().position(|mirrored| *mirrored == number) {
        // Type I has no header of its own, and no sequence number.
        Some(0) => Header::Ethernet(next + if flags & SEQUENCE != 0 { 8 } else { 0 }),
        Some(_) => Header::Ethernet(next + if byte(data, next + 11)? & 1 != 0 { 20 } else { 12 }),
        None => typed(number, next)?,
    }))
}

/// L2TP over UDP (RFC 2661, RFC 3931): data of version 2 is PPP, behind fields that flags announce.
fn l2tp(data: &[u8], at: usize) -> Result<Option<Header>, Stop> {
    const CONTROL: u16 = 0x8000;
    const LENGTH: u16 = 0x4000;
    const SEQUENCE: u16 = 0x0800;
    const OFFSET: u16 = 0x0200;
    let flags = half(data, at)?;
    let has = |flag: u16| usize::from(flags & flag != 0);
    let next = at + 6 + 2 * has(LENGTH) + 4 * has(SEQUENCE);
    match flags & (CONTROL | 0xf) {
        2 if flags & OFFSET != 0 => Ok(Some(Header::Ppp(next + 2 + usize::from(half(data, next)?)))),
        2 => Ok(Some(Header::Ppp(next))),
        3 => session(data, at + 4),
        _ => Ok(None),
    }
}

/// The data of a session of L2TP version 3, which only the two ends know how to read: a cookie of up to eight
/// bytes, perhaps a header of four, and a frame of Ethernet or PPP. What fits is taken.
fn session(data: &[u8], at: usize) -> Result<Option<Header>, Stop> {
    // Session 0 is for control messages.
    if half(data, at)? == 0 && half(data, at + 2)? == 0 {
        return Ok(None);
    }
    let is_ip = |number: u16, at: usize| match number {
        IPV4 => byte(data, at).is_ok_and(|first| first >> 4 == 4),
        IPV6 => byte(data, at).is_ok_and(|first| first >> 4 == 6),
        other => VLAN.contains(&other) || other == PPPOE_SESSION,
    };
    for next in (4..=16).step_by(4).map(|skipped| at + skipped) {
        let kind = next + ETHERNET_TYPE;
        if is_ip(half(data, kind)?, kind + 2) {
            return Ok(Some(Header::Ethernet(next)));
        }
        if half(data, next)? == 0xff03 {
            return Ok(Some(Header::Ppp(next)));
        }
    }
    Ok(None)
}

/// Tunnels over UDP, by the port that they go to, and L2TP by either.
fn udp(data: &[u8], at: usize) -> Result<Option<Header>, Stop> {
    const L2TP: u16 = 1_701;
    let port = half(data, at + 2)?;
    let next = at + 8;
    if half(data, at)? == L2TP {
        return l2tp(data, next);
    }
    Ok(match port {
        L2TP => l2tp(data, next)?,
        // VXLAN (RFC 7348), and the port that Linux used before there was a number: bit 3 says that
        // there is an identifier.
        4_789 | 8_472 if byte(data, next)? & 8 != 0 => Some(Header::Ethernet(next + 8)),
        // VXLAN with a next protocol: IPv4, IPv6 or Ethernet.
        4_790 => match byte(data, next + 3)? {
            1 | 2 => Some(Header::Ip(next + 8)),
            3 => Some(Header::Ethernet(next + 8)),
            _ => None,
        },
        // Geneve (RFC 8926), version 0: the length of options in words, and an EtherType.
        6_081 if byte(data, next)? >> 6 == 0 => {
            let options = 4 * usize::from(byte(data, next)? & 0x3f);
            Some(typed(half(data, next + 2)?, next + 8 + options)?)
        }
        // MPLS (RFC 7510).
        6_635 => Some(Header::Mpls(next)),
        2_152 => gtp(data, next)?.map(Header::Ip),
        _ => None,
    })
}

/// The user plane of mobile networks (GTP, 3GPP TS 29.281): version 1, message type 255, optional
/// fields and extensions.
fn gtp(data: &[u8], at: usize) -> Result<Option<usize>, Stop> {
    let flags = byte(data, at)?;
    if flags >> 4 != 3 || byte(data, at + 1)? != 255 {
        return Ok(None);
    }
    if flags & 7 == 0 {
        return Ok(Some(at + 8));
    }
    let mut next = at + 12;
    let mut extension = if flags & 4 != 0 { byte(data, at + 11)? } else { 0 };
    for _ in 0..MAX_HEADERS {
        if extension == 0 {
            return Ok(Some(next));
        }
        next += 4 * usize::from(byte(data, next)?).max(1);
        extension = byte(data, next - 1)?;
    }
    Ok(None)
}
