//! The worlds in which a scenario can run.

use std::fmt;
use std::str::FromStr;

use crate::error::Error;

/// A world in which a scenario can run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum World {
    /// The simulator.
    Sim,
    /// The TCP stack of Linux in virtual time.
    Uml,
    /// This host's TCP over an emulated path, in real time.
    Lab,
}

impl World {
    /// All worlds.
    pub const ALL: [World; 3] = [World::Sim, World::Uml, World::Lab];

    /// Returns the name on the command line and in results.
    pub const fn name(self) -> &'static str {
        match self {
            World::Sim => "sim",
            World::Uml => "uml",
            World::Lab => "lab",
        }
    }
}

impl fmt::Display for World {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for World {
    type Err = Error;

    fn from_str(text: &str) -> Result<World, Error> {
        let world = World::ALL.into_iter().find(|world| world.name().eq_ignore_ascii_case(text.trim()));
        world.ok_or_else(|| Error::Unsupported(format!("`{text}` is not `sim`, `uml` or `lab`")))
    }
}
