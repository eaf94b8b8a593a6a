//! Link layers of captured packets.

use std::fmt;

/// The link layer whose header a captured packet begins with; the numbers are those of
/// <https://www.tcpdump.org/linktypes.html>.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Link {
    /// Ethernet (1).
    #[default]
    Ethernet,
    /// No header: the packet begins with IPv4 or IPv6 (101, 228, 229; 12 and 14 on some systems).
    Raw,
    /// Linux cooked capture, 16 bytes (113).
    Cooked,
    /// Linux cooked capture version 2, 20 bytes (276).
    Cooked2,
    /// BSD loopback: the address family in four bytes, in the byte order of the capturing host (0) or in
    /// network byte order (108).
    Loopback,
    /// PPP, with or without address and control fields (9, 50).
    Ppp,
    /// PPP behind a byte that says whether it was sent or received (166, 204).
    PppDirected,
    /// PPP over Ethernet, without the Ethernet header (51).
    PppoE,
    /// Cisco HDLC (104).
    CiscoHdlc,
    /// Linux's log of Netfilter (239).
    Netfilter,
    /// 802.11 (105).
    Wireless,
    /// 802.11 behind what its receiver says of the signal (radiotap, 127).
    Radiotap,
    /// Any link layer behind what its receiver says of the packet (PPI, 192).
    Ppi,
    /// Any other link layer.
    Other(u16),
}

impl Link {
    /// Returns the link layer with a LINKTYPE number.
    pub const fn from_number(number: u16) -> Link {
        match number {
            1 => Link::Ethernet,
            12 | 14 | 101 | 228 | 229 => Link::Raw,
            113 => Link::Cooked,
            276 => Link::Cooked2,
            0 | 108 => Link::Loopback,
            9 | 50 => Link::Ppp,
            166 | 204 => Link::PppDirected,
            51 => Link::PppoE,
            104 => Link::CiscoHdlc,
            239 => Link::Netfilter,
            105 => Link::Wireless,
            127 => Link::Radiotap,
            192 => Link::Ppi,
            other => Link::Other(other),
        }
    }

    /// Returns the length of the link layer's header in bytes, without VLAN tags; `None` if it
    /// varies or is not known.
    pub const fn header(self) -> Option<usize> {
        match self {
            Link::Ethernet => Some(14),
            Link::Raw => Some(0),
            Link::Cooked => Some(16),
            Link::Cooked2 => Some(20),
            Link::Loopback => Some(4),
            _ => None,
        }
    }
}

impl fmt::Display for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Link::Ethernet => f.write_str("Ethernet"),
            Link::Raw => f.write_str("IP"),
            Link::Cooked => f.write_str("Linux cooked"),
            Link::Cooked2 => f.write_str("Linux cooked v2"),
            Link::Loopback => f.write_str("loopback"),
            Link::Ppp | Link::PppDirected => f.write_str("PPP"),
            Link::PppoE => f.write_str("PPPoE"),
            Link::CiscoHdlc => f.write_str("Cisco HDLC"),
            Link::Netfilter => f.write_str("Netfilter's log"),
            Link::Wireless | Link::Radiotap | Link::Ppi => f.write_str("802.11"),
            Link::Other(number) => write!(f, "link type {number}"),
        }
    }
}
