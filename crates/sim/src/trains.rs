//! Packet pairs, and trains with packets that expire on the way, over a chain of links.

use headway_estimate::{Arrival, StreamRecord};
use headway_traffic::distribution::exponential;
use headway_traffic::random::generator;
use headway_units::{Bytes, Duration, Instant, Rate};

use crate::sweep::{ChainLink, Probe, sweep};

/// Trains to send over a chain; a pair is a train with a single gap.
#[derive(Clone, Debug)]
pub struct Trains {
    /// Size of all packets.
    pub packet: Bytes,
    /// Gaps between the packets of a train; all but the first and the last packet are hidden ones.
    pub gaps: Vec<Duration>,
    /// The number of links that hidden packets cross.
    pub hidden_links: u32,
    /// The number of trains.
    pub count: usize,
    /// When the first train may be sent: queues need some time to fill.
    pub start: Instant,
    /// Mean time between the end of one train and the start of the next; exponentially distributed.
    pub apart: Duration,
}

impl Trains {
    /// Returns pairs with this gap, 20 ms apart (wan 2.15), from half a second on.
    pub fn pairs(packet: Bytes, gap: Duration, count: usize) -> Trains {
        Trains::of(packet, vec![gap], 0, count)
    }

    /// Returns trains with these gaps, of which hidden packets cross `hidden_links` links; 20 ms apart,
    /// from half a second on.
    pub fn of(packet: Bytes, gaps: Vec<Duration>, hidden_links: u32, count: usize) -> Trains {
        let (start, apart) = (Instant::from_ns(500_000_000), Duration::from_ms(20));
        Trains { packet, gaps, hidden_links, count, start, apart }
    }

    /// Sends the trains; the seed determines cross traffic and the times between trains.
    pub fn send(&self, chain: &[ChainLink], seed: u64) -> SentTrains {
        let probes = self.probes(chain.len() as u32, seed);
        let times = sweep(chain, &probes, seed);
        let idle: Vec<ChainLink> =
            chain.iter().map(|link| ChainLink { cross: Vec::new(), ..link.clone() }).collect();
        let alone = sweep(&idle, &probes, seed);
        let packets = self.gaps.len() + 1;
        let met_nobody = |train: &(&[Option<Instant>], &[Option<Instant>])| {
            [0, packets - 1].iter().all(|end| train.0[*end] == train.1[*end])
        };
        let clean = times.chunks(packets).zip(alone.chunks(packets)).filter(met_nobody).count();
        let last = chain.len() as u32;
        let arrival = |(index, (probe, time)): (usize, (&Probe, &Option<Instant>))| Arrival {
            index: index as u32,
            size: probe.size,
            sent: probe.at,
            received: time.filter(|_| probe.links >= last),
        };
        let arrivals = probes.iter().zip(&times).enumerate().map(arrival).collect();
        let record = StreamRecord {
            id: 0,
            packet: self.packet,
            average: Rate::ZERO,
            intended: probes.windows(2).map(|pair| pair[1].at - pair[0].at).collect(),
            arrivals,
        };
        SentTrains { record, clean }
    }

    fn probes(&self, links: u32, seed: u64) -> Vec<Probe> {
        let mut random = generator(seed, "trains", 0);
        let mut probes = Vec::with_capacity(self.count * (self.gaps.len() + 1));
        let mut at = self.start;
        for _ in 0..self.count {
            at += self.apart.scale(exponential(&mut random));
            probes.push(Probe { at, size: self.packet, links });
            for (index, gap) in self.gaps.iter().enumerate() {
                at += *gap;
                let survives = index + 1 == self.gaps.len();
                let links = if survives { links } else { self.hidden_links.min(links) };
                probes.push(Probe { at, size: self.packet, links });
            }
        }
        probes
    }
}

/// Trains as observed.
#[derive(Clone, Debug)]
pub struct SentTrains {
    /// All packets, one train after the other; hidden ones that expired never arrived.
    pub record: StreamRecord,
    /// The number of trains whose first and last packet arrived as on an idle path.
    pub clean: usize,
}
