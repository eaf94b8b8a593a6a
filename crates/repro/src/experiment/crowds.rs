//! Parameters of studies of crowds behind a router with RCP.

use std::collections::BTreeMap;

use headway_traffic::ArrivalSpec;
use headway_units::Bytes;
use serde::Deserialize;

use super::amount::Count;

/// Parameters of [`super::Study::Compensation`]: queues and limits by formula.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Compensation {
    /// Weights of the queue in the control law.
    pub betas: Vec<f64>,
    /// Growths of the number of flows per d0.
    pub growths: Vec<f64>,
}

/// Parameters of [`super::Study::Crowds`]: paced RCP flows with small packets at 100 Mb/s and an RTT of 100 ms.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Crowds {
    /// IP size of packets.
    pub packet: Bytes,
    /// The crowds, by name.
    pub crowds: BTreeMap<String, Crowd>,
    /// Time in ms before time zero. Flows of a crowd that its distribution places earlier arrive at once.
    pub warmup: Count,
    /// Runs per crowd, with different seeds; the median is reported.
    pub runs: Count,
}

/// One crowd and its router.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Crowd {
    /// When its flows arrive; time zero is the end of the warm-up, and flows with times below zero arrive before.
    pub arrivals: ArrivalSpec,
    /// Flows that are there before, and whose start-up queue has drained.
    pub seeds: u64,
    /// Weight of the spare capacity in the control law.
    #[serde(default = "alpha")]
    pub alpha: f64,
    /// Weight of the queue.
    #[serde(default = "beta")]
    pub beta: f64,
    /// Whether the router raises beta while the number of flows grows fast.
    #[serde(default)]
    pub raise_beta: bool,
    /// Whether it grants new flows the smallest rate meanwhile.
    #[serde(default)]
    pub admission: bool,
    /// Time that the crowd is followed, in ms.
    pub milliseconds: Count,
}

/// The published weights (xcp-rcp 1.7).
fn alpha() -> f64 {
    0.4
}

fn beta() -> f64 {
    0.226
}
