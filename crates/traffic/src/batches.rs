//! Batches of packets at the instants of a Poisson process.

use headway_units::{Bytes, Duration, Rate};
use rand_pcg::Pcg64Mcg;

use super::Emission;
use super::distribution::{Geometric, exponential};

/// A clock that carries fractions of a nanosecond.
#[derive(Clone, Debug, Default)]
pub(super) struct Clock {
    at: Duration,
    carried: f64,
}

impl Clock {
    /// Advances by `ns` nanoseconds, which must not be negative.
    pub(super) fn advance(&mut self, ns: f64) -> Duration {
        let exact = self.carried + ns;
        let whole = exact as i64;
        self.carried = exact - whole as f64;
        self.at += Duration::from_ns(whole);
        self.at
    }
}

/// Batches with a geometric number of packets; with batches of one packet this is a Poisson process.
#[derive(Clone, Debug)]
pub(super) struct Batches {
    size: Bytes,
    clock: Clock,
    /// Mean time between batches in nanoseconds.
    gap: f64,
    batch: Geometric,
    /// Packets of the current batch still to come.
    left: u64,
    rng: Pcg64Mcg,
}

impl Batches {
    /// Creates a source with a mean of `batch` packets per batch; `rate` must be positive.
    pub(super) fn new(rate: Rate, size: Bytes, batch: f64, rng: Pcg64Mcg) -> Batches {
        let gap = size.get() as f64 * 8e9 / rate.bps_f64() * batch.max(1.0);
        Batches { size, clock: Clock::default(), gap, batch: Geometric::with_mean(batch), left: 0, rng }
    }

    pub(super) fn next(&mut self) -> Emission {
        if self.left == 0 {
            self.clock.advance(self.gap * exponential(&mut self.rng));
            self.left = self.batch.sample(&mut self.rng);
        }
        self.left -= 1;
        Emission { at: self.clock.at, size: self.size }
    }
}
