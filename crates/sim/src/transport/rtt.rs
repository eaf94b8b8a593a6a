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
    /// Timeout without back-off, ns.
    timeout: u64,
}

impl Rtt {
    pub(crate) fn new() -> Rtt {
        Rtt { smoothed: 0, variation: 0, min: u64::MAX, backoff: 0, timeout: FIRST_TIMEOUT }
    }

    /// Takes in the round-trip times of the oldest and of the newest segment that an acknowledgement reports: the timeout has to cover
    /// the one, the path is judged by the other.
    #[inline]
    pub(crate) fn measured(&mut self, rtt: u64, newest: u64) {
        self.min = self.min.min(newest);
        if self.smoothed == 0 {
            (self.smoothed, self.variation) = (rtt, rtt / 2);
        } else {
            let off = self.smoothed.abs_diff(rtt);
            self.variation = self.variation - self.variation / 4 + off / 4;
            self.smoothed = self.smoothed - self.smoothed / 8 + rtt / 8;
        }
        self.backoff = 0;
        self.timeout = (self.smoothed + (4 * self.variation).max(MIN_VARIATION)).min(MAX_TIMEOUT);
    }

    #[inline]
    pub(crate) fn timeout(&self) -> u64 {
        (self.timeout << self.backoff).min(MAX_TIMEOUT)
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
            rtt.measured(100_000_000, 100_000_000);
        }
        assert_eq!(rtt.timeout() / 1_000_000, 300);
        rtt.back_off();
        rtt.back_off();
        assert_eq!(rtt.timeout() / 1_000_000, 1_200);
        rtt.measured(100_000_000, 100_000_000);
        assert_eq!(rtt.timeout() / 1_000_000, 300);
        assert_eq!(rtt.min(), 100_000_000);
        rtt.measured(140_000_000, 90_000_000);
        assert_eq!((rtt.smoothed() / 1_000_000, rtt.min()), (105, 90_000_000));
    }
}
