//! What the running kernel says about its TCP connections, and what else it can do for programs.
//!
//! - [`TcpInfo`] is the kernel's statistics of a connection, of a socket that this process has.
//! - [`Diagnosis`] lists all connections of a network namespace with their statistics and buffers.
//! - [`netlink`] has messages to the kernel and its answers, without a type for each of the hundreds of
//!   messages that there are: who sends one knows its layout.
//! - [`ethtool`] has settings of interfaces, and which timestamps they give.
//! - [`bpf`] tries whether the kernel takes programs; [`Clock`] is how long a reading of the clock takes.
//! - [`namespace_cookie`] is the number of a network namespace.
//! - [`interfaces`] lists interfaces and their addresses, and tells what changes.
//! - [`kept`] spreads connections that pass this host over several next hops, which they keep
//!   when the shares change.
//! - [`mptcp`] says from which addresses connections of Multipath TCP have subflows.
//! - [`qdisc`] has the queue through which an interface sends, and a token bucket in its place.
//! - [`route`] lists routes and gives TCP timestamps of microseconds on them.
//! - [`preferred`] sends what has no more specific route over another next hop than that
//!   of the default route.
//! - [`rule`] has packets with a mark delivered to this host.
//!
//! # Decisions
//!
//! - **Connections are told apart by the kernel's number of their socket,** not by addresses and ports. One
//!   has ended when two lists in a row lack it: the kernel may leave out one that it is just moving.

pub mod bpf;
mod clock;
mod diagnosis;
pub mod ethtool;
pub mod interfaces;
pub mod kept;
pub mod marked;
pub mod mptcp;
mod namespace;
pub mod netlink;
pub mod preferred;
pub mod qdisc;
pub mod route;
pub mod rule;
mod tcp_info;

pub use clock::Clock;
pub use diagnosis::{Connection, Diagnosis, Dump, Key, Memory};
pub use namespace::{enter_new_namespace, namespace_cookie};
pub use tcp_info::TcpInfo;
