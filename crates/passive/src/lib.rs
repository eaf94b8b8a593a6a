//! What captured packets say of paths: their headers, the TCP connections in them, and what is free on the way.
//!
//! [`headers::parse`] reads a TCP segment's headers, and a [`Tracker`] follows connections in tables of fixed size and
//! estimates what is free on their paths.

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
pub use report::{FlowRow, PathRow};
pub use tracker::{Counts, Options, Tracker};
