//! Probe streams (p-streams): the gaps to send and the arrivals observed.

mod delayed_acks;
mod integer;
mod record;
mod schedule;
mod table;
mod trains;
mod truth;

pub use delayed_acks::DelayedAcks;
pub use integer::{next_gap, p_stream_gaps};
pub use record::{Arrival, Gaps, Refusal, StreamRecord};
pub use schedule::{Schedule, Shape};
pub use table::{TableStream, parse_table};
pub use trains::{Train, TrainRecord, TrainSchedule};
pub use truth::{OtherProbes, Passage, Truth};
