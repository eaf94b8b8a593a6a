//! Results of a run: summary and time series, in the same shape for every world.

mod csv;
mod progress;
mod recorder;
mod series;
mod spread;
mod summary;

use crate::measurement::StreamTruth;

pub use csv::quoted;
pub use recorder::Run;
pub use series::{Interval, Series, TcpInterval};
pub use spread::{Spread, spread};
pub use summary::{
    ClaimResult, FlowResult, Group, LinkResult, MeasureResult, ProgramResult, SourceResult, Summary, Total,
};

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
}
