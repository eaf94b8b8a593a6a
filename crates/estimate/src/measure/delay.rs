//! The one-way delay during probing, and the part of it that probing caused.

use crate::response::Delayed;
use crate::stream::{Arrival, StreamRecord};
use headway_units::{Bytes, Duration};

use super::probe;

/// Returns the packets of a stream that arrived, with their queueing delays.
pub(super) fn delayed(record: &StreamRecord, baseline: &Baseline) -> Vec<Delayed> {
    let above = |a: &Arrival| {
        Some(Delayed { index: a.index, sent: a.sent, queueing: baseline.above(a.one_way_delay()?) })
    };
    record.arrivals.iter().filter_map(above).collect()
}

/// Returns the growth of the one-way delay from the first packet of a stream to the last,
/// or zero when it fell.
pub(super) fn growth(record: &StreamRecord) -> Duration {
    let mut delays = record.arrivals.iter().filter_map(Arrival::one_way_delay);
    let first = delays.next().unwrap_or_default();
    (delays.next_back().unwrap_or(first) - first).max(Duration::ZERO)
}

/// Returns how fast the one-way delay grew from the first half of a stream to the second, in seconds per
/// second; zero when it fell. Unlike [`growth`], it does not depend on which packets met a burst.
pub(super) fn trend(record: &StreamRecord) -> f64 {
    let mean = |half: &[Arrival]| {
        let delays: Vec<f64> =
            half.iter().filter_map(|arrival| Some(arrival.one_way_delay()?.secs_f64())).collect();
        (!delays.is_empty()).then(|| delays.iter().sum::<f64>() / delays.len() as f64)
    };
    let (first, second) = record.arrivals.split_at(record.arrivals.len() / 2);
    let between = probe::sent_for(record).secs_f64() / 2.0;
    let grown = mean(first).zip(mean(second)).map_or(0.0, |(first, second)| second - first);
    if between > 0.0 { (grown / between).max(0.0) } else { 0.0 }
}

/// The lowest one-way delay so far, as an estimate of that of an empty path.
#[derive(Clone, Debug, Default)]
pub(super) struct Baseline {
    /// Size of the packets; smaller ones pass an empty path faster.
    packet: Bytes,
    lowest: Option<Duration>,
    grown: Vec<Duration>,
}

impl Baseline {
    /// Adds a stream; a change of packet size discards the baseline.
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

    /// Discards the baseline, for instance because a clock was stepped.
    pub(super) fn restart(&mut self) {
        self.lowest = None;
    }

    /// Returns the baseline itself, so that callers notice when it falls.
    pub(super) fn lowest(&self) -> Option<Duration> {
        self.lowest
    }

    /// Returns `delay` relative to the lowest delay so far.
    pub(super) fn above(&self, delay: Duration) -> Duration {
        self.lowest.map_or(Duration::ZERO, |lowest| delay - lowest)
    }

    /// Returns the median and the largest growth of delay within a stream.
    pub(super) fn added(&self) -> Option<(Duration, Duration)> {
        let mut grown = self.grown.clone();
        grown.sort_unstable();
        Some((*grown.get(grown.len() / 2)?, *grown.last()?))
    }
}
