//! TCP flows over the 10 Gb/s bottleneck of the thesis on Rapid, with cross traffic (rapid 4.0).

mod published;
mod scenario;
mod statistics;
mod tracking;

use headway_scenario::FlowController;
use headway_units::{Bytes, Duration, Rate};
use serde::{Deserialize, Serialize};

pub(crate) use published::Published;
pub(crate) use statistics::{Statistics, statistics};
pub(crate) use tracking::add_tracking;

/// Rate of the bottleneck, and of the hosts' NICs.
pub(crate) const CAPACITY: Rate = Rate::from_bps(10_000_000_000);
/// IP bytes of the test flow's packets.
pub(crate) const MTU: u32 = 9000;
/// Index of the bottleneck among the links of the scenario.
pub(crate) const BOTTLENECK: usize = 0;

/// Returns the segments per ACK. Senders with a congestion header are acknowledged at once: they send
/// segments one by one, and the RTTs that routers hear of would include the delay of ACKs.
pub(crate) const fn segments_per_ack(is_explicit: bool) -> u32 {
    if is_explicit { 1 } else { 2 }
}

/// The traffic that shares the bottleneck with the test flow.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize, strum::IntoStaticStr,
)]
#[strum(serialize_all = "kebab-case")]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Cross {
    /// None.
    Idle,
    /// Nine constant-rate senders, 2.47 Gb/s on average.
    Cbr,
    /// Smooth replayed web traffic, 2.49 Gb/s on average.
    Sct,
    /// Bursty replayed web traffic, 2.51 Gb/s on average.
    Bct,
    /// Web traffic that responds to losses and delays: 90 000 sessions, 2.4 Gb/s on average.
    Web,
}

impl Cross {
    /// Returns the name in experiment files and in the names of measures.
    pub(crate) fn name(self) -> &'static str {
        self.into()
    }

    /// Returns the traffic model of a scenario; `None` for none and for web traffic, which
    /// is made of TCP flows.
    const fn model(self) -> Option<&'static str> {
        match self {
            Cross::Idle | Cross::Web => None,
            Cross::Cbr => Some("cbr-profile"),
            Cross::Sct => Some("sct"),
            Cross::Bct => Some("bct"),
        }
    }
}

/// A test flow.
#[derive(Clone, Debug)]
pub(crate) struct Flow<'a> {
    pub(crate) controller: &'a FlowController,
    /// Further keys of the flow, as lines of a scenario file.
    pub(crate) keys: &'a str,
    pub(crate) start: Duration,
    /// End; `None` for that of the run.
    pub(crate) stop: Option<Duration>,
}

/// The network and the flows of one run.
#[derive(Clone, Debug)]
pub(crate) struct Setup<'a> {
    /// The test flows, each with hosts of its own.
    pub(crate) flows: Vec<Flow<'a>>,
    pub(crate) cross: Cross,
    /// RTT without queueing.
    pub(crate) rtt: Duration,
    /// Ratio of independent losses behind the bottleneck.
    pub(crate) loss: f64,
    /// Buffer of the bottleneck.
    pub(crate) buffer: Bytes,
    /// Time before the measured time.
    pub(crate) warmup: Duration,
    /// Measured time.
    pub(crate) measured: Duration,
    /// Interval of the time series.
    pub(crate) interval: Duration,
}
