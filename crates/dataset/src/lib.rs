//! Streams and windows with the true available bandwidth, from the simulator, for those who train and score
//! estimators (rapid F45, wan F44).
//!
//! A plan says which paths and how many runs. Every run is a pure function of the plan's seed and the number
//! of the run, so runs can be made in any order and on any number of threads. Runs, not streams or windows,
//! are split into those for training and those for tests: neighbours in one run have nearly the same truth.
//!
//! # Decisions
//!
//! - **The label is what a stream can show:** the available bandwidth, or the end of its probing rates that
//!   is nearer to it. A model that is taught the plain truth answers the mean of its training data to every
//!   stream far from the truth.

mod acks;
pub mod dumbbell;
mod part;
pub mod streams;
mod table;
pub mod windows;

pub use part::Part;
pub use table::{StreamTable, WindowTable};
