//! The parts of a host between a protocol and the wire.

pub mod gap;
mod line_clock;
pub mod nic;

pub use line_clock::LineClock;
