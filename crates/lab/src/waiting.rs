//! The packets in a queue whose departure has not been judged yet.

use std::collections::VecDeque;

use headway_core::explicit::Header;
use headway_core::queue::CLASSES;
use headway_core::{Bytes, Instant};

/// A frame of a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostFrame {
    /// Its number.
    pub number: u32,
    /// Whether it carries TCP.
    pub is_tcp: bool,
}

/// A packet that waits.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Packet {
    /// When it arrived.
    pub(crate) arrived: Instant,
    /// On the wire.
    pub(crate) size: Bytes,
    /// Whether it is ECN-capable.
    pub(crate) ect: bool,
    /// Whether it was marked CE on arrival.
    pub(crate) marked: bool,
    pub(crate) header: Option<Header>,
    /// Of a packet with a header.
    pub(crate) flow: Option<u32>,
    /// A host's frame; `None` for cross traffic.
    pub(crate) frame: Option<HostFrame>,
}

/// Waiting packets by class; a discipline without classes has all in the first.
#[derive(Clone, Debug, Default)]
pub(crate) struct Waiting {
    lines: [Line; CLASSES],
    /// Bytes and packets in all of them.
    bytes: u64,
    packets: usize,
    /// Packets so far, which orders those of different classes.
    arrivals: u64,
}

impl Waiting {
    /// Adds a packet behind the others of its class.
    #[inline]
    pub(crate) fn push(&mut self, class: usize, packet: Packet) {
        self.arrivals += 1;
        self.bytes += packet.size.get();
        self.packets += 1;
        self.lines[class].push(self.arrivals, packet);
    }

    /// Removes the first packet of a class.
    pub(crate) fn pop(&mut self, class: usize) -> Option<Packet> {
        let packet = self.lines[class].pop()?;
        self.bytes -= packet.size.get();
        self.packets -= 1;
        Some(packet)
    }

    /// Returns the bytes that wait.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns how many packets wait.
    pub(crate) fn len(&self) -> usize {
        self.packets
    }

    /// Returns the sizes of the first packets of all classes.
    pub(crate) fn first_sizes(&self) -> [Option<Bytes>; CLASSES] {
        self.lines.each_ref().map(|line| line.packets.front().map(|(_, packet)| packet.size))
    }

    /// Returns when the packet that has waited longest arrived.
    #[inline]
    pub(crate) fn oldest(&self) -> Option<Instant> {
        let first = |line: &Line| line.packets.front().map(|(_, packet)| packet.arrived);
        if self.lines[0].packets.len() == self.packets {
            return first(&self.lines[0]);
        }
        self.lines.iter().filter_map(first).min()
    }

    /// Whether a host's packet waits.
    pub(crate) fn has_host(&self) -> bool {
        self.lines.iter().any(|line| line.first_host.is_some())
    }

    /// Returns the bytes of cross traffic before the first packet of a host in the first class, and the size of that packet;
    /// `None` if there is none.
    pub(crate) fn first_host(&self) -> Option<(Bytes, Bytes)> {
        self.lines[0].first_host.map(|(before, size)| (Bytes::new(before), size))
    }

    /// Returns all packets in order of arrival.
    pub(crate) fn in_order(&self) -> Vec<Packet> {
        let mut packets: Vec<&(u64, Packet)> = self.lines.iter().flat_map(|line| &line.packets).collect();
        packets.sort_unstable_by_key(|(arrival, _)| *arrival);
        packets.into_iter().map(|(_, packet)| *packet).collect()
    }
}

/// Waiting packets of a class, each with its number among the arrivals.
#[derive(Clone, Debug, Default)]
struct Line {
    packets: VecDeque<(u64, Packet)>,
    /// Bytes of all of them.
    total: u64,
    /// Bytes of the cross traffic before the first host packet, and of that packet; `None` if no host packet waits.
    first_host: Option<(u64, Bytes)>,
}

impl Line {
    fn push(&mut self, arrival: u64, packet: Packet) {
        if packet.frame.is_some() {
            self.first_host.get_or_insert((self.total, packet.size));
        }
        self.total += packet.size.get();
        self.packets.push_back((arrival, packet));
    }

    fn pop(&mut self) -> Option<Packet> {
        let (_, packet) = self.packets.pop_front()?;
        self.total -= packet.size.get();
        match (packet.frame, &mut self.first_host) {
            (None, Some((before, _))) => *before -= packet.size.get(),
            (None, None) => {}
            (Some(_), _) => self.first_host = self.find_host(),
        }
        Some(packet)
    }

    /// Looks at each packet of cross traffic once in its life, because it stops at the next host packet.
    fn find_host(&self) -> Option<(u64, Bytes)> {
        let mut before = 0;
        for (_, packet) in &self.packets {
            if packet.frame.is_some() {
                return Some((before, packet.size));
            }
            before += packet.size.get();
        }
        None
    }
}
