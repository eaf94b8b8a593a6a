//! The clock of a host's timers: that of Linux with 1000 ticks per second.

/// A tick, ns.
pub(crate) const TICK: u64 = 1_000_000;
/// Timers shorter than this many ticks have a resolution of one tick (level 0 of Linux's timer wheel).
const FIRST_LEVEL_TICKS: u64 = 63;
/// Binary logarithm of the ratio between levels of the wheel: each is 8 times as coarse as the one below and
/// reaches 8 times as far.
const LEVEL_SHIFT: u32 = 3;

/// The tick at `now` (ns).
pub(crate) fn tick(now: u64) -> u64 {
    now / TICK
}

/// When a timer set at `now` for `wait` ns fires (ns). The wait is rounded up to whole ticks, and the timer
/// fires at the next tick after it; longer timers fire at multiples of 8, 64, 512 and so on ticks.
pub(crate) fn expiry(now: u64, wait: u64) -> u64 {
    let ticks = tick(wait + TICK - 1);
    let at = tick(now) + ticks;
    if ticks < FIRST_LEVEL_TICKS { (at + 1) * TICK } else { coarse(at, ticks) }
}

#[inline(never)]
fn coarse(at: u64, ticks: u64) -> u64 {
    // Level n begins at 63 * 8^(n-1) ticks.
    let level = ((ticks / FIRST_LEVEL_TICKS).ilog2() / LEVEL_SHIFT + 1).min(8);
    ((at >> (level * LEVEL_SHIFT)) + 1) * (TICK << (level * LEVEL_SHIFT))
}

/// A timer that is set much more often than it fires; its exact expiry is computed only when it is due.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Timer {
    /// Earliest expiry (ns); `u64::MAX` when it is off.
    at: u64,
    /// When it was set (ns); `u64::MAX` when `at` is exact.
    set: u64,
}

impl Timer {
    pub(crate) const OFF: Timer = Timer { at: u64::MAX, set: u64::MAX };

    /// Returns a timer set at `now` for `wait` ns.
    pub(crate) fn new(now: u64, wait: u64) -> Timer {
        Timer { at: now + wait, set: now }
    }

    pub(crate) fn is_off(&self) -> bool {
        self.at == u64::MAX
    }

    /// A time before which it does not fire (ns).
    pub(crate) fn not_before(&self) -> u64 {
        self.at
    }

    /// Postpones its expiry to `time` (ns) at least.
    pub(crate) fn hold(&mut self, time: u64) {
        if self.at < time {
            *self = Timer { at: time, set: u64::MAX };
        }
    }

    /// Whether it has expired by `now` (ns).
    pub(crate) fn fires(&mut self, now: u64) -> bool {
        if self.at <= now && self.set < u64::MAX {
            *self = Timer { at: expiry(self.set, self.at - self.set), set: u64::MAX };
        }
        self.at <= now
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timer_is_worked_out_when_it_is_due() {
        let mut timer = Timer::new(us(900), us(5_000));
        assert_eq!(timer.not_before(), us(5_900));
        assert!(!timer.fires(us(5_900)) && timer.not_before() == us(6_000) && timer.fires(us(6_000)));
        timer.hold(us(5_000));
        assert_eq!(timer.not_before(), us(6_000));
        timer.hold(us(7_500));
        assert!(!timer.fires(us(7_499)) && timer.fires(us(7_500)));
        assert!(Timer::OFF.is_off() && !timer.is_off());
    }

    const fn us(us: u64) -> u64 {
        us * 1_000
    }

    #[test]
    fn a_timer_fires_at_the_tick_after_its_wait() {
        assert_eq!(expiry(us(10_000), us(5_000)), us(16_000));
        assert_eq!(expiry(us(10_900), us(5_001)), us(17_000));
        assert_eq!(expiry(us(10_999), 0), us(11_000));
    }

    #[test]
    fn long_waits_end_at_coarser_times() {
        assert_eq!(expiry(0, us(62_000)), us(63_000));
        assert_eq!(expiry(0, us(63_000)), us(64_000));
        assert_eq!(expiry(us(8_000), us(200_000)), us(216_000));
        assert_eq!(expiry(us(8_000), us(503_000)), us(512_000));
        assert_eq!(expiry(us(8_000), us(504_000)), us(576_000));
        assert_eq!(expiry(0, us(4_031_000)), us(4_032_000));
        assert_eq!(expiry(0, us(4_032_000)), us(4_096_000));
    }
}
