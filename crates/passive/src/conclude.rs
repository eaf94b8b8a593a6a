//! What the numbers of a row say together: a number is given only where the model holds.

use std::fmt;

use headway_estimate::sabes::{Capacity, Limit, PairCapacity, PairRefusal, WindowRefusal};
use headway_units::{Duration, Instant, Rate};

use crate::path::{Free, Sums};

/// What is free needs windows with so many bytes on the wire: fifty full packets, as below it a few answers
/// that came together make any rate. Range 20 to 200 packets.
const LEAST_BYTES: u64 = 50 * 1_538;
/// An interval whose upper end is this many times the lower one says nothing. Range 3 to 10.
const WIDEST: f64 = 4.0;
/// What passed in a second may be more by this part than was counted, by errors of time stamps and of
/// headers, and because the second may begin at any time. Range 0.01 to 0.05.
const FASTER: f64 = 0.03;
/// In a second, no more than this many times what is free was free. Range 1.5 to 4: others come and
/// go, and links change.
const CONTRADICTS: f64 = 2.0;
/// How far the capacities of pairs and of trains may be apart, as a share: a bucket of one packet makes that
/// of pairs 6 % larger (wan 6.3). Range 0.07 to 0.15.
const PAIRS_APART: f64 = 0.1;
/// The most that passed in a second is looked for in parts of this length.
const BIN: Duration = Duration::from_ms(125);
const BINS: usize = 8;

/// Why a row does not say what is free.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unknown {
    /// Both ends are the same host.
    Loopback,
    /// The path was not what limited most of the transfers' data.
    Unpressed,
    /// Fewer bytes than needed were in windows with an estimate, or their intervals are too wide.
    TooLittle,
    /// In a second, its own transfers carried more than twice what the estimates say.
    Contradicted,
    /// No window gave an estimate, for this reason most often.
    Window(WindowRefusal),
    /// There was no window.
    NoWindow,
}

impl Unknown {
    /// Returns the reason as a name for results, such as `unpressed`.
    pub fn name(self) -> &'static str {
        match self {
            Unknown::Loopback => "loopback",
            Unknown::Unpressed => "unpressed",
            Unknown::TooLittle => "too-little",
            Unknown::Contradicted => "contradicted",
            Unknown::Window(reason) => reason.name(),
            Unknown::NoWindow => "no-window",
        }
    }
}

impl fmt::Display for Unknown {
    /// Writes a phrase for a table.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unknown::Loopback => f.write_str("loopback has no path"),
            Unknown::Unpressed => f.write_str("transfers never filled the path"),
            Unknown::TooLittle => f.write_str("transfers filled the path too briefly"),
            Unknown::Contradicted => f.write_str("transfers carried more than estimated"),
            Unknown::Window(reason) => f.write_str(&reason.name().replace('-', " ")),
            Unknown::NoWindow => f.write_str("too short"),
        }
    }
}

/// The most that passed in a second.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Peak {
    /// The number of the present part of a second since 1970.
    bin: u64,
    /// Bytes on the wire in the last parts, each at the place of its number.
    bytes: [u64; BINS],
    most: u64,
    /// The most bytes that were counted at once.
    step: u64,
}

impl Peak {
    pub(crate) fn add(&mut self, at: Instant, bytes: u64) {
        let bin = at.ns() / BIN.ns().unsigned_abs();
        if bin != self.bin {
            self.go_on(bin);
        }
        self.bytes[bin as usize % BINS] += bytes;
        self.step = self.step.max(bytes);
    }

    fn go_on(&mut self, bin: u64) {
        self.most = self.most();
        if bin <= self.bin || bin - self.bin >= BINS as u64 {
            self.bytes = [0; BINS];
        }
        while self.bin < bin && self.bytes != [0; BINS] {
            self.bin += 1;
            self.bytes[self.bin as usize % BINS] = 0;
        }
        self.bin = bin;
    }

    fn most(&self) -> u64 {
        self.most.max(self.bytes.iter().sum())
    }

    /// Returns the rate of that second, and what it was at least: what was counted first may have passed
    /// before. A second that begins within a part may have one packet more.
    pub(crate) fn rates(&self) -> [Rate; 2] {
        let rate = |bytes: u64| Rate::from_bps_f64(bytes as f64 * 8.0);
        let most = self.most();
        [rate(most + self.step), rate(most - self.step)]
    }
}

/// What was measured of a path or transfer.
pub(crate) struct Measured {
    pub(crate) is_loopback: bool,
    /// Whether a trained model judged windows, which it may do whatever limits the transfers.
    pub(crate) by_model: bool,
    /// The most that passed in a second, as [`Peak::rates`].
    pub(crate) peak: [Rate; 2],
    pub(crate) capacity: Option<Capacity>,
    pub(crate) pairs: Result<PairCapacity, PairRefusal>,
    pub(crate) free: Option<Free>,
    pub(crate) sums: Sums,
}

/// What can be said of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Said {
    pub(crate) capacity: Option<Capacity>,
    pub(crate) pairs: Result<PairCapacity, PairRefusal>,
    pub(crate) free: Result<Free, Unknown>,
    pub(crate) sums: Sums,
}

/// Returns what the numbers say without contradicting each other, and the reason where they say nothing.
pub(crate) fn conclude(measured: Measured) -> Said {
    let Measured { is_loopback, by_model, peak: [peak, at_least], capacity, pairs, free, mut sums } =
        measured;
    let peak = peak.scale(1.0 + FASTER);
    let free = free.filter(|free| free.windows > 0);
    sums.used = sums.used.max(free.map_or(0, |free| free.windows));
    if is_loopback {
        let pairs = Err(PairRefusal::Unspread);
        return Said { capacity: None, pairs, free: Err(Unknown::Loopback), sums };
    }
    // Behind a token bucket, the first second carries more than the others.
    let capacity = capacity.filter(|capacity| at_least <= capacity.high.scale(1.0 + FASTER));
    let capacity = capacity.map(|capacity| Capacity { high: capacity.high.max(peak), ..capacity });
    let agrees = |pairs: &PairCapacity| {
        let apart = |capacity: Capacity| (pairs.rate.bps_f64() / capacity.rate.bps_f64() - 1.0).abs();
        at_least <= pairs.high.scale(1.0 + FASTER) && capacity.is_none_or(|known| apart(known) <= PAIRS_APART)
    };
    let pairs =
        pairs.and_then(|pairs| if agrees(&pairs) { Ok(pairs) } else { Err(PairRefusal::Contradicted) });
    let free = match free {
        None => Err(sums.main_refusal().map_or(Unknown::NoWindow, Unknown::Window)),
        Some(free) if by_model => Ok(bounded(free, peak, capacity)),
        Some(_) if sums.main_limit() != Some(Limit::Path) => Err(Unknown::Unpressed),
        Some(free) if free.bytes < LEAST_BYTES || free.high > free.low.scale(WIDEST) => {
            Err(Unknown::TooLittle)
        }
        Some(free) if at_least > free.rate.scale(CONTRADICTS) => Err(Unknown::Contradicted),
        Some(free) => Ok(bounded(free, peak, capacity)),
    };
    Said { capacity, pairs, free, sums }
}

/// Returns an estimate whose interval holds what passed in a second, and does not exceed the capacity.
fn bounded(free: Free, peak: Rate, capacity: Option<Capacity>) -> Free {
    let most = |rate: Rate| capacity.map_or(rate, |capacity| rate.min(capacity.high));
    let rate = most(free.rate);
    // What once passed was free then.
    let high = most(free.high.max(peak));
    // An upper end that is the estimate would say that nothing can have been above it.
    let high = if high > rate { high } else { rate.scale(1.0 + FASTER) };
    Free { rate, low: free.low.min(rate), high, ..free }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MBPS: fn(f64) -> Rate = Rate::from_mbps;

    fn said(peak: f64, capacity: Option<[f64; 3]>, free: [f64; 3], limit: Limit, bytes: u64) -> Said {
        let mut sums = Sums::default();
        sums.limits[limit as usize] = 1.0;
        let [rate, low, high] = free.map(MBPS);
        let free = Some(Free { rate, low, high, windows: 4, bytes });
        let capacity = capacity.map(|[rate, low, high]| Capacity {
            rate: MBPS(rate),
            low: MBPS(low),
            high: MBPS(high),
            samples: 99,
        });
        conclude(Measured {
            is_loopback: false,
            by_model: false,
            peak: [MBPS(peak); 2],
            capacity,
            pairs: Err(PairRefusal::TooFew),
            free,
            sums,
        })
    }

    #[test]
    fn nothing_is_free_where_something_else_was_the_limit_or_too_little_passed() {
        let link = Some([20.0, 19.8, 20.2]);
        let why = |said: Said| said.free.expect_err("a reason");
        assert_eq!(why(said(9.0, link, [9.0, 8.0, 12.0], Limit::Application, 1 << 20)), Unknown::Unpressed);
        assert_eq!(why(said(9.0, link, [9.0, 8.0, 12.0], Limit::Path, 9_000)), Unknown::TooLittle);
        assert!(said(9.0, link, [9.0, 8.0, 12.0], Limit::Path, 1 << 20).free.is_ok());
    }

    #[test]
    fn an_interval_holds_what_passed_and_stays_within_the_capacity() {
        let free =
            |said: Said| said.free.map(|free| [free.rate, free.low, free.high].map(|rate| rate.mbps()));
        let link = Some([20.0, 19.8, 20.2]);
        assert_eq!(free(said(9.0, link, [8.0, 7.0, 8.5], Limit::Path, 1 << 20)), Ok([8.0, 7.0, 9.27]));
        assert_eq!(
            free(said(19.0, link, [21.0, 18.0, 25.0], Limit::Path, 1 << 20)),
            Ok([20.2, 18.0, 20.806])
        );
        // A capacity below what passed is none.
        let against = said(25.0, link, [8.0, 7.0, 8.5], Limit::Path, 1 << 20);
        assert_eq!((against.capacity, free(against)), (None, Err(Unknown::Contradicted)));
        let bucket = said(22.0, link, [20.0, 19.0, 20.2], Limit::Path, 1 << 20);
        assert_eq!((bucket.capacity, free(bucket)), (None, Ok([20.0, 19.0, 22.66])));
    }

    #[test]
    fn a_capacity_of_pairs_stands_unless_trains_or_a_second_contradict_it() {
        let pairs = |rate: f64, trains: Option<f64>, passed: f64| {
            let of = |rate: f64, samples| Capacity {
                rate: MBPS(rate),
                low: MBPS(rate),
                high: MBPS(rate),
                samples,
            };
            let pairs = PairCapacity { rate: MBPS(rate), low: MBPS(rate), high: MBPS(rate), pairs: 99 };
            let measured = Measured {
                is_loopback: false,
                by_model: false,
                peak: [MBPS(passed); 2],
                capacity: trains.map(|rate| of(rate, 99)),
                pairs: Ok(pairs),
                free: None,
                sums: Sums::default(),
            };
            conclude(measured).pairs.map(|pairs| pairs.rate.mbps())
        };
        assert_eq!([pairs(20.0, None, 5.0), pairs(21.0, Some(20.0), 19.0)], [Ok(20.0), Ok(21.0)]);
        let contradicted = [pairs(600.0, Some(20.0), 19.0), pairs(20.0, None, 22.0)];
        assert_eq!(contradicted, [Err(PairRefusal::Contradicted); 2]);
    }

    #[test]
    fn the_most_that_passed_in_a_second_is_found() {
        let mut peak = Peak::default();
        for ms in (0..10_000).step_by(10) {
            let bytes = if (4_060..5_060).contains(&ms) { 2_500 } else { 1_250 };
            peak.add(Instant::from_ns(ms * 1_000_000), bytes);
        }
        // 2 Mb/s for a second, half a part of which is missed, and one packet.
        let [most, least] = peak.rates().map(|rate| rate.mbps());
        assert!((1.9..=2.03).contains(&most) && (most - least - 0.04).abs() < 1e-9, "{most} {least}");
        peak.add(Instant::from_ns(60_000_000_000), 125_000);
        assert_eq!(peak.rates(), [MBPS(2.94), MBPS(0.94)], "a pause ends a second");
    }
}
