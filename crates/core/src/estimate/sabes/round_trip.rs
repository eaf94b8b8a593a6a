//! The RTT of a transfer: of the handshake, smoothed, and the smallest (wan 2.10).

use crate::units::{Duration, Instant};

/// How long a smallest RTT counts, at least; a path that became longer is noticed after twice that.
const MEMORY: Duration = Duration::from_ms(60_000);

/// The round-trip times of a transfer.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RoundTrip {
    /// When the SYN and the SYN-ACK passed the tap.
    syn: Option<Instant>,
    handshake: Option<Duration>,
    smoothed: Option<Duration>,
    /// The smallest RTTs since `since`, and of the time of the same length before.
    least: Option<Duration>,
    earlier: Option<Duration>,
    since: Instant,
}

impl RoundTrip {
    /// The SYN passed the tap; one sent again makes the RTT of the handshake ambiguous, and the last one counts.
    pub(super) fn syn(&mut self, at: Instant) {
        self.syn = Some(at);
        self.handshake = None;
    }

    /// The first packet behind the SYN-ACK from the end that sent the SYN. Between it and the SYN lies a whole RTT,
    /// wherever the tap is.
    pub(super) fn established(&mut self, at: Instant) {
        if let Some(syn) = self.syn.take() {
            self.handshake = Some(at - syn).filter(|time| *time > Duration::ZERO);
        }
    }

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

    /// Returns the RTT of the handshake.
    pub(super) fn handshake(&self) -> Option<Duration> {
        self.handshake
    }

    /// Returns the RTT that determines how many samples phase 1 takes.
    pub(super) fn first(&self) -> Option<Duration> {
        self.handshake.or(self.least())
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
    fn the_handshake_spans_a_whole_rtt_at_any_tap() {
        let mut times = RoundTrip::default();
        times.syn(Instant::from_ns(5_000_000));
        times.established(Instant::from_ns(65_000_000));
        times.established(Instant::from_ns(95_000_000));
        assert_eq!(times.handshake(), Some(Duration::from_ms(60)));
    }

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
