//! Live probing: sockets, timestamps, pacing and the probe protocol.
//!
//! A [`client::Session`] sends requests to a [`server::Server`]. The two negotiate over a control connection (TCP)
//! and exchange probe streams (UDP, or ICMP Echo Replies to the server) in either direction; each stream yields a
//! [`headway_estimate::StreamRecord`]. Their messages are defined in [`protocol`], which does no I/O.

pub mod asking;
mod auth;
mod batch;
mod channel;
pub mod client;
mod clock;
mod counters;
mod echo_filter;
mod envelope;
mod error;
pub mod frames;
mod host;
mod limits;
pub mod pacing;
pub mod protocol;
mod receive;
mod send_batch;
pub mod server;
mod size_test;
mod socket;
mod stamp;
mod tls;
mod trains;
mod transmit;
mod transport;

pub use auth::Token;
pub use client::{ConnectOptions, FamilyChoice, Gaps, Session, Sockets, StreamOutcome, TrainOutcome, Via};
pub use counters::Counts;
pub use error::NetError;
pub use host::Host;
pub use limits::{LONGEST_REVERSE_STREAM, Limits};
pub use protocol::{Carrier, DEFAULT_PORT, StampSource};
pub use server::{Server, ServerConfig, ServerHandle};
pub use tls::{TlsClient, TlsServer, TlsSetupError};
pub use trains::HopReply;
