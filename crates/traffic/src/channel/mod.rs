//! How a link varies with time: capacities drawn anew, outages, and bursts of losses (xcp-rcp F49).
//!
//! All of it follows from seed and time alone, not from the packets, so every algorithm meets the same link.

mod capacity_trace;
mod delay_trace;
mod ecn_field;
mod jitter;
mod losses;
mod outages;
mod redrawn;

pub use capacity_trace::CapacityTrace;
pub use delay_trace::DelayTrace;
pub use ecn_field::EcnField;
pub use jitter::{Delays, Jitter, JitterDraws};
pub use losses::{LossBursts, Losses};
pub use outages::Outages;
pub use redrawn::Redrawn;

/// A value out of its range: its key, and what the value violates.
pub type OutOfRange = (&'static str, &'static str);
