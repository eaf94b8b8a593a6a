//! Sums over the packets of a flow.

use headway_arithmetic::flow::Meter as Kernel;
use headway_units::{Bytes, Duration, Instant, Rate};

use super::{Features, LimitedBy};

/// Bytes are counted in slots of this length: some frames of video or packets of a call, and
/// shorter than a pause.
///
/// Range 50 to 200 ms.
pub const SLOT: Duration = Duration::from_ms(100);
/// A time without packets from which on the sender had nothing to send: longer than the RTTs of nearly all
/// paths, and shorter than people think.
///
/// Range 300 ms to 1 s.
pub const PAUSE: Duration = Duration::from_ms(500);

/// Sums of values and of their squares.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Moments {
    count: u64,
    sum: f64,
    squares: f64,
}

impl Moments {
    /// Takes sums of integers in this unit.
    pub(super) fn of(count: u64, [sum, squares]: [u64; 2], unit: u64) -> Moments {
        let unit = unit as f64;
        Moments { count, sum: sum as f64 * unit, squares: squares as f64 * unit * unit }
    }

    /// Takes the bytes of slots and the sum of their squares in units of 4 bytes.
    pub(super) fn of_slots(count: u64, bytes: u64, squares: u64) -> Moments {
        Moments { count, sum: bytes as f64, ..Moments::of(count, [0, squares], Kernel::SLOT_UNIT) }
    }

    fn add(&mut self, value: f64) {
        self.count += 1;
        self.sum += value;
        self.squares += value * value;
    }

    /// Returns the mean, 0 of nothing.
    fn mean(&self) -> f64 {
        if self.count == 0 { 0.0 } else { self.sum / self.count as f64 }
    }

    /// Returns the standard deviation in parts of the mean, 0 where that is 0.
    fn variation(&self) -> f64 {
        let mean = self.mean();
        if mean <= 0.0 {
            return 0.0;
        }
        let variance = self.squares / self.count as f64 - mean * mean;
        variance.max(0.0).sqrt() / mean
    }
}

/// What [`Features`] are computed from.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sums {
    pub(super) duration: Duration,
    pub(super) sizes: Moments,
    /// Times between packets that are no pauses, in ns.
    pub(super) gaps: Moments,
    /// Bytes in slots that have ended, and how many of those have packets.
    pub(super) slots: Moments,
    pub(super) busy: u64,
    /// Pauses that have ended, and whether one lasts.
    pub(super) pauses: u64,
    pub(super) is_pausing: bool,
}

impl Sums {
    pub(super) fn features(&self, limited_by: LimitedBy) -> Features {
        let bytes = Bytes::new(self.sizes.sum as u64);
        Features {
            duration: self.duration,
            packets: self.sizes.count,
            rate: Rate::of(bytes, self.duration).unwrap_or(Rate::ZERO),
            mean_gap: Duration::from_ns(self.gaps.mean() as i64),
            gap_variation: self.gaps.variation(),
            mean_size: Bytes::new(self.sizes.mean() as u64),
            size_variation: self.sizes.variation(),
            busy: if self.slots.count == 0 { 1.0 } else { self.busy as f64 / self.slots.count as f64 },
            slot_variation: self.slots.variation(),
            pauses: self.pauses + u64::from(self.is_pausing),
            // The pause that lasts ends the last burst; one that has ended began another.
            burst: Bytes::new(bytes.get() / (self.pauses + 1)),
            limited_by,
            answers_per_second: 0.0,
            answer: Bytes::ZERO,
        }
    }
}

/// What was seen of the packets of a flow since it was created: some sums, however many packets there are.
///
/// A flow changes. So whoever watches one takes a new meter now and then, about every 10 s.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Meter {
    first: Instant,
    last: Instant,
    sizes: Moments,
    /// Times between packets that are no pauses, in ns.
    gaps: Moments,
    pauses: u64,
    /// Bytes in slots that have ended.
    slots: Moments,
    busy: u64,
    /// Bytes in the slot of the last packet.
    slot: u64,
}

impl Meter {
    /// Begins with a packet with data. Its size is that of IP, or any other that is the same for all packets.
    pub fn new(now: Instant, size: Bytes) -> Meter {
        let mut meter = Meter { first: now, last: now, slot: size.get(), ..Meter::default() };
        meter.sizes.add(size.get() as f64);
        meter
    }

    /// Adds a packet with data. One that seems to be earlier than the last counts as of the same time.
    pub fn on_packet(&mut self, now: Instant, size: Bytes) {
        let now = now.max(self.last);
        let gap = now - self.last;
        if gap >= PAUSE {
            self.pauses += 1;
        } else {
            self.gaps.add(gap.ns() as f64);
        }
        self.end_slots(now);
        self.slot = self.slot.saturating_add(size.get());
        self.sizes.add(size.get() as f64);
        self.last = now;
    }

    /// Returns what the packets looked like until `now`.
    pub fn features(&self, now: Instant, limited_by: LimitedBy) -> Features {
        let now = now.max(self.last);
        let mut all = *self;
        all.end_slots(now);
        let sums = Sums {
            duration: now - self.first,
            sizes: self.sizes,
            gaps: self.gaps,
            slots: all.slots,
            busy: all.busy,
            pauses: self.pauses,
            is_pausing: now - self.last >= PAUSE,
        };
        sums.features(limited_by)
    }

    /// Ends the slots before that of `now`.
    fn end_slots(&mut self, now: Instant) {
        let slot = |at: Instant| ((at - self.first).ns() / SLOT.ns()).max(0) as u64;
        // Slots that have ended are those that were counted.
        let ended = slot(now).saturating_sub(self.slots.count);
        if ended == 0 {
            return;
        }
        self.busy += u64::from(self.slot > 0);
        self.slots.add(self.slot as f64);
        // Those after it are empty.
        self.slots.count += ended - 1;
        self.slot = 0;
    }
}
