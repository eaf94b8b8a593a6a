//! Scenarios, and runs of them.

use std::path::PathBuf;

use headway_scenario::{Change, MAX_DILATION};
use headway_worlds::{Cancellation, Error, Options, World};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::errors::{RunError, ScenarioError, wrong};
use crate::interrupt::cancellable;
use crate::results::outcome;

/// Returns the text of a scenario file.
#[pyfunction]
#[pyo3(signature = (path))]
pub(crate) fn read_scenario(path: PathBuf) -> PyResult<String> {
    let text = headway_input::text(&path, headway_input::SCENARIO);
    text.map_err(|reason| ScenarioError::new_err(format!("cannot read {}: {reason}", path.display())))
}

/// A scenario that was read and checked; see `headway.Scenario`.
#[pyclass(frozen, module = "headway._headway")]
pub(crate) struct Scenario {
    scenario: headway_scenario::Scenario,
}

#[pymethods]
impl Scenario {
    /// Parses a scenario; files that it names are relative to the folder of `path`.
    #[new]
    #[pyo3(signature = (text, path, changes, dilation))]
    fn new(text: &str, path: PathBuf, changes: Vec<String>, dilation: u32) -> PyResult<Scenario> {
        let parsed: Result<Vec<Change>, String> = changes.iter().map(|change| change.parse()).collect();
        let changes = parsed.map_err(ScenarioError::new_err)?;
        if !(1..=MAX_DILATION).contains(&dilation) {
            return Err(wrong("dilation", format_args!("must be from 1 to {MAX_DILATION}")));
        }
        let mistake = |error: headway_scenario::Error| ScenarioError::new_err(error.to_string());
        let scenario = headway_scenario::Scenario::parse(text, &path, &changes).map_err(mistake)?;
        Ok(Scenario { scenario: scenario.dilated(dilation).map_err(mistake)? })
    }

    /// The name of the scenario.
    #[getter]
    fn name(&self) -> &str {
        &self.scenario.name
    }

    /// The seed in the file.
    #[getter]
    fn seed(&self) -> u64 {
        self.scenario.seed
    }

    /// The duration of a run.
    #[getter]
    fn duration_ns(&self) -> i64 {
        self.scenario.duration.ns()
    }

    /// Runs the scenario with every seed; returns a dictionary for each.
    #[pyo3(signature = (world, seeds, jobs, helper))]
    fn run<'py>(
        &self,
        py: Python<'py>,
        world: &str,
        seeds: Vec<u64>,
        jobs: u32,
        helper: Option<PathBuf>,
    ) -> PyResult<Vec<Bound<'py, PyDict>>> {
        let world: World = world.parse().map_err(|reason| wrong("on", reason))?;
        let cancellation = Cancellation::default();
        let options = Options { jobs, helper, cancellation: cancellation.clone(), ..Options::default() };
        let run = || headway_worlds::run_all(&self.scenario, world, &seeds, &options);
        let outcomes = cancellable(py, &cancellation, run)?.map_err(|error| match error {
            Error::Scenario(mistake) => ScenarioError::new_err(mistake.to_string()),
            other => RunError::new_err(other.chain()),
        })?;
        outcomes.iter().map(|one| outcome(py, one)).collect()
    }
}
