//! Receive window modulation at the edge of a network: connections share a link without a queue,
//! because the windows that their receivers tell pass lowered to each one's share of the
//! bandwidth-delay product (wan 2.1 to 2.3).
//!
//! A [`Policy`] names classes of connections and their shares. An [`Allocator`] counts the connections of
//! each class and says what a connection of it may have; it knows neither packets nor time. A [`Middlebox`]
//! joins both with tables of connections, for simulators and tests: it takes packets and `now`, and returns
//! windows. The kernel's program does the same with maps in place of tables. What both do with a packet is C
//! in the crate `arithmetic`.
//!
//! [`classify`] says what a flow is for, by how its packets come, and [`evaluate`] what is to be done
//! with it, and why. A [`Monitor`] uses both: it is shown what was [`Seen`], and returns [`Treatments`],
//! for a [`Middlebox`] and for the kernel's programs alike. [`Signals`] are what others say of the link,
//! and a [`LinkRate`] finds its rate where nobody does. A [`snapshot`] is what a router that does all
//! this tells of itself.
//!
//! Whatever arrives, memory is bounded and a connection that is in doubt passes unchanged.
//!
//! # Decisions
//!
//! - **A connection is given a share, not a window.** The window is computed for each packet from the share
//!   of its class and its own RTT, so a connection that begins or ends changes one entry of a table, and none
//!   of other connections.
//! - **All worlds have one monitor.** The tables of the kernel, the simulator's middlebox and the helper of a
//!   lab fill in what was [`Seen`] and apply the [`Treatments`]; none has a rule of its own.
//! - **Inputs and strategies are traits,** because a modem, a test or a program outside may be either. A
//!   decision carries its reason as data, which becomes a sentence only where one is shown. The evaluator,
//!   not a strategy, keeps every limit at or below that of the narrow link.
//! - **Flows are counted in sums that only grow.** A reader subtracts what it saw last, so no packet wakes a
//!   process, and the kernel needs no time window. A UDP flow begins with a datagram from the hosts: tables
//!   that a stranger could fill would show nothing in a flood.
//! - **Whether a delay is one's own is found by experiment** (`knee`). BBR's model for the sum of a
//!   direction, the windowed maximum of what was delivered, would need pauses in which the RTT is seen, and
//!   takes jitter for delay. Taking the rate that passed during a standing queue needed a constant for each
//!   kind of path, and was wrong on radio links. Only with bulk in both directions is it BBR's model after
//!   all, with windows of one to two and a half times what each direction carries (`knee/both.rs`).
//! - **Bytes that SACKs report as arrived are added to a window,** which begins at what is acknowledged, and
//!   that does not move after a loss. Otherwise a sender that ignores losses would be halved.
//! - **The RTT without a queue is the least mean of four samples.** The least single sample is one that
//!   jitter spared, and a window computed from it is too small for all others.
//! - **Edges at both ends of a link tell each other which flows they hold, not how many:** most pass both,
//!   and count once (`peer`). A set of bits does that in a message that always has the same size.
//! - **A middlebox leaves alone what is in doubt:** connections that were there before it, without a window
//!   scale of both ends, with signed headers, or for which its tables have no room.

mod allocator;
pub mod classify;
mod code_point;
mod connections;
pub mod evaluate;
mod judged;
mod knee;
mod link_rate;
mod load;
mod middlebox;
mod monitor;
mod notes;
mod peer;
mod policy;
mod ports;
mod probes;
mod seen;
mod signals;
pub mod snapshot;
mod table;
mod usage;
mod waited;
mod weight;

pub use allocator::{Allocator, Changed, Ticket};
pub use code_point::CodePoint;
pub use connections::{Connections, Shares};
pub use judged::{Judged, Treatment};
pub use link_rate::{FASTEST, LinkRate};
pub use load::Load;
pub use middlebox::{Counts, Limits, Middlebox, Noted, Tracked};
pub use monitor::{LOOKS, LinkView, Monitor, Rates, Treatments};
pub use notes::News;
pub use peer::{Peer, TOLD};
pub use policy::{Class, MOST_CLASSES, Policy, ShareBy, Split};
pub use ports::Ports;
pub use probes::{Demand, Probe, ProbeKind, Probed, Prober};
pub use seen::{Passive, Seen};
pub use signals::Signals;
pub use weight::Weight;
