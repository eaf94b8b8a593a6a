//! Trained models: what they see of a probe stream or of a window of TCP samples, the file that holds one, and its answers.
//!
//! [`stream`] computes the features and the statistics of a p-stream, [`window`] those of a window of samples (`rapid 2.19`,
//! `wan 2.11`, `wan 2.13`). Whoever writes training data calls the same functions as whoever asks a model.
//!
//! Nothing here allocates once the vectors that a caller lends have grown, and nothing reads a clock or a random source: random
//! numbers are seeded by the samples.

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
