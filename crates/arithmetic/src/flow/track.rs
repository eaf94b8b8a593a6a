//! Handshakes and established connections.

use super::{NO_SCALE, Packet};

/// How long a SYN may take to be answered, in ns.
pub const HALF_OPEN: u64 = 127_000_000_000;
/// Largest RTT of a handshake, in ns.
pub const LARGEST_RTT: u64 = 60_000_000_000;
/// How far sequence numbers of resets and FINs may be from the expected ones, in bytes.
pub const NEAR: u32 = 1 << 26;

/// RTTs of periods and seconds are kept in 2^8 ns.
const RTT_UNIT: u32 = 8;
/// What stands for an RTT that is not known.
const NO_RTT: u32 = u32::MAX;
/// A second is 2^30 ns.
const SECOND: u32 = 30;
/// By how much the queues of both directions together may be longer than that of the RTT, in ns, besides a part of it: timestamps of whole
/// milliseconds, and clocks that differ by 50 parts per million for a minute. Range 2 to 5 ms.
const CLOCKS_DIFFER: u64 = 4_000_000;

/// What to do with a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Kind {
    /// It may begin a handshake: [`Half::begin`] or [`Half::on_syn`].
    Ask = 0,
    /// It may answer one: [`Half::on_answer`].
    Answer = 1,
    /// It may complete one, [`Half::on_third`], or is of an established connection, [`Flow::on_segment`].
    Later = 2,
}

/// A connection in its handshake.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Half {
    first_ask: u64,
    last_ask: u64,
    first_answer: u64,
    last_answer: u64,
    asked: u32,
    answered: u32,
    data: u32,
    stamp: u32,
    mss: [u16; 2],
    scale: [u8; 2],
    client: u8,
    side: u8,
    dscp: u8,
    stage: u8,
    stamped: u8,
    unused: [u8; 5],
}

/// The least of a time that varies, in two periods and in two seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
struct Least {
    period: [u32; 2],
    recent: [u32; 2],
    second: u32,
}

/// What is known of the RTT between the middlebox and one end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[repr(C)]
struct Echo {
    marked: u64,
    mark: u32,
    newest: u32,
    rtt: Least,
    waits: u8,
    began: u8,
    unused: [u8; 2],
}

/// One-way delays between the middlebox and the end on side 1.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[repr(C)]
struct Delays {
    way: [Least; 2],
    clock: u32,
    began: u32,
}

/// The RTT between a middlebox and one end of a connection, in ns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Standing {
    /// The least of the last second or two, of which the former is whole.
    pub recent: u64,
    /// The least of this period and the one before, without a queue.
    pub least: u64,
}

/// An established connection.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Flow {
    rtt: u64,
    seen: u64,
    acknowledged: [u32; 2],
    edge: [u32; 2],
    /// For the owner.
    pub class: u32,
    mss: [u16; 2],
    told: [u16; 2],
    scale: [u8; 2],
    client: u8,
    dscp: u8,
    closed: u8,
    has_edge: u8,
    ambiguous: u8,
    side: u8,
    period: u32,
    echo: [Echo; 2],
    delays: Delays,
}

unsafe extern "C" {
    safe fn headway_flow_on_syn(half: &mut Half, known: i32, packet: &Packet, now: u64) -> i32;
    safe fn headway_flow_on_answer(half: &mut Half, packet: &Packet, now: u64) -> i32;
    safe fn headway_flow_on_third(
        half: &Half,
        packet: &Packet,
        now: u64,
        previous: u64,
        flow: &mut Flow,
    ) -> i32;
    safe fn headway_flow_on_segment(flow: &mut Flow, packet: &Packet, now: u64) -> i32;
    safe fn headway_flow_follow_rtt(flow: &mut Flow, packet: &Packet, period: u32, now: u64);
    safe fn headway_rwm_window(flow: &mut Flow, packet: &Packet, bytes: u64, no_shrink: i32) -> u32;
}

impl Least {
    /// Returns the least of the last second or two, and that of both periods; none where either is not known.
    fn recent(&self, now: u64) -> Option<[u32; 2]> {
        let age = ((now >> SECOND) as u32).wrapping_sub(self.second);
        // A second that has just begun may have met no queue by chance, one that is over has not.
        let whole = match age {
            0 => self.recent[1],
            1 => self.recent[0],
            _ => NO_RTT,
        };
        let least = self.period[0].min(self.period[1]);
        let recent = if age == 0 { whole.min(self.recent[0]) } else { whole };
        (whole != NO_RTT && least != NO_RTT).then_some([recent, least])
    }
}

impl Half {
    /// Begins a handshake with a SYN; none if its two ends are the same.
    pub fn begin(packet: &Packet, now: u64) -> Option<Half> {
        let mut half = Half::default();
        (headway_flow_on_syn(&mut half, 0, packet, now) != 0).then_some(half)
    }

    /// Notes a SYN between ends for which there is a handshake: a repeated one, one of the other end, or one that begins
    /// another connection.
    pub fn on_syn(&mut self, packet: &Packet, now: u64) {
        headway_flow_on_syn(self, 1, packet, now);
    }

    /// Notes a SYN-ACK; returns whether it answers, so that an older connection between the same ends does not exist any more.
    pub fn on_answer(&mut self, packet: &Packet, now: u64) -> bool {
        headway_flow_on_answer(self, packet, now) != 0
    }

    /// Returns the connection that a segment completes; `previous` is an earlier RTT between the same hosts in ns, or 0.
    pub fn on_third(&self, packet: &Packet, now: u64, previous: u64) -> Option<Flow> {
        let mut flow = Flow::default();
        (headway_flow_on_third(self, packet, now, previous, &mut flow) != 0).then_some(flow)
    }
}

impl Flow {
    /// Notes a segment; returns whether the connection ends with it.
    pub fn on_segment(&mut self, packet: &Packet, now: u64) -> bool {
        headway_flow_on_segment(self, packet, now) != 0
    }

    /// Measures the RTT by the timestamps of a segment that [`Flow::on_segment`] has noted: from then on it is the least of this
    /// period and of the one before. Connections without timestamps keep that of their handshake.
    pub fn follow_rtt(&mut self, packet: &Packet, period: u32, now: u64) {
        headway_flow_follow_rtt(self, packet, period, now);
    }

    /// Returns the window field with which a segment is to leave, with a limit in bytes. With `no_shrink`, the highest sequence
    /// number that its end allows does not move back.
    pub fn window(&mut self, packet: &Packet, bytes: u64, no_shrink: bool) -> u16 {
        // The function never returns more than the window of the packet.
        headway_rwm_window(self, packet, bytes, no_shrink.into()) as u16
    }

    /// Returns the RTT in ns, at least 1; none if it could not be measured. It is that of the handshake, unless
    /// [`Flow::follow_rtt`] has measured it since.
    pub fn rtt(&self) -> Option<u64> {
        Some(self.rtt).filter(|rtt| *rtt > 0)
    }

    /// Returns the RTT between the middlebox and the far end from an end, 0 or 1, as it was in the last second and without a queue; none
    /// where [`Flow::follow_rtt`] has not measured it all that time.
    pub fn standing(&self, end: usize, now: u64) -> Option<Standing> {
        let [recent, least] = self.echo[end & 1].rtt.recent(now)?.map(|rtt| u64::from(rtt) << RTT_UNIT);
        Some(Standing { recent, least })
    }

    /// Returns by how much the delays from the end on side 1 and towards it, in ns, were longer in the last second than without a queue:
    /// the queues in both directions. None where that end's timestamps do not count milliseconds, or [`Flow::follow_rtt`] has not measured
    /// all that time.
    pub fn queues(&self, now: u64) -> Option<[u64; 2]> {
        let Standing { recent, least } = self.standing(self.end_on(0), now)?;
        let queue = recent.saturating_sub(least);
        // Without a handshake and before a period has passed, nobody knows a delay without a queue.
        let ways = self.delays.way.each_ref().map(|way| way.recent(now).filter(|_| way.period[1] != NO_RTT));
        let [from, towards] =
            [ways[0]?, ways[1]?].map(|[recent, least]| u64::from(recent.saturating_sub(least)) * 1000);
        // Both together may be less: one direction may have had a queue while the other one had none.
        (from + towards <= queue + queue / 4 + CLOCKS_DIFFER).then_some([from, towards])
    }

    /// Returns whether the RTT is one of several: a SYN or SYN-ACK was repeated.
    pub const fn is_ambiguous(&self) -> bool {
        self.ambiguous != 0
    }

    /// Returns the time of the latest packet in ns, which may be up to 0.1 s late.
    pub const fn seen(&self) -> u64 {
        self.seen
    }

    /// Returns the scale of the window of an end, 0 or 1; none for both if windows must not be changed.
    pub fn scale(&self, end: usize) -> Option<u8> {
        Some(self.scale[end & 1]).filter(|scale| *scale != NO_SCALE)
    }

    /// Returns the window that an end, 0 or 1, has told last, in bytes; none if windows must not be changed.
    pub fn told(&self, end: usize) -> Option<u32> {
        self.scale(end).map(|scale| u32::from(self.told[end & 1]) << scale)
    }

    /// Returns the window of an end, 0 or 1, that passes with a limit in bytes, rounded down; none if windows must not be changed. One of
    /// few units is rounded up now and then, see [`rounded`](crate::rwm::rounded).
    pub fn let_through(&self, end: usize, bytes: u64) -> Option<u32> {
        let scale = self.scale(end)?;
        let field = self.told[end & 1].min(crate::rwm::field(bytes, scale, self.segment()));
        Some(u32::from(field) << scale)
    }

    /// Returns the sequence number that an end, 0 or 1, has acknowledged last: how fast it grows is how fast that end gets data.
    pub const fn acknowledged(&self, end: usize) -> u32 {
        self.acknowledged[end & 1]
    }

    /// Returns the largest segment between the ends, in bytes.
    pub fn segment(&self) -> u16 {
        self.mss[0].min(self.mss[1])
    }

    /// Returns the end that sent the SYN, 0 or 1.
    pub const fn client(&self) -> usize {
        (self.client & 1) as usize
    }

    /// Returns the side, 0 or 1, on which that end is.
    pub const fn side(&self) -> usize {
        (self.side & 1) as usize
    }

    /// Returns the end, 0 or 1, that is on a side, 0 or 1.
    pub const fn end_on(&self, side: usize) -> usize {
        self.client() ^ ((self.side() != side & 1) as usize)
    }

    /// Returns the differentiated services code point of the SYN.
    pub const fn dscp(&self) -> u8 {
        self.dscp
    }
}
