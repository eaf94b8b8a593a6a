//! The one-way delay that probing met and the part of it that probing caused.

use crate::estimate::response::Delayed;
use crate::stream::{Arrival, StreamRecord};
use crate::units::{Bytes, Duration};

/// The packets of a stream that arrived, with how long they had to queue.
pub(super) fn delayed(record: &StreamRecord, baseline: &Baseline) -> Vec<Delayed> {
    let above = |a: &Arrival| {
        Some(Delayed { index: a.index, sent: a.sent, queueing: baseline.above(a.one_way_delay()?) })
    };
    record.arrivals.iter().filter_map(above).collect()
}

/// How much the one-way delay grew from the first packet of a stream to the last; zero when it fell.
pub(super) fn growth(record: &StreamRecord) -> Duration {
    let mut delays = record.arrivals.iter().filter_map(Arrival::one_way_delay);
    let first = delays.next().unwrap_or_default();
    (delays.next_back().unwrap_or(first) - first).max(Duration::ZERO)
}

/// The lowest one-way delay seen so far, which stands for an empty path.
#[derive(Clone, Debug, Default)]
pub(super) struct Baseline {
    /// Size of the packets; smaller ones pass an empty path faster.
    packet: Bytes,
    lowest: Option<Duration>,
    grown: Vec<Duration>,
}

impl Baseline {
    /// Takes in a stream; delays of packets of another size are forgotten.
    pub(super) fn observe(&mut self, record: &StreamRecord) {
        if record.packet != self.packet {
            self.restart();
            self.packet = record.packet;
        }
        let mut delays = record.arrivals.iter().filter_map(Arrival::one_way_delay);
        let Some(first) = delays.next() else { return };
        let (low, high) = delays.fold((first, first), |(low, high), d| (low.min(d), high.max(d)));
        self.lowest = Some(self.lowest.map_or(low, |lowest| lowest.min(low)));
        self.grown.push(high - first);
    }

    /// Forgets the baseline, for instance because a clock was stepped.
    pub(super) fn restart(&mut self) {
        self.lowest = None;
    }

    /// The baseline itself, to see whether it fell.
    pub(super) fn lowest(&self) -> Option<Duration> {
        self.lowest
    }

    /// How far `delay` lies above the lowest delay seen.
    pub(super) fn above(&self, delay: Duration) -> Duration {
        self.lowest.map_or(Duration::ZERO, |lowest| delay - lowest)
    }

    /// The median and the largest growth of delay within a stream.
    pub(super) fn added(&self) -> Option<(Duration, Duration)> {
        let mut grown = self.grown.clone();
        grown.sort_unstable();
        Some((*grown.get(grown.len() / 2)?, *grown.last()?))
    }
}
