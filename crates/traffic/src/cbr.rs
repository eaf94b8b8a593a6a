//! Packets at equal intervals.

use headway_units::{Bytes, Duration, Rate};
use rand_pcg::Pcg64Mcg;

use super::Emission;
use super::distribution::uniform;

/// A source of constant bit rate. Carries the rounding error of nanoseconds, so the rate is exact.
#[derive(Clone, Debug)]
pub(super) struct Cbr {
    size: Bytes,
    /// When the next packet leaves.
    at: Duration,
    /// Whole nanoseconds between packets.
    gap: Duration,
    /// Numerator of the fraction of a nanosecond that `gap` lacks; the denominator is `rate`.
    lack: u64,
    /// Numerator of the fraction carried so far; the denominator is `rate`.
    carried: u64,
    /// Bits per second.
    rate: u64,
}

impl Cbr {
    /// Creates a source with a random phase, so that several equal sources do not run in lockstep;
    /// `rate` must be positive.
    pub(super) fn new(rate: Rate, size: Bytes, rng: &mut Pcg64Mcg) -> Cbr {
        // Bits times nanoseconds per second.
        let work = u128::from(size.get()) * 8_000_000_000;
        let (gap, lack) = (work / u128::from(rate.bps()), work % u128::from(rate.bps()));
        let gap = Duration::from_ns(i64::try_from(gap).unwrap_or(i64::MAX));
        // The remainder is smaller than the rate and so fits into 64 bits.
        Cbr { size, at: gap.scale(uniform(rng)), gap, lack: lack as u64, carried: 0, rate: rate.bps() }
    }

    pub(super) fn next(&mut self) -> Emission {
        let emission = Emission { at: self.at, size: self.size };
        self.at += self.gap;
        self.carried += self.lack;
        if self.carried >= self.rate {
            self.carried -= self.rate;
            self.at += Duration::from_ns(1);
        }
        emission
    }
}
