//! Connections without bytes.

use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;

use headway_arithmetic::flow::{Packet, flag};
use headway_edge::{Limits, Middlebox, Policy, Tracked};
use headway_units::{Instant, Rate, Side};

pub(crate) const MS: u64 = 1_000_000;
/// Sides of the middlebox.
pub(crate) const LAN: u8 = 0;
pub(crate) const WAN: u8 = 1;
/// The payload of a full segment.
pub(crate) const MSS: u16 = 1460;

pub(crate) fn at(ms: u64) -> Instant {
    Instant::from_ns(ms * MS)
}

pub(crate) fn mbps(rate: f64) -> [Rate; 2] {
    [Rate::from_mbps(rate); 2]
}

pub(crate) fn policy(text: &str) -> Policy {
    Policy::parse(text, Path::new("edge.toml")).unwrap()
}

/// A middlebox at a link of this many Mb/s.
pub(crate) fn middlebox(text: &str, rate: f64) -> Middlebox {
    Middlebox::new(&policy(text), mbps(rate), Limits::default())
}

/// A connection of a client on the LAN.
#[derive(Clone, Copy)]
pub(crate) struct Connection {
    pub(crate) client: (IpAddr, u16),
    pub(crate) server: (IpAddr, u16),
    /// In ms.
    pub(crate) rtt: u64,
    /// Of both ends.
    pub(crate) scale: Option<u8>,
}

impl Connection {
    /// From this port of the client to that of the server.
    pub(crate) fn new(from: u16, to: u16, rtt: u64, scale: u8) -> Connection {
        Connection {
            client: (IpAddr::V4(Ipv4Addr::new(192, 168, 1, 2)), from),
            server: (IpAddr::V4(Ipv4Addr::new(203, 0, 113, 9)), to),
            rtt,
            scale: Some(scale),
        }
    }

    /// A segment of the client.
    pub(crate) fn up(&self, flags: u8) -> Packet {
        self.segment(flags, self.client, self.server, LAN, [1001, 7001])
    }

    /// One of the server.
    pub(crate) fn down(&self, flags: u8) -> Packet {
        self.segment(flags, self.server, self.client, WAN, [7001, 1001])
    }

    fn segment(
        &self,
        flags: u8,
        source: (IpAddr, u16),
        destination: (IpAddr, u16),
        side: u8,
        numbers: [u32; 2],
    ) -> Packet {
        let mut packet = Packet::between(source, destination);
        [packet.sequence, packet.acknowledgement] = numbers;
        (packet.flags, packet.side, packet.window, packet.mss) = (flags, side, u16::MAX, MSS);
        if flags & flag::SYN != 0 { packet.with_scale(self.scale) } else { packet }
    }

    /// The segments of the handshake, each with the time after the first, in ms.
    pub(crate) fn handshake(&self) -> [(Packet, u64); 3] {
        let mut syn = self.up(flag::SYN);
        let mut answer = self.down(flag::SYN | flag::ACK);
        (syn.sequence, answer.sequence) = (1000, 7000);
        [(syn, 0), (answer, self.rtt / 2), (self.up(flag::ACK), self.rtt)]
    }

    /// Begins at this time in ms, and returns the window of the third segment.
    pub(crate) fn begin(&self, middlebox: &mut Middlebox, ms: u64) -> u16 {
        let mut left = 0;
        for (packet, after) in self.handshake() {
            left = middlebox.on_packet(&packet, at(ms + after));
        }
        left
    }

    /// Ends at this time in ms.
    pub(crate) fn end(&self, middlebox: &mut Middlebox, ms: u64) {
        middlebox.on_packet(&self.down(flag::RST | flag::ACK), at(ms));
    }

    /// What is left of the largest window of an ACK of the client.
    pub(crate) fn window(&self, middlebox: &mut Middlebox, ms: u64) -> u16 {
        middlebox.on_packet(&self.up(flag::ACK), at(ms))
    }

    /// The established connection.
    pub(crate) fn tracked<'m>(&self, middlebox: &'m Middlebox) -> Option<&'m Tracked> {
        let key = *self.up(flag::ACK).key();
        middlebox.connections().find(|(known, _)| **known == key).map(|(_, tracked)| tracked)
    }

    /// Its limit in bytes towards the client.
    pub(crate) fn limit(&self, middlebox: &Middlebox) -> Option<u64> {
        middlebox.limits_of(self.tracked(middlebox).unwrap())[Side::Lan]
    }
}

/// So many connections with the same RTT in ms and scale, which begin.
pub(crate) fn several(
    middlebox: &mut Middlebox,
    count: u16,
    to: u16,
    rtt: u64,
    scale: u8,
) -> Vec<Connection> {
    let begun: Vec<_> = (0..count).map(|number| Connection::new(1 + number, to, rtt, scale)).collect();
    begun.iter().for_each(|connection| {
        connection.begin(middlebox, 0);
    });
    begun
}
