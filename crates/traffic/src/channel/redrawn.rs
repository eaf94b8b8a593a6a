//! A capacity that is drawn anew every so often.

use headway_units::{Duration, Rate, RateSteps};
use rand::RngExt as _;
use serde::Deserialize;

use super::OutOfRange;
use crate::random;

/// Most draws in a run: 16 MB of rates.
const MOST_DRAWS: i64 = 1_000_000;

/// A capacity that is drawn anew every so often from a uniform distribution; routers are not told.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Redrawn {
    /// The least capacity, as a share of the full one: above 0, at most 1.
    pub least: f64,
    /// How long each lasts.
    pub every: Duration,
}

impl Redrawn {
    /// Returns what is wrong for a run of `duration`, if anything is.
    pub fn mistake(&self, duration: Duration) -> Option<OutOfRange> {
        if !(self.least > 0.0 && self.least <= 1.0) {
            return Some(("least", "must be more than 0 and at most 1"));
        }
        if self.every <= Duration::ZERO || duration.ns() / self.every.ns() > MOST_DRAWS {
            return Some(("every", "must be more than 0, and divide `duration` into at most 1000000 parts"));
        }
        None
    }

    /// Returns the rates of link number `id` from time zero to `end`, all between the least share
    /// of `full` and `full`.
    pub fn rates(&self, full: Rate, end: Duration, seed: u64, id: u64) -> RateSteps {
        let mut random = random::generator(seed, "capacities", id);
        let steps = end.ns() / self.every.ns().max(1) + 1;
        let mut draw = |step| {
            let rate = full.scale(random.random_range(self.least..=1.0));
            (self.every * step, rate.max(Rate::from_bps(1)))
        };
        let list: Vec<(Duration, Rate)> = (0..steps).map(&mut draw).collect();
        RateSteps::try_from(list).unwrap_or_else(|_| RateSteps::constant(full))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_within_their_range_and_follow_seed_and_link() {
        let redrawn = Redrawn { least: 0.7, every: Duration::from_ms(2_000) };
        let rates = |seed, id| redrawn.rates(Rate::from_mbps(10.0), Duration::from_ms(95_000), seed, id);
        let drawn = rates(1, 0);
        assert_eq!(drawn.list().count(), 48);
        assert!(drawn.lowest().mbps() >= 7.0 && drawn.highest().mbps() <= 10.0);
        assert!(drawn.list().enumerate().all(|(step, (at, _))| at == redrawn.every * step as i64));
        assert_eq!(drawn, rates(1, 0));
        assert_ne!(drawn, rates(2, 0));
        assert_ne!(drawn, rates(1, 1));
        let mean: f64 = (0..100)
            .flat_map(|seed| rates(seed, 0).list().map(|(_, rate)| rate.mbps()).collect::<Vec<_>>())
            .sum();
        assert!((mean / 4_800.0 - 8.5).abs() < 0.1, "{mean}");
    }
}
