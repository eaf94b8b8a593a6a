//! Pathload's two tests for rising one-way delays over a single-rate stream (rapid 2.17).
//!
//! Jain and Dovrolis, "End-to-end available bandwidth: measurement methodology, dynamics, and relation with
//! TCP throughput", IEEE/ACM Transactions on Networking 11(4), 2003.

use super::Decision;

/// Thresholds of the two trend tests; both must agree.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Trend {
    /// Fraction of steps that go up (PCT), above which delays rise.
    pub up_share_above: f64,
    /// The same, below which they do not.
    pub up_share_below: f64,
    /// Net rise divided by the sum of all absolute steps (PDT), above which delays rise.
    pub net_rise_above: f64,
    /// The same, below which they do not.
    pub net_rise_below: f64,
}

impl Default for Trend {
    /// Returns Pathload's thresholds.
    fn default() -> Trend {
        Trend { up_share_above: 0.66, up_share_below: 0.54, net_rise_above: 0.55, net_rise_below: 0.45 }
    }
}

impl Trend {
    /// Judges a series of delays in any unit; returns [`Decision::Ambiguous`] for fewer than two values.
    pub(crate) fn decide(&self, delays: &[f64]) -> Decision {
        let (Some(first), Some(last)) = (delays.first(), delays.last()) else { return Decision::Ambiguous };
        if delays.len() < 2 {
            return Decision::Ambiguous;
        }
        let steps = || delays.windows(2).map(|pair| pair[1] - pair[0]);
        let up_share = steps().filter(|step| *step > 0.0).count() as f64 / (delays.len() - 1) as f64;
        let travelled: f64 = steps().map(f64::abs).sum();
        // Constant delays do not rise.
        let net_rise = if travelled > 0.0 { (last - first) / travelled } else { 0.0 };
        if up_share > self.up_share_above && net_rise > self.net_rise_above {
            Decision::Above
        } else if up_share < self.up_share_below && net_rise < self.net_rise_below {
            Decision::NotAbove
        } else {
            Decision::Ambiguous
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn decide(delays: &[f64]) -> Decision {
        Trend::default().decide(delays)
    }

    #[test]
    fn rising_delays_are_above() {
        let rising: Vec<f64> = (0..100).map(f64::from).collect();
        assert_eq!(decide(&rising), Decision::Above);
        // A fifth of the steps goes down slightly.
        let bumpy: Vec<f64> = (0..100).map(|i| f64::from(i) - if i % 5 == 0 { 2.0 } else { 0.0 }).collect();
        assert_eq!(decide(&bumpy), Decision::Above);
    }

    #[test]
    fn flat_alternating_constant_and_falling_delays_are_not_above() {
        let alternating: Vec<f64> = (0..100).map(|i| f64::from(i % 2)).collect();
        let falling: Vec<f64> = (0..100).map(|i| f64::from(-i)).collect();
        assert_eq!(decide(&alternating), Decision::NotAbove);
        assert_eq!(decide(&[7.0; 100]), Decision::NotAbove);
        assert_eq!(decide(&falling), Decision::NotAbove);
    }

    #[test]
    fn tests_that_disagree_are_ambiguous() {
        // Three small steps up, one large step down: most steps rise, but there is no net rise.
        let saw: Vec<f64> = (0..101).map(|i| f64::from(i % 4)).collect();
        assert_eq!(decide(&saw), Decision::Ambiguous);
        assert_eq!(decide(&[1.0]), Decision::Ambiguous);
        assert_eq!(decide(&[]), Decision::Ambiguous);
    }

    proptest! {
        #[test]
        fn neither_the_origin_nor_the_unit_of_the_clock_matters(
            delays in prop::collection::vec(0i32..1_000_000, 0..200), origin in -1_000_000i32..1_000_000, power in 0i32..10,
        ) {
            let plain: Vec<f64> = delays.iter().map(|delay| f64::from(*delay)).collect();
            // Powers of two keep the arithmetic exact.
            let other: Vec<f64> = plain.iter().map(|delay| (delay + f64::from(origin)) * f64::from(1 << power)).collect();
            prop_assert_eq!(decide(&plain), decide(&other));
        }

        #[test]
        fn any_numbers_at_all_are_accepted(delays in prop::collection::vec(any::<f64>(), 0..50)) {
            decide(&delays);
        }
    }
}
