//! The one clock of the emulator.

use headway_core::Instant;

/// The present on `CLOCK_REALTIME`, the clock of the kernel's receive stamps.
pub(crate) fn now() -> Instant {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a valid timespec that outlives the call.
    unsafe { libc::clock_gettime(libc::CLOCK_REALTIME, &raw mut time) };
    from_timespec(time)
}

/// A stamp of the kernel as an instant.
pub(crate) fn from_timespec(time: libc::timespec) -> Instant {
    Instant::from_ns(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
}
