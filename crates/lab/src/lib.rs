//! Emulated paths with a known truth.
//!
//! A lab is three nodes, each in its own network namespace: `client`, `server`, and between them a router whose
//! user-space emulator owns the bottleneck queue. Cross traffic exists only inside that queue, so the available
//! bandwidth is known exactly and logged.
//!
//! ```text
//! client 10.77.0.1 --veth-- [ emulator: rate, buffer, delay, loss, cross traffic ] --veth-- 10.77.0.2 server
//! ```

pub mod coalesce;
pub mod cross;
pub mod daemon;
pub mod delay_trace;
pub mod error;
pub mod lab;
pub mod link;
pub mod meter;
pub mod queue;
pub mod spec;
pub mod state;
pub mod truth;

mod base;
mod clock;
mod control;
mod ecn;
mod emulator;
mod frame_pool;
mod host;
mod interface;
mod lane;
mod life;
mod namespace;
mod netns_processes;
mod port;
mod process;
mod start;
mod writer;

pub use delay_trace::DelayTrace;
pub use emulator::host_processor;
pub use error::Error;
pub use lab::{Lab, Life, Status};
pub use process::{Handle, Process};
pub use spec::{Cross, Direction, LinkSpec, Model, PathSpec, Spec};
pub use state::Node;
pub use truth::{Interval, Lateness, Truth};
