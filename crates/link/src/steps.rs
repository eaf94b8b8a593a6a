//! A server whose rate changes at given times.

use headway_units::{RateSteps, WORK_PER_BYTE};

/// A server whose rate changes at given times, in exact integer arithmetic.
///
/// A packet that is in transmission at a change is transmitted piecewise: each part at the rate of its
/// time. The remainder of rounding down to nanoseconds is carried to the next packet, so that the
/// long-run rate is exact.
#[derive(Clone, Debug)]
pub struct SteppedServer {
    rates: RateSteps,
    /// When the last transmission ended (ns).
    free: u64,
    /// The work left then.
    carry: u64,
}

impl SteppedServer {
    /// Creates an idle server.
    pub(crate) fn new(rates: RateSteps) -> SteppedServer {
        SteppedServer { rates, free: 0, carry: 0 }
    }

    /// Returns the rates.
    pub(crate) fn rates(&self) -> &RateSteps {
        &self.rates
    }

    /// Returns when the transmission of a packet of `size` wire bytes ends that begins at `start` (ns), which
    /// must not precede the end of the last one.
    pub(crate) fn finish(&mut self, start: u64, size: u16) -> u64 {
        // Less than a nanosecond at one rate may be many at another.
        if start > self.free && !self.rates.is_constant_between(self.free, start) {
            self.carry = 0;
        }
        (self.free, self.carry) = self.rates.done_at(start, self.carry + u64::from(size) * WORK_PER_BYTE);
        self.free
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use headway_units::{Duration, Instant, Rate};

    fn rates(list: &[(i64, u64)]) -> RateSteps {
        let list: Vec<_> =
            list.iter().map(|(ns, bps)| (Duration::from_ns(*ns), Rate::from_bps(*bps))).collect();
        RateSteps::try_from(list).unwrap()
    }

    #[test]
    fn a_packet_that_straddles_a_change_is_served_at_both_rates() {
        // 1250 bytes take 10 us at 1 Gb/s. Of a packet that begins 4 us before the step to 100 Mb/s, six
        // tenths are left: 60 us.
        let mut server = SteppedServer::new(rates(&[(0, 1_000_000_000), (100_000, 100_000_000)]));
        assert_eq!(server.finish(80_000, 1250), 90_000);
        assert_eq!(server.finish(96_000, 1250), 160_000);
        assert_eq!(server.finish(160_000, 1250), 260_000);
        // A step up in the middle of a packet, and one that lasts over two steps.
        let list = rates(&[(0, 100_000_000), (50_000, 1_000_000_000), (52_000, 100_000_000)]);
        assert_eq!(SteppedServer::new(list).finish(0, 1250), 82_000);
    }

    proptest! {
        #[test]
        fn back_to_back_packets_do_exactly_the_work_of_their_bytes(
            steps in prop::collection::vec((1i64..3_000_000, 1_000_000u64..40_000_000_000), 1..12),
            sizes in prop::collection::vec(64u16..9_039, 1..200),
        ) {
            let mut time = 0;
            let list: Vec<_> = steps.iter().map(|(gap, rate)| {
                let start = time;
                time += gap;
                (start, *rate)
            }).collect();
            let rates = rates(&list);
            let mut server = SteppedServer::new(rates.clone());
            let (mut now, mut work) = (0, 0u128);
            for size in sizes {
                now = server.finish(now, size);
                work += u128::from(size) * u128::from(WORK_PER_BYTE);
                // What is left is less than a nanosecond's worth.
                let done = rates.work_between(0, now);
                prop_assert!(done <= work && work - done < u128::from(rates.at(Instant::from_ns(now)).bps()));
            }
        }
    }
}
