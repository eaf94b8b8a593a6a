//! From acknowledged packets to the gaps of complete p-streams.

use super::{Gaps, MAX_PACKETS};

/// A packet whose fate is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Packet {
    /// Time from the departure of the packet sent before it, in ns, as they really left.
    pub gap: u64,
    /// Number of its p-stream.
    pub stream: u32,
    /// Position in its p-stream, from 0.
    pub index: u32,
    /// Arrival time at the receiver in units of the configuration, modulo 2^32; 0 for none.
    pub stamp: u32,
    /// 1 if the packet was lost or retransmitted, or belongs to no p-stream.
    pub unusable: u32,
    /// Packets in its p-stream; 0 for as many as the present shape has.
    pub packets: u32,
    /// 1 if the packet or its ACK was lost: a later packet is acknowledged, and this one is not.
    pub lost: u32,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[repr(C)]
struct Interval {
    send: u64,
    receive: u64,
    longer_send: u32,
    longer_receive: u32,
    count: u32,
    foreign: u32,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub(super) struct State {
    interval: Interval,
    sent: u64,
    length: u64,
    last: u32,
    stamped: u32,
    waiting: u32,
    foreign: u32,
    stream: u32,
    next: u32,
    broken: u32,
    missing: u32,
    skipped: u32,
    filled: u32,
    complete: u32,
    filling: u32,
    packets: u32,
    behind: u32,
    oldest: u32,
    discarding: u32,
}

unsafe extern "C" {
    safe fn rapid_acks_restart(acks: &mut State);
    safe fn rapid_push(acks: &mut State, packet: &Packet, packets: u32, unit: u32);
    pub(super) safe fn rapid_take(acks: &mut State, gaps: &mut Gaps) -> u32;
}

/// Spreads each interval between two stamped packets evenly over the packets it covers (rapid 2.8).
#[derive(Clone, Debug)]
pub struct Acks {
    state: State,
    gaps: Box<Gaps>,
    packets: u32,
    unit: u32,
}

impl Acks {
    /// Creates the state for streams of `packets` packets, 1 to 192, with stamps in units of
    /// `unit` ns, 1 to 10^6.
    pub fn new(packets: u32, unit: u32) -> Acks {
        let mut state = State::default();
        rapid_acks_restart(&mut state);
        let packets = packets.clamp(1, MAX_PACKETS as u32);
        Acks { state, gaps: Box::default(), packets, unit: unit.clamp(1, 1_000_000) }
    }

    /// Adds the next packet in the order of sending and calls `complete` with the gaps of each stream
    /// that this completes.
    ///
    /// A stream has fewer gaps than packets when its first packets came before the first stamp.
    pub fn push(&mut self, packet: &Packet, mut complete: impl FnMut(&Gaps)) {
        rapid_push(&mut self.state, packet, self.packets, self.unit);
        while rapid_take(&mut self.state, &mut self.gaps) != 0 {
            complete(&self.gaps);
        }
    }
}
