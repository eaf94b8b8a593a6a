//! ACK aggregation: how much more is acknowledged at once than the bandwidth explains.
//!
//! If a link or a receiver aggregates ACKs, a window of two BDPs runs empty between two aggregates.
//! `extra_acked` is the greatest excess of the segments acknowledged over those that the bandwidth would have
//! delivered since the start of an epoch, over the last five to ten round trips.

use super::{SCALE, micros};
use headway_units::Instant;

/// Round trips after which the older of two maxima is forgotten.
const ROUNDS: u32 = 5;
/// Segments after which an epoch restarts, because it says little about the present.
const MAX_EPOCH: u64 = 1 << 20;
/// Greatest excess that adds to the window, as a time at the estimated bandwidth, us: 100 ms.
const MAX_EXTRA_TIME: u64 = 100_000;

/// The estimate of one flow.
#[derive(Clone, Debug, Default)]
pub(super) struct Aggregation {
    start: Instant,
    /// Segments delivered since the start of the epoch.
    acked: u64,
    /// Greatest excess in segments, one for the present [`ROUNDS`] round trips and one for
    /// those before, in turns.
    excess: [u64; 2],
    current: usize,
    rounds: u32,
}

impl Aggregation {
    /// Starts a new epoch.
    pub(super) fn restart(&mut self, now: Instant) {
        (self.start, self.acked) = (now, 0);
    }

    /// Takes in `acked` segments that were delivered at `now`, with an estimate of `bandwidth`.
    pub(super) fn update(
        &mut self,
        now: Instant,
        acked: u32,
        bandwidth: u64,
        window: u32,
        round_start: bool,
    ) {
        if round_start {
            self.rounds += 1;
            if self.rounds >= ROUNDS {
                self.rounds = 0;
                self.current = 1 - self.current;
                self.excess[self.current] = 0;
            }
        }
        let acked = u64::from(acked);
        let time = micros(now - self.start);
        let mut expected = ((u128::from(bandwidth) * u128::from(time)) >> SCALE) as u64;
        if self.acked <= expected || self.acked + acked >= MAX_EPOCH {
            self.restart(now);
            expected = 0;
        }
        self.acked = (self.acked + acked).min(MAX_EPOCH - 1);
        let excess = (self.acked.saturating_sub(expected)).min(window.into());
        self.excess[self.current] = self.excess[self.current].max(excess);
    }

    /// Segments to add to the window.
    pub(super) fn extra_acked(&self, bandwidth: u64) -> u64 {
        let most = (bandwidth * MAX_EXTRA_TIME) >> SCALE;
        self.excess[0].max(self.excess[1]).min(most)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One segment per millisecond.
    const BANDWIDTH: u64 = (1 << SCALE) / 1000;

    /// The excess after 100 ms in which `lump` segments are acknowledged every `lump` milliseconds.
    fn lumps_of(lump: u32) -> u64 {
        let mut aggregation = Aggregation::default();
        for time in (0..100).step_by(lump as usize) {
            aggregation.update(Instant::from_ns(time * 1_000_000), lump, BANDWIDTH, 1000, false);
        }
        aggregation.extra_acked(BANDWIDTH)
    }

    #[test]
    fn the_excess_is_the_size_of_a_lump() {
        for lump in [1, 4, 20] {
            let window = lumps_of(lump);
            assert!((u64::from(lump)..=u64::from(lump) + 1).contains(&window), "{lump}: {window}");
        }
    }

    #[test]
    fn lumps_are_forgotten_after_ten_round_trips() {
        let mut aggregation = Aggregation::default();
        aggregation.update(Instant::from_ns(1), 50, BANDWIDTH, 1000, false);
        for round in 1..=10 {
            assert_eq!(aggregation.extra_acked(BANDWIDTH), 50);
            aggregation.update(Instant::from_ns(round * 100_000_000), 1, BANDWIDTH, 1000, true);
        }
        assert_eq!(aggregation.extra_acked(BANDWIDTH), 1);
    }

    #[test]
    fn no_lump_counts_for_more_than_the_window_or_a_tenth_of_a_second() {
        let mut aggregation = Aggregation::default();
        aggregation.update(Instant::from_ns(1), 500, BANDWIDTH, 1000, false);
        assert_eq!(aggregation.extra_acked(BANDWIDTH), 99);
        let mut aggregation = Aggregation::default();
        aggregation.update(Instant::from_ns(1), 500, BANDWIDTH, 10, false);
        assert_eq!(aggregation.extra_acked(BANDWIDTH), 10);
    }
}
