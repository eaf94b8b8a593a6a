//! The packets in flight in the order of sending, and which of them an acknowledgement settles.

use super::Packet;

/// Slots of a new ring.
const FIRST_SLOTS: usize = 64;

/// A packet that left.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Sent {
    gap: u64,
    segment: u32,
    stream: u32,
    index: u8,
    packets: u8,
    flags: u8,
}

impl Sent {
    /// Returns the number of its segment.
    pub fn segment(&self) -> u32 {
        self.segment
    }

    /// Returns whether the segment had left before.
    pub fn is_retransmission(&self) -> bool {
        self.flags & super::departures::RETRANSMISSION != 0
    }
}

/// An acknowledgement. Segments have numbers that wrap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ack {
    /// When it arrived, in ns.
    pub now: u64,
    /// The first segment that it leaves unacknowledged.
    pub una: u32,
    /// The segment that caused it, if that was sent only once, with the receiver's stamp if there is one.
    pub arrival: Option<(u32, Option<u32>)>,
}

/// The same for C.
#[derive(Default)]
#[repr(C)]
struct RawAck {
    now: u64,
    una: u32,
    segment: u32,
    stamp: u32,
    arrived: u32,
    stamped: u32,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub(super) struct State {
    last: u64,
    first: u32,
    end: u32,
    una: u32,
    segment: u32,
    stamp: u32,
    arrived: u32,
    has_stamps: u32,
    bridges_holes: u32,
    forgotten: u32,
}

unsafe extern "C" {
    safe fn rapid_flight_push(flight: &mut State, slot: &mut Sent, slots: u32, sent: &Sent, now: u64);
    safe fn rapid_flight_on_ack(flight: &mut State, ack: &RawAck, unit: u32);
    safe fn rapid_flight_take(flight: &mut State, first: &mut Sent, packet: &mut Packet) -> i32;
}

/// All packets in flight, in a ring.
#[derive(Clone, Debug)]
pub struct Flight {
    state: State,
    /// A power of two of slots.
    ring: Vec<Sent>,
    unit: u32,
    grows: bool,
}

impl Flight {
    /// Creates a ring that grows as it must, for stamps in units of `unit` ns, 1 to 10^6.
    /// With `bridges_holes` a lost packet counts as one without a stamp, and a p-stream with
    /// holes yields an estimate.
    pub fn new(bridges_holes: bool, unit: u32) -> Flight {
        let state = State { bridges_holes: bridges_holes.into(), ..State::default() };
        Flight {
            state,
            ring: vec![Sent::default(); FIRST_SLOTS],
            unit: unit.clamp(1, 1_000_000),
            grows: true,
        }
    }

    /// Creates a ring of `slots` packets as in a kernel, rounded up to a power of two up to 2^31. When it is
    /// full it forgets its first packet.
    pub fn with_slots(bridges_holes: bool, unit: u32, slots: u32) -> Flight {
        let slots = slots.clamp(1, 1 << 31).next_power_of_two();
        let ring = vec![Sent::default(); slots as usize];
        Flight { ring, grows: false, ..Flight::new(bridges_holes, unit) }
    }

    fn slot(&self, number: u32) -> usize {
        number as usize & (self.ring.len() - 1)
    }

    /// A packet leaves at `now` ns.
    pub fn push(&mut self, sent: &Sent, now: u64) {
        if self.grows && self.len() == self.ring.len() {
            self.grow();
        }
        let slot = self.slot(self.state.end);
        let slots = self.ring.len() as u32;
        rapid_flight_push(&mut self.state, &mut self.ring[slot], slots, sent, now);
    }

    /// Doubles the ring. The place of a packet depends on the number of slots.
    fn grow(&mut self) {
        let packets: Vec<Sent> = self.packets().copied().collect();
        self.ring = vec![Sent::default(); self.ring.len() * 2];
        for (offset, packet) in packets.into_iter().enumerate() {
            let slot = self.slot(self.state.first.wrapping_add(offset as u32));
            self.ring[slot] = packet;
        }
    }

    /// Handles an acknowledgement. Call [`Flight::take`] afterwards until it returns `None`.
    pub fn on_ack(&mut self, ack: &Ack) {
        let mut raw = RawAck { now: ack.now, una: ack.una, ..RawAck::default() };
        if let Some((segment, stamp)) = ack.arrival {
            (raw.segment, raw.arrived) = (segment, 1);
            (raw.stamp, raw.stamped) = (stamp.unwrap_or(0), stamp.is_some().into());
        }
        rapid_flight_on_ack(&mut self.state, &raw, self.unit);
    }

    /// Returns the next packet whose fate is known.
    pub fn take(&mut self) -> Option<Packet> {
        let mut packet = Packet::default();
        let slot = self.slot(self.state.first);
        let known = rapid_flight_take(&mut self.state, &mut self.ring[slot], &mut packet);
        (known != 0).then_some(packet)
    }

    /// Returns the packets whose fate is unknown, in the order of sending.
    pub fn packets(&self) -> impl Iterator<Item = &Sent> {
        (0..self.len() as u32).map(|offset| &self.ring[self.slot(self.state.first.wrapping_add(offset))])
    }

    /// Returns whether the receiver has stamped a segment; otherwise the arrival of ACKs has to do.
    pub fn has_stamps(&self) -> bool {
        self.state.has_stamps != 0
    }

    /// Returns how many packets a full ring forgot; wraps.
    pub fn forgotten(&self) -> u32 {
        self.state.forgotten
    }

    fn len(&self) -> usize {
        self.state.end.wrapping_sub(self.state.first) as usize
    }

    /// Bytes of memory that the packets take.
    pub fn memory(&self) -> usize {
        self.ring.capacity() * size_of::<Sent>()
    }
}
