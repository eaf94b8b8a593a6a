//! A network in virtual time, packet by packet.
//!
//! A simulation is a pure function of its configuration and seed: no clock, no thread, no global state, integer
//! nanoseconds, and only arithmetic that gives the same bits on every machine.

pub mod config;
mod histogram;
pub mod host;
mod link;
pub mod measurement;
mod network;
mod packet;
mod probe;
pub mod random;
pub mod record;
mod ring;
pub mod scenario;
#[doc(hidden)]
pub mod schedule;
mod service;
mod shadow;
mod source;
mod statistics;
pub mod testbed;
pub mod traffic;
mod transport;

pub use config::{CardId, FlowId, LinkConfig, LinkId, ProberId, SourceConfig, SourceId, TcpConfig};
pub use histogram::Histogram;
pub use link::{Count, Link, LinkStatistics};
pub use network::Network;
pub use probe::ProbeLog;
pub use statistics::{FlowStatistics, SourceStatistics};
