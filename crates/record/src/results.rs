//! The complete results of a run.

use crate::control::ControlInterval;
use crate::histogram::Histogram;
use crate::series::Series;
use crate::stream::StreamTruth;
use crate::summary::{FlowResult, Summary};

/// The complete results of a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Results {
    /// Summary of the time after warm-up.
    pub summary: Summary,
    /// All TCP flows, in scenario order.
    pub flows: Vec<FlowResult>,
    /// Time series, from the start of the run.
    pub series: Series,
    /// Probe streams, each with the index of its `[[measure]]` and the ground truth during the stream.
    pub streams: Vec<(u64, StreamTruth)>,
    /// Queueing delays of every link after warm-up, in the order of the summary; empty in worlds that do not
    /// report them.
    pub delays: Vec<Histogram>,
    /// Names and completion times, after warm-up, of the groups whose flows come and go.
    pub completion_times: Vec<(String, Histogram)>,
    /// Control intervals of explicit routers, router by router and in order of time.
    pub control: Vec<ControlInterval>,
}
