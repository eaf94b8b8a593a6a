//! A packet-level network simulator in virtual time.
//!
//! A simulation is a pure function of its configuration and seed: it uses no clock, no threads, no global state,
//! integer nanoseconds, and only arithmetic that gives the same bits on every machine.

mod arrivals;
mod build;
pub mod config;
mod link;
pub mod measurement;
mod network;
mod packet;
mod probe;
mod progress;
mod run;
#[doc(hidden)]
pub mod schedule;
mod shadow;
mod source;
mod statistics;
pub mod sweep;
pub mod tap;
pub mod testbed;
pub mod trains;
mod transport;

pub use arrivals::ArrivingGroup;
pub use build::{Built, BuiltChange, BuiltFlow, What, memory};
pub use config::{
    CardId, FlowId, GroupId, LinkConfig, LinkId, ProberId, QueueChange, SourceConfig, SourceId, TapId,
    TapPlace, TcpConfig,
};
pub use link::{Count, Link, LinkStatistics};
pub use network::{Completion, Network, TapEvent, TapRecord};
pub use probe::ProbeLog;
pub use run::Run;
pub use statistics::{FlowStatistics, SourceStatistics};
