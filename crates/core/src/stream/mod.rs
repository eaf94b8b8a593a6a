//! Probe streams (p-streams): the gaps to send and the arrivals observed.

mod departure;
mod integer;
mod normalise;
mod record;
mod schedule;

pub use departure::LineClock;
pub use integer::{next_gap, p_stream_gaps};
pub use normalise::DelayedAcks;
pub use record::{Arrival, Gaps, Refusal, StreamRecord};
pub use schedule::{Schedule, Shape};
