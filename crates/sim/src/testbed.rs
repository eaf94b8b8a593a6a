//! The testbed of the Rapid and BASS papers: a 10 Gb/s bottleneck with cross traffic, a sender that creates
//! gaps and a receiver that coalesces interrupts (rapid 4.0).

use headway_estimate::stream::Arrival;
use headway_estimate::{Schedule, StreamRecord};
use headway_queue::{DropTailConfig, QueueSpec};
use headway_units::{Bytes, Duration, Instant, Rate};

use crate::config::{LinkConfig, LinkId, ProberId, Service, SourceConfig};
use crate::network::Network;
use crate::probe::ProbeLog;
use headway_host::gap::{GapSender, Mechanism};
use headway_host::nic::{Coalescing, Nic};
use headway_traffic::Traffic;
use headway_traffic::random::generator;

/// Wire bytes of the largest packet, MTU 9000.
const LARGEST: Bytes = Bytes::new(9038);

/// Configuration of a testbed.
#[derive(Clone, Debug)]
pub struct TestbedConfig {
    /// Rate of the bottleneck and of the sender's line.
    pub capacity: Rate,
    /// Buffer of the bottleneck.
    pub buffer: Bytes,
    /// The cross traffic.
    pub cross: Vec<Traffic>,
    /// How the sender creates gaps.
    pub mechanism: Mechanism,
    /// Coalescing of receive interrupts; if `None`, packets are stamped on arrival.
    pub coalescing: Option<Coalescing>,
}

/// A stream as observed at both ends and behind the bottleneck, with the true available bandwidth.
#[derive(Clone, Debug)]
pub struct Observed {
    /// Departure times and the receiver's timestamps.
    pub record: StreamRecord,
    /// The same stream, stamped right behind the bottleneck.
    pub exits: StreamRecord,
    /// Capacity minus the cross traffic that left the bottleneck between the first and the last
    /// packet (rapid 2.16).
    pub available: Rate,
    /// Whether every packet arrived.
    pub complete: bool,
}

/// A path over which streams are sent one after the other.
#[derive(Debug)]
pub struct Testbed {
    capacity: Rate,
    sender: GapSender,
    network: Network,
    prober: ProberId,
    nic: Option<Nic<usize>>,
    /// Scheduled departure of the last packet.
    scheduled: Instant,
    streams: u32,
}

/// The times of one packet on its way through the testbed.
#[derive(Clone, Copy, Debug)]
struct Transit {
    sent: Instant,
    /// When it left the bottleneck; `None` if it was lost there.
    exit: Option<Instant>,
    /// Bytes of cross traffic that left the bottleneck before it.
    crossed: Bytes,
    stamp: Option<Instant>,
}

impl Testbed {
    /// Returns an idle testbed; `seed` determines its traffic and jitter.
    pub fn new(config: &TestbedConfig, seed: u64) -> Testbed {
        let mut network = Network::new(seed);
        let queue = QueueSpec::DropTail(DropTailConfig { limit: Some(config.buffer), packets: None })
            .build(Some(config.capacity), seed);
        let service = Service::Constant(config.capacity);
        let bottleneck = network.add_link(&LinkConfig::new(service, Duration::ZERO, queue));
        for traffic in &config.cross {
            network.add_source(&source(bottleneck, traffic));
        }
        Testbed {
            capacity: config.capacity,
            sender: config.mechanism.sender(config.capacity, LARGEST, seed),
            prober: network.add_prober(&[bottleneck], Some(bottleneck)),
            network,
            nic: config.coalescing.map(|coalescing| Nic::new(coalescing, generator(seed, "nic", 0))),
            scheduled: Instant::ZERO,
            streams: 0,
        }
    }

    /// Sends a stream of one more packet than `schedule` has gaps, `silence` after the previous packet.
    ///
    /// Packets that have not arrived another `silence` later count as lost.
    pub fn send(&mut self, schedule: &Schedule, silence: Duration) -> Observed {
        let mut observed = self.send_train(std::slice::from_ref(schedule), silence);
        observed.remove(0)
    }

    /// Sends streams back to back, `silence` after the previous packet: the last packet of each stream is
    /// the first of the next.
    ///
    /// Packets that have not arrived another `silence` later count as lost.
    pub fn send_train(&mut self, schedules: &[Schedule], silence: Duration) -> Vec<Observed> {
        let transits = self.send_all(schedules, silence);
        let mut first = 0;
        let observe = |schedule: &Schedule| {
            let last = first + schedule.gaps.len();
            let observed = self.observe(schedule, &transits[first..=last]);
            first = last;
            self.streams += 1;
            observed
        };
        schedules.iter().map(observe).collect()
    }

    /// Sends all packets of a train and returns their times.
    fn send_all(&mut self, schedules: &[Schedule], silence: Duration) -> Vec<Transit> {
        let packet = schedules.first().map_or(Bytes::ZERO, |schedule| schedule.packet);
        self.scheduled += silence;
        let gaps = schedules.iter().flat_map(|schedule| &schedule.gaps);
        for gap in std::iter::once(&Duration::ZERO).chain(gaps) {
            self.scheduled += *gap;
            let departure = self.sender.depart(self.scheduled, packet);
            self.network.send_probe(self.prober, departure, packet);
        }
        // The next train starts at least one nanosecond later.
        self.network.run_until(self.scheduled + silence - Duration::from_ns(1));
        let transit = |log: &ProbeLog| Transit {
            sent: log.sent,
            exit: log.arrived.and(log.tapped),
            crossed: log.other_bytes,
            stamp: None,
        };
        let mut transits: Vec<Transit> =
            self.network.take_probe_log(self.prober).iter().map(transit).collect();
        stamp(self.nic.as_mut(), &mut transits);
        transits
    }

    fn observe(&self, schedule: &Schedule, transits: &[Transit]) -> Observed {
        let record = |received: fn(&Transit) -> Option<Instant>| StreamRecord {
            id: self.streams,
            packet: schedule.packet,
            average: schedule.average,
            intended: schedule.gaps.clone(),
            arrivals: transits
                .iter()
                .enumerate()
                .map(|(index, transit)| Arrival {
                    index: index as u32,
                    size: schedule.packet,
                    sent: transit.sent,
                    received: received(transit),
                })
                .collect(),
        };
        Observed {
            record: record(|transit| transit.stamp),
            exits: record(|transit| transit.exit),
            available: self.capacity.saturating_sub(crossed(transits).unwrap_or(Rate::ZERO)),
            complete: transits.iter().all(|transit| transit.stamp.is_some()),
        }
    }
}

/// Cross traffic that enters the bottleneck.
fn source(bottleneck: LinkId, traffic: &Traffic) -> SourceConfig {
    SourceConfig { path: vec![bottleneck], traffic: traffic.clone(), start: Instant::ZERO, stop: None }
}

/// Returns the rate of the cross traffic between the first and the last packet that left the bottleneck.
fn crossed(transits: &[Transit]) -> Option<Rate> {
    let mut arrived = transits.iter().filter_map(|transit| Some((transit.exit?, transit.crossed)));
    let (first, before) = arrived.next()?;
    let (last, after) = arrived.next_back()?;
    Rate::of(Bytes::new(after.get() - before.get()), last - first)
}

/// Stamps all packets that arrived, as the receiver's driver does.
fn stamp(nic: Option<&mut Nic<usize>>, transits: &mut [Transit]) {
    let Some(nic) = nic else {
        transits.iter_mut().for_each(|transit| transit.stamp = transit.exit);
        return;
    };
    let mut next = 0;
    loop {
        while next < transits.len() && transits[next].exit.is_none() {
            next += 1;
        }
        let arrival = transits.get(next).and_then(|transit| transit.exit);
        match (arrival, nic.next_event()) {
            (Some(arrival), event) if event.is_none_or(|event| arrival <= event) => {
                nic.arrive(arrival, next);
                next += 1;
            }
            (_, Some(event)) => {
                if let Some((index, stamp)) = nic.poll(event) {
                    transits[index].stamp = Some(microseconds(stamp));
                }
            }
            _ => break,
        }
    }
}

/// Rounds down to whole microseconds, the resolution of the driver's timestamps (rapid 2.6).
fn microseconds(time: Instant) -> Instant {
    Instant::from_ns(time.ns() / 1_000 * 1_000)
}

#[cfg(test)]
mod tests {
    use super::*;
    use headway_estimate::Shape;

    const CAPACITY: Rate = Rate::from_bps(10_000_000_000);
    const PACKET: Bytes = Bytes::new(9038);
    const SILENCE: Duration = Duration::from_ms(10);

    fn config(cross: Vec<Traffic>, coalescing: Option<Coalescing>) -> TestbedConfig {
        TestbedConfig {
            capacity: CAPACITY,
            buffer: Bytes::new(1_000_000),
            cross,
            mechanism: Mechanism::ByteClock,
            coalescing,
        }
    }

    fn bursty() -> Vec<Traffic> {
        vec![Traffic::Bct { scale: 1.0 }]
    }

    fn usual() -> Option<Coalescing> {
        Some(Coalescing::Fixed { interval: Duration::from_us(120), jitter: 0.2, frames: None })
    }

    fn train(average: f64) -> Vec<Schedule> {
        let shape = Shape { rates: 4, packets_per_rate: 16, step: 1.15 };
        vec![Schedule::p_stream(shape, Rate::from_mbps(average), PACKET); 5]
    }

    /// Lindley's recursion in picoseconds: when a packet leaves the queue if it is served before packets that
    /// arrive in the same nanosecond, and if it is served after them.
    fn oracle(traffic: &Traffic, seed: u64, sent: &[Instant]) -> Vec<[Instant; 2]> {
        let mut source = traffic.generator(seed, 0);
        let mut cross = source.next().expect("traffic without end");
        let mut free = 0u64;
        let mut exits = Vec::new();
        for sent in sent {
            let now = *sent - Instant::ZERO;
            let exit = [now, now + Duration::from_ns(1)].map(|end| {
                while cross.at < end {
                    free = free.max(cross.at.ns() as u64 * 1_000) + cross.size.get() * 800;
                    cross = source.next().expect("traffic without end");
                }
                free.max(sent.ns() * 1_000) + PACKET.get() * 800
            });
            exits.push(exit.map(|ps| Instant::from_ns(ps / 1_000)));
            free = exit[1];
        }
        exits
    }

    #[test]
    fn packets_leave_the_bottleneck_when_a_recursion_says() {
        let traffic = Traffic::Bct { scale: 1.0 };
        let mut testbed = Testbed::new(&config(vec![traffic.clone()], None), 3);
        let observed: Vec<Observed> =
            (0..40).flat_map(|_| testbed.send_train(&train(7_000.0), SILENCE)).collect();
        // The first packet of a stream is the last of the previous one, except at the head of a train.
        let mut packets: Vec<Arrival> =
            observed.iter().flat_map(|stream| stream.exits.arrivals.iter().copied()).collect();
        packets.dedup_by_key(|arrival| arrival.sent);
        assert_eq!(packets.len(), 40 * (5 * 64 + 1));
        let sent: Vec<Instant> = packets.iter().map(|arrival| arrival.sent).collect();
        for (packet, exits) in packets.iter().zip(oracle(&traffic, 3, &sent)) {
            let received = packet.received.expect("nothing is lost");
            let agrees = exits.iter().any(|exit| (received - *exit).ns().abs() <= 1);
            assert!(agrees, "{received:?} instead of {exits:?}");
        }
    }

    #[test]
    fn what_is_available_is_what_the_cross_traffic_leaves() {
        let mut testbed = Testbed::new(&config(bursty(), usual()), 1);
        let observed: Vec<Observed> =
            (0..200).flat_map(|_| testbed.send_train(&train(5_000.0), SILENCE)).collect();
        let mean = observed.iter().map(|stream| stream.available.mbps()).sum::<f64>() / observed.len() as f64;
        assert!((mean - 7_490.0).abs() < 200.0, "{mean}");
        assert!(observed.iter().all(|stream| stream.complete));
        let idle = Testbed::new(&config(Vec::new(), None), 1).send(&train(5_000.0)[0], SILENCE);
        assert_eq!(idle.available, CAPACITY);
    }

    #[test]
    fn a_receiver_hands_up_what_left_the_bottleneck_in_batches() {
        let mut testbed = Testbed::new(&config(bursty(), usual()), 1);
        let observed = testbed.send(&train(7_000.0)[0], SILENCE);
        let (stamps, exits) = (&observed.record.arrivals, &observed.exits.arrivals);
        assert_eq!(stamps.len(), 65);
        let delays: Vec<Duration> = stamps
            .iter()
            .zip(exits)
            .map(|(stamp, exit)| stamp.received.expect("stamped") - exit.received.expect("not lost"))
            .collect();
        // At most the longest interval plus one batch; a timestamp is a whole microsecond and
        // may precede its packet.
        assert!(delays.iter().all(|delay| (-1.0..175.0).contains(&delay.us())), "{delays:?}");
        assert!(delays.iter().any(|delay| delay.us() > 60.0));
    }

    #[test]
    fn a_stream_that_loses_packets_is_not_complete() {
        let flood = Traffic::Cbr { rate: Rate::from_mbps(9_000.0), size: Bytes::new(1538) };
        let mut testbed = Testbed::new(&config(vec![flood], usual()), 1);
        let lost = (0..20).flat_map(|_| testbed.send_train(&train(9_000.0), SILENCE));
        assert!(lost.into_iter().any(|stream| !stream.complete && stream.record.lost() > 0));
    }

    #[test]
    fn the_same_seed_gives_the_same_streams_and_another_one_others() {
        let send = |seed| {
            let mut testbed = Testbed::new(&config(bursty(), usual()), seed);
            testbed.send_train(&train(7_000.0), SILENCE).pop().expect("five streams").record
        };
        assert_eq!(send(1), send(1));
        assert_ne!(send(1), send(2));
    }
}
