//! Runs with the TCP stack of Linux in virtual time.

mod inside;
mod results;

use std::path::{Path, PathBuf};
use std::time::Instant as Clock;

use crate::error::Error;
use anyhow::Context as _;
use headway_scenario::{Scenario, Topology};
use headway_uml::kernel::{self, Kernel, Options as BuildOptions};
use headway_uml::machine::{Machine, Report};
use headway_uml::modules::OWN_MODULES;
use headway_uml::plan::{Plan, PlannedProgram};
use headway_uml::{network, run_dir};

use crate::middlebox::COMMAND as MIDDLEBOX;
use crate::options::{Event, Options};
use crate::outcome::{Outcome, RunFiles};
use crate::pool::each_seed;

/// The argument that makes a helper run as the program inside a kernel.
pub(crate) const GUEST: &str = "guest";

/// Returns the folder for built kernels and temporary files of runs.
///
/// # Errors
/// When there is no home folder.
pub fn cache() -> Result<PathBuf, Error> {
    Ok(kernel::default_cache()
        .context("there is no home folder to keep kernels in; set HEADWAY_CACHE to a folder")?)
}

/// Returns the kernel, building it if necessary.
///
/// # Errors
/// When it cannot be built, or the build was cancelled.
pub fn kernel(debug: bool, options: &Options<'_>) -> Result<Kernel, Error> {
    let build = BuildOptions { debug, cache: cache()? };
    if let Some(kernel) = Kernel::cached(&build) {
        return Ok(kernel);
    }
    let mut report = |now| options.report_event(Event::Building(now));
    Ok(Kernel::build(&build, &mut report, options.cancellation.flag())?)
}

/// A scenario that the kernel supports, with everything needed to run it.
pub(crate) struct Prepared<'a> {
    scenario: &'a Scenario,
    topology: Topology,
    options: &'a Options<'a>,
    kernel: PathBuf,
    modules: Vec<PathBuf>,
    program: PathBuf,
}

impl<'a> Prepared<'a> {
    /// Checks the scenario, and builds the kernel and its modules if necessary.
    pub(crate) fn new(scenario: &'a Scenario, options: &'a Options<'a>) -> Result<Prepared<'a>, Error> {
        let settings = &options.uml;
        // Checks the scenario first, before a long build.
        network::plan(scenario, scenario.seed, Path::new(""), &settings.run)?;
        let kernel = kernel(settings.debug, options)?;
        let own = OWN_MODULES.iter().map(|module| {
            let sources = module.sources();
            let sources: Vec<_> = sources.iter().map(|(file, text)| (file.as_str(), *text)).collect();
            kernel.module(module.name, &sources)
        });
        let users = settings.modules.iter().map(|folder| kernel.module_from(folder));
        let modules = own.chain(users).collect::<Result<_, _>>()?;
        Ok(Prepared {
            scenario,
            topology: Topology::new(scenario),
            options,
            kernel: kernel.binary(),
            modules,
            program: options.program()?,
        })
    }

    /// Runs with every seed, several at a time, with outcomes in seed order; seeds not started before a
    /// cancellation have none.
    pub(crate) fn run(&self, seeds: &[u64]) -> Result<Vec<Outcome>, Error> {
        each_seed(seeds, self.options.jobs, self.options, |seed| {
            self.options
                .report_event(Event::Started(&format!("{} in the kernel, seed {seed}", self.scenario.name)));
            self.run_once(seed)
        })
    }

    fn run_once(&self, seed: u64) -> Result<Outcome, Error> {
        let begin = Clock::now();
        let mut shown = 0;
        let guest = self.start(seed, |part| self.options.report_part(&mut shown, part))?;
        let results = self.recorded(seed, &guest.report).results();
        let names = written(&guest.plan, guest.folder.path());
        let files = (!names.is_empty()).then_some(RunFiles { folder: guest.folder, names });
        Ok(Outcome { results, events: 0, wall: begin.elapsed(), invalid_reason: None, files })
    }

    fn recorded<'b>(&'b self, seed: u64, report: &'b Report) -> results::Run<'b> {
        results::Run { scenario: self.scenario, topology: &self.topology, seed, report }
    }

    /// Runs a guest from start to end; `on_progress` receives the fraction of time that has passed.
    fn start(&self, seed: u64, mut on_progress: impl FnMut(f64)) -> Result<Guest, Error> {
        let folder = run_dir::folder(&cache()?).context("cannot write into the cache")?;
        let plan = network::plan(self.scenario, seed, folder.path(), &self.options.uml.run)?;
        let middlebox_arguments = vec![MIDDLEBOX.to_owned()];
        let plan = Plan { modules: self.modules.clone(), middlebox_arguments, ..plan };
        let machine = Machine {
            kernel: self.kernel.clone(),
            program: self.program.clone(),
            arguments: vec![GUEST.to_owned()],
            memory: network::memory(self.scenario),
            seed,
            stall_timeout: self.options.uml.stall_timeout,
            checks: self.options.uml.debug,
        };
        let report = machine.run(&plan, self.options.cancellation.flag(), |at| {
            on_progress(at.secs_f64() / self.scenario.duration.secs_f64())
        })?;
        Ok(Guest { folder, plan, report })
    }
}

/// A guest that has finished or was interrupted, and its folder.
struct Guest {
    folder: run_dir::RunDir,
    plan: Plan,
    report: Report,
}

/// Returns the captures, program outputs and counts of lines that exist; a run interrupted early may not have
/// created all of them.
fn written(plan: &Plan, folder: &Path) -> Vec<String> {
    let captures = plan.directions.iter().filter_map(|direction| direction.capture.clone());
    let outputs = (0..plan.programs.len()).flat_map(PlannedProgram::outputs);
    let lines = Some(Plan::LINES.to_owned());
    captures.chain(outputs).chain(lines).filter(|name| folder.join(name).exists()).collect()
}
