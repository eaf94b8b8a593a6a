//! Runs with the TCP stack of Linux in virtual time.

mod results;

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::{Duration as Span, Instant as Clock};

use anyhow::Context as _;
use headway_record::Histogram;
use headway_record::Results;
use headway_scenario::{Scenario, Topology};
use headway_uml::machine::{Machine, Report};
use headway_uml::modules::OWN_MODULES;
use headway_uml::network::{self, Wishes};
use headway_uml::place;
use headway_uml::plan::{Plan, PlannedProgram};

use super::{Outcome, RunFiles, side_by_side};
use crate::progress::Progress;
use crate::uml;

/// Steps of the bar for every run.
const STEPS: u64 = 1000;
/// How long virtual time may stand still, in real time.
const PATIENCE: Span = Span::from_secs(120);

/// Does what `headway run --on uml` wants done inside the kernel that it has started.
#[derive(clap::Args, Debug)]
pub(crate) struct GuestArgs {}

pub(crate) fn guest(_args: &GuestArgs) -> anyhow::Result<()> {
    headway_uml::guest::main();
    anyhow::bail!("this command is only for kernels that `headway run --on uml` starts")
}

/// What a run in this world wants besides the scenario.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    /// Folders with kernel modules of the user, to be compiled and loaded.
    pub(crate) modules: Vec<PathBuf>,
    /// With the kernel's own checks.
    pub(crate) debug: bool,
    /// Offloads and captures.
    pub(crate) wishes: Wishes,
    /// How long virtual time may stand still, in real time.
    pub(crate) patience: Span,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings { modules: Vec::new(), debug: false, wishes: Wishes::default(), patience: PATIENCE }
    }
}

/// A scenario that the kernel can do, with everything that is needed for it.
pub(crate) struct Prepared<'a> {
    scenario: &'a Scenario,
    topology: Topology,
    settings: &'a Settings,
    kernel: PathBuf,
    modules: Vec<PathBuf>,
    program: PathBuf,
}

impl<'a> Prepared<'a> {
    /// Checks the scenario, and builds the kernel and its modules when that was not done before.
    pub(crate) fn new(
        scenario: &'a Scenario,
        settings: &'a Settings,
        interrupted: &AtomicBool,
    ) -> anyhow::Result<Prepared<'a>> {
        // Mistakes show before a kernel is built for nothing.
        network::plan(scenario, scenario.seed, Path::new(""), &settings.wishes)?;
        let kernel = uml::kernel(settings.debug, interrupted)?;
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
            settings,
            kernel: kernel.binary(),
            modules,
            program: std::env::current_exe().context("cannot find this program's own file")?,
        })
    }

    /// Runs with every seed, in their order and several at a time; those not begun before an interruption are missing.
    pub(crate) fn run(
        &self,
        seeds: &[u64],
        jobs: u32,
        interrupted: &AtomicBool,
    ) -> anyhow::Result<Vec<Outcome>> {
        let progress = Progress::new(STEPS * seeds.len() as u64);
        side_by_side(seeds, jobs, interrupted, |seed| {
            progress.say(format!("{} in the kernel, seed {seed}", self.scenario.name));
            self.one(seed, &progress, interrupted)
        })
    }

    fn one(&self, seed: u64, progress: &Progress, interrupted: &AtomicBool) -> anyhow::Result<Outcome> {
        let begin = Clock::now();
        let mut shown = 0;
        let guest = self.start(seed, interrupted, |part| {
            let steps = (part.clamp(0.0, 1.0) * STEPS as f64) as u64;
            progress.advance(steps - shown);
            shown = steps;
        })?;
        let results = self.recorded(seed, &guest.report).results();
        let names = written(&guest.plan, guest.folder.path());
        let files = (!names.is_empty()).then_some(RunFiles { folder: guest.folder, names });
        Ok(Outcome { results, events: 0, wall: begin.elapsed(), trouble: None, files })
    }

    /// Runs with one seed, and also returns the waiting times at a direction of a link; partial after an interruption.
    pub(crate) fn results_and_waits(
        &self,
        seed: u64,
        direction: usize,
        interrupted: &AtomicBool,
    ) -> anyhow::Result<(Results, Histogram)> {
        let guest = self.start(seed, interrupted, |_| ())?;
        let run = self.recorded(seed, &guest.report);
        Ok((run.results(), run.waits(direction)))
    }

    fn recorded<'b>(&'b self, seed: u64, report: &'b Report) -> results::Run<'b> {
        results::Run { scenario: self.scenario, topology: &self.topology, seed, report }
    }

    /// A guest from its start to its end; `tell` hears which part of the time has passed.
    fn start(&self, seed: u64, interrupted: &AtomicBool, mut tell: impl FnMut(f64)) -> anyhow::Result<Guest> {
        let folder = place::folder(&uml::cache()?).context("cannot write into the cache")?;
        let plan = network::plan(self.scenario, seed, folder.path(), &self.settings.wishes)?;
        let plan = Plan { modules: self.modules.clone(), ..plan };
        let machine = Machine {
            kernel: self.kernel.clone(),
            program: self.program.clone(),
            arguments: vec!["guest".to_owned()],
            memory: network::memory(self.scenario),
            seed,
            patience: self.settings.patience,
            checks: self.settings.debug,
        };
        let report =
            machine.run(&plan, interrupted, |at| tell(at.secs_f64() / self.scenario.duration.secs_f64()))?;
        Ok(Guest { folder, plan, report })
    }
}

/// A guest that has ended or was interrupted, and its folder.
struct Guest {
    folder: place::Place,
    plan: Plan,
    report: Report,
}

/// Captures and outputs of programs; a run that was interrupted early may not have begun them.
fn written(plan: &Plan, folder: &Path) -> Vec<String> {
    let captures = plan.directions.iter().filter_map(|direction| direction.capture.clone());
    let outputs = (0..plan.programs.len()).flat_map(PlannedProgram::outputs);
    captures.chain(outputs).filter(|name| folder.join(name).exists()).collect()
}
