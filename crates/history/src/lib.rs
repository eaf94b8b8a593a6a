//! What an edge router knew and did, kept in a file of bounded size: a row a second for a day, a row a minute
//! for a year, and decisions with their reasons.
//!
//! A [`Store`] is the file, opened by the router before it gives its privileges up. A [`Writer`] is a thread
//! that fills it: it never makes the router wait, and stops where the disk is full, until there is room
//! again. A [`Reader`] may read at the same time.
//!
//! How long rows stay is a number of rows and no age, because clocks of routers are wrong until somebody
//! tells them the time.

mod file;
mod point;
mod reader;
mod store;
mod writer;

use std::path::{Path, PathBuf};

pub use point::Point;
pub use reader::{Range, Reader, Step};
pub use store::{LEAST_SIZE, SIZE, Store};
pub use writer::Writer;

/// Why a history cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file cannot be opened, or is no history.
    #[error("cannot use the history {}: {reason}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// The file belongs to another version of this program.
    #[error("{} is a history of version {found}, and this program has version {known}; use another file", path.display())]
    Version {
        /// The file.
        path: PathBuf,
        /// The version in it.
        found: i64,
        /// That of this program.
        known: i64,
    },
    /// The file was deleted or replaced while it was in use.
    #[error("its file was deleted")]
    Deleted,
    /// A statement failed.
    #[error("the history cannot be read or written: {0}")]
    Statement(#[from] rusqlite::Error),
    /// No thread could be started.
    #[error("cannot start a thread for the history: {0}")]
    Thread(std::io::Error),
}

impl Error {
    fn unusable(path: &Path, reason: String) -> Error {
        Error::File { path: path.to_owned(), reason }
    }
}
