//! From arrivals to triplets of two one-way delays and a dispersion.

use std::fmt;

use super::Pairs;
use crate::stream::{Arrival, StreamRecord};
use headway_units::{Duration, Instant};

/// A pair whose second packet left later than this many median gaps was interrupted at the sender.
const LATE: i64 = 2;

/// The reason why a pair is not used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, thiserror::Error)]
pub enum PairFault {
    /// One or both packets never arrived.
    #[error("packets lost")]
    Lost,
    /// The second packet arrived first, or both at once.
    #[error("packets reordered")]
    Reordered,
    /// A packet arrived twice.
    #[error("packets duplicated")]
    Duplicated,
    /// The sender left much more time between the packets than in other pairs.
    #[error("sender interrupted")]
    Late,
}

/// The number of pairs that could not be used, by reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Dropped {
    /// Pairs of which a packet was lost.
    pub lost: usize,
    /// Pairs in the wrong order.
    pub reordered: usize,
    /// Pairs with a packet that came twice.
    pub duplicated: usize,
    /// Pairs that the sender interrupted.
    pub late: usize,
}

impl Dropped {
    /// Counts a pair.
    pub(crate) fn count(&mut self, fault: PairFault) {
        match fault {
            PairFault::Lost => self.lost += 1,
            PairFault::Reordered => self.reordered += 1,
            PairFault::Duplicated => self.duplicated += 1,
            PairFault::Late => self.late += 1,
        }
    }

    /// Returns the number of all pairs that were not used.
    pub(crate) fn total(&self) -> usize {
        self.lost + self.reordered + self.duplicated + self.late
    }
}

impl fmt::Display for Dropped {
    /// Names the reasons that occurred: `3 packets lost, 1 packets reordered`; nothing if none did.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let faults = [
            (self.lost, PairFault::Lost),
            (self.reordered, PairFault::Reordered),
            (self.duplicated, PairFault::Duplicated),
            (self.late, PairFault::Late),
        ];
        let occurred = faults.iter().filter(|fault| fault.0 > 0);
        let text: Vec<String> = occurred.map(|(count, fault)| format!("{count} {fault}")).collect();
        f.write_str(&text.join(", "))
    }
}

/// A pair that arrived (wan 2.15).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Triplet {
    /// When the first packet left, on the sender's clock.
    pub sent: Instant,
    /// Time between the departures, d_in.
    pub gap: Duration,
    /// One-way delay of the first packet, OWD1; only differences between pairs mean something.
    pub first: Duration,
    /// One-way delay of the second packet, OWD2, by the same clocks.
    pub second: Duration,
    /// Time between the arrivals, tau.
    pub dispersion: Duration,
}

impl Triplet {
    /// Computes the triplet of two packets of which all four times are known.
    ///
    /// # Errors
    /// [`PairFault::Lost`] or [`PairFault::Reordered`].
    pub(crate) fn of(first: &Arrival, second: &Arrival) -> Result<Triplet, PairFault> {
        let (Some(arrived_first), Some(arrived_second)) = (first.received, second.received) else {
            return Err(PairFault::Lost);
        };
        let dispersion = arrived_second - arrived_first;
        if dispersion <= Duration::ZERO {
            return Err(PairFault::Reordered);
        }
        Ok(Triplet {
            sent: first.sent,
            gap: second.sent - first.sent,
            first: arrived_first - first.sent,
            second: arrived_second - second.sent,
            dispersion,
        })
    }
}

impl Pairs {
    /// Adds a pair, or the first and last packet of a train.
    ///
    /// # Errors
    /// Says why it cannot be used; it is then counted.
    pub(crate) fn push(&mut self, first: &Arrival, second: &Arrival) -> Result<(), PairFault> {
        let triplet = Triplet::of(first, second);
        match triplet {
            Ok(triplet) => self.triplets.push(triplet),
            Err(fault) => self.dropped.count(fault),
        }
        triplet.map(|_| ())
    }

    /// Adds all pairs, or trains, of a stream: packets 2i and 2i + 1 are a pair, and so on for trains.
    ///
    /// What became of hidden packets does not matter. An index that occurs twice is a packet that arrived
    /// twice; all entries of an index must be adjacent. Pairs that the sender interrupted are dropped, in
    /// comparison with the others of the stream.
    pub fn add_stream(&mut self, record: &StreamRecord) {
        let before = self.triplets.len();
        let packets = self.hidden + 2;
        let together = |a: &Arrival, b: &Arrival| a.index / packets == b.index / packets;
        for train in record.arrivals.chunk_by(together) {
            let ends = |arrival: &&Arrival| [0, packets - 1].contains(&(arrival.index % packets));
            match train.iter().filter(ends).collect::<Vec<_>>()[..] {
                [first, last] if first.index != last.index => {
                    // A fault is counted; the stream has other pairs.
                    let _ = self.push(first, last);
                }
                [] | [_] => self.dropped.count(PairFault::Lost),
                _ => self.dropped.count(PairFault::Duplicated),
            }
        }
        self.drop_late(before);
    }

    /// Drops pairs from `start` on that left with too large a gap: their second packet would seem fast.
    fn drop_late(&mut self, start: usize) {
        let mut gaps: Vec<Duration> = self.triplets[start..].iter().map(|triplet| triplet.gap).collect();
        gaps.sort_unstable();
        let Some(median) = gaps.get(gaps.len().saturating_sub(1) / 2) else { return };
        let most = (*median * LATE).max(self.settings.quantum);
        let before = self.triplets.len();
        let mut index = 0;
        self.triplets.retain(|triplet| {
            index += 1;
            index <= start || triplet.gap <= most
        });
        self.dropped.late += before - self.triplets.len();
    }

    /// Returns the number of pairs for which tau - d_in differs from OWD2 - OWD1 by `quanta` stamp quanta or
    /// more: a check of stamps and arithmetic (wan F57).
    pub fn identity_violations(&self, quanta: i64) -> usize {
        let off = |triplet: &&Triplet| {
            let difference = triplet.dispersion - triplet.gap - (triplet.second - triplet.first);
            difference.ns().abs() >= self.settings.quantum.ns() * quanta
        };
        self.triplets.iter().filter(off).count()
    }
}
