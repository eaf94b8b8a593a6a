//! From the rates of groups of trains to the hop of the narrow link.

use headway_units::statistics::{deviation, mean};
use rand::SeedableRng;
use rand_pcg::Pcg64Mcg;

use super::Settings;
use crate::ppdd::{Pairs, draw};

/// Number of resampled sets of trains.
const RESAMPLED: usize = 200;

/// How a step between groups is recognised.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Rule {
    /// The mean rate of a group exceeds that of the two previous ones by more than this share (0.2 for 20 %),
    /// and so does that of the next group, if there is one.
    ///
    /// Cross traffic stretches long trains on every link that they cross, so rates creep up by some per cent
    /// a hop even without a step. Neighbouring groups share most of this.
    Step(f64),
    /// The mean rate of a group exceeds that of all previous ones by more than this share (0.2 for 20 %), and
    /// so does that of the next group, if there is one (wan 2.18). Under load, rates that creep up make the
    /// first link seem fast.
    Ratio(f64),
    /// The standard deviation of the groups' mean rates grows by more than this many Mb/s: as printed. Cross
    /// traffic alone does that.
    Deviation(f64),
}

/// Where the narrow link is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Location {
    /// Its position, counted from 1 at the sender.
    pub hop: u32,
    /// The probability that this is the right hop.
    pub confidence: f64,
}

/// The reason why the narrow link could not be located.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
pub enum Unlocated {
    /// A group has too few usable trains.
    #[error("only {usable} of the trains with hidden packets up to hop {ttl} were usable")]
    TooFewTrains {
        /// The hop at which the hidden packets expired.
        ttl: u32,
        /// Usable trains.
        usable: usize,
    },
    /// Trains left the sender so slowly that no link spread them.
    #[error("the sender spaced the trains as widely as the narrow link does")]
    SenderTooSlow,
    /// No hop is likely enough.
    #[error("hop {hop} is the most likely one, with a probability of only {confidence:.2}")]
    Unsure {
        /// The most likely hop.
        hop: u32,
        /// The probability that it is right.
        confidence: f64,
    },
}

/// What the groups measured so far say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Decision {
    /// The narrow link is at this hop.
    Hop(u32),
    /// The group that expires at this hop decides.
    Needs(u32),
}

/// Decides from the mean rates of groups in Mb/s: the first for packets that expire at `last`, the next one
/// hop earlier, and so on.
pub(super) fn decide(rates: &[f64], last: u32, rule: Rule) -> Decision {
    let ttl = |index: usize| last - index as u32;
    // The next group confirms a step; if it is missing, this one asks for it below.
    let above = |index: usize, least: f64| {
        rates[index] > least && rates.get(index + 1).is_none_or(|next| *next > least)
    };
    let step = (1..rates.len()).find(|&index| match rule {
        Rule::Step(gamma) => above(index, (1.0 + gamma) * mean(&rates[index.saturating_sub(2)..index])),
        Rule::Ratio(gamma) => above(index, (1.0 + gamma) * mean(&rates[..index])),
        Rule::Deviation(gamma) => deviation(&rates[..=index]) > deviation(&rates[..index]) + gamma,
    });
    match step {
        Some(index) if !matches!(rule, Rule::Deviation(_)) && index + 1 == rates.len() && ttl(index) > 1 => {
            Decision::Needs(ttl(index) - 1)
        }
        Some(index) => Decision::Hop(ttl(index) + 1),
        None if rates.len() as u32 >= last => Decision::Hop(1),
        None => Decision::Needs(ttl(rates.len())),
    }
}

/// Returns the mean rate between the survivors of trains, in Mb/s.
pub(super) fn mean_rate(trains: &Pairs) -> f64 {
    mean(&rates(trains))
}

/// Returns the rate between the survivors of every train, in Mb/s.
fn rates(trains: &Pairs) -> Vec<f64> {
    let bits = trains.packet().get() as f64 * 8.0;
    trains.triplets().iter().map(|triplet| bits * 1e3 / triplet.dispersion.ns() as f64).collect()
}

/// Returns the share of groups of trains drawn with replacement that also say `hop`.
pub(super) fn confidence(groups: &[Pairs], settings: &Settings, hop: u32) -> f64 {
    let rates: Vec<Vec<f64>> = groups.iter().map(rates).collect();
    let mut random = Pcg64Mcg::seed_from_u64(u64::from(hop));
    let mut means = vec![0.0; groups.len()];
    let mut agreeing = 0;
    for _ in 0..RESAMPLED {
        for (mean, rates) in means.iter_mut().zip(&rates) {
            let drawn = (0..rates.len()).map(|_| rates[draw(&mut random, rates.len())]);
            *mean = drawn.sum::<f64>() / rates.len() as f64;
        }
        agreeing += usize::from(decide(&means, settings.last_hop, settings.rule) == Decision::Hop(hop));
    }
    agreeing as f64 / RESAMPLED as f64
}
