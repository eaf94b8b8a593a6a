//! `--controller`: all flows of a scenario with another controller.

use anyhow::{Context as _, bail};
use headway_core::control::Kind;
use headway_scenario::{Change, EcnMode, FlowController, FlowSpec, Scenario};

use super::World;

/// What `--set` would have to say so that all flows of `scenario` have the controller of this name.
pub(super) fn changes(name: &str, world: World, scenario: &Scenario) -> anyhow::Result<Vec<Change>> {
    let controller = read(name, world).map_err(anyhow::Error::msg).context("--controller")?;
    if scenario.flow.is_empty() {
        bail!("--controller is for scenarios with a [[flow]]");
    }
    let mut changes = Vec::new();
    for (index, flow) in scenario.flow.iter().enumerate() {
        changes.push(change(&format!("flow.{index}.controller={controller}"))?);
        if let Some(ecn) = ecn(flow, &controller) {
            changes.push(change(&format!("flow.{index}.ecn={ecn}"))?);
        }
    }
    Ok(changes)
}

fn change(text: &str) -> anyhow::Result<Change> {
    text.parse().map_err(anyhow::Error::msg)
}

/// In the kernel's world a name that is no known one is that of a kernel's controller, perhaps of the user's module.
fn read(name: &str, world: World) -> Result<FlowController, String> {
    name.parse().or_else(|error| match world {
        World::Uml => format!("kernel:{name}").parse().map_err(|_| error),
        World::Sim | World::Lab => Err(error),
    })
}

/// What the ECN of a flow has to become with another controller, because DCTCP has an echo of its own.
fn ecn(flow: &FlowSpec, controller: &FlowController) -> Option<&'static str> {
    let is_dctcp = |controller: &FlowController| controller.kind_on_linux() == Some(Kind::Dctcp);
    if is_dctcp(controller) {
        return Some("dctcp");
    }
    (is_dctcp(&flow.controller) && flow.ecn == EcnMode::Dctcp).then_some("off")
}
