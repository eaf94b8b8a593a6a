//! A network as the emulator has it: what goes from whoever starts a lab to its daemon, and what
//! `headway lab status --json` says. `network.rs` makes it from a scenario, which has been checked.

use std::path::Path;

use headway_host::nic::Coalescing;
use headway_link::Service;
use headway_queue::{DropTailConfig, Policer, QueueSpec};
use headway_traffic::Traffic;
use headway_traffic::channel::{CapacityTrace, DelayTrace, EcnField, Jitter, LossBursts, Outages};
pub use headway_units::Direction;
use headway_units::{Bytes, Duration, Instant, Rate, RateSteps};
use serde::{Deserialize, Serialize};

use crate::congestion_header::Carrier;
use crate::error::Error;
use crate::queue::wire_size;

/// A network as the emulator has it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Spec {
    /// Name of the lab; the stem of the file when absent.
    pub name: Option<String>,
    /// Seed of all random numbers; default 1.
    pub seed: u64,
    /// Largest IP packet in bytes, 1280 to 9000; default 1500.
    pub mtu: u32,
    /// Length of the truth log's intervals, 1 ms to 1 s; default 10 ms.
    pub interval: Duration,
    /// Whether the truth log contains every packet's queueing delay, in microseconds; default no.
    pub delays: bool,
    /// The number, as an IP protocol, of the congestion headers that routers rewrite; default 253.
    pub header_protocol: u8,
    /// A port of UDP, source or destination, whose packets have a congestion header, too; default none.
    pub header_port: Option<u16>,
    /// The kind of TCP options that are congestion headers, 253 or 254; default 253.
    pub header_option: u8,
    /// The links, at most 200. Their ends are the nodes; a node with several links is a router.
    pub links: Vec<Edge>,
    /// Cross traffic.
    pub cross: Vec<Cross>,
}

/// One direction of a link.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default, rename_all = "kebab-case")]
pub struct LinkSpec {
    /// Rate, counting wire bytes (IP length + 38); zero if the link has `rates` or a `trace`.
    pub rate: Rate,
    /// Bucket size of a token-bucket shaper at `rate`; default: no bucket, every packet
    /// takes its time at `rate`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub burst: Option<Bytes>,
    /// Highest rate at which a token-bucket shaper sends its bursts, from a second bucket of one packet of
    /// the MTU; default: bursts leave at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub peak_rate: Option<Rate>,
    /// Times at which the link can send a packet, instead of `rate`; default none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trace: Option<CapacityTrace>,
    /// Rates with the times from which they apply, counted from when the link came up, instead of
    /// `rate`; default none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rates: Option<RateSteps>,
    /// Times in which the link sends nothing, counted like those of `rates`; default none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outages: Option<Outages>,
    /// Rate of the line on which the sending node's frames reach the queue one after the other, wire bytes;
    /// default: they reach it at once. It is the same as long as the lab is up.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<Rate>,
    /// Propagation delay: from the last bit's departure to its arrival; default 0.
    pub delay: Duration,
    /// A delay that changes over time, instead of `delay`; default none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delay_trace: Option<DelayTrace>,
    /// Random delay of a host packet on the wire; default none.
    pub jitter: Jitter,
    /// Whether jitter may reorder packets; default no.
    pub reordering: bool,
    /// Buffer size of the queue in wire bytes; default 100 ms at the rate, the highest one if it
    /// changes, but at least 64 kB.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub buffer: Option<Bytes>,
    /// Queue discipline, limited to `buffer` unless it has a limit of its own; default drop-tail.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue: Option<QueueSpec>,
    /// A policer before the queue, which drops what exceeds its rate after a burst, of hosts and of cross
    /// traffic; default none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub police: Option<Policer>,
    /// Probability that a host packet is lost on the wire, at least 0 and less than 1; default 0.
    #[serde(deserialize_with = "headway_units::share::deserialize")]
    pub loss: f64,
    /// Losses of host packets in bursts, besides `loss`; default none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub loss_bursts: Option<LossBursts>,
    /// Probability that a host packet arrives twice, at least 0 and less than 1; default 0.
    #[serde(deserialize_with = "headway_units::share::deserialize")]
    pub duplicate: f64,
    /// Probability that a bit of a host packet behind its IP header is flipped, at least 0 and
    /// less than 1; default 0.
    #[serde(deserialize_with = "headway_units::share::deserialize")]
    pub corrupt: f64,
    /// What becomes of the ECN field of host packets behind the queue; default: it stays.
    pub ecn: EcnField,
    /// Interrupt coalescing of the receiver's NIC; default none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub coalesce: Option<Coalescing>,
}

/// The two directions of a link.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PathSpec {
    /// From the link's first node to its second, such as from client to server.
    pub forward: LinkSpec,
    /// Back.
    pub reverse: LinkSpec,
}

/// A link between two nodes: one queue, one wire and one log per direction.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Edge {
    /// Name, unique in the lab.
    pub name: String,
    /// The node from which the forward direction leads.
    pub from: String,
    /// The node to which the forward direction leads.
    pub to: String,
    /// The two directions.
    pub path: PathSpec,
}

/// One source of cross traffic.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Cross {
    /// The name of the link that it crosses; the only one when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub link: Option<String>,
    /// The direction of its packets.
    pub direction: Direction,
    /// When it starts, counted from the start of the lab or from the last change of cross traffic; default 0.
    #[serde(default)]
    pub start: Duration,
    /// When it stops, counted like `start`; default never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop: Option<Duration>,
    /// The model of packet times and sizes: `model` and its keys.
    #[serde(flatten)]
    pub traffic: Traffic,
}

/// How fast a link serves its queue.
#[derive(Clone, Debug, PartialEq)]
pub struct Rates {
    /// What serves it.
    pub service: Service,
    /// The rate that disciplines know.
    pub known: Rate,
}

impl LinkSpec {
    /// Creates a link with the default buffer, without loss and coalescing.
    pub fn new(rate: Rate, delay: Duration) -> LinkSpec {
        LinkSpec { rate, delay, ..LinkSpec::default() }
    }

    /// Whether it changes with time; such times count from the moment at which the link is set.
    pub(crate) fn varies(&self) -> bool {
        self.rates.is_some()
            || self.trace.is_some()
            || self.outages.is_some()
            || self.loss_bursts.is_some()
            || self.delay_trace.is_some()
    }

    /// Whether it differs from `other`, but in queue and buffer only.
    pub(crate) fn is_same_but_queue(&self, other: &LinkSpec) -> bool {
        let with_queue = LinkSpec { queue: self.queue.clone(), buffer: self.buffer, ..other.clone() };
        self != other && *self == with_queue
    }

    /// Returns the rate as a list of steps with outages, which has one step if the rate is constant.
    pub fn rate_steps(&self) -> RateSteps {
        let rates = self.rates.clone().unwrap_or_else(|| RateSteps::constant(self.highest_rate()));
        match &self.outages {
            None => rates,
            Some(outages) => outages.apply(&rates, Duration::MAX),
        }
    }

    /// Returns how the queue is served from `start` on; `mtu` is the largest IP packet in bytes.
    pub(crate) fn served_from(&self, start: Instant, mtu: u32) -> Rates {
        let rates = self.rate_steps().starting_at(start);
        let known = rates.at(Instant::ZERO);
        let service = match (&self.trace, self.burst) {
            (Some(trace), _) => {
                let (opportunities, period) = (trace.opportunities().to_vec(), trace.period());
                Service::Trace { opportunities, period }
            }
            (None, Some(burst)) => {
                let peak = self.peak_rate.map(|peak| (peak, wire_size(u64::from(mtu))));
                Service::TokenBucket { rate: known, burst, peak }
            }
            (None, None) if rates.list().count() == 1 => Service::Constant(known),
            (None, None) => Service::Steps(rates),
        };
        Rates { service, known }
    }

    /// Returns the rate, the highest one if it changes, the mean one of a trace.
    pub fn highest_rate(&self) -> Rate {
        match (&self.trace, &self.rates) {
            (Some(trace), _) => trace.mean_rate(),
            (None, Some(rates)) => rates.highest(),
            (None, None) => self.rate,
        }
    }

    /// Returns the buffer size. The default is 100 ms at the rate, the depth of a common access
    /// router, but at least 64 kB.
    pub fn buffer_size(&self) -> Bytes {
        let depth = self.highest_rate().bytes_in(Duration::from_ms(100));
        self.buffer.unwrap_or(depth.max(Bytes::new(64_000)))
    }

    /// Returns the discipline, drop-tail by default, with its limit filled in.
    pub(crate) fn discipline(&self) -> QueueSpec {
        self.queue.as_ref().map_or_else(
            || self.drop_tail(),
            |queue| queue.clone().with_default_limits(Some(self.buffer_size()), None),
        )
    }

    /// Returns a drop-tail queue with the same limit.
    pub(crate) fn drop_tail(&self) -> QueueSpec {
        QueueSpec::DropTail(DropTailConfig { limit: Some(self.buffer_size()), packets: None })
    }
}

/// Reads the captures that sources replay; only their absolute paths come with a request.
pub(crate) fn load_captures(sources: &mut [Cross]) -> Result<(), Error> {
    for source in sources {
        if let Traffic::Pcap { file, .. } = &mut source.traffic {
            file.load(Path::new("/")).map_err(|error| Error::Daemon(error.to_string()))?;
        }
    }
    Ok(())
}

impl PathSpec {
    /// Returns one of the two directions.
    pub fn side(&self, direction: Direction) -> &LinkSpec {
        match direction {
            Direction::Forward => &self.forward,
            Direction::Reverse => &self.reverse,
        }
    }
}

impl Spec {
    /// Returns the number of the link with this name; `None` stands for the only link.
    ///
    /// # Errors
    /// If there is no such link, or if the name is missing and there are several.
    pub(crate) fn link_number(&self, name: Option<&str>) -> Result<usize, String> {
        let names = || self.links.iter().map(|link| link.name.as_str()).collect::<Vec<_>>().join(", ");
        match name {
            Some(name) => {
                let found = self.links.iter().position(|link| link.name == name);
                found.ok_or_else(|| format!("`{name}` is not a link; the links are {}", names()))
            }
            None if self.links.len() == 1 => Ok(0),
            None => Err(format!("the lab has several links, so one must be named: {}", names())),
        }
    }

    /// Returns the name of a link's direction in the truth file: `forward` for the only link,
    /// else `h1-r1:forward`.
    pub fn lane_name(&self, link: usize, direction: Direction) -> String {
        match &self.links[..] {
            [_] => direction.to_string(),
            links => format!("{}:{direction}", links[link].name),
        }
    }

    /// Returns the names of all lanes: both directions of the first link, and so on.
    pub(crate) fn lane_names(&self) -> Vec<String> {
        let lanes = (0..self.links.len()).flat_map(|link| Direction::BOTH.map(|direction| (link, direction)));
        lanes.map(|(link, direction)| self.lane_name(link, direction)).collect()
    }

    /// Returns the number of the port at the end of `link` at `node`.
    pub(crate) fn port(&self, link: &str, node: &str) -> usize {
        let ends = self.links.iter().flat_map(|link| [(&link.name, &link.from), (&link.name, &link.to)]);
        ends.into_iter().position(|end| end == (&link.to_owned(), &node.to_owned())).unwrap_or_default()
    }

    /// Returns the cross traffic of a link.
    pub(crate) fn cross_on(&self, link: usize) -> Vec<Cross> {
        let is_here = |cross: &&Cross| self.link_number(cross.link.as_deref()) == Ok(link);
        self.cross.iter().filter(is_here).cloned().collect()
    }

    /// Returns how congestion headers travel.
    pub(crate) fn carrier(&self) -> Carrier {
        Carrier { protocol: self.header_protocol, port: self.header_port, option: self.header_option }
    }
}
