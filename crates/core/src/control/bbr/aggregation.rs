//! How much more is acknowledged at once than the bandwidth explains.
//!
//! Behind a link that collects acknowledgements, or a receiver that does, a window of two bandwidth-delay products runs empty
//! between two lumps. Their size is the largest excess of what was acknowledged over what the bandwidth would have delivered since
//! the beginning of an epoch, over the last five to ten round trips.

use super::{SCALE, micros};
use crate::units::Instant;

/// Round trips after which the older of two maxima is forgotten.
const ROUNDS: u32 = 5;
/// Segments in an epoch after which it starts again, because it says little about the present.
const LONGEST: u64 = 1 << 20;
/// Lumps longer than this in microseconds of the bandwidth do not add to the window: 100 ms.
const LONGEST_LUMP: u64 = 100_000;

/// The estimate of one flow.
#[derive(Clone, Debug, Default)]
pub(super) struct Aggregation {
    start: Instant,
    /// Segments reported since the start of the epoch.
    acked: u64,
    /// Largest excess in segments, in the present stretch of round trips and in the one before, in turns.
    excess: [u64; 2],
    current: usize,
    rounds: u32,
}

impl Aggregation {
    /// A new epoch begins.
    pub(super) fn restart(&mut self, now: Instant) {
        (self.start, self.acked) = (now, 0);
    }

    /// `acked` segments were reported at `now`, while `bandwidth` was thought of the path.
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
        if self.acked <= expected || self.acked + acked >= LONGEST {
            self.restart(now);
            expected = 0;
        }
        self.acked = (self.acked + acked).min(LONGEST - 1);
        let excess = (self.acked.saturating_sub(expected)).min(window.into());
        self.excess[self.current] = self.excess[self.current].max(excess);
    }

    /// Segments to add to the window.
    pub(super) fn window(&self, bandwidth: u64) -> u64 {
        let most = (bandwidth * LONGEST_LUMP) >> SCALE;
        self.excess[0].max(self.excess[1]).min(most)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One segment per millisecond.
    const BANDWIDTH: u64 = (1 << SCALE) / 1000;

    /// The window after 100 ms in which `lump` segments come every `lump` milliseconds.
    fn lumps_of(lump: u32) -> u64 {
        let mut aggregation = Aggregation::default();
        for time in (0..100).step_by(lump as usize) {
            aggregation.update(Instant::from_ns(time * 1_000_000), lump, BANDWIDTH, 1000, false);
        }
        aggregation.window(BANDWIDTH)
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
            assert_eq!(aggregation.window(BANDWIDTH), 50);
            aggregation.update(Instant::from_ns(round * 100_000_000), 1, BANDWIDTH, 1000, true);
        }
        assert_eq!(aggregation.window(BANDWIDTH), 1);
    }

    #[test]
    fn no_lump_counts_for_more_than_the_window_or_a_tenth_of_a_second() {
        let mut aggregation = Aggregation::default();
        aggregation.update(Instant::from_ns(1), 500, BANDWIDTH, 1000, false);
        assert_eq!(aggregation.window(BANDWIDTH), 99);
        let mut aggregation = Aggregation::default();
        aggregation.update(Instant::from_ns(1), 500, BANDWIDTH, 10, false);
        assert_eq!(aggregation.window(BANDWIDTH), 10);
    }
}
