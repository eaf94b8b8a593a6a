//! Middleboxes in worlds where they are programs: where their interfaces are, and what they have to know.

use std::net::Ipv4Addr;

use headway_edge::Policy;
use headway_units::config_error::check;
use headway_units::{ConfigError, Prefix, Rate};
use serde::{Deserialize, Serialize};

use crate::middlebox::MiddleboxSpec;
use crate::model::Scenario;
use crate::route::Topology;

/// What a middlebox has to know that is a program.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MiddleboxPlan {
    /// The interface towards the hosts.
    pub lan: String,
    /// The interface towards the link that flows share.
    pub wan: String,
    /// The rates of that link towards the two sides, that of the hosts first; none where
    /// they are to be found.
    pub rates: Option<[Rate; 2]>,
    /// Who shares it.
    pub policy: Policy,
}

/// What has passed such a middlebox when it ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MiddleboxEnd {
    /// Connections that began.
    pub connections: u64,
    /// ACKs whose window was lowered.
    pub lowered: u64,
    /// Segments of connections that passed as they were, because the program was not heard of for seconds.
    pub unattended: u64,
}

impl MiddleboxSpec {
    /// Returns the policy for a network in which the receivers of each group of flows, counted from 0, have
    /// an address of their own: its classes know groups by that, and not by ports.
    pub fn policy_by_address(&self, scenario: &Scenario, receiver: impl Fn(usize) -> Ipv4Addr) -> Policy {
        let mut policy = self.policy(scenario);
        for (class, spec) in policy.class.iter_mut().zip(&self.class) {
            let groups = scenario.flow.iter().enumerate();
            let groups = groups.filter(|(_, flow)| spec.flows.contains(&flow.group_name()));
            class.ports.clear();
            class.prefixes = groups.map(|(group, _)| Prefix::from(receiver(group))).collect();
        }
        policy
    }

    /// Returns where a program has its interfaces: the directions of links that lead from its node to the
    /// hosts, and from the neighbour across the shared link to its node. `index` is the place of the
    /// middlebox in the file.
    ///
    /// # Errors
    /// Names the key if hosts are at several interfaces, or at none, or if flows begin or end at the node.
    pub fn interfaces(
        &self,
        index: usize,
        scenario: &Scenario,
        topology: &Topology,
    ) -> Result<[usize; 2], ConfigError> {
        let MiddleboxSpec { at, wan, .. } = self;
        let key = format!("middlebox[{index}].at");
        let is_end = scenario.flow.iter().any(|flow| flow.from == *at || flow.to == *at);
        let rule = format!("flows begin or end at `{at}`; in this world they must cross it");
        check(&key, !is_end, &rule)?;
        let [node, beyond] = [at, wan].map(|name| topology.number(name));
        let ways = || topology.directions().iter().enumerate();
        let lan = ways().filter(|(_, way)| Some(way.from) == node && Some(way.to) != beyond);
        let down = ways().filter(|(_, way)| Some(way.from) == beyond && Some(way.to) == node);
        let [lan, down]: [Vec<usize>; 2] =
            [lan.map(|(number, _)| number).collect(), down.map(|(number, _)| number).collect()];
        match (&lan[..], &down[..]) {
            ([lan], [down]) if scenario.link[topology.directions()[*lan].link].duplex => Ok([*lan, *down]),
            _ => Err(ConfigError::new(
                &key,
                &format!(
                    "`{at}` must have one link from `{wan}` and one duplex link to the hosts; in this world a middlebox is at \
                     one interface towards them"
                ),
            )),
        }
    }
}
