//! The vertical-horizontal filter: smooths successive estimates, more where they only fluctuate
//! than where they move.

use headway_units::Rate;

/// Weight of a new estimate where all recent ones moved in one direction (0.1 to 1 is sensible).
const WEIGHT: f64 = 1.0 / 3.0;
/// Number of recent estimates that decide whether they move or fluctuate (4 to 20 is sensible).
const WINDOW: usize = 10;

/// An exponential average whose weight is the range of the recent estimates over the way they went, as
/// in ASSOLO (wan 3.1).
#[derive(Clone, Debug, Default)]
pub struct VerticalHorizontal {
    recent: Vec<f64>,
    average: f64,
}

impl VerticalHorizontal {
    /// Adds an estimate and returns the filtered one.
    pub fn add(&mut self, estimate: Rate) -> Rate {
        let new = estimate.bps_f64();
        if self.recent.len() == WINDOW {
            self.recent.remove(0);
        }
        self.recent.push(new);
        self.average =
            if self.recent.len() == 1 { new } else { self.average + self.weight() * (new - self.average) };
        Rate::from_bps_f64(self.average)
    }

    /// Returns the weight of the latest estimate, at most [`WEIGHT`].
    fn weight(&self) -> f64 {
        let way: f64 = self.recent.windows(2).map(|pair| (pair[1] - pair[0]).abs()).sum();
        let most = self.recent.iter().copied().fold(f64::MIN, f64::max);
        let least = self.recent.iter().copied().fold(f64::MAX, f64::min);
        if way > 0.0 { WEIGHT * (most - least) / way } else { WEIGHT }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filtered(estimates: &[f64]) -> f64 {
        let mut filter = VerticalHorizontal::default();
        estimates.iter().map(|mbps| filter.add(Rate::from_mbps(*mbps)).mbps()).last().expect("an estimate")
    }

    #[test]
    fn a_trend_is_followed_with_the_full_weight() {
        // 10, then 10 + 3 / 3 = 11, then 11 + (16 - 11) / 3.
        assert!((filtered(&[10.0, 13.0, 16.0]) - 12.6667).abs() < 1e-3);
        assert!((filtered(&[10.0; 5]) - 10.0).abs() < 1e-6);
    }

    #[test]
    fn fluctuations_are_smoothed() {
        let swings: Vec<f64> = (0..40).map(|i| if i % 2 == 0 { 60.0 } else { 40.0 }).collect();
        // The range is one of the nine steps in the window, so the weight is 1/27.
        assert!((filtered(&swings) - 50.0).abs() < 2.0, "{}", filtered(&swings));
    }
}
