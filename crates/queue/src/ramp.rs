//! Instantaneous ramp: the marking probability rises with the current queue (ls-aimd 2.18,
//! `RED instantaneous`).

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use serde::{Deserialize, Serialize};

use super::limit::Limit;
use super::{Backlog, Discipline, Packet, Verdict};
use crate::{QueueSpecError, require};
use headway_units::{Bytes, Instant};

/// Parameters of the ramp. Sizes are wire bytes in the queue before the packet.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct RampConfig {
    /// Largest queue at which nothing is marked.
    pub min: Bytes,
    /// Queue from which everything is marked.
    pub max: Bytes,
    /// Marking probability just below `max`, above 0 and at most 1; default 1 (ls-aimd 2.18).
    #[serde(default = "default_probability", deserialize_with = "headway_units::share::deserialize")]
    pub probability: f64,
    /// Limit in wire bytes; unlimited when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<Bytes>,
    /// Limit in packets; unlimited when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub packets: Option<u32>,
}

fn default_probability() -> f64 {
    1.0
}

impl RampConfig {
    /// Checks the parameters.
    pub(super) fn validate(&self) -> Result<(), QueueSpecError> {
        require(self.max > self.min, "max", "must be above `min`")?;
        let probable = self.probability > 0.0 && self.probability <= 1.0;
        require(probable, "probability", "must be above 0 and at most 1")
    }
}

/// Marks each packet independently by the instantaneous queue; packets that are not ECN-capable
/// are dropped instead.
#[derive(Clone, Debug)]
pub struct Ramp {
    limit: Limit,
    min: Bytes,
    max: Bytes,
    /// Probability per byte above `min`.
    slope: f64,
    random: Pcg64Mcg,
}

impl Ramp {
    /// Creates a discipline with these parameters.
    pub(crate) fn new(config: &RampConfig, seed: u64) -> Ramp {
        Ramp {
            limit: Limit::new(config.limit, config.packets),
            min: config.min,
            max: config.max,
            slope: config.probability / (config.max.get() as f64 - config.min.get() as f64),
            random: Pcg64Mcg::seed_from_u64(seed),
        }
    }

    /// Returns whether to mark a packet that finds `queued` bytes.
    fn marks(&mut self, queued: Bytes) -> bool {
        queued >= self.max
            || (queued > self.min && {
                let excess = (queued.get() - self.min.get()) as f64;
                self.random.random::<f64>() < excess * self.slope
            })
    }
}

impl Discipline for Ramp {
    fn on_arrival(&mut self, _now: Instant, backlog: &Backlog, packet: &Packet<'_>) -> Verdict {
        if !self.limit.admits(backlog, packet.size) {
            Verdict::Drop
        } else if self.marks(backlog.bytes) {
            Verdict::congested(packet.ect)
        } else {
            Verdict::Accept
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::backlog;
    use super::*;

    #[test]
    fn marks_follow_the_ramp() {
        let (min, max) = (Bytes::new(12_500), Bytes::new(25_000));
        for probability in [0.1, 1.0] {
            let config = RampConfig { min, max, probability, limit: None, packets: None };
            let mut ramp = Ramp::new(&config, 1);
            let mut fraction = |bytes| {
                let mut arrival =
                    || ramp.on_arrival(Instant::ZERO, &backlog(bytes), &Packet::new(Bytes::new(1500), true));
                let marked = (0..2_000_000).filter(|_| arrival() == Verdict::Mark).count();
                marked as f64 / 2e6
            };
            for (bytes, along) in [(15_000, 0.2), (18_750, 0.5), (23_750, 0.9)] {
                let seen = fraction(bytes) / (along * probability);
                assert!((seen - 1.0).abs() < 0.01, "{bytes}, {probability}: {seen}");
            }
            assert_eq!((fraction(12_500), fraction(25_000)), (0.0, 1.0));
        }
    }
}
