//! A source of datagrams, and its sink.

use crate::config::SourceConfig;
use crate::packet::{Kind, Packet};
use crate::statistics::SourceStatistics;
use headway_traffic::{Emission, Generator};

/// Sends the datagrams of its generator, and counts those that arrive.
#[derive(Debug)]
pub(crate) struct Source {
    generator: Generator,
    next: Option<Emission>,
    start: u64,
    stop: u64,
    seq: u64,
    owner: u32,
    route: u32,
    statistics: SourceStatistics,
}

impl Source {
    /// Returns a source that is added at `now` and does not start earlier.
    pub(crate) fn new(config: &SourceConfig, seed: u64, owner: u32, route: u32, now: u64) -> Source {
        let mut generator = config.traffic.generator(seed, owner.into());
        Source {
            next: generator.next(),
            generator,
            start: config.start.ns().max(now),
            stop: config.stop.map_or(u64::MAX, |stop| stop.ns()),
            seq: 0,
            owner,
            route,
            statistics: SourceStatistics::default(),
        }
    }

    /// Returns the index of its route.
    pub(crate) fn route(&self) -> u32 {
        self.route
    }

    /// Returns when the next datagram is sent (ns).
    pub(crate) fn next(&self) -> Option<u64> {
        let at = self.start + self.next?.at.ns().unsigned_abs();
        (at < self.stop).then_some(at)
    }

    /// Returns the datagram sent now, and the time of the next one.
    pub(crate) fn send(&mut self) -> (Packet, Option<u64>) {
        let size = self.next.map_or(0, |emission| emission.size.get()) as u16;
        self.next = self.generator.next();
        self.statistics.sent.add(size);
        self.seq += 1;
        let packet = Packet {
            seq: self.seq,
            owner: self.owner,
            route: self.route,
            size,
            kind: Kind::Datagram,
            ..Packet::default()
        };
        (packet, self.next())
    }

    pub(crate) fn delivered(&mut self, size: u16) {
        self.statistics.delivered.add(size);
    }

    pub(crate) fn statistics(&self) -> SourceStatistics {
        self.statistics
    }

    pub(crate) fn reset(&mut self) {
        self.statistics = SourceStatistics::default();
    }
}
