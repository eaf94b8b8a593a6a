//! Random delays of packets: their distribution, and how much consecutive ones have in common.

use headway_units::Duration;
use rand::Rng as _;
use serde::{Deserialize, Serialize};

use super::OutOfRange;
use crate::distribution::normal;
use crate::random::Pcg64Mcg;

/// The longest random delay; tails of distributions are cut off there.
const MOST: Duration = Duration::from_ms(1000);
/// Deviations above the mean, and multiples of it, that few draws exceed: for estimates of memory.
const FEW_DEVIATIONS: f64 = 6.0;
const FEW_MEANS: f64 = 10.0;
const LARGEST_SHAPE: f64 = 100.0;

/// Random delay of each packet.
///
/// In files a time, up to which it is uniform from zero on, or a table:
/// `{ kind = "normal", mean = "2 ms", deviation = "500 us", correlation = 0.3 }`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(from = "Written", into = "Written")]
pub struct Jitter {
    /// The distribution of a single delay.
    pub distribution: Delays,
    /// Correlation of the delays of consecutive packets, 0 to less than 1: that of the normal variates that
    /// they are drawn from, so the distribution stays as it is.
    pub correlation: f64,
}

/// The distribution of a delay.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Delays {
    /// Uniform from zero.
    Uniform {
        /// The longest.
        max: Duration,
    },
    /// Normal; cut off below zero and above 1 s.
    Normal {
        /// Mean, without what is cut off.
        mean: Duration,
        /// Standard deviation, without what is cut off.
        deviation: Duration,
    },
    /// Pareto: at least `mean` (`shape` - 1) / `shape`; cut off above 1 s.
    Pareto {
        /// Mean, without what is cut off.
        mean: Duration,
        /// Shape, above 1; the variance is infinite up to 2.
        shape: f64,
    },
}

/// The form in files.
#[derive(Serialize, Deserialize)]
#[serde(
    untagged,
    expecting = "needs a time such as `\"1 ms\"`, or `kind` with its keys: `uniform` with `max`, `normal` with `mean` and `deviation`, `pareto` with `mean` and `shape`; and `correlation`"
)]
enum Written {
    Max(Duration),
    Table(Table),
}

#[derive(Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
enum Table {
    Uniform {
        max: Duration,
        #[serde(default)]
        correlation: f64,
    },
    Normal {
        mean: Duration,
        deviation: Duration,
        #[serde(default)]
        correlation: f64,
    },
    Pareto {
        mean: Duration,
        shape: f64,
        #[serde(default)]
        correlation: f64,
    },
}

impl From<Written> for Jitter {
    fn from(written: Written) -> Jitter {
        let (distribution, correlation) = match written {
            Written::Max(max) => (Delays::Uniform { max }, 0.0),
            Written::Table(Table::Uniform { max, correlation }) => (Delays::Uniform { max }, correlation),
            Written::Table(Table::Normal { mean, deviation, correlation }) => {
                (Delays::Normal { mean, deviation }, correlation)
            }
            Written::Table(Table::Pareto { mean, shape, correlation }) => {
                (Delays::Pareto { mean, shape }, correlation)
            }
        };
        Jitter { distribution, correlation }
    }
}

impl From<Jitter> for Written {
    fn from(jitter: Jitter) -> Written {
        let correlation = jitter.correlation;
        match jitter.distribution {
            Delays::Uniform { max } if correlation == 0.0 => Written::Max(max),
            Delays::Uniform { max } => Written::Table(Table::Uniform { max, correlation }),
            Delays::Normal { mean, deviation } => {
                Written::Table(Table::Normal { mean, deviation, correlation })
            }
            Delays::Pareto { mean, shape } => Written::Table(Table::Pareto { mean, shape, correlation }),
        }
    }
}

impl From<Duration> for Jitter {
    /// As [`Jitter::uniform`].
    fn from(max: Duration) -> Jitter {
        Jitter::uniform(max)
    }
}

impl Default for Jitter {
    /// None.
    fn default() -> Jitter {
        Jitter::NONE
    }
}

impl Jitter {
    /// No random delay.
    pub const NONE: Jitter = Jitter::uniform(Duration::ZERO);

    /// Returns independent delays, uniform from zero to `max`.
    pub(crate) const fn uniform(max: Duration) -> Jitter {
        Jitter { distribution: Delays::Uniform { max }, correlation: 0.0 }
    }

    /// Whether there is no delay.
    pub fn is_none(&self) -> bool {
        matches!(self.distribution, Delays::Uniform { max } if max <= Duration::ZERO)
    }

    /// Returns the longest delay if delays are uniform and independent.
    pub fn as_uniform(&self) -> Option<Duration> {
        match self.distribution {
            Delays::Uniform { max } if self.correlation == 0.0 => Some(max),
            _ => None,
        }
    }

    /// Returns the mean delay, without what is cut off.
    pub fn mean(&self) -> Duration {
        match self.distribution {
            Delays::Uniform { max } => max / 2,
            Delays::Normal { mean, .. } | Delays::Pareto { mean, .. } => mean,
        }
    }

    /// Returns a delay that is seldom or never exceeded.
    pub fn most(&self) -> Duration {
        match self.distribution {
            Delays::Uniform { max } => max,
            Delays::Normal { mean, deviation } => (mean + deviation.scale(FEW_DEVIATIONS)).min(MOST),
            Delays::Pareto { mean, .. } => mean.scale(FEW_MEANS).min(MOST),
        }
    }

    /// Returns what is wrong, if anything is; `longest` bounds what is uniform.
    pub fn mistake(&self, longest: Duration) -> Option<OutOfRange> {
        let range = Duration::ZERO..=MOST;
        let share = (0.0..1.0).contains(&self.correlation);
        if !share {
            return Some((".correlation", "must be at least 0 and less than 1"));
        }
        match self.distribution {
            Delays::Uniform { max } if max < Duration::ZERO || max > longest => {
                Some(("", if longest > MOST { "must be at most 100 s" } else { "must be at most 1 s" }))
            }
            Delays::Normal { mean, .. } | Delays::Pareto { mean, .. } if !range.contains(&mean) => {
                Some((".mean", "must be at most 1 s"))
            }
            Delays::Normal { deviation, .. } if !range.contains(&deviation) => {
                Some((".deviation", "must be at most 1 s"))
            }
            Delays::Pareto { shape, .. } if !(shape > 1.0 && shape <= LARGEST_SHAPE) => {
                Some((".shape", "must be above 1 and at most 100"))
            }
            _ => None,
        }
    }

    /// Returns the same with all times multiplied by `factor`.
    pub fn dilated(&self, factor: u32) -> Jitter {
        let times = |time: Duration| time * i64::from(factor);
        let distribution = match self.distribution {
            Delays::Uniform { max } => Delays::Uniform { max: times(max) },
            Delays::Normal { mean, deviation } => {
                Delays::Normal { mean: times(mean), deviation: times(deviation) }
            }
            Delays::Pareto { mean, shape } => Delays::Pareto { mean: times(mean), shape },
        };
        Jitter { distribution, ..*self }
    }
}

/// The delays of consecutive packets.
#[derive(Clone, Debug)]
pub struct JitterDraws {
    jitter: Jitter,
    /// The normal variate of the last packet; `None` before the first.
    last: Option<f64>,
}

impl JitterDraws {
    /// Creates the delays before the first packet.
    pub fn new(jitter: Jitter) -> JitterDraws {
        JitterDraws { jitter, last: None }
    }

    /// Draws the delay of the next packet.
    #[inline]
    pub fn draw(&mut self, rng: &mut Pcg64Mcg) -> Duration {
        match self.jitter.as_uniform() {
            Some(max) => {
                let steps = u128::from(max.ns().unsigned_abs()) + 1;
                Duration::from_ns(((u128::from(rng.next_u64()) * steps) >> 64) as i64)
            }
            None => self.draw_normal(rng),
        }
    }

    /// Draws a delay by way of a normal variate. Those of consecutive packets are an autoregressive
    /// process of first order, and each becomes a delay by its rank, so the distribution is exact
    /// with any correlation.
    fn draw_normal(&mut self, rng: &mut Pcg64Mcg) -> Duration {
        let Jitter { distribution, correlation } = self.jitter;
        let fresh = normal(rng);
        let variate = match self.last {
            Some(last) if correlation > 0.0 => {
                correlation * last + (1.0 - correlation * correlation).sqrt() * fresh
            }
            _ => fresh,
        };
        self.last = Some(variate);
        let seconds = match distribution {
            Delays::Uniform { max } => max.secs_f64() * share_above(-variate),
            Delays::Normal { mean, deviation } => mean.secs_f64() + deviation.secs_f64() * variate,
            Delays::Pareto { mean, shape } => {
                mean.secs_f64() * (shape - 1.0) / shape * libm::pow(share_above(variate), -1.0 / shape)
            }
        };
        Duration::from_secs_f64(seconds.clamp(0.0, MOST.secs_f64().max(self.jitter.most().secs_f64())))
    }
}

/// Returns the probability that a normal variate exceeds `variate`; never zero.
fn share_above(variate: f64) -> f64 {
    (0.5 * libm::erfc(variate * std::f64::consts::FRAC_1_SQRT_2)).max(f64::MIN_POSITIVE)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::generator;

    const MS: fn(i64) -> Duration = Duration::from_ms;

    fn read(text: &str) -> Jitter {
        let mut table: std::collections::HashMap<String, Jitter> =
            toml::from_str(&format!("jitter = {text}")).unwrap();
        table.remove("jitter").unwrap()
    }

    /// Mean and standard deviation of 400 000 delays in ms, and the correlation of consecutive ones.
    fn moments(jitter: Jitter) -> (f64, f64, f64) {
        const DRAWS: usize = 400_000;
        let (mut draws, mut rng) = (JitterDraws::new(jitter), generator(5, "jitter", 0));
        let delays: Vec<f64> = (0..DRAWS).map(|_| draws.draw(&mut rng).ms()).collect();
        let mean = delays.iter().sum::<f64>() / DRAWS as f64;
        let variance = delays.iter().map(|delay| (delay - mean).powi(2)).sum::<f64>() / DRAWS as f64;
        let both = delays.windows(2).map(|pair| (pair[0] - mean) * (pair[1] - mean)).sum::<f64>();
        (mean, variance.sqrt(), both / DRAWS as f64 / variance)
    }

    #[track_caller]
    fn near(found: (f64, f64, f64), expected: (f64, f64, f64)) {
        let close =
            |found: f64, expected: f64, least: f64| (found - expected).abs() < least.max(0.02 * expected);
        let right = close(found.0, expected.0, 0.0) && close(found.1, expected.1, 0.0);
        assert!(right && close(found.2, expected.2, 0.01), "{found:?}, expected {expected:?}");
    }

    #[test]
    fn delays_have_the_moments_of_their_distribution_with_and_without_correlation() {
        for correlation in [0.0, 0.6] {
            let of = |distribution| moments(Jitter { distribution, correlation });
            // Of ranks of normal variates, the correlation is 6 / pi asin(rho / 2).
            let ranks = 6.0 / std::f64::consts::PI * (correlation / 2.0_f64).asin();
            near(of(Delays::Uniform { max: MS(12) }), (6.0, 12.0 / 12_f64.sqrt(), ranks));
            near(of(Delays::Normal { mean: MS(20), deviation: MS(3) }), (20.0, 3.0, correlation));
            let (mean, deviation, _) = of(Delays::Pareto { mean: MS(10), shape: 6.0 });
            near((mean, deviation, 0.0), (10.0, 10.0 / (6.0 * 4.0_f64).sqrt(), 0.0));
        }
    }

    #[test]
    fn delays_stay_within_their_range() {
        let least = |distribution| {
            let mut draws = JitterDraws::new(Jitter { distribution, correlation: 0.5 });
            let mut rng = generator(2, "jitter", 0);
            (0..100_000)
                .map(|_| draws.draw(&mut rng))
                .fold((MOST, Duration::ZERO), |(least, most), delay| (least.min(delay), most.max(delay)))
        };
        let (shortest, longest) = least(Delays::Normal { mean: MS(1), deviation: MS(2) });
        assert!(shortest == Duration::ZERO && longest > MS(7), "{shortest} {longest}");
        let (shortest, longest) = least(Delays::Pareto { mean: MS(100), shape: 1.1 });
        assert!(shortest >= Duration::from_us(9_090) && longest == MOST, "{shortest} {longest}");
    }

    #[test]
    fn files_have_a_time_or_a_table() {
        assert_eq!(read("\"1 ms\""), Jitter::uniform(MS(1)));
        assert_eq!(read("{ kind = \"uniform\", max = \"1 ms\" }"), Jitter::uniform(MS(1)));
        let pareto = read("{ kind = \"pareto\", mean = \"2 ms\", shape = 2.5, correlation = 0.25 }");
        let expected = Delays::Pareto { mean: MS(2), shape: 2.5 };
        assert_eq!(pareto, Jitter { distribution: expected, correlation: 0.25 });
        for jitter in [pareto, Jitter::uniform(MS(3)), Jitter { correlation: 0.5, ..Jitter::uniform(MS(3)) }]
        {
            let text = serde_json::to_string(&jitter).unwrap();
            assert_eq!(serde_json::from_str::<Jitter>(&text).unwrap(), jitter);
        }
    }

    #[test]
    fn parameters_out_of_range_are_refused_with_their_key() {
        let key = |text: &str| read(text).mistake(MS(100_000)).map(|(key, _)| key);
        assert_eq!(key("\"100 s\""), None);
        assert_eq!(key("\"101 s\""), Some(""));
        assert_eq!(Jitter::uniform(MS(1_001)).mistake(MS(1_000)), Some(("", "must be at most 1 s")));
        for (table, wrong) in [
            ("{ kind = \"uniform\", max = \"1 ms\", correlation = 1.0 }", ".correlation"),
            ("{ kind = \"normal\", mean = \"2 s\", deviation = \"1 ms\" }", ".mean"),
            ("{ kind = \"normal\", mean = \"1 s\", deviation = \"2 s\" }", ".deviation"),
            ("{ kind = \"pareto\", mean = \"1 s\", shape = 1.0 }", ".shape"),
        ] {
            assert_eq!(key(table), Some(wrong), "{table}");
        }
    }
}
