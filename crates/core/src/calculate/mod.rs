//! Closed formulas for windows, rates and queues of equal flows that share a link (ls-aimd 1.1, 2.19, 4.6).

mod increase;
mod share;
mod tables;

pub use increase::{Increase, Order, departure_gap, growth_exponent};
pub use share::{DELTA, FRAME_OVERHEAD, SEGMENT_OVERHEAD, Share};
pub use tables::{Published, Rounding, TABLES};
