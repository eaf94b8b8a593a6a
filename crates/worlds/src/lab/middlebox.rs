//! Middleboxes in the nodes of a lab.

use headway_lab::Lab;
use headway_scenario::{MiddleboxPlan, Scenario};

use super::translate::Translated;
use super::{Endpoint, graph};
use crate::error::Error;
use crate::middlebox::COMMAND;
use crate::options::Options;

/// Where a middlebox of a scenario is in the lab.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Middlebox {
    pub(super) node: String,
    /// The links whose ends at the node are towards the hosts, and towards the shared link.
    pub(super) lan: String,
    pub(super) wan: String,
}

/// Starts all middleboxes, and waits until each works.
pub(super) fn start(
    scenario: &Scenario,
    translated: &Translated,
    lab: &Lab,
    options: &Options<'_>,
) -> Result<Vec<Endpoint>, Error> {
    let mut started = Vec::new();
    for (spec, Middlebox { node, lan, wan }) in scenario.middlebox.iter().zip(&translated.middleboxes) {
        let device = |link| Ok::<_, Error>(lab.interface(node, link)?.name.clone());
        let plan = MiddleboxPlan {
            lan: device(lan)?,
            wan: device(wan)?,
            rates: spec.rates(),
            policy: spec.policy_by_address(scenario, graph::receiver),
        };
        let command = lab.command(node, options.program()?, [COMMAND])?;
        started.push(Endpoint::of(command, &format!("the middlebox on {}", spec.at), node, &plan)?);
    }
    Ok(started)
}
