//! A kernel timer (hrtimer) that wakes the queueing discipline (rapid 2.4.2): a model calibrated on rapid's G1, G2 and G4.

use headway_core::{Duration, Instant};
use rand_pcg::Pcg64Mcg;

use headway_traffic::distribution::exponential;

/// Resolution of the timer in nanoseconds (rapid 2.4.2).
const RESOLUTION: u64 = 1_000;
/// Mean time from expiry to handling while expiries are handled one by one, in nanoseconds; ours.
const LATENCY: f64 = 500.0;
/// Mean time for which expiries are handled one by one, in nanoseconds; calibrated on the 89 % of G4.
const PROMPT: f64 = 100_000.0;
/// The least time for which expiries are held back and then handled together (G2: gaps of more than 100 us).
const HELD_LEAST: f64 = 100_000.0;
/// Mean of what is added to it, in nanoseconds; calibrated on the deviations of more than 20 us of G1.
const HELD_MORE: f64 = 150_000.0;

/// A timer whose expiries are at times held back by softirq processing.
///
/// Packets that are already due when the line becomes free need no timer.
#[derive(Clone, Debug)]
pub(super) struct Timer {
    /// The next time or the time in which expiries are held back.
    held: (Instant, Instant),
    rng: Pcg64Mcg,
}

impl Timer {
    /// A timer of a host that just started.
    pub(super) fn new(mut rng: Pcg64Mcg) -> Timer {
        let held = hold(Instant::ZERO, &mut rng);
        Timer { held, rng }
    }

    /// When a timer that is set to `scheduled` wakes the sender; times do not decrease.
    pub(super) fn ready(&mut self, scheduled: Instant) -> Instant {
        let expiry = Instant::from_ns(scheduled.ns().div_ceil(RESOLUTION) * RESOLUTION);
        // After a long idle time only the last second matters for what is held back now.
        if expiry - self.held.1 > MEMORY {
            self.held = hold(expiry - MEMORY, &mut self.rng);
        }
        while self.held.1 <= expiry {
            self.held = hold(self.held.1, &mut self.rng);
        }
        if self.held.0 <= expiry {
            return self.held.1;
        }
        expiry + Duration::from_ns((LATENCY * exponential(&mut self.rng)) as i64)
    }
}

/// Idle time beyond which the periods in between are not gone through one by one.
const MEMORY: Duration = Duration::from_ms(1_000);

/// The first period after `now` in which expiries are held back.
fn hold(now: Instant, rng: &mut Pcg64Mcg) -> (Instant, Instant) {
    let from = now + Duration::from_ns((PROMPT * exponential(rng)) as i64);
    (from, from + Duration::from_ns((HELD_LEAST + HELD_MORE * exponential(rng)) as i64))
}
