//! TCP connections: both directions, the handshake, and on which side of the path the tap is.

use std::hash::{Hash, Hasher};
use std::net::IpAddr;

use headway_estimate::sabes::{Estimate, Handshake, Segment, Settings, Transfer};
use headway_units::{Duration, Instant, Rate};

use crate::conclude::Peak;
use crate::copies::Places;
use crate::headers::{Endpoint, Tcp};
use crate::path::{Path, Sums, Volume};

/// MSS of packets of 1500 bytes, where no handshake told it.
const DEFAULT_MSS: u16 = 1_460;
/// Largest IP packet on a wire, bytes.
const JUMBO: u32 = 9_000;
/// Who acknowledges data within this time, and took so many times longer to answer a SYN, is a proxy near
/// the tap that asked another host first. Range 1 to 10 ms, and 5 to 20: hosts that wake up take longer for
/// the first packet, too.
const PROXY: Duration = Duration::from_ms(5);
const FARTHER: i64 = 10;
/// ACKs that must advance before a direction counts whose data was not captured.
const ACKS_ONLY: u8 = 10;

/// The two ends of a connection in a fixed order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Key(pub(crate) [Endpoint; 2]);

/// Hashes the bytes of both ends at once: one by one they took a quarter of the time of short connections.
impl Hash for Key {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let [Endpoint { address: a, port: p }, Endpoint { address: b, port: q }] = self.0;
        let ports = u32::from(p) << 16 | u32::from(q);
        match (a, b) {
            (IpAddr::V4(a), IpAddr::V4(b)) => {
                let addresses = u128::from(a.to_bits()) << 32 | u128::from(b.to_bits());
                state.write_u128(addresses << 32 | u128::from(ports));
            }
            // Both ends of a packet have the same version.
            _ => {
                let bytes = [a, b].map(|address| match address {
                    IpAddr::V4(address) => address.to_ipv6_mapped().to_bits(),
                    IpAddr::V6(address) => address.to_bits(),
                });
                state.write_u128(bytes[0]);
                state.write_u128(bytes[1]);
                state.write_u32(ports);
            }
        }
    }
}

impl Key {
    /// Whether both ends are the same host.
    pub(crate) fn is_loopback(&self) -> bool {
        let [one, other] = self.0.map(|end| end.address);
        one == other || one.is_loopback()
    }

    /// Returns the key of a segment, and which end sent it.
    pub(crate) fn of(tcp: &Tcp) -> (Key, usize) {
        // Ports differ in most packets, and compare faster than addresses.
        let order = |end: &Endpoint| (end.port, end.address);
        if order(&tcp.source) <= order(&tcp.destination) {
            (Key([tcp.source, tcp.destination]), 0)
        } else {
            (Key([tcp.destination, tcp.source]), 1)
        }
    }
}

/// How it is known which end of a connection is near the tap.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Evidence {
    /// It is not; the sender of the first data is taken.
    Assumed,
    /// One address is private and the other is not.
    Private,
    /// Other connections of the address.
    Known,
    /// The times of the handshake.
    Handshake,
    /// The capture says which packets its host sent.
    Heading,
    /// The user said so.
    Given,
}

impl Evidence {
    /// Returns the evidence as a name for results, such as `handshake`.
    pub const fn name(self) -> &'static str {
        match self {
            Evidence::Assumed => "assumed",
            Evidence::Private => "private-address",
            Evidence::Known => "other-connections",
            Evidence::Handshake => "handshake",
            Evidence::Heading => "capture",
            Evidence::Given => "given",
        }
    }
}

/// What one end of a connection sends.
#[derive(Debug, Default)]
pub(crate) struct Half {
    /// Where its packets are captured.
    pub(crate) places: Places,
    pub(crate) volume: Volume,
    /// All packets, also those without data.
    pub(crate) packets: u64,
    /// ACKs of this end that advanced while no data of the other end was seen.
    unseen: u8,
    last_acknowledgement: Option<u32>,
    /// The highest sequence number before the first data, and when it passed.
    reached: Option<(u32, Instant)>,
    /// The transfer of its data, from the first data on.
    pub(crate) followed: Option<Box<Followed>>,
}

/// A transfer and its path.
#[derive(Debug)]
pub(crate) struct Followed {
    pub(crate) transfer: Transfer,
    /// The place of the path in the table of paths.
    pub(crate) path: u32,
    /// The sums that have been added to the path.
    pub(crate) added: Sums,
    /// The payload that has had its weight in them.
    weighed: u64,
    pub(crate) estimates: Sum,
    /// The most that passed in a second.
    pub(crate) peak: Peak,
}

impl Followed {
    /// Adds to the path what is new since the last call. What limits the transfer weighs as much as the data
    /// of this time: a connection that hardly carries data says little about its path, however long it lasts.
    pub(crate) fn add_to(&mut self, path: &mut Path) {
        let sums = Sums::of(&self.transfer);
        let acknowledged = self.transfer.acknowledged().get();
        let mut new = sums.since(&self.added);
        if new.weigh_limits((acknowledged - self.weighed) as f64) {
            self.weighed = acknowledged;
        }
        path.sums.merge(&new);
        self.added = sums;
        self.transfer.narrow_link().into_iter().for_each(|capacity| path.learn(capacity));
        self.transfer.look_at_pairs();
        if path.pairs.is_none() || self.transfer.paired() >= path.paired {
            path.paired = self.transfer.paired();
            path.pairs = Some(self.transfer.pair_capacity());
        }
    }
}

/// Sums of the estimates of a transfer.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Sum {
    pub(crate) count: u32,
    rate: f64,
    low: f64,
    high: f64,
    pub(crate) bytes: u64,
}

impl Sum {
    pub(crate) fn add(&mut self, estimate: &Estimate) {
        self.count += 1;
        self.bytes += estimate.bytes.get();
        self.rate += estimate.rate.bps_f64();
        self.low += estimate.low.bps_f64();
        self.high += estimate.high.bps_f64();
    }

    /// Returns the means of rate, lower and upper end.
    pub(crate) fn means(&self) -> Option<[Rate; 3]> {
        let mean = |sum: f64| Rate::from_bps_f64(sum / f64::from(self.count));
        (self.count > 0).then(|| [self.rate, self.low, self.high].map(mean))
    }
}

/// A connection in the table.
#[derive(Debug, Default)]
pub(crate) struct Connection {
    pub(crate) halves: [Half; 2],
    pub(crate) first: Instant,
    pub(crate) last: Instant,
    /// The end that is near the tap.
    pub(crate) near: Option<(usize, Evidence)>,
    handshake: Handshake,
    /// Whether the capturing host forwards its packets, so that their headings do not tell which end is near.
    pub(crate) forwarded: bool,
    /// Whether either end closed or aborted it.
    pub(crate) closed: bool,
    /// The bytes of memory of its transfers, as they are in the sum of all connections.
    pub(crate) counted: usize,
}

impl Connection {
    pub(crate) fn new(at: Instant) -> Connection {
        Connection { first: at, last: at, ..Connection::default() }
    }

    /// Whether a segment opens another connection with the same addresses and ports.
    pub(crate) fn is_reused_by(&self, end: usize, tcp: &Tcp) -> bool {
        let opens = tcp.segment.flags.syn && tcp.segment.acknowledgement.is_none();
        if !opens
            || self.handshake.opening(end).is_some_and(|opening| opening.sequence == tcp.segment.sequence)
        {
            return false;
        }
        // A SYN belongs to the SYN of the other end if that acknowledges it, and was captured first, or,
        // where nothing else was seen of its end, if both ends open the connection (RFC 9293 3.5).
        let is_first = self.halves[end].packets == 0;
        let belongs = self.handshake.opening(1 - end).is_some_and(|other| {
            let beyond = other.acknowledgement.map(|number| number.wrapping_sub(tcp.segment.sequence));
            beyond.map_or(is_first, |beyond| (1..=tcp.segment.payload.saturating_add(1)).contains(&beyond))
        });
        !belongs && (self.closed || self.halves.iter().any(|half| half.packets > 0))
    }

    /// Takes note of the handshake, and of the end that it shows to be near; returns whether
    /// another end was assumed.
    pub(crate) fn shake_hands(&mut self, end: usize, segment: &Segment) -> bool {
        if self.handshake.is_over() {
            return false;
        }
        self.handshake.observe(end, segment);
        let Some(near) = self.handshake.near() else { return false };
        let known = self.near.replace((near, Evidence::Handshake));
        match known {
            Some((_, by)) if by > Evidence::Handshake => {
                self.near = known;
                false
            }
            Some((other, _)) => other != near,
            None => false,
        }
    }

    /// The capturing host received a packet and sent it on, so the headings of packets do not tell which end
    /// is near; returns whether one was taken for it because of them.
    pub(crate) fn forward(&mut self) -> bool {
        self.forwarded = true;
        let by_heading = self.near.is_some_and(|(_, by)| by == Evidence::Heading);
        if by_heading {
            self.near = self.handshake.near().map(|near| (near, Evidence::Handshake));
        }
        by_heading
    }

    /// Data of an end were acknowledged after `time`: if that is far sooner than the handshake was, takes
    /// back what the handshake told. Returns whether a proxy near the tap answers.
    pub(crate) fn answered(&mut self, end: usize, time: Duration) -> bool {
        let Some(shaken) = self.handshake.take_back(end, time) else { return false };
        for (of, half) in self.halves.iter_mut().enumerate() {
            if let Some(followed) = &mut half.followed {
                followed.transfer.take_back(usize::from(of != end), time);
            }
        }
        time <= PROXY && shaken >= time * FARTHER
    }

    /// Counts a packet of an end, and returns its data; `framing` is the link layer's bytes of
    /// every packet on the wire.
    ///
    /// A payload above the MSS was captured before segmentation or after reassembly, and counts as the
    /// packets on the wire. Without a handshake, jumbo frames are possible.
    pub(crate) fn count(&mut self, end: usize, tcp: &Tcp, framing: u64) -> Volume {
        let mss = self.handshake.opening(1 - end).and_then(|opening| opening.mss);
        let half = &mut self.halves[end];
        half.packets += 1;
        if tcp.segment.payload == 0 {
            let ahead = |(number, _): &(u32, Instant)| tcp.segment.sequence.wrapping_sub(*number) as i32 > 0;
            if half.followed.is_none() && !tcp.segment.flags.syn && half.reached.as_ref().is_none_or(ahead) {
                half.reached = Some((tcp.segment.sequence, self.last));
            }
            return Volume::default();
        }
        let largest = u32::from(mss.unwrap_or(DEFAULT_MSS).max(1));
        let oversized = tcp.segment.payload > largest
            && (mss.is_some() || tcp.segment.payload + tcp.segment.headers > JUMBO);
        let packets = if oversized { u64::from(tcp.segment.payload.div_ceil(largest)) } else { 1 };
        let wire = u64::from(tcp.segment.payload) + packets * (u64::from(tcp.segment.headers) + framing);
        half.volume.packets += packets;
        half.volume.wire += wire;
        Volume { packets, wire }
    }

    /// Whether there is reason to follow the data of an end: data, or ACKs of data that was not captured.
    pub(crate) fn begins(&mut self, end: usize, by: usize, tcp: &Tcp) -> bool {
        if self.halves[end].followed.is_some() {
            return false;
        }
        if by == end {
            // Behind data in a SYN the handshake goes on, and tells where the tap is.
            return tcp.segment.payload > 0 && !tcp.segment.flags.syn;
        }
        let acks = &mut self.halves[1 - end];
        if let Some(acknowledgement) = tcp.segment.acknowledgement
            && !tcp.segment.flags.syn
        {
            let last = acks.last_acknowledgement.replace(acknowledgement);
            let advanced = last.is_some_and(|last| (acknowledgement.wrapping_sub(last) as i32) > 0);
            acks.unseen = acks.unseen.saturating_add(u8::from(advanced));
        }
        acks.unseen >= ACKS_ONLY
    }

    /// Starts to follow the data of an end on the path at a place of the table of paths.
    pub(crate) fn begin(&mut self, end: usize, settings: &Settings, path: u32) {
        let mut transfer = Transfer::after(settings, &self.handshake, end);
        self.halves[end].reached.into_iter().for_each(|(number, at)| transfer.reach(number, at));
        let (added, weighed, estimates, peak) = Default::default();
        self.halves[end].followed =
            Some(Box::new(Followed { transfer, path, added, weighed, estimates, peak }));
    }

    /// Whether packets of one end only were captured, and not only attempts to connect.
    pub(crate) fn is_one_way(&self) -> bool {
        let [a, b] = [&self.halves[0], &self.halves[1]];
        (a.packets == 0 || b.packets == 0)
            && (a.volume.packets + b.volume.packets > 0 || a.packets + b.packets > 9)
    }

    /// Returns the bytes of memory that both transfers use.
    pub(crate) fn memory(&self) -> usize {
        let followed = self.halves.iter().flat_map(|half| &half.followed);
        followed
            .map(|followed| size_of::<Followed>() - size_of::<Transfer>() + followed.transfer.memory())
            .sum()
    }
}
