//! Packet captures: a streaming reader of pcap and pcapng files, the headers of their packets, and the TCP connections in
//! them.
//!
//! [`Reader`] yields packets, [`headers::parse`] reads a TCP segment's headers, and a [`Tracker`] follows connections in
//! tables of fixed size and estimates what is free on their paths.

mod clock;
mod connection;
mod copies;
pub mod file;
mod filter;
pub mod headers;
mod layers;
mod link;
pub mod live;
mod lru;
mod path;
pub mod report;
mod tracker;

pub use clock::ClockCounts;
pub use connection::Evidence;
pub use file::{FileError, Next, Packet, ReadError, Reader, Several, Unpacked};
pub use filter::{Filter, FilterError};
pub use headers::{Endpoint, Skipped};
pub use layers::Unread;
pub use link::Link;
pub use live::{Live, LiveError};
pub use path::{Direction, Free, Grouping, PathKey, Peer, RoundTrips, Sums, Volume};
pub use report::{FlowRow, PathRow};
pub use tracker::{Counts, Options, Tracker};
