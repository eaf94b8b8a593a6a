//! The protocol between client and server, without sockets, clocks or threads.
//!
//! The control connection (TCP) starts with a fixed preamble from each side, see [`preamble`], so that two
//! incompatible versions can at least report their numbers. Then it carries frames, see [`frame`], each with
//! one [`message::Message`]. Probes start with the header in [`probe`]; they are carried by UDP, or by ICMP
//! as described in [`echo`].
//!
//! Every parser here reads untrusted bytes: it returns an error for anything unexpected and never panics.

pub mod echo;
pub mod frame;
pub mod hops;
pub mod message;
pub mod preamble;
pub mod probe;
pub mod size;
pub mod times;

pub use frame::{Decoder, FrameError, encode};
pub use hops::{HopRuns, MAX_HOPS};
pub use message::{Announce, Carrier, Direction, Message, RefusedBy, Report, SentReport, StampSource};
pub use preamble::{Preamble, PreambleError};
pub use probe::{Header, Kind, ProbeError, Role};
pub use size::{Family, PacketSize};
pub use times::{GapRuns, TimeList};

/// The version of the whole protocol; both ends must have the same. Version 2 added hidden packets: the role
/// in the probe header, the hops in [`Announce`] and the hidden packets seen in [`Report`]. Version 3 added
/// the carrier in [`Announce`].
pub const VERSION: u16 = 3;

/// The default port of `serve`, for both TCP and UDP.
pub const DEFAULT_PORT: u16 = 8621;

/// The most packets a stream may have, so that its report always fits into a frame: 16384 times of at most 10
/// bytes each stay below [`frame::MAX_FRAME`].
pub const MAX_STREAM_PACKETS: u32 = 16_384;

/// Length of the cookie that proves an address, in bytes: too long to guess at any packet rate.
pub(crate) const COOKIE_LEN: usize = 16;

/// Length of the nonce that each side contributes to the proofs of the token, in bytes.
pub(crate) const NONCE_LEN: usize = 32;
