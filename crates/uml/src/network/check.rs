//! Rejects scenarios that the kernel cannot run.

use headway_control::Kind;
use headway_scenario::{EcnMode, FlowController, Scenario, World};
use headway_units::ConfigError;

use super::{card, explicit, rapid};

/// Most links and sources: the number of available addresses.
const MAX_LINKS: usize = 1 << 14;
/// Most flows; each needs two sockets.
const MAX_FLOWS: u64 = 10_000;

/// Rejects what the kernel cannot do; errors name the key.
pub(super) fn check(scenario: &Scenario) -> Result<(), ConfigError> {
    let refuse = |key: &str, what: &str| Err(ConfigError::new(key, &format!("{what}; use `--on sim`")));
    scenario.check_world(World::Uml)?;
    if scenario.flow_count() > MAX_FLOWS {
        return refuse("flow", &format!("`--on uml` supports at most {MAX_FLOWS} flows"));
    }
    if scenario.link.len() + scenario.traffic.len() > MAX_LINKS {
        return refuse("link", &format!("`--on uml` supports at most {MAX_LINKS} links and sources"));
    }
    card::check(scenario)?;
    for (index, flow) in scenario.flow.iter().enumerate() {
        let dctcp = matches!(flow.controller.linux_kind(), Some(Kind::Dctcp | Kind::LsDctcp(_)));
        if let Some(kind) = flow.controller.known() {
            let key = format!("flow[{index}].controller");
            if !kind.is_on_linux() {
                return refuse(&key, &format!("the kernel has no `{kind}`"));
            }
            explicit::check(&key, kind)?;
            rapid::check(index, flow)?;
            if matches!(kind, Kind::LsReno(ls) | Kind::LsDctcp(ls) if ls.linear) {
                return refuse(&key, "the kernel's LS-AIMD has no `linear`; use `--on sim`");
            }
        }
        if dctcp != (flow.ecn == EcnMode::Dctcp) {
            let key = format!("flow[{index}].ecn");
            return refuse(&key, "the kernel uses DCTCP's ECN echo only with `dctcp` and `ls-dctcp`");
        }
    }
    for (index, program) in scenario.program.iter().enumerate() {
        if matches!(&program.controller, Some(FlowController::Kernel(kernel)) if kernel.is_fractional()) {
            let key = format!("program[{index}].controller");
            return Err(ConfigError::new(&key, "only flows have windows with fractions"));
        }
    }
    Ok(())
}
