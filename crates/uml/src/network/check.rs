//! Rejects scenarios that the kernel cannot run.

use headway_control::Kind;
use headway_scenario::{EcnMode, Scenario};
use headway_units::ConfigError;

use super::explicit;

/// Most links and sources: the number of available addresses.
const MAX_LINKS: usize = 1 << 14;
/// Most flows; each needs two sockets.
const MAX_FLOWS: u64 = 10_000;

/// Rejects what the kernel cannot do; errors name the key.
pub(super) fn check(scenario: &Scenario) -> Result<(), ConfigError> {
    let refuse = |key: &str, what: &str| Err(ConfigError::new(key, &format!("{what}; use `--on sim`")));
    if !scenario.change.is_empty() {
        return refuse("change[0]", "`--on uml` does not support changes during a run; use `--on sim`");
    }
    if !scenario.measure.is_empty() {
        return refuse("measure[0]", "`--on uml` does not support measurements of available bandwidth");
    }
    if let Some(host) = scenario.host.keys().next() {
        return refuse(&format!("host.{host}"), "`--on uml` does not support the NICs of hosts");
    }
    if scenario.flow_count() > MAX_FLOWS {
        return refuse("flow", &format!("`--on uml` supports at most {MAX_FLOWS} flows"));
    }
    if scenario.link.len() + scenario.traffic.len() > MAX_LINKS {
        return refuse("link", &format!("`--on uml` supports at most {MAX_LINKS} links and sources"));
    }
    for (index, flow) in scenario.flow.iter().enumerate() {
        let dctcp = matches!(flow.controller.linux_kind(), Some(Kind::Dctcp | Kind::LsDctcp(_)));
        if let Some(kind) = flow.controller.known() {
            let key = format!("flow[{index}].controller");
            if !kind.is_on_linux() {
                return refuse(&key, &format!("the kernel has no `{kind}`"));
            }
            explicit::check(&key, kind)?;
            if matches!(kind, Kind::LsReno(ls) | Kind::LsDctcp(ls) if ls.linear) {
                return refuse(&key, "the kernel's LS-AIMD has no `linear`; use `--on sim`");
            }
        }
        let rules = [
            ("ecn", flow.ecn != EcnMode::Ect1, "the kernel sends ECT(0)"),
            (
                "ecn",
                dctcp == (flow.ecn == EcnMode::Dctcp),
                "the kernel uses DCTCP's ECN echo only with `dctcp` and `ls-dctcp`",
            ),
            ("mtu", flow.mtu.is_none(), "the kernel's world has one MTU for all flows"),
            ("chunk", flow.chunk.is_none(), "the kernel's world has no applications that pause"),
            ("arrivals", flow.arrivals.is_none(), "the kernel's world has no flows that come and go"),
            ("ack-every", flow.ack_every <= 2, "the kernel acknowledges every second segment, or every one"),
        ];
        if let Some((key, _, what)) = rules.iter().find(|(_, right, _)| !right) {
            return refuse(&format!("flow[{index}].{key}"), what);
        }
    }
    Ok(())
}
