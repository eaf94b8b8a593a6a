//! Converts a scenario to two hosts with one link, if all flows share a path with at most one
//! bottleneck in each direction.

use crate::error::Error;
use headway_lab::Direction;
use headway_scenario::{HostSpec, LinkSpec, Scenario, Topology, TrafficSpec, Wire};

use super::translate::{Lane, Network, bare, is_classic};

/// The nodes of the lab.
const NODES: [&str; 2] = ["client", "server"];

/// The common path of all flows in one direction.
struct Way {
    link: LinkSpec,
    /// The number of the direction whose queue is emulated, in the topology.
    bottleneck: usize,
}

/// Converts a scenario; `None` if it needs more than one link.
pub(super) fn network(scenario: &Scenario, topology: &Topology) -> Result<Option<Network>, Error> {
    let Some([client, server]) = ends(scenario) else { return Ok(None) };
    let via = scenario.flow.first().map(|flow| flow.via.clone()).unwrap_or_default();
    let back: Vec<String> = via.iter().rev().cloned().collect();
    let route = |from: &str, to: &str, via: &[String]| topology.route(from, to, via).map_err(Error::other);
    let [one, other] = NODES;
    let forward = way(scenario, topology, &route(client, server, &via)?, [one, other]);
    let reverse = way(scenario, topology, &route(server, client, &back)?, [other, one]);
    let (Some(forward), Some(reverse)) = (forward, reverse) else { return Ok(None) };
    let [from, to] = NODES.map(str::to_owned);
    let mut sources = Vec::new();
    for (index, traffic) in scenario.traffic.iter().enumerate() {
        let queue = scenario.lab_queue(topology, index).map_err(|mistake| scenario.locate(mistake))?;
        let (from, to) = match queue {
            queue if queue == forward.bottleneck => (from.clone(), to.clone()),
            queue if queue == reverse.bottleneck => (to.clone(), from.clone()),
            _ => return Ok(None),
        };
        sources.push(TrafficSpec { from, to, via: Vec::new(), ..traffic.clone() });
    }
    let lane = |direction, way: &Way| Lane {
        link: format!("{from}-{to}"),
        direction,
        name: topology.directions()[way.bottleneck].name.clone(),
        limited: true,
    };
    let lanes = vec![lane(Direction::Forward, &forward), lane(Direction::Reverse, &reverse)];
    let nic =
        |name: &str| HostSpec { coalescing: scenario.lab_nic(name), ack_coalescing: scenario.lab_nic(name) };
    let host = [(from.clone(), nic(client)), (to.clone(), nic(server))].into();
    let network = bare(scenario, vec![forward.link, reverse.link]);
    Ok(Some(Network {
        network: Scenario { host, traffic: sources, ..network },
        lanes,
        hosts: vec![(client.to_owned(), from), (server.to_owned(), to)],
        routes: Vec::new(),
        middleboxes: Vec::new(),
    }))
}

/// Returns the two nodes that all flows and programs use; `None` if there are others, such as
/// those of middleboxes.
fn ends(scenario: &Scenario) -> Option<[&str; 2]> {
    if !scenario.middlebox.is_empty() {
        return None;
    }
    if let Some(first) = scenario.flow.first() {
        // What the lab sets for a whole host must be the same for all flows.
        let alike = scenario.flow.iter().all(|flow| {
            (&flow.from, &flow.to, &flow.via) == (&first.from, &first.to, &first.via)
                && flow.ack_every == first.ack_every
                && is_classic(flow) == is_classic(first)
        });
        if !alike {
            return None;
        }
    }
    let mut nodes: Vec<&str> =
        scenario.flow.iter().take(1).flat_map(|flow| [flow.from.as_str(), flow.to.as_str()]).collect();
    for program in &scenario.program {
        if !nodes.contains(&program.at.as_str()) {
            nodes.push(&program.at);
        }
    }
    nodes.try_into().ok()
}

/// Merges the links of one direction: at most one of them has a rate and one jitter, no other than the one
/// whose queue is emulated changes packets or its delay, and only the first has a line; delays add up.
fn way(scenario: &Scenario, topology: &Topology, path: &[usize], [from, to]: [&str; 2]) -> Option<Way> {
    let links: Vec<(usize, &LinkSpec, Wire)> = path
        .iter()
        .map(|&index| {
            let direction = &topology.directions()[index];
            let link = &scenario.link[direction.link];
            (index, link, link.wire(direction.back))
        })
        .collect();
    let mut limited = links.iter().filter(|(_, link, _)| link.is_limited());
    let (bottleneck_index, narrow, wire) = limited.next().or_else(|| links.first())?;
    let mut shaky = links.iter().filter(|(_, _, wire)| !wire.jitter.is_none()).map(|(_, _, wire)| wire);
    let (jitter, reordering) =
        shaky.next().map_or_else(Default::default, |wire| (wire.jitter, wire.reordering));
    let others_are_plain = links.iter().all(|(index, _, wire)| index == bottleneck_index || wire.is_plain());
    let has_inner_line = links.iter().skip(1).any(|(_, link, _)| link.line.is_some());
    if limited.next().is_some() || shaky.next().is_some() || !others_are_plain || has_inner_line {
        return None;
    }
    let delay = links.iter().map(|(_, link, _)| link.delay).sum();
    let delivered: f64 = links.iter().map(|(_, _, wire)| 1.0 - wire.loss).product();
    let delay_trace = wire.delay_trace.as_ref().map(|trace| trace.plus(delay));
    let wire = Wire { delay_trace, jitter, reordering, loss: 1.0 - delivered, ..wire.clone() };
    let line = links.first().and_then(|(_, link, _)| link.line);
    let link = LinkSpec { name: None, line, delay, ..narrow.between(from, to, wire) };
    Some(Way { link, bottleneck: *bottleneck_index })
}
