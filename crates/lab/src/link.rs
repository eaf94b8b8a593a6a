//! One direction of the path: queue, wire, delay, loss, the receiver's network card, and the cross traffic.

use headway_core::{Duration, Instant};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

use crate::coalesce::Coalescer;
use crate::cross::Source;
use crate::meter::{Meter, Owner};
use crate::queue::{Queue, wire_size};
use crate::spec::{Cross, Direction, LinkSpec};
use crate::truth::Interval;

/// What became of a packet of the hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It is to be handed to the receiver at this time.
    Deliver(Instant),
    /// It went over the wire and was lost there.
    Lost,
    /// It found the queue full.
    Dropped,
}

/// A link as pure arithmetic: the caller says when packets arrive and is told when they leave.
#[derive(Clone, Debug)]
pub struct Link {
    queue: Queue,
    /// The same queue without the hosts' packets, to tell whose fault a drop was.
    shadow: Queue,
    sources: Vec<Source>,
    meter: Meter,
    delay: Duration,
    loss: f64,
    coalescer: Option<Coalescer>,
    rng: Pcg64Mcg,
    direction: Direction,
    seed: u64,
    /// How often path or traffic were replaced: each time draws other random numbers.
    generation: u64,
    /// Everything before has been counted.
    clock: Instant,
    last_delivery: Instant,
}

impl Link {
    /// A link that starts empty at `start`; `cross` entries of the other direction are ignored.
    pub fn new(
        direction: Direction,
        spec: &LinkSpec,
        cross: &[Cross],
        seed: u64,
        start: Instant,
        interval: Duration,
    ) -> Link {
        let queue = Queue::new(spec.rate, spec.buffer_size());
        let mut link = Link {
            shadow: queue.clone(),
            queue,
            sources: Vec::new(),
            meter: Meter::new(start, interval, spec.rate),
            delay: spec.delay,
            loss: spec.loss,
            coalescer: None,
            rng: Pcg64Mcg::seed_from_u64(0),
            direction,
            seed,
            generation: 0,
            clock: start,
            last_delivery: Instant::ZERO,
        };
        link.rng = Pcg64Mcg::seed_from_u64(link.sub_seed(LOSS));
        link.coalescer = link.card(spec);
        link.set_cross(start, cross);
        link
    }

    /// Lets cross traffic arrive up to and including `time`.
    pub fn advance(&mut self, time: Instant) {
        while let Some(source) = self.sources.iter_mut().min_by_key(|source| source.next()) {
            let (at, size) = (source.next(), source.size());
            if at > time {
                break;
            }
            source.step();
            self.meter.cross_offered(at, size);
            let alone = self.shadow.push(at, size).is_some();
            match self.queue.push(at, size) {
                Some(service) => {
                    self.meter.carried(Owner::Cross, service, size);
                    self.meter.queued(at, service.start);
                    self.meter.backlog(at, self.queue.scaled_backlog(at));
                }
                None => self.meter.cross_dropped(at, alone),
            }
        }
        self.clock = self.clock.max(time);
    }

    /// A packet of the hosts with IP length `ip` bytes arrives at `at`; one that is reported late counts as arriving now.
    pub fn offer(&mut self, at: Instant, ip: u64) -> Verdict {
        let at = at.max(self.clock);
        self.advance(at);
        let size = wire_size(ip);
        let Some(service) = self.queue.push(at, size) else {
            self.meter.host_dropped(at);
            return Verdict::Dropped;
        };
        self.meter.carried(Owner::Host, service, size);
        self.meter.queued(at, service.start);
        self.meter.backlog(at, self.queue.scaled_backlog(at));
        // Lost on the wire, after it took its share of the capacity: the truth does not depend on losses.
        if self.loss > 0.0 && self.rng.random::<f64>() < self.loss {
            self.meter.host_lost(at);
            return Verdict::Lost;
        }
        let arrival = service.finish + self.delay;
        let delivery = self.coalescer.as_mut().map_or(arrival, |card| card.deliver(arrival));
        // A path whose delay shrinks does not reorder.
        self.last_delivery = self.last_delivery.max(delivery);
        Verdict::Deliver(self.last_delivery)
    }

    /// From `at` on the link is another one; what is queued leaves as it was promised.
    pub fn set_link(&mut self, at: Instant, spec: &LinkSpec) {
        self.generation += 1;
        self.queue.change(at, spec.rate, spec.buffer_size());
        self.shadow.change(at, spec.rate, spec.buffer_size());
        self.meter.set_capacity(at, spec.rate);
        self.delay = spec.delay;
        self.loss = spec.loss;
        self.coalescer = self.card(spec);
    }

    /// From `at` on the cross traffic is another one, whose start and stop count from `at`.
    pub fn set_cross(&mut self, at: Instant, cross: &[Cross]) {
        self.generation += 1;
        self.sources.clear();
        for (index, cross) in cross.iter().enumerate() {
            if cross.direction == self.direction {
                self.sources.push(Source::new(cross, at, self.sub_seed(index as u64)));
            }
        }
        // The shadow forgets what hosts' packets did to the queue of earlier traffic.
        self.shadow = self.queue.clone();
    }

    /// Counts a packet that was due at `due` and left `late` after that.
    pub fn released(&mut self, due: Instant, late: Duration) {
        self.meter.released(due, late);
    }

    /// Counts packets that the emulator failed to read.
    pub fn missed(&mut self, at: Instant, count: u64) {
        self.meter.host_missed(at, count);
    }

    /// The next interval of the truth that is complete, when there is one.
    pub fn take_finished(&mut self) -> Option<Interval> {
        self.meter.take_finished(self.clock)
    }

    fn card(&self, spec: &LinkSpec) -> Option<Coalescer> {
        spec.coalesce.map(|interval| Coalescer::new(interval, self.sub_seed(CARD)))
    }

    /// A seed of its own for each use; `seed_from_u64` scrambles it.
    fn sub_seed(&self, part: u64) -> u64 {
        let way = match self.direction {
            Direction::Forward => 0,
            Direction::Reverse => 1,
        };
        self.seed
            .wrapping_mul(0x9e37_79b9_7f4a_7c15)
            .wrapping_add(self.generation << 24)
            .wrapping_add(way << 20)
            .wrapping_add(part)
    }
}

/// Parts of the seed beyond the numbers of the cross sources.
const LOSS: u64 = 1 << 19;
const CARD: u64 = LOSS + 1;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::Model;
    use headway_core::{Bytes, Rate};

    const START: Instant = Instant::from_ns(1_000_000_000);
    const MS10: Duration = Duration::from_ms(10);

    fn spec() -> LinkSpec {
        LinkSpec {
            rate: Rate::from_mbps(100.0),
            delay: Duration::from_ms(10),
            buffer: Some(Bytes::new(250_000)),
            loss: 0.0,
            coalesce: None,
        }
    }

    fn cross(model: Model, mbps: f64) -> Cross {
        Cross::new(Direction::Forward, model, Rate::from_mbps(mbps))
    }

    fn link(spec: &LinkSpec, cross: &[Cross]) -> Link {
        Link::new(Direction::Forward, spec, cross, 7, START, MS10)
    }

    #[test]
    fn a_lone_packet_takes_serialisation_plus_delay() {
        let verdict = link(&spec(), &[]).offer(START, 1500);
        assert_eq!(verdict, Verdict::Deliver(START + MS10 + Duration::from_ns(123_040)));
    }

    #[test]
    fn the_log_knows_how_long_packets_waited() {
        let mut link = link(&spec(), &[]);
        // Two packets at once every millisecond: the second waits for the 123.04 us of the first.
        for k in 0..10 {
            link.offer(START + Duration::from_ms(k), 1500);
            link.offer(START + Duration::from_ms(k), 1500);
        }
        link.advance(START + MS10);
        let interval = link.take_finished().unwrap();
        assert_eq!(interval.queued, 20);
        assert_eq!(interval.queued_time, Duration::from_ns(1_230_400));
        assert_eq!(interval.max_queued_time, Duration::from_ns(123_040));
    }

    #[test]
    fn loss_stays_within_three_sigma() {
        let mut link = link(&LinkSpec { loss: 0.01, ..spec() }, &[]);
        let n = 100_000;
        let lost =
            (0..n).filter(|k| link.offer(START + Duration::from_us(200) * *k, 1500) == Verdict::Lost).count();
        let (mean, sigma) = (n as f64 * 0.01, (n as f64 * 0.01 * 0.99).sqrt());
        assert!((lost as f64 - mean).abs() < 3.0 * sigma, "{lost}");
    }

    #[test]
    fn what_cross_traffic_leaves_is_what_the_log_says() {
        for model in [Model::Cbr, Model::Poisson, Model::Bursty] {
            let mut link = link(&spec(), &[cross(model, 30.0), cross(model, 10.0)]);
            let end = START + Duration::from_ms(20_000);
            let mut at = START;
            let mut delivered = 0u64;
            // Hosts send 20 Mb/s of their own.
            while at < end {
                delivered += u64::from(matches!(link.offer(at, 1500), Verdict::Deliver(_)));
                at += Duration::from_ns(615_200);
            }
            link.advance(end + Duration::from_ms(1000));
            let mut log = Vec::new();
            while let Some(interval) = link.take_finished() {
                log.push(interval);
            }
            let host: u64 = log.iter().map(|i| i.host_bits).sum();
            assert_eq!(host, delivered * 1538 * 8);
            let cross: u64 = log[..2000].iter().map(|i| i.cross_bits).sum();
            let mbps = cross as f64 / 20.0 / 1e6;
            assert!((mbps - 40.0).abs() < 3.0, "{model:?}: {mbps}");
            for interval in &log {
                assert!(interval.cross_bits + interval.host_bits <= 1_000_000 + 1, "{interval:?}");
            }
        }
    }

    #[test]
    fn drops_are_blamed_on_the_one_who_filled_the_queue() {
        let mut link = link(&spec(), &[cross(Model::Cbr, 90.0)]);
        // 50 Mb/s of host traffic on top of 90 overflows a link of 100.
        for k in 0..20_000 {
            link.offer(START + Duration::from_ns(246_080) * k, 1500);
        }
        let mut sums = (0, 0, 0);
        while let Some(interval) = link.take_finished() {
            sums.0 += interval.cross_drops;
            sums.1 += interval.cross_drops_due_to_hosts;
            sums.2 += interval.host_drops;
        }
        assert!(sums.0 > 1000 && sums.2 > 500, "{sums:?}");
        assert_eq!(sums.0, sums.1);
        // Alone, 130 Mb/s overflows without any host.
        let mut link = super::tests::link(&spec(), &[cross(Model::Cbr, 130.0)]);
        link.advance(START + Duration::from_ms(2000));
        let mut sums = (0, 0);
        while let Some(interval) = link.take_finished() {
            sums.0 += interval.cross_drops;
            sums.1 += interval.cross_drops_due_to_hosts;
        }
        assert!(sums.0 > 1000, "{sums:?}");
        assert_eq!(sums.1, 0);
    }

    #[test]
    fn a_shorter_delay_does_not_reorder() {
        let mut link = link(&spec(), &[]);
        let Verdict::Deliver(first) = link.offer(START, 1500) else { panic!("dropped") };
        link.set_link(START, &LinkSpec { delay: Duration::from_ms(1), ..spec() });
        let Verdict::Deliver(second) = link.offer(START, 1500) else { panic!("dropped") };
        assert!(second >= first);
    }

    #[test]
    fn traffic_can_be_replaced_under_way() {
        let mut link = link(&spec(), &[cross(Model::Poisson, 80.0)]);
        let change = START + Duration::from_ms(1000);
        link.advance(change);
        link.set_cross(change, &[cross(Model::Cbr, 10.0)]);
        link.advance(change + Duration::from_ms(1000));
        let mut log = Vec::new();
        while let Some(interval) = link.take_finished() {
            log.push(interval.cross_offered_bits as f64);
        }
        let mean = |part: &[f64]| part.iter().sum::<f64>() / part.len() as f64 * 100.0 / 1e6;
        assert!((mean(&log[..100]) - 80.0).abs() < 5.0);
        assert!((mean(&log[100..200]) - 10.0).abs() < 0.1);
    }
}
