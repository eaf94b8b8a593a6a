//! Parameters of the studies of passive estimation.

use headway_host::nic::Coalescing;
use headway_units::{Bytes, Duration};
use serde::Deserialize;

use super::amount::Count;

/// Parameters of [`Study::Passive`](super::Study::Passive): TCP flows and cross traffic through a dumbbell.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Passive {
    /// RTTs without queues.
    pub rtts: Vec<Duration>,
    /// Mean cross traffic, as shares of the capacity of 100 Mb/s.
    pub loads: Vec<f64>,
    /// On-off sources that make up the cross traffic.
    pub sources: u32,
    /// TCP flows.
    pub flows: usize,
    /// Payload of each flow.
    pub size: Bytes,
    /// The end of a run, at the latest.
    pub end: Duration,
    /// Runs with different seeds.
    pub runs: Count,
}

/// Parameters of [`Study::AckStamps`](super::Study::AckStamps): ACKs of one flow over 1 Gb/s, stamped in and behind the
/// NIC.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AckStamps {
    /// Coalescing of the NIC.
    pub cards: Vec<Card>,
    /// Milliseconds per run.
    pub milliseconds: Count,
}

/// A NIC.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Card {
    /// The name with which its measures begin.
    pub name: String,
    /// How it coalesces interrupts.
    pub coalescing: Coalescing,
}
