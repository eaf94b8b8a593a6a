//! Parameters of studies of token-bucket shapers.

use headway_units::{Bytes, Duration, Rate};
use serde::Deserialize;

use super::amount::Count;

/// Parameters of [`super::Study::Shapers`]: one flow passes a shaper and then a bottleneck.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Shapers {
    /// Rates of the shaper, counting wire bytes.
    pub rates: Vec<Rate>,
    /// Sizes of its bucket, in wire bytes.
    pub buckets: Vec<Bytes>,
    /// Whether the flow also runs without a shaper.
    #[serde(default)]
    pub unshaped: bool,
    /// Rate of the sender's NIC, which is that of its bursts.
    pub line: Rate,
    /// Rate of the bottleneck behind the shaper.
    pub bottleneck: Rate,
    /// RTT without queueing.
    pub rtt: Duration,
    /// Longest wait in the queue of the shaper and in that of the bottleneck.
    pub latency: Duration,
    /// Time before the measured time.
    pub warmup: Count,
    /// Measured time, in ms.
    pub milliseconds: Count,
    /// The same on the Linux stack.
    pub kernel_milliseconds: Option<Count>,
}
