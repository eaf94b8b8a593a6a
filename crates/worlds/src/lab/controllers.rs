//! The congestion controllers of a run in the lab: the kernel's own, and BPF programs loaded for the duration of
//! the run.

use crate::error::{Context as _, Error, bail};
use headway_core::control::{Kind, LsParameters};
use headway_kernel::{Controller, Loaded, Loader, LsOptions, available};
use headway_scenario::{EcnMode, FlowController, FlowSpec, Scenario};

/// A controller that flows or programs require.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Requirement {
    /// A controller that the kernel provides under this name.
    Own(String),
    /// One of Headway's controllers, to be loaded.
    Program(Controller, LsOptions),
}

/// The kernel names of a scenario's controllers; dropping this unloads the loaded ones.
#[derive(Debug, Default)]
pub(super) struct Controllers {
    flows: Vec<String>,
    programs: Vec<Option<String>>,
    loaded: Vec<(Requirement, Loaded)>,
}

impl Controllers {
    /// Loads the controllers that the kernel lacks.
    pub(super) fn load(scenario: &Scenario) -> Result<Controllers, Error> {
        let kernels = available().context("cannot list this kernel's congestion controllers")?;
        let mut controllers = Controllers::default();
        for (index, flow) in scenario.flow.iter().enumerate() {
            let name = controllers.get(&format!("flow[{index}].controller"), &flow.controller, &kernels)?;
            controllers.flows.push(name);
        }
        for (index, program) in scenario.program.iter().enumerate() {
            let get =
                |controller| controllers.get(&format!("program[{index}].controller"), controller, &kernels);
            let name = program.controller.as_ref().map(get).transpose()?;
            controllers.programs.push(name);
        }
        Ok(controllers)
    }

    /// Returns the controller name for a group of flows.
    pub(super) fn of_flow(&self, group: usize) -> &str {
        &self.flows[group]
    }

    /// Returns the controller name for a program's node.
    pub(super) fn of_program(&self, program: usize) -> Option<&str> {
        self.programs[program].as_deref()
    }

    fn get(&mut self, key: &str, controller: &FlowController, kernels: &[String]) -> Result<String, Error> {
        let required = requirement(key, controller, kernels)?;
        let (program, options) = match &required {
            Requirement::Own(name) => return Ok(name.clone()),
            Requirement::Program(program, options) => (*program, *options),
        };
        if let Some((_, same)) = self.loaded.iter().find(|(other, _)| *other == required) {
            return Ok(same.name().to_owned());
        }
        // A name unique to this run, distinct from those of other runs and of `headway cc`.
        let name = format!("lab{}_{}", std::process::id(), self.loaded.len());
        let loader = Loader::new(program).name(&name).options(options).unrestricted(true);
        let loaded = loader
            .load()
            .with_context(|| format!("the lab does not support `{key}`; `--on uml` needs no privileges"))?;
        self.loaded.push((required, loaded));
        Ok(name)
    }
}

/// Rejects controllers that no kernel can run.
pub(super) fn check(index: usize, flow: &FlowSpec) -> Result<(), Error> {
    // The controllers that this kernel has are checked when the run begins.
    requirement(&format!("flow[{index}].controller"), &flow.controller, &[])?;
    let Some(kind) = flow.controller.known() else { return Ok(()) };
    let of_dctcp = matches!(kind, Kind::Dctcp | Kind::LsDctcp(_));
    if of_dctcp != (flow.ecn == EcnMode::Dctcp) {
        let rule = if of_dctcp { "needs `ecn = \"dctcp\"`" } else { "does not know the echo of DCTCP" };
        bail!("`flow[{index}].ecn`: the kernel's {kind} {rule}");
    }
    Ok(())
}

fn requirement(key: &str, controller: &FlowController, kernels: &[String]) -> Result<Requirement, Error> {
    let own = |name: &str| Requirement::Own(name.to_owned());
    let kind = match controller {
        FlowController::Kernel(controller) => return Ok(own(controller.name())),
        FlowController::Known(kind) => *kind,
    };
    Ok(match kind {
        Kind::Reno => own("reno"),
        Kind::Cubic => own("cubic"),
        Kind::Bbr => own("bbr"),
        Kind::Dctcp if kernels.iter().any(|name| name == "dctcp") => own("dctcp"),
        Kind::Dctcp => Requirement::Program(Controller::HwDctcp, LsOptions::default()),
        Kind::LsReno(parameters) => Requirement::Program(Controller::LsReno, options(key, &parameters)?),
        Kind::LsDctcp(parameters) => Requirement::Program(Controller::LsDctcp, options(key, &parameters)?),
        _ => bail!("the lab does not support `{key}`: no kernel has `{kind}`; the simulator has"),
    })
}

fn options(key: &str, parameters: &LsParameters) -> Result<LsOptions, Error> {
    if parameters.after_cut {
        bail!("the lab does not support `{key}` with `after-cut`; use --on sim");
    }
    Ok(LsOptions { delta: parameters.delta, scale: parameters.scale(), ..LsOptions::default() })
}
