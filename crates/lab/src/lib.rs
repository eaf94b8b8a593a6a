//! Emulated networks with a known truth.
//!
//! A lab is a graph of nodes, each in its own network namespace. All links lead through one more
//! namespace, where a user-space emulator owns their queues. Cross traffic exists only inside these
//! queues, so the available bandwidth of every link is known exactly and logged. The simplest lab has
//! two nodes and one link:
//!
//! ```text
//! client 10.77.0.1 --veth-- [ emulator: rate, buffer, delay, loss, cross traffic ] --veth-- 10.77.0.2 server
//! ```
//!
//! [`Router`] puts the emulator between two interfaces that exist already.
//!
//! Nodes with several links are routers: their kernels forward packets, count down hop limits and
//! answer those that expire.
//!
//! # How it works
//!
//! - **A link is arithmetic.** Asked about a packet when it arrives, it returns the departure time and
//!   whether the packet is marked. Only disciplines that judge departures (CoDel, explicit routers, classes)
//!   make packets wait for their turn; the emulator wakes up for that as it does for releases. It does not
//!   wake up for cross traffic alone: whatever happens next judges those that fell due, with their own times.
//! - **Routers on real packets are queues as in the simulator.** A link direction looks for a congestion
//!   header only if its queue reads one. The link passes it to the discipline, on arrival and at the packet's
//!   turn, and returns what to write into the frame. A queue that becomes another router keeps the control
//!   block, so a switch of the protocol is one change of parameters. Packets that wait have the number of
//!   their frame, because classes do not send them in order of arrival. Only where a router checks flows, the
//!   link direction numbers them, by a hash of addresses and ports whose key is secret.
//! - **Offloads are restored by a child process** of `headway router`, which waits for the end of a pipe: so
//!   they are restored even after `kill -9`. The kernel itself ends the rest with the socket.
//! - **One thread serves all links.** A link is two link directions between two ports. With several links,
//!   epoll tells which ports have frames, and a table of times which link direction is due next. Frames of
//!   all link directions leave in order of time.
//! - **Routers are kernels.** A node with several links forwards packets in its namespace, and its kernel
//!   counts down hop limits and sends ICMP errors. A frame that the emulator hands to a router reaches the
//!   next port within the same system call.
//! - **Flows have addresses of their own** in a lab of several links. Routing tables only know destinations;
//!   a pair of addresses per group of flows sends each group along the path of the scenario.
//! - **A line comes before the queue,** where a link has one (`line`): a veth hands over any number of
//!   frames at once, and a sender whose gaps are bytes on the wire needs something that takes the time
//!   of its bytes for each.
//! - **Jitter comes behind the queue,** as in the simulator, and before the receiver's NIC.
//! - **Time dilation changes the scenario** (`Scenario::dilated`), not the emulator, so every world runs
//!   the same slow network.
//! - **The ends of flows are processes.** They open their connections, report that they are ready, and are
//!   told when to begin, so a busy machine delays a run but does not falsify it.
//! - **Controllers that the kernel lacks are loaded for one run,** under a name of its own,
//!   and removed with it.
//!
//! # Decisions
//!
//! - **Cross traffic exists only inside the emulator.** Its packets occupy the queue but reach no host, so
//!   the truth is exact, and 400 Mb/s of it are almost free, which a machine with two cores needs.
//! - **Nodes are processes, not named namespaces.** When the emulator ends, even by `kill -9`, they end their
//!   programs and themselves. Locks in the lab's directory show what is alive, not PIDs in a file.

pub mod congestion_header;
pub mod cross;
pub mod daemon;
pub mod error;
pub mod header_counts;
pub mod lab;
pub mod link;
pub mod meter;
pub mod queue;
pub mod router;
pub mod spec;
pub mod state;
pub mod truth;
pub mod truths;

mod base;
mod claim;
mod clock;
mod control;
mod describe;
mod ecn;
mod emulator;
mod existing;
mod frame_pool;
mod host;
mod interface;
mod lane;
mod layout;
mod life;
mod line;
mod log_file;
mod namespace;
mod netns_processes;
mod network;
mod packet;
mod port;
mod ports;
mod process;
#[cfg(test)]
mod reference_tests;
mod start;
mod sum;
#[cfg(test)]
mod testing;
mod wire;
mod writer;

pub use describe::{describe_link, lanes, load};
pub use emulator::host_processor;
pub use error::Error;
pub use header_counts::HeaderCounts;
pub use headway_host::nic::Coalescing;
pub use interface::offloads_off;
pub use lab::{Lab, Life, LinkStatus, RouterStatus, Status};
pub use network::check_network;
pub use process::{Handle, Process};
pub use router::Router;
pub use spec::{Cross, Direction, Edge, LinkSpec, PathSpec, Spec};
pub use state::{Interface, Node};
pub use truth::{Interval, Lateness, Truth};
pub use truths::Truths;
