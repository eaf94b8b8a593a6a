//! The emulator's clock.

use headway_units::{Duration, Instant};

/// Returns the time on `CLOCK_REALTIME`, the clock of the kernel's receive timestamps.
pub(crate) fn now() -> Instant {
    read(libc::CLOCK_REALTIME)
}

/// Returns how far `CLOCK_REALTIME` is ahead of `CLOCK_MONOTONIC`. It changes abruptly only
/// when the clock is set.
pub(crate) fn lead() -> Duration {
    loop {
        let before = read(libc::CLOCK_MONOTONIC);
        let real = now();
        let after = read(libc::CLOCK_MONOTONIC);
        // If the two readings are further apart, this thread was preempted and the difference means nothing.
        if after - before < Duration::from_us(50) {
            return real - before;
        }
    }
}

fn read(clock: libc::clockid_t) -> Instant {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a valid timespec that outlives the call.
    unsafe { libc::clock_gettime(clock, &raw mut time) };
    from_timespec(time)
}

/// Converts a kernel timestamp to an instant.
pub(crate) fn from_timespec(time: libc::timespec) -> Instant {
    Instant::from_ns(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
}
