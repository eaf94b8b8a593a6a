//! Emulated networks with a known truth.
//!
//! A lab is a graph of nodes, each in its own network namespace. All links lead through one more namespace, where a
//! user-space emulator owns their queues. Cross traffic exists only inside these queues, so the available bandwidth of
//! every link is known exactly and logged. The simplest lab has two nodes and one link:
//!
//! ```text
//! client 10.77.0.1 --veth-- [ emulator: rate, buffer, delay, loss, cross traffic ] --veth-- 10.77.0.2 server
//! ```
//!
//! [`Router`] puts the emulator between two interfaces that exist already.
//!
//! Nodes with several links are routers: their kernels forward packets, count down hop limits and answer those that
//! expire.

pub mod congestion_header;
pub mod cross;
pub mod daemon;
pub mod error;
pub mod graph;
pub mod header_counts;
pub mod lab;
pub mod link;
pub mod meter;
pub mod queue;
pub mod router;
pub mod spec;
pub mod state;
pub mod truth;
pub mod truths;

mod base;
mod claim;
mod clock;
mod control;
mod ecn;
mod emulator;
mod existing;
mod frame_pool;
mod host;
mod interface;
mod lane;
mod layout;
mod life;
mod log_file;
mod namespace;
mod netns_processes;
mod packet;
mod port;
mod ports;
mod process;
#[cfg(test)]
mod reference_tests;
mod start;
mod sum;
#[cfg(test)]
mod testing;
mod wire;
mod writer;

pub use base::is_name;
pub use emulator::host_processor;
pub use error::Error;
pub use graph::Edge;
pub use header_counts::HeaderCounts;
pub use headway_host::nic::Coalescing;
pub use lab::{Lab, Life, LinkStatus, RouterStatus, Status};
pub use process::{Handle, Process};
pub use router::Router;
pub use spec::{Cross, Direction, LinkSpec, PathSpec, Spec};
pub use state::{Interface, Node};
pub use truth::{Interval, Lateness, Truth};
pub use truths::Truths;
