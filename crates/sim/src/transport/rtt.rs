//! RTT estimation and retransmission timeout (RFC 6298, with the bounds of Linux).

/// Minimum of the RTT variance term, ns: Linux adds its minimum RTO of 200 ms to the smoothed RTT.
const RTO_MIN: u64 = 200_000_000;
/// Maximum RTO, ns (Linux's `TCP_RTO_MAX`).
const RTO_MAX: u64 = 120_000_000_000;
/// RTO before the first measurement, ns.
const INITIAL_RTO: u64 = 1_000_000_000;

/// RTT estimator of one sender.
#[derive(Clone, Debug, Default)]
pub(crate) struct Rtt {
    /// Smoothed RTT, ns; zero before the first measurement.
    smoothed: u64,
    /// Four times the mean deviation, ns, and its maximum in this round trip.
    mdev: u64,
    mdev_max: u64,
    /// The RTT variance term of the RTO, ns: grows at once, and decays towards `mdev_max`
    /// once per round trip.
    rttvar: u64,
    /// The round trip ends when this segment is acknowledged.
    rtt_seq: u64,
    min: u64,
    backoff: u32,
    /// RTO without back-off, ns.
    timeout: u64,
}

impl Rtt {
    pub(crate) fn new() -> Rtt {
        Rtt { min: u64::MAX, timeout: INITIAL_RTO, ..Rtt::default() }
    }

    /// Takes the RTTs of the oldest and of the newest segment that an ACK delivers, ns. The oldest feeds
    /// the smoothed RTT and the RTO, the newest the minimum RTT. Segments below `una` are acknowledged,
    /// those below `next` sent.
    pub(crate) fn measured(&mut self, rtt: u64, newest: u64, (una, next): (u64, u64)) {
        self.min = self.min.min(newest);
        self.backoff = 0;
        if self.smoothed == 0 {
            (self.smoothed, self.mdev, self.rtt_seq) = (rtt, 2 * rtt, next);
            self.rttvar = self.mdev.max(RTO_MIN);
            self.mdev_max = self.rttvar;
        } else {
            self.update_mdev(rtt);
            self.smoothed = self.smoothed - self.smoothed / 8 + rtt / 8;
            if una > self.rtt_seq {
                self.rttvar -= self.rttvar.saturating_sub(self.mdev_max) / 4;
                (self.rtt_seq, self.mdev_max) = (next, RTO_MIN);
            }
        }
        self.timeout = (self.smoothed + self.rttvar).min(RTO_MAX);
    }

    /// An RTT well below the smoothed one raises the deviation by only an eighth of what one above it does,
    /// because a falling RTT is no reason for a longer RTO (as in Linux).
    fn update_mdev(&mut self, rtt: u64) {
        let off = self.smoothed.abs_diff(rtt);
        let kept = self.mdev - self.mdev / 4;
        self.mdev = if rtt < self.smoothed && off > self.mdev / 4 {
            self.mdev + (off - self.mdev / 4) / 8
        } else {
            kept + off
        };
        self.mdev_max = self.mdev_max.max(self.mdev);
        self.rttvar = self.rttvar.max(self.mdev_max);
    }

    pub(crate) fn timeout(&self) -> u64 {
        (self.timeout << self.backoff).min(RTO_MAX)
    }

    pub(crate) fn back_off(&mut self) {
        self.backoff = (self.backoff + 1).min(10);
    }

    /// Smoothed RTT, ns; zero before the first measurement.
    pub(crate) fn smoothed(&self) -> u64 {
        self.smoothed
    }

    /// Minimum RTT, ns; `u64::MAX` before the first measurement.
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
        let ms = 1_000_000;
        for segment in 0..200 {
            rtt.measured(100 * ms, 100 * ms, (segment, segment + 10));
        }
        assert_eq!(rtt.timeout() / ms, 300);
        rtt.back_off();
        rtt.back_off();
        assert_eq!(rtt.timeout() / 1_000_000, 1_200);
        rtt.measured(100 * ms, 100 * ms, (200, 210));
        assert_eq!(rtt.timeout() / ms, 300);
        assert_eq!(rtt.min(), 100_000_000);
        rtt.measured(140 * ms, 90 * ms, (201, 211));
        assert_eq!((rtt.smoothed() / ms, rtt.min()), (105, 90 * ms));
    }

    #[test]
    fn a_deviation_is_remembered_for_some_round_trips() {
        let mut rtt = Rtt::new();
        let ms = 1_000_000;
        let mut timeouts = Vec::new();
        // Rounds of ten segments; the RTT of the fourth is half a second longer.
        for segment in 0..120 {
            let late = if segment / 10 == 3 { 500 } else { 0 };
            rtt.measured((100 + late) * ms, 100 * ms, (segment, segment + 10));
            if segment % 10 == 9 {
                timeouts.push(rtt.timeout() / ms);
            }
        }
        // The first RTO is three RTTs, or the minimum variance term on top of one.
        assert_eq!(timeouts[..3], [300, 300, 300]);
        assert!(timeouts[3] > 1_000, "{timeouts:?}");
        assert!(timeouts[5] > timeouts[3] / 2 && timeouts[11] < timeouts[3], "{timeouts:?}");
    }
}
