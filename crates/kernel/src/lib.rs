//! Congestion controllers for the running kernel: BPF programs (`bpf/`) and their loader.
//!
//! [`Loaded`] is a registered controller; when it is dropped or its process dies, the kernel removes the
//! controller. [`Notes`] lets the processes of a host see each other's controllers and the leftovers of killed
//! ones.
//!
//! Without the feature `bpf`, which is on by default and needs clang and libelf, nothing can be loaded: every attempt
//! ends with [`Error::NotBuilt`].

#[cfg(feature = "bpf")]
mod attached;
#[cfg(feature = "bpf")]
mod cgroup;
mod controller;
mod default;
mod device;
mod error;
mod features;
mod instance;
#[cfg(feature = "bpf")]
mod loader;
mod note;
mod notes;
#[cfg(feature = "bpf")]
mod query;
mod remains;
#[cfg(feature = "bpf")]
mod support;
mod telemetry;
#[cfg(not(feature = "bpf"))]
mod without_bpf;

#[cfg(feature = "bpf")]
pub use attached::Attached;
pub use controller::{Carrier, Controller, EndOptions, LsOptions};
pub use default::{FormerDefault, Namespace, available, current_default};
pub use device::Interface;
pub use error::Error;
pub use instance::{Changed, Instance, Notes, killed, running};
#[cfg(feature = "bpf")]
pub use loader::{Loaded, Loader};
pub use note::{Ends, Note};
#[cfg(feature = "bpf")]
pub use query::{counters, cpu_time, enable_timing, end_counters, is_loaded};
pub use remains::Remains;
#[cfg(feature = "bpf")]
pub use support::check;
pub use telemetry::{Counters, CpuTime, EndCounters, Record};
#[cfg(not(feature = "bpf"))]
pub use without_bpf::{
    Attached, Loaded, Loader, check, counters, cpu_time, enable_timing, end_counters, is_loaded,
};

/// Whether this build has the controllers: the feature `bpf`.
pub const HAS_BPF: bool = cfg!(feature = "bpf");
