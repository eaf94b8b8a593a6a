//! Congestion controllers for the running kernel: BPF programs (`bpf/`) and what loads them.
//!
//! [`Loaded`] is a controller that is on; when it is dropped, or its process dies, the kernel is as before. [`Notes`] lets the
//! processes of a host know of each other's controllers and of what a killed one left behind.

mod controller;
mod default;
mod error;
mod instance;
mod loader;
mod notes;
mod support;
mod telemetry;

pub use controller::{Controller, LsOptions};
pub use default::{FormerDefault, Namespace, available, current_default};
pub use error::Error;
pub use instance::{Instance, Note, Notes, ended, running};
pub use loader::{Loaded, Loader};
pub use support::check;
pub use telemetry::{Cost, Counters, Record, cost, counters, measure_costs};
