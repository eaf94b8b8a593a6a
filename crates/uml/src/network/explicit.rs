//! Flows whose routers tell them how fast to send: the module `headway_end` gives their packets
//! a congestion header.

use std::path::{Path, PathBuf};

use headway_control::{Kind, RcpParameters, XcpParameters};
use headway_queue::explicit::HEADER_BYTES;
use headway_scenario::{FlowSpec, Scenario};
use headway_units::{Bytes, ConfigError, Rate};

use super::Network;

/// The kernel's controller of receivers, which answers headers.
pub(super) const RECEIVER: &str = "headway_end";

/// Returns whether the packets of a flow have a congestion header.
pub(super) fn is_explicit(spec: &FlowSpec) -> bool {
    spec.controller.known().is_some_and(|kind| kind.is_explicit())
}

/// Rejects senders that the module does not have; `key` is that of the controller.
pub(super) fn check(key: &str, kind: Kind) -> Result<(), ConfigError> {
    let (honest, published) = match kind {
        Kind::Xcp(parameters) => (parameters.is_honest(), parameters.is_published()),
        Kind::Rcp(parameters) => (parameters.is_honest(), parameters.is_published()),
        _ => (true, false),
    };
    if !honest {
        return Err(ConfigError::new(
            key,
            "the kernel's senders say what is so and do as they are told; use `--on sim`",
        ));
    }
    if published {
        return Err(ConfigError::new(key, "the kernel has no `published` senders; use `--on sim`"));
    }
    if matches!(kind, Kind::Xcp(parameters) if parameters.yields()) {
        return Err(ConfigError::new(key, "the kernel's senders of XCP do not become Reno; use `--on sim`"));
    }
    Ok(())
}

/// Returns the kernel's name of a sender of XCP and its parameters.
pub(super) fn xcp(parameters: &XcpParameters) -> (String, Vec<(PathBuf, String)>) {
    ("headway_xcp".to_owned(), settings(parameters.demand(), false))
}

/// Returns the kernel's name of a sender of RCP and its parameters.
pub(super) fn rcp(parameters: &RcpParameters) -> (String, Vec<(PathBuf, String)>) {
    ("headway_rcp".to_owned(), settings(parameters.demand(), parameters.is_paced()))
}

fn settings(demand: Option<Rate>, paced: bool) -> Vec<(PathBuf, String)> {
    let set = |name: &str, value: u64| {
        (Path::new("/sys/module/headway_end/parameters").join(name), value.to_string())
    };
    vec![set("demand", demand.map_or(0, Rate::bps)), set("paced", paced.into())]
}

/// Returns what is left of the MTU where packets get a header.
pub(super) fn mtu(scenario: &Scenario) -> u32 {
    scenario.mtu - HEADER_BYTES as u32
}

impl Network<'_> {
    /// Whether a node is an end of a flow with congestion headers. These are inserted on the first device,
    /// which must have no queue: its root discipline inserts them.
    pub(super) fn is_explicit(&self, node: usize) -> bool {
        let flows = self.scenario.flow.iter().filter(|flow| is_explicit(flow));
        let mut ends = flows.flat_map(|flow| [&flow.from, &flow.to]);
        ends.any(|name| self.topology.number(name) == Some(node))
    }

    /// Returns the bytes that ACKs are longer where flows have congestion headers.
    pub(super) fn ack_header(&self) -> Bytes {
        let explicit = self.scenario.flow.iter().any(is_explicit);
        if explicit { Bytes::new(HEADER_BYTES as u64) } else { Bytes::ZERO }
    }

    /// Lets headers be inserted into what leaves on these two paths.
    pub(super) fn add_headers(&mut self, there: &[usize], back: &[usize]) {
        for direction in [there, back].into_iter().filter_map(|path| path.first()) {
            let hop = &self.hops[*direction];
            let line = format!("qdisc add dev {} root handle 1: headway_end", hop.device);
            let node = &mut self.plan.nodes[hop.node];
            if !node.tc.contains(&line) {
                node.tc.push(line);
            }
        }
    }
}
