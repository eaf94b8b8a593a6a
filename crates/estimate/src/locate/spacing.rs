//! The random times between trains.

use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;

use crate::stream::{Train, TrainSchedule};
use headway_units::{Bytes, Duration};

/// Draws the times between trains. They are exponentially distributed beyond a minimum, so that trains do not
/// meet periodic cross traffic always at the same moment of its period.
#[derive(Clone, Debug)]
pub(crate) struct Spacing {
    random: Pcg64Mcg,
}

impl Spacing {
    pub(crate) fn new(seed: u64) -> Spacing {
        Spacing { random: Pcg64Mcg::seed_from_u64(seed) }
    }

    /// Returns a schedule of these trains with gaps of `least` or more and `mean` on average.
    pub(super) fn schedule(
        &mut self,
        packet: Bytes,
        trains: Vec<Train>,
        least: Duration,
        mean: Duration,
    ) -> TrainSchedule {
        let count = trains.len().saturating_sub(1);
        TrainSchedule { packet, gaps: (0..count).map(|_| self.gap(least, mean)).collect(), trains }
    }

    /// Draws a gap of `least` or more and `mean` on average.
    pub(crate) fn gap(&mut self, least: Duration, mean: Duration) -> Duration {
        least + (mean - least).max(Duration::ZERO).scale(self.exponential())
    }

    /// Draws from the exponential distribution of mean 1.
    fn exponential(&mut self) -> f64 {
        // 53 random bits: from 0 up to but not including 1.
        let uniform = (self.random.next_u64() >> 11) as f64 / (1u64 << 53) as f64;
        -(1.0 - uniform).ln()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_are_exponential_beyond_a_minimum() {
        let (least, mean) = (Duration::from_ms(2), Duration::from_ms(20));
        let trains = vec![Train::PAIR; 10_001];
        let schedule = Spacing::new(1).schedule(Bytes::new(1538), trains.clone(), least, mean);
        assert_eq!(schedule.gaps.len(), 10_000);
        let average = schedule.duration().ms() / 10_000.0;
        assert!((average - 20.0).abs() < 0.5, "{average}");
        assert!(schedule.gaps.iter().all(|gap| *gap >= least));
        // P(gap > least + 18 ms) = 1/e.
        let long = schedule.gaps.iter().filter(|gap| **gap > mean).count();
        assert!((long as f64 / 10_000.0 - 0.368).abs() < 0.02, "{long}");
        assert_ne!(schedule, Spacing::new(2).schedule(Bytes::new(1538), trains, least, mean));
    }

    #[test]
    fn one_train_has_no_gap() {
        let schedule = Spacing::new(1).schedule(
            Bytes::new(1538),
            vec![Train::PAIR],
            Duration::ZERO,
            Duration::from_ms(20),
        );
        assert_eq!((schedule.trains.len(), schedule.gaps.len()), (1, 0));
    }
}
