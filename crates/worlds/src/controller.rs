//! `--controller`: all flows of a scenario with another controller.

use crate::error::{Context as _, Error, bail};
use headway_core::control::Kind;
use headway_scenario::{Change, EcnMode, FlowController, FlowSpec, Scenario};

use crate::world::World;

/// What `--set` would have to say so that all flows of `scenario` have the controller of this name.
///
/// # Errors
/// When there is no such controller, or there are no flows.
pub fn changes(name: &str, world: World, scenario: &Scenario) -> Result<Vec<Change>, Error> {
    let controller = read(name, world).context("--controller")?;
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

fn change(text: &str) -> Result<Change, Error> {
    text.parse().map_err(Error::other)
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
