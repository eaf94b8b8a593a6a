//! When the flows of a group arrive, and how much each has to send.

use headway_units::{Bytes, Duration, Rate};
use rand_pcg::Pcg64Mcg;
use serde::Deserialize;

use crate::crowd::{self, Crowd, CrowdKind};
use crate::distribution::{Lognormal, Pareto, exponential};
use crate::random;
use crate::sessions::Sessions;

/// Flows that come and go. Exactly one of `kind`, `rate`, `per-second`, `times` and `sessions`
/// says when they arrive.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct ArrivalSpec {
    /// Offered load, payload per second; arrivals are a Poisson process.
    pub rate: Option<Rate>,
    /// Mean number of arrivals per second; arrivals are a Poisson process.
    pub per_second: Option<f64>,
    /// The times of all arrivals, counted from the start of the group, in ascending order.
    pub times: Option<Vec<Duration>>,
    /// The number of sessions, each of which fetches one flow after another and waits in between.
    pub sessions: Option<u64>,
    /// Mean time, exponentially distributed, that a session waits before each flow, at least 1 ms.
    pub think: Option<Duration>,
    /// The kind of a crowd: how the number of its flows grows.
    pub kind: Option<CrowdKind>,
    /// When most flows of a Laplace or normal crowd arrive, counted from the start of the group.
    pub peak: Option<Duration>,
    /// Scale of a Laplace crowd, which grows by e^(t/b) before the peak.
    pub b: Option<Duration>,
    /// Standard deviation of a normal crowd.
    pub sigma: Option<Duration>,
    /// Shape of an Erlang crowd.
    pub k: Option<u32>,
    /// Rate of an Erlang crowd per second.
    pub lambda: Option<f64>,
    /// Growth of an exponential crowd per `rtt`: 0.04 is 4 %.
    pub growth: Option<f64>,
    /// The round-trip time of `growth`.
    pub rtt: Option<Duration>,
    /// Flows that are there before an exponential crowd.
    pub initial: Option<f64>,
    /// The number of flows after which no more arrive; default 5000 for crowds, otherwise no limit.
    pub flows: Option<u64>,
    /// Payload of each flow; default the `size` of the group. Without one, flows that `times` or `kind`
    /// starts stay.
    pub size_distribution: Option<SizeDistribution>,
}

/// The distribution of flow sizes.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(tag = "kind", deny_unknown_fields, rename_all = "kebab-case")]
pub enum SizeDistribution {
    /// All flows have this size.
    Fixed {
        /// Payload.
        size: Bytes,
    },
    /// Exponential sizes.
    Exponential {
        /// Mean payload.
        mean: Bytes,
    },
    /// Lognormal sizes.
    Lognormal {
        /// Mean payload.
        mean: Bytes,
        /// Standard deviation of the logarithm, at least 0.
        spread: f64,
    },
    /// Pareto sizes.
    Pareto {
        /// Mean payload.
        mean: Bytes,
        /// Shape, above 1; below 2 the variance is infinite.
        shape: f64,
    },
}

impl SizeDistribution {
    /// Mean payload of a flow.
    pub fn mean(&self) -> Bytes {
        match *self {
            SizeDistribution::Fixed { size } => size,
            SizeDistribution::Exponential { mean }
            | SizeDistribution::Lognormal { mean, .. }
            | SizeDistribution::Pareto { mean, .. } => mean,
        }
    }

    /// Draws a size, at least 1 byte.
    pub(crate) fn sample(&self, rng: &mut Pcg64Mcg) -> Bytes {
        let mean = self.mean().get() as f64;
        let drawn = match *self {
            SizeDistribution::Fixed { size } => return size,
            SizeDistribution::Exponential { .. } => mean * exponential(rng),
            SizeDistribution::Lognormal { spread, .. } => Lognormal::with_mean(mean, spread).sample(rng),
            SizeDistribution::Pareto { shape, .. } => Pareto::with_mean(mean, shape).sample(rng),
        };
        Bytes::new((drawn.round() as u64).max(1))
    }
}

impl ArrivalSpec {
    /// The sizes of flows; `size` is that of the group, which applies if the arrivals name no distribution.
    pub fn sizes(&self, size: Option<Bytes>) -> Option<SizeDistribution> {
        self.size_distribution.or(size.map(|size| SizeDistribution::Fixed { size }))
    }

    /// Whether flows need a size: those of lists and crowds may stay to the end.
    pub fn needs_size(&self) -> bool {
        self.times.is_none() && self.kind.is_none()
    }

    /// Mean number of arrivals per second of a Poisson process; `None` for listed times, crowds and sessions.
    pub fn intensity(&self, sizes: SizeDistribution) -> Option<f64> {
        self.per_second.or_else(|| Some(self.rate?.bps_f64() / 8.0 / sizes.mean().get() as f64))
    }

    /// The sessions of group `id` in a run with this seed, if its flows belong to sessions.
    pub fn sessions(&self, sizes: SizeDistribution, seed: u64, id: u64) -> Option<Sessions> {
        let (count, think) = self.sessions.zip(self.think)?;
        let flows = self.flows.unwrap_or(u64::MAX);
        Some(Sessions::new(count, think, sizes, flows, random::generator(seed, "sessions", id)))
    }

    /// The most flows that arrive.
    pub fn count(&self) -> u64 {
        match (&self.times, self.kind) {
            (_, Some(_)) => self.flows.unwrap_or(crowd::FLOWS),
            (Some(times), None) => self.flows.unwrap_or(u64::MAX).min(times.len() as u64),
            (None, None) => self.flows.unwrap_or(u64::MAX),
        }
    }

    /// The times at which the flows of group `id` arrive, in a run with this seed, if they stay to the end.
    pub fn starts(&self, seed: u64, id: u64) -> impl Iterator<Item = Duration> {
        let sizes = SizeDistribution::Fixed { size: Bytes::ZERO };
        self.generator(sizes, seed, id).map(|arrival| arrival.at)
    }

    /// The arrivals of group `id` in a run with this seed.
    pub fn generator(&self, sizes: SizeDistribution, seed: u64, id: u64) -> Arrivals {
        let crowd = self.crowd().ok().flatten();
        let flows = self.count();
        let gaps = match (crowd, &self.times, self.intensity(sizes)) {
            (Some(crowd), ..) => Gaps::Crowd { crowd, flows },
            (None, Some(times), _) => Gaps::Listed(times.clone().into_iter()),
            (None, None, Some(intensity)) => Gaps::Exponential { mean_ns: 1e9 / intensity },
            (None, None, None) => Gaps::Listed(Vec::new().into_iter()),
        };
        Arrivals { gaps, sizes, at_ns: 0.0, left: flows, rng: random::generator(seed, "arrivals", id) }
    }
}

/// The arrivals of a group, in ascending order.
#[derive(Clone, Debug)]
pub struct Arrivals {
    gaps: Gaps,
    sizes: SizeDistribution,
    /// Time of the last arrival of a Poisson process since the start of the group. A double counts
    /// nanoseconds of a hundred days exactly.
    at_ns: f64,
    left: u64,
    rng: Pcg64Mcg,
}

#[derive(Clone, Debug)]
enum Gaps {
    Exponential { mean_ns: f64 },
    Listed(std::vec::IntoIter<Duration>),
    Crowd { crowd: Crowd, flows: u64 },
}

/// One flow of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// When it arrives, counted from the start of the group.
    pub at: Duration,
    /// Its payload.
    pub size: Bytes,
}

impl Iterator for Arrivals {
    type Item = Arrival;

    fn next(&mut self) -> Option<Arrival> {
        self.left = self.left.checked_sub(1)?;
        let at = match &mut self.gaps {
            Gaps::Exponential { mean_ns } => {
                self.at_ns += *mean_ns * exponential(&mut self.rng);
                Duration::from_ns(self.at_ns as i64)
            }
            Gaps::Listed(times) => times.next()?,
            // Those that the distribution places before the group's start begin with it.
            Gaps::Crowd { crowd, flows } => {
                crowd.draw(*flows - 1 - self.left, *flows, &mut self.rng).max(Duration::ZERO)
            }
        };
        Some(Arrival { at, size: self.sizes.sample(&mut self.rng) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MEAN: Bytes = Bytes::new(30_000);

    fn spec(text: &str) -> ArrivalSpec {
        toml::from_str(text).unwrap()
    }

    /// Number and bytes of the flows that arrive within a time.
    fn offered(spec: &ArrivalSpec, seconds: f64) -> (f64, f64) {
        let sizes = spec.sizes(Some(MEAN)).unwrap();
        let end = Duration::from_secs_f64(seconds);
        let flows = spec.generator(sizes, 7, 0).take_while(|flow| flow.at < end);
        flows.fold((0.0, 0.0), |(count, bytes), flow| (count + 1.0, bytes + flow.size.get() as f64))
    }

    #[test]
    fn a_poisson_process_has_its_mean_rate_and_load() {
        let (count, _) = offered(&spec("per-second = 5000.0"), 20.0);
        assert!((count - 100_000.0).abs() < 4.0 * 100_000f64.sqrt(), "{count}");
        for sizes in [
            "{ kind = 'exponential', mean = '30 kB' }",
            "{ kind = 'lognormal', mean = '30 kB', spread = 1.0 }",
            "{ kind = 'pareto', mean = '30 kB', shape = 2.5 }",
            "{ kind = 'fixed', size = '30 kB' }",
        ] {
            let text = format!("rate = '1.2 Gb/s'\nsize-distribution = {sizes}");
            let (count, bytes) = offered(&spec(&text), 20.0);
            assert!((count / 100_000.0 - 1.0).abs() < 0.02, "{sizes}: {count}");
            assert!((bytes * 8.0 / 20.0 / 1.2e9 - 1.0).abs() < 0.03, "{sizes}: {bytes}");
        }
    }

    #[test]
    fn gaps_are_exponential() {
        let spec = spec("per-second = 1000.0\nflows = 50000");
        let sizes = spec.sizes(Some(MEAN)).unwrap();
        let times: Vec<f64> = spec.generator(sizes, 3, 1).map(|flow| flow.at.ns() as f64).collect();
        let gaps: Vec<f64> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        let variance = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / gaps.len() as f64;
        assert!((mean / 1e6 - 1.0).abs() < 0.02, "{mean}");
        // The standard deviation of an exponential variable is its mean.
        assert!((variance.sqrt() / mean - 1.0).abs() < 0.03, "{}", variance.sqrt() / mean);
    }

    #[test]
    fn listed_times_and_a_limit_are_kept() {
        let spec = spec("times = ['0 s', '1 ms', '1 ms', '5 ms']\nflows = 3");
        let sizes = spec.sizes(Some(MEAN)).unwrap();
        let times: Vec<f64> = spec.generator(sizes, 1, 0).map(|flow| flow.at.ms()).collect();
        assert_eq!(times, [0.0, 1.0, 1.0]);
    }

    #[test]
    fn the_seed_and_the_group_decide_everything() {
        let spec = spec("per-second = 10.0\nsize-distribution = { kind = 'exponential', mean = '9 kB' }");
        let sizes = spec.sizes(None).unwrap();
        let draw = |seed, id| spec.generator(sizes, seed, id).take(50).collect::<Vec<_>>();
        assert_eq!(draw(1, 0), draw(1, 0));
        assert_ne!(draw(1, 0), draw(2, 0));
        assert_ne!(draw(1, 0), draw(1, 1));
    }
}
