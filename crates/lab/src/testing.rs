//! Frames with congestion headers, for tests.

use headway_core::explicit::{Format, Header, encode};

use crate::ecn::ETHERNET;

const UDP: u8 = 17;
const PROTOCOL: u8 = 253;
/// Bytes behind the congestion header.
const PAYLOAD: usize = 60;

/// What precedes a congestion header.
#[derive(Clone, Debug)]
pub(crate) struct Packet {
    is_v6: bool,
    tags: Vec<u16>,
    options: usize,
    extensions: Vec<(u8, u16)>,
    port: Option<u16>,
}

impl Packet {
    pub(crate) fn v4() -> Packet {
        Packet { is_v6: false, tags: Vec::new(), options: 0, extensions: Vec::new(), port: None }
    }

    pub(crate) fn v6() -> Packet {
        Packet { is_v6: true, ..Packet::v4() }
    }

    /// One of each kind.
    pub(crate) fn all() -> [Packet; 8] {
        [
            Packet::v4(),
            Packet::v4().with_tags(&[0x88a8, 0x8100]),
            Packet::v4().with_options(12),
            Packet::v4().in_udp(4000),
            Packet::v6(),
            Packet::v6().with_tags(&[0x8100]).with_extensions(&[0, 43, 60]),
            Packet::v6().with_fragment_header(0),
            Packet::v6().in_udp(4000),
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

    /// Returns the frame.
    pub(crate) fn build(&self, header: &Header) -> Vec<u8> {
        let mut frame = vec![0; 12];
        for tag in &self.tags {
            frame.extend(tag.to_be_bytes());
            frame.extend([0, 5]);
        }
        let body = self.body(header);
        let protocol = if self.port.is_some() { UDP } else { PROTOCOL };
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
        if self.port.is_some() {
            let sum = !udp_sum(&frame);
            let at = udp(&frame) + 6;
            frame[at..at + 2].copy_from_slice(&if sum == 0 { u16::MAX } else { sum }.to_be_bytes());
        }
        frame
    }

    fn body(&self, header: &Header) -> Vec<u8> {
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

/// The header of a sender with an RTT of 100 ms that sends 10 packets in it and asks for all it can get.
pub(crate) fn header(version: u8) -> Header {
    let feedback = if version == headway_core::explicit::VERSION_RCP { u32::MAX } else { 0x7fff_ffff };
    Header { rtt: 26_843_546, x: 2_684_355, feedback, ..Header::new(version, Format::Standard) }
}

/// Returns where UDP begins in a frame of [`Packet::build`] without tags and extension headers.
fn udp(frame: &[u8]) -> usize {
    let v4 = ETHERNET + usize::from(frame[ETHERNET] & 0xf) * 4;
    if frame[12] == 0x86 { ETHERNET + 40 } else { v4 }
}

/// Returns the ones' complement sum of UDP with its pseudo header: all ones if the checksum is right.
pub(crate) fn udp_sum(frame: &[u8]) -> u16 {
    let at = udp(frame);
    let addresses =
        if frame[12] == 0x86 { &frame[at - 32..at] } else { &frame[ETHERNET + 12..ETHERNET + 20] };
    let words = addresses.chunks(2).chain(frame[at..].chunks(2));
    let sum: u64 = words.map(|pair| u64::from(u16::from_be_bytes([pair[0], pair[1]]))).sum();
    let sum = sum + u64::from(UDP) + (frame.len() - at) as u64;
    let folded = (sum & 0xffff) + (sum >> 16);
    ((folded & 0xffff) + (folded >> 16)) as u16
}

/// Returns how many random cases to try: `usual`, or as many as `HEADWAY_CASES` says.
pub(crate) fn cases(usual: u64) -> u64 {
    std::env::var("HEADWAY_CASES").ok().and_then(|text| text.parse().ok()).unwrap_or(usual)
}
