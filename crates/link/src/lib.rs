//! What a link is made of, once for the simulator and for the emulator: the server that says when a
//! packet has been sent, the packets that wait for it, and the losses behind it; and in [`wifi`] a
//! channel that links share.
//!
//! Disciplines are those of `headway_queue`, and NICs those of `headway_host`. The simulator's link
//! (`headway_sim::Link`) and the emulator's (`headway_lab::link::Link`) differ in what they keep of a packet
//! and in when they are asked. `tests/reference` is a link as simple as possible, against which the tests of
//! both crates hold them.

mod constant;
mod losses;
mod ring;
mod server;
mod steps;
mod trace;
mod waiting;
pub mod wifi;

pub use constant::{Constant, Served, Spacing};
pub use losses::RandomLosses;
pub use ring::Ring;
pub use server::{Server, Service};
pub use steps::SteppedServer;
pub use trace::Trace;
pub use waiting::{Waiting, Waits};
