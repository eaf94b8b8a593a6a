//! Split TCP: a relay between clients and a target, whose connections end at the relay. The target is one
//! host, or, where somebody redirects packets to the relay, whatever each client wanted to reach.
//!
//! Each connection of a client gets one to the target. What arrives at one leaves at the other, through a
//! buffer of fixed size: while that is full, the relay does not read, so the window that it announces closes
//! and the sender waits (wan 1.4). The end of what one sends is passed on to the other, which may go on
//! sending. A connection that breaks breaks the other.
//!
//! One thread serves all connections, told by `epoll` about changes only.
//!
//! # Decisions
//!
//! - **What a stranger may hold is a number of places,** and a connection that is not read costs its buffers
//!   and no time. A connection without a byte in its first minute gives
//!   its place up.

mod leg;
mod loops;
mod pair;
mod relay;
mod ring;

pub use leg::Leg;
pub use loops::{Loop, leads_back};
pub use relay::{Counts, Ended, Error, Options, Reason, Relay, Target};
