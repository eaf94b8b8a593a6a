//! The egress of a sending host: a token bucket and a line.

use headway_units::{Bytes, Duration, Rate};

use super::Emission;

/// A token bucket with an unlimited queue.
#[derive(Clone, Debug)]
pub(super) struct Bucket {
    rate: Rate,
    /// Time in which an empty bucket fills.
    filling: Duration,
    /// When the bucket is full again if no further packet comes.
    full: Duration,
    /// When the previous packet passed.
    last: Duration,
}

impl Bucket {
    /// Creates a full bucket of `burst` bytes that fills at a positive `rate`.
    pub(super) fn new(rate: Rate, burst: Bytes) -> Bucket {
        Bucket { rate, filling: rate.time_for(burst), full: Duration::ZERO, last: Duration::ZERO }
    }

    /// Returns when a packet passes.
    fn pass(&mut self, packet: Emission) -> Duration {
        let tokens = self.rate.time_for(packet.size);
        self.last = packet.at.max(self.last).max(self.full + tokens - self.filling);
        self.full = self.full.max(self.last) + tokens;
        self.last
    }
}

/// A host's egress.
#[derive(Clone, Debug)]
pub(super) struct Egress {
    bucket: Option<Bucket>,
    line: Rate,
    /// When the line becomes free.
    free: Duration,
}

impl Egress {
    /// Creates an idle line, behind a bucket if there is one.
    pub(super) fn new(bucket: Option<Bucket>, line: Rate) -> Egress {
        Egress { bucket, line, free: Duration::ZERO }
    }

    /// Returns the packet with the time at which it starts on the line.
    pub(super) fn pass(&mut self, packet: Emission) -> Emission {
        let passed = self.bucket.as_mut().map_or(packet.at, |bucket| bucket.pass(packet));
        let at = passed.max(self.free);
        self.free = at + self.line.time_for(packet.size);
        Emission { at, ..packet }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_leaves_at_the_line_rate_and_the_rest_at_the_rate_of_the_bucket() {
        let bucket = Bucket::new(Rate::from_mbps(100.0), Bytes::new(10_000));
        let mut egress = Egress::new(Some(bucket), Rate::from_mbps(1_000.0));
        let packet = Emission { at: Duration::from_ms(5), size: Bytes::new(1_000) };
        let times: Vec<f64> = (0..14).map(|_| egress.pass(packet).at.us() - 5_000.0).collect();
        let burst = (0..10).map(|k| f64::from(k) * 8.0);
        let rest = (1..5).map(|k| f64::from(k) * 80.0);
        assert_eq!(times, burst.chain(rest).collect::<Vec<_>>());
    }
}
