//! The kernel's clocks, and whether the wall clock was stepped.

use headway_core::{Duration, Instant};
use nix::sys::time::TimeSpec;
use nix::time::{ClockId, clock_gettime};

/// How far CLOCK_REALTIME may move against CLOCK_MONOTONIC during a stream.
///
/// Both clocks follow the same frequency corrections, so their difference changes by steps only; what is left is
/// the error of reading the two one after the other, well below 1 us. 10 us stays above that on a busy
/// machine and is no more than the stamps' own error. Sensible range: 2 us to 1 ms.
const STEP_THRESHOLD: Duration = Duration::from_us(10);

/// How often the two clocks are read to find an undisturbed reading.
const OFFSET_READINGS: u32 = 5;

/// CLOCK_REALTIME, the clock of the kernel's stamps.
pub(crate) fn realtime() -> Instant {
    read(ClockId::CLOCK_REALTIME)
}

/// CLOCK_MONOTONIC, the clock that pacing follows because nobody can step it.
pub(crate) fn monotonic() -> Instant {
    read(ClockId::CLOCK_MONOTONIC)
}

fn read(clock: ClockId) -> Instant {
    // The two clocks exist on every Linux and the call has no other way to fail.
    clock_gettime(clock).map_or(Instant::ZERO, instant)
}

/// A kernel time stamp as nanoseconds; times before the origin become zero.
fn instant(time: TimeSpec) -> Instant {
    let seconds = u64::try_from(time.tv_sec()).unwrap_or(0);
    Instant::from_ns(seconds.saturating_mul(1_000_000_000).saturating_add(time.tv_nsec() as u64))
}

/// CLOCK_REALTIME minus CLOCK_MONOTONIC, taken from the reading that was disturbed least.
pub(crate) fn wall_offset() -> Duration {
    let mut best = (Duration::MAX, Duration::ZERO);
    for _ in 0..OFFSET_READINGS {
        let before = monotonic();
        let wall = realtime();
        let after = monotonic();
        let width = after - before;
        if width < best.0 {
            best = (width, (wall - before) - width / 2);
        }
    }
    best.1
}

/// Whether the wall clock was stepped between two readings of [`wall_offset`].
pub(crate) fn stepped(before: Duration, after: Duration) -> bool {
    (after - before).ns().unsigned_abs() > STEP_THRESHOLD.ns().unsigned_abs()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_steps_are_steps() {
        let offset = Duration::from_secs_f64(1.7e9);
        assert!(!stepped(offset, offset + Duration::from_us(9)));
        assert!(stepped(offset, offset + Duration::from_ms(1)));
        assert!(stepped(offset, offset - Duration::from_ms(1)));
    }

    #[test]
    fn the_offset_stands_still() {
        assert!(!stepped(wall_offset(), wall_offset()));
    }
}
