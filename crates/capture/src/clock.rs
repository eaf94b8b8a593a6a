//! Time stamps that never run backwards.

use headway_core::Instant;

/// Largest backward difference that counts as packets out of order and not as a clock step, ns: several queues of a
/// card are read one after the other, and capture programs write the packets of several interfaces in turns.
const DISORDER: u64 = 1_000_000_000;
/// Largest time stamp, ns: 140 years after 1970. Later ones are errors; with twice as many years, differences would
/// overflow.
const LATEST: u64 = 140 * 365 * 86_400 * 1_000_000_000;

/// The clock of an interface.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Clock {
    latest: u64,
    /// What earlier steps took back, ns.
    shift: u64,
}

/// The number of time stamps that a clock had to change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClockCounts {
    /// Packets slightly older than the one before, which got its time.
    pub disordered: u64,
    /// Backward steps of more than a second; what follows is moved so that no time passed.
    pub steps: u64,
}

impl Clock {
    /// Returns the time of the next packet: as stamped, or that of the packet before if it is earlier.
    pub(crate) fn time(&mut self, stamp: Instant, counts: &mut ClockCounts) -> Instant {
        let time = stamp.ns().min(LATEST) + self.shift;
        let back = self.latest.saturating_sub(time);
        if back > DISORDER {
            counts.steps += 1;
            self.shift = (self.shift + back).min(LATEST);
        } else if back > 0 {
            counts.disordered += 1;
        }
        self.latest = self.latest.max(time);
        Instant::from_ns(self.latest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(stamps: &[u64]) -> (Vec<u64>, ClockCounts) {
        let (mut clock, mut counts) = (Clock::default(), ClockCounts::default());
        let times = stamps
            .iter()
            .map(|ms| clock.time(Instant::from_ns(ms * 1_000_000), &mut counts).ns() / 1_000_000);
        (times.collect(), counts)
    }

    #[test]
    fn time_never_runs_backwards() {
        assert_eq!(times(&[5_000, 5_010, 5_005, 5_020]).0, [5_000, 5_010, 5_010, 5_020]);
        let (after, counts) = times(&[9_000, 9_010, 2_000, 2_010, 1_990, 2_020]);
        assert_eq!(after, [9_000, 9_010, 9_010, 9_020, 9_020, 9_030], "the step back takes no time");
        assert_eq!(counts, ClockCounts { disordered: 1, steps: 1 });
    }

    #[test]
    fn the_largest_stamps_do_not_overflow() {
        let (mut clock, mut counts) = (Clock::default(), ClockCounts::default());
        for stamp in [u64::MAX, 0, u64::MAX, 1, u64::MAX] {
            clock.time(Instant::from_ns(stamp), &mut counts);
        }
        assert!(counts.steps >= 1);
    }
}
