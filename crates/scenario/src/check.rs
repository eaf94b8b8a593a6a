//! Validates a scenario before a run.

use std::collections::HashSet;

use headway_control::Kind;
use headway_queue::QueueSpec;
use headway_units::config_error::check;
use headway_units::{Bytes, ConfigError, Duration, Rate, WIRE_OVERHEAD};

use crate::buffer::{Buffer, BufferSize};
use crate::channel::{check_channel, check_wifi};
use crate::check_arrivals::check_arrivals;
use crate::check_program::check_programs;
use crate::check_traffic::{MAX_RATE, check_traffic};
use crate::middlebox::check_middleboxes;
use crate::model::{DEFAULT_RECEIVE_BUFFER, FlowSpec, LinkSpec, MeasureSpec, Scenario, Wire};
use crate::route::Topology;
use crate::select::check_selects;

/// More flows than this are a typo, or a job for a fluid model.
const MAX_FLOWS: u64 = 1_000_000;
/// Limit on the points of a time series; larger result files are of no use.
const MAX_INTERVALS: i64 = 1_000_000;
pub(crate) const RATE_RULE: &str = "must be more than 0 and at most 10 Tb/s";
const MAX_DELAY: Duration = Duration::from_ms(100_000);
/// A run is not longer.
const MAX_PAUSE: Duration = Duration::from_ms(100_000_000);
/// The longest time that a full queue may take to drain, well within the range of 64-bit nanoseconds.
const MAX_QUEUE: Duration = Duration::from_ms(1_000_000_000_000);
/// The largest size a token bucket can count.
const MAX_BURST: Bytes = Bytes::new(2_000_000_000);

impl Scenario {
    /// Checks all values and paths.
    ///
    /// # Errors
    /// Names the offending key.
    pub(crate) fn check(&self) -> Result<(), ConfigError> {
        check("name", !self.name.contains('/'), "must not contain `/`: it is part of the name of a folder")?;
        self.check_times()?;
        let silent = self.flow.is_empty() && self.traffic.is_empty();
        let others = self.measure.is_empty() && self.program.is_empty() && self.select.is_empty();
        let rule = "needs at least one [[flow]], [[traffic]], [[measure]], [[program]] or [[select]]";
        check("flow", !(silent && others), rule)?;
        self.check_network()
    }

    /// Checks all but the times of a run.
    pub(crate) fn check_network(&self) -> Result<(), ConfigError> {
        self.check_names()?;
        check("mtu", (576..=9000).contains(&self.mtu), "must lie between 576 and 9000 bytes")?;
        check("link", !self.link.is_empty(), "a network needs at least one [[link]]")?;
        self.check_count()?;
        self.check_nodes()?;
        for (index, link) in self.link.iter().enumerate() {
            self.check_link(&format!("link[{index}]"), link)?;
        }
        let topology = Topology::new(self);
        topology.check_spraying()?;
        for (index, flow) in self.flow.iter().enumerate() {
            self.check_flow(&topology, &format!("flow[{index}]"), flow)?;
        }
        for (index, traffic) in self.traffic.iter().enumerate() {
            let table = format!("traffic[{index}]");
            check_path(&topology, &table, &traffic.from, &traffic.to, &traffic.via)?;
            check_traffic(&table, &traffic.traffic, self.mtu)?;
            let stop = traffic.stop.is_none_or(|stop| stop > traffic.start);
            check(&format!("{table}.stop"), stop, "must be later than `start`")?;
        }
        for (index, measure) in self.measure.iter().enumerate() {
            self.check_measure(&topology, &format!("measure[{index}]"), measure)?;
        }
        self.check_changes(&topology)?;
        check_programs(&topology, self)?;
        check_middleboxes(&topology, self)?;
        check_selects(&topology, self)?;
        for (name, host) in &self.host {
            let table = format!("host.{name}");
            check(&table, topology.has(name), "is not one of the nodes")?;
            let nics = [("coalescing", host.coalescing), ("ack-coalescing", host.ack_coalescing)];
            for (key, coalescing) in nics {
                let mistake = coalescing.and_then(|coalescing| coalescing.mistake());
                check(&format!("{table}.{key}"), mistake.is_none(), mistake.unwrap_or_default())?;
            }
        }
        Ok(())
    }

    /// Names are printed, also on terminals, and become parts of file names.
    fn check_names(&self) -> Result<(), ConfigError> {
        let printable = |key: &str, name: &str| {
            let rule = "must not contain control characters, such as ends of lines";
            check(key, !name.contains(char::is_control), rule)
        };
        printable("name", &self.name)?;
        self.nodes.iter().try_for_each(|node| printable("nodes", node))?;
        for (index, link) in self.link.iter().enumerate() {
            printable(&format!("link[{index}].from"), &link.from)?;
            printable(&format!("link[{index}].to"), &link.to)?;
        }
        let named =
            self.flow.iter().enumerate().filter_map(|(index, flow)| Some((index, flow.name.as_ref()?)));
        named.into_iter().try_for_each(|(index, name)| printable(&format!("flow[{index}].name"), name))
    }

    fn check_times(&self) -> Result<(), ConfigError> {
        check(
            "duration",
            self.duration > Duration::ZERO,
            "must be more than 0; networks without one are for `headway lab`",
        )?;
        check("duration", self.duration <= Duration::from_ms(100_000_000), "must be at most 100000 s")?;
        check("warmup", self.warmup < self.duration, "must be shorter than `duration`")?;
        check("interval", self.interval >= Duration::from_us(1), "must be at least 1 us")?;
        let intervals = self.duration.ns() / self.interval.ns();
        check(
            "interval",
            intervals <= MAX_INTERVALS,
            "must not divide `duration` into more than 1000000 parts",
        )
    }

    fn check_count(&self) -> Result<(), ConfigError> {
        let mut all = 0u64;
        for (index, flow) in self.flow.iter().enumerate() {
            all = all.saturating_add(flow.count);
            let rule = "there must be at most 1000000 flows in all";
            check(&format!("flow[{index}].count"), all <= MAX_FLOWS, rule)?;
        }
        Ok(())
    }

    fn check_nodes(&self) -> Result<(), ConfigError> {
        let known: HashSet<&str> = self.nodes.iter().map(String::as_str).collect();
        check("nodes", known.len() == self.nodes.len(), "names a node twice")?;
        for (index, link) in self.link.iter().enumerate() {
            for (key, node) in [("from", &link.from), ("to", &link.to)] {
                let right = known.is_empty() || known.contains(node.as_str());
                check(&format!("link[{index}].{key}"), right, &format!("`{node}` is not one of the nodes"))?;
            }
            check(&format!("link[{index}].to"), link.from != link.to, "must be another node than `from`")?;
        }
        Ok(())
    }

    fn check_link(&self, table: &str, link: &LinkSpec) -> Result<(), ConfigError> {
        let check = |key: &str, right: bool, rule: &str| check(&format!("{table}.{key}"), right, rule);
        check("rate", link.rate.is_none_or(in_range), RATE_RULE)?;
        check_rates(table, link)?;
        check_channel(table, link, self.duration)?;
        check("trace", link.trace.is_none() || link.rate.is_none(), "cannot be combined with `rate`")?;
        check("burst", link.burst.is_none() || link.rate.is_some(), "needs a `rate`")?;
        check("peak-rate", link.peak_rate.is_none() || link.burst.is_some(), "needs a `burst`")?;
        let above = |peak| in_range(peak) && link.rate.is_none_or(|rate| rate < peak);
        check("peak-rate", link.peak_rate.is_none_or(above), "must be above `rate` and at most 10 Tb/s")?;
        check("line", link.line.is_none_or(in_range), RATE_RULE)?;
        check("delay", link.delay <= MAX_DELAY, "must be at most 100 s")?;
        let traced = [Some(&link.delay_trace), link.reverse.as_ref().map(|wire| &wire.delay_trace)];
        let traced = traced.into_iter().flatten().any(Option::is_some);
        check("delay-trace", !traced || link.delay == Duration::ZERO, "cannot be combined with `delay`")?;
        check_wire(table, &link.wire(false))?;
        if let Some(reverse) = &link.reverse {
            check("reverse", link.duplex, "needs a `duplex` link")?;
            check_wire(&format!("{table}.reverse"), reverse)?;
        }
        let kernel = link.kernel_queue.is_some();
        check("kernel-queue", !kernel || link.rate.is_some(), "needs a `rate`")?;
        let alone = link.queue.is_none() && link.buffer.is_none();
        check("kernel-queue", !kernel || alone, "cannot be combined with `queue` or `buffer`")?;
        self.check_bursts(table, link)?;
        self.check_queue(table, link)
    }

    /// Checks the discipline of a link and its limits.
    pub(crate) fn check_queue(&self, table: &str, link: &LinkSpec) -> Result<(), ConfigError> {
        if let Some(Err(error)) = link.queue.as_ref().map(QueueSpec::validate) {
            check(&format!("{table}.queue.{}", error.key), false, error.reason)?;
        }
        let filters = link.queue.as_ref().is_none_or(can_filter_acks);
        check(
            &format!("{table}.ack-filter"),
            !link.ack_filter || filters,
            "works in queues of kind `drop-tail`, `red`, `ramp`, `step`, `codel` and `fq-codel`",
        )?;
        check_wifi(table, link)?;
        self.check_buffer(table, link)
    }

    fn check_bursts(&self, table: &str, link: &LinkSpec) -> Result<(), ConfigError> {
        let rule = "must hold one packet of the MTU (plus 38 bytes) and be at most 2 GB";
        let right = |burst: Bytes| self.holds_packet(burst) && burst <= MAX_BURST;
        check(&format!("{table}.burst"), link.burst.is_none_or(right), rule)?;
        if let Some(police) = link.police {
            check(&format!("{table}.police.rate"), in_range(police.rate), RATE_RULE)?;
            check(&format!("{table}.police.burst"), right(police.burst), rule)?;
        }
        Ok(())
    }

    fn check_buffer(&self, table: &str, link: &LinkSpec) -> Result<(), ConfigError> {
        let (bytes, packets) = link.queue.as_ref().map(QueueSpec::limits).unwrap_or_default();
        let twice = link.buffer.is_some() && (bytes.is_some() || packets.is_some());
        check(&format!("{table}.buffer"), !twice, "is also given as a limit of `queue`: give one of them")?;
        let buffer = match (link.buffer, link.highest_rate()) {
            (Some(BufferSize::Latency(_)), None) => {
                return check(&format!("{table}.buffer"), false, "as a time needs a `rate`");
            }
            (Some(BufferSize::Latency(time)), Some(_)) if time > MAX_DELAY => {
                return check(&format!("{table}.buffer"), false, "must be at most 100 s");
            }
            (Some(BufferSize::Limit(limit)), None) => Some(limit),
            (given, rate) => given.and(rate).map(|rate| link.buffer_at(rate)),
        };
        let limits = [
            ("buffer", buffer),
            ("queue.limit", bytes.map(Buffer::Bytes)),
            ("queue.packets", packets.map(Buffer::Packets)),
        ];
        for (key, limit) in limits {
            let Some(bytes) = limit.map(|limit| limit.bytes(self.mtu)) else { continue };
            let key = format!("{table}.{key}");
            let rule = "must hold one packet of the MTU (plus 38 bytes)";
            check(&key, self.holds_packet(bytes), rule)?;
            let short = link.lowest_rate().is_none_or(|rate| rate.time_for(bytes) <= MAX_QUEUE);
            check(&key, short, "would take more than 1000000000 s to drain; lower it or raise `rate`")?;
        }
        Ok(())
    }

    fn holds_packet(&self, size: Bytes) -> bool {
        size >= self.full_packet()
    }

    /// Returns the wire size of a packet of the MTU.
    pub fn full_packet(&self) -> Bytes {
        Bytes::new(u64::from(self.mtu)) + WIRE_OVERHEAD
    }

    fn check_measure(
        &self,
        topology: &Topology,
        table: &str,
        measure: &MeasureSpec,
    ) -> Result<(), ConfigError> {
        check_path(topology, table, &measure.from, &measure.to, &measure.via)?;
        let check = |key: &str, right: bool, rule: &str| check(&format!("{table}.{key}"), right, rule);
        check("start", measure.start < self.duration, "must be earlier than the end of the run")?;
        check("every", measure.every.is_none_or(|every| every > Duration::ZERO), "must be more than 0")?;
        let size = measure.packet.is_none_or(|packet| PROBE_SIZES.contains(&packet.get()));
        check("packet", size, "must lie between 84 and 9038 bytes on the wire")?;
        check("line", measure.line.is_none_or(in_range), RATE_RULE)?;
        let back: Vec<String> = measure.via.iter().rev().cloned().collect();
        let reverse = topology.route(&measure.to, &measure.from, &back);
        check("from", reverse.is_ok(), &format!("no way back: {}", reverse.err().unwrap_or_default()))?;
        let path = topology.route(&measure.from, &measure.to, &measure.via).unwrap_or_default();
        let path: Vec<usize> = path.iter().flat_map(|hop| topology.parallel(*hop)).collect();
        let link = |hop: &usize| &self.link[topology.directions()[*hop].link];
        let limited = path.iter().any(|hop| link(hop).highest_rate().is_some());
        check("to", limited, "is reached over links without a rate: there is nothing to measure")?;
        let several = |hop: &usize| link(hop).queue.as_ref().is_some_and(QueueSpec::has_several_queues);
        check(
            "to",
            !path.iter().any(several),
            "the path has a link with `classes`, `dualpi2` or `fq-codel`; measurements need one queue",
        )?;
        check(
            "to",
            !path.iter().any(|hop| link(hop).ack_filter),
            "the path has a link with an `ack-filter`: what probes change there cannot be known",
        )?;
        let shared = path.iter().any(|hop| link(hop).wifi.is_some());
        check("to", !shared, "the path has a link with `wifi`, of which no rate is the truth")?;
        let traced = path.iter().any(|hop| link(hop).trace.is_some());
        check("to", !traced, "the path has a link with a `trace`; measurements need a `rate` as ground truth")
    }

    fn check_flow(&self, topology: &Topology, table: &str, flow: &FlowSpec) -> Result<(), ConfigError> {
        check_path(topology, table, &flow.from, &flow.to, &flow.via)?;
        let check = |key: &str, right: bool, rule: &str| check(&format!("{table}.{key}"), right, rule);
        if let Some(arrivals) = &flow.arrivals {
            check_arrivals(table, flow, arrivals, self.duration)?;
        }
        check("count", flow.count > 0, "must be at least 1")?;
        if let Some(Kind::FixedRate(fixed)) = flow.controller.known() {
            check(
                "controller",
                in_range(fixed.rate()),
                "must have a rate of more than 0 and at most 10 Tb/s",
            )?;
        }
        check("start", flow.start < self.duration, "must be earlier than the end of the run")?;
        check("stop", flow.stop.is_none_or(|stop| stop > flow.start), "must be later than `start`")?;
        check("size", flow.size != Some(Bytes::ZERO), "must be more than 0")?;
        check("application-rate", flow.application_rate.is_none_or(in_range), RATE_RULE)?;
        check("chunk", flow.chunk.is_none() || flow.pause.is_some(), "needs a `pause`")?;
        check("pause", flow.pause.is_none() || flow.chunk.is_some(), "needs a `chunk`")?;
        let alone = flow.chunk.is_none() || flow.application_rate.is_none();
        check("chunk", alone, "cannot be combined with `application-rate`")?;
        check("chunk", flow.chunk != Some(Bytes::ZERO), "must be more than 0")?;
        let pause = flow.pause.is_none_or(|pause| pause > Duration::ZERO && pause <= MAX_PAUSE);
        check("pause", pause, "must be more than 0 and at most 100000 s")?;
        check("line", flow.line.is_none_or(in_range), RATE_RULE)?;
        check("read-rate", flow.read_rate.is_none_or(in_range), RATE_RULE)?;
        check(
            "initial-window",
            (1..=1000).contains(&flow.initial_window),
            "must lie between 1 and 1000 segments",
        )?;
        check("ack-every", (1..=1000).contains(&flow.ack_every), "must lie between 1 and 1000 segments")?;
        let window = flow.receive_buffer.get();
        // Explicit routers serve crowds in which a flow has less than a packet of 576 B per round trip.
        let explicit = flow.controller.known().is_some_and(|kind| kind.is_explicit());
        let least = if explicit { LEAST_EXPLICIT_MTU } else { 576 };
        let mtu = flow.mtu.is_none_or(|mtu| (least..=self.mtu).contains(&mtu));
        check("mtu", mtu, &format!("must lie between {least} bytes and the `mtu` of the scenario"))?;
        let right = (u64::from(self.mss_of(flow))..=1 << 30).contains(&window);
        check(
            "receive-buffer",
            right,
            "must hold a segment and be at most 1 GiB, the largest window of TCP",
        )?;
        let back: Vec<String> = flow.via.iter().rev().cloned().collect();
        let reverse = topology.route(&flow.to, &flow.from, &back);
        let there = topology.route(&flow.from, &flow.to, &flow.via).unwrap_or_default();
        check(
            "from",
            reverse.is_ok(),
            &format!("no way back: {}", reverse.clone().err().unwrap_or_default()),
        )?;
        // Otherwise the flow would run forever without virtual time advancing.
        let link = |hop: &usize| &self.link[topology.directions()[*hop].link];
        let has_delay = |link: &LinkSpec| {
            let traced = link.delay_trace.as_ref().is_some_and(|trace| trace.least() > Duration::ZERO);
            link.delay > Duration::ZERO || traced
        };
        let takes_time = there
            .iter()
            .chain(&reverse.unwrap_or_default())
            .any(|hop| link(hop).has_queue() || has_delay(link(hop)));
        check(
            "to",
            takes_time || is_slow(flow),
            "the path takes no time: set `rate` or `delay` on one of its links",
        )?;
        let is_limited = there.iter().map(link).any(LinkSpec::is_limited);
        check(
            "to",
            is_limited || is_slow(flow) || is_small(flow),
            "nothing limits the flow, so its window would grow without end: set `rate` on a link of its path, or give the \
             flow a `size`, an `application-rate` or a smaller `receive-buffer`",
        )
    }
}

/// Whether the flow sends at a rate of its own, whatever its path.
fn is_slow(flow: &FlowSpec) -> bool {
    flow.application_rate.is_some() || matches!(flow.controller.known(), Some(Kind::FixedRate(_)))
}

/// Whether something else than the path limits the flow.
fn is_small(flow: &FlowSpec) -> bool {
    let fixed = matches!(flow.controller.known(), Some(Kind::FixedWindow(_)));
    let own = [flow.read_rate, flow.line].iter().any(Option::is_some);
    fixed
        || own
        || flow.size.is_some()
        || flow.arrivals.is_some()
        || flow.receive_buffer < DEFAULT_RECEIVE_BUFFER
}

/// Whether a packet may leave the queue although it waits: other disciplines keep the times at which it will
/// leave, or count what waits in their own queues.
fn can_filter_acks(queue: &QueueSpec) -> bool {
    use QueueSpec::{Codel, DropTail, FqCodel, Ramp, Red, Step};
    matches!(queue, DropTail(_) | Red(_) | Ramp(_) | Step(_) | Codel(_) | FqCodel(_))
}

/// Checks rates that change, which replace everything else that says how fast a link is.
fn check_rates(table: &str, link: &LinkSpec) -> Result<(), ConfigError> {
    let Some(rates) = &link.rates else { return Ok(()) };
    let others = [
        ("rate", link.rate.is_some()),
        ("trace", link.trace.is_some()),
        ("burst", link.burst.is_some()),
        ("kernel-queue", link.kernel_queue.is_some()),
    ];
    let key = format!("{table}.rates");
    if let Some((other, _)) = others.iter().find(|(_, given)| *given) {
        return Err(ConfigError::new(&key, &format!("cannot be combined with `{other}`")));
    }
    check(&key, rates.highest() <= MAX_RATE, "must have rates of at most 10 Tb/s")
}

/// Checks what happens on the wire of one direction.
fn check_wire(table: &str, wire: &Wire) -> Result<(), ConfigError> {
    let key = |key: &str| format!("{table}.{key}");
    for (name, share) in [("loss", wire.loss), ("duplicate", wire.duplicate), ("corrupt", wire.corrupt)] {
        check(&key(name), (0.0..1.0).contains(&share), "must be at least 0 and less than 1")?;
    }
    if let Some((part, rule)) = wire.loss_bursts.and_then(|bursts| bursts.mistake()) {
        return Err(ConfigError::new(&key(&format!("loss-bursts.{part}")), rule));
    }
    if let Some((part, rule)) = wire.jitter.mistake(MAX_DELAY) {
        return Err(ConfigError::new(&key(&format!("jitter{part}")), rule));
    }
    check(&key("reordering"), !wire.reordering || !wire.jitter.is_none(), "needs `jitter`")?;
    wire.delay_trace.as_ref().map_or(Ok(()), |trace| trace.check(&key("delay-trace")))
}

/// Smallest MTU of a flow with a congestion header: IP, TCP with timestamps and that header
/// leave 8 B of payload.
const LEAST_EXPLICIT_MTU: u32 = 80;

/// Probe sizes that the estimators support, in wire bytes.
const PROBE_SIZES: std::ops::RangeInclusive<u64> = 84..=9038;

pub(crate) fn in_range(rate: Rate) -> bool {
    Rate::ZERO < rate && rate <= MAX_RATE
}

pub(crate) fn check_path(
    topology: &Topology,
    table: &str,
    from: &str,
    to: &str,
    via: &[String],
) -> Result<(), ConfigError> {
    let known = |node: &str| topology.has(node);
    for (key, node) in [("from", from), ("to", to)] {
        check(&format!("{table}.{key}"), known(node), &format!("`{node}` is not one of the nodes"))?;
    }
    check(&format!("{table}.to"), from != to, "must be another node than `from`")?;
    for node in via {
        check(&format!("{table}.via"), known(node), &format!("`{node}` is not one of the nodes"))?;
    }
    let key = if via.is_empty() { "to" } else { "via" };
    match topology.route(from, to, via) {
        Ok(_) => Ok(()),
        Err(reason) => Err(ConfigError::new(&format!("{table}.{key}"), &reason)),
    }
}
