//! Probe streams (p-streams): the gaps to create, and what was seen of them.

mod record;
mod schedule;

pub use record::{Arrival, Gaps, Refusal, StreamRecord};
pub use schedule::{Schedule, Shape};
