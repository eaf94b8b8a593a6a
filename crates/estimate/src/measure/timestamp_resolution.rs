//! The resolution of the receiver's timestamps, which limits the capacity that can be measured.

use crate::stream::StreamRecord;
use headway_units::{Bytes, Duration, Rate};

/// The coarsest resolution considered, in nanoseconds; finer ones are powers of ten below it.
const COARSEST: u64 = 1_000_000;
/// Number of timestamps that must agree on a resolution.
const ENOUGH: u32 = 32;
/// A packet must take this many times the resolution or the driver's time per packet; otherwise the
/// measurement would show the receiver instead of the link.
const MARGIN: f64 = 1.5;

/// Collects timestamps.
#[derive(Clone, Debug)]
pub(super) struct TimestampResolution {
    resolution: u64,
    seen: u32,
}

impl Default for TimestampResolution {
    fn default() -> TimestampResolution {
        TimestampResolution { resolution: COARSEST, seen: 0 }
    }
}

impl TimestampResolution {
    pub(super) fn observe(&mut self, record: &StreamRecord) {
        for received in record.arrivals.iter().filter_map(|arrival| arrival.received) {
            while self.resolution > 1 && received.ns() % self.resolution != 0 {
                self.resolution /= 10;
            }
            self.seen += 1;
        }
    }

    /// Returns the highest rate that can be resolved; `driver` is the receiver's time per packet of a batch.
    pub(super) fn limit(&self, packet: Bytes, driver: Option<Duration>) -> Option<Rate> {
        let known = self.resolution > 1 && self.seen >= ENOUGH;
        let resolution = Duration::from_ns(if known { self.resolution as i64 } else { 1 });
        Rate::of(packet, resolution.max(driver.unwrap_or_default()).scale(MARGIN))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stream::Arrival;
    use headway_units::Instant;

    fn stamps(step_ns: u64) -> TimestampResolution {
        let arrival = |index: u32| Arrival {
            index,
            size: Bytes::new(1_538),
            sent: Instant::from_ns(0),
            received: Some(Instant::from_ns(u64::from(index) * step_ns)),
        };
        let mut stamps = TimestampResolution::default();
        stamps.observe(&StreamRecord {
            id: 0,
            packet: Bytes::new(1_538),
            average: Rate::from_mbps(1.0),
            intended: Vec::new(),
            arrivals: (0..40).map(arrival).collect(),
        });
        stamps
    }

    #[test]
    fn stamps_in_microseconds_resolve_eight_gigabits_of_full_packets() {
        let limit = stamps(7_000).limit(Bytes::new(1_538), None).expect("a limit");
        assert!((limit.mbps() - 8_203.0).abs() < 1.0, "{limit}");
        let slower = stamps(7_000).limit(Bytes::new(1_538), Some(Duration::from_us(2))).expect("a limit");
        assert!((slower.mbps() - 4_101.0).abs() < 1.0, "{slower}");
    }

    #[test]
    fn stamps_in_nanoseconds_resolve_any_link() {
        let limit = stamps(7_001).limit(Bytes::new(1_538), None).expect("a limit");
        assert!(limit > Rate::from_mbps(1_000_000.0), "{limit}");
    }
}
