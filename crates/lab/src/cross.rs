//! Cross traffic: packets of other senders that share the queue.

use headway_core::{Bytes, Duration, Instant};
use headway_traffic::{Emission, Generator, PARETO_SHAPE, PARETO_SOURCES, Traffic};

use crate::queue::wire_size;
use crate::spec::{Cross, Model};

/// One source of cross packets in order of arrival, produced by the same generators as in the simulator.
#[derive(Clone, Debug)]
pub struct Source {
    generator: Generator,
    /// The origin of the generator's times.
    origin: Instant,
    /// The arrival time of the next packet; [`NEVER`] if there is none.
    next: Instant,
    /// Its size on the wire.
    size: Bytes,
    stop: Instant,
}

const NEVER: Instant = Instant::from_ns(u64::MAX);

impl Source {
    /// Creates the packets of `cross`, whose times count from `origin`; the same seed gives the same packets.
    pub fn new(cross: &Cross, origin: Instant, seed: u64) -> Source {
        let (rate, size) = (cross.rate, wire_size(cross.size.get()));
        let traffic = match cross.model {
            Model::Cbr => Traffic::Cbr { rate, size },
            Model::Poisson => Traffic::Poisson { rate, size },
            Model::Bursty => Traffic::Batches { rate, size, batch: cross.batch_mean() },
            Model::Pareto => Traffic::Pareto {
                sources: cross.sources.unwrap_or(PARETO_SOURCES),
                rate,
                shape: cross.shape.unwrap_or(PARETO_SHAPE),
                size,
                least_size: cross.least_size.map(|least| wire_size(least.get())),
                silence: cross.silence.unwrap_or(Duration::ZERO),
                period: cross.period.unwrap_or(Duration::ZERO),
            },
        };
        let mut source = Source {
            generator: traffic.generator(seed, 0),
            origin: origin + cross.start,
            size,
            next: NEVER,
            stop: cross.stop.map_or(NEVER, |stop| origin + stop),
        };
        source.step();
        source
    }

    /// Returns the arrival time of the next packet, or a time in the far future if there is none.
    pub fn next(&self) -> Instant {
        self.next
    }

    /// Returns the size on the wire of the next packet.
    pub fn size(&self) -> Bytes {
        self.size
    }

    /// Advances by one packet.
    pub fn step(&mut self) {
        self.next = NEVER;
        let Some(Emission { at, size }) = self.generator.next() else { return };
        let next = self.origin + at;
        if next < self.stop {
            (self.next, self.size) = (next, size);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::Direction;
    use headway_core::{Duration, Rate};

    fn cross(model: Model, mbps: f64) -> Cross {
        Cross::new(Direction::Forward, model, Rate::from_mbps(mbps))
    }

    fn times(cross: &Cross, seed: u64, until: Instant) -> Vec<u64> {
        let mut source = Source::new(cross, Instant::from_ns(1_000), seed);
        let mut times = Vec::new();
        while source.next() < until {
            times.push(source.next().ns());
            source.step();
        }
        times
    }

    const MINUTE: Instant = Instant::from_ns(60_000_000_000);

    #[test]
    fn cbr_has_the_exact_rate_and_equal_gaps() {
        let times = times(&cross(Model::Cbr, 37.0), 3, MINUTE);
        let exact = 37e6 * 60.0 / (1538.0 * 8.0);
        assert!((times.len() as f64 - exact).abs() <= 1.0, "{} {exact}", times.len());
        let gaps: Vec<u64> = times.windows(2).map(|w| w[1] - w[0]).collect();
        assert!(gaps.iter().max().unwrap() - gaps.iter().min().unwrap() <= 1);
    }

    #[test]
    fn random_sources_have_the_right_mean_rate() {
        for (model, dispersion) in [(Model::Poisson, 1.0), (Model::Bursty, 2.0 * 12.4 - 1.0)] {
            let count = times(&cross(model, 100.0), 5, MINUTE).len() as f64;
            let exact: f64 = 100e6 * 60.0 / (1538.0 * 8.0);
            let sigma = (exact * dispersion).sqrt();
            assert!((count - exact).abs() < 4.0 * sigma, "{model:?}: {count} {exact} {sigma}");
        }
    }

    #[test]
    fn batches_have_the_right_mean_and_variance() {
        // Compound Poisson with geometric batches: the variance of a count over its mean is 2m - 1.
        for (model, m) in [(Model::Poisson, 1.0), (Model::Bursty, 12.4)] {
            let end = Instant::from_ns(400_000_000_000);
            let times = times(&cross(model, 100.0), 11, end);
            let batches = 1 + times.windows(2).filter(|w| w[1] > w[0]).count();
            let mean = times.len() as f64 / batches as f64;
            assert!((mean / m - 1.0).abs() < 0.02, "{model:?}: mean {mean}");
            let window = 100_000_000;
            let mut counts = vec![0.0f64; (end.ns() / window) as usize];
            for t in &times {
                counts[(t / window) as usize] += 1.0;
            }
            let mean = counts.iter().sum::<f64>() / counts.len() as f64;
            let variance = counts.iter().map(|c| (c - mean).powi(2)).sum::<f64>() / (counts.len() - 1) as f64;
            let factor = variance / mean / (2.0 * m - 1.0);
            // 4000 windows: the relative standard error of a variance is sqrt(2 / 4000) = 2.2 %.
            assert!((factor - 1.0).abs() < 0.1, "{model:?}: {factor}");
        }
    }

    #[test]
    fn pareto_sources_mix_sizes_and_fall_silent_at_the_mean_rate() {
        let [ms, least] = [1_000_000, 40];
        let spec = Cross {
            least_size: Some(Bytes::new(least)),
            silence: Some(Duration::from_ms(20)),
            period: Some(Duration::from_ms(100)),
            ..cross(Model::Pareto, 100.0)
        };
        let mut source = Source::new(&spec, Instant::ZERO, 3);
        let (mut bytes, mut sizes) = (0, Vec::new());
        while source.next() < MINUTE {
            assert!(source.next().ns() % (100 * ms) >= 20 * ms);
            bytes += source.size().get();
            sizes.push(source.size());
            source.step();
        }
        let range = (sizes.iter().min().copied(), sizes.iter().max().copied());
        assert_eq!(range, (Some(wire_size(least)), Some(wire_size(1500))));
        let mbps = bytes as f64 * 8e-6 / 60.0;
        assert!((mbps / 100.0 - 1.0).abs() < 0.03, "{mbps}");
    }

    #[test]
    fn the_seed_decides_everything() {
        let end = Instant::from_ns(1_000_000_000);
        for model in [Model::Cbr, Model::Poisson, Model::Bursty, Model::Pareto] {
            let spec = cross(model, 100.0);
            assert_eq!(times(&spec, 7, end), times(&spec, 7, end));
            assert_ne!(times(&spec, 7, end), times(&spec, 8, end));
        }
    }

    #[test]
    fn start_and_stop_bound_the_packets() {
        let mut spec = cross(Model::Poisson, 100.0);
        spec.start = Duration::from_ms(100);
        spec.stop = Some(Duration::from_ms(200));
        let times = times(&spec, 7, MINUTE);
        assert!(times.iter().all(|t| (100_001_000..200_001_000).contains(t)));
        assert!((600..1000).contains(&times.len()), "{}", times.len());
    }
}
