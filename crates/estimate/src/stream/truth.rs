//! What was free while streams were sent, from a capture of the link that they crossed.

use headway_units::{Bytes, Duration, Instant, Rate};

use super::{StreamRecord, TableStream};

/// A packet in a capture behind the bottleneck.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Passage {
    /// When its last bit had passed.
    pub at: Instant,
    /// Size on the wire.
    pub size: Bytes,
    /// Whether it is of the streams, and no cross traffic.
    pub is_probe: bool,
}

/// The capture does not have the packets of the streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{probes} packets of streams are in the capture, but {received} were received")]
pub struct OtherProbes {
    /// Of the streams, in the capture.
    pub probes: usize,
    /// Of the streams, as they say themselves.
    pub received: usize,
}

/// The ground truth B_g (rapid 2.16): the capacity without the cross traffic that passed in a window.
#[derive(Clone, Debug)]
pub struct Truth {
    capacity: Rate,
    /// Ends and lengths of the transmissions of cross traffic, in order.
    cross: Vec<(Instant, Duration)>,
    /// Arrivals at the receiver, in order, and when the same packets passed.
    arrivals: Vec<Instant>,
    passed: Vec<Instant>,
}

impl Truth {
    /// Finds the packets of `streams` in the capture `passages`, both in order of time. Clocks of receiver
    /// and capture need not agree.
    ///
    /// # Errors
    /// [`OtherProbes`] if the capture has more or fewer of them than were received.
    pub fn new(streams: &[TableStream], passages: &[Passage], capacity: Rate) -> Result<Truth, OtherProbes> {
        let packets = streams.iter().flat_map(|stream| &stream.record.arrivals);
        let mut arrivals: Vec<Instant> = packets.filter_map(|packet| packet.received).collect();
        arrivals.sort_unstable();
        let (probes, others): (Vec<Passage>, Vec<Passage>) =
            passages.iter().partition(|passage| passage.is_probe);
        if probes.len() != arrivals.len() {
            return Err(OtherProbes { probes: probes.len(), received: arrivals.len() });
        }
        let passed = probes.iter().map(|probe| probe.at).collect();
        let cross = others.iter().map(|one| (one.at, capacity.time_for(one.size))).collect();
        Ok(Truth { capacity, cross, arrivals, passed })
    }

    /// What was free from the first to the last received packet of a stream; `None` if fewer than two were.
    pub fn of(&self, stream: &StreamRecord) -> Option<Rate> {
        let received = || stream.arrivals.iter().filter_map(|packet| packet.received);
        self.between(self.passage(received().min()?)?, self.passage(received().max()?)?)
    }

    /// What was free from the first to the last packet of all streams.
    pub fn overall(&self) -> Option<Rate> {
        self.between(*self.passed.first()?, *self.passed.last()?)
    }

    /// When the packet that was received at `arrival` passed.
    fn passage(&self, arrival: Instant) -> Option<Instant> {
        let index = self.arrivals.binary_search(&arrival).ok()?;
        self.passed.get(index).copied()
    }

    /// Packets that pass at one end of the window count with the part that passed in it.
    fn between(&self, begin: Instant, end: Instant) -> Option<Rate> {
        let window = end - begin;
        if window <= Duration::ZERO {
            return None;
        }
        let from = self.cross.partition_point(|(at, _)| *at <= begin);
        let mut busy = Duration::ZERO;
        for (at, time) in &self.cross[from..] {
            let (first, last) = ((*at - *time).max(begin), (*at).min(end));
            if *at - *time >= end {
                break;
            }
            busy += last - first;
        }
        let share = 1.0 - busy.ns() as f64 / window.ns() as f64;
        Some(Rate::from_bps_f64(self.capacity.bps_f64() * share.max(0.0)))
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Arrival, StreamRecord};
    use super::*;

    /// Two probes 8 us apart over 1 Gb/s, with cross traffic of 125 B (1 us) that ends at these times in us.
    fn truth(ends: &[u64]) -> (Truth, StreamRecord) {
        let at = |us: u64| Instant::from_ns(us * 1_000);
        let probe = |us| Passage { at: at(us), size: Bytes::new(125), is_probe: true };
        let cross = ends.iter().map(|&us| Passage { is_probe: false, ..probe(us) });
        let passages: Vec<Passage> = [probe(10)].into_iter().chain(cross).chain([probe(18)]).collect();
        // The receiver's clock is ahead by a second.
        let arrival = |us: u64| Arrival { received: Some(at(us + 1_000_000)), ..Arrival::default() };
        let record = StreamRecord { arrivals: vec![arrival(10), arrival(18)], ..StreamRecord::default() };
        let stream = TableStream { record: record.clone(), free: None };
        (Truth::new(&[stream], &passages, Rate::from_bps(1_000_000_000)).unwrap(), record)
    }

    #[test]
    fn what_is_free_is_the_capacity_without_the_cross_traffic_of_the_window() {
        let (two, record) = truth(&[12, 14]);
        assert_eq!(two.of(&record), Some(Rate::from_bps(750_000_000)));
        assert_eq!(two.overall(), two.of(&record));
        assert_eq!(truth(&[]).0.overall(), Some(Rate::from_bps(1_000_000_000)));
        // Before the window, and filling it.
        assert_eq!(truth(&[9, 10]).0.overall(), Some(Rate::from_bps(1_000_000_000)));
        let (full, _) = truth(&[11, 12, 13, 14, 15, 16, 17, 18]);
        assert_eq!(full.overall(), Some(Rate::ZERO));
    }

    #[test]
    fn other_packets_than_those_of_the_streams_are_refused() {
        let (_, record) = truth(&[]);
        let streams = [TableStream { record, free: None }];
        let refused = Truth::new(&streams, &[], Rate::from_bps(1)).unwrap_err();
        assert_eq!(refused, OtherProbes { probes: 0, received: 2 });
    }
}
