//! Converts a scenario to an emulated network: two hosts if it has at most one bottleneck in each direction,
//! else all of its nodes and links.

use crate::error::Error;
use headway_lab::{Direction, Lab};
use headway_scenario::{EcnMode, FlowSpec, LinkSpec, Scenario, Topology};
use headway_units::Duration;

use super::middlebox::Middlebox;
use super::{changes, controllers, gaps, graph, pair};

/// Interval of the truth log, and so the largest error of the end of warm-up.
const INTERVAL: Duration = Duration::from_ms(1);

/// A scenario in the form that the lab runs.
#[derive(Debug)]
pub(crate) struct Translated {
    /// The network, with its traffic, in the lab's names; a link for each direction.
    pub(crate) network: Scenario,
    /// The queues that results report, in the order of these links.
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

/// What one of the two ways to convert a scenario finds.
pub(super) struct Network {
    pub(super) network: Scenario,
    pub(super) lanes: Vec<Lane>,
    pub(super) hosts: Vec<(String, String)>,
    pub(super) routes: Vec<graph::Routes>,
    pub(super) middleboxes: Vec<Middlebox>,
}

impl Translated {
    /// Converts a scenario that [may run](Scenario::check_world) in the lab, or names the key that this
    /// host does not support.
    pub(crate) fn new(scenario: &Scenario) -> Result<Translated, Error> {
        for (index, flow) in scenario.flow.iter().enumerate() {
            controllers::check(index, flow)?;
        }
        let scenario = &gaps::with_lines(scenario);
        let topology = Topology::new(scenario);
        let converted = match pair::network(scenario, &topology)? {
            Some(network) => network,
            None => graph::network(scenario, &topology)?,
        };
        let Network { network, lanes, hosts, routes, middleboxes } = converted;
        // Traffic has the same numbers there.
        headway_lab::check_network(&network).map_err(|error| match error {
            headway_lab::Error::Spec(mistake) => scenario.locate(mistake).into(),
            other => Error::from(other),
        })?;
        let steps = changes::steps(scenario, &topology, &network, &lanes)?;
        Ok(Translated { network, lanes, hosts, routes, middleboxes, steps })
    }

    /// Returns the lab node that represents a node of the scenario.
    pub(crate) fn node<'a>(&'a self, name: &'a str) -> &'a str {
        self.hosts.iter().find(|(host, _)| host == name).map_or(name, |(_, node)| node)
    }

    /// Whether the lab calls a queue by `name`: those of the only link by their direction.
    pub(crate) fn is_lane(&self, lane: &Lane, name: &str) -> bool {
        let Lane { link, direction, .. } = lane;
        name == if self.lanes.len() == 2 { direction.to_string() } else { format!("{link}:{direction}") }
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

    /// Returns the network with this seed, without the traffic, which begins with the flows.
    pub(crate) fn idle(&self, seed: u64) -> Scenario {
        Scenario { seed, traffic: Vec::new(), ..self.network.clone() }
    }
}

/// Returns these links with what holds for the whole scenario, as a lab has it during a run.
pub(super) fn bare(scenario: &Scenario, links: Vec<LinkSpec>) -> Scenario {
    let Scenario { seed, duration, mtu, header_protocol, header_port, header_option, .. } = *scenario;
    let headers = Scenario { header_protocol, header_port, header_option, ..Scenario::of(links) };
    Scenario { seed, duration, mtu, interval: INTERVAL, delays: true, ..headers }
}

/// Whether a flow requests ECN as in RFC 3168. The echo of DCTCP belongs to the controller.
pub(super) fn is_classic(flow: &FlowSpec) -> bool {
    flow.ecn == EcnMode::Classic
}

#[cfg(test)]
#[path = "translate_tests.rs"]
mod tests;
