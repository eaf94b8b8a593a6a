//! Converts a scenario to a lab with all of its nodes and links. Every group of flows has addresses of its
//! own at both ends, so that it takes the path that the scenario says.

use std::net::Ipv4Addr;

use crate::error::Error;
use headway_lab::Lab;
use headway_scenario::{LinkSpec, Scenario, Topology, TrafficSpec};

use super::middlebox::Middlebox;
use super::translate::{Lane, Network, bare, is_classic};

/// The paths of a group of flows there and back, with its addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Routes {
    pub(crate) source: Ipv4Addr,
    pub(crate) destination: Ipv4Addr,
    there: Vec<Hop>,
    back: Vec<Hop>,
}

/// One link on a path, with the lab's names.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Hop {
    from: String,
    to: String,
    link: String,
}

/// Converts a scenario, or names the key that the lab does not support.
pub(super) fn network(scenario: &Scenario, topology: &Topology) -> Result<Network, Error> {
    // Names a link in the file that none leads back from.
    topology.pairs(scenario).map_err(|mistake| scenario.locate(mistake))?;
    let ends = topology.directions();
    let links = scenario.one_way().link.into_iter().zip(ends);
    let links =
        links.map(|(link, end)| LinkSpec { from: node_name(end.from), to: node_name(end.to), ..link });
    let mut network = bare(scenario, links.collect());
    let places = Topology::new(&network).pairs(&network)?;
    for (link, (number, _)) in network.link.iter_mut().zip(&places) {
        link.name = Some(link_name(*number));
    }
    let node = |name: &String| topology.number(name).map(node_name).unwrap_or_default();
    network.host = scenario.host.iter().map(|(name, host)| (node(name), host.clone())).collect();
    let renamed = |spec: &TrafficSpec| TrafficSpec {
        from: node(&spec.from),
        to: node(&spec.to),
        via: spec.via.iter().map(node).collect(),
        ..spec.clone()
    };
    network.traffic = scenario.traffic.iter().map(renamed).collect();
    let lanes = |index: usize| {
        let (link, direction) = places[index];
        let limited = scenario.link[ends[index].link].is_limited();
        Lane { link: link_name(link), direction, name: ends[index].name.clone(), limited }
    };
    let hop = |index: usize| {
        let end = &topology.directions()[index];
        Hop { from: node_name(end.from), to: node_name(end.to), link: link_name(places[index].0) }
    };
    let mut routes = Vec::new();
    for (group, flow) in scenario.flow.iter().enumerate() {
        let path = |from: &str, to: &str, via: &[String]| {
            let path = topology.route(from, to, via).map_err(Error::other)?;
            Ok::<_, Error>(path.into_iter().map(hop).collect::<Vec<_>>())
        };
        let back: Vec<String> = flow.via.iter().rev().cloned().collect();
        let [source, destination] = [address(1, group), receiver(group)];
        let (there, back) = (path(&flow.from, &flow.to, &flow.via)?, path(&flow.to, &flow.from, &back)?);
        routes.push(Routes { source, destination, there, back });
    }
    let mut middleboxes = Vec::new();
    for (index, spec) in scenario.middlebox.iter().enumerate() {
        let [lan, wan] = spec.interfaces(index, scenario, topology)?.map(|way| link_name(places[way].0));
        middleboxes.push(Middlebox { node: node(&spec.at), lan, wan });
    }
    let names = topology.names().into_iter().enumerate();
    Ok(Network {
        network,
        lanes: (0..ends.len()).map(lanes).collect(),
        hosts: names.map(|(number, name)| (name.to_owned(), node_name(number))).collect(),
        routes,
        middleboxes,
    })
}

/// The nodes of a scenario may have names that a lab does not allow.
fn node_name(number: usize) -> String {
    format!("n{number}")
}

fn link_name(number: usize) -> String {
    format!("l{number}")
}

/// Returns the address of a group of flows at one end: 1 for its sender, 2 for its receiver.
fn address(end: u8, group: usize) -> Ipv4Addr {
    // At most 100 groups have flows.
    Ipv4Addr::new(10, 78, end, group as u8)
}

/// Returns the address of the receivers of a group of flows.
pub(super) fn receiver(group: usize) -> Ipv4Addr {
    address(2, group)
}

/// Gives all groups their addresses and routes.
pub(super) fn configure(scenario: &Scenario, routes: &[Routes], lab: &Lab) -> Result<(), Error> {
    for node in lab.nodes() {
        let mut batch = String::new();
        for (flow, routes) in scenario.flow.iter().zip(routes) {
            let Routes { source, destination, there, back } = routes;
            let metrics = if is_classic(flow) { " features ecn" } else { "" };
            batch += &lines(lab, &node.name, (*source, *destination), there, metrics)?;
            let metrics = if flow.ack_every == 1 { " quickack 1" } else { "" };
            batch += &lines(lab, &node.name, (*destination, *source), back, metrics)?;
        }
        if !batch.is_empty() {
            lab.configure(&node.name, &batch)?;
        }
    }
    Ok(())
}

/// Returns what a node needs to know of a path from one address to another; `metrics` belong to
/// the route at its begin.
fn lines(
    lab: &Lab,
    node: &str,
    (own, other): (Ipv4Addr, Ipv4Addr),
    path: &[Hop],
    metrics: &str,
) -> Result<String, Error> {
    let mut lines = String::new();
    for (index, Hop { from, to, link }) in path.iter().enumerate().filter(|(_, hop)| hop.from == node) {
        if index == 0 {
            lines += &format!("addr add {own}/32 dev lo\n");
        }
        let (next, device) = (lab.interface(to, link)?.v4, &lab.interface(from, link)?.name);
        let metrics = if index == 0 { metrics } else { "" };
        lines += &format!("route add {other}/32 via {next} dev {device}{metrics}\n");
    }
    Ok(lines)
}
