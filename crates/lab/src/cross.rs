//! Cross traffic: packets of other senders that share the queue.

use headway_traffic::{Emission, Generator};
use headway_units::{Bytes, Instant};

use crate::spec::Cross;

/// One source of cross packets in order of arrival, produced by the same generators as in the simulator.
#[derive(Clone, Debug)]
pub struct Source {
    generator: Generator,
    /// The origin of the generator's times.
    origin: Instant,
    /// The arrival time of the next packet; [`NEVER`] if there is none.
    next: Instant,
    /// Its size on the wire.
    size: Bytes,
    stop: Instant,
}

const NEVER: Instant = Instant::from_ns(u64::MAX);

impl Source {
    /// Creates the packets of `cross`, whose times count from `origin`; the same seed gives the same packets.
    pub(crate) fn new(cross: &Cross, origin: Instant, seed: u64) -> Source {
        let mut source = Source {
            generator: cross.traffic.generator(seed, 0),
            origin: origin + cross.start,
            size: Bytes::ZERO,
            next: NEVER,
            stop: cross.stop.map_or(NEVER, |stop| origin + stop),
        };
        source.step();
        source
    }

    /// Returns the arrival time of the next packet, or a time in the far future if there is none.
    pub(crate) fn next(&self) -> Instant {
        self.next
    }

    /// Returns the size on the wire of the next packet.
    pub(crate) fn size(&self) -> Bytes {
        self.size
    }

    /// Advances by one packet.
    pub(crate) fn step(&mut self) {
        self.next = NEVER;
        let Some(Emission { at, size }) = self.generator.next() else { return };
        let next = self.origin + at;
        if next < self.stop {
            (self.next, self.size) = (next, size);
        }
    }
}

#[cfg(test)]
mod tests {
    use headway_traffic::Traffic;
    use headway_units::{Duration, Rate};

    use super::*;
    use crate::testing;

    fn times(cross: &Cross, seed: u64, until: Instant) -> Vec<u64> {
        let mut source = Source::new(cross, Instant::from_ns(1_000), seed);
        let mut times = Vec::new();
        while source.next() < until {
            times.push(source.next().ns());
            source.step();
        }
        times
    }

    #[test]
    fn start_and_stop_bound_the_packets_and_the_seed_decides_them() {
        let spec = Cross {
            start: Duration::from_ms(100),
            stop: Some(Duration::from_ms(200)),
            ..testing::cross(Traffic::poisson(Rate::from_mbps(100.0)))
        };
        let end = Instant::from_ns(60_000_000_000);
        let first = times(&spec, 7, end);
        assert!(first.iter().all(|t| (100_001_000..200_001_000).contains(t)));
        assert!((600..1000).contains(&first.len()), "{}", first.len());
        assert_eq!(times(&spec, 7, end), first);
        assert_ne!(times(&spec, 8, end), first);
    }
}
