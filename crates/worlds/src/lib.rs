//! Runs a scenario in a world: the simulator, the Linux stack in virtual time, or an
//! emulated path in real time.
//!
//! ```no_run
//! use headway_scenario::Scenario;
//! use headway_worlds::{Options, World};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let scenario = Scenario::load("scenarios/dumbbell-cubic.toml".as_ref(), &[])?;
//! let results = headway_worlds::run(&scenario, World::Sim, &Options::default())?;
//! println!("{}", results.summary.total.goodput());
//! # Ok(())
//! # }
//! ```
//!
//! All worlds return the same [`Results`](headway_record::Results). [`run_all`] repeats a scenario with
//! several seeds and keeps the files of the runs, [`sweep`] runs a grid of overrides and seeds, [`compare`]
//! compares worlds, and [`Folder`] writes results to files. Long operations report progress to a callback and
//! end early when their [`Cancellation`] is triggered.
//!
//! The kernel in virtual time and the lab start helper processes of a program that calls [`run_helper`] first
//! in `main`: this program, or the one in [`Options::helper`].
//!
//! # Decisions
//!
//! - **`sim`, `uml` and `lab` do not know each other.** Scenarios, traffic, links and the shape of results
//!   are crates of their own, and only this one runs all three.
//! - **A cell of a sweep is a [`sweep::Job`],** a value that says everything that determines its result.
//!   Threads, another process or another machine run it, and the table has the same bytes. Every result is a
//!   file of its own, written under another name first, so a kill at any moment costs at most the cells that
//!   were running.
//! - **In a lab everyone who chooses among paths has links of its own,** with the same cross traffic at the
//!   same times. So all run together, and none meets the probes and users of another.

mod cancel;
pub mod compare;
mod controller;
pub mod draw;
mod endpoint;
mod error;
mod folder;
mod helper;
mod kept;
mod lab;
mod memory;
mod middlebox;
mod options;
mod outcome;
mod output;
mod pacing;
mod page;
pub mod pool;
pub mod process;
pub mod rows;
mod run;
mod sim;
pub mod sweep;
mod uml;

pub use cancel::Cancellation;
pub use controller::changes as controller_changes;
pub use endpoint::Demand;
pub use error::Error;
pub use folder::{Folder, Manifest};
pub use headway_scenario::World;
pub use helper::{endpoint, guest, run_helper};
pub use kept::{Kept, Key};
pub use lab::{Background, TcpFlows, disturbed, transfer};
pub use memory::available as available_memory;
pub use options::{Event, Options, Report, UmlOptions};
pub use outcome::{Outcome, RunFiles};
pub use output::Output;
pub use run::{run, run_all};
pub use sim::STEPS;
pub use uml::{cache, kernel};
