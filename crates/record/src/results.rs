//! All results of a run.

use crate::histogram::Histogram;
use crate::series::Series;
use crate::stream::StreamTruth;
use crate::summary::{FlowResult, Summary};

/// All that a run found out.
#[derive(Clone, Debug, PartialEq)]
pub struct Results {
    /// The summary of the time after warm-up.
    pub summary: Summary,
    /// Every TCP flow, in the order of the scenario.
    pub flows: Vec<FlowResult>,
    /// Values over time, from the start of the run.
    pub series: Series,
    /// Probe streams with the number of their `[[measure]]`, and what was free during each.
    pub streams: Vec<(u64, StreamTruth)>,
    /// Queueing delays at every link since warm-up, in the order of the summary; empty in worlds that do not tell.
    pub delays: Vec<Histogram>,
}
