//! Packets that come in batches at the instants of a Poisson process.

use headway_core::{Bytes, Duration, Rate};
use rand_pcg::Pcg64Mcg;

use super::Emission;
use super::distribution::{Geometric, exponential};

/// Times that advance by fractions of a nanosecond, which are carried.
#[derive(Clone, Debug, Default)]
pub(super) struct Clock {
    at: Duration,
    carried: f64,
}

impl Clock {
    /// Moves on by `ns` nanoseconds, which are not negative.
    #[inline]
    pub(super) fn advance(&mut self, ns: f64) -> Duration {
        let exact = self.carried + ns;
        let whole = exact as i64;
        self.carried = exact - whole as f64;
        self.at += Duration::from_ns(whole);
        self.at
    }
}

/// Batches of a geometric number of packets; Poisson arrivals are batches of one.
#[derive(Clone, Debug)]
pub(super) struct Batches {
    size: Bytes,
    clock: Clock,
    /// Mean time between batches in nanoseconds.
    gap: f64,
    batch: Geometric,
    /// Packets of the present batch still to come.
    left: u64,
    rng: Pcg64Mcg,
}

impl Batches {
    /// With `batch` packets in the mean batch; `rate` is positive.
    pub(super) fn new(rate: Rate, size: Bytes, batch: f64, rng: Pcg64Mcg) -> Batches {
        let gap = size.get() as f64 * 8e9 / rate.bps_f64() * batch.max(1.0);
        Batches { size, clock: Clock::default(), gap, batch: Geometric::with_mean(batch), left: 0, rng }
    }

    #[inline]
    pub(super) fn next(&mut self) -> Emission {
        if self.left == 0 {
            self.clock.advance(self.gap * exponential(&mut self.rng));
            self.left = self.batch.sample(&mut self.rng);
        }
        self.left -= 1;
        Emission { at: self.clock.at, size: self.size }
    }
}
