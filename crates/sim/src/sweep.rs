//! Probes over a chain of FIFO links with cross traffic on every single link, computed link by link.
//!
//! Nothing reacts to anything, so all probes can cross the first link before any of them crosses the second:
//! each link is one pass over its arrivals (Lindley's recursion). This takes no events and no memory for
//! cross traffic, and gives the same times as a [`Network`](crate::Network) of such links with probers.

use std::collections::VecDeque;

use headway_traffic::{Generator, Traffic};
use headway_units::{Bytes, Duration, Instant, Rate};

use crate::config::Service;
use headway_link::Server;

/// One link of a chain.
#[derive(Clone, Debug)]
pub struct ChainLink {
    /// Its capacity, which counts the bytes of packet sizes.
    pub rate: Rate,
    /// Propagation delay.
    pub delay: Duration,
    /// Bytes that its queue holds, with the packet in transmission; unlimited if `None`.
    pub buffer: Option<Bytes>,
    /// Traffic that crosses this link only, from time zero on.
    pub cross: Vec<Traffic>,
}

/// A packet to send over a chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Probe {
    /// When it leaves the sender.
    pub at: Instant,
    /// Its size.
    pub size: Bytes,
    /// The number of links that it crosses: fewer than the chain has if it expires on the way.
    pub links: u32,
}

/// Sends `probes`, in order of time, over `chain`, and returns when each arrives at the end of its last link;
/// `None` for a dropped one.
///
/// The seed determines the cross traffic: source i of the chain, counted over all links, sends the packets
/// that it sends in a network with this seed to which sources are added in the same order.
pub fn sweep(chain: &[ChainLink], probes: &[Probe], seed: u64) -> Vec<Option<Instant>> {
    let mut times: Vec<Option<u64>> = probes.iter().map(|probe| Some(probe.at.ns())).collect();
    let mut sources = 0;
    for (hop, link) in (1..).zip(chain) {
        let cross = link.cross.iter().zip(sources..).map(|(traffic, id)| traffic.generator(seed, id));
        let mut cross = Merged::new(cross.collect());
        sources += link.cross.len() as u64;
        let mut queue = Queue::new(link);
        let crossing = probes.iter().zip(&mut times).filter(|(probe, _)| probe.links >= hop);
        for (probe, time) in crossing {
            let Some(arrival) = *time else { continue };
            while let Some((at, size)) = cross.next_before(arrival) {
                queue.push(at, size);
            }
            let delay = link.delay.ns().unsigned_abs();
            *time = queue.push(arrival, probe.size.get() as u16).map(|finish| finish + delay);
        }
    }
    times.into_iter().map(|time| time.map(Instant::from_ns)).collect()
}

/// Several sources as one, in order of time.
struct Merged {
    sources: Vec<(Generator, Option<(u64, u16)>)>,
    /// The source with the next packet.
    first: usize,
}

impl Merged {
    fn new(generators: Vec<Generator>) -> Merged {
        let source = |mut generator: Generator| {
            let first = next(&mut generator);
            (generator, first)
        };
        let mut merged = Merged { sources: generators.into_iter().map(source).collect(), first: 0 };
        merged.find_first();
        merged
    }

    fn find_first(&mut self) {
        let due = |source: &(Generator, Option<(u64, u16)>)| source.1.map_or(u64::MAX, |packet| packet.0);
        self.first = (0..self.sources.len()).min_by_key(|index| due(&self.sources[*index])).unwrap_or(0);
    }

    /// Returns the time and size of the next packet if it comes before `end`.
    fn next_before(&mut self, end: u64) -> Option<(u64, u16)> {
        let (generator, packet) = self.sources.get_mut(self.first)?;
        let found = packet.filter(|(at, _)| *at < end)?;
        *packet = next(generator);
        if self.sources.len() > 1 {
            self.find_first();
        }
        Some(found)
    }
}

fn next(generator: &mut Generator) -> Option<(u64, u16)> {
    generator.next().map(|emission| (emission.at.ns().unsigned_abs(), emission.size.get() as u16))
}

/// The queue and the transmitter of a link.
struct Queue {
    server: Server,
    /// When the last accepted packet's transmission ends.
    free: u64,
    buffer: Option<u64>,
    /// End of transmission and size of the packets in a bounded queue, and their sum.
    held: VecDeque<(u64, u16)>,
    bytes: u64,
}

impl Queue {
    fn new(link: &ChainLink) -> Queue {
        Queue {
            server: Server::new(&Service::Constant(link.rate), Instant::ZERO),
            free: 0,
            buffer: link.buffer.map(Bytes::get),
            held: VecDeque::new(),
            bytes: 0,
        }
    }

    /// Returns when the transmission of a packet that arrives at `now` ends; `None` if it is dropped.
    fn push(&mut self, now: u64, size: u16) -> Option<u64> {
        if let Some(buffer) = self.buffer {
            while let Some((_, size)) = self.held.front().filter(|held| held.0 <= now) {
                self.bytes -= u64::from(*size);
                self.held.pop_front();
            }
            if self.bytes + u64::from(size) > buffer {
                return None;
            }
        }
        self.free = self.server.finish(now.max(self.free), size);
        if self.buffer.is_some() {
            self.held.push_back((self.free, size));
            self.bytes += u64::from(size);
        }
        Some(self.free)
    }
}
