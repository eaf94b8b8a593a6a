//! Sweeps: grids of runs, whose cells run here or wherever Python sends them.

use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};

use headway_build::identity_of;
use headway_units::Bytes;
use headway_worlds::sweep::{CellResult, Folder, Job, Record, Sweep as Plan};
use headway_worlds::{Cancellation, Error, Options};
use pyo3::prelude::*;

use crate::errors::{RunError, ScenarioError, wrong};
use crate::interrupt::cancellable;

/// A sweep and its folder of results; see `headway.sweep`.
#[pyclass(frozen, module = "headway._headway")]
pub(crate) struct Sweep {
    sweep: Plan,
    build: String,
    /// `None` once it is closed.
    folder: Mutex<Option<Folder>>,
    results: Mutex<Vec<Option<CellResult>>>,
}

/// Returns what tells the results of this build from those of another; `module` is the file of this module.
#[pyfunction]
#[pyo3(signature = (module))]
pub(crate) fn build(module: PathBuf) -> PyResult<String> {
    identity_of(&module).map_err(|error| RunError::new_err(format!("{error:#}")))
}

/// Runs a cell and returns its record, both as JSON; ends when the handler of a signal raises something. The
/// cell may take the memory that is available, divided by `share`.
#[pyfunction]
#[pyo3(signature = (job, memory_bytes, share, helper))]
pub(crate) fn run_job(
    py: Python<'_>,
    job: &str,
    memory_bytes: Option<u64>,
    share: u64,
    helper: Option<PathBuf>,
) -> PyResult<String> {
    let job: Job = serde_json::from_str(job).map_err(|reason| wrong("job", reason))?;
    let cancellation = Cancellation::default();
    let work = || {
        let memory = memory_bytes.map(Bytes::new).map_or_else(headway_worlds::available_memory, Ok)?;
        let memory = Some(Bytes::new(memory.get() / share.max(1)));
        let options = Options { memory, helper, cancellation: cancellation.clone(), ..Options::default() };
        Ok(serde_json::to_string(&job.run(&options)?)?)
    };
    cancellable(py, &cancellation, work)?.map_err(|error: Error| failed(&error))
}

#[pymethods]
impl Sweep {
    /// Reads the text of a sweep and opens the folder of its results.
    #[new]
    #[pyo3(signature = (text, path, output, module))]
    fn new(py: Python<'_>, text: &str, path: PathBuf, output: PathBuf, module: PathBuf) -> PyResult<Sweep> {
        let build = build(module)?;
        let open = || {
            let sweep = Plan::parse(text, &path)?;
            let folder = Folder::open(&output, build.clone(), |_| {})?;
            folder.begin(&sweep)?;
            let results = folder.records(&sweep)?;
            Ok((sweep, folder, results))
        };
        let (sweep, folder, results) = py.detach(open).map_err(|error: Error| failed(&error))?;
        Ok(Sweep { sweep, build, folder: Mutex::new(Some(folder)), results: Mutex::new(results) })
    }

    /// The build whose results these are.
    #[getter]
    fn build(&self) -> &str {
        &self.build
    }

    /// The world in which the cells run.
    #[getter]
    fn world(&self) -> &'static str {
        self.sweep.world.name()
    }

    /// The number of cells.
    fn __len__(&self) -> usize {
        self.sweep.cells().len()
    }

    /// The cells that have no result, by number.
    fn missing(&self) -> Vec<usize> {
        let results = self.results();
        (0..results.len()).filter(|number| results[*number].is_none()).collect()
    }

    /// A cell for `run_job`.
    fn job(&self, number: usize) -> PyResult<String> {
        self.check(number)?;
        serde_json::to_string(&self.sweep.job(&self.sweep.cells()[number]))
            .map_err(|error| failed(&error.into()))
    }

    /// A cell as JSON, with what came out if it has ended.
    fn cell(&self, number: usize) -> PyResult<String> {
        self.check(number)?;
        let value = self.sweep.object(number, self.results()[number].as_ref());
        serde_json::to_string(&value).map_err(|error| failed(&error.into()))
    }

    /// Takes the record of a cell that `run_job` returned, or why it failed.
    #[pyo3(signature = (number, record, error))]
    fn ended(&self, number: usize, record: Option<&str>, error: Option<String>) -> PyResult<()> {
        let result = match record {
            Some(record) => Ok(serde_json::from_str::<Record>(record).map_err(|why| wrong("record", why))?),
            None => Err(error.unwrap_or_default()),
        };
        self.check(number)?;
        let job = self.sweep.job(&self.sweep.cells()[number]);
        if let (Ok(record), Some(folder)) = (&result, &*self.folder()) {
            folder.keep(&job, record).map_err(|error| failed(&error))?;
        }
        self.results()[number] = Some(result);
        Ok(())
    }

    /// Runs what is missing on this machine; calls `on_cell` with the number of each cell that ends.
    #[pyo3(signature = (jobs, memory_bytes, helper, on_cell))]
    fn run(
        &self,
        py: Python<'_>,
        jobs: u32,
        memory_bytes: Option<u64>,
        helper: Option<PathBuf>,
        on_cell: Py<PyAny>,
    ) -> PyResult<()> {
        let cancellation = Cancellation::default();
        let memory = memory_bytes.map(Bytes::new);
        let options =
            Options { jobs, memory, helper, cancellation: cancellation.clone(), ..Options::default() };
        let raised = Mutex::new(None);
        let work = || {
            let mut results = self.results().clone();
            let ended = |number: usize, result: &CellResult| {
                self.results()[number] = Some(result.clone());
                // An exception ends the work, as Ctrl-C does.
                if let Err(error) = Python::attach(|py| on_cell.call1(py, (number,))) {
                    cancellation.cancel();
                    raised.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
                }
            };
            match &*self.folder() {
                Some(folder) => self.sweep.run(folder, &mut results, &options, &ended),
                None => Ok(()),
            }
        };
        cancellable(py, &cancellation, work)?.map_err(|error| failed(&error))?;
        raised.into_inner().unwrap_or_else(PoisonError::into_inner).map_or(Ok(()), Err)
    }

    /// Writes the table, and lets others use the folder; returns a sentence for each
    /// column that no result has.
    fn close(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        let Some(folder) = self.folder().take() else { return Ok(Vec::new()) };
        let results = self.results().clone();
        py.detach(|| folder.write(&self.sweep, &results)).map_err(|error| failed(&error))
    }
}

impl Sweep {
    fn check(&self, number: usize) -> PyResult<()> {
        let is_cell = number < self.sweep.cells().len();
        if is_cell { Ok(()) } else { Err(wrong("number", format_args!("{number} is no cell"))) }
    }

    fn results(&self) -> MutexGuard<'_, Vec<Option<CellResult>>> {
        self.results.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn folder(&self) -> MutexGuard<'_, Option<Folder>> {
        self.folder.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn failed(error: &Error) -> PyErr {
    match error {
        Error::Scenario(mistake) => ScenarioError::new_err(mistake.to_string()),
        other => RunError::new_err(other.chain()),
    }
}
