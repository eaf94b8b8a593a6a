//! Trained models.

use std::path::PathBuf;
use std::sync::Arc;

use headway_learned::{Scratch, Task};
use numpy::PyReadonlyArray2;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::columns::Columns;
use crate::errors::{HeadwayError, wrong};
use crate::interrupt::in_steps;

/// A trained model from its file; see `headway.Model`.
#[pyclass(frozen, module = "headway._headway")]
pub(crate) struct Model {
    model: Arc<headway_learned::Model>,
}

impl Model {
    /// Returns the model, if it answers one of these tasks.
    ///
    /// # Errors
    /// Says what the model is for.
    pub(crate) fn of(&self, tasks: &[Task]) -> PyResult<Arc<headway_learned::Model>> {
        let task = self.model.task();
        if tasks.contains(&task) {
            return Ok(Arc::clone(&self.model));
        }
        Err(wrong("model", format_args!("is for another task: {}", task.name())))
    }
}

#[pymethods]
impl Model {
    /// Reads a model file.
    #[new]
    #[pyo3(signature = (path))]
    fn new(path: PathBuf) -> PyResult<Model> {
        let text = headway_input::text(&path, headway_learned::Model::MOST_BYTES as u64);
        let text = text
            .map_err(|reason| HeadwayError::new_err(format!("cannot read {}: {reason}", path.display())))?;
        let model = headway_learned::Model::parse(text.as_bytes());
        let model = model.map_err(|reason| HeadwayError::new_err(format!("{}: {reason}", path.display())))?;
        Ok(Model { model: Arc::new(model) })
    }

    /// Its name.
    #[getter]
    fn name(&self) -> &str {
        self.model.name()
    }

    /// What it answers.
    #[getter]
    fn task(&self) -> &'static str {
        self.model.task().name()
    }

    /// The number of its features.
    #[getter]
    fn features(&self) -> usize {
        self.model.features()
    }

    /// Answers to rows of features.
    #[pyo3(signature = (features))]
    fn predict<'py>(
        &self,
        py: Python<'py>,
        features: PyReadonlyArray2<'py, f32>,
    ) -> PyResult<Bound<'py, PyDict>> {
        let values = features.as_slice()?;
        let (rows, width) = (features.as_array().nrows(), self.model.features());
        if features.as_array().ncols() != width {
            return Err(wrong("features", format_args!("must have {width} columns")));
        }
        let mut answers = Vec::with_capacity(rows);
        let mut scratch = Scratch::default();
        in_steps(
            py,
            rows,
            |row| (row + 1) * width,
            |step| {
                for row in step {
                    let answer = self.model.predict(&values[row * width..][..width], &mut scratch);
                    let answer =
                        answer.map_err(|reason| wrong("features", format_args!("row {row}: {reason}")))?;
                    answers.push((answer.value, answer.interval));
                }
                Ok(())
            },
        )?;
        let table = Columns::new(py);
        table.numbers("value", answers.iter().map(|answer| answer.0))?;
        table.sparse("low", answers.iter().map(|answer| answer.1.map(|(low, _)| low)))?;
        table.sparse("high", answers.iter().map(|answer| answer.1.map(|(_, high)| high)))?;
        Ok(table.into_dict())
    }
}
