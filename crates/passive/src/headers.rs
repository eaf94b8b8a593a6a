//! The headers of a captured packet, down to TCP.

use std::net::IpAddr;

use etherparse::{
    Ipv4HeaderSlice, Ipv6ExtensionsSlice, Ipv6HeaderSlice, TcpOptionElement, TcpOptionReadError,
    TcpOptionsIterator, err, ip_number,
};
use headway_estimate::sabes::{Flags, Segment, Way};
use headway_units::{Instant, Prefix};

use headway_capture::Packet;
use headway_capture::layers::{self, Stop, Unread};

/// Most packets within packets that are opened.
const MAX_TUNNELS: usize = 8;
/// The bytes of a TCP header up to its window; of the rest, only options matter.
const LEAST_TCP: usize = 16;
/// IP protocols that carry no TCP: ICMP, IGMP, UDP, ICMPv6, OSPF, PIM and SCTP, and those of
/// tunnels, which are read.
const KNOWN: [u8; 13] = [1, 2, 4, 17, 41, 47, 58, 89, 97, 103, 115, 132, 137];
/// EtherTypes that carry no IP: 802.2 without SNAP, ARP and LLDP.
const NO_IP: [u16; 3] = [4, 0x0806, 0x88cc];
/// A header that only says who sent the packet (RFC 4302).
const AUTHENTICATION: u8 = 51;
/// Length of a TCP header without options.
const FIXED_TCP: usize = 20;

/// Why a packet is not used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::IntoStaticStr)]
#[strum(serialize_all = "kebab-case")]
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
    /// It was captured several times.
    Copy,
    /// Its time stamp is wrong: the packets before and after it contradict it.
    WrongStamp,
    /// The file's record of it makes no sense, or has no time stamp.
    OddRecord,
    /// It does not pass the user's filter.
    Filtered,
}

impl Skipped {
    /// All reasons.
    pub const ALL: [Skipped; 10] = [
        Skipped::ForeignLink,
        Skipped::NotIp,
        Skipped::NotTcp,
        Skipped::Fragment,
        Skipped::Snapped,
        Skipped::Malformed,
        Skipped::Copy,
        Skipped::WrongStamp,
        Skipped::OddRecord,
        Skipped::Filtered,
    ];

    /// Returns the reason as a name for results, such as `not-tcp`.
    pub fn name(self) -> &'static str {
        self.into()
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
    /// The segment itself, when it was captured, as the transfer sees it whose data its sender
    /// sends.
    pub segment: Segment,
    /// A number made of the SACK blocks, so that segments with other blocks have another one.
    pub blocks: u32,
    /// The identification of an IPv4 packet; 0 in IPv6, which has none.
    pub identification: u16,
    /// Whether the capturing host sent (`true`) or received (`false`) the packet; `None` if the
    /// capture does not tell.
    pub outgoing: Option<bool>,
}

/// A packet within a packet.
enum Within {
    Tcp(Datagram),
    /// The IP protocol, and where it begins.
    Other(u8, usize),
}

/// What the IP headers before a TCP header tell.
struct Datagram {
    /// Their length, with extension headers.
    headers: usize,
    /// The length of the packet with them.
    length: usize,
    addresses: [IpAddr; 2],
    identification: u16,
}

/// Why a packet is not used, and the protocol because of which, where that is worth a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Refused {
    pub(crate) reason: Skipped,
    pub(crate) unread: Option<Unread>,
}

impl From<Skipped> for Refused {
    fn from(reason: Skipped) -> Refused {
        Refused { reason, unread: None }
    }
}

impl From<Stop> for Refused {
    fn from(stop: Stop) -> Refused {
        let unread = match stop {
            Stop::Unread(unread) => Some(unread),
            Stop::Snapped => None,
        };
        Refused { reason: stop.into(), unread }
    }
}

/// Reads the headers of a packet; of one within tunnels, those of the innermost. Allocates nothing.
///
/// # Errors
/// [`Skipped`] if the packet is not a TCP segment, or not enough of it is there.
pub fn parse(packet: &Packet<'_>) -> Result<Tcp, Skipped> {
    read(packet).map_err(|refused| refused.reason)
}

/// Returns the protocol because of which [`parse`] cannot read a packet, where that is worth a name.
pub fn unread(packet: &Packet<'_>) -> Option<Unread> {
    read(packet).err().and_then(|refused| refused.unread)
}

/// Reads the headers of a packet as [`parse`] does.
pub(crate) fn read(packet: &Packet<'_>) -> Result<Tcp, Refused> {
    let (mut start, outgoing) = layers::network(packet)?;
    for tunnels in 0..=MAX_TUNNELS {
        let data = packet.data.get(start..).ok_or(Skipped::Snapped)?;
        // The original length counts where the IP header has none, as in packets captured
        // before segmentation.
        let original = (packet.length as usize).saturating_sub(start);
        let within = match data.first().ok_or(Skipped::Snapped)? >> 4 {
            4 => ipv4(data, original)?,
            6 => ipv6(data, original)?,
            // What follows labels, for example, is no more than likely.
            _ if tunnels > 0 => return Err(Skipped::NotTcp.into()),
            _ => return Err(Skipped::Malformed.into()),
        };
        match within {
            // A segment is written once, to its place: moving it costs more than reading it.
            Within::Tcp(datagram) => return tcp(data, &datagram, packet.at, outgoing),
            Within::Other(protocol, at) => {
                start = match layers::inside(packet.data, protocol, start + at) {
                    Some(Ok(start)) => start,
                    Some(Err(Stop::Snapped)) => return Err(Skipped::Snapped.into()),
                    other => {
                        let unread = match other {
                            Some(Err(Stop::Unread(Unread::EtherType(number))))
                                if !NO_IP.contains(&number) =>
                            {
                                Some(Unread::Tunnelled(number))
                            }
                            Some(_) => None,
                            None => (!KNOWN.contains(&protocol)).then_some(Unread::Protocol(protocol)),
                        };
                        return Err(Refused { reason: Skipped::NotTcp, unread });
                    }
                }
            }
        }
    }
    Err(Skipped::NotTcp.into())
}

impl From<Stop> for Skipped {
    fn from(stop: Stop) -> Skipped {
        match stop {
            Stop::Unread(Unread::Link(_)) => Skipped::ForeignLink,
            Stop::Unread(_) => Skipped::NotIp,
            Stop::Snapped => Skipped::Snapped,
        }
    }
}

fn ipv4(data: &[u8], original: usize) -> Result<Within, Skipped> {
    let header = Ipv4HeaderSlice::from_slice(data).map_err(|error| match error {
        err::ipv4::HeaderSliceError::Len(_) => Skipped::Snapped,
        err::ipv4::HeaderSliceError::Content(_) => Skipped::Malformed,
    })?;
    let (mut start, mut protocol) = (header.slice().len(), header.protocol());
    // The first fragment of a tunnel has all headers of what is in it.
    if protocol != ip_number::TCP && header.fragments_offset().value() > 0 {
        return Err(Skipped::NotTcp);
    }
    if protocol.0 == AUTHENTICATION {
        let [next, words] = *data.get(start..).and_then(<[u8]>::first_chunk).ok_or(Skipped::Snapped)?;
        (start, protocol) = (start + (usize::from(words) + 2) * 4, next.into());
    }
    if protocol != ip_number::TCP {
        return Ok(Within::Other(protocol.0, start));
    }
    if header.is_fragmenting_payload() {
        return Err(Skipped::Fragment);
    }
    let length = match usize::from(header.total_len()) {
        0 => original,
        length => length,
    };
    let addresses = [header.source_addr(), header.destination_addr()].map(IpAddr::V4);
    let identification = header.identification();
    Ok(Within::Tcp(Datagram { headers: start, length, addresses, identification }))
}

fn ipv6(data: &[u8], original: usize) -> Result<Within, Skipped> {
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
        return Ok(Within::Other(protocol.0, data.len() - rest.len()));
    }
    let length = match usize::from(header.payload_length()) {
        0 => original,
        length => start + length,
    };
    let addresses = [header.source_addr(), header.destination_addr()].map(IpAddr::V6);
    Ok(Within::Tcp(Datagram { headers: data.len() - rest.len(), length, addresses, identification: 0 }))
}

/// Reads the TCP header behind the IP headers at the start of `data`.
fn tcp(data: &[u8], datagram: &Datagram, at: Instant, outgoing: Option<bool>) -> Result<Tcp, Refused> {
    let &Datagram { headers: start, length, addresses, identification } = datagram;
    let data = data.get(start..).ok_or(Skipped::Snapped)?;
    let header: &[u8; LEAST_TCP] = data.first_chunk().ok_or(Skipped::Snapped)?;
    let half = |at: usize| u16::from_be_bytes([header[at], header[at + 1]]);
    let word = |at: usize| u32::from(half(at)) << 16 | u32::from(half(at + 2));
    let size = usize::from(header[12] >> 4) * 4;
    if size < FIXED_TCP {
        return Err(Skipped::Malformed.into());
    }
    let payload = length.checked_sub(start + size).ok_or(Skipped::Malformed)?;
    let flag = |bit: u8| header[13] & bit != 0;
    let [source, destination] = addresses;
    let syn = flag(2);
    let Options { window_scale, mss, sack, blocks, timestamps } = match data.get(FIXED_TCP..) {
        Some(rest) if size > FIXED_TCP => options(&rest[..rest.len().min(size - FIXED_TCP)], syn),
        _ => Options::default(),
    };
    Ok(Tcp {
        source: Endpoint { address: source, port: half(0) },
        destination: Endpoint { address: destination, port: half(2) },
        segment: Segment {
            at,
            way: Way::Data,
            sequence: word(4),
            acknowledgement: flag(0x10).then(|| word(8)),
            payload: payload as u32,
            headers: (start + size) as u32,
            window: half(14),
            flags: Flags { syn, fin: flag(1), rst: flag(4) },
            window_scale,
            mss,
            cut: data.len() < size,
            sack,
            timestamps,
        },
        blocks,
        identification,
        outgoing,
    })
}

/// The options that count.
#[derive(Clone, Copy, Default)]
struct Options {
    window_scale: Option<u8>,
    mss: Option<u16>,
    sack: bool,
    blocks: u32,
    timestamps: Option<(u32, u32)>,
}

/// Reads the options up to the first that is malformed, as Linux does.
fn options(mut rest: &[u8], syn: bool) -> Options {
    let mut found = Options::default();
    loop {
        let mut options = TcpOptionsIterator::from_slice(rest);
        match options.next() {
            // Shifts above 14 count as 14 (RFC 7323, 2.3).
            Some(Ok(TcpOptionElement::WindowScale(shift))) if syn => {
                found.window_scale = Some(shift.min(14));
            }
            Some(Ok(TcpOptionElement::MaximumSegmentSize(mss))) if syn => found.mss = Some(mss),
            Some(Ok(TcpOptionElement::SelectiveAcknowledgement(first, others))) => {
                found.sack = true;
                let blocks = others.iter().flatten().chain([&first]);
                found.blocks =
                    blocks.fold(0, |sum, (from, to)| sum.rotate_left(7) ^ from ^ to.rotate_left(16));
            }
            Some(Ok(TcpOptionElement::Timestamp(value, echo))) => found.timestamps = Some((value, echo)),
            Some(Ok(_)) => {}
            // The iterator ends at options it does not know; their length says where the next one is.
            Some(Err(TcpOptionReadError::UnknownId(_))) => {
                let Some(length) = rest.get(1).map(|length| usize::from(*length)) else { return found };
                match rest.get(length..) {
                    Some(next) if length >= 2 => rest = next,
                    _ => return found,
                }
                continue;
            }
            Some(Err(_)) | None => return found,
        }
        rest = options.rest();
    }
}

/// Returns the first address of the network that an address belongs to: /24 of IPv4, /56 of IPv6.
pub fn prefix(address: IpAddr) -> IpAddr {
    Prefix::around(address, if address.is_ipv4() { 24 } else { 56 }).address()
}
