//! Servers: how fast a link serves its queue.

use headway_queue::Shaper;
use headway_units::{Bytes, Duration, Instant, Rate, RateSteps};

use crate::constant::{Constant, Spacing};
use crate::steps::SteppedServer;
use crate::trace::Trace;

/// How fast a link serves its queue.
#[derive(Clone, Debug, PartialEq)]
pub enum Service {
    /// No limit: transmission takes no time.
    Unlimited,
    /// A constant rate of wire bytes.
    Constant(Rate),
    /// A rate of wire bytes that changes at given times of the run.
    Steps(RateSteps),
    /// A token bucket: long-run rate, bucket size in wire bytes (wan 2.6).
    TokenBucket {
        /// Rate at which tokens arrive.
        rate: Rate,
        /// Size of the bucket.
        burst: Bytes,
        /// Rate and size of a second bucket, which limits the rate of bursts; if `None`, they leave at once.
        peak: Option<(Rate, Bytes)>,
    },
    /// A capacity trace: opportunities to send one packet of up to 1538 wire bytes each, at times
    /// within a repeating period.
    Trace {
        /// Times of the opportunities, ascending, the last one at most `period`.
        opportunities: Vec<Duration>,
        /// Length of the period, after which the trace repeats.
        period: Duration,
    },
}

/// The server of a queue, which computes departure times. Packets must be passed in order.
#[derive(Clone, Debug)]
pub enum Server {
    /// Transmission takes no time.
    Unlimited,
    /// At a constant rate.
    Constant(Constant),
    /// At a rate that changes at given times.
    Steps(Box<SteppedServer>),
    /// Through a token bucket with this long-run rate.
    TokenBucket(Shaper, Rate),
    /// At the opportunities of a trace.
    Trace(Trace),
}

impl Server {
    /// Creates an idle server. The times of a trace count from `origin`; those of steps have their own.
    pub fn new(service: &Service, origin: Instant) -> Server {
        match service {
            Service::Unlimited => Server::Unlimited,
            Service::Constant(rate) => Server::Constant(Constant::new(*rate)),
            Service::Steps(rates) => Server::Steps(Box::new(SteppedServer::new(rates.clone()))),
            Service::TokenBucket { rate, burst, peak } => {
                Server::TokenBucket(Shaper::new(*rate, *burst, *peak), *rate)
            }
            Service::Trace { opportunities, period } => {
                Server::Trace(Trace::new(opportunities, *period, origin))
            }
        }
    }

    /// Returns when the transmission of a packet ends that can start at `start` (ns).
    #[inline(always)]
    pub fn finish(&mut self, start: u64, size: u16) -> u64 {
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
    pub fn constant(&mut self) -> Option<&mut Constant> {
        match self {
            Server::Constant(constant) => Some(constant),
            _ => None,
        }
    }

    /// Returns the spacing of back-to-back packets of `size` wire bytes; `None` when it depends on the time.
    pub fn spacing(&self, size: u16) -> Option<Spacing> {
        match self {
            Server::Constant(constant) if constant.spacing.size == size => Some(constant.spacing),
            Server::Constant(constant) => Some(Spacing::new(constant.rate, size)),
            _ => None,
        }
    }

    /// Returns the bytes transmitted in `time` (ns), rounded down; zero unless the rate is constant.
    pub(crate) fn bytes_in(&self, time: u64) -> u64 {
        match self {
            Server::Constant(constant) => (time as f64 * constant.bytes_per_ns) as u64,
            _ => 0,
        }
    }

    /// Returns the longest time (ns) in which at most `bytes` are transmitted according to
    /// [`Server::bytes_in`]; `None` when that depends on the time.
    pub fn max_time_for(&self, bytes: u64) -> Option<u64> {
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

    /// Estimates how long a backlog of `bytes` takes from `start` (ns); zero for a trace, whose future rate
    /// a queue cannot know.
    pub fn estimate(&self, start: u64, bytes: u64) -> u64 {
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

    /// Returns the wire bytes that can be transmitted between two instants; `None` when
    /// the rate is unlimited.
    pub fn capacity(&self, from: Instant, to: Instant) -> Option<Bytes> {
        match self {
            Server::Unlimited => None,
            Server::Constant(constant) => Some(Rate::from_bps(constant.rate).bytes_in(to - from)),
            Server::Steps(server) => Some(server.rates().bytes_between(from, to)),
            Server::TokenBucket(_, rate) => Some(rate.bytes_in(to - from)),
            Server::Trace(trace) => Some(trace.bytes_between(from, to)),
        }
    }

    /// Returns the mean rate between two instants, the second one later; `None` when it is unlimited.
    pub fn mean(&self, from: Instant, to: Instant) -> Option<Rate> {
        match self {
            Server::Unlimited => None,
            Server::Constant(constant) => Some(Rate::from_bps(constant.rate)),
            Server::Steps(server) => Some(server.rates().mean(from, to)),
            Server::TokenBucket(_, rate) => Some(*rate),
            Server::Trace(trace) => Rate::of(trace.bytes_between(from, to), to - from),
        }
    }

    /// Returns the work done on a packet between two times (ns) at which it is in transmission, in bits times
    /// 10^9; zero where it leaves all at once.
    pub fn work_between(&self, from: u64, to: u64) -> u128 {
        match self {
            Server::Constant(constant) => u128::from(constant.rate) * u128::from(to.saturating_sub(from)),
            Server::Steps(server) => server.rates().work_between(from, to),
            _ => 0,
        }
    }

    /// Whether [`Server::estimate`] is the time that packets take, rounded down, if they
    /// wait for nothing else.
    pub fn is_predictable(&self) -> bool {
        matches!(self, Server::Unlimited | Server::Constant(_) | Server::Steps(_))
    }
}
