//! A network of links, flows, sources and probers in virtual time.

mod air;
mod bundles;
mod echoes;
mod event_loop;
mod event_queues;
mod flows;
mod free;
mod middleboxes;
mod partitions;
mod probes;
mod taps;

use std::collections::HashMap;

use headway_host::gap::{GapSender, Mechanism};
use headway_host::nic::{Coalescing, Nic};
use headway_queue::explicit::Record;
use headway_traffic::random;
use headway_units::{Bytes, Instant, Rate};
use rand::Rng;

use self::bundles::{Bundle, first_of};
use self::event_queues::EventQueues;
pub use self::flows::Completion;
use self::flows::{Flow, Groups};
pub use self::middleboxes::MiddleboxCounts;
use self::middleboxes::Middleboxes;
use self::partitions::Constraints;
use self::taps::Tap;
pub use self::taps::{TapEvent, TapRecord};
use crate::config::{
    ChannelId, Line, LineId, LinkConfig, LinkId, NicId, QueueChange, SourceConfig, SourceId,
};
use crate::link::Link;
use crate::packet::{Packet, Reports};
use crate::probe::Prober;
use crate::schedule::{EventKind, MAX_COMPONENTS};
use crate::source::Source;
use crate::statistics::SourceStatistics;
use crate::transport::receiver::Receiver;
use crate::transport::sender::Sender;

/// Marks the end of a route.
const DESTINATION: u32 = u32::MAX;
/// Hops from here on are no links: taps, middleboxes, NICs that hold ACKs, bundles of links, and
/// the end of the route.
const FIRST_STATION: u32 = 1 << 30;
/// Hops from here on are middleboxes.
const FIRST_MIDDLEBOX: u32 = 3 << 29;
/// Hops from here on are NICs.
const FIRST_NIC: u32 = 1 << 31;
/// Hops from here on are bundles, each by the number of its first link.
const FIRST_BUNDLE: u32 = 3 << 30;
const _: () = assert!(MAX_COMPONENTS < (FIRST_MIDDLEBOX - FIRST_STATION) as usize);
/// In place of the number of a NIC: the receiver has none.
const NO_NIC: u32 = u32::MAX;
/// In place of the number of a line: packets leave when they are due.
const NO_LINE: u32 = u32::MAX;

/// A NIC that coalesces interrupts.
#[derive(Debug)]
struct HostNic {
    model: Nic<Packet>,
    /// Time of the pending event (ns); `u64::MAX` when there is none.
    event: u64,
    /// One of the links that deliver to the NIC.
    link: Option<LinkId>,
    /// Segments that are stamped and passed up at the end of their batch.
    held: Vec<Packet>,
}

impl HostNic {
    fn memory(&self) -> usize {
        self.model.memory() + self.held.capacity() * size_of::<Packet>()
    }
}

/// A network in virtual time.
///
/// Add links, flows, sources and probers first; then call [`Network::run_until`] as often as needed. The
/// state can be read between calls.
#[derive(Debug)]
pub struct Network {
    seed: u64,
    events: u64,
    /// Packets of TCP that their receivers dropped because they were damaged.
    damaged: u64,
    queues: EventQueues,
    constraints: Constraints,
    /// Links, routes or flows were added since the partitions were computed.
    topology_changed: bool,
    links: Vec<Link>,
    /// Links that take turns, in order of their first ones.
    bundles: Vec<Bundle>,
    /// All routes, concatenated: numbers of links and stations, then `DESTINATION`.
    routes: Vec<u32>,
    /// Index in `routes` at which the route over these hops begins.
    known_routes: HashMap<Vec<u32>, u32>,
    senders: Vec<Sender>,
    receivers: Vec<Receiver>,
    flows: Vec<Flow>,
    groups: Groups,
    sources: Vec<Source>,
    probers: Vec<Prober>,
    nics: Vec<HostNic>,
    taps: Vec<Tap>,
    middleboxes: Middleboxes,
    lines: Vec<GapSender>,
    reports: Reports,
}

impl Network {
    /// Returns an empty network; `seed` determines all its random numbers.
    pub fn new(seed: u64) -> Network {
        Network {
            seed,
            events: 0,
            damaged: 0,
            queues: EventQueues::new(),
            constraints: Constraints::default(),
            topology_changed: true,
            links: Vec::new(),
            bundles: Vec::new(),
            routes: Vec::new(),
            known_routes: HashMap::new(),
            senders: Vec::new(),
            receivers: Vec::new(),
            flows: Vec::new(),
            groups: Groups::default(),
            sources: Vec::new(),
            probers: Vec::new(),
            nics: Vec::new(),
            taps: Vec::new(),
            middleboxes: Middleboxes::default(),
            lines: Vec::new(),
            reports: Reports::default(),
        }
    }

    /// Adds a radio channel, over which links send that name it.
    pub fn add_channel(&mut self) -> ChannelId {
        self.queues.air.add_channel(self.seed)
    }

    /// Adds one direction of a link.
    pub fn add_link(&mut self, config: &LinkConfig) -> LinkId {
        let id = number(self.links.len());
        self.links.push(Link::new(config, self.seed, id.into()));
        if let Some((channel, station)) = config.wifi {
            self.queues.air.add_station(channel, station, id as usize);
            // Its stations see each other at once.
            self.constraints.indivisible();
        }
        self.topology_changed = true;
        LinkId(id)
    }

    /// Adds a receiving NIC.
    pub fn add_nic(&mut self, coalescing: Coalescing) -> NicId {
        let id = number(self.nics.len());
        let rng = random::generator(self.seed, "card", id.into());
        self.nics.push(HostNic {
            model: Nic::new(coalescing, rng),
            event: u64::MAX,
            link: None,
            held: Vec::new(),
        });
        NicId(id)
    }

    /// Adds a line of a sending host, which all its flows share; its largest packet has `packet` bytes.
    pub fn add_line(&mut self, mechanism: Mechanism, rate: Rate, packet: Bytes) -> Line {
        let id = number(self.lines.len());
        let seed = random::generator(self.seed, "line", id.into()).next_u64();
        self.lines.push(mechanism.sender(rate, packet, seed));
        Line { id: LineId(id), rate }
    }

    /// Adds a source of datagrams.
    pub fn add_source(&mut self, config: &SourceConfig) -> SourceId {
        let id = number(self.sources.len());
        let route = self.add_route(&config.path);
        let source = Source::new(config, self.seed, id, route, self.queues.now);
        if let Some(at) = source.next() {
            let partition = self.queues.partitions.ingress(first_link(&self.routes, route));
            self.queues.add_to(partition, at, EventKind::Source, id as usize);
        }
        self.sources.push(source);
        SourceId(id)
    }

    /// Returns the index in `routes` of the route over `links`; equal routes are stored once.
    fn add_route(&mut self, links: &[LinkId]) -> u32 {
        self.add_route_with_stations(links, &[])
    }

    /// Returns the index in `routes` of the route over `links` and the `stations` between them, each with the
    /// number of links before it, in order.
    fn add_route_with_stations(&mut self, links: &[LinkId], stations: &[(usize, u32)]) -> u32 {
        let mut hops: Vec<u32> = links.iter().map(|link| self.hop(*link)).collect();
        for (before, station) in stations.iter().rev() {
            hops.insert((*before).min(links.len()), *station);
        }
        let (routes, constraints, topology_changed) =
            (&mut self.routes, &mut self.constraints, &mut self.topology_changed);
        *self.known_routes.entry(hops).or_insert_with_key(|hops| {
            let start = number(routes.len());
            routes.extend(hops);
            routes.push(DESTINATION);
            constraints.route(links);
            *topology_changed = true;
            start
        })
    }

    /// Returns the current virtual time.
    pub fn now(&self) -> Instant {
        Instant::from_ns(self.queues.now)
    }

    /// Returns the number of events handled so far.
    pub fn events(&self) -> u64 {
        self.events
    }

    /// Returns the number of packets of TCP that their receivers dropped so far because they were damaged.
    pub fn discarded(&self) -> u64 {
        self.damaged
    }

    /// Returns a link, to read its state and statistics.
    pub fn link(&self, link: LinkId) -> &Link {
        &self.links[link.0 as usize]
    }

    /// Replaces the queue discipline of a link, which must have been added with [`LinkConfig::changes`]. The
    /// new one takes over the packets that wait; explicit routers also keep the state that both have in
    /// common (xcp-rcp F25, F42). Take the records of the old one first.
    pub fn change_queue(&mut self, link: LinkId, change: &QueueChange) {
        self.links[link.0 as usize].change_queue(self.queues.now, change, &mut self.reports);
    }

    /// Keeps a record of every control interval of a link's explicit router from now on; others have none.
    pub fn keep_records(&mut self, link: LinkId) {
        self.links[link.0 as usize].discipline().keep_records();
    }

    /// Returns the records of the control intervals that have ended since the last call, in order.
    pub fn take_records(&mut self, link: LinkId) -> Vec<Record> {
        self.links[link.0 as usize].discipline().take_records()
    }

    /// Returns the number of segments that a NIC holds.
    pub fn held(&self, nic: NicId) -> u64 {
        self.nics[nic.0 as usize].model.held() as u64
    }

    /// Returns the counters of a source.
    pub fn source_statistics(&self, source: SourceId) -> SourceStatistics {
        self.sources[source.0 as usize].statistics()
    }

    /// Resets all counters at the end of the warm-up; congestion windows and estimates stay.
    pub fn reset_statistics(&mut self) {
        self.links.iter_mut().for_each(Link::reset);
        self.senders.iter_mut().for_each(Sender::reset);
        self.sources.iter_mut().for_each(Source::reset);
        for (flow, receiver) in self.flows.iter_mut().zip(&self.receivers) {
            flow.base_received = receiver.received();
            (flow.base_delivered, flow.base_marked) = (receiver.in_order(), receiver.marked());
        }
    }

    /// Returns the memory in use, without the overhead of the allocator.
    pub fn memory(&self) -> Bytes {
        let links: usize = self.links.iter().map(Link::memory).sum();
        let senders: usize = self.senders.iter().map(Sender::memory).sum();
        let receivers: usize = self.receivers.iter().map(Receiver::memory).sum();
        let probers: usize = self.probers.iter().map(Prober::memory).sum();
        let nics: usize = self.nics.iter().map(HostNic::memory).sum();
        let taps: usize = self.taps.iter().map(Tap::memory).sum();
        let middleboxes = self.middleboxes.memory();
        let lines = self.lines.capacity() * size_of::<GapSender>();
        let rest = self.flows.len() * size_of::<Flow>() + self.sources.len() * size_of::<Source>();
        Bytes::new(
            (links
                + senders
                + receivers
                + probers
                + nics
                + taps
                + middleboxes
                + lines
                + rest
                + self.queues.memory()
                + self.reports.memory()
                + self.groups.memory()
                + self.routes.len() * 4) as u64,
        )
    }
}

/// Returns the first link of the route at this index; a number that no link has if there is none.
fn first_link(routes: &[u32], route: u32) -> u32 {
    let hops = routes[route as usize..].iter();
    let first = hops.copied().find(|hop| *hop < FIRST_STATION || *hop >= FIRST_BUNDLE);
    first.map_or(DESTINATION, first_of)
}

/// Returns the number of the next component of a kind.
///
/// # Panics
/// When there are more components than the scheduler can address; scenarios are checked before.
fn number(count: usize) -> u32 {
    assert!(count < MAX_COMPONENTS, "a network holds at most {MAX_COMPONENTS} components of a kind");
    count as u32
}
