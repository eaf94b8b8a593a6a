//! Pathload's search for the available bandwidth with single-rate streams (rapid 2.17).

use super::{Decision, Trend};
use headway_units::Rate;

/// Applies the trend tests to the medians of consecutive groups of delays: about sqrt(n)
/// groups of sqrt(n) delays.
///
/// The grouping is Pathload's own (Jain and Dovrolis, section 5). Without it, every cross packet makes the
/// delays of neighbouring packets jump, and the tests hardly ever see a trend. `delays` is overwritten.
pub(crate) fn decide(delays: &mut Vec<f64>, trend: &Trend) -> Decision {
    let groups = delays.len().isqrt();
    for group in 0..groups {
        let members = &mut delays[group * groups..(group + 1) * groups];
        members.sort_unstable_by(f64::total_cmp);
        // Index `group` never overtakes the groups still to be read.
        delays[group] = delays[group * groups + groups / 2];
    }
    delays.truncate(groups);
    trend.decide(delays)
}

/// A binary search that maintains a grey region: the rates whose streams were ambiguous.
///
/// The available bandwidth of a real path varies during the measurement, and rates within that variation
/// give ambiguous answers. As the original Pathload does, the search skips these rates and closes in on the
/// region from both sides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RateSearch {
    low: Rate,
    high: Rate,
    grey: Option<(Rate, Rate)>,
    resolution: Rate,
}

impl RateSearch {
    /// Creates a search between `low` and `high` that ends once the undecided range is
    /// narrower than `resolution`.
    pub(crate) fn new(low: Rate, high: Rate, resolution: Rate) -> RateSearch {
        // With a width below 2 b/s there is no integer left between the ends.
        let resolution = resolution.max(Rate::from_bps(2));
        RateSearch { low: low.min(high), high: high.max(low), grey: None, resolution }
    }

    /// Returns the next rate to probe, or `None` when the search has ended.
    pub(crate) fn next_rate(&self) -> Option<Rate> {
        let undecided = |low: Rate, high: Rate| {
            let width = high.saturating_sub(low);
            (width >= self.resolution).then(|| (width, low + Rate::from_bps(width.bps() / 2)))
        };
        let (_, rate) = match self.grey {
            None => undecided(self.low, self.high),
            // The wider side goes first.
            Some((bottom, top)) => undecided(self.low, bottom).max(undecided(top, self.high)),
        }?;
        Some(rate)
    }

    /// Records the decision about the rate that [`RateSearch::next_rate`] returned; has no effect once the
    /// search has ended.
    pub(crate) fn observe(&mut self, decision: Decision) {
        let Some(rate) = self.next_rate() else { return };
        match decision {
            Decision::Above => {
                self.high = rate;
                // A rate below the grey region proved to be above: the region was a transient disturbance.
                self.grey = self.grey.filter(|(_, top)| *top < rate);
            }
            Decision::NotAbove => {
                self.low = rate;
                self.grey = self.grey.filter(|(bottom, _)| *bottom > rate);
            }
            Decision::Ambiguous => {
                let (bottom, top) = self.grey.unwrap_or((rate, rate));
                self.grey = Some((bottom.min(rate), top.max(rate)));
            }
        }
    }

    /// Returns the range that contains the available bandwidth as far as known.
    pub(crate) fn range(&self) -> (Rate, Rate) {
        (self.low, self.high)
    }

    /// Returns the range of rates whose streams were ambiguous, if any.
    pub(crate) fn grey_region(&self) -> Option<(Rate, Rate)> {
        self.grey
    }

    /// Returns the middle of the range.
    pub(crate) fn middle(&self) -> Rate {
        Rate::from_bps(self.low.bps() + (self.high.bps() - self.low.bps()) / 2)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn medians_of_groups_show_a_trend_that_single_delays_hide() {
        // The queue grows by one unit per packet, and every other packet met a cross packet of ten units.
        let jumping: Vec<f64> = (0..100).map(|i| f64::from(i) + f64::from(i % 2) * 10.0).collect();
        assert_eq!(Trend::default().decide(&jumping), Decision::NotAbove);
        assert_eq!(decide(&mut jumping.clone(), &Trend::default()), Decision::Above);
        assert_eq!(decide(&mut vec![3.0; 100], &Trend::default()), Decision::NotAbove);
        assert_eq!(decide(&mut Vec::new(), &Trend::default()), Decision::Ambiguous);
    }

    fn mbps(mbps: f64) -> Rate {
        Rate::from_mbps(mbps)
    }

    /// Runs a search to its end; returns it with the number of streams it took.
    fn run(mut search: RateSearch, judge: impl Fn(Rate) -> Decision) -> (RateSearch, u32) {
        let mut streams = 0;
        while let Some(rate) = search.next_rate() {
            search.observe(judge(rate));
            streams += 1;
            assert!(streams < 200, "the search does not end");
        }
        (search, streams)
    }

    #[test]
    fn a_link_without_noise_is_found_within_12_streams() {
        let available = mbps(7_530.0);
        let judge = |rate| if rate > available { Decision::Above } else { Decision::NotAbove };
        let (search, streams) = run(RateSearch::new(Rate::ZERO, mbps(10_000.0), mbps(5.0)), judge);
        let (low, high) = search.range();
        assert!(streams <= 12, "{streams} streams");
        assert!(low <= available && available <= high && high.saturating_sub(low) < mbps(5.0));
    }

    #[test]
    fn a_path_that_varies_ends_with_its_variation_as_the_grey_region() {
        let judge = |rate| match rate {
            rate if rate < mbps(7_000.0) => Decision::NotAbove,
            rate if rate > mbps(8_000.0) => Decision::Above,
            _ => Decision::Ambiguous,
        };
        let (search, streams) = run(RateSearch::new(Rate::ZERO, mbps(10_000.0), mbps(50.0)), judge);
        let (low, high) = search.range();
        let (bottom, top) = search.grey_region().expect("half of the rates tried were ambiguous");
        assert!(streams <= 24, "{streams} streams");
        assert!(low < bottom && bottom < mbps(7_050.0) && low > mbps(6_950.0));
        assert!(high > top && top > mbps(7_950.0) && high < mbps(8_050.0));
        assert!(search.middle() > mbps(7_400.0) && search.middle() < mbps(7_600.0));
    }

    proptest! {
        #[test]
        fn every_search_ends_whatever_the_answers(
            low in 0u64..1_000_000_000_000, high in 0u64..1_000_000_000_000, resolution in 0u64..1_000_000_000,
            answers in prop::collection::vec(0u8..3, 200),
        ) {
            let mut search = RateSearch::new(Rate::from_bps(low), Rate::from_bps(high), Rate::from_bps(resolution));
            for answer in answers {
                search.observe([Decision::Above, Decision::NotAbove, Decision::Ambiguous][usize::from(answer)]);
                let (low, high) = search.range();
                prop_assert!(low <= high);
                if let Some((bottom, top)) = search.grey_region() {
                    prop_assert!(low <= bottom && bottom <= top && top <= high);
                }
            }
            prop_assert_eq!(search.next_rate(), None);
        }
    }
}
