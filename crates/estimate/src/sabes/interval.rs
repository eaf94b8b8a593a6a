//! The intervals of estimates.

use headway_units::Rate;

/// An estimate with its interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Interval {
    pub(super) rate: Rate,
    pub(super) low: Rate,
    pub(super) high: Rate,
}

/// Returns `rate` with an interval that reaches `below` and `above` it, in bits per second;
/// nothing exceeds `most`.
fn around(rate: f64, (below, above): (f64, f64), most: f64) -> Interval {
    let limited = |bits: f64| Rate::from_bps_f64(bits.min(most));
    Interval { rate: limited(rate), low: limited(rate - below), high: limited(rate + above) }
}

/// Reach of the interval of a mean below and above it, as shares of the capacity.
///
/// The error of the published rules depends on the load more than on anything that a window shows: means are
/// too high where little is free and too low where much is. Over simulations with 20, 50 and 80 % of load,
/// RTTs of 20, 60 and 140 ms and 1 to 50 transfers, 5 % of the errors lie beyond each end.
const MEAN: (f64, f64) = (0.42, 0.33);

/// Returns the interval of a mean of samples that passed the published rules.
pub(super) fn of_mean(rate: f64, capacity: f64) -> Interval {
    around(rate, (MEAN.0 * capacity, MEAN.1 * capacity), capacity.max(rate))
}

/// Standard deviations that an interval reaches.
const ERRORS: f64 = 2.0;
/// Reach in every case, as a share of the capacity: what leaves the link in a window is not
/// exactly what its ACKs show.
const LEAST: f64 = 0.04;

/// A capacity that is not known is taken for this many times what was available. Range 2 to 10.
const UNKNOWN: f64 = 6.0;

/// What a window shows; rates in bits per second.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shown {
    /// The rate while the queue was never empty, and its standard error.
    pub(super) rate: f64,
    pub(super) error: f64,
    /// The share of the window for which the queue was not empty.
    pub(super) busy: f64,
    /// The rate of the observed transfers in the whole window.
    pub(super) observed: f64,
    /// The standard deviation of the change in the time by which ACKs are late.
    pub(super) change: f64,
}

/// Returns the interval of what was available in a window.
///
/// While the queue may have been empty, at least what the transfers used was available and at most the
/// capacity: these bounds hold whatever the cross traffic did. The ACKs of a window show the link up to an
/// RTT earlier, and the change in that time is not known, only how large such changes were before. It does
/// not depend on the error of the rate.
pub(super) fn of_busy_rate(shown: &Shown, capacity: Option<f64>) -> Interval {
    let Shown { rate, error, busy, observed, change } = *shown;
    let idle = (1.0 - busy).clamp(0.0, 1.0);
    // A capacity that is not known hides behind much cross traffic, or there is none and it
    // is spread by delays.
    let most = capacity.map_or(UNKNOWN * rate, |capacity| capacity.max(rate));
    let reach = ERRORS * error.hypot(change) + LEAST * most;
    let below = reach + (rate - observed).max(0.0);
    let above = reach + idle * (most - rate);
    around(rate, (below, above), most * (1.0 + LEAST))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_widen_with_error_change_and_the_time_of_an_empty_queue() {
        let still = Shown { rate: 50e6, error: 0.0, busy: 1.0, observed: 50e6, change: 0.0 };
        let reach = |shown: &Shown| {
            let Interval { rate, low, high } = of_busy_rate(shown, Some(100e6));
            [(rate.mbps() - low.mbps()).round(), (high.mbps() - rate.mbps()).round()]
        };
        assert_eq!(reach(&still), [4.0, 4.0]);
        assert_eq!(reach(&Shown { error: 3e6, ..still }), [10.0, 10.0]);
        assert_eq!(reach(&Shown { error: 3e6, change: 4e6, ..still }), [14.0, 14.0]);
        // For half the time at least 20 Mb/s and at most 100 Mb/s were available.
        assert_eq!(reach(&Shown { busy: 0.5, observed: 35e6, ..still }), [4.0 + 15.0, 4.0 + 25.0]);
        assert_eq!(of_mean(95e6, 100e6).high, Rate::from_mbps(100.0));
    }
}
