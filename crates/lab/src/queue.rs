//! A drop-tail queue in front of a wire of constant rate, in exact integer arithmetic.

use headway_core::units::WIRE_OVERHEAD;
use headway_core::{Bytes, Instant, Rate};

const NS: u64 = 1_000_000_000;

/// The size on the wire of a packet whose IP length is `ip`.
pub const fn wire_size(ip: u64) -> Bytes {
    Bytes::new(ip + WIRE_OVERHEAD.get())
}

/// When a packet occupies the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Service {
    /// The first bit leaves.
    pub start: Instant,
    /// The last bit has left.
    pub finish: Instant,
}

/// A FIFO of bytes that drains at a constant rate and refuses what does not fit.
///
/// Its backlog counts what has not left yet, including the rest of the packet in service.
/// The fraction of a nanosecond that a packet takes is carried over, so the long-run rate is exact.
#[derive(Clone, Debug)]
pub struct Queue {
    rate: u64,
    limit: u64,
    /// When the wire falls free: `free` nanoseconds and `part / rate` of one more.
    free: u64,
    part: u64,
    /// What was queued before the last change of rate leaves until then, at `old_rate` on average.
    switch: u64,
    old_rate: u64,
}

impl Queue {
    /// An empty queue that drains at `rate` (which must not be zero) and holds at most `limit`.
    pub fn new(rate: Rate, limit: Bytes) -> Queue {
        Queue { rate: rate.bps().max(1), limit: limit.get(), free: 0, part: 0, switch: 0, old_rate: 0 }
    }

    /// Changes rate and limit at `now` for packets to come; what is queued leaves as it was promised.
    pub fn change(&mut self, now: Instant, rate: Rate, limit: Bytes) {
        let left = u128::from(self.free.saturating_sub(now.ns()));
        self.old_rate = self.scaled_backlog(now).checked_div(left).unwrap_or(0) as u64;
        self.switch = self.free;
        self.part = 0;
        self.rate = rate.bps().max(1);
        self.limit = limit.get();
    }

    /// Takes a packet of `size` on the wire that arrives at `now`; `None` when the buffer has no room for all of it.
    ///
    /// Arrival times must not decrease.
    pub fn push(&mut self, now: Instant, size: Bytes) -> Option<Service> {
        let bits = size.get() * 8;
        if self.scaled_backlog(now) + u128::from(bits) * u128::from(NS)
            > u128::from(self.limit) * 8 * u128::from(NS)
        {
            return None;
        }
        if self.free <= now.ns() {
            self.free = now.ns();
            self.part = 0;
        }
        let start = Instant::from_ns(self.free);
        let work = self.part + bits * NS;
        self.free += work / self.rate;
        self.part = work % self.rate;
        Some(Service { start, finish: Instant::from_ns(self.free) })
    }

    /// What has not left at `now`.
    pub fn backlog(&self, now: Instant) -> Bytes {
        unscale(self.scaled_backlog(now))
    }

    /// The backlog in bits times 10^9, which needs no division.
    pub(crate) fn scaled_backlog(&self, now: Instant) -> u128 {
        if now.ns() >= self.free {
            return 0;
        }
        let (old, new) = (self.switch.saturating_sub(now.ns()), self.free - self.switch.max(now.ns()));
        u128::from(old) * u128::from(self.old_rate)
            + u128::from(new) * u128::from(self.rate)
            + u128::from(self.part)
    }
}

/// Bytes, rounded up, from bits times 10^9.
pub(crate) fn unscale(backlog: u128) -> Bytes {
    Bytes::new(backlog.div_ceil(8 * u128::from(NS)) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use headway_core::Duration;

    #[test]
    fn a_million_packets_leave_at_exactly_the_rate() {
        for (mbps, size) in [(7.0, 1538), (97.3, 1538), (500.0, 102), (3.0, 9038)] {
            let rate = Rate::from_mbps(mbps);
            let mut queue = Queue::new(rate, Bytes::new(u64::MAX / 16));
            let mut finish = Instant::ZERO;
            for _ in 0..1_000_000 {
                finish = queue.push(Instant::ZERO, Bytes::new(size)).unwrap().finish;
            }
            let exact = u128::from(size) * 8 * 1_000_000 * u128::from(NS) / u128::from(rate.bps());
            assert_eq!(u128::from(finish.ns()), exact);
        }
    }

    #[test]
    fn drop_tail_is_exact_at_the_byte_limit() {
        let mut queue = Queue::new(Rate::from_mbps(100.0), Bytes::new(3 * 1538));
        let now = Instant::from_ns(1_000_000);
        for _ in 0..3 {
            assert!(queue.push(now, Bytes::new(1538)).is_some());
        }
        assert_eq!(queue.backlog(now), Bytes::new(3 * 1538));
        assert!(queue.push(now, Bytes::new(1)).is_none());
        // One byte takes 80 ns at 100 Mb/s.
        let later = now + Duration::from_ns(80 * 102);
        assert!(queue.push(later, Bytes::new(103)).is_none());
        assert!(queue.push(later, Bytes::new(102)).is_some());
    }

    #[test]
    fn an_idle_wire_starts_at_the_arrival() {
        let mut queue = Queue::new(Rate::from_mbps(100.0), Bytes::new(10_000));
        let service = queue.push(Instant::from_ns(500), Bytes::new(1250)).unwrap();
        assert_eq!(service, Service { start: Instant::from_ns(500), finish: Instant::from_ns(100_500) });
        let service = queue.push(Instant::from_ns(100_400), Bytes::new(125)).unwrap();
        assert_eq!(service.start, Instant::from_ns(100_500));
        assert_eq!(queue.backlog(Instant::from_ns(9_000_000)), Bytes::ZERO);
    }

    #[test]
    fn a_change_of_rate_keeps_what_was_promised() {
        let mut queue = Queue::new(Rate::from_mbps(10.0), Bytes::new(10_000));
        let first = queue.push(Instant::ZERO, Bytes::new(1250)).unwrap();
        queue.change(Instant::ZERO, Rate::from_mbps(100.0), Bytes::new(2_500));
        assert_eq!(queue.backlog(Instant::ZERO), Bytes::new(1250));
        let second = queue.push(Instant::ZERO, Bytes::new(1250)).unwrap();
        assert_eq!(queue.backlog(Instant::ZERO), Bytes::new(2500));
        assert_eq!(second.start, first.finish);
        assert_eq!(second.finish - second.start, Duration::from_us(100));
    }
}
