//! Measurements of available bandwidth over a simulated network, by the same state machine that
//! measures live paths.

use std::sync::Arc;

use headway_estimate::measure::{Answer, Config, Measurement, Method, Step, wait_for_late};
use headway_estimate::stream::Arrival;
use headway_estimate::{Schedule, StreamRecord};
use headway_learned::Model;
use headway_units::{Bytes, Duration, Instant, Rate};

use crate::config::{LinkId, ProberId};
use crate::network::Network;
use crate::probe::ProbeLog;
use headway_host::gap::{GapSender, Mechanism};
use headway_host::nic::{Coalescing, Stamp, stamps};
use headway_record::StreamTruth;
use headway_traffic::random;
use rand::Rng;

/// How long the queue of a path may be from which no packet of a stream has arrived.
const LONGEST_QUEUE: Duration = Duration::from_ms(500);
/// Interval at which a stream in flight is polled.
const POLL_INTERVAL: Duration = Duration::from_us(100);

/// Returns when packets of a stream that have not arrived count as lost, over a path with this RTT, where the
/// last one left at that time.
///
/// A sender of live packets says when it has sent the last one. That message takes as long as the packets,
/// and the receiver then waits for late ones.
pub(crate) fn deadline(
    network: &Network,
    prober: ProberId,
    rtt: Duration,
    (schedule, last): (&Schedule, Instant),
) -> Instant {
    let on_the_way = network.latest_probe_delay(prober).unwrap_or(rtt / 2 + LONGEST_QUEUE);
    last + on_the_way.max(rtt / 2) + wait_for_late(rtt, Some(schedule.average))
}

/// Configuration of a measurement in a network.
#[derive(Clone, Debug)]
pub struct MeasurementConfig {
    /// Links from sender to receiver.
    pub path: Vec<LinkId>,
    /// The link of the lowest rate on `path`, that of its policer if lower; its available bandwidth during a
    /// stream is the truth of the stream.
    pub narrow: LinkId,
    /// When the first measurement begins.
    pub start: Instant,
    /// Time between the starts of two measurements, each of which waits for the end of the previous one; a
    /// single measurement if `None`.
    pub every: Option<Duration>,
    /// The estimator and its budget.
    pub measure: Config,
    /// The trained model of the learned method.
    pub model: Option<Arc<Model>>,
    /// Line rate of the sender.
    pub line: Rate,
    /// How the sender creates gaps.
    pub mechanism: Mechanism,
    /// Interrupt coalescing of the receiver's NIC; if `None`, packets are stamped on arrival.
    pub coalescing: Option<Coalescing>,
    /// Where the receiver takes its timestamps.
    pub stamp: Stamp,
}

/// A completed measurement.
#[derive(Clone, Debug)]
pub struct Measured {
    /// When it began.
    pub begin: Instant,
    /// When it ended.
    pub end: Instant,
    /// From when on the answer and the truth count: the first stream that the answer rests on, or the begin.
    pub sampled_from: Instant,
    /// Its result.
    pub answer: Answer,
    /// The true available bandwidth from then to the end; `None` when no link of the path has a rate.
    pub truth: Option<Truth>,
    /// Packets of other traffic that links of the path dropped beyond those they would have dropped without
    /// probes; negative where probes happen to have saved packets.
    pub displaced: i64,
    /// Median over streams of the longest additional delay that a stream caused for other packets,
    /// summed over all links.
    pub added_delay: Duration,
    /// The longest additional delay that any stream caused.
    pub added_delay_max: Duration,
}

/// The true available bandwidth of a path during a measurement: the minimum over its links of the capacity,
/// or the rate of a policer if lower, minus all other packets that the link accepted. A link that takes turns
/// with others counts this many times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Truth {
    /// Available bandwidth.
    pub free: Rate,
    /// The tight link: the first with this available bandwidth.
    pub tight: LinkId,
    /// Available bandwidth by the other definition: as if all TCP traffic yielded.
    pub free_without_tcp: Rate,
    /// The least capacity of any link, or rate of its policer if lower.
    pub capacity: Rate,
}

/// Successive measurements of one path. Call [`Measurements::poll`] whenever the network has reached
/// [`Measurements::next`].
#[derive(Debug)]
pub struct Measurements {
    config: MeasurementConfig,
    /// The links that packets take, each with the number of links that take turns there.
    links: Vec<(LinkId, u64)>,
    prober: ProberId,
    sender: GapSender,
    current: Option<Current>,
    next: Option<Instant>,
    /// The stream in flight, and when its last packet leaves, or has left a link that was out.
    pending_stream: Option<(Schedule, Instant)>,
    ended: Vec<Measured>,
    streams: Vec<StreamTruth>,
    seed: u64,
}

/// The measurement in progress.
#[derive(Debug)]
struct Current {
    measurement: Measurement,
    begin: Instant,
    /// Number of streams sent before it began.
    streams: usize,
    /// How many packets probes had displaced when it began.
    displaced: i64,
    /// From when on the answer counts, and what the links of the path had accepted at that time.
    sampled_from: Instant,
    counted: Vec<Counted>,
}

/// Wire bytes that a link has accepted since the start of the run.
#[derive(Clone, Copy, Debug)]
struct Counted {
    /// All packets except those of this prober.
    others: u64,
    /// The datagrams among them.
    datagrams: u64,
}

impl Measurements {
    /// Returns the method that they use.
    pub(crate) fn method(&self) -> Method {
        self.config.measure.method
    }

    /// Adds measurements to a network; `seed` and `id` determine the random numbers of their hosts.
    pub fn new(network: &mut Network, config: MeasurementConfig, seed: u64, id: u64) -> Measurements {
        // What one of several links that take turns saw of a stream does not tell what was free.
        let tap = Some(config.narrow).filter(|narrow| network.parallel(*narrow).len() == 1);
        let prober = network.add_prober(&config.path, tap);
        let bundles = config.path.iter().map(|link| network.parallel(*link));
        let with_count = |links: Vec<LinkId>| {
            let count = links.len() as u64;
            links.into_iter().map(move |link| (link, count))
        };
        let links: Vec<(LinkId, u64)> = bundles.flat_map(with_count).collect();
        links.iter().for_each(|(link, _)| network.watch(&[*link]));
        let seed = random::generator(seed, "measurement", id).next_u64();
        Measurements {
            prober,
            sender: config.mechanism.sender(config.line, config.measure.packet, seed),
            current: None,
            next: Some(config.start),
            pending_stream: None,
            ended: Vec::new(),
            streams: Vec::new(),
            seed,
            links,
            config,
        }
    }

    /// Returns when to call [`Measurements::poll`] next; `None` when no measurement is left.
    pub fn next(&self) -> Option<Instant> {
        self.next
    }

    /// Returns the completed measurements.
    pub fn ended(&self) -> &[Measured] {
        &self.ended
    }

    /// Returns the streams sent so far.
    pub(crate) fn streams(&self) -> &[StreamTruth] {
        &self.streams
    }

    /// Processes the arrivals of the stream in flight, or sends the next stream.
    pub fn poll(&mut self, network: &mut Network) {
        let now = network.now();
        if self.next.is_none_or(|next| now < next) {
            return;
        }
        if let Some((schedule, mut last)) = self.pending_stream.take() {
            // The message that ends the stream waits as the packets do.
            if network.is_out(self.prober, now - POLL_INTERVAL) {
                last = now;
            }
            if !network.probes_arrived(self.prober)
                && now < deadline(network, self.prober, self.config.measure.rtt, (&schedule, last))
            {
                self.pending_stream = Some((schedule, last));
                self.next = Some(now + POLL_INTERVAL);
                return;
            }
            self.observe(network, &schedule);
            // The receiver's report takes half an RTT to return.
            self.next = Some(now + self.config.measure.rtt.scale(0.5));
            return;
        }
        let mut current = self.current.take().unwrap_or_else(|| self.begin(network));
        let step = current.measurement.next_step(now);
        if let Some(from) = current.measurement.sampled_from().filter(|from| *from > current.sampled_from) {
            (current.sampled_from, current.counted) = (from, self.counted(network));
        }
        self.current = Some(current);
        match step {
            Step::Send(schedule) => self.send(network, schedule),
            Step::Wait(time) => self.next = Some(now + time),
            Step::Done => self.end(network),
        }
    }

    fn begin(&self, network: &Network) -> Current {
        Current {
            measurement: Measurement::new(self.config.measure, network.now())
                .with_model(self.config.model.clone()),
            begin: network.now(),
            streams: self.streams.len(),
            displaced: self.displaced(network),
            sampled_from: network.now(),
            counted: self.counted(network),
        }
    }

    fn counted(&self, network: &Network) -> Vec<Counted> {
        let count = |id: &LinkId| {
            let link = network.link(*id);
            let own = network.accepted_of(self.prober, *id).get();
            Counted { others: link.accepted() - own, datagrams: link.accepted_datagrams() }
        };
        self.links.iter().map(|(link, _)| count(link)).collect()
    }

    fn displaced(&self, network: &Network) -> i64 {
        self.links.iter().map(|(link, _)| network.displaced(*link)).sum()
    }

    /// Returns how many packets of other traffic the links of the path have dropped since
    /// the start of the run.
    pub(crate) fn others_dropped(&self, network: &Network) -> u64 {
        self.links.iter().map(|(link, _)| network.others_dropped(*link)).sum()
    }

    /// Stores the result with the truth, and schedules the next measurement.
    fn end(&mut self, network: &Network) {
        self.next = None;
        let Some(measured) = self.unfinished(network) else { return };
        self.current = None;
        self.next = self.config.every.map(|every| (measured.begin + every).max(measured.end + POLL_INTERVAL));
        self.ended.push(measured);
    }

    /// Returns the measurement in progress as if it ended now; `None` when there is none.
    pub(crate) fn unfinished(&self, network: &Network) -> Option<Measured> {
        let current = self.current.as_ref()?;
        let (begin, end) = (current.begin, network.now());
        let mut added: Vec<Duration> =
            self.streams[current.streams..].iter().map(|stream| stream.added_delay).collect();
        added.sort_unstable();
        Some(Measured {
            begin,
            end,
            sampled_from: current.sampled_from,
            answer: current.measurement.answer(),
            truth: self.truth(network, current),
            displaced: self.displaced(network) - current.displaced,
            added_delay: added.get(added.len() / 2).copied().unwrap_or_default(),
            added_delay_max: added.last().copied().unwrap_or_default(),
        })
    }

    fn truth(&self, network: &Network, current: &Current) -> Option<Truth> {
        let (begin, end) = (current.sampled_from, network.now());
        let links = self.links.iter().zip(&current.counted).zip(self.counted(network));
        let on_link = |(((id, count), before), after): ((&(LinkId, u64), &Counted), Counted)| {
            // Of links that take turns each gets an equal part of the packets.
            let rate = |bytes: u64| Rate::of(Bytes::new(bytes * *count), end - begin);
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
        self.next = Some(last + POLL_INTERVAL);
        self.pending_stream = Some((schedule, last));
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
            let capacity = Rate::of(network.link(self.config.narrow).limit(from, to)?, to - from)?;
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

    /// Returns the record of the stream as the two hosts would write it.
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
