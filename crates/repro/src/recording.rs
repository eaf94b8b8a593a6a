//! Captured TCP packets in memory: of a tap on real packets, or made of what a simulated tap saw.

use headway_capture::{Link, Packet};
use headway_dataset::windows::Watched;
use headway_estimate::sabes::{Segment, Way};
use headway_passive::headers;
use headway_units::{Duration, Instant};

/// Bytes kept of a packet: IPv4 and TCP with all options.
const KEPT: usize = 80;
/// Bytes of headers of IPv4 and TCP without options.
const IP: usize = 20;
const TCP: usize = 20;
/// Addresses (RFC 5737) and the receiver's port of packets that are made.
const ENDS: [[u8; 4]; 2] = [[192, 0, 2, 1], [198, 51, 100, 1]];
const PORT: u16 = 80;
/// The sender's port of the first flow.
const FIRST_PORT: u16 = 10_000;

/// Packets of a tap at a sender, from their IP headers on.
#[derive(Clone, Debug, Default)]
pub(crate) struct Recording {
    packets: Vec<Recorded>,
    bytes: Vec<u8>,
}

#[derive(Clone, Copy, Debug)]
struct Recorded {
    at: Instant,
    length: u32,
    outgoing: Option<bool>,
    /// Where its bytes end.
    end: usize,
}

impl Recording {
    /// Adds a packet that begins with its IP header.
    pub(crate) fn push(&mut self, packet: &Packet<'_>, outgoing: Option<bool>) {
        self.bytes.extend_from_slice(&packet.data[..packet.data.len().min(KEPT)]);
        let end = self.bytes.len();
        self.packets.push(Recorded { at: packet.at, length: packet.length, outgoing, end });
    }

    /// Returns when the last packet passed; `None` without packets.
    pub(crate) fn last(&self) -> Option<Instant> {
        self.packets.last().map(|packet| packet.at)
    }

    /// Calls `take` with every packet, and with whether the sender's host sent it.
    pub(crate) fn replay(&self, mut take: impl FnMut(&Packet<'_>, Option<bool>)) {
        let mut begin = 0;
        for recorded in &self.packets {
            let packet = Packet {
                at: recorded.at,
                data: &self.bytes[begin..recorded.end],
                length: recorded.length,
                interface: 0,
                link: Link::Raw,
                check_sequence: false,
                declared: 0,
            };
            begin = recorded.end;
            take(&packet, recorded.outgoing);
        }
    }

    /// Returns the segments of every flow, in the order in which flows appear; times count from `origin`.
    pub(crate) fn flows(&self, origin: Instant) -> Vec<Vec<Segment>> {
        let mut ports: Vec<u16> = Vec::new();
        let mut flows: Vec<Vec<Segment>> = Vec::new();
        self.replay(|packet, outgoing| {
            let Ok(tcp) = headers::parse(packet) else { return };
            let (way, port) = match outgoing {
                Some(true) => (Way::Data, tcp.source.port),
                _ => (Way::Acks, tcp.destination.port),
            };
            let flow = ports.iter().position(|known| *known == port).unwrap_or_else(|| {
                ports.push(port);
                flows.push(Vec::new());
                flows.len() - 1
            });
            let since = (packet.at - origin).max(Duration::ZERO);
            flows[flow].push(Segment { at: Instant::ZERO + since, way, ..tcp.segment });
        });
        flows
    }

    /// Makes packets of what a simulated tap saw.
    pub(crate) fn of(watched: &Watched) -> Recording {
        let mut recording = Recording::default();
        for (number, (flow, segment)) in watched.segments().iter().enumerate() {
            let data = packet(segment, FIRST_PORT.wrapping_add(*flow as u16), number as u16);
            let length = segment.headers + segment.payload;
            let packet = Packet {
                at: segment.at,
                data: &data,
                length,
                interface: 0,
                link: Link::Raw,
                check_sequence: false,
                declared: 0,
            };
            recording.push(&packet, Some(segment.way == Way::Data));
        }
        recording
    }
}

/// Returns the headers of a segment, without checksums and with padding in place of
/// options that do not matter.
fn packet(segment: &Segment, port: u16, identification: u16) -> Vec<u8> {
    let (ends, ports) = match segment.way {
        Way::Data => (ENDS, [port, PORT]),
        Way::Acks => ([ENDS[1], ENDS[0]], [PORT, port]),
    };
    let headers = (segment.headers as usize).clamp(IP + TCP, KEPT) & !3;
    let length = (headers as u32 + segment.payload) as u16;
    let mut out = vec![0x45, 0];
    out.extend(length.to_be_bytes());
    out.extend(identification.to_be_bytes());
    // Don't fragment, 64 hops, TCP, no checksum.
    out.extend([0x40, 0, 64, 6, 0, 0]);
    ends.iter().for_each(|end| out.extend(end));
    ports.iter().for_each(|port| out.extend(port.to_be_bytes()));
    out.extend(segment.sequence.to_be_bytes());
    out.extend(segment.acknowledgement.unwrap_or(0).to_be_bytes());
    let flags = segment.flags;
    let bits = [(flags.fin, 1), (flags.syn, 2), (flags.rst, 4), (segment.acknowledgement.is_some(), 16)];
    out.push(((headers - IP) as u8 / 4) << 4);
    out.push(bits.iter().filter(|(set, _)| *set).map(|(_, bit)| bit).sum());
    out.extend(segment.window.to_be_bytes());
    out.extend([0; 4]);
    if let Some(mss) = segment.mss {
        out.extend([2, 4]);
        out.extend(mss.to_be_bytes());
    }
    segment.window_scale.iter().for_each(|scale| out.extend([3, 3, *scale]));
    // "No operation".
    out.resize(headers, 1);
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use headway_dataset::dumbbell::Truth;
    use headway_estimate::sabes::Flags;
    use headway_units::Rate;

    #[test]
    fn packets_that_are_made_of_segments_are_read_as_these_segments() {
        let data = Segment {
            at: Instant::from_ns(5_000),
            sequence: u32::MAX,
            acknowledgement: Some(1),
            payload: 1_448,
            headers: 52,
            window: 500,
            ..Segment::default()
        };
        let syn = Segment {
            at: Instant::from_ns(1_000),
            acknowledgement: None,
            payload: 0,
            flags: Flags { syn: true, ..Flags::default() },
            window_scale: Some(7),
            mss: Some(1_460),
            ..data
        };
        let ack = Segment {
            at: Instant::from_ns(9_000),
            way: Way::Acks,
            sequence: 7,
            acknowledgement: Some(3),
            payload: 0,
            ..data
        };
        let truth = Truth::new(Rate::from_mbps(1.0), vec![0]);
        let watched = Watched::new([vec![syn, data, ack], vec![Segment { sequence: 9, ..data }]], truth);
        let found = Recording::of(&watched).flows(Instant::ZERO);
        assert_eq!(found, [vec![syn, data, ack], vec![Segment { sequence: 9, ..data }]]);
    }
}
