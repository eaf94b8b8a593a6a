//! Packets, for as long as something is asked: a network of its own for each question,
//! measurement and transfer.
//!
//! The cross traffic of a day is some hundred million packets, of which hardly any meets a probe. So its mean
//! rate is known for all times, and its packets exist only around probes, from a moment before them on.

use headway_control::Kind;
use headway_estimate::measure::{Failure, Measurement, Step};
use headway_estimate::question::Question;
use headway_estimate::stream::Arrival;
use headway_estimate::{Schedule, StreamRecord};
use headway_select::Answer;
use headway_traffic::random;
use headway_units::{Bytes, Duration, Instant};
use rand::Rng;

use super::world::PathsWorld;
use crate::config::{FlowId, LinkId, ProberId, SourceConfig, TcpConfig};
use crate::measurement::deadline;
use crate::network::Network;

/// Cross traffic flows for so long before the first probe, so that queues are as they usually are.
const WARM: Duration = Duration::from_ms(400);
/// Nothing takes longer.
const LONGEST: Duration = Duration::from_ms(120_000);
/// Interval at which a stream in flight is looked at.
const LOOK: Duration = Duration::from_ms(1);

/// What sends streams and reads answers from them.
#[derive(Debug)]
pub(super) enum Machine {
    /// A whole measurement.
    Measurement(Box<Measurement>),
    /// A question about one rate.
    Question(Question),
}

impl Machine {
    fn next_step(&mut self, now: Instant) -> Step {
        match self {
            Machine::Measurement(measurement) => measurement.next_step(now),
            Machine::Question(question) => question.next_step(now),
        }
    }

    fn observe(&mut self, now: Instant, record: &StreamRecord) {
        match self {
            Machine::Measurement(measurement) => measurement.observe(now, record, None),
            Machine::Question(question) => question.observe(now, record, None),
        }
    }
}

/// One sender of streams in a window.
#[derive(Debug)]
pub(super) struct Sender {
    machine: Machine,
    prober: ProberId,
    rtt: Duration,
    next: Option<Instant>,
    /// The stream in flight, and when its last packet leaves.
    pending: Option<(Schedule, Instant)>,
}

/// A network with packets from a moment before a time of the run on.
#[derive(Debug)]
pub(super) struct Window<'a> {
    world: &'a PathsWorld,
    network: Network,
    /// The links of the world that are here, by index.
    links: Vec<(usize, LinkId)>,
    /// The ways back of the paths that are here.
    backs: Vec<(usize, Vec<LinkId>)>,
    /// What is time zero of the run, in the time of this network.
    begin: Instant,
}

impl<'a> Window<'a> {
    /// Creates one around some paths at `at`; `salt` tells uses at the same time apart.
    pub(super) fn new(world: &'a PathsWorld, paths: &[usize], at: Instant, salt: u64) -> Window<'a> {
        let seed = random::generator(world.seed ^ salt, "window", at.ns()).next_u64();
        let network = Network::new(seed);
        let mut window = Window { world, network, links: Vec::new(), backs: Vec::new(), begin: at };
        for path in paths {
            for link in &world.paths[*path].there {
                window.add_link(*link, seed);
            }
            let from = window.from();
            let back = &world.paths[*path].back;
            let back = back.iter().map(|link| window.network.add_link(&link.config(from, seed))).collect();
            window.backs.push((*path, back));
        }
        window
    }

    /// Returns how long after time zero of the run that of this network is.
    fn from(&self) -> Duration {
        self.begin - self.local_start()
    }

    fn add_link(&mut self, number: usize, seed: u64) {
        if self.links.iter().any(|(known, _)| *known == number) {
            return;
        }
        let (from, link) = (self.from(), &self.world.links[number]);
        let id = self.network.add_link(&link.config(from, seed));
        self.links.push((number, id));
        let local = |time: Instant| Instant::ZERO + ((time - Instant::ZERO) - from).max(Duration::ZERO);
        let first =
            link.levels.partition_point(|(begin, _)| *begin - Instant::ZERO <= from).saturating_sub(1);
        for (index, (begin, rate)) in link.levels.iter().enumerate().skip(first) {
            if *begin > self.begin + LONGEST {
                break;
            }
            let end = link.levels.get(index + 1).map(|(end, _)| *end);
            self.network.add_source(&SourceConfig {
                path: vec![id],
                traffic: link.traffic(*rate),
                start: if index == 0 { Instant::ZERO } else { local(*begin) },
                stop: end.map(local),
            });
        }
    }

    /// Returns the links there of a path.
    fn there(&self, path: usize) -> Vec<LinkId> {
        let id = |number: &usize| self.links.iter().find(|(known, _)| known == number).map(|(_, id)| *id);
        self.world.paths[path].there.iter().filter_map(id).collect()
    }

    fn local_start(&self) -> Instant {
        Instant::ZERO + WARM
    }

    /// Returns how long something has taken that ended now.
    fn took(&self) -> Duration {
        self.network.now() - self.local_start()
    }

    /// Returns how many packets of others were lost.
    pub(super) fn others_lost(&self) -> u64 {
        self.links.iter().map(|(_, id)| self.network.displaced(*id).max(0).unsigned_abs()).sum()
    }

    /// Runs machines, each over its path, until all have their answers; returns them with the time that took.
    pub(super) fn ask(
        &mut self,
        machines: impl FnOnce(Instant) -> Vec<(usize, Machine)>,
    ) -> (Vec<(usize, Machine)>, Duration) {
        let start = self.local_start();
        let watched: Vec<LinkId> = self.links.iter().map(|(_, id)| *id).collect();
        self.network.watch(&watched);
        let mut paths = Vec::new();
        let mut senders: Vec<Sender> = Vec::new();
        for (path, machine) in machines(start) {
            let prober = self.network.add_prober(&self.there(path), None);
            let rtt = self.world.rtt(path);
            paths.push(path);
            senders.push(Sender::new(machine, prober, rtt, start));
        }
        while let Some(next) = senders.iter().filter_map(|sender| sender.next).min() {
            if next > start + LONGEST {
                break;
            }
            self.network.run_until(next);
            for sender in &mut senders {
                if sender.next.is_some_and(|due| due <= next) {
                    sender.poll(&mut self.network);
                }
            }
        }
        let took = self.took();
        (paths.into_iter().zip(senders.into_iter().map(|sender| sender.machine)).collect(), took)
    }

    /// Transfers bytes by TCP over a path, or as many as fit into `longest`; returns how many and the time
    /// that took, from the request to the last byte.
    pub(super) fn transfer(
        &mut self,
        path: usize,
        size: Option<Bytes>,
        longest: Duration,
    ) -> (Bytes, Duration) {
        let there = self.there(path);
        let back = self.backs.iter().find(|(known, _)| *known == path).map(|(_, back)| back.clone());
        let start = self.local_start();
        let rtt = self.world.rtt(path);
        // Connecting takes a round trip, and the request half of one.
        let begun = start + rtt + rtt / 2;
        let config =
            TcpConfig { start: begun, size, ..TcpConfig::new(Kind::Cubic, there, back.unwrap_or_default()) };
        let flow = self.network.add_tcp(&config);
        let end = self.run_flow(flow, start + longest);
        (self.network.flow(flow).goodput, end - start)
    }

    fn run_flow(&mut self, flow: FlowId, latest: Instant) -> Instant {
        while self.network.now() < latest {
            self.network.run_until((self.network.now() + Duration::from_ms(20)).min(latest));
            if let Some(finished) = self.network.flow(flow).finished {
                return finished;
            }
        }
        latest
    }

    /// Returns how many packets of the cross traffic were sent and did not arrive, except those on the way.
    pub(super) fn cross_lost(&self) -> u64 {
        let dropped = |link: &LinkId| self.network.link(*link).statistics().dropped.packets;
        self.links.iter().map(|(_, id)| dropped(id)).sum()
    }

    /// Returns the time of the run at which this window began.
    pub(super) fn begin(&self) -> Instant {
        self.begin
    }
}

impl Sender {
    /// Creates one that begins at `now`.
    pub(super) fn new(machine: Machine, prober: ProberId, rtt: Duration, now: Instant) -> Sender {
        Sender { machine, prober, rtt, next: Some(now), pending: None }
    }

    /// Returns when to poll it next; none when the answer is there.
    pub(super) const fn next(&self) -> Option<Instant> {
        self.next
    }

    /// Does what is due now.
    pub(super) fn poll(&mut self, network: &mut Network) {
        let now = network.now();
        if let Some((schedule, last)) = self.pending.take() {
            if !network.probes_arrived(self.prober)
                && now < deadline(network, self.prober, self.rtt, (&schedule, last))
            {
                self.pending = Some((schedule, last));
                self.next = Some(now + LOOK);
                return;
            }
            let record = self.record(network, &schedule);
            self.machine.observe(now, &record);
            // The report takes half a round trip to return.
            self.next = Some(now + self.rtt / 2);
            return;
        }
        self.next = match self.machine.next_step(now) {
            Step::Send(schedule) => Some(self.send(network, schedule)),
            Step::Wait(time) => Some(now + time.max(Duration::from_us(1))),
            Step::Done => None,
        };
    }

    fn send(&mut self, network: &mut Network, schedule: Schedule) -> Instant {
        let mut at = network.now();
        network.send_probe(self.prober, at, schedule.packet);
        for gap in &schedule.gaps {
            at += *gap;
            network.send_probe(self.prober, at, schedule.packet);
        }
        self.pending = Some((schedule, at));
        at + LOOK
    }

    /// Returns what has been learned, and what it has cost.
    pub(super) fn into_answer(self) -> (Result<Answer, Failure>, Bytes) {
        match self.machine {
            Machine::Question(question) => (question.answer().map(Answer::Reply), question.bytes()),
            Machine::Measurement(measurement) => {
                let found = measurement.answer();
                let (capacity, bucket) = (found.capacity, found.bucket);
                let measured = |free| Answer::Measured { free, capacity, bucket };
                (found.available.map(measured), found.bytes)
            }
        }
    }

    fn record(&self, network: &mut Network, schedule: &Schedule) -> StreamRecord {
        let log = network.take_probe_log(self.prober);
        let arrivals = log.iter().enumerate().map(|(index, log)| Arrival {
            index: index as u32,
            size: schedule.packet,
            sent: log.sent,
            received: log.arrived,
        });
        StreamRecord {
            id: 0,
            packet: schedule.packet,
            average: schedule.average,
            intended: schedule.gaps.clone(),
            arrivals: arrivals.collect(),
        }
    }
}
