//! Congestion controllers for the running kernel: BPF programs (`bpf/`) and their loader.
//!
//! [`Loaded`] is a registered controller; when it is dropped or its process dies, the kernel removes the
//! controller. [`Notes`] lets the processes of a host see each other's controllers and the leftovers of killed
//! ones.

mod controller;
mod default;
mod error;
mod instance;
mod loader;
mod note;
mod notes;
mod support;
mod telemetry;

pub use controller::{Controller, LsOptions};
pub use default::{FormerDefault, Namespace, available, current_default};
pub use error::Error;
pub use instance::{Instance, Notes, killed, running};
pub use loader::{Loaded, Loader};
pub use note::Note;
pub use support::check;
pub use telemetry::{Counters, CpuTime, Record, counters, cpu_time, enable_timing};
