//! The network of a scenario as a lab has it.

use std::path::Path;

use headway_host::nic::Coalescing;
use headway_scenario::{LinkSpec as Written, Scenario, Topology, TrafficSpec, Wire};
use headway_units::config_error::check;
use headway_units::{ConfigError, Duration, Rate};

use crate::base::check_name;
use crate::error::Error;
use crate::graph::Edge;
use crate::spec::{Cross, Direction, LinkSpec, PathSpec, Spec, check_link};

/// Rate of a direction without one: the emulator's maximum.
const UNLIMITED: Rate = Rate::from_bps(10_000_000_000);
/// The longest interval of the truth log.
const MAX_INTERVAL: Duration = Duration::from_ms(1_000);

impl Spec {
    /// Reads the network of a scenario file.
    ///
    /// # Errors
    /// Errors name the file, and the line and key at fault if there are any.
    pub fn load(path: &Path) -> Result<Spec, Error> {
        Spec::from_scenario(&Scenario::load_network(path)?)
    }

    /// Parses the network of a scenario. `path` is named in errors, and its folder is where traces are looked up.
    ///
    /// # Errors
    /// As for [`Spec::load`].
    pub fn parse(text: &str, path: &Path) -> Result<Spec, Error> {
        Spec::from_scenario(&Scenario::parse_network(text, path)?)
    }

    /// Returns the network of a scenario, without what runs on it. Nodes keep their names where the lab allows these.
    ///
    /// # Errors
    /// Names the key that the lab does not support.
    pub fn from_scenario(scenario: &Scenario) -> Result<Spec, Error> {
        Spec::convert(&scenario.drawn(scenario.seed)).map_err(|mistake| scenario.locate(mistake).into())
    }

    fn convert(scenario: &Scenario) -> Result<Spec, ConfigError> {
        let topology = Topology::new(scenario);
        let places = places(scenario, &topology)?;
        let names = topology.names();
        let node = |number: usize| match check_name(names[number]) {
            Ok(()) => names[number].to_owned(),
            Err(_) => format!("n{number}"),
        };
        let mut links: Vec<Edge> = Vec::new();
        for (index, end) in topology.directions().iter().enumerate() {
            let written = &scenario.link[end.link];
            let side = LinkSpec { delay: written.delay, ..side(scenario, written, &written.wire(end.back)) };
            let side = LinkSpec { coalesce: nic(scenario, names[end.to]), ..side };
            check_written(end.link, written)?;
            check_link(&format!("link[{}]", end.link), &side, scenario.mtu)?;
            let (number, direction) = places[index];
            match direction {
                Direction::Forward => {
                    let (from, to) = (node(end.from), node(end.to));
                    let name = written.name.clone().unwrap_or_else(|| format!("{from}-{to}"));
                    let is_taken = links.iter().any(|link| link.name == name);
                    let rule = format!("another link is called `{name}`; give this one a `name`");
                    check(&format!("link[{}].name", end.link), !is_taken, &rule)?;
                    let path = PathSpec { forward: side.clone(), reverse: side };
                    links.push(Edge { name, from, to, path });
                }
                Direction::Reverse => links[number].path.reverse = side,
            }
        }
        let mut cross = Vec::new();
        for (index, traffic) in scenario.traffic.iter().enumerate() {
            let key = |key: &str| format!("traffic[{index}].{key}");
            let path = topology.route(&traffic.from, &traffic.to, &traffic.via);
            let path = path.map_err(|reason| ConfigError::new(&key("to"), &reason.to_string()))?;
            let limited = |index: &usize| has_queue(&scenario.link[topology.directions()[*index].link]);
            let mut limited = path.into_iter().filter(limited);
            let (Some(lane), None) = (limited.next(), limited.next()) else {
                return Err(ConfigError::new(
                    &key("to"),
                    "the path needs one link with a rate in a lab, and not several",
                ));
            };
            let (link, direction) = places[lane];
            cross.push(cross_of(traffic, direction).on(&links[link].name));
        }
        let name = Some(scenario.name.clone()).filter(|name| check_name(name).is_ok());
        let Scenario { seed, mtu, delays, header_protocol, header_port, header_option, .. } = *scenario;
        let interval = scenario.interval.min(MAX_INTERVAL);
        let spec = Spec {
            name,
            seed,
            mtu,
            interval,
            delays,
            header_protocol,
            header_port,
            header_option,
            links,
            cross,
        };
        spec.check()?;
        Ok(spec)
    }
}

/// Returns the link of the lab and its direction for every direction of the topology. Two links of the scenario that
/// lead in opposite ways only become one link of the lab.
///
/// # Errors
/// Names a link that none leads back from.
pub fn places(scenario: &Scenario, topology: &Topology) -> Result<Vec<(usize, Direction)>, ConfigError> {
    let directions = topology.directions();
    let mut places: Vec<Option<(usize, Direction)>> = vec![None; directions.len()];
    let mut links = 0;
    for (index, there) in directions.iter().enumerate() {
        if places[index].is_some() {
            continue;
        }
        let duplex = scenario.link[there.link].duplex;
        let back = (index + 1..directions.len()).find(|&other| {
            let back = &directions[other];
            let is_free = places[other].is_none() && duplex == scenario.link[back.link].duplex;
            is_free && (back.from, back.to) == (there.to, there.from) && (!duplex || back.link == there.link)
        });
        let Some(back) = back else {
            let key = format!("link[{}].duplex", there.link);
            return Err(ConfigError::new(&key, "the lab needs a link that leads back"));
        };
        places[index] = Some((links, Direction::Forward));
        places[back] = Some((links, Direction::Reverse));
        links += 1;
    }
    Ok(places.into_iter().flatten().collect())
}

/// Returns the interrupt coalescing of a host's NIC.
pub fn nic(scenario: &Scenario, host: &str) -> Option<Coalescing> {
    let host = scenario.host.get(host)?;
    host.coalescing.or(host.ack_coalescing)
}

/// Whether packets may have to wait for a link.
pub fn has_queue(link: &Written) -> bool {
    link.highest_rate().is_some() || link.trace.is_some()
}

/// Whether something limits the rate of a link.
pub fn is_limited(link: &Written) -> bool {
    has_queue(link) || link.police.is_some()
}

/// Converts one direction of a link, without its constant delay; without a rate nothing ever waits.
pub fn side(scenario: &Scenario, link: &Written, wire: &Wire) -> LinkSpec {
    let Wire { loss, loss_bursts, duplicate, corrupt, ecn, jitter, reordering, .. } = *wire;
    let delay_trace = wire.delay_trace.clone();
    let plain = LinkSpec { police: link.police, ..LinkSpec::new(UNLIMITED, Duration::ZERO) };
    let side =
        LinkSpec { delay_trace, jitter, reordering, loss, loss_bursts, duplicate, corrupt, ecn, ..plain };
    let traced = link.trace.as_ref().map(|trace| trace.mean_rate());
    let Some(highest) = link.highest_rate().or(traced) else { return side };
    let queue = Some(link.queue_spec(Some(highest)));
    let buffer = Some(link.buffer_at(highest).bytes(scenario.mtu));
    let Written { rates, outages, trace, burst, peak_rate, .. } = link.clone();
    // A rate that is redrawn is the highest of those drawn.
    let rate = if rates.is_some() { Rate::ZERO } else { link.rate.unwrap_or_default() };
    LinkSpec { rate, buffer, queue, rates, outages, trace, burst, peak_rate, ..side }
}

/// Converts a source of traffic that occupies one queue.
pub fn cross_of(traffic: &TrafficSpec, direction: Direction) -> Cross {
    let TrafficSpec { start, stop, ref traffic, .. } = *traffic;
    Cross { start, stop, ..Cross::new(direction, traffic.clone()) }
}

/// Rejects what a lab cannot do.
///
/// # Errors
/// Names the key.
pub fn check_written(index: usize, link: &Written) -> Result<(), ConfigError> {
    let check = |key: &str, right: bool, rule: &str| check(&format!("link[{index}].{key}"), right, rule);
    check("kernel-queue", link.kernel_queue.is_none(), "is not in the lab; `--on uml` has it")?;
    check("ack-filter", !link.ack_filter, "is not in the lab; use --on sim")?;
    // The kernels of the lab's nodes send all packets of a connection over one link.
    check("spray", !link.spray, "is not in the lab; use --on sim")
}
