//! The kernel: fetched, patched, configured, compiled and kept.
//!
//! A finished kernel is a folder `VERSION-HASH` below the cache: `linux`, which is run, `tree`, against which modules are
//! compiled, and `modules`, those compiled so far. The hash is that of our patch and configuration, so a change of either is
//! another kernel. Folders get their name when everything in them is complete; what has another name is not looked at.

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

/// Which kernel, and where kernels are kept.
#[derive(Clone, Debug)]
pub struct Options {
    /// With the kernel's own checks: addresses, locks, undefined behaviour.
    pub debug: bool,
    /// Folder below which kernels are kept; see [`default_cache`].
    pub cache: PathBuf,
}

/// A finished kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kernel {
    /// Version of Debian's source package.
    pub version: String,
    /// Where it lies.
    pub folder: PathBuf,
}

/// What a build is at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Another build with the same cache is going on; this one waits for its end.
    Wait,
    /// Debian's source package is downloaded, counted in megabytes.
    Fetch,
    /// The source is unpacked and patched, counted in megabytes.
    Unpack,
    /// The configuration is made, counted in steps.
    Configure,
    /// Objects are compiled and linked, counted in objects.
    Compile,
}

/// How far a phase of a build is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// The phase.
    pub phase: Phase,
    /// What is done of it.
    pub done: u64,
    /// All of it, as far as that can be known; never less than `done`.
    pub total: u64,
}

impl Kernel {
    /// The newest kept kernel with our patch and configuration as they are now; looks at names of files only.
    pub fn cached(options: &Options) -> Option<Kernel> {
        cache::newest(options)
    }

    /// The kept kernel, built first when there is none.
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

    /// Builds from Debian's newest package even when a kernel is kept, and replaces a kept one of the same version.
    pub fn rebuild(
        options: &Options,
        progress: &mut dyn FnMut(Progress),
        interrupted: &AtomicBool,
    ) -> Result<Kernel, BuildError> {
        build::build(options, true, progress, interrupted)
    }

    /// The program that is the kernel.
    pub fn binary(&self) -> PathBuf {
        self.folder.join(cache::BINARY)
    }

    /// The tree against which modules are compiled: `make -C TREE ARCH=um M=FOLDER modules`.
    pub fn tree(&self) -> PathBuf {
        self.folder.join(cache::TREE)
    }

    /// The module `name` of these sources (file name and text), compiled when that was not done before.
    ///
    /// Without a `Kbuild` or `Makefile` among them, all `.c` files make up the module.
    pub fn module(&self, name: &str, sources: &[(&str, &str)]) -> Result<PathBuf, BuildError> {
        module::compile(self, name, sources)
    }

    /// The module whose sources lie in `folder`, compiled when that was not done before.
    ///
    /// Its name is that in the folder's `Kbuild` or `Makefile`, else that of its only `.c` file, else that of the folder.
    pub fn module_from(&self, folder: &Path) -> Result<PathBuf, BuildError> {
        module::compile_folder(self, folder)
    }
}
