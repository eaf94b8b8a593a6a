//! Makes packets and capture files by hand, for tests and benchmarks.

#![allow(dead_code, reason = "every test uses a part of it")]
#![allow(clippy::unwrap_used, reason = "a failed assumption is a failed test, also in helpers")]

use std::net::IpAddr;

/// A TCP packet to be written.
#[derive(Clone, Debug)]
pub(crate) struct Tcp {
    pub(crate) source: (IpAddr, u16),
    pub(crate) destination: (IpAddr, u16),
    pub(crate) sequence: u32,
    pub(crate) acknowledgement: Option<u32>,
    pub(crate) window: u16,
    pub(crate) syn: bool,
    pub(crate) fin: bool,
    pub(crate) options: Vec<u8>,
    pub(crate) payload: u32,
}

impl Tcp {
    pub(crate) fn new(source: (&str, u16), destination: (&str, u16)) -> Tcp {
        let end = |(address, port): (&str, u16)| (address.parse().unwrap(), port);
        Tcp {
            source: end(source),
            destination: end(destination),
            sequence: 0,
            acknowledgement: Some(0),
            window: 65_535,
            syn: false,
            fin: false,
            options: Vec::new(),
            payload: 0,
        }
    }

    /// The TCP header.
    pub(crate) fn header(&self) -> Vec<u8> {
        let mut out = Vec::new();
        out.extend(self.source.1.to_be_bytes());
        out.extend(self.destination.1.to_be_bytes());
        out.extend(self.sequence.to_be_bytes());
        out.extend(self.acknowledgement.unwrap_or(0).to_be_bytes());
        let options = self.options.len().next_multiple_of(4);
        let flags =
            u8::from(self.fin) | u8::from(self.syn) << 1 | u8::from(self.acknowledgement.is_some()) << 4;
        out.extend([(((20 + options) / 4) << 4) as u8, flags]);
        out.extend(self.window.to_be_bytes());
        out.extend([0; 4]);
        out.extend(&self.options);
        out.resize(20 + options, 0);
        out
    }

    /// The packet from the IP header on, without payload, and its full length.
    pub(crate) fn ip(&self) -> (Vec<u8>, u32) {
        let tcp = self.header();
        match (self.source.0, self.destination.0) {
            (IpAddr::V4(source), IpAddr::V4(destination)) => {
                let length = 20 + tcp.len() as u32 + self.payload;
                let mut out = vec![0x45, 0];
                out.extend((length.min(65_535) as u16).to_be_bytes());
                out.extend([0, 0, 0x40, 0, 64, 6, 0, 0]);
                out.extend(source.octets());
                out.extend(destination.octets());
                out.extend(tcp);
                (out, length)
            }
            (IpAddr::V6(source), IpAddr::V6(destination)) => {
                let length = tcp.len() as u32 + self.payload;
                let mut out = vec![0x60, 0, 0, 0];
                out.extend((length.min(65_535) as u16).to_be_bytes());
                out.extend([6, 64]);
                out.extend(source.octets());
                out.extend(destination.octets());
                out.extend(tcp);
                (out, 40 + length)
            }
            _ => panic!("addresses of two kinds"),
        }
    }

    /// The packet from the Ethernet header on, and its full length.
    pub(crate) fn ethernet(&self) -> (Vec<u8>, u32) {
        let (ip, length) = self.ip();
        let kind: [u8; 2] = if self.source.0.is_ipv4() { [0x08, 0x00] } else { [0x86, 0xdd] };
        let mut out = vec![2; 12];
        out.extend(kind);
        out.extend(ip);
        (out, length + 14)
    }
}

/// A pcap file with timestamps in nanoseconds.
pub(crate) struct Pcap {
    pub(crate) bytes: Vec<u8>,
}

impl Pcap {
    pub(crate) fn new(link: u32) -> Pcap {
        let words = [0xa1b2_3c4d, 0x0004_0002, 0, 0, 262_144, link];
        Pcap { bytes: words.iter().flat_map(|word: &u32| word.to_le_bytes()).collect() }
    }

    pub(crate) fn push(&mut self, at: u64, data: &[u8], length: u32) {
        let words = [(at / 1_000_000_000) as u32, (at % 1_000_000_000) as u32, data.len() as u32, length];
        self.bytes.extend(words.iter().flat_map(|word| word.to_le_bytes()));
        self.bytes.extend(data);
    }

    pub(crate) fn tcp(&mut self, at: u64, tcp: &Tcp) {
        let (data, length) = tcp.ethernet();
        self.push(at, &data, length);
    }
}

/// A pcapng file with one interface and timestamps in nanoseconds.
pub(crate) struct Pcapng {
    pub(crate) bytes: Vec<u8>,
}

impl Pcapng {
    pub(crate) fn new(link: u16) -> Pcapng {
        let mut file = Pcapng { bytes: Vec::new() };
        file.block(
            0x0a0d_0d0a,
            &[0x4d, 0x3c, 0x2b, 0x1a, 1, 0, 0, 0, 255, 255, 255, 255, 255, 255, 255, 255],
        );
        file.interface(link);
        file
    }

    pub(crate) fn interface(&mut self, link: u16) {
        let mut body = Vec::new();
        for half in [link, 0, 0, 0, 9, 1] {
            body.extend(half.to_le_bytes());
        }
        body.extend([9, 0, 0, 0]);
        self.block(1, &body);
    }

    pub(crate) fn block(&mut self, kind: u32, body: &[u8]) {
        let length = (body.len().next_multiple_of(4) + 12) as u32;
        self.bytes.extend(kind.to_le_bytes());
        self.bytes.extend(length.to_le_bytes());
        self.bytes.extend(body);
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
        self.bytes.extend(length.to_le_bytes());
    }

    pub(crate) fn push(&mut self, interface: u32, at: u64, data: &[u8], length: u32) {
        let words = [interface, (at >> 32) as u32, at as u32, data.len() as u32, length];
        let mut body: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        body.extend(data);
        self.block(6, &body);
    }
}

/// Deterministic random numbers (SplitMix64).
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound.max(1)
    }

    pub(crate) fn chance(&mut self, one_in: u64) -> bool {
        self.below(one_in) == 0
    }
}

/// The start of a connection as the client sees it.
pub(crate) struct Handshake<'a> {
    pub(crate) client: (&'a str, u16),
    pub(crate) server: (&'a str, u16),
    pub(crate) at: u64,
    /// Round-trip times from the tap to either end, ns.
    pub(crate) to_client: u64,
    pub(crate) to_server: u64,
}

/// Options of a SYN: MSS 1460, SACK permitted, window scale 7.
pub(crate) const SYN_OPTIONS: [u8; 12] = [2, 4, 5, 0xb4, 4, 2, 1, 3, 3, 7, 0, 0];

impl Handshake<'_> {
    /// The three segments with their times. Client and server start at the sequence numbers 1000 and 5000.
    pub(crate) fn segments(&self) -> [(u64, Tcp); 3] {
        let syn = Tcp {
            sequence: 1_000,
            acknowledgement: None,
            syn: true,
            options: SYN_OPTIONS.to_vec(),
            ..Tcp::new(self.client, self.server)
        };
        let answer = Tcp {
            sequence: 5_000,
            acknowledgement: Some(1_001),
            syn: true,
            options: SYN_OPTIONS.to_vec(),
            ..Tcp::new(self.server, self.client)
        };
        let ack = Tcp { sequence: 1_001, acknowledgement: Some(5_001), ..Tcp::new(self.client, self.server) };
        let second = self.at + self.to_server;
        [(self.at, syn), (second, answer), (second + self.to_client, ack)]
    }
}

/// A transfer from client to server, seen near the client: segments leave in bursts, and the tight link
/// spreads them so that their ACKs, one for every two segments, come `gap` ns apart.
pub(crate) struct Bulk<'a> {
    pub(crate) client: (&'a str, u16),
    pub(crate) server: (&'a str, u16),
    pub(crate) at: u64,
    pub(crate) rtt: u64,
    pub(crate) gap: u64,
    pub(crate) segments: u32,
}

impl Bulk<'_> {
    /// All packets of the transfer with their times, in order.
    pub(crate) fn packets(&self) -> Vec<(u64, Tcp)> {
        const PAYLOAD: u32 = 1_448;
        let handshake = Handshake {
            client: self.client,
            server: self.server,
            at: self.at,
            to_client: 20_000,
            to_server: self.rtt,
        };
        let mut packets = handshake.segments().to_vec();
        let begin = self.at + self.rtt + 100_000;
        for k in 0..self.segments {
            let sent = begin + u64::from(k / 2) * self.gap + u64::from(k % 2) * 1_000;
            let mut data = Tcp::new(self.client, self.server);
            data.sequence = 1_001u32.wrapping_add(k.wrapping_mul(PAYLOAD));
            data.acknowledgement = Some(5_001);
            data.payload = PAYLOAD;
            packets.push((sent, data));
            if k % 2 == 1 {
                let mut ack = Tcp::new(self.server, self.client);
                ack.sequence = 5_001;
                ack.acknowledgement = Some(1_001u32.wrapping_add((k + 1).wrapping_mul(PAYLOAD)));
                packets.push((sent + self.rtt, ack));
            }
        }
        packets.sort_by_key(|(at, _)| *at);
        packets
    }

    /// The transfer as a pcap file.
    pub(crate) fn pcap(&self) -> Vec<u8> {
        let mut file = Pcap::new(1);
        for (at, tcp) in self.packets() {
            file.tcp(at, &tcp);
        }
        file.bytes
    }
}
