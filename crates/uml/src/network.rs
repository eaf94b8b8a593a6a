//! Translates a scenario into the plan of a guest: nodes become namespaces, links become veth pairs with
//! queue disciplines at both ends.
//!
//! A direction with a rate is `netem` with the delay and, below it, `tbf` with the discipline: first
//! propagation, then the queue. This is the reverse of the order on a real link, which the ends cannot
//! notice, and it needs only one device. `tbf` dequeues a packet when its transmission would begin. Therefore
//! the delay includes one transmission time, and the queue limit is one packet less than in the scenario.
//! Where only ACKs travel, and too few to queue, `netem` has the rate itself: so an ACK with SACK blocks
//! takes longer than one without, which decides whose segment finds the last place in a full queue.

mod card;
mod check;
mod controller;
mod explicit;
mod line;
mod middleboxes;
mod programs;
mod rapid;
mod routes;

use std::net::Ipv4Addr;
use std::path::Path;

use headway_scenario::{EcnMode, FlowSpec, LinkSpec, Scenario, Topology};
use headway_units::{Bytes, ConfigError, Duration, WIRE_OVERHEAD};

use crate::discipline;
use crate::plan::{Plan, PlannedDirection, PlannedFlow, PlannedMetrics, PlannedNode, PlannedSource};

/// Connections are opened this many round trips before time zero.
const LEAD_ROUND_TRIPS: i64 = 3;
/// The least time by which connections are opened before time zero.
const MIN_LEAD: Duration = Duration::from_ms(10);
/// Wire bytes of an ACK: IP, TCP with timestamps, and the link layer.
const ACKNOWLEDGEMENT: Bytes = Bytes::new(90);
/// Wire bytes that three SACK blocks add to an ACK.
const SACK_BLOCKS: Bytes = Bytes::new(28);
/// Memory of a guest without packets.
const BASE_MEMORY: Bytes = Bytes::new(512 << 20);
/// Least memory per flow.
const FLOW_MEMORY: Bytes = Bytes::new(200_000);
/// Average memory per host program.
const PROGRAM_MEMORY: Bytes = Bytes::new(128 << 20);
/// Bytes of memory per byte in a queue or on a wire.
const MEMORY_FACTOR: u64 = 20;
/// Send buffer as a multiple of what queues and wires hold, so that it never limits.
const SEND_FACTOR: u64 = 8;
/// Smallest send buffer, in bytes.
const MIN_SEND: u64 = 16 << 20;

/// Options of a run besides the scenario.
#[derive(Clone, Debug, Default)]
pub struct RunOptions {
    /// Whether segmentation and receive offloads stay on.
    pub offloads: bool,
    /// Whether to capture the packets leaving into each direction.
    pub capture: bool,
}

/// Creates the plan of a scenario with a seed; `folder` is the host's folder for the report. The
/// caller adds modules.
///
/// # Errors
/// Errors name a key that the kernel cannot do.
pub fn plan(
    scenario: &Scenario,
    seed: u64,
    folder: &Path,
    options: &RunOptions,
) -> Result<Plan, ConfigError> {
    check::check(scenario)?;
    let mut network = Network::new(scenario, seed, folder, options);
    network.find_loads()?;
    for link in 0..scenario.link.len() {
        network.add_link(link);
    }
    network.add_directions(options)?;
    for group in 0..scenario.flow.len() {
        network.add_flows(group)?;
    }
    for number in 0..scenario.traffic.len() {
        network.add_source(number)?;
    }
    network.add_programs();
    network.add_middleboxes()?;
    Ok(network.plan)
}

/// Returns the memory that the guest needs: several times the bytes that queues and wires hold at once,
/// because of the kernel's overhead per packet and because both ends keep data, too.
pub fn memory(scenario: &Scenario) -> Bytes {
    BASE_MEMORY
        + held(scenario) * MEMORY_FACTOR
        + FLOW_MEMORY * scenario.flow_count()
        + PROGRAM_MEMORY * (scenario.program.len() + scenario.middlebox.len()) as u64
}

/// Returns the bytes that queues and wires hold at once, in both directions.
fn held(scenario: &Scenario) -> Bytes {
    let of = |link: &LinkSpec| {
        let rate = link.rate.unwrap_or_default();
        link.buffer_at(rate).bytes(scenario.mtu) + rate.bytes_in(link.longest_delay() * 2)
    };
    scenario.link.iter().map(of).sum()
}

/// A network under construction.
struct Network<'a> {
    scenario: &'a Scenario,
    seed: u64,
    topology: Topology,
    plan: Plan,
    /// What travels in each direction.
    loads: Vec<Load>,
    /// The first hop into each direction.
    hops: Vec<Hop>,
    /// Namespace and device with the delay and queue of each direction.
    queues: Vec<(usize, String)>,
    /// Namespace and device with the random loss and jitter of each direction, if it has any.
    randoms: Vec<Option<(usize, String)>>,
}

/// What travels in a direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Load {
    /// Full packets, too.
    Data,
    /// ACKs only, which may come faster than the link transmits them.
    Acks,
    /// ACKs only, and too few for a queue.
    FewAcks,
}

/// The ends of a direction: node and device where it begins, and address and device of the next node.
#[derive(Clone, Debug)]
struct Hop {
    node: usize,
    device: String,
    next: Ipv4Addr,
    arrival: String,
}

impl<'a> Network<'a> {
    fn new(scenario: &'a Scenario, seed: u64, folder: &Path, options: &RunOptions) -> Network<'a> {
        let topology = Topology::new(scenario);
        let count = topology.directions().len();
        let nodes = (0..topology.node_count()).map(|number| node(format!("n{number}"))).collect();
        let round_trip: Duration = scenario.link.iter().map(|link| link.longest_delay() * 2).sum();
        let plan = Plan {
            folder: folder.to_owned(),
            nodes,
            send_buffer: (held(scenario) * SEND_FACTOR).get().clamp(MIN_SEND, i32::MAX as u64),
            lead: (round_trip * LEAD_ROUND_TRIPS).max(MIN_LEAD),
            warmup: scenario.warmup,
            looks: looks(scenario),
            offloads: options.offloads,
            ..Plan::default()
        };
        let nowhere =
            Hop { node: 0, device: String::new(), next: Ipv4Addr::UNSPECIFIED, arrival: String::new() };
        Network {
            scenario,
            seed,
            topology,
            plan,
            loads: vec![Load::FewAcks; count],
            hops: vec![nowhere; count],
            queues: vec![(0, String::new()); count],
            randoms: vec![None; count],
        }
    }

    /// Finds what travels in each direction.
    fn find_loads(&mut self) -> Result<(), ConfigError> {
        for flow in &self.scenario.flow {
            let there = self.route(&flow.from, &flow.to, &flow.via)?;
            for acks in self.way_back(flow)? {
                if !there.iter().any(|data| self.has_room_for_acks(*data, acks)) {
                    self.loads[acks] = Load::Acks;
                }
            }
        }
        let flows = self.scenario.flow.iter().map(|flow| (&flow.from, &flow.to, &flow.via));
        let traffic = self.scenario.traffic.iter().map(|source| (&source.from, &source.to, &source.via));
        for (from, to, via) in flows.chain(traffic) {
            for direction in self.route(from, to, via)? {
                self.loads[direction] = Load::Data;
            }
        }
        // Programs may send data in either direction.
        for direction in programs::directions(self.scenario, &self.topology) {
            self.loads[direction] = Load::Data;
        }
        Ok(())
    }

    /// Whether the direction `acks` leads back where `data` comes from and is fast enough for an ACK of
    /// every full packet there.
    fn has_room_for_acks(&self, data: usize, acks: usize) -> bool {
        let [there, back] = [data, acks].map(|index| &self.topology.directions()[index]);
        let [fast, slow] = [there, back].map(|direction| self.scenario.link[direction.link].rate);
        let Some((fast, slow)) = fast.zip(slow) else { return false };
        let longest = ACKNOWLEDGEMENT + SACK_BLOCKS + self.ack_header();
        (there.from, there.to) == (back.to, back.from) && slow.time_for(longest) <= fast.time_for(self.full())
    }

    /// The wire size of a full packet.
    fn full(&self) -> Bytes {
        Bytes::new(u64::from(self.scenario.mtu)) + WIRE_OVERHEAD
    }

    /// The path of a flow's ACKs.
    fn way_back(&self, flow: &FlowSpec) -> Result<Vec<usize>, ConfigError> {
        let via: Vec<String> = flow.via.iter().rev().cloned().collect();
        self.route(&flow.to, &flow.from, &via)
    }

    fn route(&self, from: &str, to: &str, via: &[String]) -> Result<Vec<usize>, ConfigError> {
        self.topology.route(from, to, via).map_err(|reason| ConfigError::new("via", &reason))
    }

    /// Builds a link: one veth pair, or a chain of pairs if its stages need several devices. Namespaces
    /// between two pairs forward packets unchanged.
    fn add_link(&mut self, link: usize) {
        let spec = &self.scenario.link[link];
        let [from, to] = [&spec.from, &spec.to].map(|name| self.topology.number(name).unwrap_or_default());
        let random = discipline::random_stage(spec);
        let ends = [from, to].map(|node| usize::from(self.is_sender(node) || self.is_explicit(node)));
        let stages = usize::from(!is_bare(spec)) + usize::from(random.is_some());
        let cards = [to, from].map(|node| self.cards(node));
        let wires = (0..2).map(|end| ends[end] + (stages + cards[end].len()).max(1)).max().unwrap_or(1);
        let mut chain = vec![from];
        for index in 1..wires {
            chain.push(self.plan.nodes.len());
            self.plan.nodes.push(node(format!("w{link}-{index}")));
        }
        chain.push(to);
        let mut ways = [Vec::new(), Vec::new()];
        for (index, pair) in chain.windows(2).enumerate() {
            let pair = [(pair[0], format!("l{link}-{index}a")), (pair[1], format!("l{link}-{index}b"))];
            self.wire(link, &pair);
            let [there, back] = pair;
            ways[0].push(there);
            ways[1].insert(0, back);
        }
        for index in 1..wires {
            self.pass_on(&ways[1][wires - index], &ways[0][index]);
        }
        self.address(link, [&ways[0][0], &ways[1][0]]);
        let directions: Vec<usize> =
            (0..self.loads.len()).filter(|index| self.topology.directions()[*index].link == link).collect();
        for (end, index) in directions.into_iter().enumerate() {
            let way = &ways[end];
            self.hops[index] = Hop {
                node: way[0].0,
                device: way[0].1.clone(),
                next: link_address(link, 1 - end),
                arrival: ways[1 - end][0].1.clone(),
            };
            self.queues[index] = way[ends[end]].clone();
            self.add_cards(&cards[end], &way[ends[end] + stages..]);
            if let Some(stage) = &random {
                let (node, device) = &way[ends[end] + 1];
                self.randoms[index] = Some((*node, device.clone()));
                self.plan.nodes[*node].tc.push(format!("qdisc add dev {device} root handle 1: {stage}"));
            }
        }
    }

    /// Whether TCP sends data from a node. Its packets stay unsegmented (GSO) until they leave their first
    /// device. A queue there would see packets that are too large, and the sending TCP would see the queue.
    fn is_sender(&self, node: usize) -> bool {
        let programs = self.scenario.program.iter().map(|program| &program.at);
        let mut senders = self.scenario.flow.iter().map(|flow| &flow.from).chain(programs);
        senders.any(|name| self.topology.number(name) == Some(node))
    }

    /// Creates a veth pair between two namespaces; both ends have the Ethernet addresses of
    /// the whole link's ends.
    fn wire(&mut self, link: usize, ends: &[(usize, String); 2]) {
        let mtu = self.scenario.mtu;
        let [one, other] = ends;
        let name = |node: usize| &self.plan.nodes[node].name;
        self.plan.wires.push(format!(
            "link add {} netns {} address {} mtu {mtu} type veth peer name {} netns {} address {} mtu {mtu}",
            one.1,
            name(one.0),
            mac(link, 0),
            other.1,
            name(other.0),
            mac(link, 1)
        ));
        for (node, device) in ends {
            let node = &mut self.plan.nodes[*node];
            node.devices.push(device.clone());
            node.ip.push(format!("link set {device} up"));
        }
    }

    /// Connects two devices of a namespace like one wire, except for frames to the station at its end.
    fn pass_on(&mut self, one: &(usize, String), other: &(usize, String)) {
        let node = &mut self.plan.nodes[one.0];
        for (entry, exit) in [(one, other), (other, one)] {
            node.tc.push(format!("qdisc add dev {} clsact", entry.1));
            node.tc.push(format!(
                "filter add dev {} ingress protocol ip matchall action mirred egress redirect dev {}",
                entry.1, exit.1
            ));
        }
    }

    /// Assigns IP addresses to the ends of a link. Neighbour entries are static, because a link
    /// may be unidirectional.
    fn address(&mut self, link: usize, ends: [&(usize, String); 2]) {
        for (end, (node, device)) in ends.into_iter().enumerate() {
            let (own, peer, mac) = (link_address(link, end), link_address(link, 1 - end), mac(link, 1 - end));
            let ip = &mut self.plan.nodes[*node].ip;
            ip.push(format!("addr add {own}/30 dev {device}"));
            ip.push(format!("neigh add {peer} lladdr {mac} dev {device} nud permanent"));
        }
    }

    /// Installs delay, rate and discipline on the queue device of every direction.
    fn add_directions(&mut self, options: &RunOptions) -> Result<(), ConfigError> {
        for (index, direction) in self.topology.directions().iter().enumerate() {
            let spec = &self.scenario.link[direction.link];
            let (node, device) = self.queues[index].clone();
            let (full, load) = (self.full(), self.loads[index]);
            let packet = if load == Load::Data { full } else { ACKNOWLEDGEMENT + self.ack_header() };
            // A token bucket sends whole bursts at once, so there is no transmission time.
            let busy = spec
                .rate
                .filter(|_| spec.burst.is_none())
                .map_or(Duration::ZERO, |rate| rate.time_for(packet));
            let fixed = spec.delay + busy;
            let place = (direction.link, index);
            let tc = &mut self.plan.nodes[node];
            match spec.rate.filter(|_| load == Load::FewAcks && discipline::is_plain(spec)) {
                Some(rate) => discipline::install_for_acks(direction.link, spec, &device, rate, tc)?,
                None => discipline::install(place, spec, &device, fixed, full, tc)?,
            }
            self.plan.directions.push(PlannedDirection {
                node,
                device,
                fixed: (spec.rate.is_some() || fixed > Duration::ZERO).then_some(fixed),
                random: self.randoms[index].clone(),
                capture: options.capture.then(|| format!("{}.pcap", direction.name.replace("->", "-"))),
            });
        }
        Ok(())
    }

    /// Gives a group of flows its own addresses at both ends, so that it can take its own path.
    fn add_flows(&mut self, group: usize) -> Result<(), ConfigError> {
        let spec = &self.scenario.flow[group];
        let [from, to] = [&spec.from, &spec.to].map(|name| self.topology.number(name).unwrap_or_default());
        let [source, destination] = [address(16, group), receiver(group)];
        self.plan.nodes[from].ip.push(format!("addr add {source}/32 dev lo"));
        self.plan.nodes[to].ip.push(format!("addr add {destination}/32 dev lo"));
        let there = self.route(&spec.from, &spec.to, &spec.via)?;
        let back = self.way_back(spec)?;
        let is_explicit = explicit::is_explicit(spec);
        let microseconds = rapid::wants_microseconds(spec);
        let metrics = PlannedMetrics {
            initial_window: Some(spec.initial_window),
            ecn: spec.ecn == EcnMode::Classic,
            mtu: is_explicit.then(|| explicit::mtu(self.scenario)),
            microseconds,
            ..PlannedMetrics::default()
        };
        if is_explicit {
            self.add_headers(&there, &back);
        }
        if spec.is_rapid() {
            rapid::prepare_receiver(&mut self.plan.nodes[to]);
        }
        self.lead(destination, &there, metrics);
        let quick_acks = spec.ack_every == 1;
        self.lead(source, &back, PlannedMetrics { quick_acks, microseconds, ..PlannedMetrics::default() });
        let line = self.topology.line_of(self.scenario, spec);
        let (controller, parameters) = controller::controller(spec, self.scenario, line);
        let opening = match spec.ecn {
            _ if is_explicit => explicit::RECEIVER,
            _ if parameters.is_empty() => controller.as_str(),
            // Another one than it gets, because the kernel does not choose one anew that a connection has.
            EcnMode::Dctcp | EcnMode::Ect1 if controller == "dctcp" => "ls_dctcp",
            EcnMode::Dctcp | EcnMode::Ect1 => "dctcp",
            EcnMode::Off | EcnMode::Classic if controller == "reno" => "cubic",
            EcnMode::Off | EcnMode::Classic => "reno",
        };
        for (name, is_on) in [("sack", spec.sack), ("recovery", spec.rack)] {
            if !is_on {
                self.plan.nodes[from].settings.push((format!("net/ipv4/tcp_{name}"), "0".to_owned()));
            }
        }
        let is_filled = spec.fills_line();
        if is_filled {
            self.fill_line(group, line, &there)?;
        }
        if let Some(first) = there.first().filter(|_| !spec.offload || is_explicit || is_filled) {
            let hop = &self.hops[*first];
            // Makes TCP send one segment at a time.
            self.plan.nodes[hop.node].ip.push(format!("link set dev {} gso_max_segs 1", hop.device));
        }
        for index in 0..spec.count {
            let start = spec.start + spec.stagger * i64::try_from(index).unwrap_or(i64::MAX);
            // Without DCTCP the packets of a handshake are not ECN-capable; a queue that marks everything
            // would drop them for ever.
            let open = if spec.ecn == EcnMode::Classic { Duration::ZERO } else { start };
            self.plan.flows.push(PlannedFlow {
                from,
                to,
                source,
                destination,
                controller: controller.clone(),
                opening: opening.to_owned(),
                open,
                start,
                stop: spec.stop,
                size: spec.size.map(|size| size.get()),
                application_rate: spec.application_rate,
                read_rate: spec.read_rate,
                receive_buffer: spec.receive_buffer.get(),
                pacing: spec.pacing,
                parameters: parameters.clone(),
            });
        }
        Ok(())
    }

    /// Gives a source a namespace that releases its packets, and a device at the other
    /// end that discards them.
    fn add_source(&mut self, number: usize) -> Result<(), ConfigError> {
        let spec = &self.scenario.traffic[number];
        let [from, to] = [&spec.from, &spec.to].map(|name| self.topology.number(name).unwrap_or_default());
        let own = self.plan.nodes.len();
        self.plan.nodes.push(node(format!("x{number}")));
        let link = self.scenario.link.len() + number;
        let ends = [(own, format!("x{number}a")), (from, format!("x{number}b"))];
        self.wire(link, &ends);
        self.address(link, [&ends[0], &ends[1]]);
        let (device, next) = (&ends[0].1, link_address(link, 1));
        let [source, destination] = [address(18, number), address(19, number)];
        let sink = format!("s{number}");
        let node = &mut self.plan.nodes[own];
        node.ip.push(format!("addr add {source}/32 dev lo"));
        node.ip.push(format!("route add {destination}/32 via {next} dev {device}"));
        node.tc.push(format!("qdisc add dev {device} root handle 1: {}", discipline::RELEASE));
        let path = self.route(&spec.from, &spec.to, &spec.via)?;
        self.lead(destination, &path, PlannedMetrics::default());
        let node = &mut self.plan.nodes[to];
        node.ip.push(format!("link add {sink} mtu {} type dummy", self.scenario.mtu));
        node.ip.push(format!("link set {sink} up"));
        node.ip.push(format!("route add {destination}/32 dev {sink}"));
        self.plan.sources.push(PlannedSource {
            from: own,
            to,
            source,
            destination,
            sink,
            start: spec.start,
            stop: spec.stop,
            traffic: spec.traffic.clone(),
            seed: self.seed,
            number: number as u64,
        });
        Ok(())
    }
}

/// Whether a link takes no time.
fn is_bare(spec: &LinkSpec) -> bool {
    spec.rate.is_none() && spec.longest_delay() == Duration::ZERO
}

fn node(name: String) -> PlannedNode {
    PlannedNode { name, ip: vec!["link set lo up".to_owned()], ..PlannedNode::default() }
}

/// Returns the address of an end of a link, or of the connection from a source to its node.
fn link_address(link: usize, end: usize) -> Ipv4Addr {
    Ipv4Addr::new(10, (link >> 6) as u8, ((link & 63) << 2) as u8, 1 + end as u8)
}

fn mac(link: usize, end: usize) -> String {
    format!("02:00:00:{:02x}:{:02x}:{:02x}", link >> 8 & 255, link & 255, 1 + end)
}

/// Returns address `number` of a kind.
fn address(kind: u8, number: usize) -> Ipv4Addr {
    Ipv4Addr::new(172, kind, (number >> 8) as u8, number as u8)
}

/// Returns the address of the receivers of a group of flows.
fn receiver(group: usize) -> Ipv4Addr {
    address(17, group)
}

/// Returns all times at which counters are read.
fn looks(scenario: &Scenario) -> Vec<Duration> {
    let ends = (1..=scenario.duration.ns() / scenario.interval.ns()).map(|index| scenario.interval * index);
    let mut looks: Vec<Duration> = ends.chain([scenario.warmup, scenario.duration]).collect();
    looks.sort();
    looks.dedup();
    looks
}

#[cfg(test)]
mod tests;
