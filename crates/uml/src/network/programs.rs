//! Host programs in the network: an address for every node, routes between all nodes, and host names.

use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};

use headway_scenario::{FlowController, ProgramSpec, Scenario, Topology};

use super::{Network, address};
use crate::plan::PlannedProgram;

/// The second byte of node addresses.
const KIND: u8 = 20;

/// Returns the directions of links on routes between nodes with programs.
pub(super) fn directions(scenario: &Scenario, topology: &Topology) -> Vec<usize> {
    let pairs =
        scenario.program.iter().flat_map(|one| scenario.program.iter().map(move |other| (one, other)));
    // Programs without a route between them cannot reach each other.
    pairs.filter_map(|(one, other)| topology.route(&one.at, &other.at, &[]).ok()).flatten().collect()
}

impl Network<'_> {
    /// If the scenario has programs, gives every node an address, and routes and names to all others.
    pub(super) fn add_programs(&mut self) {
        if self.scenario.program.is_empty() {
            return;
        }
        let names: Vec<String> = self.topology.names().into_iter().map(str::to_owned).collect();
        for (number, name) in names.iter().enumerate() {
            self.plan.nodes[number].ip.push(format!("addr add {}/32 dev lo", node_address(number)));
            self.plan.hosts.push((node_address(number), name.clone()));
        }
        for from in 0..names.len() {
            for to in 0..names.len() {
                self.lead_program(&names, from, to);
            }
        }
        for spec in &self.scenario.program {
            let node = self.topology.number(&spec.at).unwrap_or_default();
            if let Some(controller) = &spec.controller {
                self.plan.nodes[node].controller = Some(name(controller));
            }
            self.plan.programs.push(planned(spec, node, self.scenario));
        }
    }

    /// Adds the first hop of the route from one node to another. Every hop of a shortest path comes nearer to
    /// the destination, so the hops need not belong to the same path.
    fn lead_program(&mut self, names: &[String], from: usize, to: usize) {
        let path = self.topology.route(&names[from], &names[to], &[]).unwrap_or_default();
        let Some(hop) = path.first().map(|direction| &self.hops[*direction]) else { return };
        let line = format!(
            "route add {}/32 via {} dev {} src {}",
            node_address(to),
            hop.next,
            hop.device,
            node_address(from)
        );
        self.plan.nodes[from].ip.push(line);
    }
}

fn planned(spec: &ProgramSpec, node: usize, scenario: &Scenario) -> PlannedProgram {
    let end = scenario.duration;
    PlannedProgram {
        node,
        host: spec.at.clone(),
        command: spec.command.clone(),
        directory: std::path::absolute(Path::new(".").join(&scenario.folder))
            .unwrap_or_else(|_| PathBuf::from("/")),
        start: spec.start,
        stop: spec.stop.unwrap_or(end).min(end),
    }
}

fn node_address(number: usize) -> Ipv4Addr {
    address(KIND, number + 1)
}

fn name(controller: &FlowController) -> String {
    match controller {
        FlowController::Known(kind) => kind.to_string(),
        FlowController::Kernel(controller) => controller.name().to_owned(),
    }
}
