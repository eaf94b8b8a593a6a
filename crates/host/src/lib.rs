//! The parts of a host between a protocol and the wire.

pub mod gap;
pub mod nic;
