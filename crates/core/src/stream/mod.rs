//! Probe streams (p-streams): the gaps to create, and what was seen of them.

mod normalise;
mod record;
mod schedule;

pub use normalise::DelayedAcks;
pub use record::{Arrival, Gaps, Refusal, StreamRecord};
pub use schedule::{Schedule, Shape};
