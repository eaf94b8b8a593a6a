//! The algorithms of Headway, without any I/O.
//!
//! Nothing in this crate reads a clock, opens a socket or keeps global state: time and random numbers are arguments.
//! References such as `rapid 2.9` name the section of `papers/rapid/spec.md` that a rule or constant comes from.

pub mod calculate;
pub mod config_error;
pub mod control;
pub mod denoise;
pub mod estimate;
pub mod explicit;
pub mod locate;
pub mod measure;
mod nearest;
pub mod queue;
pub mod stream;
pub mod units;

pub use config_error::ConfigError;
pub use nearest::nearest;
pub use stream::{Arrival, Gaps, Refusal, Schedule, Shape, StreamRecord};
pub use stream::{Train, TrainRecord, TrainSchedule};
pub use units::{Bytes, Duration, Instant, Rate, RateSteps};
