//! Which controller of the kernel a flow of the scenario has.

use std::path::{Path, PathBuf};

use headway_control::{Kind, LsParameters};
use headway_scenario::{FlowController, FlowSpec, Scenario};
use headway_units::{Rate, WIRE_OVERHEAD};

use super::{explicit, rapid};

/// The parameter that turns HyStart off, at once and for all connections.
const HYSTART: &str = "/sys/module/tcp_cubic/parameters/hystart";
/// The parameter by which the next connection that gets a controller has such a window.
const NEXT_FRACTION: &str = "/sys/module/headway_fraction/parameters/on";

/// Returns the kernel's name of a flow's controller, and the module parameters to write before a connection
/// uses it. `line` is the rate of the sender's own link, if it is known.
pub(super) fn controller(
    spec: &FlowSpec,
    scenario: &Scenario,
    line: Option<Rate>,
) -> (String, Vec<(PathBuf, String)>) {
    let set = |window: u32, rate: u64| {
        let folder = Path::new("/sys/module/headway_fixed/parameters");
        vec![(folder.join("window"), window.to_string()), (folder.join("rate"), rate.to_string())]
    };
    match &spec.controller {
        FlowController::Known(Kind::FixedWindow(fixed)) => {
            ("headway_fixed".to_owned(), set(fixed.segments(), 0))
        }
        FlowController::Known(Kind::FixedRate(fixed)) => {
            // The kernel's pacing rate counts payload bytes.
            let payload = f64::from(scenario.mss()) / f64::from(scenario.mtu + WIRE_OVERHEAD.get() as u32);
            ("headway_fixed".to_owned(), set(0, (fixed.rate().bps_f64() / 8.0 * payload) as u64))
        }
        FlowController::Known(Kind::LsReno(parameters)) => ("ls_reno".to_owned(), ls_parameters(parameters)),
        FlowController::Known(Kind::LsDctcp(parameters)) => {
            ("ls_dctcp".to_owned(), ls_parameters(parameters))
        }
        FlowController::Known(Kind::Xcp(parameters)) => explicit::xcp(parameters),
        FlowController::Known(Kind::Rcp(parameters)) => explicit::rcp(parameters),
        FlowController::Known(Kind::Rapid(parameters)) => rapid::controller(parameters, spec, scenario, line),
        FlowController::Known(Kind::Cubic) if !spec.hystart => {
            ("cubic".to_owned(), vec![(PathBuf::from(HYSTART), "0".to_owned())])
        }
        FlowController::Known(kind) => (kind.to_string(), Vec::new()),
        FlowController::Kernel(controller) => {
            let next = (PathBuf::from(NEXT_FRACTION), "2".to_owned());
            (controller.name().to_owned(), controller.is_fractional().then_some(next).into_iter().collect())
        }
    }
}

/// Returns the parameters of the LS-AIMD module.
fn ls_parameters(parameters: &LsParameters) -> Vec<(PathBuf, String)> {
    let folder = Path::new("/sys/module/headway_ls/parameters");
    let set = |name: &str, value: u32| (folder.join(name), value.to_string());
    vec![
        set("scale", parameters.scale()),
        set("delta", parameters.delta),
        set("after_cut", parameters.after_cut.into()),
    ]
}
