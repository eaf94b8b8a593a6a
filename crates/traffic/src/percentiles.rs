//! Burstiness of traffic: the distribution of its rate over 1 ms samples (rapid 4.0, Table 3.1).

use std::fmt;

use headway_units::{Duration, Rate};

use crate::Traffic;

/// Length of a sample (rapid 4.0).
const SAMPLE: Duration = Duration::from_ms(1);

/// The distribution of the rates of 1 ms samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Percentiles {
    /// Mean rate.
    pub mean: Rate,
    /// Rate that 5 % of the samples do not exceed.
    pub p5: Rate,
    /// Median rate.
    pub p50: Rate,
    /// Rate that 95 % of the samples do not exceed.
    pub p95: Rate,
}

impl Percentiles {
    /// Measures source `id` of a run with this seed over `time`, at least one millisecond.
    pub fn measure(traffic: &Traffic, seed: u64, id: u64, time: Duration) -> Percentiles {
        let samples = usize::try_from(time.ns() / SAMPLE.ns()).unwrap_or(0).max(1);
        let mut bytes = vec![0u64; samples];
        let mut source = traffic.generator(seed, id);
        while let Some(emission) = source.next() {
            let Some(sample) = bytes.get_mut((emission.at.ns() / SAMPLE.ns()) as usize) else { break };
            *sample += emission.size.get();
        }
        bytes.sort_unstable();
        // Converts the bytes of a sample to bits per second.
        let rate = |bytes: u64| Rate::from_bps(bytes * 8_000_000_000 / SAMPLE.ns() as u64);
        let quantile = |percent: usize| rate(bytes[(samples - 1) * percent / 100]);
        let mean = Rate::from_bps_f64(
            bytes.iter().map(|bytes| rate(*bytes).bps_f64()).sum::<f64>() / samples as f64,
        );
        Percentiles { mean, p5: quantile(5), p50: quantile(50), p95: quantile(95) }
    }

    /// The width of the distribution, called burstiness in Table 3.1: the 95 % quantile
    /// minus the 5 % quantile.
    pub fn burstiness(&self) -> Rate {
        self.p95.saturating_sub(self.p5)
    }
}

impl fmt::Display for Percentiles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Percentiles { mean, p5, p50, p95 } = self;
        let width = self.burstiness();
        write!(f, "mean {mean}, 5 % {p5}, median {p50}, 95 % {p95}, burstiness {width} (1 ms samples)")
    }
}
