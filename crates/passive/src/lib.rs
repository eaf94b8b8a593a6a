//! What captured packets say of paths: their headers, the TCP connections in them, and
//! what is free on the way.
//!
//! [`headers::parse`] reads a TCP segment's headers, and a [`Tracker`] follows connections in tables of fixed
//! size and estimates what is free on their paths.
//!
//! # Decisions
//!
//! - **Traffic shows what is free only while it presses the path.** A capacity is a rate at which many trains
//!   of packets agree while there is a queue; the maximum over estimates, as published, rises with the length
//!   of a transfer.
//! - **Whether there is a queue is judged by the segment that an ACK does not acknowledge yet,** because a
//!   delayed ACK acknowledges everything that has arrived.
//! - **Which side of the tap the queue is on follows from where segments wait,** not from which end is near.

mod conclude;
mod connection;
mod copies;
mod filter;
pub mod headers;
mod lru;
mod order;
mod path;
pub mod report;
mod tracker;

pub use conclude::Unknown;
pub use connection::Evidence;
pub use filter::{Filter, FilterError};
pub use headers::{Endpoint, Skipped};
pub use path::{Direction, Free, Grouping, PathKey, Peer, RoundTrips, Sums, Volume};
pub use report::{FlowRow, Known, PathRow};
pub use tracker::{Counts, Options, Tracker};
