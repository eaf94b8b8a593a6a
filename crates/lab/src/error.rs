//! Errors, each one sentence that includes its reason.

use std::io;
use std::path::{Path, PathBuf};

/// Why a lab operation failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The scenario is not valid.
    #[error(transparent)]
    Spec(#[from] headway_units::ConfigError),
    /// The scenario file is not valid.
    #[error(transparent)]
    Scenario(#[from] headway_scenario::Error),
    /// A file or directory operation failed.
    #[error("cannot {action} {}: {reason}", path.display())]
    File {
        /// The attempted operation.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// The system's error.
        reason: io::Error,
    },
    /// A line of a truth file could not be parsed.
    #[error("{}, line {line}: invalid truth record", path.display())]
    Truth {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
    },
    /// The name is not valid for a lab.
    #[error("`{0}` cannot name a lab: use 1 to 32 letters, digits, `-`, `_` or `.`, not starting with a dot")]
    Name(String),
    /// A directory for labs in which others could put files.
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
    /// The processes of a lab do not exit.
    #[error(
        "the processes of lab `{0}` do not exit; kill those named `lab-` and a node, and `headway lab daemon`, by hand"
    )]
    DoesNotExit(String),
    /// A lab of this name is already up.
    #[error("lab `{0}` is up already; take it down with `headway lab down {0}` or choose another name")]
    AlreadyUp(String),
    /// No lab of this name is up.
    #[error("no lab `{0}` is up; `headway lab status` lists those that are")]
    NotUp(String),
    /// No node has this name.
    #[error("`{name}` is not a node; the nodes are {}", nodes.join(", "))]
    Node {
        /// The name.
        name: String,
        /// The names of all nodes.
        nodes: Vec<String>,
    },
    /// No link has this name, or a name is missing where there are several links.
    #[error("{0}")]
    Link(String),
    /// An interface of the user cannot be used.
    #[error("the interface `{name}` {reason}")]
    Interface {
        /// The interface.
        name: String,
        /// The rest of the sentence: what is wrong, and what to do.
        reason: String,
    },
    /// The host does not allow namespaces.
    #[error(
        "this host allows neither network namespaces ({network}) nor user namespaces ({user}); \
         run as root, or allow unprivileged user namespaces"
    )]
    Forbidden {
        /// The system's error for a network namespace.
        network: io::Error,
        /// The system's error for a user namespace.
        user: io::Error,
    },
    /// The `ip` program is missing.
    #[error("the program `ip` is missing; install the package `iproute2`")]
    NoIp,
    /// The `ip` program failed.
    #[error("`ip` could not set up {node}: {message}")]
    Ip {
        /// The node.
        node: String,
        /// The program's error output.
        message: String,
    },
    /// A system call failed.
    #[error("cannot {action}: {reason}")]
    System {
        /// The attempted operation.
        action: &'static str,
        /// The system's error.
        reason: io::Error,
    },
    /// A privilege could not be given up.
    #[error(transparent)]
    Privileges(#[from] headway_privileges::Error),
    /// The emulator's process reported a failure.
    #[error("{0}")]
    Daemon(String),
}

impl Error {
    pub(crate) fn file(action: &'static str, path: &Path, source: io::Error) -> Error {
        Error::File { action, path: path.to_owned(), reason: source }
    }

    /// For `map_err`: reports that the system call for `action` failed.
    pub(crate) fn system<E: Into<io::Error>>(action: &'static str) -> impl FnOnce(E) -> Error {
        move |source| Error::System { action, reason: source.into() }
    }
}
