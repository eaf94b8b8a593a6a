//! Routes along the paths of flows and sources.

use std::net::Ipv4Addr;

use super::Network;
use crate::plan::{PlannedMetrics, PlannedRoute};

impl Network<'_> {
    /// Routes packets to an address along a path; `metrics` belong to the route at the first node.
    pub(super) fn lead(&mut self, destination: Ipv4Addr, path: &[usize], metrics: PlannedMetrics) {
        for (index, hop) in path.iter().map(|direction| &self.hops[*direction]).enumerate() {
            let metrics = if index == 0 { metrics } else { PlannedMetrics::default() };
            let node = &mut self.plan.nodes[hop.node];
            if metrics.microseconds {
                let (via, device) = (hop.next, hop.device.clone());
                node.routes.push(PlannedRoute { destination, via, device, metrics });
                continue;
            }
            let metrics = words(&metrics);
            node.ip.push(format!("route add {destination}/32 via {} dev {}{metrics}", hop.next, hop.device));
        }
    }
}

/// Returns metrics as `ip` reads them.
fn words(metrics: &PlannedMetrics) -> String {
    let number =
        |name: &str, value: Option<u32>| value.map_or(String::new(), |value| format!(" {name} {value}"));
    let flag = |text: &str, set: bool| if set { text.to_owned() } else { String::new() };
    number("initcwnd", metrics.initial_window)
        + &flag(" features ecn", metrics.ecn)
        + &number("mtu", metrics.mtu)
        + &flag(" quickack 1", metrics.quick_acks)
}
