//! Where the congestion header lies in an Ethernet frame, and how it is rewritten there.

use headway_queue::explicit::{
    FEEDBACK, Format, HEADER_BYTES, Header, HeaderError, OPTION_FEEDBACK, OptionError, decode, decode_option,
};

use crate::ecn::ETHERNET;
use crate::sum;

/// Types of VLAN tags: of customers, of providers, and the one used before there was a standard.
const VLAN: [u16; 3] = [0x8100, 0x88a8, 0x9100];
/// VLAN tags that are skipped; real networks have at most two.
const MAX_TAGS: usize = 3;
const VLAN_TAG: usize = 4;
const IPV4: u16 = 0x0800;
const IPV6: u16 = 0x86dd;
const IPV4_HEADER: usize = 20;
const IPV6_HEADER: usize = 40;
/// More fragments, and the offset of this one, in IPv4.
const IPV4_FRAGMENT: u16 = 0x3fff;
/// The same in the fragment header of IPv6.
const IPV6_FRAGMENT: u16 = 0xfff9;
/// Extension headers that are skipped: RFC 8200 names four kinds, each of which occurs once or twice.
const MAX_EXTENSIONS: usize = 8;
/// Extension headers of IPv6 with a length in units of 8 bytes: hop-by-hop options, routing,
/// destination options.
const EXTENSIONS: [u8; 3] = [0, 43, 60];
const FRAGMENT_HEADER: u8 = 44;
const TCP: u8 = 6;
const UDP: u8 = 17;
const UDP_HEADER: usize = 8;
/// Bytes of both ports at the beginning of TCP and of UDP.
const PORTS: usize = 4;
/// Offsets of the checksum in a UDP and in a TCP header.
const UDP_SUM: usize = 6;
const TCP_SUM: usize = 16;
const TCP_HEADER: usize = 20;
/// Options of TCP without a length: the end, and padding (RFC 9293 3.2).
const END: u8 = 0;
const PADDING: u8 = 1;

/// How congestion headers travel (xcp-rcp 1.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Carrier {
    /// Their number as an IP protocol.
    pub protocol: u8,
    /// A port of UDP, source or destination, behind whose header they lie.
    pub port: Option<u16>,
    /// Their kind as an option of TCP.
    pub option: u8,
}

/// Why a packet that should have a congestion header has none that a router can use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It ends too early.
    Truncated,
    /// The field for its length is wrong.
    Length,
    /// Its version is unknown.
    Version,
    /// Its format is unknown.
    Format,
    /// It is in a fragment.
    Fragment,
}

/// A congestion header in a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found {
    /// It, decoded.
    pub header: Header,
    /// What of it is rewritten; `None` in an option that only answers.
    pub place: Option<Place>,
    /// Whether IPv4 options or extension headers of IPv6 precede it.
    pub options: bool,
    flow: FlowPlace,
}

/// Where a frame says which flow it belongs to: the addresses of IP, and the ports if TCP or UDP is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct FlowPlace {
    addresses: (usize, usize),
    ports: Option<usize>,
}

/// Where the feedback of a congestion header is in its frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    at: u16,
    sum: Sum,
}

/// Where the checksum that covers the feedback is in the frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Sum {
    None,
    Udp(u16),
    Tcp(u16),
}

impl Found {
    /// Whether something other than TCP follows.
    pub(crate) fn is_other_protocol(&self) -> bool {
        self.header.protocol != TCP
    }

    /// Returns the bytes of its frame that tell its flow from others: addresses, and ports
    /// where TCP or UDP is.
    pub fn flow<'a>(&self, frame: &'a [u8]) -> [&'a [u8]; 2] {
        let (begin, end) = self.flow.addresses;
        let ports = self.flow.ports.and_then(|at| frame.get(at..at + PORTS));
        [frame.get(begin..end).unwrap_or_default(), ports.unwrap_or_default()]
    }
}

/// The payload of an IP packet.
struct Payload {
    protocol: u8,
    /// Where it begins and ends in the frame.
    at: usize,
    end: usize,
    /// Where the addresses of IP begin and end.
    addresses: (usize, usize),
    options: bool,
    fragment: bool,
    /// Whether it begins with the payload of the whole packet.
    first: bool,
}

/// Finds the congestion header in a frame; `None` if none is expected there.
pub fn find(frame: &[u8], carrier: Carrier) -> Option<Result<Found, Fault>> {
    let payload = payload(frame)?;
    if payload.protocol == TCP {
        return find_option(frame, &payload, carrier.option);
    }
    let udp = payload.protocol == UDP && carrier.port.is_some_and(|port| uses(frame, &payload, port));
    if payload.protocol != carrier.protocol && !udp {
        return None;
    }
    if payload.fragment {
        return Some(Err(Fault::Fragment));
    }
    let at = payload.at + if udp { UDP_HEADER } else { 0 };
    let bytes = frame.get(at..payload.end).unwrap_or_default();
    let sum = if udp { Sum::Udp(u16::try_from(payload.at + UDP_SUM).ok()?) } else { Sum::None };
    let place = Some(Place { at: u16::try_from(at + FEEDBACK.start).ok()?, sum });
    let found = decode(bytes).map(|header| {
        let has_ports = [TCP, UDP].contains(&header.protocol);
        let ports = if udp { Some(payload.at) } else { has_ports.then_some(at + HEADER_BYTES) };
        let flow = FlowPlace { addresses: payload.addresses, ports };
        Found { header, place, options: payload.options, flow }
    });
    Some(found.map_err(|error| match error {
        HeaderError::Truncated(_) => Fault::Truncated,
        HeaderError::Length(_) => Fault::Length,
        HeaderError::Version(_) => Fault::Version,
        HeaderError::Format(_) => Fault::Format,
    }))
}

/// Whether a frame carries a segment of TCP, or a fragment of one.
pub fn is_tcp(frame: &[u8]) -> bool {
    payload(frame).is_some_and(|payload| payload.protocol == TCP)
}

/// Returns the bytes of a frame without a congestion header that tell its flow from others, as
/// [`Found::flow`] does.
pub(crate) fn flow(frame: &[u8]) -> [&[u8]; 2] {
    let Some(payload) = payload(frame) else { return [&[], &[]] };
    let (begin, end) = payload.addresses;
    let has_ports = payload.first && !payload.fragment && [TCP, UDP].contains(&payload.protocol);
    let ports = has_ports.then(|| frame.get(payload.at..payload.at + PORTS)).flatten();
    [frame.get(begin..end).unwrap_or_default(), ports.unwrap_or_default()]
}

/// Finds the congestion header among the options of TCP. Fragments behind the first have
/// no options, and pass.
fn find_option(frame: &[u8], payload: &Payload, kind: u8) -> Option<Result<Found, Fault>> {
    if !payload.first {
        return None;
    }
    let tcp = frame.get(payload.at..payload.end)?;
    let end = usize::from(*tcp.get(12)? >> 4) * 4;
    let (mut options, mut at) = (tcp.get(TCP_HEADER..end.min(tcp.len()))?, TCP_HEADER);
    // Each turn leaves less of at most 40 bytes.
    loop {
        let length = match options {
            [] | [END, ..] => return None,
            [PADDING, ..] => 1,
            [found, ..]
                if *found == kind
                    && let Some(result) = decode_option(options) =>
            {
                return Some(found_option(payload, at, result));
            }
            [_, length, ..] if *length >= 2 => usize::from(*length),
            _ => return None,
        };
        options = options.get(length..)?;
        at += length;
    }
}

/// What was found at `at` in a TCP header.
fn found_option(payload: &Payload, at: usize, result: Result<Header, OptionError>) -> Result<Found, Fault> {
    if payload.fragment {
        return Err(Fault::Fragment);
    }
    let header = result.map_err(|error| match error {
        OptionError::Truncated(_) => Fault::Truncated,
        OptionError::Length(_) => Fault::Length,
    })?;
    let place = |at: usize| u16::try_from(payload.at + at).ok();
    let place = match (place(at + OPTION_FEEDBACK.start), place(TCP_SUM)) {
        (Some(at), Some(sum)) if header.format == Format::Standard as u8 => {
            Some(Place { at, sum: Sum::Tcp(sum) })
        }
        _ => None,
    };
    let flow = FlowPlace { addresses: payload.addresses, ports: Some(payload.at) };
    Ok(Found { header, place, options: payload.options, flow })
}

/// Replaces the feedback at `place`, where [`find`] found a header, and keeps the checksum of UDP or TCP
/// right. Returns whether it was another.
pub fn rewrite(frame: &mut [u8], place: Place, feedback: u32) -> bool {
    let at = usize::from(place.at);
    let Some(bytes) = frame.get_mut(at..at + FEEDBACK.len()) else { return false };
    let mut old = [0; 4];
    old.copy_from_slice(bytes);
    let new = feedback.to_be_bytes();
    if new == old {
        return false;
    }
    bytes.copy_from_slice(&new);
    let (field, udp) = match place.sum {
        Sum::None => return true,
        Sum::Udp(field) => (usize::from(field), true),
        Sum::Tcp(field) => (usize::from(field), false),
    };
    let is_odd = (at - field) % 2 == 1;
    if let Some(field) = frame.get_mut(field..field + 2) {
        update_sum(field, old, new, is_odd, udp);
    }
    true
}

/// Updates a checksum after four bytes that begin at an even or odd place of what it covers. Zero in UDP
/// means that there is none, so a sum of zero is written as all ones there (RFC 768).
fn update_sum(field: &mut [u8], old: [u8; 4], new: [u8; 4], is_odd: bool, udp: bool) {
    let before = u16::from_be_bytes([field[0], field[1]]);
    if udp && before == 0 {
        return;
    }
    // At an odd place, the first of two bytes is the second one of a word (RFC 1071 2).
    let word = |high: u8, low: u8| u16::from_be_bytes(if is_odd { [low, high] } else { [high, low] });
    let words = [[0, 1], [2, 3]].map(|[a, b]| (word(old[a], old[b]), word(new[a], new[b])));
    let after = words.iter().fold(before, |sum, (old, new)| sum::update(sum, *old, *new));
    field.copy_from_slice(&if udp && after == 0 { u16::MAX } else { after }.to_be_bytes());
}

/// Whether the first bytes of the payload are a UDP header with this port.
fn uses(frame: &[u8], payload: &Payload, port: u16) -> bool {
    let is_here = |at: usize| at + 2 <= payload.end && word(frame, at) == Some(port);
    payload.first && (is_here(payload.at) || is_here(payload.at + 2))
}

fn payload(frame: &[u8]) -> Option<Payload> {
    let mut at = ETHERNET;
    let mut kind = word(frame, at - 2)?;
    for _ in 0..MAX_TAGS {
        if VLAN.contains(&kind) {
            at += VLAN_TAG;
            kind = word(frame, at - 2)?;
        }
    }
    match (kind, frame.get(at)? >> 4) {
        (IPV4, 4) => ipv4(frame, at),
        (IPV6, 6) => ipv6(frame, at),
        _ => None,
    }
}

fn ipv4(frame: &[u8], at: usize) -> Option<Payload> {
    let header = frame.get(at..at + IPV4_HEADER)?;
    let length = usize::from(header[0] & 0xf) * 4;
    let fragment = word(frame, at + 6)? & IPV4_FRAGMENT;
    let total = usize::from(word(frame, at + 2)?);
    (length >= IPV4_HEADER).then_some(Payload {
        protocol: header[9],
        at: at + length,
        end: (at + total).min(frame.len()),
        addresses: (at + 12, at + 20),
        options: length > IPV4_HEADER,
        fragment: fragment != 0,
        first: fragment & 0x1fff == 0,
    })
}

fn ipv6(frame: &[u8], at: usize) -> Option<Payload> {
    let header = frame.get(at..at + IPV6_HEADER)?;
    let end = (at + IPV6_HEADER + usize::from(word(frame, at + 4)?)).min(frame.len());
    let begin = at + IPV6_HEADER;
    let mut found = Payload {
        protocol: header[6],
        at: begin,
        end,
        addresses: (at + 8, at + 40),
        options: false,
        fragment: false,
        first: true,
    };
    for _ in 0..MAX_EXTENSIONS {
        let length = if EXTENSIONS.contains(&found.protocol) {
            8 + 8 * usize::from(*frame.get(found.at + 1)?)
        } else if found.protocol == FRAGMENT_HEADER {
            let place = word(frame, found.at + 2)?;
            // A packet may have a fragment header although it is whole (RFC 6946).
            found.fragment = place & IPV6_FRAGMENT != 0;
            found.first = place & !7 == 0;
            8
        } else {
            break;
        };
        found.protocol = *frame.get(found.at)?;
        found.at += length;
        found.options = true;
        if !found.first {
            break;
        }
    }
    Some(found)
}

/// Returns the 16 bits at `at`.
fn word(frame: &[u8], at: usize) -> Option<u16> {
    let bytes = frame.get(at..at + 2)?;
    Some(u16::from_be_bytes([bytes[0], bytes[1]]))
}

#[cfg(test)]
#[path = "congestion_header_tests.rs"]
mod tests;
