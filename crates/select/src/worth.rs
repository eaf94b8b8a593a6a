//! What an answer is worth: by how much the expected rate of the chosen path rises, for
//! each byte that it costs.

use headway_units::{Bytes, Rate};

use crate::ask::MOST_ASKED;
use crate::distribution::{Distribution, FASTEST, POINTS, STEP, position};
use crate::transfer::Prospect;

/// Odds with which a path replaces another. Range 0.5 to 0.99: with less it would do so by chance.
pub(crate) const ODDS: f64 = 0.9;
/// Rates that are considered for a question, as multiples of the one at which the choice would change.
const AROUND: [f64; 4] = [0.8, 1.0, 1.25, 1.7];
/// Parts of the rates below the one that is asked for which an answer tells apart. Range 1 to 10: each takes
/// time to compute.
const PARTS: usize = 4;
/// The least width of such a part in the logarithm of the rate: an answer is not exact. Range 0.04, the error
/// of a good answer, to 0.7, a factor of two.
const LEAST_PART: f64 = 0.25;
/// A part with smaller odds counts as if the answer changed nothing, which saves its computation. Range 0 to
/// 0.001.
const LEAST_ODDS: f64 = 1e-4;
/// No stream is slower: at this rate, one packet takes 60 ms. Range 50 kb/s to 1 Mb/s.
const LEAST_RATE: Rate = Rate::from_bps(200_000);

/// What is thought of all paths that can be used.
#[derive(Debug)]
pub(crate) struct Outlook<'a> {
    /// The number of each path, and what is thought of it.
    pub(crate) paths: &'a [(usize, Prospect)],
    /// The means of their values.
    means: Vec<f64>,
    /// The place of the chosen one.
    chosen: usize,
    tolerance: f64,
}

/// A question with what its answer is worth, as a share of the rate of the chosen path.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Worth {
    pub(crate) place: usize,
    pub(crate) rate: Rate,
    pub(crate) gain: f64,
}

impl<'a> Outlook<'a> {
    pub(crate) fn new(paths: &'a [(usize, Prospect)], chosen: usize, tolerance: f64) -> Outlook<'a> {
        let means = paths.iter().map(|(_, path)| path.value.mean().bps_f64()).collect();
        Outlook { paths, means, chosen, tolerance }
    }

    /// Returns the best question about one rate of a path.
    pub(crate) fn best_question(&self, place: usize, capacity: Option<Rate>) -> Option<Worth> {
        let pivot = self.pivot(place)?;
        let most = capacity.unwrap_or(FASTEST).scale(MOST_ASKED);
        let rates = AROUND.map(|factor| pivot.scale(factor).min(most));
        let worths = rates.into_iter().filter(|rate| *rate >= LEAST_RATE);
        let worths = worths.map(|rate| Worth { place, rate, gain: self.gain(place, rate) });
        worths.max_by(|one, other| one.gain.total_cmp(&other.gain))
    }

    /// Returns what a full measurement of a path is worth.
    pub(crate) fn measurement(&self, place: usize) -> f64 {
        self.gain(place, FASTEST)
    }

    /// Returns the rate of a path at which the choice would change.
    fn pivot(&self, place: usize) -> Option<Rate> {
        let value = |place: usize| self.paths[place].1.value.quantile(0.5);
        let pivot = if place != self.chosen {
            value(self.chosen).scale(1.0 + self.tolerance)
        } else {
            let others = (0..self.paths.len()).filter(|other| *other != place);
            others.map(value).max()?.scale(1.0 / (1.0 + self.tolerance))
        };
        self.paths[place].1.rate_for(pivot)
    }

    /// Returns by how much the expected rate rises with an answer, as a share.
    fn gain(&self, place: usize, rate: Rate) -> f64 {
        let (_, path) = &self.paths[place];
        let free = &path.free;
        let now = self.value(None);
        let mut expected = 0.0;
        let top = (position(rate.bps_f64()).round() as usize).min(POINTS);
        let mut ends = self.ends_below(free, top);
        ends.push(POINTS);
        let mut from = 0;
        for to in ends {
            if to <= from {
                continue;
            }
            let (part, odds) = free.between(from, to);
            if odds > LEAST_ODDS {
                expected += odds * self.value(Some((place, &path.value_of(&part))));
            } else {
                expected += odds * now;
            }
            from = to;
        }
        (expected - now) / now.max(1.0)
    }

    /// Returns the ends of the parts below a point that an answer tells apart, each about as likely.
    fn ends_below(&self, free: &Distribution, top: usize) -> Vec<usize> {
        let total: f64 = free.mass()[..top].iter().sum();
        let least = (LEAST_PART / STEP.ln()) as usize;
        let (mut ends, mut sum, mut last) = (Vec::with_capacity(PARTS), 0.0, 0);
        for (point, mass) in free.mass()[..top].iter().enumerate() {
            sum += mass;
            let is_due = sum >= total * (ends.len() + 1) as f64 / PARTS as f64;
            if is_due && point - last >= least && top - point >= least {
                ends.push(point);
                last = point;
            }
        }
        ends.push(top);
        ends
    }

    /// Returns the expected rate of the path that would be chosen if that were known of one of them: half by
    /// the rule that needs odds, and half by the means, because an answer that does not decide may still be
    /// the first of two that do.
    fn value(&self, known: Option<(usize, &Distribution)>) -> f64 {
        let free = |place: usize| match known {
            Some((other, free)) if other == place => free,
            _ => &self.paths[place].1.value,
        };
        let known_mean = known.map(|(place, free)| (place, free.mean().bps_f64()));
        let mean = |place: usize| match known_mean {
            Some((other, mean)) if other == place => mean,
            _ => self.means[place],
        };
        let here = free(self.chosen);
        let stays = mean(self.chosen);
        let (mut by_rule, mut by_mean) = (stays, stays);
        for place in (0..self.paths.len()).filter(|place| *place != self.chosen) {
            let mean = mean(place);
            by_mean = by_mean.max(mean / (1.0 + self.tolerance));
            // The odds are looked at only where they can matter.
            if mean > by_rule && free(place).exceeds(here, 1.0 + self.tolerance) >= ODDS {
                by_rule = mean;
            }
        }
        (by_rule + by_mean) / 2.0
    }
}

/// Returns what an answer must be worth for each byte, as a share of the rate: little where much is saved up,
/// and more than that where bytes are short.
pub(crate) fn price(fill: f64) -> f64 {
    /// The bytes that the prices are for.
    const BLOCK: f64 = 1e5;
    /// The price of them when nothing is saved up, as a share of the rate. Range 0.005 to 0.1.
    const DEAR: f64 = 0.04;
    /// The price when all is. Range 0 to 0.005.
    const CHEAP: f64 = 0.0005;
    (CHEAP + (DEAR - CHEAP) * (1.0 - fill).powi(2)) / BLOCK
}

/// Whether an answer is worth its bytes.
pub(crate) fn pays(gain: f64, bytes: Bytes, fill: f64) -> bool {
    gain >= price(fill) * bytes.get() as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn around(mbps: f64, error: f64) -> Distribution {
        Distribution::of(|bps| (-0.5 * ((bps / 1e6 / mbps).ln() / error).powi(2)).exp())
    }

    fn gain(chosen: Distribution, other: Distribution) -> [f64; 2] {
        let paths = [(0, Prospect::of_free(chosen)), (1, Prospect::of_free(other))];
        let outlook = Outlook::new(&paths, 0, 0.1);
        [0, 1].map(|place| outlook.best_question(place, None).map_or(0.0, |worth| worth.gain))
    }

    #[test]
    fn what_is_clear_is_worth_nothing_and_what_is_open_something() {
        let clear = gain(around(40.0, 0.1), around(10.0, 0.1));
        let open = gain(around(40.0, 0.1), around(35.0, 0.8));
        assert!(clear.iter().all(|gain| *gain < 1e-3), "{clear:?}");
        assert!(open[1] > 0.05 && open[1] > open[0], "{open:?}");
    }
}
