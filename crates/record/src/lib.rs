//! The results of a run: summary and time series, in the same shape for every world.

mod completion_tally;
mod completions;
mod control;
mod counted;
pub mod csv;
mod histogram;
mod results;
mod series;
mod spread;
mod stream;
mod summary;

pub use completion_tally::{Completed, CompletionTally};
pub use completions::Completions;
pub use control::{ControlInterval, json_lines};
pub use counted::Counted;
pub use histogram::Histogram;
pub use results::Results;
pub use series::{Fractional, Inside, Interval, Series, TcpInterval};
pub use spread::{Spread, spread};
pub use stream::StreamTruth;
pub use summary::{
    ClaimResult, DecisionResult, FlowResult, Group, LinkResult, MeasureResult, MiddleboxResult,
    ProgramResult, SelectResult, SourceResult, Summary, Total, bps,
};
