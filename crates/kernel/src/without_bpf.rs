//! What replaces the loader in a build without BPF: nothing can be loaded, so nothing is ever on.

use std::convert::Infallible;

use crate::controller::{Controller, EndOptions, LsOptions, RapidOptions, StampOptions};
use crate::error::Error;

/// How to load a controller, which fails.
#[derive(Clone, Debug)]
pub struct Loader;

impl Loader {
    /// A controller under its own name.
    pub fn new(_controller: Controller) -> Loader {
        Loader
    }

    /// Another name.
    pub fn name(self, _name: &str) -> Loader {
        self
    }

    /// Other options.
    pub fn options(self, _options: LsOptions) -> Loader {
        self
    }

    /// Other options of XCP and RCP.
    pub fn end_options(self, _options: EndOptions) -> Loader {
        self
    }

    /// Other options of TCP Rapid.
    pub fn rapid_options(self, _options: RapidOptions) -> Loader {
        self
    }

    /// Whether programs without privileges may choose it.
    pub fn unrestricted(self, _on: bool) -> Loader {
        self
    }

    /// Says that it cannot be loaded.
    ///
    /// # Errors
    /// Always.
    pub fn load(&self) -> Result<Loaded, Error> {
        Err(Error::NotBuilt)
    }
}

/// A controller that is on; there is none.
#[derive(Debug)]
pub struct Loaded(Infallible);

impl Loaded {
    /// The name to choose it by.
    pub fn name(&self) -> &str {
        match self.0 {}
    }

    /// Attaches programs to an interface.
    ///
    /// # Errors
    /// Never, as there are none.
    pub fn attach(&self, _interface: &str) -> Result<Attached, Error> {
        match self.0 {}
    }
}

/// Programs at an interface; there are none.
#[derive(Debug)]
pub struct Attached(Infallible);

impl Attached {
    /// Replaces the programs.
    ///
    /// # Errors
    /// Never, as there are none.
    pub fn switch(&mut self, _loaded: &Loaded) -> Result<(), Error> {
        match self.0 {}
    }
}

/// A receiver for TCP Rapid; there is none.
#[derive(Debug)]
pub struct StampReceiver(Infallible);

impl StampReceiver {
    /// Says that it cannot be loaded.
    ///
    /// # Errors
    /// Always.
    pub fn load(_options: &StampOptions) -> Result<StampReceiver, Error> {
        Err(Error::NotBuilt)
    }
}
