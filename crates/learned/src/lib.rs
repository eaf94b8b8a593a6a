//! Trained models: what they see of a probe stream or of a window of TCP samples, the file that holds
//! one, and its answers.
//!
//! [`stream`] computes the features and the statistics of a p-stream, [`window`] those of a window of
//! samples (`rapid 2.19`, `wan 2.11`, `wan 2.13`). Those who write training data call the same functions as
//! those who ask a model.
//!
//! Nothing here allocates once the vectors that a caller lends have grown, and nothing reads a clock or a
//! random source: random numbers are seeded by the samples.
//!
//! # Decisions
//!
//! - **Models are read by code of this crate:** flat arrays of trees, small dense networks and linear models,
//!   from JSON that is checked once. No ONNX runtime in Rust had both tree classifiers and tree regressors
//!   without a library to download.
//! - **A model refuses what its training did not contain,** because its answer there is arbitrary.
//! - **The shipped model counts in send gaps of the stream,** not in packet times of an estimated capacity,
//!   whose errors it would inherit. It was trained with cross traffic from none to 85 %: a model that has
//!   seen a single load learns that load.

mod check;
mod domain;
mod error;
mod file;
mod model;
mod network;
mod read;
pub mod stream;
mod trees;
pub mod window;

pub use domain::{Outside, Statistic};
pub use error::{FileError, NoAnswer};
pub use file::{RateUnit, Task, TimeUnit, Training};
pub use model::{Estimate, Model, Scratch, Shape};
