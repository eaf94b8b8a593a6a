//! Live probing: sockets, stamps, pacing and the probe protocol.
//!
//! A [`client::Session`] asks, a [`server::Server`] answers. The two agree over a control connection (TCP) and
//! exchange probe streams (UDP) in either direction; what comes out is a [`headway_core::StreamRecord`] per stream.
//! What is said between them is in [`protocol`], which does no I/O.

mod auth;
mod batch;
mod channel;
pub mod client;
mod clock;
mod counters;
mod error;
mod limits;
mod pacing;
pub mod protocol;
mod receive;
pub mod server;
mod size_test;
mod socket;
mod stamp;
mod tls;
mod transmit;
mod transport;

pub use auth::Token;
pub use client::{ConnectOptions, FamilyChoice, Session, StreamOutcome};
pub use counters::Counts;
pub use error::NetError;
pub use limits::Limits;
pub use protocol::{DEFAULT_PORT, StampSource};
pub use server::{Server, ServerConfig, ServerHandle};
pub use tls::{TlsClient, TlsServer, TlsSetupError};
