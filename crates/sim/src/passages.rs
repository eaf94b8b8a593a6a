//! Which middleboxes of a scenario a flow passes, and where.

use headway_scenario::{FlowSpec, MiddleboxSpec, Scenario, Topology};
use headway_units::ConfigError;

use crate::config::{MiddleboxId, Passage};

/// Where a path crosses a middlebox.
struct Crossing {
    /// Links of the path before it.
    links_before: usize,
    /// Whether it comes from the link that is shared.
    from_wan: bool,
}

/// Returns the middleboxes that a flow passes in both directions.
pub(crate) fn passages(
    topology: &Topology,
    scenario: &Scenario,
    flow: &FlowSpec,
    middleboxes: &[MiddleboxId],
) -> Result<Vec<Passage>, ConfigError> {
    let route = |from: &str, to: &str, via: &[String]| {
        topology.route(from, to, via).map_err(|reason| ConfigError::new("via", &reason))
    };
    let via_back: Vec<String> = flow.via.iter().rev().cloned().collect();
    let (forward, reverse) =
        (route(&flow.from, &flow.to, &flow.via)?, route(&flow.to, &flow.from, &via_back)?);
    let passages = scenario.middlebox.iter().zip(middleboxes).filter_map(|(spec, middlebox)| {
        let there = crossing(topology, &forward, spec)?;
        let back = crossing(topology, &reverse, spec)?;
        (there.from_wan != back.from_wan).then(|| Passage {
            middlebox: *middlebox,
            forward: there.links_before,
            reverse: back.links_before,
            sender_side: u8::from(there.from_wan),
        })
    });
    Ok(passages.collect())
}

/// Returns where a path crosses a middlebox from one of its sides to the other.
fn crossing(topology: &Topology, path: &[usize], middlebox: &MiddleboxSpec) -> Option<Crossing> {
    let (at, wan) = (topology.number(&middlebox.at)?, topology.number(&middlebox.wan)?);
    path.iter().enumerate().find_map(|(before, hop)| {
        let direction = &topology.directions()[*hop];
        let ends = (direction.from, direction.to);
        if ends == (wan, at) {
            return Some(Crossing { links_before: before + 1, from_wan: true });
        }
        (ends == (at, wan)).then_some(Crossing { links_before: before, from_wan: false })
    })
}
