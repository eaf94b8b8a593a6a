//! Tables as dictionaries of columns.

use std::collections::HashMap;

use numpy::{Element, IntoPyArray as _};
use pyo3::prelude::*;
use pyo3::types::PyDict;

/// A table that is being made.
pub(crate) struct Columns<'py>(Bound<'py, PyDict>);

impl<'py> Columns<'py> {
    /// Returns a table without columns.
    pub(crate) fn new(py: Python<'py>) -> Columns<'py> {
        Columns(PyDict::new(py))
    }

    /// Adds a column of numbers.
    pub(crate) fn numbers<T: Element>(&self, name: &str, values: impl Iterator<Item = T>) -> PyResult<()> {
        self.0.set_item(name, values.collect::<Vec<T>>().into_pyarray(self.0.py()))
    }

    /// Adds a column of numbers some of which may be missing: NaN.
    pub(crate) fn sparse(&self, name: &str, values: impl Iterator<Item = Option<f64>>) -> PyResult<()> {
        self.numbers(name, values.map(|value| value.unwrap_or(f64::NAN)))
    }

    /// Adds a column of texts: numbers, and the list that they count in.
    pub(crate) fn texts<'a>(&self, name: &str, values: impl Iterator<Item = &'a str>) -> PyResult<()> {
        let mut numbers: HashMap<&str, u32> = HashMap::new();
        let mut list = Vec::new();
        let codes = values.map(|text| {
            *numbers.entry(text).or_insert_with(|| {
                list.push(text);
                list.len() as u32 - 1
            })
        });
        let codes: Vec<u32> = codes.collect();
        self.0.set_item(name, (codes.into_pyarray(self.0.py()), list))
    }

    /// Returns the table.
    pub(crate) fn into_dict(self) -> Bound<'py, PyDict> {
        self.0
    }
}
