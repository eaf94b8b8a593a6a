//! Converts a scenario to an emulated network: two hosts if it has at most one bottleneck in each direction, else all of
//! its nodes and links.

use crate::error::{Error, bail};
use anyhow::Context as _;
use headway_lab::{Cross, Direction, Lab, PathSpec, Spec};
use headway_scenario::{EcnMode, FlowSpec, HostSpec, Scenario, Topology, World};
use headway_units::Duration;

use super::changes;
use super::controllers;
use super::graph;
use super::middlebox::Middlebox;
use super::pair;

/// Flow limit: beyond it the machine, not the path, would limit the flows.
const MAX_FLOWS: u64 = 100;
/// Interval of the truth log, and so the largest error of the end of warm-up.
const INTERVAL: Duration = Duration::from_ms(1);

/// A scenario in the form that the lab runs.
#[derive(Debug)]
pub(crate) struct Translated {
    spec: Spec,
    /// Cross traffic, which begins with the flows.
    pub(crate) cross: Vec<Cross>,
    /// The queues that results report, in order.
    pub(crate) lanes: Vec<Lane>,
    /// Nodes of the scenario in which flows or programs run, with the lab's names.
    hosts: Vec<(String, String)>,
    /// The routes of each group of flows; empty if the lab's own are right.
    routes: Vec<graph::Routes>,
    /// In the order of the scenario.
    pub(crate) middleboxes: Vec<Middlebox>,
    /// What changes during the run, in order of time.
    pub(crate) steps: Vec<changes::Step>,
}

/// A queue of the lab.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Lane {
    /// The lab's name of the link.
    pub(crate) link: String,
    pub(crate) direction: Direction,
    /// The name in results.
    pub(crate) name: String,
    /// Whether the scenario gives it a rate.
    pub(crate) limited: bool,
}

/// Links, traffic and nodes, as one of the two ways to convert a scenario finds them.
pub(super) struct Network {
    pub(super) links: Vec<headway_lab::Edge>,
    pub(super) cross: Vec<Cross>,
    pub(super) lanes: Vec<Lane>,
    pub(super) hosts: Vec<(String, String)>,
    pub(super) routes: Vec<graph::Routes>,
    pub(super) middleboxes: Vec<Middlebox>,
}

impl Translated {
    /// Converts a scenario, or names the key that the lab does not support.
    pub(crate) fn new(scenario: &Scenario) -> Result<Translated, Error> {
        if scenario.flow_count() > MAX_FLOWS {
            bail!("the lab runs at most {MAX_FLOWS} flows; this scenario has {}", scenario.flow_count());
        }
        scenario.check_world(World::Lab)?;
        for name in scenario.host.keys() {
            check_host(scenario, name)?;
        }
        if scenario.interval < Duration::from_ms(10) {
            bail!("the lab does not support `interval` below 10 ms");
        }
        for (index, flow) in scenario.flow.iter().enumerate() {
            controllers::check(index, flow)?;
        }
        let topology = Topology::new(scenario);
        let network = match pair::network(scenario, &topology)? {
            Some(network) => network,
            None => graph::network(scenario, &topology)?,
        };
        let Network { links, cross, lanes, hosts, routes, middleboxes } = network;
        let spec = Spec { mtu: scenario.mtu, interval: INTERVAL, delays: true, ..Spec::of(links) };
        spec.validate().context("the lab cannot emulate this network")?;
        let steps = changes::steps(scenario, &topology, &spec, &lanes)?;
        Ok(Translated { spec, cross, lanes, hosts, routes, middleboxes, steps })
    }

    /// Returns the lab node that represents a node of the scenario.
    pub(crate) fn node<'a>(&'a self, name: &'a str) -> &'a str {
        self.hosts.iter().find(|(host, _)| host == name).map_or(name, |(_, node)| node)
    }

    /// Whether the lab calls a queue by `name`.
    pub(crate) fn is_lane(&self, lane: &Lane, name: &str) -> bool {
        let link = self.spec.links.iter().position(|link| link.name == lane.link);
        link.is_some_and(|link| self.spec.lane_name(link, lane.direction) == name)
    }

    /// Returns the node of the scenario that a lab node represents.
    pub(crate) fn host<'a>(&'a self, node: &'a str) -> &'a str {
        self.hosts.iter().find(|(_, other)| other == node).map_or(node, |(host, _)| host)
    }

    /// Returns the nodes of the scenario with those of the lab.
    pub(crate) fn hosts(&self) -> impl Iterator<Item = (&str, &str)> {
        self.hosts.iter().map(|(host, node)| (host.as_str(), node.as_str()))
    }

    /// Returns the routes of a group of flows; `None` if it uses the lab's own.
    pub(crate) fn routes(&self, group: usize) -> Option<&graph::Routes> {
        self.routes.get(group)
    }

    /// Gives flows their addresses and routes, and receivers their way of acknowledging.
    pub(crate) fn prepare(&self, scenario: &Scenario, lab: &Lab) -> Result<(), Error> {
        if self.routes.is_empty() {
            let receiver = scenario.flow.iter().find(|flow| flow.ack_every == 1);
            return receiver.map_or(Ok(()), |flow| Ok(lab.acknowledge_at_once(self.node(&flow.to))?));
        }
        graph::configure(scenario, &self.routes, lab)
    }

    /// Returns the links that change with time: their times count from the moment at which the paths are set.
    pub(crate) fn changing_links(&self) -> Vec<(&str, PathSpec)> {
        let changes = |path: &PathSpec| path.forward.varies() || path.reverse.varies();
        let changing = self.spec.links.iter().filter(|link| changes(&link.path));
        changing.map(|link| (link.name.as_str(), link.path.clone())).collect()
    }

    /// Returns the network with this seed; cross traffic is added when the flows begin.
    pub(crate) fn spec(&self, seed: u64) -> Spec {
        Spec { seed, ..self.spec.clone() }
    }
}

/// Rejects a host whose NIC holds up only a part of what arrives there.
fn check_host(scenario: &Scenario, name: &str) -> Result<(), Error> {
    let HostSpec { coalescing, ack_coalescing } = scenario.host[name];
    let gets = |end: fn(&FlowSpec) -> &String| scenario.flow.iter().any(|flow| end(flow) == name);
    let (gets_segments, gets_acks) = (gets(|flow| &flow.to), gets(|flow| &flow.from));
    let (key, other) = match (coalescing, ack_coalescing) {
        (Some(_), None) if gets_acks => ("coalescing", "ack-coalescing"),
        (None, Some(_)) if gets_segments => ("ack-coalescing", "coalescing"),
        (Some(segments), Some(acks)) if segments != acks => ("coalescing", "ack-coalescing"),
        _ => return Ok(()),
    };
    bail!(
        "the lab does not support `host.{name}.{key}` without the same `{other}`: the NIC there holds up all packets"
    );
}

/// Whether a flow requests ECN as in RFC 3168. The echo of DCTCP belongs to the controller.
pub(super) fn is_classic(flow: &FlowSpec) -> bool {
    flow.ecn == EcnMode::Classic
}

#[cfg(test)]
#[path = "translate_tests.rs"]
mod tests;
