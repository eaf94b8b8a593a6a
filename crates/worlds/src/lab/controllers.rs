//! The congestion controllers of a run in the lab: the kernel's own, and BPF programs loaded for the
//! duration of the run.

use crate::error::{Error, bail};
use anyhow::Context as _;
use headway_control::{Kind, LsParameters};
use headway_kernel::{
    Attached, Controller, DepartureTimes, EndOptions, Loaded, Loader, LsOptions, RapidOptions, available,
};
use headway_lab::Lab;
use headway_scenario::{EcnMode, FlowController, FlowSpec, Scenario, Topology};
use headway_units::Rate;

use super::changes::Step;
use super::{gaps, rapid};

/// A controller that flows or programs require.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Requirement {
    /// A controller that the kernel provides under this name.
    Own(String),
    /// One of Headway's controllers, to be loaded.
    Program(Controller, LsOptions),
    /// One whose packets carry a header for routers.
    Ends(Controller, EndOptions),
    /// TCP Rapid, and whether PAUSE frames make its gaps.
    Rapid(RapidOptions, bool),
}

/// The kernel names of a scenario's controllers; dropping this unloads the loaded ones.
#[derive(Debug, Default)]
pub(super) struct Controllers {
    flows: Vec<String>,
    programs: Vec<Option<String>>,
    /// The places in `loaded` of what changes of controllers require, by their numbers in the scenario.
    changes: Vec<Option<usize>>,
    loaded: Vec<(Requirement, Loaded)>,
}

impl Controllers {
    /// Loads the controllers that the kernel lacks.
    pub(super) fn load(scenario: &Scenario) -> Result<Controllers, Error> {
        let kernels = available().context("cannot list this kernel's congestion controllers")?;
        let mut controllers = Controllers::default();
        let topology = Topology::new(scenario);
        for (index, flow) in scenario.flow.iter().enumerate() {
            let key = format!("flow[{index}].controller");
            let name = match flow.controller.known() {
                Some(Kind::Rapid(parameters)) => {
                    let line = topology.line_of(scenario, flow);
                    let options = rapid::options(&parameters, line, scenario);
                    let required = Requirement::Rapid(options, flow.fills_line());
                    controllers.require(&key, required, &kernels)?
                }
                _ => controllers.get(&key, &flow.controller, &kernels)?,
            };
            controllers.flows.push(name);
        }
        for (index, program) in scenario.program.iter().enumerate() {
            let get =
                |controller| controllers.get(&format!("program[{index}].controller"), controller, &kernels);
            let name = program.controller.as_ref().map(get).transpose()?;
            controllers.programs.push(name);
        }
        for (index, change) in scenario.change.iter().enumerate() {
            let Some(controller) = &change.controller else {
                controllers.changes.push(None);
                continue;
            };
            let name = controllers.get(&format!("change[{index}].controller"), controller, &kernels)?;
            let place = controllers.loaded.iter().position(|(_, loaded)| loaded.name() == name);
            controllers.changes.push(place);
        }
        Ok(controllers)
    }

    /// Prepares the interfaces at both ends of the flows as their controller needs them, until the result is
    /// dropped: with the header of XCP and RCP, or single segments for TCP Rapid.
    pub(super) fn attach<'a>(
        &self,
        lab: &Lab,
        nodes: impl Iterator<Item = &'a str>,
    ) -> Result<Vec<Attached>, Error> {
        let of =
            |kind: fn(&Requirement) -> bool| self.loaded.iter().find(move |(required, _)| kind(required));
        let ends = of(|required| matches!(required, Requirement::Ends(..)));
        let found = ends.or_else(|| of(|required| matches!(required, Requirement::Rapid(..))));
        let Some((_, loaded)) = found else { return Ok(Vec::new()) };
        let mut attached = Vec::new();
        for name in nodes {
            let node = lab.nodes().find(|node| node.name == name);
            for interface in node.map_or(&[][..], |node| &node.interfaces) {
                let done = lab.inside(name, || loaded.attach(&interface.name))?;
                attached.push(done.with_context(|| format!("cannot prepare the interfaces of {name}"))?);
            }
        }
        Ok(attached)
    }

    /// Returns when the segments of TCP Rapid are due, if PAUSE frames make its gaps.
    pub(super) fn departure_times(&self) -> Result<Option<DepartureTimes>, Error> {
        let mut filled =
            self.loaded.iter().filter(|(required, _)| matches!(required, Requirement::Rapid(_, true)));
        let first = filled.next().map(|(_, loaded)| loaded.departure_times()).transpose();
        if filled.next().is_some() {
            bail!("the lab fills gaps for one kind of `rapid` at a time");
        }
        Ok(first.context("cannot fill gaps")?)
    }

    /// Returns what flows get at a change; `None` unless it is one of a controller.
    pub(super) fn of_change(&self, change: usize) -> Option<&Loaded> {
        self.changes[change].map(|place| &self.loaded[place].1)
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
        self.require(key, requirement(key, controller, kernels)?, kernels)
    }

    fn require(&mut self, key: &str, required: Requirement, kernels: &[String]) -> Result<String, Error> {
        let loader = match &required {
            Requirement::Own(name) => {
                check_available(key, name, kernels)?;
                return Ok(name.clone());
            }
            Requirement::Program(program, options) => Loader::new(*program).options(*options),
            Requirement::Ends(program, options) => Loader::new(*program).end_options(*options),
            Requirement::Rapid(options, fills) => {
                Loader::new(Controller::Rapid).rapid_options(*options).fills_gaps(*fills)
            }
        };
        if let Some((_, same)) = self.loaded.iter().find(|(other, _)| *other == required) {
            return Ok(same.name().to_owned());
        }
        // A name unique to this run, distinct from those of other runs and of `headway cc`.
        let name = format!("lab{}_{}", std::process::id(), self.loaded.len());
        let loaded =
            loader.name(&name).unrestricted(true).load().with_context(|| {
                format!("the lab does not support `{key}`; `--on uml` needs no privileges")
            })?;
        self.loaded.push((required, loaded));
        Ok(name)
    }
}

/// Rejects controllers that no kernel can run.
pub(super) fn check(index: usize, flow: &FlowSpec) -> Result<(), Error> {
    gaps::check(index, flow)?;
    if flow.is_rapid() {
        return rapid::check(index, flow);
    }
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

/// Rejects flows of XCP and RCP with different controllers at the same time: the programs at
/// interfaces serve one.
pub(super) fn check_alike(scenario: &Scenario, steps: &[Step]) -> Result<(), Error> {
    let ends = |key: &str, controller: &FlowController| {
        if matches!(controller.known(), Some(Kind::Rapid(_))) {
            return Ok(None);
        }
        let required = requirement(key, controller, &[])?;
        Ok::<_, Error>(Some(required).filter(|required| matches!(required, Requirement::Ends(..))))
    };
    let mut all = Vec::new();
    for (index, flow) in scenario.flow.iter().enumerate() {
        let key = format!("flow[{index}].controller");
        all.push((ends(&key, &flow.controller)?, key));
    }
    for (index, program) in scenario.program.iter().enumerate() {
        let key = format!("program[{index}].controller");
        let required = program.controller.as_ref().map(|controller| ends(&key, controller)).transpose()?;
        all.push((required.flatten(), key));
    }
    check_same(&all, None)?;
    for step in steps {
        let mut blamed = None;
        for (number, groups) in &step.controllers {
            let key = format!("change[{number}].controller");
            let Some(controller) = &scenario.change[*number].controller else { continue };
            let required = ends(&key, controller)?;
            groups.iter().for_each(|group| all[*group] = (required.clone(), key.clone()));
            blamed = Some(key);
        }
        check_same(&all, blamed.as_ref())?;
    }
    Ok(())
}

/// Rejects requirements of which one differs from the others: `blamed`, or else the last one.
fn check_same(all: &[(Option<Requirement>, String)], blamed: Option<&String>) -> Result<(), Error> {
    let mut required = all.iter().filter_map(|(required, key)| Some((required.as_ref()?, key)));
    let Some((first, _)) = required.next() else { return Ok(()) };
    let Some((_, last)) = required.rfind(|(other, _)| *other != first) else { return Ok(()) };
    let key = blamed.unwrap_or(last);
    bail!(
        "the lab does not support `{key}`: all flows of XCP and RCP must have the same controller at a time there"
    );
}

fn requirement(key: &str, controller: &FlowController, kernels: &[String]) -> Result<Requirement, Error> {
    let own = |name: &str| Requirement::Own(name.to_owned());
    let kind = match controller {
        FlowController::Kernel(controller) if controller.is_fractional() => {
            bail!(
                "the lab does not support `{key}`: this kernel has no windows with fractions; use `--on uml`"
            )
        }
        FlowController::Kernel(controller) => return Ok(own(controller.name())),
        FlowController::Known(kind) => *kind,
    };
    Ok(match kind {
        Kind::Dctcp if kernels.iter().any(|name| name == "dctcp") => own("dctcp"),
        Kind::Dctcp => Requirement::Program(Controller::HwDctcp, LsOptions::default()),
        Kind::LsReno(parameters) => Requirement::Program(Controller::LsReno, options(key, &parameters)?),
        Kind::LsDctcp(parameters) => Requirement::Program(Controller::LsDctcp, options(key, &parameters)?),
        Kind::Xcp(parameters) if !parameters.is_honest() || parameters.is_published() => {
            bail!("{}", unlike(key))
        }
        Kind::Rcp(parameters) if !parameters.is_honest() || parameters.is_published() => {
            bail!("{}", unlike(key))
        }
        Kind::Xcp(parameters) => {
            Requirement::Ends(Controller::Xcp, end_options(parameters.demand(), parameters.yields()))
        }
        Kind::Rcp(parameters) => Requirement::Ends(Controller::Rcp, end_options(parameters.demand(), false)),
        Kind::Rapid(_) => bail!("the lab does not support `{key}` with `{kind}`; flows can have it"),
        Kind::FixedWindow(_) | Kind::FixedRate(_) => bail!("the lab does not support `{key}` with `{kind}`"),
        kind if kind.is_on_linux() => own(&kind.to_string()),
        kind => bail!("the lab does not support `{key}`: no kernel has `{kind}`; the simulator has"),
    })
}

/// Rejects a controller that this kernel does not have, or has not loaded.
fn check_available(key: &str, name: &str, kernels: &[String]) -> Result<(), Error> {
    if !kernels.iter().any(|own| own == name) {
        bail!(
            "`{key}`: this kernel has {} but no `{name}`; load its module with `modprobe tcp_{name}`, or use --on uml",
            kernels.join(", ")
        );
    }
    Ok(())
}

/// Says that the ends of this host are no senders that lie, or that are as published.
fn unlike(key: &str) -> String {
    format!(
        "the lab does not support `{key}`: this host's senders say what is so, do as they are told, and are not the \
         `published` ones; use --on sim"
    )
}

fn end_options(demand: Option<Rate>, yields: bool) -> EndOptions {
    EndOptions { demand: demand.map(Rate::bps), yields, ..EndOptions::default() }
}

fn options(key: &str, parameters: &LsParameters) -> Result<LsOptions, Error> {
    for (is_set, name) in [(parameters.after_cut, "after-cut"), (parameters.linear, "linear")] {
        if is_set {
            bail!("the lab does not support `{key}` with `{name}`; use --on sim");
        }
    }
    Ok(LsOptions { delta: parameters.delta, scale: parameters.scale(), ..LsOptions::default() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn requires(controller: &str, kernels: &[&str]) -> Result<Requirement, String> {
        let kernels: Vec<String> = kernels.iter().map(|&name| name.to_owned()).collect();
        let controller = controller.parse().expect("a controller");
        let required =
            requirement("flow[0].controller", &controller, &kernels).map_err(|error| error.to_string())?;
        if let Requirement::Own(name) = &required {
            check_available("flow[0].controller", name, &kernels).map_err(|error| error.to_string())?;
        }
        Ok(required)
    }

    #[test]
    fn a_controller_that_the_kernel_lacks_is_refused_with_what_to_do() {
        assert_eq!(requires("vegas", &["reno", "vegas"]), Ok(Requirement::Own("vegas".to_owned())));
        for name in ["vegas", "kernel:vegas"] {
            assert_eq!(
                requires(name, &["reno", "cubic", "bbr"]).unwrap_err(),
                "`flow[0].controller`: this kernel has reno, cubic, bbr but no `vegas`; \
                 load its module with `modprobe tcp_vegas`, or use --on uml"
            );
        }
    }

    #[test]
    fn a_window_with_fractions_is_not_silently_left_out() {
        let error = requires("kernel:fraction-reno", &["reno"]).unwrap_err();
        assert!(error.contains("use `--on uml`"), "{error}");
    }

    #[test]
    fn what_only_the_simulator_has_is_refused_for_any_kernel() {
        let explicit = ["xcp:deaf", "rcp:takes=3", "xcp:published", "rcp:paced,published"];
        for name in
            ["fast", "compound", "nice", "fixed-window:10", "ls-reno:linear"].into_iter().chain(explicit)
        {
            let error = requires(name, &["reno"]).unwrap_err();
            assert!(error.starts_with("the lab does not support `flow[0].controller`"), "{error}");
        }
    }
}
