//! Two readings of the same streams, combined into one distribution.

use crate::belief::{POINTS, Summary};
use crate::response::{Posterior, RATE_POINTS, quantile};
use headway_units::Rate;

/// Probabilities of the intervals of an answer in percent, and their widths relative to the 90 % interval of
/// a normal distribution.
pub(super) const LEVELS: [(u32, f64); 4] = [(50, 0.410), (80, 0.779), (90, 1.0), (95, 1.192)];

/// Half width of the 90 % interval, as a fraction of capacity, below which further streams are
/// not worth their bytes.
const NARROW_ENOUGH: f64 = 0.025;

/// The density of the available bandwidth at points up to the capacity, unnormalized.
pub(super) type Density = [f64; RATE_POINTS];

/// What streams tell about a single queue: two readings, of which neither is right everywhere.
#[derive(Clone, Debug)]
pub(super) struct Readings {
    /// While there was a queue: exact where bursts are short, too low where streams meet only bursts.
    pub(super) busy: Posterior,
    /// Over whole streams: lower bounds where a queue ran empty.
    pub(super) whole: Posterior,
}

/// The prior of whole streams is flat below this point and flat in the logarithm above it: bounds alone would
/// make the capacity as likely as anything below it.
const FLAT_BELOW: f64 = 30.0;

impl Readings {
    pub(super) fn new(capacity: Rate) -> Readings {
        Readings { busy: Posterior::new(capacity), whole: Posterior::new(capacity) }
    }

    /// Returns the readings before any stream, for the same link.
    pub(super) fn emptied(&self) -> Readings {
        Readings { busy: self.busy.emptied(), whole: self.whole.emptied() }
    }

    /// Returns the density of both readings together.
    pub(super) fn density(&self) -> Density {
        let mut whole = self.whole.density();
        whole.iter_mut().enumerate().for_each(|(point, mass)| *mass /= point as f64 + FLAT_BELOW);
        let mut both = self.busy.density();
        let totals = [both.iter().sum::<f64>(), whole.iter().sum()];
        let halves = both.iter_mut().zip(whole);
        halves.for_each(|(busy, whole)| *busy = (share(*busy, totals[0]) + share(whole, totals[1])) / 2.0);
        both
    }
}

/// How far the answer may be too low because other queues take turns as the tightest one, per share of the
/// capacity that is used, as a share of the answer; fitted to simulated paths.
const MOMENTARY: f64 = 0.5;

/// How far the answer may be too high where another link is the tight one, as a fraction of the capacity. It
/// is fitted to simulated paths, where answers are 2 to 5 % too high.
const FLAT: f64 = 0.08;

/// Central intervals around an estimate, one for each of [`LEVELS`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Spread {
    /// The estimate, which is the median.
    pub(super) median: Rate,
    /// Lower and upper ends of the intervals, narrowest first.
    pub(super) intervals: [(Rate, Rate); 4],
}

impl Spread {
    /// Returns the 90 % interval.
    pub(super) fn interval_90(&self) -> (Rate, Rate) {
        self.intervals[2]
    }

    /// Returns whether the 90 % interval is so narrow that further streams are not worth their bytes.
    pub(super) fn is_narrow(&self, capacity: Rate) -> bool {
        let (low, high) = self.interval_90();
        high.saturating_sub(low).bps_f64() / 2.0 < NARROW_ENOUGH * capacity.bps_f64()
    }

    /// Averages levels that were estimated independently, each weighted by its share of the time.
    ///
    /// `errors` are additional errors, evenly distributed up to that many bit/s to either side.
    pub(super) fn average(levels: &[Spread], shares: &[f64], errors: &[f64]) -> Spread {
        let weighted = || levels.iter().zip(shares);
        let median: f64 = weighted().map(|(level, share)| share * level.median.bps_f64()).sum();
        let intervals = std::array::from_fn(|number| {
            let even = f64::from(LEVELS[number].0) / 100.0;
            let errors: f64 = errors.iter().map(|most| (even * most).powi(2)).sum();
            let away = |end: fn((Rate, Rate)) -> Rate| {
                let off = |(level, share): (&Spread, &f64)| {
                    share * (end(level.intervals[number]).bps_f64() - level.median.bps_f64())
                };
                (weighted().map(|level| off(level).powi(2)).sum::<f64>() + errors).sqrt()
            };
            let (low, high) = (median - away(|ends| ends.0), median + away(|ends| ends.1));
            (Rate::from_bps_f64(low), Rate::from_bps_f64(high))
        });
        Spread { median: Rate::from_bps_f64(median), intervals }
    }

    /// Returns the same with ends this many times as far from the median, level by level.
    pub(super) fn scaled(self, factors: [f64; LEVELS.len()]) -> Spread {
        let median = self.median.bps_f64();
        let intervals = std::array::from_fn(|level| {
            let away =
                |end: Rate| Rate::from_bps_f64((median + factors[level] * (end.bps_f64() - median)).max(0.0));
            let (low, high) = self.intervals[level];
            (away(low), away(high))
        });
        Spread { intervals, ..self }
    }

    /// Returns the same with a median of `rate`, which is lower, and with lower ends of `low`
    /// of what they would be.
    pub(super) fn capped(self, rate: Rate, low: f64) -> Spread {
        let intervals = self.intervals.map(|ends| (ends.0.min(rate).scale(low), ends.1));
        Spread { median: rate, intervals }
    }

    /// Mixes the reading for one queue, weighted by its probability, with the reading for
    /// any number of queues.
    ///
    /// `common` is the error common to all streams, as a fraction of `capacity`.
    pub(super) fn of(one: Option<&Density>, summary: &Summary, capacity: Rate, common: f64) -> Spread {
        // Grid points are 1/200 of the capacity apart.
        let mut mixed = [0.0; 2 * POINTS];
        let several = summary.several.iter().sum::<f64>();
        let alone = summary.one.iter().sum::<f64>();
        for (point, sum) in mixed.iter_mut().enumerate() {
            let at = point / 2;
            *sum += (1.0 - summary.one_queue) * share(summary.several[at], several) / 2.0;
            if one.is_none() {
                *sum += summary.one_queue * share(summary.one[at], alone) / 2.0;
            }
        }
        if let Some(one) = one {
            let total: f64 = one.iter().sum();
            mixed.iter_mut().zip(one).for_each(|(sum, mass)| *sum += summary.one_queue * share(*mass, total));
        }
        let median = quantile(&mixed, 0.5);
        // The common error is independent of the others, so squares add.
        let widen = |q: f64, common: f64| (common.powi(2) + (q - median).powi(2)).sqrt();
        // Where several queues vary by themselves, streams see the least of them at every moment, which is
        // below the least of their means.
        let unseen = MOMENTARY * (1.0 - summary.one_queue) * median * (1.0 - median).max(0.0);
        let above = common.hypot(unseen);
        let below = common.hypot(FLAT * (1.0 - summary.one_queue - summary.series));
        let rate = |share: f64| capacity.scale(share.max(0.0));
        let intervals = LEVELS.map(|(percent, width)| {
            let outside = (1.0 - f64::from(percent) / 100.0) / 2.0;
            let low = median - widen(quantile(&mixed, outside), below * width);
            let high = median + widen(quantile(&mixed, 1.0 - outside), above * width);
            (rate(low), rate(high))
        });
        Spread { median: rate(median), intervals }
    }
}

const _: () = assert!(RATE_POINTS <= 2 * POINTS, "the reading for one queue ends at the capacity");

/// Returns a mass as a share of the total, or zero if the total is zero.
fn share(mass: f64, total: f64) -> f64 {
    if total > 0.0 { mass / total } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a summary with all mass of each density at one point.
    fn summary(one_queue: f64, one: usize, several: usize) -> Summary {
        let mut summary = Summary { one_queue, series: 0.0, one: [0.0; POINTS], several: [0.0; POINTS] };
        summary.one[one] = 3.0;
        summary.several[several] = 0.2;
        summary
    }

    #[test]
    fn levels_nest_around_the_median() {
        let spread = Spread::of(None, &summary(0.7, 60, 30), Rate::from_mbps(100.0), 0.015);
        assert!((spread.median.mbps() - 60.3).abs() < 0.5, "{spread:?}");
        for pair in spread.intervals.windows(2) {
            assert!(pair[1].0 <= pair[0].0 && pair[0].1 <= pair[1].1, "{spread:?}");
        }
    }

    #[test]
    fn an_unlikely_reading_is_inside_the_interval_and_not_in_the_estimate() {
        let spread = Spread::of(None, &summary(0.9, 60, 30), Rate::from_mbps(100.0), 0.0);
        assert!(spread.median.mbps() > 60.0, "{spread:?}");
        assert!(spread.interval_90().0.mbps() < 31.0 && spread.interval_90().1.mbps() < 62.0, "{spread:?}");
    }

    #[test]
    fn other_tight_links_widen_the_interval_downwards_and_queues_in_series_upwards() {
        let of = |series| {
            let summary = Summary { series, ..summary(0.0, 60, 60) };
            let spread = Spread::of(None, &summary, Rate::from_mbps(100.0), 0.0);
            let (low, high) = spread.interval_90();
            (spread.median.mbps() - low.mbps(), high.mbps() - spread.median.mbps())
        };
        let ((other_low, other_high), (series_low, series_high)) = (of(0.0), of(1.0));
        assert!((other_low - 8.0).abs() < 0.2 && series_low < 1.0, "{other_low} {series_low}");
        assert!(other_high > 10.0 && series_high > 10.0, "{other_high} {series_high}");
    }

    #[test]
    fn one_reading_alone_is_kept_with_the_common_error() {
        let spread = Spread::of(None, &summary(1.0, 60, 30), Rate::from_mbps(100.0), 0.02);
        let (low, high) = spread.interval_90();
        assert!((low.mbps() - 58.5).abs() < 0.2 && (high.mbps() - 62.5).abs() < 0.2, "{spread:?}");
    }
}
