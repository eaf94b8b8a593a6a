//! A kernel timer (hrtimer) that wakes the qdisc (rapid 2.4.2). The model is calibrated on
//! rapid G1, G2 and G4.

use headway_units::{Duration, Instant};
use rand_pcg::Pcg64Mcg;

use headway_traffic::distribution::exponential;

/// Resolution of the timer in nanoseconds (rapid 2.4.2).
const RESOLUTION: u64 = 1_000;
/// Mean delay from expiry to its handling while expiries are handled one by one, in nanoseconds; our choice.
const LATENCY: f64 = 500.0;
/// Mean duration of a period in which expiries are handled one by one, in nanoseconds; calibrated
/// on 89 % of rapid G4.
const PROMPT: f64 = 100_000.0;
/// Shortest period in which expiries are deferred and then handled together, in nanoseconds (G2: gaps
/// of more than 100 us).
const HELD_LEAST: f64 = 100_000.0;
/// Mean excess over the shortest period, in nanoseconds; calibrated on the deviations of
/// more than 20 us of G1.
const HELD_MORE: f64 = 150_000.0;

/// A timer whose expiries are at times deferred by softirq processing.
///
/// Packets that are already due when the line becomes free need no timer.
#[derive(Clone, Debug)]
pub(super) struct Timer {
    /// Begin and end of the current or next period in which expiries are deferred.
    held: (Instant, Instant),
    rng: Pcg64Mcg,
}

impl Timer {
    /// Creates the timer of a host that has just started.
    pub(super) fn new(mut rng: Pcg64Mcg) -> Timer {
        let held = draw_deferral(Instant::ZERO, &mut rng);
        Timer { held, rng }
    }

    /// Returns when a timer set to `scheduled` wakes the sender; times must not decrease.
    pub(super) fn ready(&mut self, scheduled: Instant) -> Instant {
        let expiry = Instant::from_ns(scheduled.ns().div_ceil(RESOLUTION) * RESOLUTION);
        // After a long idle time, periods more than a second ago no longer affect the present one.
        if expiry - self.held.1 > MEMORY {
            self.held = draw_deferral(expiry - MEMORY, &mut self.rng);
        }
        while self.held.1 <= expiry {
            self.held = draw_deferral(self.held.1, &mut self.rng);
        }
        if self.held.0 <= expiry {
            return self.held.1;
        }
        expiry + Duration::from_ns((LATENCY * exponential(&mut self.rng)) as i64)
    }
}

/// Idle time above which intermediate periods are not drawn one by one.
const MEMORY: Duration = Duration::from_ms(1_000);

/// Draws the first period after `now` in which expiries are deferred.
fn draw_deferral(now: Instant, rng: &mut Pcg64Mcg) -> (Instant, Instant) {
    let from = now + Duration::from_ns((PROMPT * exponential(rng)) as i64);
    (from, from + Duration::from_ns((HELD_LEAST + HELD_MORE * exponential(rng)) as i64))
}
