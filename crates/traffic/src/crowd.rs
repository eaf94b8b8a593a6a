//! Crowds: flows whose number grows as a distribution says (xcp-rcp 2.13, 4.6, 4.7, F52).

use headway_formulas::explicit::{Arrivals as Distribution, MAX_SHAPE};
use headway_units::Duration;
use rand_pcg::Pcg64Mcg;
use serde::Deserialize;

use crate::ArrivalSpec;
use crate::distribution::uniform;

/// Flows of a crowd unless `flows` says otherwise: as many as in the published crowds (xcp-rcp 2.13).
pub(crate) const FLOWS: u64 = 5_000;
/// Longest time in a distribution; sums of a hundred of them are far from overflowing.
const LONGEST: Duration = Duration::from_ms(1_000_000_000);

/// What says when the flows of a crowd arrive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CrowdKind {
    /// The number of flows grows by a constant share per round-trip time: `growth`, `rtt` and `initial`.
    Exponential,
    /// A Laplace distribution: `peak` and `b`.
    Laplace,
    /// A normal distribution: `peak` and `sigma`.
    Normal,
    /// An Erlang distribution: `k` and `lambda`.
    Erlang,
}

impl CrowdKind {
    /// The keys of this kind, all of which it needs.
    fn keys(self) -> &'static [&'static str] {
        match self {
            CrowdKind::Exponential => &["growth", "initial", "rtt"],
            CrowdKind::Laplace => &["peak", "b"],
            CrowdKind::Normal => &["peak", "sigma"],
            CrowdKind::Erlang => &["k", "lambda"],
        }
    }
}

/// When the flows of a crowd arrive.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Crowd {
    /// They join flows that are there before time zero, and all together become more by this share per `rtt`.
    Exponential {
        /// Flows that are there before, at least 1.
        initial: f64,
        /// Growth L0, above 0.
        growth: f64,
        /// Round-trip time without queue, d0.
        rtt: Duration,
    },
    /// Their times have a distribution.
    Distributed(Distribution),
}

impl Crowd {
    /// Returns the time by which a share of the crowd, above 0 and below 1, has arrived;
    /// it may be below zero.
    fn time_of(&self, share: f64, flows: u64) -> Duration {
        match self {
            Crowd::Exponential { initial, growth, rtt } => {
                let grown = libm::log1p(share * flows as f64 / initial) / libm::log1p(*growth);
                Duration::from_secs_f64(grown * rtt.secs_f64())
            }
            Crowd::Distributed(distribution) => distribution.time_of(share),
        }
    }

    /// Returns the times at which `flows` flows arrive, in ascending order; the first may be below zero.
    ///
    /// One flow arrives in each of `flows` equally likely spans of the distribution, at a random time of it.
    /// On average over seeds the number of flows is then exactly that of the distribution at any time, and in
    /// any run it differs from it by less than one. Independent draws would differ by the square root of the
    /// number, which the growth of the first few flows multiplies.
    pub fn times(self, flows: u64, mut rng: Pcg64Mcg) -> impl Iterator<Item = Duration> {
        (0..flows).map(move |index| self.draw(index, flows, &mut rng))
    }

    /// Draws the time of flow `index` of `flows`.
    pub(crate) fn draw(&self, index: u64, flows: u64, rng: &mut Pcg64Mcg) -> Duration {
        // Never 1, of which a distribution without end has no time.
        let within = uniform(rng).min(1.0 - 1e-6);
        self.time_of((index as f64 + within) / flows as f64, flows)
    }
}

impl ArrivalSpec {
    /// Returns the crowd that the `kind` describes; `None` without `kind`.
    ///
    /// # Errors
    /// The key that is missing, wrong or of another kind, and the rule that it breaks.
    pub fn crowd(&self) -> Result<Option<Crowd>, (&'static str, String)> {
        let given = [
            ("peak", self.peak.is_some()),
            ("b", self.b.is_some()),
            ("sigma", self.sigma.is_some()),
            ("k", self.k.is_some()),
            ("lambda", self.lambda.is_some()),
            ("growth", self.growth.is_some()),
            ("rtt", self.rtt.is_some()),
            ("initial", self.initial.is_some()),
        ];
        let needed = self.kind.map_or(&[][..], CrowdKind::keys);
        for (key, is_given) in given {
            match (is_given, needed.contains(&key)) {
                (true, false) => return Err((key, "belongs to another `kind` of arrivals".to_owned())),
                (false, true) => return Err((key, "must be given with this `kind`".to_owned())),
                _ => {}
            }
        }
        self.kind.map(|kind| self.crowd_of(kind)).transpose()
    }

    /// Returns the crowd of a kind all of whose keys are given.
    fn crowd_of(&self, kind: CrowdKind) -> Result<Crowd, (&'static str, String)> {
        Ok(match kind {
            CrowdKind::Exponential => Crowd::Exponential {
                initial: within("initial", self.initial, 1.0..=1e9)?,
                growth: within("growth", self.growth, 1e-6..=1e3)?,
                rtt: span("rtt", self.rtt)?,
            },
            CrowdKind::Laplace => Crowd::Distributed(Distribution::Laplace {
                peak: span("peak", self.peak)?,
                scale: span("b", self.b)?,
            }),
            CrowdKind::Normal => Crowd::Distributed(Distribution::Normal {
                peak: span("peak", self.peak)?,
                deviation: span("sigma", self.sigma)?,
            }),
            CrowdKind::Erlang => {
                let lambda = within("lambda", self.lambda, 1e-6..=1e6)?;
                let shape = self.k.filter(|shape| (1..=MAX_SHAPE).contains(shape));
                let shape = shape.ok_or_else(|| ("k", format!("must be 1 to {MAX_SHAPE}")))?;
                Crowd::Distributed(Distribution::Erlang {
                    shape,
                    mean: Duration::from_secs_f64(1.0 / lambda),
                })
            }
        })
    }
}

fn span(key: &'static str, time: Option<Duration>) -> Result<Duration, (&'static str, String)> {
    let right = |time: &Duration| (Duration::from_us(1)..=LONGEST).contains(time);
    time.filter(right).ok_or_else(|| (key, "must be 1 us to 1000000 s".to_owned()))
}

fn within(
    key: &'static str,
    value: Option<f64>,
    range: std::ops::RangeInclusive<f64>,
) -> Result<f64, (&'static str, String)> {
    let rule = || (key, format!("must be {} to {}", range.start(), range.end()));
    value.filter(|value| range.contains(value)).ok_or_else(rule)
}

#[cfg(test)]
mod tests {
    use headway_formulas::explicit::Crowd as ClosedForm;

    use super::*;
    use crate::random;

    const RTT: f64 = 0.1;
    const SEEDS: u64 = 40;

    fn crowd(text: &str) -> Crowd {
        let spec: ArrivalSpec = toml::from_str(text).unwrap();
        spec.crowd().unwrap().unwrap()
    }

    /// The growth during the last RTT, at a time in s, of the mean number of flows over seeds.
    fn growth(crowd: Crowd, before: f64, at: f64) -> f64 {
        let mut come = [before; 2];
        for seed in 0..SEEDS {
            let times = crowd.times(FLOWS, random::generator(seed, "test", 0));
            for time in times.map(|time| time.secs_f64()).take_while(|time| *time <= at) {
                come[0] += f64::from(u8::from(time <= at - RTT)) / SEEDS as f64;
                come[1] += 1.0 / SEEDS as f64;
            }
        }
        come[1] / come[0] - 1.0
    }

    /// xcp-rcp F52: growth by the mean number of flows over 40 seeds, against the closed form.
    #[test]
    fn crowds_grow_as_their_closed_forms() {
        let cases = [
            ("kind = 'laplace'\npeak = '20 s'\nb = '1 s'", vec![18.0, 19.0, 20.5]),
            ("kind = 'laplace'\npeak = '20 s'\nb = '2 s'", vec![17.0, 18.5, 19.5]),
            ("kind = 'normal'\npeak = '10 s'\nsigma = '2 s'", vec![7.0, 8.0, 9.5]),
            ("kind = 'erlang'\nk = 4\nlambda = 1.0", vec![0.9, 1.5, 3.0]),
        ];
        for (text, times) in cases {
            let crowd = crowd(text);
            let Crowd::Distributed(arrivals) = crowd else { panic!("{text}") };
            let closed = ClosedForm { arrivals, size: FLOWS as f64 };
            for at in times {
                let growth = growth(crowd, 1.0, at);
                let expected = closed.growth(Duration::from_secs_f64(at), Duration::from_secs_f64(RTT));
                assert!((growth / expected - 1.0).abs() < 0.01, "{text} at {at}: {growth} {expected}");
            }
        }
    }

    #[test]
    fn an_exponential_crowd_grows_by_a_constant_share() {
        let crowd = crowd("kind = 'exponential'\ninitial = 24.0\ngrowth = 0.04\nrtt = '100 ms'");
        for at in [6.0, 9.0, 12.0] {
            let growth = growth(crowd, 24.0, at);
            assert!((growth / 0.04 - 1.0).abs() < 0.01, "{at}: {growth}");
        }
    }

    #[test]
    fn a_crowd_never_differs_by_a_flow_from_its_distribution() {
        let crowd = crowd("kind = 'normal'\npeak = '10 s'\nsigma = '2 s'");
        let times: Vec<Duration> = crowd.times(100, random::generator(3, "test", 0)).collect();
        assert!(times.is_sorted());
        for (index, time) in times.iter().enumerate() {
            let (first, last) = (
                crowd.time_of(index as f64 / 100.0, 100),
                crowd.time_of((index as f64 + 0.999_999) / 100.0, 100),
            );
            assert!((first..=last).contains(time), "{index}: {time}");
        }
    }

    #[test]
    fn keys_of_other_kinds_are_refused() {
        let cases = [
            ("kind = 'laplace'\npeak = '20 s'", "b", "must be given"),
            ("kind = 'laplace'\npeak = '20 s'\nb = '0 s'", "b", "must be 1 us"),
            ("kind = 'normal'\npeak = '20 s'\nsigma = '1 s'\nb = '1 s'", "b", "another `kind`"),
            ("kind = 'erlang'\nk = 0\nlambda = 1.0", "k", "must be 1 to 100"),
            ("per-second = 3.0\npeak = '1 s'", "peak", "another `kind`"),
        ];
        for (text, key, rule) in cases {
            let (found, reason) = toml::from_str::<ArrivalSpec>(text).unwrap().crowd().unwrap_err();
            assert!(found == key && reason.contains(rule), "{text}: {found} {reason}");
        }
    }
}
