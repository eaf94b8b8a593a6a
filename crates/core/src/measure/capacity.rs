//! The capacity of the narrow link, from short trains sent as fast as the sender can.

use crate::stream::{Refusal, Schedule, StreamRecord};
use crate::units::{Bytes, Duration, Rate};

use super::probe::Probe;

/// Trains sent; the rate-response estimator is insensitive to the capacity, so few suffice.
const TRAINS: usize = 3;
/// Packets after the first in a train on slow paths: short enough for a buffer of 25 kB.
const SHORT_TRAIN: usize = 16;
/// Packets after the first in a train on fast paths, where a train must outlast several interrupts.
const LONG_TRAIN: usize = 48;
/// Available bandwidth from which trains are long.
const FAST: Rate = Rate::from_bps(60_000_000);

/// Collects trains and answers with the narrow link's capacity.
#[derive(Clone, Debug)]
pub(super) struct Capacity {
    packet: Bytes,
    top: Rate,
    packets: usize,
    tried: usize,
    gaps: Vec<Duration>,
    fastest: Option<Rate>,
    coalesced: bool,
}

impl Capacity {
    pub(super) fn new(packet: Bytes, available: Rate, top: Rate) -> Capacity {
        let packets = if available < FAST { SHORT_TRAIN } else { LONG_TRAIN };
        Capacity { packet, top, packets, tried: 0, gaps: Vec::new(), fastest: None, coalesced: false }
    }

    pub(super) fn schedule(&self) -> Schedule {
        Schedule::single_rate(self.top, self.packets, self.packet)
    }

    /// Whether enough trains were tried.
    pub(super) fn done(&self) -> bool {
        self.tried >= TRAINS
    }

    pub(super) fn refused(&mut self) {
        self.tried += 1;
    }

    pub(super) fn observe(&mut self, record: &StreamRecord, probe: &mut Probe) -> Result<(), Refusal> {
        self.tried += 1;
        let whole = probe.sums(record, Duration::ZERO)?;
        self.gaps.extend_from_slice(probe.receive_gaps());
        let packet_time = whole.receive / whole.samples as i64;
        let events = probe.sums(record, packet_time).unwrap_or(whole);
        self.coalesced |= events.samples < whole.samples;
        self.fastest = self.fastest.max(Rate::of(self.packet * events.samples, events.receive));
        Ok(())
    }

    /// The capacity, once any train has arrived.
    ///
    /// Most packets of a train leave a FIFO link back to back, so the median gap is one packet time
    /// however much cross traffic slipped in between others. Coalescing destroys single gaps; then
    /// the fastest train over whole buffering events has to do.
    pub(super) fn capacity(&mut self) -> Option<Rate> {
        if self.coalesced {
            return self.fastest;
        }
        self.gaps.sort_unstable();
        let median = *self.gaps.get(self.gaps.len() / 2)?;
        Rate::of(self.packet, median)
    }
}
