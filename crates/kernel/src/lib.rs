//! Congestion controllers and a middlebox for the running kernel: BPF programs (`bpf/`) and their loaders.
//!
//! [`Loaded`] is a registered controller; when it is dropped or its process dies, the kernel removes
//! the controller. [`Notes`] lets the processes of a host see each other's controllers and the
//! leftovers of killed ones.
//!
//! Without the feature `bpf`, which is on by default and needs clang and libelf, nothing can be loaded: every
//! attempt ends with [`Error::NotBuilt`].
//!
//! # How a controller gets into the kernel
//!
//! `build.rs` compiles `bpf/*.bpf.c` with clang against the headers of `arithmetic` and a small `vmlinux.h`.
//! libbpf relocates the fields of the running kernel by name and registers the operations. `engine.bpf.h`
//! translates TCP's callbacks into events of an algorithm, and the results into cwnd, ssthresh and pacing
//! rate; `ls.bpf.h` and `aimd.bpf.h` are the algorithms.
//!
//! - **A registration is a file descriptor of the loading process,** so the kernel removes the controller
//!   however that process ends. Nothing is pinned.
//! - **Processes find each other through locked files** in `/run/headway/cc`. A file without a lock belongs
//!   to a process that was killed. The former default of a network namespace has a file of its own, which
//!   stays until the default is restored.
//! - **No skeletons are generated** (libbpf-cargo). They are self-referential and one type per controller,
//!   while the loader sets only a name, flags and two constants.
//! - **The ends of XCP and RCP are one object** of programs that share the state of a connection in the
//!   storage of its socket: `end_wire.bpf.h` at an interface (tcx links, which end with the process) and
//!   `end_control.bpf.h`. Arriving packets change only what they add to atomically; the rest is changed
//!   with the socket locked. A sender asks with an ACK of its own, so that a peer that does not know the
//!   header costs no data. `Loaded::attach` is called in the network namespace of the interface, so one
//!   process serves both hosts of a lab. As a TCP option (`end_option.bpf.h`, a `sock_ops` program for one
//!   network namespace) the same header comes and goes with the socket locked, after TCP has checked the
//!   segment; the controller turns these events on for its connection, and the first header that arrives
//!   does so for its receiver.
//! - **TCP Rapid has a program of its own** (`rapid.bpf.c`), because it is no algorithm of windows: TCP asks
//!   `min_tso_segs` before each attempt to send, and the pace at which a packet leaves decides when the next
//!   one does. All estimation runs there, on 56 kB of state in the storage of the socket, so nothing depends
//!   on a process. What each connection knows is read by an iterator over that storage (`rapid_flows.bpf.h`),
//!   which any process can start; the controller runs without it where the kernel refuses iterators.
//! - **Gaps of bytes need a process,** because no program can place frames on a line. A program at the
//!   interface (`gaps.bpf.c`) redirects segments to a TAP device, with the time at which each is due,
//!   and `net`'s `LineFiller` places them between PAUSE frames, past the queue discipline and so past
//!   that program. Only with TCX, which ends with the process; without it segments would go on to a
//!   device that is gone.
//! - **A receiver for TCP Rapid is two programs and no table of connections** (`stamps.bpf.c`): one notes in
//!   the storage of a socket when segments arrive, before TCP locks it; one writes that into ACKs as an
//!   option of TCP. Senders read it with the socket locked (`rapid_stamps.bpf.h`).
//! - **In BPF, loops are separate functions** (`HW_FUNCTION`), which the verifier checks once for all
//!   arguments. Inlined, it would follow all their paths at every call.
//!
//! # Decisions about the middlebox
//!
//! - **Its programs are at the interface towards the hosts, in both directions.** Behind NAT, both directions
//!   of a connection have the same addresses only there; where a packet came from says whether it crosses the
//!   link.
//! - **It marks at the same place,** not where packets leave for the link, because behind NAT nothing there
//!   tells which flow a packet belongs to. A virtual queue needs no backlog, so it may be anywhere before the
//!   link. It is one time for each class and direction, which two processors may change at once without a
//!   lock.
//! - **What the process decides about a connection is in a map of its own,** by the connection's number: the
//!   entry that the programs write cannot be changed from outside without losing what they write meanwhile.
//!   For the same reason a program gives a connection its class by new rules, when it sees that their number
//!   has changed. A connection's weight is in the same map, so packets pay for no second lookup.
//! - **The fewer flows there are, the more often they are looked at,** at most four times a second, because a
//!   look may take 3 % of the time. An experiment then lasts some RTTs, and what it puts into a queue is soon
//!   gone.
//! - **It fails open:** the process says every second that it lives, in the map that has the shares.

#![cfg_attr(not(feature = "bpf"), allow(dead_code, reason = "what loads controllers uses the rest"))]

// A build without BPF, for labs on a machine without clang, knows the options of controllers and the kernel's
// own, and says of the others that they cannot be loaded.
mod controller;
mod default;
mod error;
#[cfg(not(feature = "bpf"))]
mod without_bpf;

#[cfg(feature = "bpf")]
mod attached;
#[cfg(feature = "bpf")]
mod cgroup;
#[cfg(feature = "bpf")]
mod device;
#[cfg(feature = "bpf")]
mod edge;
#[cfg(feature = "bpf")]
mod features;
#[cfg(feature = "bpf")]
mod flow;
#[cfg(feature = "bpf")]
mod folder;
#[cfg(feature = "bpf")]
mod gaps;
#[cfg(feature = "bpf")]
mod instance;
#[cfg(feature = "bpf")]
mod loader;
#[cfg(feature = "bpf")]
mod note;
#[cfg(feature = "bpf")]
mod notes;
#[cfg(feature = "bpf")]
mod pace;
#[cfg(feature = "bpf")]
mod query;
#[cfg(feature = "bpf")]
mod remains;
#[cfg(feature = "bpf")]
mod routes;
#[cfg(feature = "bpf")]
mod stamps;
#[cfg(feature = "bpf")]
mod support;
#[cfg(feature = "bpf")]
mod tcx;
#[cfg(feature = "bpf")]
mod telemetry;

pub use controller::{Carrier, Controller, EndOptions, LsOptions, RapidOptions, StampOptions};
pub use default::{FormerDefault, Namespace, available, current_default};
pub use error::Error;
#[cfg(not(feature = "bpf"))]
pub use without_bpf::{Attached, DepartureTimes, Departures, Loaded, Loader, StampReceiver};

#[cfg(feature = "bpf")]
pub use attached::Attached;
#[cfg(feature = "bpf")]
pub use device::Interface;
#[cfg(feature = "bpf")]
pub use edge::{
    Connection as EdgeConnection, Due as EdgeDue, Edge, EdgeCounters, EdgeInterface, EdgeOptions, Event,
    Events, Exchange as EdgeExchange, Instance as EdgeInstance, MOST_CLASSES, Marking as EdgeMarking,
    OF_RELAY, PATIENCE, Session as EdgeSession, Shares, SmallReceiver, Splitting as EdgeSplitting, TO_RELAY,
    Treatment as EdgeTreatment, now,
};
#[cfg(feature = "bpf")]
pub use flow::{Arrivals, RapidFlow};
#[cfg(feature = "bpf")]
pub use gaps::{DepartureTimes, Departures};
#[cfg(feature = "bpf")]
pub use instance::{Changed, Instance, Notes, killed, running};
#[cfg(feature = "bpf")]
pub use loader::{Loaded, Loader};
#[cfg(feature = "bpf")]
pub use note::{Ends, Note, RapidNote};
#[cfg(feature = "bpf")]
pub use pace::Pace;
#[cfg(feature = "bpf")]
pub use query::{counters, cpu_time, enable_timing, is_loaded, rapid_flows, stamp_counters};
#[cfg(feature = "bpf")]
pub use remains::Remains;
#[cfg(feature = "bpf")]
pub use routes::ChangedRoutes;
#[cfg(feature = "bpf")]
pub use stamps::StampReceiver;
#[cfg(feature = "bpf")]
pub use support::check;
#[cfg(feature = "bpf")]
pub use tcx::{Owner, has_tcx, remove_filters};
#[cfg(feature = "bpf")]
pub use telemetry::{Counters, CpuTime, EndCounters, RapidCounters, Record, StampCounters};
