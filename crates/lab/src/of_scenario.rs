//! The network of a scenario as a lab has it.

use std::path::Path;

use headway_host::nic::Coalescing;
use headway_scenario::{LinkSpec as Written, Scenario, Topology, TrafficSpec, Wire, World};
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
        let name = |_, written: &Written, ends: [&str; 2]| {
            written.name.clone().unwrap_or_else(|| format!("{}-{}", ends[0], ends[1]))
        };
        let links = edges(scenario, &topology, &places, node, name)?;
        let cross = crosses(scenario, &topology, |lane| (&links[places[lane].0].name, places[lane].1))?;
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

/// Converts all links; `places` are those of [`places`], `node` and `name` name nodes and links, the latter by its number in
/// the lab, its description and its ends.
///
/// # Errors
/// Names the key that the lab does not support, or of a second link with the same name.
pub fn edges(
    scenario: &Scenario,
    topology: &Topology,
    places: &[(usize, Direction)],
    node: impl Fn(usize) -> String,
    name: impl Fn(usize, &Written, [&str; 2]) -> String,
) -> Result<Vec<Edge>, ConfigError> {
    let names = topology.names();
    let mut links: Vec<Edge> = Vec::new();
    for (end, &(number, direction)) in topology.directions().iter().zip(places) {
        let written = &scenario.link[end.link];
        World::Lab.check_link(end.link, written)?;
        let side = side(scenario, written, &written.wire(end.back));
        let side = LinkSpec { delay: written.delay, coalesce: nic(scenario, names[end.to])?, ..side };
        check_link(&format!("link[{}]", end.link), &side, scenario.mtu)?;
        match direction {
            Direction::Forward => {
                let (from, to) = (node(end.from), node(end.to));
                let name = name(number, written, [&from, &to]);
                let is_taken = links.iter().any(|link| link.name == name);
                let rule = format!("another link is called `{name}`; give this one a `name`");
                check(&format!("link[{}].name", end.link), !is_taken, &rule)?;
                links.push(Edge { name, from, to, path: PathSpec { forward: side.clone(), reverse: side } });
            }
            Direction::Reverse => links[number].path.reverse = side,
        }
    }
    Ok(links)
}

/// Converts all sources of traffic; `place` tells the link's name and direction of a direction of the topology.
///
/// # Errors
/// Names a source whose path has no link with a rate, or several.
pub fn crosses<N: AsRef<str>>(
    scenario: &Scenario,
    topology: &Topology,
    place: impl Fn(usize) -> (N, Direction),
) -> Result<Vec<Cross>, ConfigError> {
    let of = |(index, traffic): (usize, &TrafficSpec)| {
        let wrong = |reason: &str| ConfigError::new(&format!("traffic[{index}].to"), reason);
        let path = topology.route(&traffic.from, &traffic.to, &traffic.via);
        let path = path.map_err(|reason| wrong(&reason.to_string()))?;
        let limited = |lane: &usize| is_limited(&scenario.link[topology.directions()[*lane].link]);
        let mut limited = path.into_iter().filter(limited);
        let (Some(lane), None) = (limited.next(), limited.next()) else {
            let rule = "traffic of a lab occupies the queue of one link with a rate, and its path has none or several";
            return Err(wrong(rule));
        };
        let (link, direction) = place(lane);
        Ok(cross_of(traffic, direction).on(link.as_ref()))
    };
    scenario.traffic.iter().enumerate().map(of).collect()
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

/// Returns the interrupt coalescing of a host's NIC, which in a lab holds up all packets that arrive.
///
/// # Errors
/// If ACKs are to be held up otherwise than other packets.
pub fn nic(scenario: &Scenario, host: &str) -> Result<Option<Coalescing>, ConfigError> {
    let Some(spec) = scenario.host.get(host) else { return Ok(None) };
    let alike = spec.ack_coalescing.is_none_or(|acks| spec.coalescing.is_none_or(|all| all == acks));
    let rule = "must be like `coalescing` in a lab: the NIC there holds up all packets";
    check(&format!("host.{host}.ack-coalescing"), alike, rule)?;
    Ok(spec.coalescing.or(spec.ack_coalescing))
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
    let (police, line) = (link.police, link.line);
    let plain = LinkSpec { police, line, ..LinkSpec::new(UNLIMITED, Duration::ZERO) };
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
