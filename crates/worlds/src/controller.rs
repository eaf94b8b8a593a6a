//! `--controller`: runs all flows of a scenario with another controller.

use crate::error::{Error, bail};
use anyhow::Context as _;
use headway_control::Kind;
use headway_scenario::{Change, EcnMode, FlowController, FlowSpec, Scenario, World};

/// Returns the overrides, as for `--set`, that give all flows of `scenario` the named controller.
///
/// # Errors
/// When no such controller exists, or the scenario has no flows.
pub fn changes(name: &str, world: World, scenario: &Scenario) -> Result<Vec<Change>, Error> {
    Ok(changes_of(name, world, scenario, &[]).context("--controller")?)
}

/// Returns the overrides that give the named controller to the `[[flow]]` tables with these indices, or to
/// all of them if there are no indices.
pub(crate) fn changes_of(
    name: &str,
    world: World,
    scenario: &Scenario,
    flows: &[usize],
) -> Result<Vec<Change>, Error> {
    let controller = read(name, world).map_err(Error::other)?;
    if scenario.flow.is_empty() {
        bail!("the scenario has no [[flow]]");
    }
    let mut changes = Vec::new();
    let chosen = |index: &usize| flows.is_empty() || flows.contains(index);
    for (index, flow) in scenario.flow.iter().enumerate().filter(|(index, _)| chosen(index)) {
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

/// In the kernel's world, an unknown name refers to a controller of the kernel, for
/// example of a user's module.
fn read(name: &str, world: World) -> Result<FlowController, String> {
    name.parse().or_else(|error| match world {
        World::Uml => format!("kernel:{name}").parse().map_err(|_| error),
        World::Sim | World::Lab => Err(error),
    })
}

/// Returns the ECN mode that the flow needs with the new controller, because DCTCP uses its own ECN echo;
/// `None` for no change.
fn ecn(flow: &FlowSpec, controller: &FlowController) -> Option<&'static str> {
    let is_dctcp = |controller: &FlowController| controller.linux_kind() == Some(Kind::Dctcp);
    if is_dctcp(controller) {
        return Some("dctcp");
    }
    (is_dctcp(&flow.controller) && flow.ecn == EcnMode::Dctcp).then_some("off")
}
