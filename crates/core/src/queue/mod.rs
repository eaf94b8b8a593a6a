//! Queue disciplines: what happens to a packet that comes to a queue or leaves it. One file a discipline.
//!
//! A discipline decides and remembers; it does not hold the packets. So one implementation can serve the simulator, the
//! emulator and a test.

use crate::units::{Bytes, Duration, Instant};

mod codel;
mod drop_tail;
mod limit;
mod pie;
mod ramp;
mod red;
mod spec;
mod step;
mod token_bucket;

pub use codel::{Codel, CodelConfig};
pub use drop_tail::{DropTail, DropTailConfig};
pub use pie::{Pie, PieConfig};
pub use ramp::{Ramp, RampConfig};
pub use red::{ADAPTATION, Red, RedConfig};
pub use spec::{Queue, QueueSpec, QueueSpecError};
pub use step::{Step, StepConfig};
pub use token_bucket::TokenBucket;

/// The queue as a packet finds it.
#[derive(Clone, Copy, Debug)]
pub struct Backlog {
    /// Bytes on the wire that wait or are being sent, without the packet in question; of the packet being sent, the whole or what
    /// is left of it.
    pub bytes: Bytes,
    /// Packets that wait or are being sent, without the packet in question.
    pub packets: u32,
    /// How long the queue has been empty before now; zero when it is not.
    pub idle: Duration,
    /// How long a packet that joins now has to wait before its own transmission starts.
    pub delay: Duration,
}

/// What becomes of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It goes on unchanged.
    Accept,
    /// It goes on, marked CE.
    Mark,
    /// It is dropped.
    Drop,
}

impl Verdict {
    /// What tells a sender of congestion: a mark if the packet may be marked, a drop if not.
    #[inline]
    pub const fn congested(ect: bool) -> Verdict {
        if ect { Verdict::Mark } else { Verdict::Drop }
    }
}

/// Judges packets that arrive at and leave a first-in first-out queue.
pub trait Discipline {
    /// A packet of `size` bytes arrives; `ect` says whether it may be marked instead of dropped.
    fn on_arrival(&mut self, now: Instant, backlog: &Backlog, size: Bytes, ect: bool) -> Verdict;

    /// The packet at the head of the queue is about to be sent after having waited for `waited`; `backlog` is what is behind it.
    fn on_departure(
        &mut self,
        _now: Instant,
        _backlog: &Backlog,
        _waited: Duration,
        _size: Bytes,
        _ect: bool,
    ) -> Verdict {
        Verdict::Accept
    }

    /// Whether [`Discipline::on_departure`] ever says anything but accept.
    fn judges_departures(&self) -> bool {
        false
    }
}

#[cfg(test)]
mod testing {
    use super::*;

    /// A queue of `bytes` in packets of 1500 B, served at 200 Mb/s.
    pub(super) fn backlog(bytes: u64) -> Backlog {
        Backlog {
            bytes: Bytes::new(bytes),
            packets: u32::try_from(bytes / 1500).unwrap_or(u32::MAX - 1),
            idle: Duration::ZERO,
            delay: crate::units::Rate::from_bps(200_000_000).time_for(Bytes::new(bytes)),
        }
    }
}
