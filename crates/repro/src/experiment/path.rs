//! The path of an experiment: bottleneck, cross traffic, and what hosts do to gaps.

use headway_host::gap::Mechanism;
use headway_host::nic::Coalescing;
use headway_sim::testbed::{Testbed, TestbedConfig};
use headway_traffic::Traffic;
use headway_units::{Bytes, Duration, Rate};
use serde::{Deserialize, Serialize};

/// Jitter of receive interrupts, as a fraction of the interval between them (rapid 2.15).
const JITTER: f64 = 0.2;

/// The path of the streams.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Path {
    /// Rate of the bottleneck and of the sender's link.
    pub capacity: Rate,
    /// Buffer of the bottleneck; the thesis only calls it shallow.
    pub buffer: Bytes,
    /// Wire size of a probe packet.
    pub packet: Bytes,
    /// Kind of cross traffic.
    pub cross: Cross,
    /// The sender's gap mechanism.
    pub gaps: GapMechanism,
    /// Minimum time between receive interrupts, before jitter; zero means one interrupt per
    /// packet (rapid 2.15).
    pub coalescing: Duration,
    /// Idle time between streams.
    pub silence: Duration,
}

impl Default for Path {
    fn default() -> Path {
        Path {
            capacity: Rate::from_bps(10_000_000_000),
            buffer: Bytes::new(1_000_000),
            packet: Bytes::new(9038),
            cross: Cross::Bct,
            gaps: GapMechanism::Dummy,
            coalescing: Duration::from_us(120),
            silence: Duration::from_ms(10),
        }
    }
}

/// Kinds of cross traffic (rapid 4.0).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Cross {
    /// No cross traffic.
    None,
    /// Replayed bursty web traffic, 2.51 Gb/s on average.
    Bct,
    /// The same traffic smoothed by token buckets, 2.49 Gb/s on average.
    Sct,
    /// Nine constant-rate senders, 2.47 Gb/s on average.
    Cbr,
    /// 1538 B packets with exponential gaps, 2.47 Gb/s on average.
    Poisson,
    /// One sender of evenly spaced 1538 B packets, 3 Gb/s.
    Paced,
}

/// Gap mechanisms of senders (rapid 2.4).
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize, strum::IntoStaticStr,
)]
#[strum(serialize_all = "kebab-case")]
#[serde(rename_all = "kebab-case")]
pub enum GapMechanism {
    /// Fills the gaps with frames that the next switch drops.
    Dummy,
    /// One kernel timer per packet.
    Hrtimer,
    /// Busy-waits on the clock.
    BusyWait,
}

impl GapMechanism {
    /// Returns the name in tables and keys.
    pub fn name(self) -> &'static str {
        self.into()
    }

    /// Returns the mechanism or the model of it.
    pub(crate) fn mechanism(self) -> Mechanism {
        match self {
            GapMechanism::Dummy => Mechanism::ByteClock,
            GapMechanism::Hrtimer => Mechanism::Timer,
            GapMechanism::BusyWait => Mechanism::BusyWait,
        }
    }
}

impl Path {
    /// Creates the testbed with this path's cross traffic, or with `cross` instead.
    pub(crate) fn testbed(&self, cross: Option<Cross>, seed: u64) -> Testbed {
        let config = TestbedConfig {
            capacity: self.capacity,
            buffer: self.buffer,
            cross: cross.unwrap_or(self.cross).traffic(),
            mechanism: self.gaps.mechanism(),
            coalescing: self.nic(),
        };
        Testbed::new(&config, seed)
    }

    /// Returns the interrupt coalescing of the receiver's NIC; `None` without coalescing.
    pub(crate) fn nic(&self) -> Option<Coalescing> {
        let nic = Coalescing::Fixed { interval: self.coalescing, jitter: JITTER, frames: None };
        (self.coalescing > Duration::ZERO).then_some(nic)
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
