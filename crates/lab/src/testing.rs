//! Frames with congestion headers, for tests.

use headway_queue::explicit::{Format, Header, OPTION_KIND, encode, encode_option};
use headway_traffic::Traffic;
use headway_units::Duration;

use crate::ecn::ETHERNET;
use crate::spec::{Cross, Direction};

const TCP: u8 = 6;
const UDP: u8 = 17;
const PROTOCOL: u8 = 253;
/// Bytes behind the congestion header.
const PAYLOAD: usize = 60;

/// What precedes a congestion header.
#[derive(Clone, Debug, Default)]
pub(crate) struct Packet {
    is_v6: bool,
    tags: Vec<u16>,
    options: usize,
    extensions: Vec<(u8, u16)>,
    port: Option<u16>,
    /// Padding before the option of TCP that is the header.
    padding: Option<usize>,
}

impl Packet {
    pub(crate) fn v4() -> Packet {
        Packet { ..Packet::default() }
    }

    pub(crate) fn v6() -> Packet {
        Packet { is_v6: true, ..Packet::v4() }
    }

    /// One of each kind.
    pub(crate) fn all() -> [Packet; 12] {
        [
            Packet::v4(),
            Packet::v4().with_tags(&[0x88a8, 0x8100]),
            Packet::v4().with_options(12),
            Packet::v4().in_udp(4000),
            Packet::v6(),
            Packet::v6().with_tags(&[0x8100]).with_extensions(&[0, 43, 60]),
            Packet::v6().with_fragment_header(0),
            Packet::v6().in_udp(4000),
            Packet::v4().in_tcp(0),
            Packet::v4().with_tags(&[0x8100]).in_tcp(12),
            Packet::v4().with_options(4).in_tcp(7),
            Packet::v6().in_tcp(13),
        ]
    }

    pub(crate) fn with_tags(self, tags: &[u16]) -> Packet {
        Packet { tags: tags.to_vec(), ..self }
    }

    pub(crate) fn with_options(self, bytes: usize) -> Packet {
        Packet { options: bytes, ..self }
    }

    pub(crate) fn with_extensions(self, numbers: &[u8]) -> Packet {
        Packet { extensions: numbers.iter().map(|number| (*number, 0)).collect(), ..self }
    }

    /// With a fragment header whose offset and flag are `place`.
    pub(crate) fn with_fragment_header(self, place: u16) -> Packet {
        Packet { extensions: vec![(44, place)], ..self }
    }

    pub(crate) fn in_udp(self, port: u16) -> Packet {
        Packet { port: Some(port), ..self }
    }

    /// As an option of TCP behind `padding` bytes, at most 20.
    pub(crate) fn in_tcp(self, padding: usize) -> Packet {
        Packet { padding: Some(padding), ..self }
    }

    /// Returns the frame.
    pub(crate) fn build(&self, header: &Header) -> Vec<u8> {
        let mut frame = vec![0; 12];
        for tag in &self.tags {
            frame.extend(tag.to_be_bytes());
            frame.extend([0, 5]);
        }
        let body = self.body(header);
        let protocol = match (self.port, self.padding) {
            (Some(_), _) => UDP,
            (_, Some(_)) => TCP,
            _ => PROTOCOL,
        };
        if self.is_v6 {
            frame.extend([0x86, 0xdd]);
            let first = self.extensions.first().map_or(protocol, |(number, _)| *number);
            let length = (body.len() + 8 * self.extensions.len()) as u16;
            frame.extend([0x60, 0, 0, 0]);
            frame.extend(length.to_be_bytes());
            frame.extend([first, 64]);
            frame.extend((0..32).map(|k| k as u8));
            let next = self.extensions.iter().skip(1).map(|(number, _)| *number).chain([protocol]);
            for ((_, place), next) in self.extensions.iter().zip(next) {
                frame.extend([next, 0]);
                frame.extend(place.to_be_bytes());
                frame.extend([0; 4]);
            }
        } else {
            frame.extend([0x08, 0x00, 0x45 + (self.options / 4) as u8, 0x02]);
            frame.extend(((20 + self.options + body.len()) as u16).to_be_bytes());
            frame.extend([0x12, 0x34, 0x40, 0, 64, protocol, 0, 0, 10, 77, 0, 1, 10, 77, 0, 2]);
            frame.extend(vec![1; self.options]);
        }
        frame.extend(body);
        if protocol != PROTOCOL && self.extensions.is_empty() && self.tags.is_empty() {
            let sum = !transport_sum(&frame);
            let at = transport(&frame) + if protocol == UDP { 6 } else { 16 };
            let sum = if sum == 0 && protocol == UDP { u16::MAX } else { sum };
            frame[at..at + 2].copy_from_slice(&sum.to_be_bytes());
        }
        frame
    }

    fn body(&self, header: &Header) -> Vec<u8> {
        if let Some(padding) = self.padding {
            return segment(padding, header);
        }
        let mut body = Vec::new();
        if let Some(port) = self.port {
            let length = (8 + 20 + PAYLOAD) as u16;
            body.extend([port.to_be_bytes(), 9u16.to_be_bytes(), length.to_be_bytes(), [0, 0]].concat());
        }
        body.extend(encode(header));
        body.extend((0..PAYLOAD).map(|k| k as u8));
        body
    }
}

/// A segment of TCP whose header has `padding` bytes before a congestion header.
fn segment(padding: usize, header: &Header) -> Vec<u8> {
    let (option, length) = encode_option(header, OPTION_KIND).expect("a version of XCP or RCP");
    let mut bytes = vec![0x11; 20];
    bytes.extend(vec![1; padding]);
    bytes.extend(&option[..length]);
    bytes.resize(bytes.len().next_multiple_of(4), 1);
    bytes[12] = ((bytes.len() / 4) << 4) as u8;
    bytes[16..18].fill(0);
    bytes.extend((0..PAYLOAD).map(|k| k as u8));
    bytes
}

/// The header of a sender with an RTT of 100 ms that sends 10 packets in it and asks for all it can get.
pub(crate) fn header(version: u8) -> Header {
    let feedback = if version == headway_queue::explicit::VERSION_RCP { u32::MAX } else { 0x7fff_ffff };
    Header { rtt: 26_843_546, x: 2_684_355, feedback, ..Header::new(version, Format::Standard) }
}

/// Returns where UDP or TCP begins in a frame of [`Packet::build`] without tags and extension headers.
fn transport(frame: &[u8]) -> usize {
    let v4 = ETHERNET + usize::from(frame[ETHERNET] & 0xf) * 4;
    if frame[12] == 0x86 { ETHERNET + 40 } else { v4 }
}

/// Returns the ones' complement sum of UDP or TCP with its pseudo header: all ones if the checksum is right.
pub(crate) fn transport_sum(frame: &[u8]) -> u16 {
    let at = transport(frame);
    let addresses =
        if frame[12] == 0x86 { &frame[at - 32..at] } else { &frame[ETHERNET + 12..ETHERNET + 20] };
    let protocol = if frame[12] == 0x86 { frame[ETHERNET + 6] } else { frame[ETHERNET + 9] };
    let words = addresses.chunks(2).chain(frame[at..].chunks(2));
    let sum: u64 = words.map(|pair| u64::from(u16::from_be_bytes([pair[0], pair[1]]))).sum();
    let sum = sum + u64::from(protocol) + (frame.len() - at) as u64;
    let folded = (sum & 0xffff) + (sum >> 16);
    ((folded & 0xffff) + (folded >> 16)) as u16
}

/// Returns how many random cases to try: `usual`, or as many as `HEADWAY_CASES` says.
pub(crate) fn cases(usual: u64) -> u64 {
    std::env::var("HEADWAY_CASES").ok().and_then(|text| text.parse().ok()).unwrap_or(usual)
}

/// Returns traffic in the forward direction of the only link.
pub(crate) fn cross(traffic: Traffic) -> Cross {
    Cross { link: None, direction: Direction::Forward, start: Duration::ZERO, stop: None, traffic }
}
