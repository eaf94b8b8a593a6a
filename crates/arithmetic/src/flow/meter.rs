//! What the packets of a flow look like, as sums.

/// Sums over the packets with data that one end of a flow sends, as the kernel's program keeps
/// them (`c/flow_meter.h`).
///
/// They only grow, and wrap. Times are in ns of any clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Meter {
    /// When the first packet came; to be ignored without one, as are other times.
    pub first: u64,
    /// When the latest packet came.
    pub last: u64,
    /// How many packets there were.
    pub packets: u64,
    /// Their bytes of data.
    pub bytes: u64,
    /// Sum of the squares of their sizes.
    pub size_squares: u64,
    /// Sum of the times between them that are no pauses, in [`Meter::GAP_UNIT`].
    pub gaps: u64,
    /// Sum of the squares of those.
    pub gap_squares: u64,
    /// Sum of the squares of the bytes in slots that have ended, in [`Meter::SLOT_UNIT`].
    pub slot_squares: u64,
    slot_ends: u64,
    /// Bytes in the slot that has not ended.
    pub slot_bytes: u64,
    /// How many slots have ended.
    pub slots: u32,
    /// How many of those had packets.
    pub busy: u32,
    /// How many pauses have ended.
    pub pauses: u32,
    unused: u32,
}

unsafe extern "C" {
    safe fn flow_meter_add(meter: &mut Meter, now: u64, bytes: u32, packets: u32);
    safe fn flow_meter_end_slots(meter: &mut Meter, now: u64);
}

impl Meter {
    /// Unit of times between packets, in ns.
    pub const GAP_UNIT: u64 = 256;
    /// Unit of bytes in slots.
    pub const SLOT_UNIT: u64 = 4;
    /// Length of a slot in ns.
    pub const SLOT: u64 = 100_000_000;
    /// A time without packets that is a pause, in ns.
    pub const PAUSE: u64 = 500_000_000;

    /// Adds so many packets, at least one, that arrived at once with this much data together.
    pub fn add(&mut self, now: u64, bytes: u32, packets: u32) {
        flow_meter_add(self, now, bytes, packets.max(1));
    }

    /// Returns it with the slots ended that end until `now`.
    pub fn at(mut self, now: u64) -> Meter {
        if self.packets > 0 {
            let now = now.max(self.last);
            flow_meter_end_slots(&mut self, now);
        }
        self
    }
}
