//! A user-space process that spins on a microsecond clock (rapid 2.4.1). The model is
//! calibrated on rapid G1 and G6.

use headway_units::{Duration, Instant};
use rand_pcg::Pcg64Mcg;

use headway_traffic::distribution::{between, uniform};

const MICROSECOND: u64 = 1_000;
/// For longer gaps the process sleeps and takes its next start time from the schedule (rapid
/// 2.4.1, SLEEPTHRESH).
const SLEEP: Duration = Duration::from_us(2_000);
/// Longest iteration of the busy-wait loop in nanoseconds: one call of `gettimeofday`.
const MAX_ITERATION: f64 = 50.0;
/// Share of packets delayed by an interrupt on the process's core; our choice.
const INTERRUPTED: f64 = 0.01;
/// Longest interrupt in nanoseconds: errors stay within 2 us (rapid G1).
const INTERRUPT: f64 = 1_000.0;
/// Most processes that spin undisturbed: the sender has four cores, one of which serves interrupts. From the
/// fourth process on they share cores (rapid G6).
const CORES: usize = 3;
/// Time slice of a process when others wait for its core: with 33 processes each waits a second
/// per cycle (rapid G6).
const SLICE: Duration = Duration::from_ms(100);

/// A process that sends one flow.
#[derive(Clone, Debug)]
pub(super) struct BusyWait {
    /// The scheduled time of the previous packet.
    scheduled: Instant,
    /// The send time of the previous packet as the clock showed it; `None` before the first.
    start: Option<Instant>,
    time_slice: TimeSlice,
    rng: Pcg64Mcg,
}

/// When the process runs on a core.
#[derive(Clone, Copy, Debug)]
struct TimeSlice {
    /// Time from one slice to the next; zero if the process has a core of its own.
    cycle: Duration,
    /// Start of the first slice.
    first: Duration,
}

impl TimeSlice {
    /// Returns the first time at or after `now` at which the process runs.
    fn from(self, now: Instant) -> Instant {
        if self.cycle == Duration::ZERO {
            return now;
        }
        let since = (now - Instant::ZERO - self.first).ns().rem_euclid(self.cycle.ns());
        if since < SLICE.ns() { now } else { now + Duration::from_ns(self.cycle.ns() - since) }
    }
}

impl BusyWait {
    /// Creates process `number` of `processes`.
    pub(super) fn new(number: usize, processes: usize, rng: Pcg64Mcg) -> BusyWait {
        let time_slice = if processes <= CORES {
            TimeSlice { cycle: Duration::ZERO, first: Duration::ZERO }
        } else {
            // Round robin, with the processes shifted evenly against each other.
            let shift = SLICE.ns() * number as i64 / CORES as i64;
            let cycle = SLICE.ns() * processes as i64 / CORES as i64;
            TimeSlice { cycle: Duration::from_ns(cycle), first: Duration::from_ns(shift) }
        };
        BusyWait { scheduled: Instant::ZERO, start: None, time_slice, rng }
    }

    /// Returns when the process sends. It waits for the gap in whole microseconds since the previous packet,
    /// so every gap is too short by its fraction of a microsecond.
    pub(super) fn ready(&mut self, scheduled: Instant) -> Instant {
        let gap = scheduled - self.scheduled;
        self.scheduled = scheduled;
        let target = match self.start {
            Some(start) if gap <= SLEEP => start + Duration::from_us(gap.ns() / MICROSECOND as i64),
            _ => floor(scheduled),
        };
        let mut late = between(&mut self.rng, 0.0, MAX_ITERATION);
        if uniform(&mut self.rng) <= INTERRUPTED {
            late += between(&mut self.rng, 0.0, INTERRUPT);
        }
        self.time_slice.from(target + Duration::from_ns(late as i64))
    }

    /// Records that the packet left at `departure`; until then the process was blocked in the send call.
    pub(super) fn sent(&mut self, departure: Instant) {
        self.start = Some(floor(departure));
    }
}

/// The time as shown by a clock with a resolution of a microsecond.
fn floor(time: Instant) -> Instant {
    Instant::from_ns(time.ns() / MICROSECOND * MICROSECOND)
}
