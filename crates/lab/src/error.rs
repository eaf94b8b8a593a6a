//! What can go wrong, each as one sentence that includes its reason.

use std::io;
use std::path::{Path, PathBuf};

/// Why a lab could not do what was asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The scenario is not valid.
    #[error(transparent)]
    Spec(#[from] headway_core::Mistake),
    /// A file or folder resisted.
    #[error("cannot {action} {}: {reason}", path.display())]
    File {
        /// What was tried.
        action: &'static str,
        /// On which file.
        path: PathBuf,
        /// What the system said.
        reason: io::Error,
    },
    /// A line of a truth file is not one of ours.
    #[error("{}, line {line}: not a line of a truth file", path.display())]
    Truth {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
    },
    /// A name that cannot be used for a lab.
    #[error("`{0}` cannot name a lab: use 1 to 32 letters, digits, `-`, `_` or `.`, not starting with a dot")]
    Name(String),
    /// A place for labs where others could put files.
    #[error(
        "{} {why}; whoever can write there could have your files removed and your programs ended. \
         Remove it, or set XDG_RUNTIME_DIR to a folder of yours that is closed to others", path.display()
    )]
    Unsafe {
        /// The place.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// A lab whose processes do not end.
    #[error(
        "the processes of lab `{0}` do not end; end those named `lab-client`, `lab-server` and `headway lab daemon` by hand"
    )]
    Endless(String),
    /// A lab of this name is up.
    #[error("lab `{0}` is up already; take it down with `headway lab down {0}` or choose another name")]
    AlreadyUp(String),
    /// No lab of this name is up.
    #[error("no lab `{0}` is up; `headway lab status` lists those that are")]
    NotUp(String),
    /// A node that does not exist.
    #[error("`{0}` is not a node; the nodes are `client` and `server`")]
    Node(String),
    /// The host allows no namespaces.
    #[error(
        "this host lets you make neither network namespaces ({network}) nor user namespaces ({user}); \
         run as root, or allow unprivileged user namespaces"
    )]
    Forbidden {
        /// What the system said to a network namespace.
        network: io::Error,
        /// What the system said to a user namespace.
        user: io::Error,
    },
    /// The `ip` program is missing.
    #[error("the program `ip` is missing; install the package `iproute2`")]
    NoIp,
    /// The `ip` program failed.
    #[error("`ip` could not set up {node}: {message}")]
    Ip {
        /// In which node.
        node: String,
        /// What it said.
        message: String,
    },
    /// A system call failed.
    #[error("cannot {action}: {reason}")]
    System {
        /// What was tried.
        action: &'static str,
        /// What the system said.
        reason: io::Error,
    },
    /// The emulator's process reported a failure.
    #[error("{0}")]
    Daemon(String),
}

impl Error {
    pub(crate) fn file(action: &'static str, path: &Path, source: io::Error) -> Error {
        Error::File { action, path: path.to_owned(), reason: source }
    }

    /// For `map_err`: a system call that was to do `action` failed.
    pub(crate) fn system<E: Into<io::Error>>(action: &'static str) -> impl FnOnce(E) -> Error {
        move |source| Error::System { action, reason: source.into() }
    }
}
