//! What the kernel still does with the controller of a killed process.

use serde::Serialize;

use crate::default::{available, current_default};
use crate::error::Error;
use crate::is_loaded;
use crate::note::Note;

/// What the kernel still does with a controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Remains {
    /// New connections of this network namespace get it, because it is the default: a default outlives the
    /// process that made it, although programs can no longer choose it by its name.
    pub default_here: bool,
    /// Programs can choose it by its name: the kernel has not unregistered it yet.
    pub available: bool,
    /// Its programs are loaded: for connections that have it, or for a network namespace
    /// where it is the default.
    pub loaded: bool,
}

impl Remains {
    /// Asks the kernel about the controller of a note.
    ///
    /// # Errors
    /// When the kernel does not report its controllers.
    pub fn of(note: &Note) -> Result<Remains, Error> {
        Ok(Remains {
            default_here: current_default()? == note.name,
            available: available()?.contains(&note.name),
            loaded: is_loaded(note.counters_map),
        })
    }
}
