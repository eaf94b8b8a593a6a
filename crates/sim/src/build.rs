//! Builds a network from a scenario.

use std::collections::{HashMap, VecDeque};
use std::fmt::Display;
use std::sync::Arc;

use headway_control::Kind;
use headway_estimate::measure::{Config, Method, UnknownMethod};
use headway_host::gap::Mechanism;
use headway_host::nic::Coalescing;
use headway_learned::Model;
use headway_queue::Queue;
use headway_queue::explicit::HEADER_BYTES;
use headway_units::{Bytes, ConfigError, Duration, Instant, Rate, WIRE_OVERHEAD};

use headway_scenario::{
    Changed, EcnMode, Error, FlowSpec, HostSpec, LinkSpec, MeasureSpec, MiddleboxSpec, ModelFile, Scenario,
    Topology, Wire, World,
};
use headway_traffic::random;
use rand::Rng;

use crate::arrivals::{ArrivingGroup, Starts};
use crate::config::{
    AckPolicy, Burst, Ecn, FlowId, Line, LinkConfig, LinkId, MiddleboxId, NicId, QueueChange, Service,
    SourceConfig, SourceId, Station, TcpConfig,
};
use crate::measurement::{MeasurementConfig, Measurements};
use crate::network::Network;
use crate::passages::passages;
use crate::select::Selections;
use crate::transport::sender::SEGMENT_OVERHEAD;

/// Minimum memory of a flow: its state, its timers and a short scoreboard.
const FLOW_BYTES: u64 = 2_048;
/// Memory of a packet in a queue or on a wire.
const PACKET_BYTES: u64 = 64;
/// Memory of one point in the time series of a link, and of a flow.
const LINK_POINT_BYTES: u64 = 48;
const FLOW_POINT_BYTES: u64 = 104;
/// Default line rate of a measuring host, as a multiple of the narrow link's rate.
const LINE_RATE_FACTOR: f64 = 4.0;
/// The minimum RTT that a measurement assumes, for links without delay.
const MIN_RTT: Duration = Duration::from_us(10);
/// Maximum number of flows with time series of their own; more would be unreadable.
pub(crate) const SERIES_FLOWS: usize = 256;

/// A network built from a scenario, with the names of its components.
#[derive(Debug)]
pub struct Built {
    /// The network, at time zero.
    pub network: Network,
    /// Directions of links with their names, in the order of the file.
    pub links: Vec<(LinkId, String)>,
    /// Flows, in the order of the file.
    pub flows: Vec<BuiltFlow>,
    /// Groups of flows that arrive and leave, in the order of the file.
    pub arriving: Vec<ArrivingGroup>,
    /// Sources of datagrams, in the order of the file.
    pub sources: Vec<SourceId>,
    /// Middleboxes, in the order of the file.
    pub middleboxes: Vec<MiddleboxId>,
    /// Measurements, in the order of the file.
    pub measurements: Vec<Measurements>,
    /// Choices among paths, in the order of the file.
    pub selections: Selections,
    /// Changes to come, in order of time.
    pub changes: VecDeque<BuiltChange>,
}

/// A change during a run.
#[derive(Clone, Debug)]
pub struct BuiltChange {
    /// When.
    pub at: Instant,
    /// What changes.
    pub what: What,
}

/// What a change during a run replaces.
#[derive(Clone, Debug)]
pub enum What {
    /// The queue of a link.
    Queue(LinkId, Box<QueueChange>),
    /// The controller of flows.
    Controller(Vec<FlowId>, Box<TcpConfig>),
}

/// A flow of a network.
#[derive(Clone, Debug)]
pub struct BuiltFlow {
    /// Its number in the network.
    pub id: FlowId,
    /// Index of its `[[flow]]`.
    pub group: usize,
    /// When it starts.
    pub start: Instant,
}

impl Built {
    /// Builds the network; `limit` is the memory it may use.
    ///
    /// # Errors
    /// When a file cannot be read, a queue cannot be built as described, or the network would
    /// not fit into memory.
    pub fn new(scenario: &Scenario, seed: u64, limit: Bytes) -> Result<Built, Error> {
        let needed = memory(scenario);
        if needed > limit {
            return Err(Error::Memory { needed, limit });
        }
        scenario.check_world(World::Sim)?;
        let scenario = &*scenario.drawn(seed);
        let mut builder = Builder {
            topology: Topology::new(scenario),
            network: Network::new(seed),
            links: Vec::new(),
            middleboxes: Vec::new(),
        };
        builder.add_links(scenario, seed)?;
        builder.add_middleboxes(scenario);
        let (flows, arriving) = builder.add_flows(scenario, seed)?;
        let sources = builder.add_sources(scenario)?;
        let measurements = builder.add_measurements(scenario, seed)?;
        let selections = Selections::new(scenario, seed)?;
        let changes = builder.changes(scenario, seed, &flows)?;
        let Builder { network, links, middleboxes, .. } = builder;
        Ok(Built { network, links, flows, arriving, sources, middleboxes, measurements, selections, changes })
    }
}

/// Estimates the memory that a run of this scenario needs.
pub fn memory(scenario: &Scenario) -> Bytes {
    let flows = scenario.flow_count();
    let series =
        FLOW_POINT_BYTES * flows.min(SERIES_FLOWS as u64) + LINK_POINT_BYTES * 2 * scenario.link.len() as u64;
    let intervals = (scenario.duration.ns() / scenario.interval.ns()).unsigned_abs() + 1;
    let packet = u64::from(scenario.mtu) + 38;
    let links: u64 = scenario.link.iter().map(|link| 2 * max_held(link, scenario.mtu).get() / packet).sum();
    Bytes::new(FLOW_BYTES) * flows + Bytes::new(PACKET_BYTES) * links + Bytes::new(series) * intervals
}

/// Returns how a link serves its queue, and the queue.
pub(crate) fn service(scenario: &Scenario, spec: &LinkSpec, seed: u64) -> (Service, QueueChange) {
    if let Some(rates) = spec.steps(scenario.duration) {
        // Of a capacity that is redrawn, queues know the full one.
        let known = spec.rate.unwrap_or(rates.at(Instant::ZERO));
        let queue = spec.queue_spec(spec.highest_rate());
        let (rate, steps) = (Some(known), Some(rates.clone()));
        return (Service::Steps(rates), QueueChange { spec: queue, rate, rates: steps, seed });
    }
    let (service, rate) = match (&spec.trace, spec.rate, spec.burst) {
        (Some(trace), ..) => {
            let (opportunities, period) = (trace.opportunities().to_vec(), trace.period());
            (Service::Trace { opportunities, period }, Some(trace.mean_rate()))
        }
        (None, Some(rate), Some(burst)) => {
            let packet = Bytes::new(scenario.mtu.into()) + WIRE_OVERHEAD;
            let peak = spec.peak_rate.map(|peak| (peak, packet));
            (Service::TokenBucket { rate, burst, peak }, Some(rate))
        }
        (None, Some(rate), None) => (Service::Constant(rate), Some(rate)),
        (None, None, _) => (Service::Unlimited, None),
    };
    (service, QueueChange { spec: spec.queue_spec(rate), rate, rates: None, seed })
}

/// Returns the configuration of one direction of a link, of a duplex link the way `back` or there.
fn link_config(scenario: &Scenario, spec: &LinkSpec, back: bool, seed: u64) -> LinkConfig {
    let (service, queue) = service(scenario, spec, seed);
    LinkConfig {
        ack_filter: spec.ack_filter,
        policer: spec.police.map(|police| (police.rate, police.burst)),
        ..with_wire(service, queue, spec.delay, spec.wire(back))
    }
}

/// Returns a link that serves this queue, with this delay and wire behind it.
pub(crate) fn with_wire(service: Service, queue: QueueChange, delay: Duration, wire: Wire) -> LinkConfig {
    let built = queue.spec.build(queue.rate, queue.seed);
    let queue = queue.rates.into_iter().fold(built, Queue::with_rates);
    LinkConfig {
        delay_trace: wire.delay_trace,
        jitter: wire.jitter,
        reordering: wire.reordering,
        loss: wire.loss,
        loss_bursts: wire.loss_bursts,
        duplicate: wire.duplicate,
        corrupt: wire.corrupt,
        ecn: wire.ecn,
        ..LinkConfig::new(service, delay, queue)
    }
}

fn tcp_config(
    scenario: &Scenario,
    spec: &FlowSpec,
    controller: Kind,
    start: Instant,
    (forward, reverse): (&[LinkId], &[LinkId]),
    ends: Ends,
) -> TcpConfig {
    TcpConfig {
        forward: forward.to_vec(),
        reverse: reverse.to_vec(),
        controller: controller.into(),
        start,
        stop: spec.stop.map(|stop| Instant::ZERO + stop),
        size: spec.size,
        application_rate: spec.application_rate,
        chunks: spec.chunk.zip(spec.pause),
        mss: scenario.mss_of(spec) - if controller.is_explicit() { HEADER_BYTES as u32 } else { 0 },
        initial_window: spec.initial_window,
        receive_buffer: spec.receive_buffer,
        read_rate: spec.read_rate,
        ack: AckPolicy { every: spec.ack_every, timeout: spec.ack_timeout },
        ecn: ecn(spec.ecn),
        ect1: spec.ecn == EcnMode::Ect1,
        pacing: spec.pacing,
        prr: spec.prr,
        hystart: spec.hystart,
        // A NIC that segments would repeat one congestion header in all segments.
        burst: if spec.offload && !controller.is_explicit() { Burst::Host } else { Burst::Single },
        linux_rounding: true,
        nic: ends.nic,
        ack_nic: ends.ack_nic,
        taps: Vec::new(),
        middleboxes: Vec::new(),
        port: 0,
        line: ends.line,
        paced_by_line: spec.gaps != Mechanism::Exact,
        stamp: spec.stamp,
        model: spec.model.as_ref().and_then(ModelFile::model).cloned(),
    }
}

/// Returns the time from which on no flows of a group arrive.
fn last_arrival(scenario: &Scenario, spec: &FlowSpec) -> Instant {
    Instant::ZERO + spec.stop.unwrap_or(scenario.duration).min(scenario.duration)
}

fn ecn(mode: EcnMode) -> Ecn {
    match mode {
        EcnMode::Off => Ecn::Off,
        EcnMode::Classic => Ecn::Classic,
        EcnMode::Dctcp | EcnMode::Ect1 => Ecn::Dctcp,
    }
}

/// Reads the name of the estimator of measurement `index`.
fn method(index: usize, spec: &MeasureSpec) -> Result<Method, ConfigError> {
    let named = spec.method.as_deref().map(str::parse).transpose();
    let key = |name: &str| format!("measure[{index}].{name}");
    let named = named
        .map(Option::unwrap_or_default)
        .map_err(|error: UnknownMethod| ConfigError::new(&key("method"), &error.to_string()))?;
    match model(spec) {
        None if named == Method::LEARNED => {
            Err(ConfigError::new(&key("method"), "needs the key `model`, the file of a trained model"))
        }
        None => Ok(named),
        Some(_) if named != Method::LEARNED => {
            Err(ConfigError::new(&key("model"), "is for `method = \"learned\"`"))
        }
        Some(model) => Method::of_model(model).ok_or_else(|| {
            let task = model.task().name();
            ConfigError::new(&key("model"), &format!("is a model of TCP samples ({task}), not of streams"))
        }),
    }
}

/// Checks whether the controller of a group of flows can take their trained model, if they have one.
fn check_model(scenario: &Scenario, group: usize, controller: Kind) -> Result<(), ConfigError> {
    let spec = &scenario.flow[group];
    let Some(model) = spec.model.as_ref().and_then(ModelFile::model) else { return Ok(()) };
    let wrong = |why: &str| Err(ConfigError::new(&format!("flow[{group}].model"), why));
    let Kind::Rapid(parameters) = controller else {
        return wrong("is for the controller `rapid`");
    };
    let wire = scenario.mss_of(spec) + SEGMENT_OVERHEAD;
    parameters.check_model(model, wire).or_else(|why| wrong(&why.to_string()))
}

/// Returns the trained model of a measurement.
fn model(spec: &MeasureSpec) -> Option<&Arc<Model>> {
    spec.model.as_ref().and_then(ModelFile::model)
}

fn missing(key: &str, what: &dyn Display) -> ConfigError {
    ConfigError::new(key, &format!("the simulator has no `{what}`; `--on uml` has"))
}

/// What the packets of a flow meet in its hosts.
#[derive(Clone, Copy)]
struct Ends {
    line: Option<Line>,
    nic: Option<NicId>,
    ack_nic: Option<NicId>,
}

/// A network under construction.
struct Builder {
    topology: Topology,
    network: Network,
    links: Vec<(LinkId, String)>,
    middleboxes: Vec<MiddleboxId>,
}

impl Builder {
    fn add_links(&mut self, scenario: &Scenario, seed: u64) -> Result<(), Error> {
        let mut channels = HashMap::new();
        for (number, direction) in self.topology.directions().iter().enumerate() {
            let spec = &scenario.link[direction.link];
            let queue_seed = random::generator(seed, "queue", number as u64).next_u64();
            let changes = scenario.change.iter().any(|change| change.link.as_ref() == Some(&direction.name));
            let wifi = spec.wifi.as_ref().zip(spec.rate).map(|(wifi, rate)| {
                let channel = *channels.entry(&wifi.channel).or_insert_with(|| self.network.add_channel());
                let address = direction.from as u32 + 1;
                (channel, Station { address, rate, retries: wifi.retries, damage: wifi.damage })
            });
            let plain = link_config(scenario, spec, direction.back, queue_seed);
            let config = LinkConfig { changes, wifi, ..plain };
            self.links.push((self.network.add_link(&config), direction.name.clone()));
        }
        for (number, direction) in self.topology.directions().iter().enumerate() {
            let parallel = self.topology.parallel(number);
            if direction.sprays && parallel.first() == Some(&number) {
                let links: Vec<LinkId> = parallel.iter().map(|number| self.links[*number].0).collect();
                self.network.spray(&links);
            }
        }
        Ok(())
    }

    fn add_middleboxes(&mut self, scenario: &Scenario) {
        for spec in &scenario.middlebox {
            let id = self.network.add_middlebox(&spec.policy(scenario), spec.rates());
            self.middleboxes.push(id);
        }
        for (id, spec) in self.middleboxes.iter().zip(&scenario.middlebox) {
            let peer = scenario.middlebox.iter().position(|other| Some(&other.at) == spec.peer.as_ref());
            if let Some(peer) = peer.and_then(|peer| self.middleboxes.get(peer)) {
                self.network.pair_middleboxes(*id, *peer);
            }
        }
    }

    /// Adds the NICs of all hosts that have one, and returns them by node.
    fn add_nics<'a>(
        &mut self,
        scenario: &'a Scenario,
        of: fn(&HostSpec) -> Option<Coalescing>,
    ) -> HashMap<&'a str, NicId> {
        let nics = scenario.host.iter().filter_map(|(node, host)| Some((node.as_str(), of(host)?)));
        nics.map(|(node, coalescing)| (node, self.network.add_nic(coalescing))).collect()
    }

    fn add_flows(
        &mut self,
        scenario: &Scenario,
        seed: u64,
    ) -> Result<(Vec<BuiltFlow>, Vec<ArrivingGroup>), Error> {
        let mut lines = HashMap::new();
        let nics = self.add_nics(scenario, |host| host.coalescing);
        let ack_nics = self.add_nics(scenario, |host| host.ack_coalescing);
        let (mut flows, mut arriving) = (Vec::new(), Vec::new());
        for (group, spec) in scenario.flow.iter().enumerate() {
            let back: Vec<String> = spec.via.iter().rev().cloned().collect();
            let forward = self.path(&spec.from, &spec.to, &spec.via)?;
            let reverse = self.path(&spec.to, &spec.from, &back)?;
            let ends = Ends {
                line: self.line_of(scenario, spec, &mut lines)?,
                nic: nics.get(spec.to.as_str()).copied(),
                ack_nic: ack_nics.get(spec.from.as_str()).copied(),
            };
            let controller = spec
                .controller
                .known()
                .ok_or_else(|| missing(&format!("flow[{group}].controller"), &spec.controller))?;
            check_model(scenario, group, controller)?;
            let middleboxes = passages(&self.topology, scenario, spec, &self.middleboxes)?;
            let port = MiddleboxSpec::port(group);
            let config = |start| TcpConfig {
                middleboxes: middleboxes.clone(),
                port,
                ..tcp_config(scenario, spec, controller, start, (&forward, &reverse), ends)
            };
            if let Some((arrivals, sizes)) = spec.arrivals.as_ref().zip(spec.arrival_sizes()) {
                let start = spec.start_of(0);
                // No flows arrive after `stop`, but those that have arrived finish.
                let stop = last_arrival(scenario, spec);
                let id = self.network.add_group(&TcpConfig { stop: None, ..config(start) });
                let starts = match arrivals.sessions(sizes, seed, group as u64) {
                    Some(sessions) => Starts::Sessions(sessions),
                    None => Starts::Process(arrivals.generator(sizes, seed, group as u64), None),
                };
                arriving.push(ArrivingGroup::new(group, id, starts, (start, stop)));
                continue;
            }
            let starts: Vec<Instant> = match &spec.arrivals {
                None => (0..spec.count).map(|index| spec.start_of(index)).collect(),
                Some(arrivals) => {
                    let times = arrivals.starts(seed, group as u64).map(|at| spec.start_of(0) + at);
                    times.take_while(|at| *at < last_arrival(scenario, spec)).collect()
                }
            };
            for start in starts {
                flows.push(BuiltFlow { id: self.network.add_tcp(&config(start)), group, start });
            }
        }
        Ok((flows, arriving))
    }

    /// Returns the line of the flow's host. Flows that leave a host over the same link share its line.
    fn line_of(
        &mut self,
        scenario: &Scenario,
        spec: &FlowSpec,
        lines: &mut HashMap<(usize, Rate, Mechanism), Line>,
    ) -> Result<Option<Line>, Error> {
        let route = self.route(&spec.from, &spec.to, &spec.via)?;
        let rate = self.topology.line_of(scenario, spec);
        let (Some(first), Some(rate)) = (route.first(), rate) else { return Ok(None) };
        let packet = scenario.full_packet();
        let line = lines.entry((*first, rate, spec.gaps));
        Ok(Some(*line.or_insert_with(|| self.network.add_line(spec.gaps, rate, packet))))
    }

    fn add_sources(&mut self, scenario: &Scenario) -> Result<Vec<SourceId>, Error> {
        let mut sources = Vec::new();
        for spec in &scenario.traffic {
            sources.push(self.network.add_source(&SourceConfig {
                path: self.path(&spec.from, &spec.to, &spec.via)?,
                traffic: spec.traffic.clone(),
                start: Instant::ZERO + spec.start,
                stop: spec.stop.map(|stop| Instant::ZERO + stop),
            }));
        }
        Ok(sources)
    }

    fn add_measurements(&mut self, scenario: &Scenario, seed: u64) -> Result<Vec<Measurements>, Error> {
        let mut measurements = Vec::new();
        for (index, spec) in scenario.measure.iter().enumerate() {
            let method = method(index, spec).map_err(|mistake| scenario.locate(mistake))?;
            let config = self.measurement_config(scenario, spec, method)?;
            measurements.push(Measurements::new(&mut self.network, config, seed, index as u64));
        }
        Ok(measurements)
    }

    fn measurement_config(
        &self,
        scenario: &Scenario,
        spec: &MeasureSpec,
        method: Method,
    ) -> Result<MeasurementConfig, Error> {
        let back: Vec<String> = spec.via.iter().rev().cloned().collect();
        let forward = self.route(&spec.from, &spec.to, &spec.via)?;
        let reverse = self.route(&spec.to, &spec.from, &back)?;
        let link = |direction: &usize| &scenario.link[self.topology.directions()[*direction].link];
        // Links that take turns pass this many times what the slowest of them passes.
        let rate_of = |hop: &usize, rate: fn(&LinkSpec) -> Option<Rate>| {
            let links = self.topology.parallel(*hop);
            let least = links.iter().filter_map(|member| rate(link(member))).min()?;
            Some(least.scale(links.len() as f64))
        };
        let slowest =
            forward.iter().filter_map(|hop| Some((rate_of(hop, LinkSpec::lowest_rate)?, *hop))).min();
        let (lowest, slowest) =
            slowest.ok_or_else(|| ConfigError::new("to", "is reached over links without a rate"))?;
        let highest = rate_of(&slowest, LinkSpec::highest_rate).unwrap_or(lowest);
        let police = |link: &LinkSpec| Some(link.police?.rate);
        let policed = forward.iter().filter_map(|hop| Some((rate_of(hop, police)?, *hop))).min();
        let narrow = policed.filter(|(rate, _)| *rate < lowest).map_or(slowest, |(_, hop)| hop);
        let line = spec.line.unwrap_or(highest.scale(LINE_RATE_FACTOR));
        let propagation: Duration = forward.iter().chain(&reverse).map(|hop| link(hop).first_delay()).sum();
        Ok(MeasurementConfig {
            path: forward.iter().map(|hop| self.links[*hop].0).collect(),
            narrow: self.links[narrow].0,
            start: Instant::ZERO + spec.start,
            every: spec.every,
            measure: Config {
                method,
                packet: spec.packet.unwrap_or_else(|| scenario.full_packet()),
                budget: spec.budget,
                gentle: spec.gentle,
                duration: None,
                rtt: propagation.max(MIN_RTT),
                top_rate: line,
                train_rate: line,
            },
            model: model(spec).cloned(),
            line,
            mechanism: spec.gaps,
            coalescing: scenario.host.get(&spec.to).and_then(|host| host.coalescing),
            stamp: spec.stamp,
        })
    }

    /// Prepares the changes during the run, so that none can fail.
    fn changes(
        &self,
        scenario: &Scenario,
        seed: u64,
        flows: &[BuiltFlow],
    ) -> Result<VecDeque<BuiltChange>, Error> {
        let mut changes = Vec::new();
        for (number, spec) in scenario.change.iter().enumerate() {
            let wrong =
                |(key, what): (&str, String)| ConfigError::new(&format!("change[{number}].{key}"), &what);
            let mut add = |what| changes.push(BuiltChange { at: Instant::ZERO + spec.at, what });
            match spec.resolve(scenario, &self.topology).map_err(wrong)? {
                Changed::Queue { direction, link } => {
                    let seed = random::generator(seed, "queue change", number as u64).next_u64();
                    let (_, queue) = service(scenario, &link, seed);
                    add(What::Queue(self.links[direction].0, Box::new(queue)));
                }
                Changed::Controller { groups, kind } => {
                    for group in groups {
                        let ends = Ends { line: None, nic: None, ack_nic: None };
                        let paths: (&[LinkId], &[LinkId]) = (&[], &[]);
                        let config =
                            tcp_config(scenario, &scenario.flow[group], kind, Instant::ZERO, paths, ends);
                        let of = flows.iter().filter(|flow| flow.group == group);
                        add(What::Controller(of.map(|flow| flow.id).collect(), Box::new(config)));
                    }
                }
            }
        }
        changes.sort_by_key(|change| change.at);
        Ok(changes.into())
    }

    /// Returns the indices of the directions of links on a path.
    fn route(&self, from: &str, to: &str, via: &[String]) -> Result<Vec<usize>, Error> {
        Ok(self.topology.route(from, to, via).map_err(|reason| ConfigError::new("via", &reason))?)
    }

    fn path(&self, from: &str, to: &str, via: &[String]) -> Result<Vec<LinkId>, Error> {
        Ok(self.route(from, to, via)?.into_iter().map(|index| self.links[index].0).collect())
    }
}

/// Returns the wire bytes that the queue and the wire of a link hold when both are full.
fn max_held(link: &LinkSpec, mtu: u32) -> Bytes {
    // For links without a rate this depends on other links; the memory is also checked during the run.
    let Some(rate) = link.highest_rate() else { return Bytes::ZERO };
    link.buffer_at(rate).bytes(mtu) + rate.bytes_in(link.longest_delay() + Duration::from_ms(1))
}
