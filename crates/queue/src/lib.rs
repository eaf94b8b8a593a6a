//! Queue disciplines, which decide the fate of packets that arrive at a queue or leave it; one file per discipline. In
//! [`explicit`] is the header that routers of explicit congestion control write.
//!
//! A discipline keeps state but does not hold packets, so one implementation can serve the simulator, the
//! emulator and tests. Nothing here reads a clock or draws random numbers of its own: both are arguments.

use crate::explicit::Header;
use headway_units::{Bytes, Duration, Instant};

mod classes;
mod codel;
mod drop_tail;
mod dual_pi2;
pub mod explicit;
mod explicit_router;
mod fq_codel;
mod level;
mod limit;
mod pi;
mod pie;
mod police;
mod published;
mod ramp;
mod red;
mod spec;
mod step;
mod token_bucket;
mod waiting;

pub use classes::{CLASSES, Classes, ClassesConfig};
pub use codel::{Codel, CodelConfig};
pub use drop_tail::{DropTail, DropTailConfig};
pub use dual_pi2::{DualPi2, DualPi2Config};
pub use explicit_router::{Detector, Explicit, ExplicitConfig, QueueUnit};
pub use fq_codel::{FqCodel, FqCodelConfig};
pub use level::Level;
pub use pie::{Pie, PieConfig};
pub use published::{Published, PublishedPart};
pub use ramp::{Ramp, RampConfig};
pub use red::{ADAPTATION, Red, RedConfig};
pub use spec::{Queue, QueueSpec, QueueSpecError};
pub use step::{Step, StepConfig};
pub use token_bucket::{Policer, Shaper, TokenBucket};

/// The queue that a packet finds on arrival.
#[derive(Clone, Copy, Debug)]
pub struct Backlog {
    /// Wire bytes waiting or in transmission, without the packet in question.
    ///
    /// The packet in transmission counts in full or with its remaining bytes.
    pub bytes: Bytes,
    /// Packets waiting or in transmission, without the packet in question.
    pub packets: u32,
    /// How long the queue has been empty; zero if it is not.
    pub idle: Duration,
    /// How long a packet that joins now waits until its own transmission starts.
    pub delay: Duration,
}

/// What a discipline sees of a packet.
#[derive(Debug)]
pub struct Packet<'a> {
    /// Its size on the wire.
    pub size: Bytes,
    /// Whether it is ECN-capable, so that it may be marked instead of dropped.
    pub ect: bool,
    /// Its congestion header, if it has one.
    pub header: Option<&'a mut Header>,
    /// Number or hash of its flow, where it is known.
    pub flow: Option<u32>,
}

impl Packet<'_> {
    /// Creates a packet without a congestion header.
    #[inline]
    pub const fn new(size: Bytes, ect: bool) -> Self {
        Packet { size, ect, header: None, flow: None }
    }
}

/// What says in which queue a packet waits, besides its congestion header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Label {
    /// Number or hash of its flow.
    pub flow: u32,
    /// Whether its ECN field says ECT(1) or CE (RFC 9331).
    pub is_scalable: bool,
}

/// The fate of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It is forwarded unchanged.
    Accept,
    /// It is forwarded with a CE mark.
    Mark,
    /// It is dropped.
    Drop,
}

impl Verdict {
    /// Returns the congestion signal for a packet: a mark if it is ECN-capable, otherwise a drop.
    #[inline]
    pub const fn congested(ect: bool) -> Verdict {
        if ect { Verdict::Mark } else { Verdict::Drop }
    }
}

/// Judges packets that arrive at and leave a FIFO queue.
pub trait Discipline {
    /// Judges an arriving packet (xcp-rcp 2.4 for those with a congestion header).
    fn on_arrival(&mut self, now: Instant, backlog: &Backlog, packet: &Packet<'_>) -> Verdict;

    /// Judges the packet at the head of the queue before transmission, and may rewrite its congestion header (xcp-rcp 2.7);
    /// it has waited for `waited`, and `backlog` is behind it.
    fn on_departure(
        &mut self,
        _now: Instant,
        _backlog: &Backlog,
        _waited: Duration,
        _packet: &mut Packet<'_>,
    ) -> Verdict {
        Verdict::Accept
    }

    /// Returns whether the discipline must see every packet as it departs: [`Discipline::on_departure`] may return
    /// anything but `Accept`, or headers are rewritten.
    fn judges_departures(&self) -> bool {
        false
    }

    /// Returns whether the times of departures depend on the discipline, because it may drop packets that depart or let
    /// them overtake each other. Where they do not, they are known when a packet arrives.
    fn delays_departures(&self) -> bool {
        self.judges_departures()
    }
}

#[cfg(test)]
mod testing {
    use super::*;

    /// Returns a queue of `bytes` in packets of 1500 B, served at 200 Mb/s.
    pub(super) fn backlog(bytes: u64) -> Backlog {
        Backlog {
            bytes: Bytes::new(bytes),
            packets: u32::try_from(bytes / 1500).unwrap_or(u32::MAX - 1),
            idle: Duration::ZERO,
            delay: headway_units::Rate::from_bps(200_000_000).time_for(Bytes::new(bytes)),
        }
    }
}
