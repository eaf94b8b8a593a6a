//! Middleboxes, which hold flows at the receive window.
//!
//! Like a tap, a middlebox is a station of the routes of its flows. It sees bytes, ports and scaled windows,
//! and the packets of both directions in order of time, so that a network with one is not divided.

use std::net::{IpAddr, Ipv6Addr};

use headway_arithmetic::flow::{Packet as Seen, flag};
use headway_edge::{Limits, Middlebox, Monitor, Noted, Policy, TOLD};
use headway_units::{Duration, Instant, PerSide, Rate, Side};

use super::echoes::Echoes;
use super::free::{Free, Waits};
use super::{Network, number};
use crate::config::{LinkId, MiddleboxId, Passage, TcpConfig};
use crate::packet::{Kind, Packet, REPORT};
use crate::tap::{SENDER_SCALE, field, largest_segment, receiver_scale};

/// How often connections are looked for that were silent for too long.
const EXPIRE_EVERY: Duration = Duration::from_ms(10_000);
/// How often paired middleboxes tell each other something, and how long that is on its way: longer than on
/// most links.
const TELLS_EVERY: Duration = Duration::from_ms(1_000);
const TELLS_AFTER: Duration = Duration::from_ms(100);
/// Sequence number of the first byte of data of both ends; those of their SYNs are one less.
const FIRST: u32 = 1;

/// What has passed a middlebox since its beginning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MiddleboxCounts {
    /// Connections that began.
    pub begun: u64,
    /// Those that have ended.
    pub ended: u64,
    /// ACKs.
    pub acks: u64,
    /// ACKs whose window was lowered.
    pub lowered: u64,
}

#[derive(Debug)]
struct Station {
    middlebox: Middlebox,
    counts: MiddleboxCounts,
    expired: Instant,
    /// What is free towards each side, where that is followed.
    free: Option<PerSide<Free>>,
    /// Where it coordinates with another one.
    peer: Option<Letters>,
}

/// What a middlebox and the one at the other end of the link tell each other.
#[derive(Debug)]
struct Letters {
    /// The other one.
    peer: u32,
    /// When this one is to tell it something.
    due: Instant,
    /// What has come from it, and when that arrives.
    letter: Option<(Instant, Box<[u8; TOLD]>)>,
}

/// A flow as middleboxes see it.
#[derive(Clone, Debug)]
struct Connection {
    /// A segment and an ACK, as far as all are the same.
    segment: Seen,
    ack: Seen,
    mss: u32,
    /// The scale of the receiver's windows.
    scale: u8,
    passages: Vec<Passage>,
    /// Of the middlebox of each passage.
    echoes: Vec<Echoes>,
    /// How long its segments waited before each of them.
    waits: Vec<Waits>,
}

/// The middleboxes of a network, and the flows that pass one.
#[derive(Debug, Default)]
pub(super) struct Middleboxes {
    stations: Vec<Station>,
    /// By number of the flow.
    connections: Vec<Option<Connection>>,
    /// Connections so far.
    begun: u64,
}

impl Middleboxes {
    /// Has a middlebox tell what is due, and hear what has arrived.
    fn exchange(&mut self, now: Instant, place: usize) {
        let Station { middlebox, peer: Some(letters), .. } = &mut self.stations[place] else { return };
        let Some(peer) = middlebox.monitor().and_then(Monitor::peer) else { return };
        if let Some((_, told)) = letters.letter.take_if(|(at, _)| *at <= now) {
            peer.hear(now, &told);
        }
        if letters.due > now {
            return;
        }
        letters.due = now + TELLS_EVERY;
        let (told, to) = (Box::new(peer.message()), letters.peer as usize);
        if let Some(Letters { letter, .. }) = &mut self.stations[to].peer {
            *letter = Some((now + TELLS_AFTER, told));
        }
    }

    pub(super) fn memory(&self) -> usize {
        let free = self.stations.iter().filter_map(|station| station.free.as_ref()).flat_map(|free| &free.0);
        self.stations.len() * size_of::<Station>()
            + free.map(Free::memory).sum::<usize>()
            + self.connections.capacity() * size_of::<Option<Connection>>()
    }
}

/// Returns the address of a host at a link, the same for all connections with these numbers.
fn host(link: Option<&LinkId>, number: u64) -> IpAddr {
    let link = link.map_or(0, |link| u128::from(link.0) + 1);
    IpAddr::V6(Ipv6Addr::from_bits(0xfd00 << 112 | link << 64 | u128::from(number)))
}

impl Connection {
    /// Returns connection `number` of its network.
    fn new(config: &TcpConfig, number: u64) -> Connection {
        // Connections that begin or end at one link are of one host. Numbers that do not fit into a port
        // continue in the address.
        let sender = (host(config.forward.first(), 2 * (number >> 16)), number as u16);
        let receiver = (host(config.forward.last(), 1), config.port);
        Connection {
            segment: Seen::between(sender, receiver),
            ack: Seen::between(receiver, sender),
            mss: config.mss,
            scale: receiver_scale(config),
            passages: config.middleboxes.clone(),
            echoes: vec![Echoes::default(); config.middleboxes.len()],
            waits: vec![Waits::default(); config.middleboxes.len()],
        }
    }

    /// Returns the sequence number of the first byte of a segment.
    fn number(&self, segment: u64) -> u32 {
        FIRST.wrapping_add((segment * u64::from(self.mss)) as u32)
    }

    /// Returns what a middlebox sees of a packet; none of one that is not of TCP. `window` is that of an ACK
    /// in segments, and `ends` says whether its data are the last, or acknowledged to the last.
    fn see(&self, packet: &Packet, window: u32, ends: bool) -> Option<Seen> {
        let mut seen = if matches!(packet.kind, Kind::Ack | Kind::SynAck) { self.ack } else { self.segment };
        (seen.sequence, seen.acknowledgement, seen.window) = (FIRST, FIRST, u16::MAX);
        seen.flags = if ends { flag::ACK | flag::FIN } else { flag::ACK };
        match packet.kind {
            Kind::Syn | Kind::SynAck => {
                let asks = packet.kind == Kind::Syn;
                seen.sequence = FIRST - 1;
                seen.flags = if asks { flag::SYN } else { flag::SYN | flag::ACK };
                seen.mss = largest_segment(self.mss);
                seen = seen.with_scale(Some(if asks { SENDER_SCALE } else { self.scale }));
            }
            Kind::HandshakeAck => seen.flags = flag::ACK,
            Kind::Segment => (seen.sequence, seen.data) = (self.number(packet.seq), self.mss),
            Kind::Ack => {
                seen.acknowledgement = self.number(packet.seq);
                seen.window = field(window, self.mss, self.scale);
            }
            Kind::Datagram | Kind::Probe | Kind::Train | Kind::Damaged => return None,
        }
        Some(seen)
    }
}

impl Network {
    /// Adds a middlebox that holds connections at the receive window, at a link with these rates towards
    /// its two sides, or at one whose rates it is to find; [`TcpConfig::middleboxes`] says which flows
    /// pass it. Where the policy follows what is free on paths, all connections towards a side count as
    /// on one path (wan 2.2).
    pub fn add_middlebox(&mut self, policy: &Policy, rates: Option<impl Into<PerSide<Rate>>>) -> MiddleboxId {
        let rates = rates.map(Into::into);
        let id = number(self.middleboxes.stations.len());
        let capacity = policy.capacity(rates);
        let middlebox = Middlebox::new(policy, capacity, Limits::default());
        self.middleboxes.stations.push(Station {
            middlebox: match policy.follows_rtt() {
                true => middlebox.with_monitor(Monitor::new(policy, rates)),
                false => middlebox,
            },
            counts: MiddleboxCounts::default(),
            expired: Instant::ZERO,
            peer: None,
            free: policy.follow_available.then(|| capacity.map(Free::new)),
        });
        self.constraints.indivisible();
        self.topology_changed = true;
        MiddleboxId(id)
    }

    /// Has a middlebox, whose policy follows RTTs and whose rates are known, tell another one once a second
    /// what shares the link, and hear the same from it, if that is paired with it, too.
    pub fn pair_middleboxes(&mut self, middlebox: MiddleboxId, peer: MiddleboxId) {
        let station = &mut self.middleboxes.stations[middlebox.0 as usize];
        station.peer = Some(Letters { peer: peer.0, due: Instant::ZERO, letter: None });
        station.middlebox.coordinate();
    }

    /// Returns the latest decisions of a middlebox, the oldest first.
    pub fn decisions(&self, middlebox: MiddleboxId) -> impl Iterator<Item = &Noted> {
        self.middleboxes.stations[middlebox.0 as usize].middlebox.noted()
    }

    /// Returns what has passed a middlebox.
    pub fn middlebox_counts(&self, middlebox: MiddleboxId) -> MiddleboxCounts {
        let station = &self.middleboxes.stations[middlebox.0 as usize];
        let counts = station.middlebox.counts();
        MiddleboxCounts { begun: counts.begun, ended: counts.ended, ..station.counts }
    }

    /// Notes how middleboxes see the flow that has this number from now on.
    pub(super) fn note_connection(&mut self, flow: u32, config: &TcpConfig) {
        let place = flow as usize;
        if !config.meets_middlebox() && place >= self.middleboxes.connections.len() {
            return;
        }
        let middleboxes = &mut self.middleboxes;
        if place >= middleboxes.connections.len() {
            middleboxes.connections.resize(place + 1, None);
        }
        middleboxes.connections[place] =
            config.meets_middlebox().then(|| Connection::new(config, middleboxes.begun));
        middleboxes.begun += 1;
    }

    /// Notes that the receiver of a flow sends an ACK, or a SYN-ACK.
    pub(super) fn note_reply(&mut self, flow: usize, ack: &Packet) {
        if let Some(Some(connection)) = self.middleboxes.connections.get_mut(flow) {
            let now = self.queues.now;
            connection.echoes.iter_mut().for_each(|echoes| echoes.on_reply(now, ack));
        }
    }

    /// Notes that an ACK of a flow has reached its sender.
    pub(super) fn note_ack(&mut self, flow: usize, ack: &Packet) {
        if let Some(Some(connection)) = self.middleboxes.connections.get_mut(flow) {
            let now = self.queues.now;
            connection.echoes.iter_mut().for_each(|echoes| echoes.on_ack(now, ack));
        }
    }

    /// Passes a packet on at a middlebox, with a lower window if it is an ACK that is to have one.
    pub(super) fn pass_middlebox(&mut self, middlebox: u32, mut packet: Packet) {
        if self.is_current(&packet)
            && let Some(window) = self.window_behind(middlebox, &packet)
        {
            match packet.has(REPORT) {
                true => self.reports.get_mut(packet.extra).window = window,
                false => packet.extra = window,
            }
        }
        self.forward(&packet);
    }

    /// Tells a middlebox of a packet; returns the window in segments with which it leaves, if that is lower.
    fn window_behind(&mut self, middlebox: u32, packet: &Packet) -> Option<u32> {
        let flow = packet.owner as usize;
        self.middleboxes.exchange(Instant::from_ns(self.queues.now), middlebox as usize);
        let connection = self.middleboxes.connections.get_mut(flow)?.as_mut()?;
        let place = connection.passages.iter().position(|passage| passage.middlebox.0 == middlebox)?;
        let is_ack = packet.kind == Kind::Ack;
        let (window, sacked) = match packet.has(REPORT) {
            true => {
                let report = self.reports.get(packet.extra);
                (report.window, report.ascending().map(|(first, end)| end - first).sum())
            }
            false => (packet.extra, 0_u32),
        };
        let behind = packet.seq + u64::from(!is_ack);
        let mut seen =
            connection.see(packet, window, self.senders[flow].is_whole(self.queues.now, behind))?;
        let is_from_receiver = is_ack || packet.kind == Kind::SynAck;
        seen.sacked = if is_ack { sacked * connection.mss } else { 0 };
        seen.side = connection.passages[place].sender_side ^ u8::from(is_from_receiver);
        if let Some(stamps) = connection.echoes[place].of(packet) {
            seen = seen.with_timestamps(stamps);
        }
        let (mss, scale) = (connection.mss, connection.scale);
        let now = Instant::from_ns(self.queues.now);
        let Station { middlebox, counts, expired, free, .. } =
            &mut self.middleboxes.stations[middlebox as usize];
        if packet.kind == Kind::Syn && now - *expired > EXPIRE_EVERY {
            middlebox.expire(now);
            *expired = now;
        }
        let left = middlebox.on_packet(&seen, now);
        if !is_ack {
            // The windows of senders limit nothing here: receivers send no data.
            return None;
        }
        counts.acks += 1;
        if let Some(free) = free {
            let waits = &mut connection.waits[place];
            if let Some(passed) = waits.on_ack(self.queues.now, packet, mss, middlebox.period().unwrap_or(0))
            {
                let side = Side::of(seen.side);
                free[side].set_available(middlebox, side, &passed);
            }
        }
        // Linux sends whole segments.
        let segments = (u64::from(left) << scale) / u64::from(mss);
        (left < seen.window).then(|| {
            counts.lowered += 1;
            (segments as u32).min(window)
        })
    }
}
