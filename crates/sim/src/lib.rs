//! A packet-level network simulator in virtual time.
//!
//! A run is a pure function of scenario and seed: no clock, no threads, no global state. Times are integer
//! nanoseconds, every component has its own random generator, and the network uses only floating-point
//! operations that give the same bits on every machine. The estimators of `estimate`, which `[[measure]]`
//! and the reproductions run, use the logarithms and powers of the platform: their last digits may differ
//! between C libraries.
//!
//! # How it works
//!
//! - **A link keeps its packets in one ring and has one pending event.** Most disciplines judge a packet on
//!   arrival; the end of its transmission and its arrival at the far end are then known at once. Only
//!   disciplines that may drop packets as they depart (CoDel) or have classes, and jitter, need an event per
//!   transmission (`link/staged.rs`). Explicit routers judge departures but accept all, so the link asks them
//!   later, with the time of the departure, before anybody can see the verdict (`link/judged.rs`).
//!   `tests/sim/determinism.rs` compares the two ways.
//! - **A burst is one record.** Segments that a sender hands down at once are admitted, timed and stored as
//!   one train (`link/train.rs`) if the time they need shows that the queue holds them all, and reach the
//!   receiver one after the other in a single event while no other event comes between them. Otherwise they
//!   join one by one, with the same result.
//! - **An ACK that only advances the window takes a short path** (`sender/ack.rs`), as in Linux. A property
//!   test holds it against the full path.
//! - **Partitions of a network advance independently** for the smallest delay of the links that lead to them,
//!   because an event at the far end of a link cannot depend on events at the near end that are closer than
//!   the link's delay (`network/partitions.rs`). Each event records when it was inserted, so simultaneous
//!   events of a partition keep the order that they would have in a single queue.
//! - **Flows that come and go reuse slots** (`Network::start_flow`). Every packet carries the time at which
//!   its segment was sent. A packet older than the flow in its slot is ignored, so a late packet never
//!   reaches the wrong flow.
//! - **The scheduler is a 4-ary heap** of 24-byte records, one heap per partition. With few links, its top is
//!   replaced far more often than records are inserted. `benches/scheduler.rs` compares it with other
//!   schedulers; a timing wheel wins from about a dozen busy links on.
//! - **Timers move lazily.** The pending event stays where it is and is set again if it fires too early. Only
//!   then is the tick computed at which the host's timer fires (`transport/ticks.rs`).
//! - **Packets have 48 bytes and are copied** from ring to ring; there is no slab. SACK blocks, which few
//!   ACKs carry, are stored separately.
//! - **TCP counts segments, not bytes.** It implements RACK, tail loss probes, PRR, and the undo of spurious
//!   reductions (by timestamps or DSACKs) as Linux does. Controllers see only ACKs and congestion. Methods of
//!   the trait `Controller` say whether a controller wants delivery-rate samples and whether PRR applies; the
//!   transport does not know which controller it runs. Senders send bursts like hosts with segmentation
//!   offload, and wait briefly to make them larger (`sender/burst.rs`); tests of closed forms use
//!   `Burst::Single`. `papers/linux/results.md` lists what is missing of
//!   Linux.
//! - **Departures follow the controller** (`Controller::gap` and `Controller::schedule`). The ACKs of flows
//!   whose controller wants stamps carry them in their report, so packets of other flows do not grow.
//! - **A tap is a hop of a route** (`network/taps.rs`), and so are a middlebox
//!   (`network/middleboxes.rs`), a NIC that coalesces the interrupts of ACKs and links over which packets
//!   take turns (`network/bundles.rs`). Only the flows that meet one have such hops, so others do not
//!   check for them. Where hops are compared with the end of a route anyway, the comparison is with the
//!   first number that is no link.
//! - **A discipline holds no packets,** but `Classes`, `DualPi2` and `FqCodel` say in which of their queues a
//!   packet waits, and which sends next.
//! - **What varies with time is a function of seed and time** (`traffic::channel`). Outages and redrawn
//!   capacities become steps of `RateSteps`, which both worlds serve exactly; a loss in a burst depends on
//!   when a packet leaves, not on how many left before.
//! - **A radio channel says when its links have sent** (`network/air.rs`): such a link serves packet by
//!   packet, and contends where others know how long a transmission takes. What decides is `link::wifi`,
//!   which knows no packets.
//! - **A link whose queue changes during the run serves packet by packet** from the beginning, so that
//!   packets which wait can be handed to another discipline. `Run` makes changes between two calls of
//!   `Network::run_some`.
//! - **The truth is counted at every link of a measured path:** the bytes accepted, of all packets and of the
//!   prober's own, at the beginning and end. Each such link also has a shadow: the same discipline and
//!   server, fed with all packets except probes. The difference between the two is the impact of the
//!   measurement on other traffic that does not react to it. Beside TCP, `accuracy` counts the drops beyond
//!   those of the same path without measurements.
//! - **`sim::build` turns a scenario into a network,** and `sim::Run` advances it in slices. Between slices a
//!   run can be watched, cancelled, or stopped when memory runs out. `worlds` does the same for the kernel
//!   and the lab, and compares worlds.

mod arrivals;
mod build;
pub mod config;
mod decisions;
mod link;
pub mod measurement;
mod network;
mod packet;
mod passages;
mod probe;
mod progress;
mod run;
#[doc(hidden)]
pub mod schedule;
pub mod select;
mod shadow;
mod source;
mod statistics;
pub mod sweep;
pub mod tap;
pub mod testbed;
pub mod trains;
mod transport;

pub use arrivals::ArrivingGroup;
pub use build::{Built, BuiltChange, BuiltFlow, What, memory};
pub use config::{
    FlowId, GroupId, LinkConfig, LinkId, MiddleboxId, NicId, Passage, ProberId, QueueChange, SourceConfig,
    SourceId, TapId, TapPlace, TcpConfig,
};
pub use link::{Count, Link, LinkStatistics};
pub use network::{Completion, MiddleboxCounts, Network, TapEvent, TapRecord};
pub use probe::ProbeLog;
pub use run::Run;
pub use statistics::{FlowStatistics, SourceStatistics};
