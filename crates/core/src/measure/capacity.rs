//! The capacity of the narrow link, from short trains sent as fast as the sender can.

use crate::stream::{Refusal, Schedule, StreamRecord};
use crate::units::{Bytes, Duration, Rate};

use super::Config;
use super::probe::Probe;

/// Trains sent; the rate-response estimator is insensitive to the capacity, so few suffice.
const TRAINS: usize = 3;
/// Shorter ones are sent more often. The queue of a train takes so long to drain, even if all that a link has is free ...
const LONGEST: Duration = Duration::from_ms(20);
/// ... but fewer gaps than this would not tell the packet time from others' packets.
const SHORTEST: usize = 4;
/// Packets after the first in a train: on slow paths so few that they fit a buffer of 25 kB ...
const TRAIN: (usize, usize) = (16, 48);
/// ... and more with the available bandwidth from here on, because a train must outlast several interrupts.
const FAST: Rate = Rate::from_bps(100_000_000);

/// A sender with a limit below the trains' rate still sends this much at once.
const BURST: Bytes = Bytes::new(60_000);
/// A train that arrives this much longer than it was sent has met a narrower link.
const SPREAD: f64 = 1.1;

/// Collects trains and answers with the narrow link's capacity.
#[derive(Clone, Debug)]
pub(super) struct Capacity {
    packet: Bytes,
    rate: Rate,
    packets: usize,
    wanted: usize,
    tried: usize,
    gaps: Vec<Duration>,
    fastest: Option<Rate>,
    coalesced: bool,
    narrow: bool,
}

impl Capacity {
    /// Trains of packets of this size for a path on which `available` is free.
    pub(super) fn new(config: &Config, packet: Bytes, available: Rate) -> Capacity {
        let (short, long) = TRAIN;
        let scaled = short as f64 * available.bps_f64() / FAST.bps_f64();
        let packets = (scaled.ceil() as usize).clamp(short, long);
        let limited = config.train_rate > config.top_rate;
        let most = if limited { (BURST.get() / packet.get().max(1)) as usize } else { long };
        let in_time = (available.bytes_in(LONGEST).get() / packet.get().max(1)) as usize;
        let usual = packets.min(most.saturating_sub(1)).max(2);
        let packets = usual.min(in_time.max(SHORTEST));
        Capacity {
            packet,
            rate: config.train_rate,
            packets,
            wanted: TRAINS * usual.div_ceil(packets),
            tried: 0,
            gaps: Vec::new(),
            fastest: None,
            coalesced: false,
            narrow: false,
        }
    }

    pub(super) fn schedule(&self) -> Schedule {
        Schedule::single_rate(self.rate, self.packets, self.packet)
    }

    /// Whether a train was spread out on the way; otherwise the narrow link may be any faster than the sender.
    pub(super) fn narrow(&self) -> bool {
        self.narrow
    }

    /// Whether enough trains were tried.
    pub(super) fn done(&self) -> bool {
        self.tried >= self.wanted
    }

    pub(super) fn refused(&mut self) {
        self.tried += 1;
    }

    pub(super) fn observe(&mut self, record: &StreamRecord, probe: &mut Probe) -> Result<(), Refusal> {
        if record.lost() > 0 {
            // It was longer than the queue has room for.
            self.packets = (self.packets / 2).max(SHORTEST);
        }
        let whole = probe.sums(record, Duration::ZERO)?;
        self.tried += 1;
        self.gaps.extend_from_slice(probe.receive_gaps());
        self.narrow |= whole.receive > whole.send.scale(SPREAD);
        let packet_time = whole.receive / whole.samples as i64;
        let events = probe.sums(record, packet_time).unwrap_or(whole);
        self.coalesced |= events.samples < whole.samples;
        self.fastest = self.fastest.max(Rate::of(self.packet * events.samples, events.receive));
        Ok(())
    }

    /// The time that a coalescing receiver takes for a packet of a batch: the mean of the shorter half of the gaps.
    pub(super) fn driver(&self) -> Option<Duration> {
        let mut gaps = self.gaps.clone();
        gaps.sort_unstable();
        gaps.truncate(gaps.len() / 2);
        let count = gaps.len() as i64;
        (self.coalesced && count > 0).then(|| gaps.into_iter().sum::<Duration>() / count)
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
