//! What can go wrong while a kernel or a module is built.

use std::io;
use std::path::{Path, PathBuf};

/// Why there is no kernel or no module; each text says what happened and what to do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// Programs or headers are not installed.
    #[error("{what} missing to build the kernel; install {} with: apt-get install --no-install-recommends {packages}", if *many { "them" } else { "it" })]
    Missing {
        /// The names and their verb, as the beginning of a sentence.
        what: String,
        /// Whether it is more than one.
        many: bool,
        /// Debian's packages that hold them.
        packages: String,
    },
    /// This system is not Debian's.
    #[error(
        "the kernel's source comes from Debian's package archive, but apt-get and dpkg are not here; build on Debian 12 or 13"
    )]
    NotDebian,
    /// `make` cannot work with this path.
    #[error(
        "a kernel cannot be built below {}, because make cannot take `{character}` in a path; set HEADWAY_CACHE to another folder",
        path.display()
    )]
    Path {
        /// The folder.
        path: PathBuf,
        /// What is wrong with it.
        character: char,
    },
    /// The source package could not be had.
    #[error(
        "apt cannot fetch {package} ({said}); check the network and that Debian's own archives are among the sources of apt"
    )]
    Fetch {
        /// The package.
        package: &'static str,
        /// What apt said last.
        said: String,
    },
    /// The source package is damaged or not what we know.
    #[error(
        "the source of kernel {version} cannot be unpacked ({said}); check the space left on the disk, then build again"
    )]
    Unpack {
        /// Version of the package.
        version: String,
        /// What the program said that failed.
        said: String,
    },
    /// The kernel has changed where our patch changes it.
    #[error(
        "our patch does not apply to kernel {version} ({said}); use a newer Headway, or report it with this version"
    )]
    Patch {
        /// Version of the package.
        version: String,
        /// What `patch` said.
        said: String,
    },
    /// Options without which nothing works are missing after configuration.
    #[error(
        "kernel {version} does not take {names} of our configuration; use a newer Headway, or report it with this version"
    )]
    Config {
        /// Version of the package.
        version: String,
        /// The options.
        names: String,
    },
    /// The kernel does not compile.
    #[error("kernel {version} does not compile:\n{said}\nThe whole output is in {}", log.display())]
    Compile {
        /// Version of the package.
        version: String,
        /// The first errors.
        said: String,
        /// Everything.
        log: PathBuf,
    },
    /// A module does not compile.
    #[error("the module {name} does not compile:\n{said}")]
    Module {
        /// Its name.
        name: String,
        /// The compiler's first errors.
        said: String,
    },
    /// What is given cannot be a module.
    #[error("{name} cannot be made a module: {why}")]
    NoModule {
        /// Name or folder.
        name: String,
        /// What is wrong and what would be right.
        why: String,
    },
    /// Kernels cannot be removed while one is built.
    #[error("a kernel is being built in {}; wait for its end or end it first", path.display())]
    Busy {
        /// The folder of kernels.
        path: PathBuf,
    },
    /// The user ended it.
    #[error("interrupted; nothing of the unfinished kernel was kept")]
    Interrupted,
    /// The file system said no.
    #[error("cannot {what} {}: {reason}", path.display())]
    File {
        /// What was tried.
        what: &'static str,
        /// On which path.
        path: PathBuf,
        /// What the system said.
        reason: io::Error,
    },
    /// A program could not be started.
    #[error("cannot start {program}: {reason}")]
    Start {
        /// The program.
        program: String,
        /// What the system said.
        reason: io::Error,
    },
}

impl BuildError {
    /// For `map_err`: what was tried on which path.
    pub(super) fn file<'a>(what: &'static str, path: &'a Path) -> impl FnOnce(io::Error) -> BuildError + 'a {
        move |reason| BuildError::File { what, path: path.to_owned(), reason }
    }
}
