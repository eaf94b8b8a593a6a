//! The kernel's clocks, and detection of wall clock steps.

use headway_units::{Duration, Instant};
use nix::sys::time::TimeSpec;
use nix::time::{ClockId, clock_gettime};

/// The most that CLOCK_REALTIME may move relative to CLOCK_MONOTONIC during a stream.
///
/// Both clocks follow the same frequency corrections, so their difference changes only by steps. Reading one
/// clock after the other adds an error well below 1 us. A threshold of 10 us exceeds that error on a busy
/// machine and is no larger than the error of the timestamps themselves. Sensible range: 2 us to 1 ms.
const STEP_THRESHOLD: Duration = Duration::from_us(10);

/// The additional movement of CLOCK_REALTIME allowed per unit of time between two streams: the kernel slews a
/// clock by at most 500 ppm. Within a stream there is no such allowance, because slewing distorts its times.
const SLEW: f64 = 500e-6;

/// Number of readings of the two clocks, of which the least disturbed one counts.
const OFFSET_READINGS: u32 = 5;

/// Reads CLOCK_REALTIME, the clock of the kernel's timestamps.
pub(crate) fn realtime() -> Instant {
    read(ClockId::CLOCK_REALTIME)
}

/// Reads CLOCK_MONOTONIC, the clock for pacing, because it cannot be stepped.
pub(crate) fn monotonic() -> Instant {
    read(ClockId::CLOCK_MONOTONIC)
}

fn read(clock: ClockId) -> Instant {
    // Every Linux has these two clocks, and the call cannot fail otherwise.
    clock_gettime(clock).map_or(Instant::ZERO, instant)
}

/// Converts a kernel timestamp to nanoseconds; times before the epoch become zero.
fn instant(time: TimeSpec) -> Instant {
    let seconds = u64::try_from(time.tv_sec()).unwrap_or(0);
    Instant::from_ns(seconds.saturating_mul(1_000_000_000).saturating_add(time.tv_nsec() as u64))
}

/// Returns CLOCK_REALTIME minus CLOCK_MONOTONIC, from the least disturbed of several readings.
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

/// Whether the wall clock was stepped between two readings of [`wall_offset`]; slewing may explain a
/// difference of `slewed`.
fn stepped(before: Duration, after: Duration, slewed: Duration) -> bool {
    (after - before).ns().unsigned_abs() > (STEP_THRESHOLD + slewed).ns().unsigned_abs()
}

/// One reading of both clocks.
#[derive(Clone, Copy, Debug)]
struct Reading {
    /// CLOCK_MONOTONIC.
    at: Instant,
    /// CLOCK_REALTIME minus CLOCK_MONOTONIC.
    offset: Duration,
}

impl Reading {
    fn now() -> Reading {
        Reading { at: monotonic(), offset: wall_offset() }
    }
}

/// Watches the wall clock during and between the streams of one session.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    last: Option<Reading>,
    /// Whether the clock was stepped between the previous stream and the current one.
    stepped_before: bool,
}

impl Watch {
    /// Must be called at the start of a stream.
    pub(crate) fn begin(&mut self) {
        self.begin_at(Reading::now());
    }

    /// Must be called at the end of a stream; returns whether the clock was stepped during it or since the
    /// stream before.
    pub(crate) fn end(&mut self) -> bool {
        self.end_at(Reading::now())
    }

    fn begin_at(&mut self, now: Reading) {
        self.stepped_before =
            self.last.is_some_and(|last| stepped(last.offset, now.offset, (now.at - last.at).scale(SLEW)));
        self.last = Some(now);
    }

    fn end_at(&mut self, now: Reading) -> bool {
        let during = self.last.is_some_and(|begin| stepped(begin.offset, now.offset, Duration::ZERO));
        self.last = Some(now);
        self.stepped_before || during
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_steps_are_steps() {
        let offset = Duration::from_secs_f64(1.7e9);
        let stepped = |after| stepped(offset, after, Duration::ZERO);
        assert!(!stepped(offset + Duration::from_us(9)));
        assert!(stepped(offset + Duration::from_ms(1)));
        assert!(stepped(offset - Duration::from_ms(1)));
    }

    /// A reading at `second` with the wall clock ahead by `ahead_us`.
    fn reading(second: u64, ahead_us: i64) -> Reading {
        Reading { at: Instant::from_ns(second * 1_000_000_000), offset: Duration::from_us(ahead_us) }
    }

    #[test]
    fn steps_between_streams_are_seen() {
        let mut watch = Watch::default();
        watch.begin_at(reading(0, 1_000_000));
        assert!(!watch.end_at(reading(1, 1_000_005)), "before the first stream there is nothing to compare");
        watch.begin_at(reading(2, 1_000_400));
        assert!(!watch.end_at(reading(3, 1_000_400)), "400 us in a second may be slewing");
        watch.begin_at(reading(4, 1_001_000));
        assert!(watch.end_at(reading(5, 1_001_000)), "600 us in a second are a step");
        watch.begin_at(reading(6, 1_001_000));
        assert!(!watch.end_at(reading(7, 1_001_000)), "a step counts once");
        watch.begin_at(reading(8, 1_001_000));
        assert!(watch.end_at(reading(9, 1_001_100)), "within a stream slewing is no excuse");
        watch.begin_at(reading(19, 997_000));
        assert!(!watch.end_at(reading(20, 997_000)), "4 ms in ten seconds may be slewing");
        watch.begin_at(reading(30, 991_000));
        assert!(watch.end_at(reading(31, 991_000)), "6 ms in ten seconds are a step, backwards, too");
    }

    #[test]
    fn the_offset_stands_still() {
        assert!(!stepped(wall_offset(), wall_offset(), Duration::ZERO));
    }
}
