//! Capacity of the narrow link from packet pairs: dispersion filtered by one-way delay (wan 2.15, 2.16).
//!
//! Cross traffic spreads some pairs and compresses others. Pairs whose packets both had short delays met few
//! other packets; the mode of their rates is the capacity. Trains with packets that die on the way (wan 2.17)
//! are filtered the same way: their first and last packets are the pair.

mod capacity;
mod minimum;
mod rivals;
mod triplet;

pub(crate) use capacity::draw;
pub use capacity::{Capacity, Insufficient};
pub use rivals::first_mode_above;
pub use triplet::{Dropped, PairFault, Triplet};

use crate::Schedule;
use crate::locate::spacing::Spacing;
use headway_units::{Bytes, Duration, Rate};

/// The rate at which both packets of a pair leave: faster than any narrow link of interest.
const TOGETHER: Rate = Rate::from_bps(10_000_000_000);
/// Pairs below which [`Pairs::wanted`] always asks for more.
const LEAST_PAIRS: usize = 200;
/// Maximum number of pairs that it asks for at a time, as a share of those there are.
const MORE: usize = 2;
/// The estimate stands if the last part of the pairs (one of this many) moved it by no
/// more than this share ...
const PART: usize = 4;
const MOVED: f64 = 0.01;
/// ... and this share of resampled sets of pairs agree with it.
const SURE: f64 = 0.9;

/// How pairs with long delays are kept out of the density estimate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Filter {
    /// By thresholds at quantiles of both delays: pairs above do not count, all others count equally
    /// (wan 2.16).
    Quantiles,
    /// A pair's weight falls exponentially with its delays in excess of the lowest ones, in units of the same
    /// quantiles. Modes far from the capacity that the lowest delays imply do not count.
    Weights,
    /// The lowest delays of first and of second packets imply a capacity; pairs near it count, however long
    /// their own delays are.
    Lowest,
}

/// The bandwidth of the kernels around rates.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Bandwidth {
    /// A share of the median rate of the selected pairs; at least the error of a rate due to the stamps.
    Relative(f64),
    /// The same at every rate.
    Absolute(Rate),
}

/// The parameters of the filter.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Settings {
    /// How pairs with long delays are kept out.
    pub filter: Filter,
    /// Share of pairs whose first packet is taken to be hardly delayed, in percent: x.
    pub first_percent: u32,
    /// More pairs than this must be selected: alpha.
    pub alpha: usize,
    /// Bandwidth of the density estimate: h.
    pub bandwidth: Bandwidth,
    /// Resolution and noise of timestamps: delays that differ by less are equal.
    pub quantum: Duration,
    /// Whether delays equal to a quantile are excluded, as the thesis prints; idle paths then have no
    /// answer or a wrong one.
    pub strictly_below: bool,
}

impl Default for Settings {
    /// Weights with x = 30 and alpha = 5, and kernels as narrow as the stamps permit, down to 0.1 Mb/s at 300
    /// Mb/s: packets that leave the narrow link back to back have exactly its rate.
    fn default() -> Settings {
        Settings {
            filter: Filter::Weights,
            first_percent: 30,
            alpha: 5,
            bandwidth: Bandwidth::Relative(1.0 / 3_000.0),
            quantum: Duration::from_ns(2),
            strictly_below: false,
        }
    }
}

impl Settings {
    /// The capacity that the lowest delays imply, refined by a mode next to it; from at least eight pairs.
    pub fn lowest_delays() -> Settings {
        Settings { filter: Filter::Lowest, alpha: 7, ..Settings::default() }
    }

    /// The algorithm of the thesis with delays at or below the quantiles; the bandwidth is 2 Mb/s at 300 Mb/s
    /// and as large a share of other rates.
    pub fn quantiles() -> Settings {
        let bandwidth = Bandwidth::Relative(rivals::RELATIVE_BANDWIDTH);
        Settings { filter: Filter::Quantiles, bandwidth, ..Settings::default() }
    }

    /// The algorithm as printed: a bandwidth of 2 Mb/s at every rate, and delays strictly
    /// below the quantiles.
    pub fn literal() -> Settings {
        let bandwidth = Bandwidth::Absolute(Rate::from_bps(2_000_000));
        Settings { bandwidth, strictly_below: true, ..Settings::quantiles() }
    }
}

/// Returns a stream of `pairs` pairs as fast as a sender can, with random pauses of `least` or more and
/// `mean` on average between them. The same seed gives the same pauses.
pub fn schedule(packet: Bytes, pairs: usize, [least, mean]: [Duration; 2], seed: u64) -> Schedule {
    let mut spacing = Spacing::new(seed);
    let together = TOGETHER.time_for(packet);
    let mut gaps = vec![together];
    for _ in 1..pairs.max(1) {
        gaps.extend([spacing.gap(least, mean), together]);
    }
    let time = gaps.iter().copied().sum();
    let average = Rate::of(packet * gaps.len() as u64, time).unwrap_or(TOGETHER);
    Schedule { packet, gaps, average }
}

/// The pairs, or trains, of one measurement.
#[derive(Clone, Debug)]
pub struct Pairs {
    packet: Bytes,
    hidden: u32,
    settings: Settings,
    triplets: Vec<Triplet>,
    dropped: Dropped,
}

impl Pairs {
    /// Creates an empty collection of pairs of packets of this size.
    ///
    /// Rates count the same bytes as `packet`.
    pub fn new(packet: Bytes, settings: Settings) -> Pairs {
        Pairs::of_trains(packet, 0, settings)
    }

    /// Creates an empty collection of trains with `hidden` packets between the first and the
    /// last, which are the pair.
    ///
    /// Capacities are then those of the links that the hidden packets crossed: the dispersion is that of
    /// `hidden` + 1 packets. The rate between the surviving packets alone is smaller by this factor.
    pub fn of_trains(packet: Bytes, hidden: u32, settings: Settings) -> Pairs {
        Pairs { packet, hidden, settings, triplets: Vec::new(), dropped: Dropped::default() }
    }

    /// Returns the number of usable pairs.
    pub fn len(&self) -> usize {
        self.triplets.len()
    }

    /// Returns whether there is no usable pair.
    pub fn is_empty(&self) -> bool {
        self.triplets.is_empty()
    }

    /// Returns the usable pairs, in the order observed.
    pub fn triplets(&self) -> &[Triplet] {
        &self.triplets
    }

    /// Returns how many pairs were not usable, by reason.
    pub(crate) fn dropped(&self) -> Dropped {
        self.dropped
    }

    /// Returns the number of hidden packets in a train; 0 for pairs.
    pub(crate) fn hidden(&self) -> u32 {
        self.hidden
    }

    /// Returns the size of each packet.
    pub fn packet(&self) -> Bytes {
        self.packet
    }

    /// Returns how many more pairs would be needed before the capacity can be relied on;
    /// `None` when it stands.
    ///
    /// It asks for 200 first, and then for half as many again until the last quarter of the pairs no longer
    /// moves the estimate and resampled sets of pairs agree with it. The caller's budget ends this.
    pub(crate) fn wanted(&self) -> Option<usize> {
        let count = self.len();
        if count < LEAST_PAIRS {
            return Some(LEAST_PAIRS - count);
        }
        let stands = self.capacity().is_ok_and(|now| {
            now.confidence >= SURE
                && self.first(count - count / PART).is_ok_and(|then| then.near(now.rate, MOVED))
        });
        (!stands).then_some(count / MORE)
    }

    /// Returns the rate that corresponds to this dispersion of a pair or train, in bits per second.
    fn rate(&self, dispersion: Duration) -> f64 {
        let packets = f64::from(self.hidden) + 1.0;
        packets * self.packet.get() as f64 * 8e9 / dispersion.ns() as f64
    }
}

#[cfg(test)]
mod tests;
