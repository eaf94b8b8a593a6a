//! The network of a scenario as the emulator has it.

use headway_scenario::{
    HostSpec, LinkSpec as Written, Scenario, Topology, TrafficSpec, Wire, World, is_lab_name,
};
use headway_units::config_error::check;
use headway_units::{ConfigError, Duration, Rate};

use crate::error::Error;
use crate::spec::{Cross, Direction, Edge, LinkSpec, PathSpec, Spec};

/// Rate of a direction without one: the emulator's maximum.
const UNLIMITED: Rate = Rate::from_bps(10_000_000_000);
/// The longest interval of the truth log.
const MAX_INTERVAL: Duration = Duration::from_ms(1_000);
/// The largest number of links: every link has a subnet of its own.
const MAX_LINKS: usize = 200;

/// Rejects a scenario whose network a lab cannot have, and returns warnings about what is valid but probably
/// unintended, one sentence each.
///
/// # Errors
/// Names the key, with its place in the file if there is one.
pub fn check_network(scenario: &Scenario) -> Result<Vec<String>, Error> {
    let spec = Spec::of(scenario)?;
    let mut warnings = Vec::new();
    for (index, edge) in spec.links.iter().enumerate() {
        let cross = spec.cross_on(index);
        for direction in Direction::BOTH {
            let here = cross.iter().filter(|cross| cross.direction == direction);
            let sum: Rate = here.filter_map(|cross| cross.traffic.mean_rate()).sum();
            let lowest = edge.path.side(direction).rate_steps().lowest();
            if sum >= lowest {
                let lane = spec.lane_name(index, direction);
                warnings.push(format!("{lane}: cross traffic of {sum} leaves nothing of a link of {lowest}"));
            }
        }
    }
    Ok(warnings)
}

impl Spec {
    /// Returns the network of a scenario, without what runs on it. Nodes and links keep their names where
    /// a lab can have these.
    ///
    /// # Errors
    /// Names the key that a lab does not have, with its place in the file if there is one.
    pub fn of(scenario: &Scenario) -> Result<Spec, Error> {
        Spec::convert(&scenario.drawn(scenario.seed)).map_err(|mistake| scenario.locate(mistake).into())
    }

    fn convert(scenario: &Scenario) -> Result<Spec, ConfigError> {
        scenario.check_world(World::Lab)?;
        let topology = Topology::new(scenario);
        let pairs = topology.pairs(scenario)?;
        let links = edges(scenario, &topology, &pairs)?;
        let cross = scenario.traffic.iter().enumerate().map(|(index, spec)| {
            let (link, direction) = pairs[scenario.lab_queue(&topology, index)?];
            let TrafficSpec { start, stop, ref traffic, .. } = *spec;
            let link = Some(links[link].name.clone());
            Ok::<_, ConfigError>(Cross { link, direction, start, stop, traffic: traffic.clone() })
        });
        let cross = cross.collect::<Result<_, _>>()?;
        let name = Some(scenario.name.clone()).filter(|name| is_lab_name(name));
        let Scenario { seed, mtu, delays, header_protocol, header_port, header_option, .. } = *scenario;
        let interval = scenario.interval.min(MAX_INTERVAL);
        Ok(Spec {
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
        })
    }
}

/// Converts all links; `pairs` are those of [`Topology::pairs`].
fn edges(
    scenario: &Scenario,
    topology: &Topology,
    pairs: &[(usize, Direction)],
) -> Result<Vec<Edge>, ConfigError> {
    let names = topology.names();
    let mut nodes: Vec<String> = Vec::new();
    for (number, name) in names.iter().enumerate() {
        let wanted = if is_lab_name(name) { (*name).to_owned() } else { format!("n{number}") };
        nodes.push(free(wanted, |name| nodes.iter().any(|node| node == name)));
    }
    let mut links: Vec<Edge> = Vec::new();
    for (end, &(number, direction)) in topology.directions().iter().zip(pairs) {
        let link = &scenario.link[end.link];
        let side = LinkSpec::of(scenario, link, end.back, names[end.to]);
        if direction == Direction::Reverse {
            links[number].path.reverse = side;
            continue;
        }
        let (from, to) = (nodes[end.from].clone(), nodes[end.to].clone());
        let is_taken = |name: &str| links.iter().any(|link| link.name == name);
        let name = match &link.name {
            Some(name) => {
                let rule = format!("another link is called `{name}`; give this one another `name`");
                check(&format!("link[{}].name", end.link), !is_taken(name), &rule)?;
                name.clone()
            }
            None => free(format!("{from}-{to}"), is_taken),
        };
        links.push(Edge { name, from, to, path: PathSpec { forward: side.clone(), reverse: side } });
    }
    check("link", links.len() <= MAX_LINKS, "must have at most 200 entries in a lab")?;
    Ok(links)
}

/// Returns a name that is not taken: the wanted one, or that with the least number from 2 on.
fn free(wanted: String, is_taken: impl Fn(&str) -> bool) -> String {
    let numbered = (2..).map(|number| format!("{wanted}-{number}"));
    let mut names = std::iter::once(wanted.clone()).chain(numbered);
    names.find(|name| !is_taken(name)).unwrap_or_default()
}

impl PathSpec {
    /// Rejects values that a link of a lab cannot have; `mtu` is the largest IP packet in bytes.
    ///
    /// # Errors
    /// Names the key, such as `forward.rate`.
    pub fn check(&self, mtu: u32) -> Result<(), ConfigError> {
        let wrong = |error: serde_json::Error| ConfigError::new("", &error.to_string());
        let links = [self.forward.written("client", "server"), self.reverse.written("server", "client")];
        let links = links.into_iter().collect::<Result<_, _>>().map_err(wrong)?;
        let nic = |side: &LinkSpec| HostSpec { coalescing: side.coalesce, ack_coalescing: side.coalesce };
        let host = [("server", nic(&self.forward)), ("client", nic(&self.reverse))];
        let host = host.map(|(name, nic)| (name.to_owned(), nic)).into();
        let network = Scenario { mtu, host, ..Scenario::of(links) };
        // Where a discipline has a limit of its own, that and the buffer are two limits, and a file has one.
        let (mut limits, mut buffers) = (network.clone(), network);
        limits.link.iter_mut().for_each(|link| link.buffer = None);
        buffers.link.iter_mut().for_each(|link| link.queue = None);
        let checked = |network: Scenario| network.checked()?.check_world(World::Lab);
        checked(limits).and_then(|()| checked(buffers)).map_err(|mistake| {
            const NAMES: [(&str, &str); 6] = [
                ("link[0]", "forward"),
                ("link[1]", "reverse"),
                ("host.server", "forward"),
                ("host.client", "reverse"),
                ("ack-coalescing", "coalesce"),
                ("coalescing", "coalesce"),
            ];
            let key = mistake.key().unwrap_or_default().to_owned();
            let key = NAMES.iter().fold(key, |key, (name, short)| key.replace(name, short));
            ConfigError::new(&key, mistake.message())
        })
    }
}

impl LinkSpec {
    /// Returns the link as a scenario has it, but for the NIC at its end: the keys are the same.
    fn written(&self, from: &str, to: &str) -> Result<Written, serde_json::Error> {
        let mut link = serde_json::to_value(LinkSpec { coalesce: None, ..self.clone() })?;
        if let Some(keys) = link.as_object_mut() {
            // Those that others replace are always there.
            if self.rates.is_some() || self.trace.is_some() {
                keys.retain(|key, _| key != "rate" || self.rate > Rate::ZERO);
            }
            keys.retain(|key, _| key != "delay" || self.delay_trace.is_none());
            keys.extend([("from", from), ("to", to)].map(|(key, node)| (key.to_owned(), node.into())));
        }
        Ok(Written { duplex: false, ..serde_json::from_value(link)? })
    }

    /// Converts one direction of a link towards a host; without a rate nothing ever waits.
    fn of(scenario: &Scenario, link: &Written, back: bool, host: &str) -> LinkSpec {
        let Wire { delay_trace, loss, loss_bursts, duplicate, corrupt, ecn, jitter, reordering } =
            link.wire(back);
        let (police, line, coalesce) = (link.police, link.line, scenario.lab_nic(host));
        let side = LinkSpec { police, line, coalesce, ..LinkSpec::new(UNLIMITED, link.delay) };
        let side =
            LinkSpec { delay_trace, jitter, reordering, loss, loss_bursts, duplicate, corrupt, ecn, ..side };
        let Some(highest) = link.queue_rate() else { return side };
        let queue = Some(link.queue_spec(Some(highest)));
        let buffer = Some(link.buffer_at(highest).bytes(scenario.mtu));
        let Written { rates, outages, trace, burst, peak_rate, .. } = link.clone();
        // A rate that is redrawn is the highest of those drawn.
        let rate = if rates.is_some() { Rate::ZERO } else { link.rate.unwrap_or_default() };
        LinkSpec { rate, buffer, queue, rates, outages, trace, burst, peak_rate, ..side }
    }
}

#[cfg(test)]
impl Spec {
    /// Returns the network of a file.
    pub(crate) fn parse(text: &str) -> Result<Spec, Error> {
        Spec::of(&Scenario::parse_network(text, std::path::Path::new("x.toml"))?)
    }
}

#[cfg(test)]
#[path = "network_tests.rs"]
mod tests;
