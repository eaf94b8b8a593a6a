//! The RTT of a transfer's segments: smoothed, and the smallest (wan 2.10).

use headway_units::{Duration, Instant};

/// How long a smallest RTT counts, at least; a path that became longer is noticed after twice that.
const MEMORY: Duration = Duration::from_ms(60_000);

/// The round-trip times of a transfer.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RoundTrip {
    smoothed: Option<Duration>,
    /// The smallest RTTs since `since`, and of the time of the same length before.
    least: Option<Duration>,
    earlier: Option<Duration>,
    since: Instant,
}

impl RoundTrip {
    /// Takes the time between a segment and its ACK.
    pub(super) fn measured(&mut self, at: Instant, time: Duration) {
        if time <= Duration::ZERO {
            return;
        }
        self.smoothed = Some(self.smoothed.map_or(time, |smoothed| smoothed + (time - smoothed) / 8));
        if at - self.since > MEMORY {
            self.earlier = self.least.take();
            self.since = at;
        }
        self.least = Some(self.least.map_or(time, |least| least.min(time)));
    }

    /// Returns the smoothed RTT.
    pub(super) fn smoothed(&self) -> Option<Duration> {
        self.smoothed
    }

    /// Returns the smallest RTT, that of an empty queue.
    pub(super) fn least(&self) -> Option<Duration> {
        let both = self.least.into_iter().chain(self.earlier);
        both.min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_longer_path_is_noticed_after_two_minutes() {
        let mut times = RoundTrip::default();
        for second in 0..180_u64 {
            let time = Duration::from_ms(if second < 30 { 20 } else { 50 });
            times.measured(Instant::from_ns(second * 1_000_000_000), time);
            let expected = if second < 122 { 20 } else { 50 };
            assert_eq!(times.least(), Some(Duration::from_ms(expected)), "{second}");
        }
    }
}
