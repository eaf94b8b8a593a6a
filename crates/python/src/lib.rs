//! The native module of the Python package `headway`: estimators over numpy arrays, and runs of scenarios.
//!
//! The modules of the package in `python/headway` check and convert what users give, and call what is here.
//! Arrays are read where they are. Those that come back belong to numpy from the beginning. No function holds
//! the interpreter's lock while it works, and all of them ask now and then whether Ctrl-C was pressed.
//!
//! # Decisions
//!
//! - **The native module needs no Python to compile:** it uses the stable interface of CPython 3.11 and does
//!   not link the interpreter. So it is a member of the workspace like others, and the library that `cargo
//!   test` compiles is the one that the package's tests load.
//! - **Rust checks values, Python checks types.** What numpy must convert is converted before Rust sees it,
//!   so the native functions take only contiguous `int64`, and read it in place.
//! - **Worlds that need helper processes start a program of the family:** the interpreter cannot be one of
//!   them.

mod bass;
mod columns;
mod delayed_acks;
mod errors;
mod estimate;
mod interrupt;
mod model;
mod pairs;
mod parts;
mod passive;
mod results;
mod scenario;
mod streams;
mod sweep;

/// The native part of the package `headway`, whose modules say what the functions do.
#[pyo3::pymodule]
mod _headway {
    use pyo3::prelude::*;

    #[pymodule_export]
    use crate::bass::bass;
    #[pymodule_export]
    use crate::delayed_acks::normalise;
    #[pymodule_export]
    use crate::errors::{HeadwayError, RunError, ScenarioError};
    #[pymodule_export]
    use crate::estimate::{estimate, estimators};
    #[pymodule_export]
    use crate::model::Model;
    #[pymodule_export]
    use crate::pairs::{hire, ppdd};
    #[pymodule_export]
    use crate::passive::sabes;
    #[pymodule_export]
    use crate::scenario::{Scenario, read_scenario};
    #[pymodule_export]
    use crate::streams::read_streams;
    #[pymodule_export]
    use crate::sweep::{Sweep, build, run_job};

    /// Adds the version, which is that of the package too.
    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}
