//! Queues and limits of RCP while the number of flows grows exponentially (xcp-rcp 2.13).

use super::search::last_that_holds;
use headway_units::{Bytes, Duration, Rate};

/// An RCP router whose flows grow in number by a constant share per d0.
///
/// Its control law takes from the flows what newcomers bring only if there is a queue; the faster the
/// growth, the longer that queue. It also makes round trips longer, in which more flows arrive. Beyond a
/// limit no queue suffices.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Surge {
    /// Weight of the queue in the control law, above 0 and below 1.
    pub beta: f64,
}

/// The fastest growth for which there is a steady queue.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limit {
    /// Growth per d0.
    pub growth: f64,
    /// Queue at that growth, in C d0.
    pub queue: f64,
}

impl Surge {
    /// Returns the growth per d0 at which a queue of `queue` C d0 neither grows nor shrinks
    /// (L0(x) of xcp-rcp 2.13).
    ///
    /// Slower growth lets it shrink, faster growth makes it longer.
    pub fn growth_at(&self, queue: f64) -> f64 {
        self.log_growth_at(queue).exp_m1()
    }

    /// Returns the same as the logarithm of one plus the growth, which stays precise for the shortest queues.
    fn log_growth_at(&self, queue: f64) -> f64 {
        let delay = 1.0 + queue;
        -(-self.beta * queue / delay).ln_1p() / delay
    }

    /// Returns the limit of stability: the maximum of [`Self::growth_at`] over all queues (xcp-rcp F50).
    pub fn limit(&self) -> Limit {
        // With w = 1 - beta q/d the logarithm of one plus the growth is -(w - 1 + beta) ln(w) / beta. Its
        // derivative falls with w, from a positive value at w = 1 - beta to a negative one at 1.
        let rest = 1.0 - self.beta;
        let w = last_that_holds(rest, 1.0, |w| rest / w - w.ln() - 1.0 > 0.0);
        let share = (1.0 - w) / self.beta;
        let queue = share / (1.0 - share);
        Limit { growth: self.growth_at(queue), queue }
    }

    /// Returns the limit as growth per round-trip time with queue: beta / (1 - beta) (xcp-rcp 2.13).
    pub fn limit_per_delay(&self) -> f64 {
        self.beta / (1.0 - self.beta)
    }

    /// Returns the limit of a router that updates its rate much more often than once per round-trip time:
    /// e^(beta/4) - 1, at a queue of C d0 (xcp-rcp 2.13).
    pub fn limit_of_short_intervals(&self) -> f64 {
        (self.beta / 4.0).exp_m1()
    }

    /// Returns the compensation queue, in C d0: the queue at which the rate of the flows falls as fast as
    /// their number grows. `None` if `growth` is beyond the limit; zero without growth.
    pub fn compensation_queue(&self, growth: f64) -> Option<f64> {
        if growth <= 0.0 {
            return Some(0.0);
        }
        let limit = self.limit();
        let below = |queue| self.growth_at(queue) < growth;
        (growth <= limit.growth).then(|| last_that_holds(0.0, limit.queue, below))
    }

    /// Returns the longest queue, in C d0, that shrinks while the flows grow by `growth`: a longer one never
    /// does. `None` if `growth` is beyond the limit, infinity without growth.
    pub fn longest_shrinking_queue(&self, growth: f64) -> Option<f64> {
        if growth <= 0.0 {
            return Some(f64::INFINITY);
        }
        let limit = self.limit();
        // The growth at a queue q is below (1 - beta)^(-1/q) - 1.
        let longest = (-(-self.beta).ln_1p() / growth.ln_1p()).max(limit.queue);
        let shrinks = |queue| self.growth_at(queue) > growth;
        (growth <= limit.growth).then(|| last_that_holds(limit.queue, longest, shrinks))
    }
}

/// Converts a queue of `queue` C d0 at a link of this rate and round-trip time without queue to bytes.
pub fn queue_bytes(queue: f64, rate: Rate, rtt: Duration) -> Bytes {
    Bytes::new((queue * rate.bps_f64() / 8.0 * rtt.secs_f64()).round() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(value: f64, expected: f64, share: f64) {
        assert!((value / expected - 1.0).abs() < share, "{value} is not {expected}");
    }

    fn bytes(queue: f64) -> f64 {
        queue_bytes(queue, Rate::from_mbps(100.0), Duration::from_ms(100)).get() as f64
    }

    /// beta; the limit per delay and per d0; delay and bytes of queue there (xcp-rcp 2.13).
    const LIMITS: [(f64, f64, f64, f64, f64); 7] = [
        (0.100, 0.1111, 0.02598, 2.026, 1_283_125.0),
        (0.150, 0.1765, 0.03977, 2.041, 1_301_250.0),
        (0.200, 0.2500, 0.05413, 2.056, 1_320_000.0),
        (0.226, 0.2920, 0.06185, 2.064, 1_330_625.0),
        (0.300, 0.4286, 0.08482, 2.090, 1_362_500.0),
        (0.400, 0.6667, 0.11849, 2.129, 1_411_875.0),
        (0.500, 1.0000, 0.15577, 2.175, 1_469_375.0),
    ];

    #[test]
    fn limits_are_those_of_the_specification() {
        for (beta, per_delay, growth, delay, queue) in LIMITS {
            let surge = Surge { beta };
            let limit = surge.limit();
            near(surge.limit_per_delay(), per_delay, 0.0005);
            near(limit.growth, growth, 0.0005);
            near(1.0 + limit.queue, delay, 0.0005);
            near(bytes(limit.queue), queue, 0.001);
        }
    }

    /// The thesis has 0.062 (xcp-rcp 1.7), and 0.0581 follows for short intervals (2.13).
    #[test]
    fn the_limit_at_the_usual_beta_is_the_published_one() {
        let surge = Surge { beta: 0.226 };
        assert!((surge.limit().growth - 0.0618).abs() < 0.0003);
        assert!((surge.limit_of_short_intervals() - 0.0581).abs() < 0.0001);
    }

    /// Bytes of compensation queue for growths of 0.01 to 0.06; infinite beyond the limit (xcp-rcp 2.13).
    const QUEUES: [(f64, [f64; 6]); 6] = [
        (0.100, [156_622.0, 453_661.0, f64::NAN, f64::NAN, f64::NAN, f64::NAN]),
        (0.200, [68_869.0, 154_534.0, 267_416.0, 432_675.0, 753_614.0, f64::NAN]),
        (0.226, [60_144.0, 132_527.0, 223_167.0, 344_138.0, 526_720.0, 942_661.0]),
        (0.300, [44_217.0, 94_440.0, 152_504.0, 221_242.0, 305_400.0, 413_958.0]),
        (0.400, [32_570.0, 68_096.0, 107_159.0, 150_530.0, 199_266.0, 254_872.0]),
        (0.500, [25_781.0, 53_264.0, 82_687.0, 114_346.0, 148_609.0, 185_942.0]),
    ];

    #[test]
    fn compensation_queues_are_those_of_the_specification() {
        for (beta, queues) in QUEUES {
            for (index, expected) in queues.into_iter().enumerate() {
                let queue = Surge { beta }.compensation_queue(0.01 * (index + 1) as f64);
                match queue {
                    Some(queue) => near(bytes(queue), expected, 0.0001),
                    None => assert!(expected.is_nan(), "beta {beta}, growth {}", index + 1),
                }
            }
        }
    }

    /// xcp-rcp 2.13: delays d/d0 and the growth below which such a queue shrinks.
    #[test]
    fn long_queues_shrink_only_while_growth_is_far_below_the_limit() {
        let surge = Surge { beta: 0.226 };
        let published = [(3.0, 0.0559), (5.0, 0.0407), (10.0, 0.0230), (20.0, 0.0122), (30.0, 0.0083)];
        for (delay, growth) in published {
            assert!((surge.growth_at(delay - 1.0) - growth).abs() < 0.000_06, "{delay}");
            let longest = surge.longest_shrinking_queue(surge.growth_at(delay - 1.0));
            near(longest.expect("below the limit"), delay - 1.0, 1e-9);
        }
    }

    #[test]
    fn every_queue_solves_its_equation() {
        for beta in [0.001, 0.05, 0.226, 0.6, 0.9, 0.999] {
            let surge = Surge { beta };
            let limit = surge.limit();
            for share in [1e-4, 0.01, 0.2, 0.9, 0.999] {
                let growth = share * limit.growth;
                let short = surge.compensation_queue(growth).expect("below the limit");
                let long = surge.longest_shrinking_queue(growth).expect("below the limit");
                assert!(short < limit.queue && limit.queue < long, "{beta} {share}: {short} {long}");
                near(surge.growth_at(short), growth, 1e-9);
                near(surge.growth_at(long), growth, 1e-9);
            }
            assert_eq!(surge.compensation_queue(1.001 * limit.growth), None);
            assert_eq!(surge.longest_shrinking_queue(1.001 * limit.growth), None);
            assert_eq!(surge.compensation_queue(0.0), Some(0.0));
        }
    }
}
