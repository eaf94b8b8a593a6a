//! What a host adds between a protocol and the wire.

pub mod gap;
pub mod nic;
