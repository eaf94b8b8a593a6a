//! Service disciplines: how fast a link serves its queue.

use headway_core::queue::{Shaper, SteppedServer};
use headway_core::{Bytes, Duration, Instant, Rate};

use crate::config::Service;

/// Wire bytes of one opportunity in a capacity trace: a packet of 1500 bytes of IP.
const TRACE_PACKET: u64 = 1538;

/// The server of a queue, which computes departure times. Packets must be passed in order.
#[derive(Clone, Debug)]
pub(crate) enum Server {
    Unlimited,
    Constant(Constant),
    Steps(Box<SteppedServer>),
    TokenBucket(Shaper, Rate),
    Trace(Trace),
}

impl Server {
    pub(crate) fn new(service: &Service) -> Server {
        match service {
            Service::Unlimited => Server::Unlimited,
            Service::Constant(rate) => Server::Constant(Constant::new(*rate)),
            Service::Steps(rates) => Server::Steps(Box::new(SteppedServer::new(rates.clone()))),
            Service::TokenBucket { rate, burst, peak } => {
                Server::TokenBucket(Shaper::new(*rate, *burst, *peak), *rate)
            }
            Service::Trace { opportunities, period } => Server::Trace(Trace::new(opportunities, *period)),
        }
    }

    /// Returns when the transmission of a packet ends that can start at `start` (ns).
    #[inline(always)]
    pub(crate) fn finish(&mut self, start: u64, size: u16) -> u64 {
        match self {
            Server::Unlimited => start,
            Server::Constant(constant) => constant.finish(start, size),
            Server::Steps(server) => server.finish(start, size),
            Server::TokenBucket(shaper, _) => {
                shaper.departure(Instant::from_ns(start), Bytes::new(size.into())).ns()
            }
            Server::Trace(trace) => trace.finish(start, size),
        }
    }

    /// Returns the server if its rate is constant.
    #[inline]
    pub(crate) fn constant(&mut self) -> Option<&mut Constant> {
        match self {
            Server::Constant(constant) => Some(constant),
            _ => None,
        }
    }

    /// Returns the spacing of back-to-back packets of `size` wire bytes; `None` when it depends on the time.
    pub(crate) fn spacing(&self, size: u16) -> Option<Spacing> {
        match self {
            Server::Constant(constant) if constant.spacing.size == size => Some(constant.spacing),
            Server::Constant(constant) => Some(Spacing::new(constant.rate, size)),
            _ => None,
        }
    }

    /// Returns the bytes transmitted in `time` (ns), rounded down; zero unless the rate is constant.
    #[inline]
    pub(crate) fn bytes_in(&self, time: u64) -> u64 {
        match self {
            Server::Constant(constant) => (time as f64 * constant.bytes_per_ns) as u64,
            _ => 0,
        }
    }

    /// Returns the longest time (ns) in which at most `bytes` are transmitted according to [`Server::bytes_in`];
    /// `None` when that depends on the time.
    pub(crate) fn max_time_for(&self, bytes: u64) -> Option<u64> {
        if !matches!(self, Server::Unlimited | Server::Constant(_)) {
            return None;
        }
        let (mut low, mut high) = (0, u64::MAX >> 1);
        while low < high {
            let middle = low + (high - low).div_ceil(2);
            if self.bytes_in(middle) <= bytes { low = middle } else { high = middle - 1 }
        }
        Some(low)
    }

    /// Estimates how long a backlog of `bytes` takes from `start` (ns); zero for a trace, whose future rate a queue
    /// cannot know.
    pub(crate) fn estimate(&self, start: u64, bytes: u64) -> u64 {
        let rate = match self {
            Server::Unlimited | Server::Trace(_) => return 0,
            Server::Constant(constant) => Rate::from_bps(constant.rate),
            Server::Steps(server) => {
                let time = server.rates().time_for(Instant::from_ns(start), Bytes::new(bytes));
                return time.ns().unsigned_abs();
            }
            Server::TokenBucket(_, rate) => *rate,
        };
        rate.time_for(Bytes::new(bytes)).ns().unsigned_abs()
    }

    /// Returns the wire bytes that can be transmitted between two instants; `None` when the rate is unlimited.
    pub(crate) fn capacity(&self, from: Instant, to: Instant) -> Option<Bytes> {
        match self {
            Server::Unlimited => None,
            Server::Constant(constant) => Some(Rate::from_bps(constant.rate).bytes_in(to - from)),
            Server::Steps(server) => Some(server.rates().bytes_between(from, to)),
            Server::TokenBucket(_, rate) => Some(rate.bytes_in(to - from)),
            Server::Trace(trace) => {
                let packets = trace.before(to.ns()).saturating_sub(trace.before(from.ns()));
                Some(Bytes::new(packets * TRACE_PACKET))
            }
        }
    }
}

/// A constant rate. The remainder of rounding down to nanoseconds is carried, so that the long-run rate is exact.
#[derive(Clone, Debug)]
pub(crate) struct Constant {
    /// Bits per second.
    rate: u64,
    /// Carried remainder, in units of 1/rate ns, below `rate`.
    carry: u64,
    bytes_per_ns: f64,
    /// The spacing of the packet size served last.
    spacing: Spacing,
}

/// The spacing of back-to-back packets: time from the end of one transmission to the end of the next.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spacing {
    /// Bits per second.
    rate: u64,
    pub(crate) size: u16,
    /// Whole nanoseconds, and the remainder in units of 1/rate ns.
    whole: u64,
    rest: u64,
}

impl Spacing {
    /// Returns the spacing of packets of `size` wire bytes at `rate` bits per second.
    fn new(rate: u64, size: u16) -> Spacing {
        let work = u64::from(size) * 8_000_000_000;
        Spacing { rate, size, whole: work / rate, rest: work % rate }
    }

    /// Returns when the transmission of the next packet ends after one that ends at `at` (ns), and updates the
    /// remainder `carry`.
    #[inline(always)]
    pub(crate) fn after(&self, at: u64, carry: &mut u64) -> u64 {
        *carry += self.rest;
        let over = *carry >= self.rate;
        if over {
            *carry -= self.rate;
        }
        at + self.whole + u64::from(over)
    }

    /// Returns an upper bound of the time that `count` packets take (ns).
    pub(crate) fn upper_bound(&self, count: u64) -> u64 {
        (self.whole + 1) * count
    }
}

impl Constant {
    fn new(rate: Rate) -> Constant {
        Constant {
            rate: rate.bps(),
            bytes_per_ns: rate.bps_f64() / 8e9,
            carry: 0,
            spacing: Spacing { rate: rate.bps(), size: 0, whole: 0, rest: 0 },
        }
    }

    /// Returns the spacing of packets of `size` wire bytes.
    #[inline(always)]
    fn spacing(&mut self, size: u16) -> Spacing {
        if size != self.spacing.size {
            self.spacing = Spacing::new(self.rate, size);
        }
        self.spacing
    }

    #[inline(always)]
    fn finish(&mut self, start: u64, size: u16) -> u64 {
        self.spacing(size).after(start, &mut self.carry)
    }

    /// Transmits `count` packets of `size` wire bytes, at least one, from `start` (ns).
    pub(crate) fn finish_train(&mut self, start: u64, size: u16, count: u64) -> Served {
        let spacing = self.spacing(size);
        let first = spacing.after(start, &mut self.carry);
        let carry = self.carry;
        let (mut last, mut last_start, mut waits) = (first, start, 0);
        for _ in 1..count {
            (last_start, waits) = (last, waits + last - start);
            last = spacing.after(last, &mut self.carry);
        }
        Served { first, carry, last_start, last, waits }
    }
}

/// The transmission times of a train (ns).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Served {
    /// When the transmission of the first packet ends, and the remainder then.
    pub(crate) first: u64,
    pub(crate) carry: u64,
    /// When the transmission of the last packet begins and ends.
    pub(crate) last_start: u64,
    pub(crate) last: u64,
    /// The sum over all packets of the time from the start of the first to their own.
    pub(crate) waits: u64,
}

/// Transmission opportunities from a recorded trace.
#[derive(Clone, Debug)]
pub(crate) struct Trace {
    /// Times within the period (ns), ascending.
    opportunities: Box<[u64]>,
    period: u64,
    /// Number of the next unused opportunity, counted from time zero.
    next: u64,
    /// Bytes left in the opportunity used last, and its time.
    left: u64,
    last: u64,
}

impl Trace {
    fn new(opportunities: &[Duration], period: Duration) -> Trace {
        let opportunities = opportunities.iter().map(|time| time.ns().unsigned_abs()).collect();
        Trace { opportunities, period: period.ns().unsigned_abs(), next: 0, left: 0, last: 0 }
    }

    /// Returns the number of opportunities before `time` (ns).
    fn before(&self, time: u64) -> u64 {
        // The end of a period belongs to it, since its last opportunity may be there.
        let (turns, within) = match time.checked_sub(1) {
            None => (0, 0),
            Some(last) => (last / self.period, last % self.period + 1),
        };
        let within = self.opportunities.partition_point(|opportunity| *opportunity < within);
        turns * self.opportunities.len() as u64 + within as u64
    }

    fn time(&self, number: u64) -> u64 {
        let count = self.opportunities.len() as u64;
        number / count * self.period + self.opportunities[(number % count) as usize]
    }

    /// Returns the time of the opportunity that carries the packet's last byte; opportunities that pass while the
    /// queue is idle are lost.
    fn finish(&mut self, start: u64, size: u16) -> u64 {
        if start > self.last {
            self.left = 0;
            self.next = self.next.max(self.before(start));
        }
        let size = u64::from(size);
        while self.left < size {
            self.left += TRACE_PACKET;
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
    fn the_long_run_rate_is_exact() {
        for rate in [7, 999_999_937, 10_000_000_000, 3_333_333_333] {
            let mut server = Constant::new(Rate::from_bps(rate));
            let sizes = [1538u16, 78, 9038, 66];
            let mut now = 0;
            let mut bits = 0u64;
            for i in 0..40_000 {
                now = server.finish(now, sizes[i % 4]);
                bits += u64::from(sizes[i % 4]) * 8;
            }
            assert_eq!(u128::from(now), u128::from(bits) * 1_000_000_000 / u128::from(rate), "{rate} b/s");
        }
    }

    #[test]
    fn a_trace_sends_one_packet_an_opportunity_and_repeats() {
        let ms = |ms| Duration::from_ms(ms);
        let mut trace = Trace::new(&[ms(1), ms(2), ms(2), ms(5)], ms(5));
        let finishes: Vec<u64> = (0..6).map(|_| trace.finish(0, 1538) / 1_000_000).collect();
        assert_eq!(finishes, [1, 2, 2, 5, 6, 7]);
        assert_eq!(trace.finish(11_500_000, 1000) / 1_000_000, 12);
        assert_eq!(trace.finish(11_500_000, 538) / 1_000_000, 12);
        assert_eq!(trace.finish(11_500_000, 1000) / 1_000_000, 12);
        assert_eq!(trace.finish(11_500_000, 1000) / 1_000_000, 15);
        assert_eq!(trace.finish(20_000_000, 1538) / 1_000_000, 20);
    }
}
