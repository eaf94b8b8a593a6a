//! Errors in a scenario, each displayed as one sentence.

use std::io;
use std::path::{Path, PathBuf};

use headway_units::{Bytes, ConfigError};

/// Reasons why a scenario cannot run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The file contains an invalid value.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// A change cannot be applied to the scenario.
    #[error("`{change}`: {reason}")]
    Change {
        /// The change as given.
        change: String,
        /// The reason.
        reason: String,
    },
    /// The scenario cannot be dilated.
    #[error("dilation: {0}")]
    Dilation(String),
    /// A file could not be accessed.
    #[error("cannot {action} {}: {reason}", path.display())]
    File {
        /// The operation that failed.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        reason: io::Error,
    },
    /// Flows arrive faster than they complete, until the network has no room for more.
    #[error(
        "{alive} flows are alive at the same time, as many as a network can have; lower the rate of `arrivals`"
    )]
    Flows {
        /// How many flows are alive.
        alive: usize,
    },
    /// The run would exceed the memory limit.
    #[error(
        "this scenario needs about {needed} of memory, the limit is {limit}; use fewer flows, smaller buffers or a higher limit"
    )]
    Memory {
        /// Estimated memory use.
        needed: Bytes,
        /// The limit.
        limit: Bytes,
    },
}

impl Error {
    pub(crate) fn file(action: &'static str, path: &Path, reason: io::Error) -> Error {
        Error::File { action, path: path.to_owned(), reason }
    }
}
