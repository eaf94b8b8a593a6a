//! What can be wrong with a scenario, each as one sentence.

use std::io;
use std::path::{Path, PathBuf};

use headway_core::{Bytes, Mistake};

/// Why a scenario cannot run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The file says something that cannot be.
    #[error(transparent)]
    Mistake(#[from] Mistake),
    /// A change of the scenario cannot be made.
    #[error("`{change}`: {reason}")]
    Change {
        /// The change as it was given.
        change: String,
        /// What is wrong with it.
        reason: String,
    },
    /// It cannot be made slower.
    #[error("dilation: {0}")]
    Dilation(String),
    /// A file resisted.
    #[error("cannot {action} {}: {reason}", path.display())]
    File {
        /// What was tried.
        action: &'static str,
        /// On which file.
        path: PathBuf,
        /// What the system said.
        reason: io::Error,
    },
    /// The run would need more memory than there is.
    #[error(
        "this scenario needs about {needed} of memory and {limit} may be used: fewer flows, smaller buffers or a higher limit would do"
    )]
    Memory {
        /// Estimated need.
        needed: Bytes,
        /// What may be used.
        limit: Bytes,
    },
}

impl Error {
    pub(crate) fn file(action: &'static str, path: &Path, reason: io::Error) -> Error {
        Error::File { action, path: path.to_owned(), reason }
    }
}
