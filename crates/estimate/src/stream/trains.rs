//! Trains: packets sent at once, of which all but the first and the last may be hidden (wan 2.15, 2.17).

use headway_units::{Bytes, Duration, Instant};

/// The composition of one train: a first packet, `hidden` packets that die after `hops` links, and a last
/// packet. A train without hidden packets is a pair.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Train {
    /// Number of hidden packets, at most [`Train::MAX_HIDDEN`].
    pub hidden: u8,
    /// TTL or hop limit of the hidden packets, at least 1; ignored for a pair.
    pub hops: u8,
}

impl Train {
    /// The most hidden packets in a train.
    pub const MAX_HIDDEN: u8 = 30;

    /// A train without hidden packets.
    pub const PAIR: Train = Train { hidden: 0, hops: 0 };

    /// Returns the number of packets.
    pub const fn packets(self) -> usize {
        self.hidden as usize + 2
    }
}

/// The trains to send in one stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrainSchedule {
    /// Size of each packet on the wire.
    pub packet: Bytes,
    /// The trains, in sending order.
    pub trains: Vec<Train>,
    /// Times from the start of each train to the start of the next one, one fewer than trains.
    pub gaps: Vec<Duration>,
}

impl TrainSchedule {
    /// Returns the number of packets of all trains.
    pub fn packets(&self) -> usize {
        self.trains.iter().map(|train| train.packets()).sum()
    }

    /// Returns the bytes of all packets on the wire.
    pub(crate) fn bytes(&self) -> Bytes {
        self.packet * self.packets() as u64
    }

    /// Returns the time from the first train to the last one.
    pub fn duration(&self) -> Duration {
        self.gaps.iter().copied().sum()
    }
}

/// The observation of one train.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TrainRecord {
    /// The train as requested.
    pub train: Train,
    /// Departures of the first and the last packet, on the sender's clock.
    pub sent: [Instant; 2],
    /// Arrivals of the first and the last packet, on the receiver's clock; `None` for a packet that was lost.
    pub received: [Option<Instant>; 2],
    /// Hidden packets that arrived.
    pub hidden_seen: u8,
}

impl TrainRecord {
    /// Returns the time between the departures of first and last packet.
    pub fn sent_gap(&self) -> Duration {
        self.sent[1] - self.sent[0]
    }

    /// Returns the arrivals of first and last packet, if both arrived and in this order.
    pub fn arrivals(&self) -> Option<[Instant; 2]> {
        match self.received {
            [Some(first), Some(last)] if last >= first => Some([first, last]),
            _ => None,
        }
    }

    /// Whether first and last packet both arrived, but in the wrong order.
    pub fn is_reordered(&self) -> bool {
        matches!(self.received, [Some(first), Some(last)] if last < first)
    }

    /// Whether the first or the last packet was lost.
    pub fn is_lost(&self) -> bool {
        self.received.contains(&None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_schedule_counts_hidden_packets() {
        let train = Train { hidden: 5, hops: 3 };
        let schedule = TrainSchedule {
            packet: Bytes::new(1538),
            trains: vec![train, Train::PAIR, train],
            gaps: vec![Duration::from_ms(3), Duration::from_ms(4)],
        };
        assert_eq!((schedule.packets(), schedule.bytes().get()), (16, 16 * 1538));
        assert_eq!(schedule.duration(), Duration::from_ms(7));
    }

    #[test]
    fn only_complete_trains_in_order_have_arrivals() {
        let at = Instant::from_ns;
        let record =
            |received| TrainRecord { train: Train::PAIR, sent: [at(1), at(6)], received, hidden_seen: 0 };
        let whole = record([Some(at(10)), Some(at(50))]);
        assert_eq!((whole.arrivals(), whole.sent_gap()), (Some([at(10), at(50)]), Duration::from_ns(5)));
        let swapped = record([Some(at(50)), Some(at(10))]);
        assert!(swapped.is_reordered() && !swapped.is_lost() && swapped.arrivals().is_none());
        let lost = record([None, Some(at(10))]);
        assert!(lost.is_lost() && !lost.is_reordered() && lost.arrivals().is_none());
    }
}
