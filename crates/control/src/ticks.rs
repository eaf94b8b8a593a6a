//! Time in ticks of Linux's clock, of a millisecond each.

use headway_units::{Duration, Instant};

/// A tick, ns (a kernel with 1000 ticks per second).
pub(super) const TICK: u64 = 1_000_000;
/// Ticks per second.
pub(super) const PER_SECOND: u64 = 1_000_000_000 / TICK;

/// Returns the tick at a time.
pub(super) fn tick(now: Instant) -> u64 {
    now.ns() / TICK
}

/// Returns a duration in ticks, rounded up.
pub(super) fn rounded_up(time: Duration) -> u64 {
    time.ns().unsigned_abs().div_ceil(TICK)
}
