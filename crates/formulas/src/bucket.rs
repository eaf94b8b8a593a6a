//! What a token-bucket shaper can do (wan 2.6 and 6.3).

use headway_units::{Bytes, Duration, Rate};

/// A token-bucket shaper such as the kernel's `tbf`.
///
/// Sizes count what the shaper counts; the kernel's `tbf` counts the IP packet and 14 bytes of Ethernet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TokenBucketShaper {
    /// Rate at which tokens arrive.
    pub rate: Rate,
    /// Size of the bucket.
    pub burst: Bytes,
}

impl TokenBucketShaper {
    /// Returns how many packets of this size a full bucket passes at once.
    pub fn packets_at_once(&self, packet: Bytes) -> u64 {
        self.burst.get() / packet.get().max(1)
    }

    /// Returns the gap between the departures of two back-to-back packets that find a full bucket: zero if it
    /// holds both. A bucket larger than one packet makes it shorter than the packet time at `rate`.
    pub fn pair_gap(&self, packet: Bytes) -> Duration {
        let missing = (packet * 2).get().saturating_sub(self.burst.get()).min(packet.get());
        self.rate.time_for(Bytes::new(missing))
    }

    /// Returns how long an empty bucket takes to fill.
    pub fn fill_time(&self) -> Duration {
        self.rate.time_for(self.burst)
    }

    /// Returns the rate that a shaper reaches which serves its queue only at `ticks` per second, with at most
    /// a bucket's worth of packets each time.
    pub fn with_ticks(&self, ticks: u32) -> Rate {
        self.rate.min(highest_rate(self.burst, ticks))
    }
}

/// Returns the highest rate of a shaper with this bucket that serves its queue only at `ticks` per second:
/// R_max = B f.
pub fn highest_rate(burst: Bytes, ticks: u32) -> Rate {
    Rate::from_bps(burst.get().saturating_mul(8).saturating_mul(ticks.into()))
}

/// Returns the smallest bucket with which a shaper that serves its queue only at `ticks` per second reaches
/// `rate`: B_min = R / f, rounded up.
pub fn least_burst(rate: Rate, ticks: u32) -> Bytes {
    Bytes::new(rate.bps().div_ceil(8 * u64::from(ticks.max(1))))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shaper(mbps: f64, burst: u64) -> TokenBucketShaper {
        TokenBucketShaper { rate: Rate::from_mbps(mbps), burst: Bytes::new(burst) }
    }

    #[test]
    fn a_tick_limits_the_rate() {
        // wan 2.6 and 7.
        assert_eq!(highest_rate(Bytes::new(1500), 250), Rate::from_mbps(3.0));
        assert_eq!(least_burst(Rate::from_mbps(100.0), 250), Bytes::new(50_000));
        assert_eq!(shaper(100.0, 1500).with_ticks(250), Rate::from_mbps(3.0));
        assert_eq!(shaper(100.0, 60_000).with_ticks(250), Rate::from_mbps(100.0));
    }

    #[test]
    fn credit_left_over_shortens_the_gap_of_a_pair() {
        // wan 6.3: 86 B of credit are left, so the gap is that of 1428 B.
        let gap = shaper(100.0, 1600).pair_gap(Bytes::new(1514));
        assert_eq!(gap, Duration::from_ns(1428 * 80));
        assert_eq!(shaper(100.0, 1514).pair_gap(Bytes::new(1514)), Duration::from_ns(1514 * 80));
        assert_eq!(shaper(100.0, 4800).pair_gap(Bytes::new(1514)), Duration::ZERO);
        assert_eq!(shaper(100.0, 4800).packets_at_once(Bytes::new(1514)), 3);
        assert_eq!(shaper(100.0, 5000).fill_time(), Duration::from_us(400));
    }
}
