//! The segments in flight, as a tap near the sender knows them.

use std::collections::VecDeque;

use headway_units::Instant;

/// Segments remembered; of a larger flight the rest is not timed.
const MOST: usize = 1_024;

#[derive(Clone, Copy, Debug)]
struct Entry {
    begin: u32,
    /// The number behind its last byte.
    end: u32,
    at: Instant,
    retransmitted: bool,
}

/// The segments in flight with the times at which they passed the tap.
#[derive(Clone, Debug, Default)]
pub(super) struct Flight {
    entries: VecDeque<Entry>,
    /// The number behind the last byte sent, once data were seen.
    next: Option<u32>,
}

/// What an ACK tells about the segments it acknowledges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Acknowledged {
    /// When the last of them was sent; `None` if that was not seen.
    pub(super) sent: Option<Instant>,
    /// Whether one of them was sent again.
    pub(super) retransmitted: bool,
}

/// Whether `a` comes before `b` among sequence numbers, which wrap.
pub(super) const fn before(a: u32, b: u32) -> bool {
    (a.wrapping_sub(b) as i32) < 0
}

impl Flight {
    /// Takes a segment with data from `begin` to before `end`; returns whether its end was sent before.
    pub(super) fn send(&mut self, at: Instant, begin: u32, end: u32) -> bool {
        if self.next.is_some_and(|next| !before(next, end)) {
            let first = self.entries.partition_point(|entry| before(entry.end, end));
            if let Some(entry) = self.entries.get_mut(first) {
                entry.retransmitted = true;
            }
            return true;
        }
        self.next = Some(end);
        if self.entries.len() < MOST {
            self.entries.push_back(Entry { begin, end, at, retransmitted: false });
        }
        false
    }

    /// Returns when the first of the segments in flight was sent; `None` if there are none,
    /// or it was sent again.
    pub(super) fn oldest(&self) -> Option<Instant> {
        self.entries.front().filter(|entry| !entry.retransmitted).map(|entry| entry.at)
    }

    /// Forgets the segments before `number`.
    pub(super) fn acknowledge(&mut self, number: u32) -> Acknowledged {
        let mut all = Acknowledged { sent: None, retransmitted: false };
        while let Some(entry) = self.entries.front().copied() {
            if before(number, entry.end) {
                // A packet captured before segmentation may be acknowledged in parts.
                if !before(number, entry.begin) && number != entry.begin {
                    all.sent = Some(entry.at);
                    all.retransmitted |= entry.retransmitted;
                }
                break;
            }
            all.sent = (entry.end == number).then_some(entry.at);
            all.retransmitted |= entry.retransmitted;
            self.entries.pop_front();
        }
        if self.next.is_some_and(|next| before(next, number)) {
            self.next = Some(number);
        }
        all
    }

    /// Returns the number behind the last byte sent.
    pub(super) fn next(&self) -> Option<u32> {
        self.next
    }

    pub(super) fn memory(&self) -> usize {
        self.entries.capacity() * size_of::<Entry>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn us(us: u64) -> Instant {
        Instant::from_ns(us * 1_000)
    }

    #[test]
    fn an_ack_is_matched_with_its_last_segment_across_the_wrap() {
        let mut flight = Flight::default();
        let first = u32::MAX - 1_499;
        assert!(!flight.send(us(1), first, first.wrapping_add(1_000)));
        assert!(!flight.send(us(2), first.wrapping_add(1_000), 500));
        assert_eq!(flight.acknowledge(500), Acknowledged { sent: Some(us(2)), retransmitted: false });
        assert_eq!(flight.acknowledge(900).sent, None, "never seen");
    }

    #[test]
    fn segments_sent_again_are_not_timed_without_notice() {
        let mut flight = Flight::default();
        flight.send(us(1), 0, 1_000);
        flight.send(us(2), 1_000, 2_000);
        assert!(flight.send(us(9), 0, 1_000));
        assert!(flight.acknowledge(2_000).retransmitted);
    }

    #[test]
    fn a_large_packet_is_acknowledged_in_parts() {
        let mut flight = Flight::default();
        flight.send(us(1), 0, 10_000);
        assert_eq!(flight.acknowledge(4_000).sent, Some(us(1)));
        assert_eq!(flight.acknowledge(10_000).sent, Some(us(1)));
    }

    #[test]
    fn a_large_flight_keeps_its_memory_bounded() {
        let mut flight = Flight::default();
        (0..10_000).for_each(|i| assert!(!flight.send(us(i), i as u32 * 10, i as u32 * 10 + 10)));
        assert!(flight.memory() < 100_000);
        assert_eq!(flight.acknowledge(10).sent, Some(us(0)));
        assert_eq!(flight.acknowledge(100_000).sent, None);
    }
}
