//! A server that follows a capacity trace.

use headway_units::{Bytes, Duration, Instant};

/// Wire bytes of one opportunity: a packet of 1500 bytes of IP.
const PACKET: u64 = 1538;

/// Transmission opportunities from a recorded trace.
#[derive(Clone, Debug)]
pub struct Trace {
    /// The time from which those of the trace count (ns).
    origin: u64,
    /// Times within the period (ns), ascending.
    opportunities: Box<[u64]>,
    period: u64,
    /// Number of the next unused opportunity, counted from the origin.
    next: u64,
    /// Bytes left in the opportunity used last, and its time.
    left: u64,
    last: u64,
}

impl Trace {
    pub(crate) fn new(opportunities: &[Duration], period: Duration, origin: Instant) -> Trace {
        let opportunities = opportunities.iter().map(|time| time.ns().unsigned_abs()).collect();
        Trace {
            origin: origin.ns(),
            opportunities,
            period: period.ns().unsigned_abs(),
            next: 0,
            left: 0,
            last: 0,
        }
    }

    /// Returns the wire bytes of the opportunities between two instants.
    pub(crate) fn bytes_between(&self, from: Instant, to: Instant) -> Bytes {
        Bytes::new(self.before(to.ns()).saturating_sub(self.before(from.ns())) * PACKET)
    }

    /// Returns the number of opportunities before `time` (ns).
    fn before(&self, time: u64) -> u64 {
        // The end of a period belongs to it, since its last opportunity may be there.
        let (turns, within) = match time.saturating_sub(self.origin).checked_sub(1) {
            None => (0, 0),
            Some(last) => (last / self.period, last % self.period + 1),
        };
        let within = self.opportunities.partition_point(|opportunity| *opportunity < within);
        turns * self.opportunities.len() as u64 + within as u64
    }

    fn time(&self, number: u64) -> u64 {
        let count = self.opportunities.len() as u64;
        self.origin + number / count * self.period + self.opportunities[(number % count) as usize]
    }

    /// Returns the time of the opportunity that carries the packet's last byte; opportunities that pass while
    /// the queue is idle are lost.
    pub(crate) fn finish(&mut self, start: u64, size: u16) -> u64 {
        if start > self.last {
            self.left = 0;
            self.next = self.next.max(self.before(start));
        }
        let size = u64::from(size);
        while self.left < size {
            self.left += PACKET;
            self.last = self.time(self.next);
            self.next += 1;
        }
        self.left -= size;
        self.last
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trace_sends_one_packet_an_opportunity_and_repeats() {
        let ms = |ms| Duration::from_ms(ms);
        let mut trace = Trace::new(&[ms(1), ms(2), ms(2), ms(5)], ms(5), Instant::ZERO);
        let finishes: Vec<u64> = (0..6).map(|_| trace.finish(0, 1538) / 1_000_000).collect();
        assert_eq!(finishes, [1, 2, 2, 5, 6, 7]);
        assert_eq!(trace.finish(11_500_000, 1000) / 1_000_000, 12);
        assert_eq!(trace.finish(11_500_000, 538) / 1_000_000, 12);
        assert_eq!(trace.finish(11_500_000, 1000) / 1_000_000, 12);
        assert_eq!(trace.finish(11_500_000, 1000) / 1_000_000, 15);
        assert_eq!(trace.finish(20_000_000, 1538) / 1_000_000, 20);
    }
}
