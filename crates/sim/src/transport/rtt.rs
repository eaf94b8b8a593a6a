//! Round-trip time and retransmission timeout (RFC 6298, with the bounds of Linux).

/// Least allowance for the variation of the round-trip time, ns: Linux's minimum timeout of 200 ms counts on top of the
/// smoothed round-trip time.
const MIN_VARIATION: u64 = 200_000_000;
/// Longest timeout, ns.
const MAX_TIMEOUT: u64 = 120_000_000_000;
/// Timeout before the first measurement, ns.
const FIRST_TIMEOUT: u64 = 1_000_000_000;

/// Estimates of one sender.
#[derive(Clone, Debug)]
pub(crate) struct Rtt {
    /// Smoothed round-trip time, ns; zero before the first measurement.
    smoothed: u64,
    variation: u64,
    min: u64,
    backoff: u32,
}

impl Rtt {
    pub(crate) fn new() -> Rtt {
        Rtt { smoothed: 0, variation: 0, min: u64::MAX, backoff: 0 }
    }

    #[inline]
    pub(crate) fn measured(&mut self, rtt: u64) {
        self.min = self.min.min(rtt);
        if self.smoothed == 0 {
            (self.smoothed, self.variation) = (rtt, rtt / 2);
        } else {
            let off = self.smoothed.abs_diff(rtt);
            self.variation = self.variation - self.variation / 4 + off / 4;
            self.smoothed = self.smoothed - self.smoothed / 8 + rtt / 8;
        }
        self.backoff = 0;
    }

    #[inline]
    pub(crate) fn timeout(&self) -> u64 {
        let timeout = match self.smoothed {
            0 => FIRST_TIMEOUT,
            smoothed => smoothed + (4 * self.variation).max(MIN_VARIATION),
        };
        (timeout << self.backoff).min(MAX_TIMEOUT)
    }

    pub(crate) fn back_off(&mut self) {
        self.backoff = (self.backoff + 1).min(10);
    }

    /// Smoothed round-trip time, ns; zero before the first measurement.
    #[inline]
    pub(crate) fn smoothed(&self) -> u64 {
        self.smoothed
    }

    /// Smallest round-trip time, ns; `u64::MAX` before the first measurement.
    #[inline]
    pub(crate) fn min(&self) -> u64 {
        self.min
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_timeout_follows_the_measurements_and_doubles() {
        let mut rtt = Rtt::new();
        assert_eq!(rtt.timeout(), 1_000_000_000);
        for _ in 0..200 {
            rtt.measured(100_000_000);
        }
        assert_eq!(rtt.timeout() / 1_000_000, 300);
        rtt.back_off();
        rtt.back_off();
        assert_eq!(rtt.timeout() / 1_000_000, 1_200);
        rtt.measured(100_000_000);
        assert_eq!(rtt.timeout() / 1_000_000, 300);
        assert_eq!(rtt.min(), 100_000_000);
    }
}
