//! Groups of flows that differ, at one explicit router: what runs.

use std::collections::BTreeMap;

use headway_control::Kind;
use headway_units::{Duration, Rate};
use serde::Deserialize;

use super::amount::Count;

/// Parameters of [`Study::Groups`](super::Study::Groups).
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Groups {
    /// Rate of the shared link. Its buffer holds it for as long as the longest RTT without queue.
    pub rate: Rate,
    /// What runs, by the name with which its measures begin.
    pub variants: BTreeMap<String, Mix>,
    /// Runs of each variant, with different seeds; the median is reported.
    pub runs: Count,
    /// Time before the measured time; flows start one after the other during half of it.
    pub warmup: Count,
    /// Measured time.
    pub milliseconds: Count,
}

/// A queue and its flows.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Mix {
    /// The queue of the shared link, as a table of a scenario file; drop-tail if absent.
    pub queue: Option<String>,
    /// The groups, by name.
    pub flows: BTreeMap<String, Members>,
}

/// Flows that do not differ.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Members {
    /// The controller.
    pub controller: Kind,
    /// How many.
    pub count: u64,
    /// RTT without queue.
    pub rtt: Duration,
    /// End, after the beginning of the measured time; absent if they stay.
    pub stop: Option<Duration>,
}
