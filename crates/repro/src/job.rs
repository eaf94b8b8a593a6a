//! What a study works with: its experiment, the parameters of the reproduction, and the world.

use std::path::Path;

use headway_record::{Results, Summary};
use headway_scenario::{FlowController, Scenario};
use headway_units::Duration;
use headway_worlds::{Key, Options, World};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::context::{Context, Error, Size};
use crate::experiment::{Count, Experiment};

/// Attempts of a run in real time before the machine counts as too busy.
const TRIES: usize = 3;

/// What can run in a world.
pub(crate) trait Described {
    /// Returns what tells it from others.
    fn key(&self) -> String;

    /// Returns the scenario.
    ///
    /// # Errors
    /// Names the offending key.
    fn scenario(&self) -> Result<Scenario, headway_scenario::Error>;
}

/// The text of a file, some of which an experiment's file has.
impl Described for String {
    fn key(&self) -> String {
        self.clone()
    }

    fn scenario(&self) -> Result<Scenario, headway_scenario::Error> {
        Scenario::parse(self, Path::new("experiment.toml"), &[])
    }
}

impl Described for Scenario {
    fn key(&self) -> String {
        format!("{self:?}")
    }

    fn scenario(&self) -> Result<Scenario, headway_scenario::Error> {
        Ok(self.clone().checked()?)
    }
}

/// An experiment that is carried out in a world.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Job<'a> {
    pub(crate) experiment: &'a Experiment,
    pub(crate) context: &'a Context<'a>,
    pub(crate) world: World,
    /// Whether studies run as scenarios, which exist in every world.
    pub(crate) as_scenarios: bool,
    pub(crate) options: &'a Options<'a>,
}

impl Job<'_> {
    /// Returns a count for the size of the reproduction.
    pub(crate) const fn of(&self, count: Count) -> usize {
        self.context.size.of(count)
    }

    /// Whether the reproduction has the full size.
    pub(crate) fn is_full(&self) -> bool {
        self.context.size == Size::Full
    }

    /// Returns the count for the simulator's own testbed, or the one for scenarios if there is one.
    pub(crate) fn choose(&self, here: Count, in_scenarios: Option<Count>) -> Count {
        in_scenarios.filter(|_| self.as_scenarios).unwrap_or(here)
    }

    /// Returns a count of milliseconds as a time.
    pub(crate) fn time(&self, milliseconds: Count) -> Duration {
        Duration::from_ms(self.of(milliseconds) as i64)
    }

    /// Derives the seed of part or run `index` of the experiment.
    pub(crate) fn seed(&self, index: usize) -> u64 {
        self.context.seed_of(&self.experiment.id, index)
    }

    /// Fails once the work is cancelled.
    pub(crate) fn check(&self) -> Result<(), Error> {
        self.context.check()
    }

    /// Calls `work` for every part, on all threads; the results are in the order of the parts.
    pub(crate) fn map<P: Sync, R: Send>(
        &self,
        parts: &[P],
        work: impl Fn(usize, &P) -> Result<R, Error> + Sync,
    ) -> Result<Vec<R>, Error> {
        self.context.map(parts, work)
    }

    /// Calls `work` with every cell and the numbers of its runs, on all threads; returns the results of each
    /// cell in the order of the runs.
    pub(crate) fn each_run<C: Sync, R: Send>(
        &self,
        cells: &[C],
        runs: usize,
        work: impl Fn(&C, usize) -> Result<R, Error> + Sync,
    ) -> Result<Vec<Vec<R>>, Error> {
        let parts: Vec<(&C, usize)> =
            cells.iter().flat_map(|cell| (0..runs).map(move |run| (cell, run))).collect();
        let mut results = self.map(&parts, |_, (cell, run)| work(cell, *run))?.into_iter();
        Ok(cells.iter().map(|_| results.by_ref().take(runs).collect()).collect())
    }

    /// Runs a scenario with the seed of `run` and evaluates the results, or returns the kept evaluation of an
    /// earlier run. `cell` names what runs.
    pub(crate) fn run_scenario<R: Serialize + DeserializeOwned>(
        &self,
        scenario: &impl Described,
        cell: &str,
        run: usize,
        evaluate: impl Fn(&Results) -> R,
    ) -> Result<R, Error> {
        let name = format!("{}/{}/{}", self.experiment.id, cell.replace('/', "-"), run + 1);
        let file = format!("{}/{name}.json", self.world);
        let seed = self.seed(run);
        let key =
            Key { world: self.world.name().to_owned(), scenario: scenario.key(), set: Vec::new(), seed };
        if let Some(result) = self.context.kept.and_then(|kept| kept.get(&file, &key)) {
            return Ok(result);
        }
        let result = evaluate(&self.results(scenario, &name, seed)?);
        if let Some(kept) = self.context.kept {
            kept.put(&file, &key, &result)?;
        }
        Ok(result)
    }

    /// Runs a scenario to its end and returns the results; runs that the machine disturbed are repeated.
    /// `name` describes the run.
    pub(crate) fn results(&self, scenario: &impl Described, name: &str, seed: u64) -> Result<Results, Error> {
        let failed = |source| Error::World { run: name.to_owned(), source };
        let mut scenario = scenario.scenario().map_err(|error| failed(error.into()))?;
        scenario.name = name.replace('/', " ");
        scenario.seed = seed;
        for _ in 0..TRIES {
            match headway_worlds::run(&scenario, self.world, self.options) {
                Ok(Results { summary: Summary { partial: true, .. }, .. }) => return Err(Error::Interrupted),
                Ok(results) if results.summary.valid => return Ok(results),
                Ok(_) => {}
                // A failure caused by an interruption is not an error of the run.
                Err(_) if self.options.cancellation.is_cancelled() => return Err(Error::Interrupted),
                Err(source) => return Err(failed(source)),
            }
        }
        Err(Error::Disturbed { run: name.to_owned() })
    }

    /// Whether a controller exists in this world.
    pub(crate) fn has(&self, controller: &FlowController) -> bool {
        match controller.known() {
            Some(kind) => self.world == World::Sim || kind.is_on_linux(),
            None => self.world != World::Sim,
        }
    }

    /// Returns the remark about controllers that are not in this world.
    pub(crate) fn not_run(&self, controllers: &[&str]) -> Option<String> {
        let names = || format!("Not in {}, so not run: {}.", self.world, controllers.join(", "));
        (!controllers.is_empty()).then(names)
    }
}
