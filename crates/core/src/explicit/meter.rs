//! The throughput of a sender that does not fill its window (xcp-rcp 2.1).

use crate::units::{Bytes, Duration, Instant, Rate};

/// What a sender really sends: bytes per round trip.
///
/// The window per RTT says too much where the application limits a flow. The metered rate rises at once and falls by a
/// quarter of the difference per round trip, so a short pause does not make it ask for a change that it does not need.
#[derive(Clone, Copy, Debug, Default)]
pub struct Meter {
    since: Instant,
    bytes: Bytes,
    rate: Rate,
}

impl Meter {
    /// Counts a packet of `bytes` sent at `now`, which must not fall.
    pub fn on_sent(&mut self, bytes: Bytes, now: Instant, srtt: Duration) {
        let elapsed = now - self.since;
        if srtt > Duration::ZERO && elapsed >= srtt {
            let sample = Rate::of(self.bytes, elapsed).unwrap_or(Rate::ZERO).bps();
            let fallen = self.rate.bps() - self.rate.bps().saturating_sub(sample).div_ceil(4);
            self.rate = Rate::from_bps(sample.max(fallen));
            (self.since, self.bytes) = (now, Bytes::ZERO);
        }
        self.bytes += bytes;
    }

    /// Returns the metered rate; zero before the end of the first round trip.
    pub const fn throughput(&self) -> Rate {
        self.rate
    }
}
