//! A server of constant rate.

use headway_units::Rate;

/// A constant rate. The remainder of rounding down to nanoseconds is carried, so that the
/// long-run rate is exact.
#[derive(Clone, Debug)]
pub struct Constant {
    /// Bits per second.
    pub(crate) rate: u64,
    /// Carried remainder, in units of 1/rate ns, below `rate`.
    carry: u64,
    pub(crate) bytes_per_ns: f64,
    /// The spacing of the packet size served last.
    pub(crate) spacing: Spacing,
}

/// The spacing of back-to-back packets: time from the end of one transmission to the end of the next.
#[derive(Clone, Copy, Debug)]
pub struct Spacing {
    /// Bits per second.
    rate: u64,
    /// Size of the packets on the wire.
    pub size: u16,
    /// Whole nanoseconds, and the remainder in units of 1/rate ns.
    whole: u64,
    rest: u64,
}

impl Spacing {
    /// Returns the spacing of packets of `size` wire bytes at `rate` bits per second.
    pub(crate) fn new(rate: u64, size: u16) -> Spacing {
        let work = u64::from(size) * 8_000_000_000;
        Spacing { rate, size, whole: work / rate, rest: work % rate }
    }

    /// Returns when the transmission of the next packet ends after one that ends at `at` (ns), and updates
    /// the remainder `carry`.
    #[inline(always)]
    pub fn after(&self, at: u64, carry: &mut u64) -> u64 {
        *carry += self.rest;
        let over = *carry >= self.rate;
        if over {
            *carry -= self.rate;
        }
        at + self.whole + u64::from(over)
    }

    /// Returns an upper bound of the time that `count` packets take (ns).
    pub fn upper_bound(&self, count: u64) -> u64 {
        (self.whole + 1) * count
    }
}

impl Constant {
    pub(crate) fn new(rate: Rate) -> Constant {
        Constant {
            rate: rate.bps(),
            bytes_per_ns: rate.bps_f64() / 8e9,
            carry: 0,
            spacing: Spacing { rate: rate.bps(), size: 0, whole: 0, rest: 0 },
        }
    }

    /// Returns the spacing of packets of `size` wire bytes.
    #[inline(always)]
    fn spacing(&mut self, size: u16) -> Spacing {
        if size != self.spacing.size {
            self.spacing = Spacing::new(self.rate, size);
        }
        self.spacing
    }

    #[inline(always)]
    pub(crate) fn finish(&mut self, start: u64, size: u16) -> u64 {
        self.spacing(size).after(start, &mut self.carry)
    }

    /// Transmits `count` packets of `size` wire bytes, at least one, from `start` (ns).
    pub fn finish_train(&mut self, start: u64, size: u16, count: u64) -> Served {
        let spacing = self.spacing(size);
        let first = spacing.after(start, &mut self.carry);
        let carry = self.carry;
        let (mut last, mut last_start, mut waits) = (first, start, 0);
        for _ in 1..count {
            (last_start, waits) = (last, waits + last - start);
            last = spacing.after(last, &mut self.carry);
        }
        Served { first, carry, last_start, last, waits }
    }
}

/// The transmission times of a train (ns).
#[derive(Clone, Copy, Debug)]
pub struct Served {
    /// When the transmission of the first packet ends.
    pub first: u64,
    /// The remainder then.
    pub carry: u64,
    /// When the transmission of the last packet begins.
    pub last_start: u64,
    /// When it ends.
    pub last: u64,
    /// The sum over all packets of the time from the start of the first to their own.
    pub waits: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_long_run_rate_is_exact() {
        for rate in [7, 999_999_937, 10_000_000_000, 3_333_333_333] {
            let mut server = Constant::new(Rate::from_bps(rate));
            let sizes = [1538u16, 78, 9038, 66];
            let mut now = 0;
            let mut bits = 0u64;
            for i in 0..40_000 {
                now = server.finish(now, sizes[i % 4]);
                bits += u64::from(sizes[i % 4]) * 8;
            }
            assert_eq!(u128::from(now), u128::from(bits) * 1_000_000_000 / u128::from(rate), "{rate} b/s");
        }
    }
}
