//! Live probing: sockets, timestamps, pacing and the probe protocol.
//!
//! A [`client::Session`] sends requests to a [`server::Server`]. The two negotiate over a control
//! connection (TCP) and exchange probe streams (UDP, or ICMP Echo Replies to the server) in either
//! direction; each stream yields a [`headway_estimate::StreamRecord`]. Their messages are defined in
//! [`protocol`], which does no I/O.
//!
//! # Decisions
//!
//! - **Threads, not an asynchronous runtime:** a session is one blocking conversation, and a server has a few
//!   dozen of them. The only runtime is in the crate `web`; `deny.toml` refuses it to all others.
//! - **Timestamps are only subtracted from others of the same host,** so clocks need no synchronisation.
//!   Software timestamps follow CLOCK_REALTIME; a step of it is detected by comparison with CLOCK_MONOTONIC
//!   around every stream.
//! - **Gaps may be bytes on the line** instead of times (`frames`). The schedule is the simulator's
//!   `ByteClock`, and PAUSE frames fill what it leaves. Only the time for which the line ran dry comes from a
//!   clock.

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
mod loopback;
pub mod pacing;
pub mod protocol;
mod receive;
mod sealed;
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
pub use loopback::{Paced, pace};
pub use protocol::{Carrier, DEFAULT_PORT, StampSource};
pub use sealed::{SEALED, Sealed};
pub use server::{Server, ServerConfig, ServerHandle};
pub use tls::{TlsClient, TlsServer, TlsSetupError};
pub use trains::HopReply;
