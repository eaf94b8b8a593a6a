//! The testbed for the path of an experiment.

use headway_host::gap::Mechanism;
use headway_host::nic::Coalescing;
use headway_sim::testbed::{Testbed, TestbedConfig};
use headway_traffic::Traffic;
use headway_units::{Bytes, Duration, Rate};

use crate::experiment::{Cross, GapMechanism, Path};

/// Jitter of receive interrupts, as a fraction of the interval between them (rapid 2.15).
const JITTER: f64 = 0.2;

impl Path {
    /// Creates the testbed with this path's cross traffic, or with `cross` instead.
    pub(crate) fn testbed(&self, cross: Option<Cross>, seed: u64) -> Testbed {
        let config = TestbedConfig {
            capacity: self.capacity,
            buffer: self.buffer,
            cross: cross.unwrap_or(self.cross).traffic(),
            mechanism: self.gaps.mechanism(),
            coalescing: self.card(),
        };
        Testbed::new(&config, seed)
    }

    /// Returns the interrupt coalescing of the receiver's NIC; `None` without coalescing.
    pub(crate) fn card(&self) -> Option<Coalescing> {
        let card = Coalescing::Fixed { interval: self.coalescing, jitter: JITTER, frames: None };
        (self.coalescing > Duration::ZERO).then_some(card)
    }
}

impl GapMechanism {
    /// Returns the mechanism or the model of it.
    pub(crate) fn mechanism(self) -> Mechanism {
        match self {
            GapMechanism::Dummy => Mechanism::ByteClock,
            GapMechanism::Hrtimer => Mechanism::Timer,
            GapMechanism::BusyWait => Mechanism::BusyWait,
        }
    }
}

impl Cross {
    /// Returns the sources of this traffic.
    fn traffic(self) -> Vec<Traffic> {
        match self {
            Cross::None => Vec::new(),
            Cross::Bct => vec![Traffic::Bct { scale: 1.0 }],
            Cross::Sct => vec![Traffic::Sct { scale: 1.0 }],
            Cross::Cbr => vec![Traffic::CbrProfile { scale: 1.0 }],
            Cross::Poisson => vec![Traffic::Poisson { rate: gbps(2.47), size: Bytes::new(1538) }],
            Cross::Paced => vec![Traffic::Cbr { rate: gbps(3.0), size: Bytes::new(1538) }],
        }
    }
}

/// Converts a rate in Gb/s, as in experiment files.
pub(crate) fn gbps(rate: f64) -> Rate {
    Rate::from_mbps(rate * 1e3)
}
