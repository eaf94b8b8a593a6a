//! Live probing: sockets, stamps, pacing and the probe protocol.
//!
//! What client and server say to each other is in [`protocol`], which does no I/O.

pub mod protocol;
