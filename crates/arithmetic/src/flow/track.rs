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
/// By how much the queues of both directions together may be longer than twice that of the RTT, in
/// ns: timestamps of whole milliseconds, and clocks that differ by 50 parts per million for a
/// minute. Range 2 to 10 ms.
const CLOCKS_DIFFER: u64 = 5_000_000;

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

/// The least of a time that varies, in two periods, and sums of all that were measured, which wrap.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
struct Least {
    period: [u32; 2],
    total: u64,
    samples: u32,
    some: u32,
    rest: u32,
    means: u32,
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
struct Ways {
    way: [Least; 2],
    clock: u32,
    began: u32,
}

/// Times that were measured of a connection until a look.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Times {
    /// Of the two ends.
    echoes: [Least; 2],
    /// From the end on side 1, and towards it.
    ways: [Least; 2],
}

/// What RTTs and delays a connection had between two looks, in ns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delays {
    /// The mean RTT.
    pub rtt: u64,
    /// The least RTT of this period and the one before.
    pub least: u64,
    /// By how much the means of the delays from the end on side 1 and towards it were longer than the least
    /// ones: the queues in both directions. None where that end's timestamps do not count milliseconds.
    pub queues: Option<[u64; 2]>,
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
    delays: Ways,
}

unsafe extern "C" {
    safe fn flow_on_syn(half: &mut Half, known: i32, packet: &Packet, now: u64) -> i32;
    safe fn flow_on_answer(half: &mut Half, packet: &Packet, now: u64) -> i32;
    safe fn flow_on_third(half: &Half, packet: &Packet, now: u64, previous: u64, flow: &mut Flow) -> i32;
    safe fn flow_on_segment(flow: &mut Flow, packet: &Packet, now: u64) -> i32;
    safe fn flow_on_stamps(flow: &mut Flow, packet: &Packet) -> u32;
    safe fn flow_measure(flow: &mut Flow, packet: &Packet, measures: u32, period: u32, now: u64);
    safe fn rwm_window(flow: &mut Flow, packet: &Packet, bytes: u64, no_shrink: i32) -> u32;
}

impl Least {
    /// Returns the least of both periods; none where it is not known.
    fn least(&self) -> Option<u64> {
        Some(self.period[0].min(self.period[1])).filter(|least| *least != NO_RTT).map(u64::from)
    }

    /// Returns the mean since an earlier state; none where nothing was measured, or all was forgotten.
    fn mean(&self, before: &Least) -> Option<u64> {
        let samples = self.samples.wrapping_sub(before.samples);
        let is_some = (1..=u32::MAX / 2).contains(&samples);
        is_some.then(|| self.total.wrapping_sub(before.total) / u64::from(samples))
    }
}

impl Half {
    /// Begins a handshake with a SYN; none if its two ends are the same.
    pub fn begin(packet: &Packet, now: u64) -> Option<Half> {
        let mut half = Half::default();
        (flow_on_syn(&mut half, 0, packet, now) != 0).then_some(half)
    }

    /// Notes a SYN between ends for which there is a handshake: a repeated one, one of the other end, or one
    /// that begins another connection.
    pub fn on_syn(&mut self, packet: &Packet, now: u64) {
        flow_on_syn(self, 1, packet, now);
    }

    /// Notes a SYN-ACK; returns whether it answers, so that an older connection between the same ends
    /// does not exist any more.
    pub fn on_answer(&mut self, packet: &Packet, now: u64) -> bool {
        flow_on_answer(self, packet, now) != 0
    }

    /// Returns the connection that a segment completes; `previous` is an earlier RTT between the
    /// same hosts in ns, or 0.
    pub fn on_third(&self, packet: &Packet, now: u64, previous: u64) -> Option<Flow> {
        let mut flow = Flow::default();
        (flow_on_third(self, packet, now, previous, &mut flow) != 0).then_some(flow)
    }
}

impl Flow {
    /// Notes a segment; returns whether the connection ends with it.
    pub fn on_segment(&mut self, packet: &Packet, now: u64) -> bool {
        flow_on_segment(self, packet, now) != 0
    }

    /// Measures the RTT by the timestamps of a segment that [`Flow::on_segment`] has noted: from then
    /// on it is the least of this period and of the one before. Connections without timestamps keep
    /// that of their handshake.
    pub fn follow_rtt(&mut self, packet: &Packet, period: u32, now: u64) {
        let measures = flow_on_stamps(self, packet);
        flow_measure(self, packet, measures, period, now);
    }

    /// Returns the window field with which a segment is to leave, with a limit in bytes. With `no_shrink`,
    /// the highest sequence number that its end allows does not move back.
    pub fn window(&mut self, packet: &Packet, bytes: u64, no_shrink: bool) -> u16 {
        // The function never returns more than the window of the packet.
        rwm_window(self, packet, bytes, no_shrink.into()) as u16
    }

    /// Returns the RTT in ns, at least 1; none if it could not be measured. It is that of the handshake,
    /// unless [`Flow::follow_rtt`] has measured it since.
    pub fn rtt(&self) -> Option<u64> {
        Some(self.rtt).filter(|rtt| *rtt > 0)
    }

    /// Returns what was measured until now, for [`Flow::delays`].
    pub fn times(&self) -> Times {
        Times { echoes: self.echo.each_ref().map(|echo| echo.rtt), ways: self.delays.way }
    }

    /// Returns the RTT and the queues since an earlier look; none where [`Flow::follow_rtt`] has not measured
    /// the far end since. The end on side 0 counts as it was where it has answered nothing.
    pub fn delays(&self, before: &Times) -> Option<Delays> {
        let times = self.times();
        // What the end on the side of the hosts sends is echoed from beyond the link.
        let (far, near) = (self.end_on(0), self.end_on(1));
        let least = [far, near].map(|end| times.echoes[end].least().unwrap_or(0));
        let mean = [far, near].map(|end| times.echoes[end].mean(&before.echoes[end]));
        let rtt = (mean[0]? + mean[1].unwrap_or(least[1])) << RTT_UNIT;
        let least = (least[0] + least[1]) << RTT_UNIT;
        Some(Delays { rtt, least, queues: self.queues(before, rtt.saturating_sub(least)) })
    }

    /// Returns the queues of both directions, where they agree with that of the RTT.
    fn queues(&self, before: &Times, queue: u64) -> Option<[u64; 2]> {
        let of = |way: usize| {
            let (now, before) = (&self.delays.way[way], &before.ways[way]);
            // Without a handshake and before a period has passed, no delay without a queue is known.
            let least = now.least().filter(|_| now.period[1] != NO_RTT)?;
            Some(now.mean(before)?.saturating_sub(least) * 1000)
        };
        let (from, towards) = (of(0)?, of(1)?);
        // There are more samples of a way than of the RTT, in another part of the time.
        let both = from + towards;
        let told = queue.min(both);
        (both <= 2 * queue + CLOCKS_DIFFER).then(|| {
            [from, towards].map(|way| (u128::from(way) * u128::from(told) / u128::from(both.max(1))) as u64)
        })
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

    /// Returns the window that an end, 0 or 1, has advertised last, in bytes; none if windows
    /// must not be changed.
    pub fn told(&self, end: usize) -> Option<u32> {
        self.scale(end).map(|scale| u32::from(self.told[end & 1]) << scale)
    }

    /// Returns the window of an end, 0 or 1, that passes with a limit in bytes, rounded down; none if windows
    /// must not be changed. One of few units is rounded up now and then, see
    /// [`rounded`](crate::rwm::rounded).
    pub fn let_through(&self, end: usize, bytes: u64) -> Option<u32> {
        let scale = self.scale(end)?;
        let field = self.told[end & 1].min(crate::rwm::field(bytes, scale, self.segment()));
        Some(u32::from(field) << scale)
    }

    /// Returns the sequence number that an end, 0 or 1, has acknowledged last: how fast it grows is how
    /// fast that end gets data.
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
    const fn end_on(&self, side: usize) -> usize {
        self.client() ^ ((self.side() != side & 1) as usize)
    }

    /// Returns the differentiated services code point of the SYN.
    pub const fn dscp(&self) -> u8 {
        self.dscp
    }
}
