//! Crowds of flows that arrive around a peak (xcp-rcp 2.13, F52; equations 6.12 to 6.14).

use std::f64::consts::SQRT_2;

use super::search::{greatest, last_that_holds};
use headway_units::Duration;

/// The largest shape of an Erlang distribution: beyond about 300 the sum in its distribution
/// function underflows.
pub const MAX_SHAPE: u32 = 100;
/// Samples per d0 where growth is searched for its maximum, and per d0 at the beginning, where it may jump.
const SAMPLES: f64 = 10.0;
const FIRST_SAMPLES: f64 = 40.0;
/// Most samples between the begin and the end of a crowd; all shapes are smooth on a thousandth of that time.
const MOST_SAMPLES: f64 = 50_000.0;

/// How the start times of a crowd of flows are distributed; all times and shapes are above zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrivals {
    /// Density e^(-|t - peak| / scale) / (2 scale): exponential growth before the peak.
    Laplace {
        /// Time of the peak.
        peak: Duration,
        /// The scale b.
        scale: Duration,
    },
    /// Normal distribution.
    Normal {
        /// Time of the peak.
        peak: Duration,
        /// Standard deviation.
        deviation: Duration,
    },
    /// Sum of `shape` exponentially distributed times.
    Erlang {
        /// Number of times in the sum, k, 1 to [`MAX_SHAPE`].
        shape: u32,
        /// Mean of each, 1/lambda.
        mean: Duration,
    },
}

impl Arrivals {
    /// Returns the share of the crowd that has arrived by `seconds`.
    fn arrived(&self, seconds: f64) -> f64 {
        match *self {
            Arrivals::Laplace { peak, scale } => {
                let z = (seconds - peak.secs_f64()) / scale.secs_f64();
                let tail = 0.5 * (-z.abs()).exp();
                if z < 0.0 { tail } else { 1.0 - tail }
            }
            Arrivals::Normal { peak, deviation } => {
                normal((seconds - peak.secs_f64()) / deviation.secs_f64())
            }
            Arrivals::Erlang { shape, mean } => erlang(shape, seconds / mean.secs_f64()),
        }
    }

    /// Returns the time by which a share of the crowd, above 0 and below 1, has arrived;
    /// it may be below zero.
    pub fn time_of(&self, share: f64) -> Duration {
        let has_come = |seconds: f64| self.arrived(seconds) >= share;
        // Twice the times of the begin and of the end, so that no share that a double resolves
        // beside 1 is outside.
        let (first, last) = (self.begin(), 2.0 * self.end().secs_f64() - self.begin());
        Duration::from_secs_f64(last_that_holds(last, first.min(0.0), has_come))
    }

    /// Returns the time in seconds before which less than 1e-15 of the crowd arrives.
    fn begin(&self) -> f64 {
        match *self {
            Arrivals::Laplace { peak, scale } => peak.secs_f64() - 40.0 * scale.secs_f64(),
            Arrivals::Normal { peak, deviation } => peak.secs_f64() - 8.5 * deviation.secs_f64(),
            Arrivals::Erlang { .. } => 0.0,
        }
    }

    /// Returns the time by which all but less than 1e-8 of the crowd has arrived.
    pub fn end(&self) -> Duration {
        match *self {
            Arrivals::Laplace { peak, scale } => peak + scale.scale(20.0),
            Arrivals::Normal { peak, deviation } => peak + deviation.scale(6.0),
            Arrivals::Erlang { shape, mean } => {
                let shape = f64::from(shape);
                mean.scale(shape + 8.0 * shape.sqrt() + 20.0)
            }
        }
    }
}

/// Returns the normal distribution function, to 1e-15 absolute.
fn normal(z: f64) -> f64 {
    // Beyond, less is left than a double resolves beside 1.
    if z.abs() > 8.3 {
        return if z < 0.0 { 0.0 } else { 1.0 };
    }
    // Phi(z) = 1/2 + phi(z) (z + z^3/3 + z^5/(3 5) + ...)
    let (mut sum, mut term, mut divisor) = (z, z, 1.0);
    while term.abs() > f64::EPSILON * sum.abs() {
        divisor += 2.0;
        term *= z * z / divisor;
        sum += term;
    }
    let density = (-0.5 * z * z).exp() / (SQRT_2 * std::f64::consts::PI.sqrt());
    0.5 + density * sum
}

/// Returns the Erlang distribution function: 1 - e^-x (1 + x + ... + x^(k-1)/(k-1)!),
/// with x as time over mean.
fn erlang(shape: u32, x: f64) -> f64 {
    if x <= 0.0 {
        return 0.0;
    }
    let (mut sum, mut term) = (0.0, (-x).exp());
    for index in 1..=shape {
        sum += term;
        term *= x / f64::from(index);
    }
    (1.0 - sum).max(0.0)
}

/// A crowd that joins flows which were there before.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Crowd {
    /// When its flows arrive.
    pub arrivals: Arrivals,
    /// Flows of the crowd per flow that was there before, above zero; nothing else about the numbers matters.
    pub size: f64,
}

/// When growth is above a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Above {
    /// The first such time; zero if growth is above the limit from the beginning.
    pub from: Duration,
    /// The last such time.
    pub until: Duration,
}

impl Crowd {
    /// Returns the number of flows at a time, as a multiple of those that were there before.
    pub fn flows(&self, at: Duration) -> f64 {
        self.flows_at(at.secs_f64())
    }

    pub(super) fn flows_at(&self, seconds: f64) -> f64 {
        1.0 + self.size * self.arrivals.arrived(seconds)
    }

    /// Returns the growth L0 at a time: the increase of the number of flows during the last `rtt`, relative
    /// to the number before.
    pub fn growth(&self, at: Duration, rtt: Duration) -> f64 {
        self.growth_at(at.secs_f64(), rtt.secs_f64())
    }

    fn growth_at(&self, seconds: f64, rtt: f64) -> f64 {
        self.flows_at(seconds) / self.flows_at(seconds - rtt) - 1.0
    }

    /// Returns when growth is greatest from time zero on, and how great.
    pub fn fastest(&self, rtt: Duration) -> (Duration, f64) {
        let (times, rtt) = (self.times(rtt), rtt.secs_f64());
        let growth = |at: f64| self.growth_at(at, rtt);
        let best = (0..times.len()).max_by(|a, b| growth(times[*a]).total_cmp(&growth(times[*b])));
        let best = best.unwrap_or(0);
        let (low, high) = (times[best.saturating_sub(1)], times[(best + 1).min(times.len() - 1)]);
        let candidates = [times[best], greatest(low, high, growth)];
        let at = if growth(candidates[1]) > growth(candidates[0]) { candidates[1] } else { candidates[0] };
        (Duration::from_secs_f64(at), growth(at))
    }

    /// Returns when growth is above `limit`, from time zero on; `None` if it never is.
    pub fn above(&self, limit: f64, rtt: Duration) -> Option<Above> {
        let (times, rtt) = (self.times(rtt), rtt.secs_f64());
        let above = |at: f64| self.growth_at(at, rtt) > limit;
        let first = times.iter().position(|at| above(*at))?;
        let last = times.iter().rposition(|at| above(*at))?;
        // The neighbours outside are not above it, or there are none.
        let from = match first {
            0 => times[0],
            _ => last_that_holds(times[first], times[first - 1], above),
        };
        let until =
            times.get(last + 1).map_or(times[last], |next| last_that_holds(times[last], *next, above));
        Some(Above { from: Duration::from_secs_f64(from), until: Duration::from_secs_f64(until) })
    }

    /// Returns the times in seconds, from zero to the end, between which growth is followed.
    fn times(&self, rtt: Duration) -> Vec<f64> {
        let (rtt, end) = (rtt.secs_f64(), self.arrivals.end().secs_f64());
        let first = (0..(2.0 * FIRST_SAMPLES) as u32).map(|index| f64::from(index) * rtt / FIRST_SAMPLES);
        let begin = self.arrivals.begin().max(2.0 * rtt);
        let step = (rtt / SAMPLES).max((end - begin) / MOST_SAMPLES);
        let count = ((end - begin).max(0.0) / step).ceil() as u32;
        first.chain((0..=count).map(|index| begin + f64::from(index) * step)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RTT: Duration = Duration::from_ms(100);
    /// The limit of RCP at a beta of 0.226.
    const LIMIT: f64 = 0.0618;

    fn seconds(seconds: f64) -> Duration {
        Duration::from_secs_f64(seconds)
    }

    fn crowd(arrivals: Arrivals) -> Crowd {
        Crowd { arrivals, size: 5000.0 }
    }

    fn normal_crowd(deviation: f64) -> Crowd {
        crowd(Arrivals::Normal { peak: seconds(10.0), deviation: seconds(deviation) })
    }

    fn erlang_crowd(shape: u32) -> Crowd {
        crowd(Arrivals::Erlang { shape, mean: seconds(1.0) })
    }

    /// Checks the maximum and its time, and the times between which growth is above the limit.
    fn check(crowd: Crowd, (growth, at): (f64, f64), (from, until): (f64, f64)) {
        let (time, fastest) = crowd.fastest(RTT);
        assert!((fastest / growth - 1.0).abs() < 0.01, "{fastest} is not {growth}");
        assert!((time.secs_f64() - at).abs() < 0.06, "{time} is not {at} s");
        let above = crowd.above(LIMIT, RTT).expect("above the limit");
        assert!((above.from.secs_f64() - from).abs() < 0.11, "from {} s", above.from.secs_f64());
        assert!((above.until.secs_f64() - until).abs() < 0.11, "until {} s", above.until.secs_f64());
    }

    #[test]
    fn distribution_functions_have_their_known_values() {
        let known = [(0.0, 0.5), (1.0, 0.841_344_746_068_543), (-2.5, 0.006_209_665_325_776), (-9.0, 0.0)];
        for (z, share) in known {
            assert!((normal(z) - share).abs() < 1e-14, "{z}: {}", normal(z));
        }
        assert!((erlang(1, 2.0) - (1.0 - (-2.0_f64).exp())).abs() < 1e-15);
        assert!((erlang(3, 3.0) - 0.576_809_918_873_156).abs() < 1e-14);
        assert!(erlang(MAX_SHAPE, 200.0) > 1.0 - 1e-12 && erlang(2, -1.0) == 0.0);
        for arrivals in [erlang_crowd(6), normal_crowd(2.0)].map(|crowd| crowd.arrivals) {
            assert!(1.0 - arrivals.arrived(arrivals.end().secs_f64()) < 1e-8);
        }
    }

    /// xcp-rcp 2.13: growth before the peak tends to e^(d0/b) - 1.
    #[test]
    fn laplace_crowds_grow_by_a_constant_share_before_the_peak() {
        for (scale, growth) in [(1.0, 0.1052), (1.5, 0.0689), (2.0, 0.0513)] {
            let crowd = crowd(Arrivals::Laplace { peak: seconds(20.0), scale: seconds(scale) });
            let (at, fastest) = crowd.fastest(RTT);
            assert!((fastest / growth - 1.0).abs() < 0.01, "{fastest} is not {growth}");
            assert!((at.secs_f64() - 20.0).abs() < 0.1, "{at}");
            let is_above = crowd.above(LIMIT, RTT).is_some();
            assert_eq!(is_above, scale < 2.0, "{scale}");
        }
    }

    /// xcp-rcp 2.13, computed maxima.
    #[test]
    fn normal_crowds_grow_fastest_before_their_peak() {
        check(normal_crowd(1.0), (0.334, 7.2), (6.1, 10.4));
        check(normal_crowd(2.0), (0.155, 4.3), (2.6, 8.9));
        check(normal_crowd(4.0), (0.071, 0.0), (0.0, 1.8));
    }

    /// xcp-rcp 2.13, computed maxima.
    #[test]
    fn erlang_crowds_grow_fastest_at_the_start() {
        let (at, jump) = erlang_crowd(2).fastest(RTT);
        assert!(jump > 20.0 && at < seconds(0.2), "{jump} at {at}");
        let (at, growth) = erlang_crowd(4).fastest(RTT);
        assert!((growth - 1.10).abs() < 0.011 && (at.secs_f64() - 0.4).abs() < 0.06, "{growth} at {at}");
        check(erlang_crowd(6), (0.47, 1.1), (0.6, 4.5));
    }

    #[test]
    fn short_crowds_are_found_long_after_the_beginning() {
        let (peak, scale) = (seconds(1_000.0), Duration::from_ms(1));
        let crowd = crowd(Arrivals::Laplace { peak, scale });
        let rtt = Duration::from_ms(1);
        let (at, growth) = crowd.fastest(rtt);
        assert!((growth / 1.0_f64.exp_m1() - 1.0).abs() < 0.01, "{growth}");
        assert!((at - peak).ns().abs() < 2_000_000, "{at}");
        let above = crowd.above(LIMIT, rtt).expect("above the limit");
        assert!(above.from < peak && peak < above.until, "{above:?}");
    }

    #[test]
    fn the_number_of_flows_and_its_growth_agree() {
        let crowd = normal_crowd(2.0);
        for ms in [0, 50, 2_500, 10_000, 30_000] {
            let at = Duration::from_ms(ms);
            let grown = crowd.flows(at - RTT) * (1.0 + crowd.growth(at, RTT));
            assert!((grown / crowd.flows(at) - 1.0).abs() < 1e-12);
        }
        assert!((crowd.flows(seconds(60.0)) - 5001.0).abs() < 1e-6);
    }
}
