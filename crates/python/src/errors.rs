//! The exceptions of the package.

use std::fmt::Display;

use pyo3::PyErr;
use pyo3::exceptions::PyValueError;

pyo3::create_exception!(
    headway,
    HeadwayError,
    PyValueError,
    "A value that Headway cannot use; the sentence says which and why."
);
pyo3::create_exception!(
    headway,
    ScenarioError,
    HeadwayError,
    "A mistake in a scenario, with its file, line and key."
);
pyo3::create_exception!(
    headway,
    RunError,
    HeadwayError,
    "A run that failed, or that a world does not support."
);

/// Returns an error that names the argument at fault.
pub(crate) fn wrong(argument: &str, reason: impl Display) -> PyErr {
    HeadwayError::new_err(format!("{argument}: {reason}"))
}
