//! Reproduces the experiments of the papers in a simulated testbed, and compares published
//! with measured numbers.
//!
//! An experiment is a file below `papers/`; [`catalogue`] holds them all. It names a kind of study and gives
//! its parameters. Each kind is one file in `study`, a type that is read from the experiment's file and
//! implements the trait `Study`; its measured numbers have names, and a claim is a band around one of them.
//! `Job` is what a study works with: seeds, sizes, threads and worlds.
//!
//! [`run()`] carries an experiment out, [`run_in()`] does so as a scenario in a world, and [`page`] and
//! [`Outcome`] present the result as text, numbers and figures. The result is a function of experiment, seed
//! and [`Size`], whatever the number of threads.

pub mod catalogue;
pub mod closed_loop;
mod context;
mod emulated;
pub mod experiment;
mod job;
pub mod number;
mod outcome;
pub mod page;
mod procedure;
mod recording;
pub mod shared_link;
mod statistics;
mod study;
mod training;

pub use context::{Context, Error, Progress, Size};
pub use experiment::Experiment;
pub use outcome::{Check, Outcome, SIMULATOR, Table};
pub use study::{run, run_in, runs_in};
