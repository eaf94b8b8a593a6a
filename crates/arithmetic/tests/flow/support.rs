//! Packets made by hand, a plain checksum, and handshakes.

use std::net::IpAddr;

use headway_arithmetic::flow::{Flow, Framing, Half, Packet, flag};

pub(crate) const CLIENT: (IpAddr, u16) = (IpAddr::V4(std::net::Ipv4Addr::new(192, 168, 1, 2)), 50_000);
pub(crate) const SERVER: (IpAddr, u16) = (IpAddr::V4(std::net::Ipv4Addr::new(203, 0, 113, 9)), 443);
pub(crate) const MS: u64 = 1_000_000;
/// Side of the client, and of the server.
pub(crate) const LAN: u8 = 0;
pub(crate) const WAN: u8 = 1;

/// A segment of TCP and the headers around it.
#[derive(Clone, Debug)]
pub(crate) struct Segment {
    pub(crate) source: (IpAddr, u16),
    pub(crate) destination: (IpAddr, u16),
    pub(crate) sequence: u32,
    pub(crate) acknowledgement: u32,
    pub(crate) flags: u8,
    pub(crate) window: u16,
    pub(crate) options: Vec<u8>,
    pub(crate) data: Vec<u8>,
    pub(crate) dscp: u8,
    /// Words of IPv4 options, or extension headers of IPv6 of 8 bytes each.
    pub(crate) between: Vec<u8>,
    /// VLAN tags of a frame.
    pub(crate) tags: Vec<u16>,
}

impl Segment {
    pub(crate) fn new(source: (IpAddr, u16), destination: (IpAddr, u16), flags: u8) -> Segment {
        Segment {
            source,
            destination,
            sequence: 1000,
            acknowledgement: 2000,
            flags,
            window: 65_535,
            options: Vec::new(),
            data: Vec::new(),
            dscp: 0,
            between: Vec::new(),
            tags: Vec::new(),
        }
    }

    pub(crate) fn syn() -> Segment {
        Segment::new(CLIENT, SERVER, flag::SYN)
    }

    pub(crate) fn with_options(self, options: &[u8]) -> Segment {
        Segment { options: options.to_vec(), ..self }
    }

    /// The header of TCP and the data, with the right checksum.
    fn tcp(&self) -> Vec<u8> {
        let mut options = self.options.clone();
        options.resize(options.len().next_multiple_of(4), 0);
        let mut tcp = Vec::new();
        tcp.extend(self.source.1.to_be_bytes());
        tcp.extend(self.destination.1.to_be_bytes());
        tcp.extend(self.sequence.to_be_bytes());
        tcp.extend(self.acknowledgement.to_be_bytes());
        tcp.push((5 + options.len() / 4) as u8 * 16);
        tcp.push(self.flags);
        tcp.extend(self.window.to_be_bytes());
        tcp.extend([0; 4]);
        tcp.extend(&options);
        tcp.extend(&self.data);
        let checksum = !sum(self.source.0, self.destination.0, &tcp);
        tcp[16..18].copy_from_slice(&checksum.to_be_bytes());
        tcp
    }

    /// The packet of IP.
    pub(crate) fn ip(&self) -> Vec<u8> {
        let tcp = self.tcp();
        let mut packet = Vec::new();
        match (self.source.0, self.destination.0) {
            (IpAddr::V4(source), IpAddr::V4(destination)) => {
                let header = 20 + 4 * self.between.len();
                packet.extend([0x40 + (header / 4) as u8, self.dscp << 2]);
                packet.extend(((header + tcp.len()) as u16).to_be_bytes());
                packet.extend([0, 0, 0, 0, 64, 6, 0, 0]);
                packet.extend(source.octets());
                packet.extend(destination.octets());
                packet.resize(header, 1);
            }
            (IpAddr::V6(source), IpAddr::V6(destination)) => {
                packet.extend((0x6000_0000_u32 | u32::from(self.dscp) << 22).to_be_bytes());
                packet.extend(((8 * self.between.len() + tcp.len()) as u16).to_be_bytes());
                let mut chain = self.between.iter().copied().chain([6]);
                packet.extend([chain.next().unwrap(), 64]);
                packet.extend(source.octets());
                packet.extend(destination.octets());
                packet.extend(chain.flat_map(|next| [next, 0, 0, 0, 0, 0, 0, 0]));
            }
            other => panic!("two versions: {other:?}"),
        }
        packet.extend(tcp);
        packet
    }

    /// The frame of Ethernet.
    pub(crate) fn ethernet(&self) -> Vec<u8> {
        let mut frame = vec![0; 12];
        for tag in &self.tags {
            frame.extend(tag.to_be_bytes());
            frame.extend([0, 7]);
        }
        let kind: u16 = if self.source.0.is_ipv4() { 0x0800 } else { 0x86dd };
        frame.extend(kind.to_be_bytes());
        frame.extend(self.ip());
        frame
    }

    /// The packet as the middlebox reads it.
    pub(crate) fn read(&self, side: u8) -> Packet {
        Packet::read(&self.ip(), Framing::Ip, side).unwrap()
    }
}

/// The sum of words of a segment behind a pseudo-header of IP: all ones with the right checksum
/// in it (RFC 9293 3.1).
pub(crate) fn sum(source: IpAddr, destination: IpAddr, tcp: &[u8]) -> u16 {
    let mut bytes = Vec::new();
    for address in [source, destination] {
        match address {
            IpAddr::V4(address) => bytes.extend(address.octets()),
            IpAddr::V6(address) => bytes.extend(address.octets()),
        }
    }
    bytes.extend((tcp.len() as u32).to_be_bytes());
    bytes.extend([0, 0, 0, 6]);
    bytes.extend(tcp);
    bytes.resize(bytes.len().next_multiple_of(2), 0);
    let words = bytes.chunks(2).map(|word| u64::from(u16::from_be_bytes([word[0], word[1]])));
    let mut sum: u64 = words.sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

/// Options with a largest segment of 1460 bytes and this scale.
pub(crate) fn scaled(scale: u8) -> Vec<u8> {
    vec![2, 4, 0x05, 0xb4, 1, 3, 3, scale]
}

/// Options with a timestamp and an echo.
pub(crate) fn stamps([stamp, echo]: [u32; 2]) -> Vec<u8> {
    [[1, 1, 8, 10], stamp.to_be_bytes(), echo.to_be_bytes()].concat()
}

/// The three segments of a handshake.
pub(crate) struct Handshake {
    pub(crate) syn: Segment,
    pub(crate) answer: Segment,
    pub(crate) third: Segment,
}

impl Handshake {
    /// With these scales of client and server.
    pub(crate) fn new(client: u8, server: u8) -> Handshake {
        let syn = Segment::syn().with_options(&scaled(client));
        let mut answer = Segment::new(SERVER, CLIENT, flag::SYN | flag::ACK).with_options(&scaled(server));
        let mut third = Segment::new(CLIENT, SERVER, flag::ACK);
        (answer.sequence, answer.acknowledgement) = (7000, 1001);
        (third.sequence, third.acknowledgement) = (1001, 7001);
        Handshake { syn, answer, third }
    }

    /// The connection, if there is one, when the three arrive at these times in ms.
    pub(crate) fn at(&self, times: [u64; 3]) -> Option<Flow> {
        let mut half = Half::begin(&self.syn.read(LAN), times[0] * MS)?;
        half.on_answer(&self.answer.read(WAN), times[1] * MS)
            .then(|| half.on_third(&self.third.read(LAN), times[2] * MS, 0))?
    }
}
