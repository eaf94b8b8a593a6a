//! A measurement of available bandwidth over a simulated network: the same state machine that measures live paths.

use headway_core::measure::{Answer, Config, Measurement, Step};
use headway_core::stream::Arrival;
use headway_core::{Bytes, Duration, Instant, Rate, Schedule, StreamRecord};

use crate::config::{LinkId, ProberId};
use crate::network::Network;
use crate::probe::ProbeLog;
use headway_host::gap::{GapSender, Mechanism};
use headway_host::nic::{Coalescing, Stamp, stamps};
use headway_record::StreamTruth;
use headway_traffic::random;
use rand::Rng;

/// From the last planned packet of a stream to giving up on those that have not arrived, beside the round-trip time.
const PATIENCE: Duration = Duration::from_ms(500);
/// How often a stream under way is looked at.
const LOOK: Duration = Duration::from_us(100);

/// What a measurement in a network is made of.
#[derive(Clone, Debug)]
pub struct MeasurementConfig {
    /// Links from sender to receiver.
    pub path: Vec<LinkId>,
    /// The link that tells what was free during a stream, one of `path`: that of the lowest rate.
    pub narrow: LinkId,
    /// When the first measurement begins.
    pub start: Instant,
    /// Time from the begin of one to the begin of the next, which waits for the end of the one before; there is only one when absent.
    pub every: Option<Duration>,
    /// The estimator, and what it may cost.
    pub measure: Config,
    /// Rate of the sender's own line.
    pub line: Rate,
    /// How the sender makes gaps.
    pub mechanism: Mechanism,
    /// The receiver's network card; packets are stamped on arrival when absent.
    pub coalescing: Option<Coalescing>,
    /// Where the receiver takes its stamps.
    pub stamp: Stamp,
}

/// A measurement that has ended.
#[derive(Clone, Debug)]
pub struct Measured {
    /// When it began.
    pub begin: Instant,
    /// When it ended.
    pub end: Instant,
    /// What it found.
    pub answer: Answer,
    /// What was really free; `None` when no link of the path has a rate.
    pub truth: Option<Truth>,
    /// Packets of others that links of the path turned away, beyond those that they would have turned away without probes;
    /// negative where probes have, by chance, saved some.
    pub displaced: i64,
    /// Median over streams of the longest that a packet of others had to wait because of the stream, on all links together.
    pub added_delay: Duration,
    /// The longest that it had to wait because of any stream.
    pub added_delay_max: Duration,
}

/// What was free on a path during a measurement: the least over its links of capacity, or of what a policer lets pass, less all
/// other packets that came to the link, those that were dropped excepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Truth {
    /// The available bandwidth.
    pub free: Rate,
    /// The link of which this is true, the first one among equals.
    pub tight: LinkId,
    /// The available bandwidth in the other reading: the same with all TCP taken away, as if it yielded.
    pub free_without_tcp: Rate,
    /// The least capacity of any link.
    pub capacity: Rate,
}

/// Measurements of one path, one after the other. Call [`Measurements::poll`] whenever the network has reached
/// [`Measurements::next`].
#[derive(Debug)]
pub struct Measurements {
    config: MeasurementConfig,
    prober: ProberId,
    sender: GapSender,
    current: Option<Current>,
    next: Option<Instant>,
    under_way: Option<(Schedule, Instant)>,
    ended: Vec<Measured>,
    streams: Vec<StreamTruth>,
    seed: u64,
}

/// The measurement under way.
#[derive(Debug)]
struct Current {
    measurement: Measurement,
    begin: Instant,
    /// Streams that had been sent before it.
    streams: usize,
    /// What the links of the path had accepted, and turned away because of probes, when it began.
    counted: Vec<Counted>,
    displaced: i64,
}

/// What a link has accepted since the start of the run, in wire bytes.
#[derive(Clone, Copy, Debug)]
struct Counted {
    /// All packets but this prober's.
    others: u64,
    /// Of these, datagrams.
    datagrams: u64,
}

impl Measurements {
    /// Adds measurements to a network; `seed` and `id` choose the random numbers of their hosts.
    pub fn new(network: &mut Network, config: MeasurementConfig, seed: u64, id: u64) -> Measurements {
        let prober = network.add_prober(&config.path, Some(config.narrow));
        network.watch(&config.path);
        let seed = random::generator(seed, "measurement", id).next_u64();
        Measurements {
            prober,
            sender: config.mechanism.sender(config.line, config.measure.packet, seed),
            current: None,
            next: Some(config.start),
            under_way: None,
            ended: Vec::new(),
            streams: Vec::new(),
            seed,
            config,
        }
    }

    /// When to call [`Measurements::poll`]; `None` when all is over.
    pub fn next(&self) -> Option<Instant> {
        self.next
    }

    /// The measurements that have ended.
    pub fn ended(&self) -> &[Measured] {
        &self.ended
    }

    /// The streams sent so far.
    pub fn streams(&self) -> &[StreamTruth] {
        &self.streams
    }

    /// Takes in what has arrived and sends what is to be sent next.
    pub fn poll(&mut self, network: &mut Network) {
        let now = network.now();
        if self.next.is_none_or(|next| now < next) {
            return;
        }
        if let Some((schedule, deadline)) = self.under_way.take() {
            if !network.probes_arrived(self.prober) && now < deadline {
                self.under_way = Some((schedule, deadline));
                self.next = Some(now + LOOK);
                return;
            }
            self.observe(network, &schedule);
            // The receiver's report takes its way back.
            self.next = Some(now + self.config.measure.rtt.scale(0.5));
            return;
        }
        let mut current = self.current.take().unwrap_or_else(|| self.begin(network));
        let step = current.measurement.next_step(now);
        self.current = Some(current);
        match step {
            Step::Send(schedule) => self.send(network, schedule),
            Step::Wait(time) => self.next = Some(now + time),
            Step::Done => self.end(network),
        }
    }

    fn begin(&self, network: &Network) -> Current {
        Current {
            measurement: Measurement::new(self.config.measure, network.now()),
            begin: network.now(),
            streams: self.streams.len(),
            counted: self.counted(network),
            displaced: self.displaced(network),
        }
    }

    fn counted(&self, network: &Network) -> Vec<Counted> {
        let count = |id: &LinkId| {
            let link = network.link(*id);
            let own = network.accepted_of(self.prober, *id).get();
            Counted { others: link.accepted() - own, datagrams: link.accepted_datagrams() }
        };
        self.config.path.iter().map(count).collect()
    }

    fn displaced(&self, network: &Network) -> i64 {
        self.config.path.iter().map(|link| network.displaced(*link)).sum()
    }

    /// Notes the answer beside the truth, and when to begin again.
    fn end(&mut self, network: &Network) {
        self.next = None;
        let Some(measured) = self.unfinished(network) else { return };
        self.current = None;
        self.next = self.config.every.map(|every| (measured.begin + every).max(measured.end + LOOK));
        self.ended.push(measured);
    }

    /// The measurement under way as if it ended now.
    pub fn unfinished(&self, network: &Network) -> Option<Measured> {
        let current = self.current.as_ref()?;
        let (begin, end) = (current.begin, network.now());
        let mut added: Vec<Duration> =
            self.streams[current.streams..].iter().map(|stream| stream.added_delay).collect();
        added.sort_unstable();
        Some(Measured {
            begin,
            end,
            answer: current.measurement.answer(),
            truth: self.truth(network, current),
            displaced: self.displaced(network) - current.displaced,
            added_delay: added.get(added.len() / 2).copied().unwrap_or_default(),
            added_delay_max: added.last().copied().unwrap_or_default(),
        })
    }

    fn truth(&self, network: &Network, current: &Current) -> Option<Truth> {
        let (begin, end) = (current.begin, network.now());
        let links = self.config.path.iter().zip(&current.counted).zip(self.counted(network));
        let on_link = |((id, before), after): ((&LinkId, &Counted), Counted)| {
            let rate = |bytes: u64| Rate::of(Bytes::new(bytes), end - begin);
            let capacity = rate(network.link(*id).limit(begin, end)?.get())?;
            Some(Truth {
                free: capacity.saturating_sub(rate(after.others - before.others)?),
                tight: *id,
                free_without_tcp: capacity.saturating_sub(rate(after.datagrams - before.datagrams)?),
                capacity,
            })
        };
        links.filter_map(on_link).reduce(|least, link| Truth {
            free: least.free.min(link.free),
            tight: if link.free < least.free { link.tight } else { least.tight },
            free_without_tcp: least.free_without_tcp.min(link.free_without_tcp),
            capacity: least.capacity.min(link.capacity),
        })
    }

    fn send(&mut self, network: &mut Network, schedule: Schedule) {
        let mut scheduled = network.now();
        let mut last = scheduled;
        for gap in std::iter::once(&Duration::ZERO).chain(&schedule.gaps) {
            scheduled += *gap;
            last = self.sender.depart(scheduled, schedule.packet);
            network.send_probe(self.prober, last, schedule.packet);
        }
        self.next = Some(last + LOOK);
        self.under_way = Some((schedule, last + self.config.measure.rtt + PATIENCE));
    }

    fn observe(&mut self, network: &mut Network, schedule: &Schedule) {
        let log = network.take_probe_log(self.prober);
        self.streams.push(self.stream_truth(network, schedule, &log));
        let record = self.record(schedule, &log);
        if let Some(current) = &mut self.current {
            current.measurement.observe(network.now(), &record, None);
        }
    }

    fn stream_truth(&self, network: &Network, schedule: &Schedule, log: &[ProbeLog]) -> StreamTruth {
        let ends = log.first().zip(log.last());
        let free = ends.and_then(|(first, last)| {
            let (from, to) = (first.tapped?, last.tapped?);
            let capacity = Rate::of(network.link(self.config.narrow).capacity(from, to)?, to - from)?;
            let other = Bytes::new(last.other_bytes.get() - first.other_bytes.get());
            Some(capacity.saturating_sub(Rate::of(other, to - from)?))
        });
        StreamTruth {
            sent: ends.map_or(network.now(), |(first, _)| first.sent),
            rate: schedule.average,
            packets: (log.len() as u32, log.iter().filter(|log| log.arrived.is_none()).count() as u32),
            free,
            added_delay: log.iter().map(|log| log.added_delay).max().unwrap_or_default(),
        }
    }

    /// The record as the two hosts would write it.
    fn record(&self, schedule: &Schedule, log: &[ProbeLog]) -> StreamRecord {
        let mut arrivals: Vec<Instant> = log.iter().filter_map(|log| log.arrived).collect();
        arrivals.sort_unstable();
        let id = self.streams.len() as u64;
        let rng = random::generator(self.seed, "stamps", id);
        let stamps = match self.config.coalescing {
            Some(coalescing) => stamps(coalescing, self.config.stamp, &arrivals, rng),
            None => arrivals.clone(),
        };
        let stamp = |at: Instant| arrivals.binary_search(&at).ok().map(|index| stamps[index]);
        let arrival = |(index, log): (usize, &ProbeLog)| Arrival {
            index: index as u32,
            size: schedule.packet,
            sent: log.sent,
            received: log.arrived.and_then(stamp),
        };
        StreamRecord {
            id: id as u32,
            packet: schedule.packet,
            average: schedule.average,
            intended: schedule.gaps.clone(),
            arrivals: log.iter().enumerate().map(arrival).collect(),
        }
    }
}
