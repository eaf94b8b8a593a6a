//! Completion times of flows that come and go.

use serde::{Deserialize, Serialize};

/// Completion times of the flows of a group: from the arrival of a flow to the
/// acknowledgement of its last byte.
///
/// Quantiles are accurate to 1.6 %.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Completions {
    /// Flows whose completion was measured.
    pub flows: u64,
    /// Mean.
    pub mean_ns: u64,
    /// Median.
    pub p50_ns: u64,
    /// 95th percentile.
    pub p95_ns: u64,
    /// 99th percentile.
    pub p99_ns: u64,
    /// Maximum.
    pub max_ns: u64,
    /// Most flows alive at the same time.
    pub most_alive: u64,
}
