//! A user-space process that spins on a microsecond clock (rapid 2.4.1): a model calibrated on rapid's G1 and G6.

use headway_core::{Duration, Instant};
use rand_pcg::Pcg64Mcg;

use headway_traffic::distribution::{between, uniform};

const MICROSECOND: u64 = 1_000;
/// For longer gaps the process sleeps and takes its next start from the schedule (rapid 2.4.1, SLEEPTHRESH).
const SLEEP: Duration = Duration::from_us(2_000);
/// Longest turn of the loop around the clock, in nanoseconds: one call of `gettimeofday`.
const TURN: f64 = 50.0;
/// Part of the packets before which an interrupt takes the core; ours.
const INTERRUPTED: f64 = 0.01;
/// Longest such interrupt in nanoseconds: errors stay within 2 us (G1).
const INTERRUPT: f64 = 1_000.0;
/// Processes that spin undisturbed: the sender has four cores, one of which serves interrupts; from the fourth process
/// on they share (G6).
const CORES: usize = 3;
/// Time for which a process runs while others wait for its core: with 33 processes each waits a second in turn (G6).
const SLICE: Duration = Duration::from_ms(100);

/// A process that sends one flow.
#[derive(Clone, Debug)]
pub(super) struct BusyWait {
    /// When the packet before was scheduled.
    scheduled: Instant,
    /// When the packet before was sent, as the clock showed it; `None` before the first.
    start: Option<Instant>,
    turn: Turn,
    rng: Pcg64Mcg,
}

/// When the process has a core.
#[derive(Clone, Copy, Debug)]
struct Turn {
    /// Time from one turn to the next; zero for a core of its own.
    cycle: Duration,
    /// Start of the first turn.
    first: Duration,
}

impl Turn {
    /// The first time from `now` on at which the process runs.
    fn from(self, now: Instant) -> Instant {
        if self.cycle == Duration::ZERO {
            return now;
        }
        let since = (now - Instant::ZERO - self.first).ns().rem_euclid(self.cycle.ns());
        if since < SLICE.ns() { now } else { now + Duration::from_ns(self.cycle.ns() - since) }
    }
}

impl BusyWait {
    /// The process number `number` of `processes`.
    pub(super) fn new(number: usize, processes: usize, rng: Pcg64Mcg) -> BusyWait {
        let turn = if processes <= CORES {
            Turn { cycle: Duration::ZERO, first: Duration::ZERO }
        } else {
            // Processes run round robin, shifted evenly against each other.
            let shift = SLICE.ns() * number as i64 / CORES as i64;
            let cycle = SLICE.ns() * processes as i64 / CORES as i64;
            Turn { cycle: Duration::from_ns(cycle), first: Duration::from_ns(shift) }
        };
        BusyWait { scheduled: Instant::ZERO, start: None, turn, rng }
    }

    /// When the process sends: it waits the whole microseconds of the gap since the packet before, so that gaps are short
    /// by their fraction.
    pub(super) fn ready(&mut self, scheduled: Instant) -> Instant {
        let gap = scheduled - self.scheduled;
        self.scheduled = scheduled;
        let target = match self.start {
            Some(start) if gap <= SLEEP => start + Duration::from_us(gap.ns() / MICROSECOND as i64),
            _ => floor(scheduled),
        };
        let mut late = between(&mut self.rng, 0.0, TURN);
        if uniform(&mut self.rng) <= INTERRUPTED {
            late += between(&mut self.rng, 0.0, INTERRUPT);
        }
        self.turn.from(target + Duration::from_ns(late as i64))
    }

    /// The packet left at `departure`, until when the process was held up in sending.
    pub(super) fn sent(&mut self, departure: Instant) {
        self.start = Some(floor(departure));
    }
}

/// The time as a clock of whole microseconds shows it.
fn floor(time: Instant) -> Instant {
    Instant::from_ns(time.ns() / MICROSECOND * MICROSECOND)
}
