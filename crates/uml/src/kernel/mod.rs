//! The kernel: fetched, patched, configured, compiled and cached.
//!
//! A finished kernel is a directory `VERSION-HASH` in the cache. It contains `linux`, the binary; `tree`,
//! against which modules are compiled; and `modules`, the modules compiled so far. The hash covers our patch
//! and configuration, so a change of either gives another kernel. A directory gets its name when everything
//! in it is complete; others are ignored.

mod build;
mod cache;
mod command;
mod compile;
mod configure;
mod error;
mod fetch;
mod module;
mod source;
mod tools;

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

pub use cache::{Cleaned, clean, default_cache};
pub use error::BuildError;

/// Which kernel to use, and where kernels are cached.
#[derive(Clone, Debug)]
pub struct Options {
    /// Whether to enable the kernel's own checks: addresses, locks, undefined behaviour.
    pub debug: bool,
    /// Directory below which kernels are cached; see [`default_cache`].
    pub cache: PathBuf,
}

/// A finished kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kernel {
    /// Version of Debian's source package.
    pub version: String,
    /// Its directory.
    pub folder: PathBuf,
}

/// A phase of a build.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Waiting for another build with the same cache.
    Wait,
    /// Downloading Debian's source package, counted in megabytes.
    Fetch,
    /// Unpacking and patching the source, counted in megabytes.
    Unpack,
    /// Configuring, counted in steps.
    Configure,
    /// Compiling and linking, counted in objects.
    Compile,
}

/// Progress of a build.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// The current phase.
    pub phase: Phase,
    /// Units completed in this phase.
    pub done: u64,
    /// Total units of this phase, as far as known; never less than `done`.
    pub total: u64,
}

impl Kernel {
    /// Returns the newest cached kernel with our current patch and configuration; looks at file names only.
    pub fn cached(options: &Options) -> Option<Kernel> {
        cache::newest(options)
    }

    /// Returns the cached kernel, and builds one first if there is none.
    pub fn build(
        options: &Options,
        progress: &mut dyn FnMut(Progress),
        interrupted: &AtomicBool,
    ) -> Result<Kernel, BuildError> {
        match Kernel::cached(options) {
            Some(kernel) => Ok(kernel),
            None => build::build(options, false, progress, interrupted),
        }
    }

    /// Builds from Debian's newest package even if a kernel is cached, and replaces a cached one
    /// of the same version.
    pub fn rebuild(
        options: &Options,
        progress: &mut dyn FnMut(Progress),
        interrupted: &AtomicBool,
    ) -> Result<Kernel, BuildError> {
        build::build(options, true, progress, interrupted)
    }

    /// The kernel binary.
    pub fn binary(&self) -> PathBuf {
        self.folder.join(cache::BINARY)
    }

    /// The tree against which modules are compiled: `make -C TREE ARCH=um M=FOLDER modules`.
    pub(crate) fn tree(&self) -> PathBuf {
        self.folder.join(cache::TREE)
    }

    /// Returns the module `name` with these sources (file names and texts), and compiles it
    /// if it is not cached.
    ///
    /// If the sources contain no `Kbuild` or `Makefile`, all `.c` files make up the module.
    pub fn module(&self, name: &str, sources: &[(&str, &str)]) -> Result<PathBuf, BuildError> {
        module::compile(self, name, sources)
    }

    /// Returns the module whose sources are in `folder`, and compiles it if it is not cached.
    ///
    /// Its name is the one in the directory's `Kbuild` or `Makefile`, else that of its only `.c` file, else
    /// that of the directory.
    pub fn module_from(&self, folder: &Path) -> Result<PathBuf, BuildError> {
        module::compile_folder(self, folder)
    }
}
