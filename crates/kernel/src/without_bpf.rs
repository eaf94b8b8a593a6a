//! What replaces the loader in a build without BPF: nothing can be loaded, so nothing is ever on.

use std::convert::Infallible;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use headway_units::Instant;

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

    /// Whether others make the gaps.
    pub fn fills_gaps(self, _on: bool) -> Loader {
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

    /// When its segments are due.
    ///
    /// # Errors
    /// Never, as there are none.
    pub fn departure_times(&self) -> Result<DepartureTimes, Error> {
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
    /// Prepares an interface.
    ///
    /// # Errors
    /// Always.
    pub fn single_segments(interface: &str) -> Result<Attached, Error> {
        let _ = interface;
        Err(Error::NotBuilt)
    }

    /// Replaces the programs.
    ///
    /// # Errors
    /// Never, as there are none.
    pub fn switch(&mut self, _loaded: &Loaded) -> Result<(), Error> {
        match self.0 {}
    }
}

/// When segments are due; there are none.
#[derive(Debug)]
pub struct DepartureTimes(Infallible);

/// Segments that leave; there are none.
#[derive(Debug)]
pub struct Departures(Infallible);

impl Departures {
    /// Says that they cannot be taken.
    ///
    /// # Errors
    /// Always.
    pub fn take(_: &str, _: Option<&DepartureTimes>, _: Option<u32>) -> Result<Departures, Error> {
        Err(Error::NotBuilt)
    }

    /// The next one.
    ///
    /// # Errors
    /// Never, as there are none.
    pub fn next(&mut self, _: &mut Vec<u8>) -> io::Result<Option<Instant>> {
        match self.0 {}
    }
}

impl AsFd for Departures {
    fn as_fd(&self) -> BorrowedFd<'_> {
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
