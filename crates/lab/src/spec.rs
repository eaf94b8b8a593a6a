//! The scenario: links and their cross traffic, as read from TOML.

use std::path::Path;

use headway_host::nic::Coalescing;
use headway_link::Service;
use headway_queue::explicit::{OPTION_KIND, PROTOCOL};
use headway_queue::{DropTailConfig, Policer, QueueSpec};
use headway_scenario::check_traffic;
use headway_traffic::Traffic;
use headway_traffic::channel::{CapacityTrace, DelayTrace, EcnField, Jitter, LossBursts, Outages};
pub use headway_units::Direction;
use headway_units::config_error::check;
use headway_units::{Bytes, ConfigError, Duration, Instant, Rate, RateSteps};
use serde::{Deserialize, Serialize};

use crate::base::check_name;
use crate::congestion_header::Carrier;
use crate::error::Error;
use crate::graph::{Edge, PAIR};
use crate::queue::wire_size;

/// A whole scenario.
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
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LinkSpec {
    /// Rate, counting wire bytes (IP length + 38); zero if the link has `rates` or a `trace`.
    #[serde(default)]
    pub rate: Rate,
    /// Bucket size of a token-bucket shaper at `rate`; default: no bucket, every packet takes its time at `rate`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub burst: Option<Bytes>,
    /// Highest rate at which a token-bucket shaper sends its bursts, from a second bucket of one packet of the MTU; default:
    /// bursts leave at once.
    #[serde(default, rename = "peak-rate", skip_serializing_if = "Option::is_none")]
    pub peak_rate: Option<Rate>,
    /// Times at which the link can send a packet, instead of `rate`; default none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace: Option<CapacityTrace>,
    /// Rates with the times from which they apply, counted from when the link came up, instead of `rate`; default none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rates: Option<RateSteps>,
    /// Times in which the link sends nothing, counted like those of `rates`; default none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outages: Option<Outages>,
    /// Rate of the line on which the sending node's frames reach the queue one after the other, wire bytes; default: they
    /// reach it at once. It is the same as long as the lab is up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<Rate>,
    /// Propagation delay: from the last bit's departure to its arrival; default 0.
    #[serde(default)]
    pub delay: Duration,
    /// A delay that changes over time, instead of `delay`; default none.
    #[serde(default, rename = "delay-trace", skip_serializing_if = "Option::is_none")]
    pub delay_trace: Option<DelayTrace>,
    /// Random delay of a host packet on the wire; default none.
    #[serde(default)]
    pub jitter: Jitter,
    /// Whether jitter may reorder packets; default no.
    #[serde(default)]
    pub reordering: bool,
    /// Buffer size of the queue in wire bytes; default 100 ms at the rate, the highest one if it changes, but at least
    /// 64 kB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub buffer: Option<Bytes>,
    /// Queue discipline, limited to `buffer` unless it has a limit of its own; default drop-tail.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<QueueSpec>,
    /// A policer before the queue, which drops what exceeds its rate after a burst, of hosts and of cross traffic;
    /// default none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub police: Option<Policer>,
    /// Probability that a host packet is lost on the wire, at least 0 and less than 1; default 0.
    #[serde(default, deserialize_with = "headway_units::share::deserialize")]
    pub loss: f64,
    /// Losses of host packets in bursts, besides `loss`; default none.
    #[serde(default, rename = "loss-bursts", skip_serializing_if = "Option::is_none")]
    pub loss_bursts: Option<LossBursts>,
    /// Probability that a host packet arrives twice, at least 0 and less than 1; default 0.
    #[serde(default, deserialize_with = "headway_units::share::deserialize")]
    pub duplicate: f64,
    /// Probability that a bit of a host packet behind its IP header is flipped, at least 0 and less than 1; default 0.
    #[serde(default, deserialize_with = "headway_units::share::deserialize")]
    pub corrupt: f64,
    /// What becomes of the ECN field of host packets behind the queue; default: it stays.
    #[serde(default)]
    pub ecn: EcnField,
    /// Interrupt coalescing of the receiver's NIC; default none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub coalesce: Option<Coalescing>,
}

/// The two directions of a link.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PathSpec {
    /// From the link's first node to its second, such as from client to server.
    pub forward: LinkSpec,
    /// Back.
    pub reverse: LinkSpec,
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

pub(crate) fn default_seed() -> u64 {
    1
}

pub(crate) fn default_mtu() -> u32 {
    1500
}

pub(crate) fn default_interval() -> Duration {
    Duration::from_ms(10)
}

pub(crate) fn default_header_protocol() -> u8 {
    PROTOCOL
}

pub(crate) fn default_header_option() -> u8 {
    OPTION_KIND
}

impl LinkSpec {
    /// Creates a link with the default buffer, without loss and coalescing.
    pub fn new(rate: Rate, delay: Duration) -> LinkSpec {
        LinkSpec {
            rate,
            burst: None,
            peak_rate: None,
            trace: None,
            rates: None,
            outages: None,
            line: None,
            delay,
            delay_trace: None,
            jitter: Jitter::NONE,
            reordering: false,
            buffer: None,
            queue: None,
            police: None,
            loss: 0.0,
            loss_bursts: None,
            duplicate: 0.0,
            corrupt: 0.0,
            ecn: EcnField::Keep,
            coalesce: None,
        }
    }

    /// Returns the default for the opposite direction: the same rate and delay, without loss and coalescing.
    pub(crate) fn reversed(&self) -> LinkSpec {
        let LinkSpec { rate, delay, burst, peak_rate, .. } = *self;
        let (rates, trace) = (self.rates.clone(), self.trace.clone());
        LinkSpec { rates, trace, burst, peak_rate, ..LinkSpec::new(rate, delay) }
    }

    /// Whether it changes with time; such times count from the moment at which the link is set.
    pub fn varies(&self) -> bool {
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

    /// Returns the buffer size. The default is 100 ms at the rate, the depth of a common access router, but at least 64
    /// kB.
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

impl Cross {
    /// Creates a source on the only link that lasts as long as the lab.
    pub fn new(direction: Direction, traffic: Traffic) -> Cross {
        Cross { link: None, direction, start: Duration::ZERO, stop: None, traffic }
    }

    /// Returns the source on a link of this name.
    pub fn on(self, link: &str) -> Cross {
        Cross { link: Some(link.to_owned()), ..self }
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
    /// Checks all values; `mtu` is the largest IP packet in bytes.
    ///
    /// # Errors
    /// If a value is out of range.
    pub fn validate(&self, mtu: u32) -> Result<(), Error> {
        check_link("forward", &self.forward, mtu)?;
        check_link("reverse", &self.reverse, mtu)?;
        Ok(())
    }

    /// Returns one of the two directions.
    pub fn side(&self, direction: Direction) -> &LinkSpec {
        match direction {
            Direction::Forward => &self.forward,
            Direction::Reverse => &self.reverse,
        }
    }
}

impl Spec {
    /// Creates a scenario of one link between `client` and `server`, with its rate and delay in both directions.
    pub fn new(forward: LinkSpec) -> Spec {
        let [client, server] = PAIR;
        Spec::of(vec![Edge::new(client, server, forward)])
    }

    /// Creates a scenario of one link between `client` and `server`.
    pub fn pair(path: PathSpec) -> Spec {
        let [client, server] = PAIR;
        Spec::of(vec![Edge { path: path.clone(), ..Edge::new(client, server, path.forward) }])
    }

    /// Creates a scenario of these links, without cross traffic and with defaults for the rest.
    pub fn of(links: Vec<Edge>) -> Spec {
        Spec {
            name: None,
            seed: default_seed(),
            mtu: default_mtu(),
            interval: default_interval(),
            delays: false,
            header_protocol: default_header_protocol(),
            header_port: None,
            header_option: default_header_option(),
            links,
            cross: Vec::new(),
        }
    }

    /// Checks all values.
    ///
    /// # Errors
    /// Errors name the key at fault.
    pub fn validate(&self) -> Result<(), Error> {
        Ok(self.check()?)
    }

    /// Returns warnings about settings that are valid but probably unintended, one sentence each.
    pub fn warnings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        for (index, edge) in self.links.iter().enumerate() {
            let cross = self.cross_on(index);
            for direction in Direction::BOTH {
                let sum: Rate = {
                    let here = cross.iter().filter(|cross| cross.direction == direction);
                    here.filter_map(|cross| cross.traffic.mean_rate()).sum()
                };
                let lowest = edge.path.side(direction).rate_steps().lowest();
                if sum >= lowest {
                    let lane = self.lane_name(index, direction);
                    warnings
                        .push(format!("{lane}: cross traffic of {sum} leaves nothing of a link of {lowest}"));
                }
            }
        }
        warnings
    }

    pub(crate) fn check(&self) -> Result<(), ConfigError> {
        let named = self.name.as_deref().is_none_or(|name| check_name(name).is_ok());
        check("name", named, "must be 1 to 32 letters, digits, `-`, `_` or `.`, not starting with a dot")?;
        check("mtu", (1280..=9000).contains(&self.mtu), "must lie between 1280 and 9000 bytes")?;
        let interval = Duration::from_ms(1) <= self.interval && self.interval <= Duration::from_ms(1000);
        check("interval", interval, "must lie between 1 ms and 1 s")?;
        let free = !TAKEN_PROTOCOLS.contains(&self.header_protocol);
        check(
            "header-protocol",
            free,
            "must be the number of no other protocol: 253 and 254 are for experiments",
        )?;
        let experimental = OPTION_KINDS.contains(&self.header_option);
        check("header-option", experimental, "must be 253 or 254, the kinds of TCP options for experiments")?;
        self.check_links()?;
        self.check_cross(&self.cross)
    }

    /// Returns how congestion headers travel.
    pub(crate) fn carrier(&self) -> Carrier {
        Carrier { protocol: self.header_protocol, port: self.header_port, option: self.header_option }
    }

    /// Checks a list of cross sources for these links; errors name them `traffic[0]` and so on.
    pub(crate) fn check_cross(&self, sources: &[Cross]) -> Result<(), ConfigError> {
        for (index, cross) in sources.iter().enumerate() {
            let table = format!("traffic[{index}]");
            let link = self.link_number(cross.link.as_deref());
            link.map_err(|reason| ConfigError::new(&format!("{table}.link"), &reason))?;
            check_traffic(&table, &cross.traffic, self.mtu)?;
            let rate = cross.traffic.mean_rate().is_none_or(|rate| (MIN_RATE..=MAX_RATE).contains(&rate));
            check(&format!("{table}.rate"), rate, RATE_RULE)?;
            let later = cross.stop.is_none_or(|stop| stop > cross.start);
            check(&format!("{table}.stop"), later, "must be later than `start`")?;
        }
        Ok(())
    }
}

/// Kinds of TCP options for experiments (RFC 4727).
const OPTION_KINDS: [u8; 2] = [253, 254];

/// Protocols that hosts use, and extension headers of IPv6: hop-by-hop options, ICMP, IGMP, TCP, UDP, routing, fragments,
/// ICMPv6, no next header, destination options.
const TAKEN_PROTOCOLS: [u8; 10] = [0, 1, 2, 6, 17, 43, 44, 58, 59, 60];
pub(crate) const MIN_RATE: Rate = Rate::from_bps(1_000);
/// The single-threaded emulator cannot keep up with more, by far.
pub(crate) const MAX_RATE: Rate = Rate::from_bps(10_000_000_000);
/// The largest bucket of a policer, as in scenarios.
const MAX_BURST: Bytes = Bytes::new(2_000_000_000);
const BURST_RULE: &str = "must hold one packet of the MTU (plus 38 bytes) and be at most 2 GB";
pub(crate) const RATE_RULE: &str = "must lie between 1 kb/s and 10 Gb/s";

pub(crate) fn check_link(table: &str, link: &LinkSpec, mtu: u32) -> Result<(), ConfigError> {
    let check = |key: &str, right: bool, rule: &str| check(&format!("{table}.{key}"), right, rule);
    let allowed = MIN_RATE..=MAX_RATE;
    let (has_rate, has_rates) = (link.rate > Rate::ZERO, link.rates.is_some());
    if let Some(trace) = &link.trace {
        check("trace", !has_rate && !has_rates, "cannot be combined with `rate` and `rates`")?;
        check("trace", trace.mean_rate() <= MAX_RATE, "must have a mean rate of at most 10 Gb/s")?;
        check("outages", link.outages.is_none(), "cannot be combined with `trace`")?;
    } else if let Some(rates) = &link.rates {
        check("rates", !has_rate, "cannot be combined with `rate`")?;
        let all = rates.list().all(|(_, rate)| allowed.contains(&rate));
        check("rates", all, "must have rates between 1 kb/s and 10 Gb/s")?;
    } else {
        let rule = "must lie between 1 kb/s and 10 Gb/s, unless the link has `rates` or a `trace`";
        check("rate", allowed.contains(&link.rate), rule)?;
    }
    let varies = link.trace.is_some() || has_rates || link.outages.is_some();
    check("burst", link.burst.is_none() || !varies, "needs a constant `rate` without `outages`")?;
    check("peak-rate", link.peak_rate.is_none() || link.burst.is_some(), "needs a `burst`")?;
    let above = |peak| link.rate < peak && peak <= MAX_RATE;
    check("peak-rate", link.peak_rate.is_none_or(above), "must be above `rate` and at most 10 Gb/s")?;
    if let Some((key, rule)) = link.outages.as_ref().and_then(Outages::mistake) {
        return Err(ConfigError::new(&format!("{table}.outages{key}"), rule));
    }
    if let Some((key, rule)) = link.loss_bursts.and_then(|bursts| bursts.mistake()) {
        return Err(ConfigError::new(&format!("{table}.loss-bursts.{key}"), rule));
    }
    check("line", link.line.is_none_or(|line| allowed.contains(&line)), RATE_RULE)?;
    check("delay", link.delay <= Duration::from_ms(10_000), "must be at most 10 s")?;
    if let Some((key, rule)) = link.jitter.mistake(Duration::from_ms(1_000)) {
        return Err(ConfigError::new(&format!("{table}.jitter{key}"), rule));
    }
    if let Some(trace) = &link.delay_trace {
        trace.check(&format!("{table}.delay-trace"))?;
    }
    if let Some(queue) = &link.queue {
        queue
            .validate()
            .map_err(|error| ConfigError::new(&format!("{table}.queue.{}", error.key), error.reason))?;
    }
    if let Some(policer) = link.police {
        check("police.rate", allowed.contains(&policer.rate), RATE_RULE)?;
        let burst = wire_size(u64::from(mtu))..=MAX_BURST;
        check("police.burst", burst.contains(&policer.burst), BURST_RULE)?;
    }
    let holds = link.burst.is_none_or(|burst| (wire_size(u64::from(mtu))..=MAX_BURST).contains(&burst));
    check("burst", holds, BURST_RULE)?;
    for (key, share) in [("loss", link.loss), ("duplicate", link.duplicate), ("corrupt", link.corrupt)] {
        check(key, (0.0..1.0).contains(&share), "must be at least 0 and less than 1")?;
    }
    if let Some(rule) = link.coalesce.and_then(|coalescing| coalescing.mistake()) {
        return Err(ConfigError::new(&format!("{table}.coalesce"), rule));
    }
    let buffer = link.buffer_size();
    check("buffer", buffer >= wire_size(u64::from(mtu)), "must hold one packet of the MTU (plus 38 bytes)")?;
    check("buffer", buffer <= Bytes::new(1_000_000_000), "must be at most 1 GB")
}

#[cfg(test)]
#[path = "spec_tests.rs"]
mod tests;
