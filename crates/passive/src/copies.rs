//! Packets that were captured twice, told by what is in them.
//!
//! A mirror port, a bridge or `-i any` capture a packet in several places, at times that differ by little,
//! with other VLAN tags or a smaller hop limit. A packet that is sent again has another IPv4 identification
//! or another timestamp.

use headway_units::Instant;

use crate::headers::Tcp;

/// Longest time between a packet and its copy where what identifies packets differs between those sent again,
/// ns: less than the time after which any system repeats a SYN.
const APART: u64 = 500_000_000;
/// The same where nothing tells a copy from a packet that was sent again, ns.
const CLOSE: u64 = 5_000_000;
/// After this time without a packet elsewhere, one from a place of copies is not a copy, ns.
const MOVED: i64 = 1_000_000_000;
/// Places of two packets in [`Recent`], a power of two: 512 kB, which the cache of a core holds. At a million
/// packets per second, one of a hundred is overwritten within 5 ms.
const SETS: usize = 1 << 15;
/// Places of one end of a connection that are told apart; further ones share the last.
const PLACES: usize = 4;
/// Packets of a place, without a copy among them, after which one that may also have been
/// sent again is no copy.
const USUAL: u16 = 8;

/// Where a packet was captured: the interface, and whether it was incoming or outgoing there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Place(u32);

impl Place {
    pub(crate) fn new(interface: u32, outgoing: Option<bool>) -> Place {
        Place(interface << 2 | heading(outgoing))
    }
}

/// Returns 0 if it is not known, 1 for incoming, 2 for outgoing packets.
fn heading(outgoing: Option<bool>) -> u32 {
    outgoing.map_or(0, |outgoing| 1 + u32::from(outgoing))
}

/// The packets captured last, of all connections, in a table of fixed size.
#[derive(Debug)]
pub(crate) struct Recent(Vec<[Slot; 2]>);

/// A packet: its time in units of 2^14 ns, its heading, and the part of its hash that does
/// not say where it is.
#[derive(Clone, Copy, Debug, Default)]
struct Slot {
    tag: u32,
    /// Time above, heading in the lowest two bits.
    time: u32,
}

impl Slot {
    /// Bits by which times are shortened, so that 30 of them span five hours.
    const SHORTENED: u32 = 14;

    fn new(tag: u32, at: Instant, outgoing: Option<bool>) -> Slot {
        Slot { tag, time: ((at.ns() >> Slot::SHORTENED) as u32) << 2 | heading(outgoing) }
    }

    /// Returns how much later another packet is, in units of time that hardly depend on headings.
    fn age(self, other: Slot) -> u32 {
        other.time.wrapping_sub(self.time)
    }

    /// Returns the time between two packets, ns, rounded; either may be the earlier one.
    fn between(self, other: Slot) -> u64 {
        let apart = (self.time >> 2).wrapping_sub(other.time >> 2) << 2;
        u64::from((apart as i32).unsigned_abs() >> 2) << Slot::SHORTENED
    }
}

/// What identifies a packet, without addresses: a hash.
fn identify(connection: u32, end: usize, tcp: &Tcp) -> u64 {
    /// Odd numbers with evenly spread bits, from the fraction of the golden ratio and others like it.
    const MIX: [u64; 4] =
        [0x9e37_79b9_7f4a_7c15, 0xbf58_476d_1ce4_e5b9, 0x94d0_49bb_1331_11eb, 0xd6e8_feb8_6659_fd93];
    let fold = |a: u64, b: u64| {
        let product = u128::from(a) * u128::from(b);
        product as u64 ^ (product >> 64) as u64
    };
    let flags = u64::from(tcp.segment.flags.syn)
        | u64::from(tcp.segment.flags.fin) << 1
        | u64::from(tcp.segment.flags.rst) << 2;
    let numbers = u64::from(tcp.segment.sequence) << 32 | u64::from(tcp.segment.acknowledgement.unwrap_or(0));
    let size = u64::from(tcp.segment.payload) << 32 | u64::from(connection) << 1 | end as u64;
    let fields = u64::from(tcp.identification) << 48 | u64::from(tcp.segment.window) << 32 | flags << 29;
    let (value, echo) = tcp.segment.timestamps.unwrap_or_default();
    let options = (u64::from(value) << 32 | u64::from(echo)) ^ u64::from(tcp.blocks);
    fold(numbers ^ MIX[0], size ^ MIX[1]) ^ fold(fields ^ MIX[2], options ^ MIX[3])
}

impl Recent {
    pub(crate) fn new() -> Recent {
        Recent(vec![[Slot::default(); 2]; SETS])
    }

    pub(crate) fn memory(&self) -> usize {
        size_of_val(&self.0[..])
    }
}

/// The places of one end of a connection where its packets are captured.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Places {
    known: [Counted; PLACES],
    /// The place and the time of the last packet that is no copy.
    last: Option<(Place, Instant)>,
    /// The identification of that packet, and whether the one before had the same.
    identification: u16,
    constant: bool,
}

/// What was captured in a place.
#[derive(Clone, Copy, Debug, Default)]
struct Counted {
    place: Place,
    originals: u16,
    copies: u16,
}

impl Counted {
    fn is_empty(&self) -> bool {
        self.originals == 0 && self.copies == 0
    }

    /// Whether packets that can also have been sent again are copies here, where about every
    /// second one is a copy.
    fn copies(&self) -> bool {
        self.originals <= USUAL.saturating_add(self.copies.saturating_mul(4))
    }

    fn count(&mut self, copy: bool) {
        if self.originals.max(self.copies) == u16::MAX {
            (self.originals, self.copies) = (self.originals / 2, self.copies / 2);
        }
        *if copy { &mut self.copies } else { &mut self.originals } += 1;
    }
}

/// Whether a packet is a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Original,
    Copy {
        /// The capturing host received one of the two packets and sent the other: it forwards them.
        forwarded: bool,
    },
}

impl Places {
    /// Returns where a place is among those known; further ones share the last.
    fn place(&self, place: Place) -> usize {
        let known = self.known.iter().position(|known| known.place == place || known.is_empty());
        known.unwrap_or(PLACES - 1)
    }

    /// Tells whether a packet of an end of a connection is a copy of an earlier one, and takes note of it.
    pub(crate) fn judge(
        &mut self,
        recent: &mut Recent,
        (connection, end): (u32, usize),
        (at, place): (Instant, Place),
        tcp: &Tcp,
    ) -> Kind {
        let hash = identify(connection, end, tcp);
        let set = &mut recent.0[hash as usize % SETS];
        let slot = Slot::new((hash >> 32) as u32, at, tcp.outgoing);
        let known = if self.known[0].place == place { 0 } else { self.place(place) };
        let counted = &mut self.known[known];
        counted.place = place;
        let earlier = set.iter().copied().find(|earlier| earlier.tag == slot.tag);
        if let Some(earlier) = earlier {
            let identified = tcp.identification != 0 && !self.constant;
            let sure = identified || tcp.segment.timestamps.is_some() || tcp.segment.flags.syn;
            let apart = earlier.between(slot);
            if apart <= CLOSE && counted.copies() || apart <= APART && sure {
                counted.count(true);
                return Kind::Copy { forwarded: earlier.time & 3 ^ slot.time & 3 == 3 };
            }
        }
        if let Some((other, last)) = self.last
            && other != place
            && counted.copies > counted.originals
            && (at - last).ns() < MOVED
        {
            // Only copies come from here, and this one is late or was cut into other segments.
            counted.count(true);
            return Kind::Copy { forwarded: false };
        }
        counted.count(false);
        self.last = Some((place, at));
        self.constant = self.identification == tcp.identification;
        self.identification = tcp.identification;
        // The older one gives way.
        let older = usize::from(set[0].age(slot) < set[1].age(slot));
        set[earlier.map_or(older, |earlier| usize::from(set[0].tag != earlier.tag))] = slot;
        Kind::Original
    }
}
