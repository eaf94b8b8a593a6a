//! Scenarios: a network, its flows and its traffic, as read from TOML; one file for all worlds.

mod build;
mod change;
mod check;
mod check_traffic;
mod error;
mod model;
mod route;
mod trace;

pub(crate) use build::SERIES_FLOWS;
pub use build::{Built, Line};
pub use change::Change;
pub use error::Error;
pub use model::{Buffer, EcnMode, FlowSpec, HostSpec, LinkSpec, MeasureSpec, Police, Scenario, TrafficSpec};
pub use route::{Direction, Topology};
pub use trace::Trace;

#[cfg(test)]
mod tests;
