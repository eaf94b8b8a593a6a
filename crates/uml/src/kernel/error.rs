//! Errors of building a kernel or a module.

use std::io;
use std::path::{Path, PathBuf};

/// Why there is no kernel or module; each message says what happened and what to do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// The processor is of another architecture.
    #[error(
        "Linux in virtual time runs on x86-64 only, and this is {}; use the simulator (--on sim)",
        std::env::consts::ARCH
    )]
    Architecture,
    /// Programs or headers are not installed.
    #[error("{what} missing to build the kernel; install {} with: apt-get install --no-install-recommends {packages}", if *many { "them" } else { "it" })]
    Missing {
        /// The missing names with a verb, as the beginning of a sentence.
        what: String,
        /// Whether `what` is plural.
        many: bool,
        /// Debian packages that contain them.
        packages: String,
    },
    /// The system is not Debian.
    #[error(
        "the kernel's source comes from Debian's package archive, but apt-get and dpkg are not here; build on Debian 12 or 13"
    )]
    NotDebian,
    /// `make` cannot handle this path.
    #[error(
        "a kernel cannot be built below {}, because make cannot take `{character}` in a path; set HEADWAY_CACHE to another folder",
        path.display()
    )]
    Path {
        /// The folder.
        path: PathBuf,
        /// The offending character.
        character: char,
    },
    /// The source package could not be fetched.
    #[error(
        "apt cannot fetch {package} ({said}); check the network and that Debian's own archives are among the sources of apt"
    )]
    Fetch {
        /// The package.
        package: &'static str,
        /// The last output of apt.
        said: String,
    },
    /// The source package is damaged or has an unexpected layout.
    #[error(
        "the source of kernel {version} cannot be unpacked ({said}); check the space left on the disk, then build again"
    )]
    Unpack {
        /// Version of the package.
        version: String,
        /// The output of the program that failed.
        said: String,
    },
    /// Our patch does not apply, because the kernel has changed in the same place.
    #[error(
        "our patch does not apply to kernel {version} ({said}); use a newer Headway, or report it with this version"
    )]
    Patch {
        /// Version of the package.
        version: String,
        /// The output of `patch`.
        said: String,
    },
    /// Required options are missing after configuration.
    #[error(
        "kernel {version} does not support the required options {names}; use a newer Headway, or report it with this version"
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
        /// The full log.
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
    /// The input cannot be built as a module.
    #[error("{name} cannot be built as a module: {why}")]
    NoModule {
        /// Name or directory.
        name: String,
        /// What is wrong, and what would be right.
        why: String,
    },
    /// Kernels cannot be removed during a build.
    #[error("a kernel is being built in {}; wait for it to finish, or stop it first", path.display())]
    Busy {
        /// The directory of kernels.
        path: PathBuf,
    },
    /// The user interrupted the build.
    #[error("interrupted; nothing of the unfinished kernel was kept")]
    Interrupted,
    /// A file operation failed.
    #[error("cannot {what} {}: {reason}", path.display())]
    File {
        /// The attempted operation.
        what: &'static str,
        /// The path.
        path: PathBuf,
        /// The system's error.
        reason: io::Error,
    },
    /// A program could not be started.
    #[error("cannot start {program}: {reason}")]
    Start {
        /// The program.
        program: String,
        /// The system's error.
        reason: io::Error,
    },
}

impl BuildError {
    /// For `map_err`: reports that the operation `what` failed on `path`.
    pub(super) fn file<'a>(what: &'static str, path: &'a Path) -> impl FnOnce(io::Error) -> BuildError + 'a {
        move |reason| BuildError::File { what, path: path.to_owned(), reason }
    }
}
