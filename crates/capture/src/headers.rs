//! The headers of a captured packet, down to TCP.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use etherparse::{
    Ipv4HeaderSlice, Ipv6ExtensionsSlice, Ipv6HeaderSlice, TcpHeaderSlice, TcpOptionElement,
    TcpOptionReadError, TcpOptionsIterator, err, ip_number,
};
use headway_core::estimate::sabes::Flags;

use crate::{Link, Packet};

const IPV4: u16 = 0x0800;
const IPV6: u16 = 0x86dd;
/// Tag protocol identifiers of VLANs: 802.1Q, 802.1ad, and the older number of stacked tags.
const VLAN: [u16; 3] = [0x8100, 0x88a8, 0x9100];
/// Most VLAN tags of a frame that are read.
const MAX_TAGS: usize = 4;
/// Bytes of an Ethernet header's two addresses.
const ETHERNET_ADDRESSES: usize = 12;
/// The packet type of Linux cooked captures that says that this host sent the packet.
const OUTGOING: u16 = 4;

/// Why a packet is not used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Skipped {
    /// Its link layer is not supported.
    ForeignLink,
    /// It is neither IPv4 nor IPv6.
    NotIp,
    /// It is IP but not TCP.
    NotTcp,
    /// It is a fragment of an IP packet.
    Fragment,
    /// The capture kept less of it than its headers.
    Snapped,
    /// Its headers contradict each other or the length of the packet.
    Malformed,
    /// It was captured twice, on two interfaces.
    Copy,
}

impl Skipped {
    /// All reasons.
    pub const ALL: [Skipped; 7] = [
        Skipped::ForeignLink,
        Skipped::NotIp,
        Skipped::NotTcp,
        Skipped::Fragment,
        Skipped::Snapped,
        Skipped::Malformed,
        Skipped::Copy,
    ];

    /// Returns the reason as a name for results, such as `not-tcp`.
    pub const fn name(self) -> &'static str {
        match self {
            Skipped::ForeignLink => "foreign-link",
            Skipped::NotIp => "not-ip",
            Skipped::NotTcp => "not-tcp",
            Skipped::Fragment => "fragment",
            Skipped::Snapped => "snapped",
            Skipped::Malformed => "malformed",
            Skipped::Copy => "copy",
        }
    }
}

/// An end of a TCP connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Endpoint {
    /// Its address.
    pub address: IpAddr,
    /// Its port.
    pub port: u16,
}

/// The properties of a TCP segment that its headers tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tcp {
    /// Who sent it.
    pub source: Endpoint,
    /// Whom it is for.
    pub destination: Endpoint,
    /// The sequence number of its first byte.
    pub sequence: u32,
    /// The acknowledgement number; `None` without the ACK flag.
    pub acknowledgement: Option<u32>,
    /// Bytes of payload, captured or not.
    pub payload: u32,
    /// Bytes of IP and TCP headers, with options and extension headers.
    pub headers: u32,
    /// The window field, not scaled.
    pub window: u16,
    /// The control flags.
    pub flags: Flags,
    /// The shift count of the window scale option.
    pub window_scale: Option<u8>,
    /// The maximum segment size option, bytes.
    pub mss: Option<u16>,
    /// Whether the segment carries SACK blocks.
    pub sack: bool,
    /// The value and the echo of the timestamps option.
    pub timestamps: Option<(u32, u32)>,
    /// Whether the capturing host sent (`true`) or received (`false`) the packet; `None` if the capture does not tell.
    pub outgoing: Option<bool>,
}

/// Reads the headers of a packet. Allocates nothing.
///
/// # Errors
/// [`Skipped`] if the packet is not a TCP segment, or not enough of it is there.
pub fn parse(packet: &Packet<'_>) -> Result<Tcp, Skipped> {
    let (start, outgoing) = network(packet)?;
    let data = packet.data.get(start..).ok_or(Skipped::Snapped)?;
    // The original length counts where the IP header has none, as in packets captured before segmentation.
    let original = (packet.length as usize).saturating_sub(start);
    match data.first().ok_or(Skipped::Snapped)? >> 4 {
        4 => ipv4(data, original, outgoing),
        6 => ipv6(data, original, outgoing),
        _ => Err(Skipped::Malformed),
    }
}

/// Returns where the IP header starts, and whether the packet is outgoing.
fn network(packet: &Packet<'_>) -> Result<(usize, Option<bool>), Skipped> {
    let data = packet.data;
    let half = |at: usize| {
        let bytes = data.get(at..at + 2).ok_or(Skipped::Snapped)?;
        Ok(u16::from_be_bytes([bytes[0], bytes[1]]))
    };
    let header = packet.link.header().ok_or(Skipped::ForeignLink)?;
    match packet.link {
        Link::Ethernet => Ok((tagged(ETHERNET_ADDRESSES, half)?, None)),
        Link::Cooked => Ok((tagged(header - 2, half)?, Some(half(0)? == OUTGOING))),
        Link::Cooked2 => {
            let kind = *data.get(10).ok_or(Skipped::Snapped)?;
            let outgoing = Some(u16::from(kind) == OUTGOING);
            // The protocol comes first here; tags, if any, follow the header.
            match half(0)? {
                IPV4 | IPV6 => Ok((header, outgoing)),
                tag if VLAN.contains(&tag) => Ok((tagged(header + 2, half)?, outgoing)),
                _ => Err(Skipped::NotIp),
            }
        }
        Link::Loopback => {
            let family = data.first_chunk().ok_or(Skipped::Snapped)?;
            let family = u32::from_le_bytes(*family);
            match family.min(family.swap_bytes()) {
                // AF_INET, and AF_INET6 of Linux, NetBSD, FreeBSD and macOS.
                2 | 10 | 24 | 28 | 30 => Ok((header, None)),
                _ => Err(Skipped::NotIp),
            }
        }
        Link::Raw | Link::Other(_) => Ok((header, None)),
    }
}

/// Skips VLAN tags from the protocol number at `at` on; returns where the IP header starts.
fn tagged(at: usize, half: impl Fn(usize) -> Result<u16, Skipped>) -> Result<usize, Skipped> {
    for tags in 0..=MAX_TAGS {
        let at = at + 4 * tags;
        match half(at)? {
            IPV4 | IPV6 => return Ok(at + 2),
            protocol if VLAN.contains(&protocol) => {}
            _ => break,
        }
    }
    Err(Skipped::NotIp)
}

fn ipv4(data: &[u8], original: usize, outgoing: Option<bool>) -> Result<Tcp, Skipped> {
    let header = Ipv4HeaderSlice::from_slice(data).map_err(|error| match error {
        err::ipv4::HeaderSliceError::Len(_) => Skipped::Snapped,
        err::ipv4::HeaderSliceError::Content(_) => Skipped::Malformed,
    })?;
    if header.protocol() != ip_number::TCP {
        return Err(Skipped::NotTcp);
    }
    if header.is_fragmenting_payload() {
        return Err(Skipped::Fragment);
    }
    let length = match usize::from(header.total_len()) {
        0 => original,
        length => length,
    };
    let start = header.slice().len();
    let addresses = [header.source_addr(), header.destination_addr()].map(IpAddr::V4);
    tcp(&data[start..], start, length, addresses, outgoing)
}

fn ipv6(data: &[u8], original: usize, outgoing: Option<bool>) -> Result<Tcp, Skipped> {
    let header = Ipv6HeaderSlice::from_slice(data).map_err(|error| match error {
        err::ipv6::HeaderSliceError::Len(_) => Skipped::Snapped,
        err::ipv6::HeaderSliceError::Content(_) => Skipped::Malformed,
    })?;
    let start = header.slice().len();
    let (extensions, protocol, rest) = Ipv6ExtensionsSlice::from_slice(header.next_header(), &data[start..])
        .map_err(|error| match error {
            err::ipv6_exts::HeaderSliceError::Len(_) => Skipped::Snapped,
            err::ipv6_exts::HeaderSliceError::Content(_) => Skipped::Malformed,
        })?;
    // Later fragments carry any bytes where the next header would be.
    if extensions.is_fragmenting_payload() {
        return Err(Skipped::Fragment);
    }
    if protocol != ip_number::TCP {
        return Err(Skipped::NotTcp);
    }
    let length = match usize::from(header.payload_length()) {
        0 => original,
        length => start + length,
    };
    let addresses = [header.source_addr(), header.destination_addr()].map(IpAddr::V6);
    tcp(rest, data.len() - rest.len(), length, addresses, outgoing)
}

/// Reads the TCP header at the start of `data`, behind `start` bytes of IP headers of a packet of `length` bytes.
fn tcp(
    data: &[u8],
    start: usize,
    length: usize,
    addresses: [IpAddr; 2],
    outgoing: Option<bool>,
) -> Result<Tcp, Skipped> {
    let header = TcpHeaderSlice::from_slice(data).map_err(|error| match error {
        err::tcp::HeaderSliceError::Len(_) => Skipped::Snapped,
        err::tcp::HeaderSliceError::Content(_) => Skipped::Malformed,
    })?;
    let headers = start + header.slice().len();
    let payload = length.checked_sub(headers).ok_or(Skipped::Malformed)?;
    let flags = Flags { syn: header.syn(), fin: header.fin(), rst: header.rst() };
    let [source, destination] = addresses;
    let mut tcp = Tcp {
        source: Endpoint { address: source, port: header.source_port() },
        destination: Endpoint { address: destination, port: header.destination_port() },
        sequence: header.sequence_number(),
        acknowledgement: header.ack().then(|| header.acknowledgment_number()),
        payload: payload as u32,
        headers: headers as u32,
        window: header.window_size(),
        flags,
        window_scale: None,
        mss: None,
        sack: false,
        timestamps: None,
        outgoing,
    };
    options(&header, &mut tcp);
    Ok(tcp)
}

/// Reads the options up to the first that is malformed, as Linux does.
fn options(header: &TcpHeaderSlice<'_>, tcp: &mut Tcp) {
    let mut rest = header.options();
    loop {
        let mut options = TcpOptionsIterator::from_slice(rest);
        match options.next() {
            // Shifts above 14 count as 14 (RFC 7323, 2.3).
            Some(Ok(TcpOptionElement::WindowScale(shift))) if tcp.flags.syn => {
                tcp.window_scale = Some(shift.min(14));
            }
            Some(Ok(TcpOptionElement::MaximumSegmentSize(mss))) if tcp.flags.syn => tcp.mss = Some(mss),
            Some(Ok(TcpOptionElement::SelectiveAcknowledgement(..))) => tcp.sack = true,
            Some(Ok(TcpOptionElement::Timestamp(value, echo))) => tcp.timestamps = Some((value, echo)),
            Some(Ok(_)) => {}
            // The iterator ends at options it does not know; their length says where the next one is.
            Some(Err(TcpOptionReadError::UnknownId(_))) => {
                let Some(length) = rest.get(1).map(|length| usize::from(*length)) else { return };
                match rest.get(length..) {
                    Some(next) if length >= 2 => rest = next,
                    _ => return,
                }
                continue;
            }
            Some(Err(_)) | None => return,
        }
        rest = options.rest();
    }
}

/// Returns the first address of the network that an address belongs to: /24 of IPv4, /56 of IPv6.
pub fn prefix(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V4(address) => IpAddr::V4(Ipv4Addr::from_bits(address.to_bits() & !0xff)),
        IpAddr::V6(address) => IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() >> 72 << 72)),
    }
}
