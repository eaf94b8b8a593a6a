//! What replaces loader and queries in a build without BPF: nothing can be loaded, so nothing is ever on.

use std::convert::Infallible;
use std::os::fd::OwnedFd;
use std::time::Duration;

use crate::controller::{Controller, EndOptions, LsOptions, RapidOptions};
use crate::device::Interface;
use crate::error::Error;
use crate::flow::RapidFlow;
use crate::stamps::StampOptions;
use crate::telemetry::{Counters, CpuTime, EndCounters, RapidCounters, Record, StampCounters};
use headway_units::Duration as Gap;

/// Says that no controller can be loaded.
///
/// # Errors
/// Always.
pub fn check() -> Result<(), Error> {
    Err(Error::NotBuilt)
}

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

    /// Whether only to answer senders.
    pub fn receives_only(self, _on: bool) -> Loader {
        self
    }

    /// Whether to record every acknowledgement.
    pub fn telemetry(self, _on: bool) -> Loader {
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

    /// The number of the map with the counters.
    ///
    /// # Errors
    /// Never, as there is none.
    pub fn counters_map(&self) -> Result<u32, Error> {
        match self.0 {}
    }

    /// What happened so far.
    ///
    /// # Errors
    /// Never, as there is none.
    pub fn counters(&self) -> Result<Counters, Error> {
        match self.0 {}
    }

    /// What happened so far with TCP Rapid.
    ///
    /// # Errors
    /// Never, as there is none.
    pub fn rapid_counters(&self) -> Result<RapidCounters, Error> {
        match self.0 {}
    }

    /// What happened so far with XCP or RCP.
    ///
    /// # Errors
    /// Never, as there is none.
    pub fn end_counters(&self) -> Result<EndCounters, Error> {
        match self.0 {}
    }

    /// Attaches programs to an interface.
    ///
    /// # Errors
    /// Never, as there are none.
    pub fn attach(&self, _interface: &str) -> Result<Attached, Error> {
        match self.0 {}
    }

    /// Inspects an interface.
    ///
    /// # Errors
    /// Never, as there is no controller that would change it.
    pub fn interface(&self, _name: &str) -> Result<Interface, Error> {
        match self.0 {}
    }

    /// Attaches programs to an interface.
    ///
    /// # Errors
    /// Never, as there are none.
    pub fn attach_to(&self, _interface: Interface) -> Result<Attached, Error> {
        match self.0 {}
    }

    /// The numbers of the programs.
    ///
    /// # Errors
    /// Never, as there is none.
    pub fn programs(&self) -> Result<Vec<u32>, Error> {
        match self.0 {}
    }

    /// Takes it off.
    pub fn unload(self) {
        match self.0 {}
    }

    /// Hands over records.
    ///
    /// # Errors
    /// Never, as there is none.
    pub fn poll(&self, _timeout: Duration, _take: impl FnMut(Record)) -> Result<(), Error> {
        match self.0 {}
    }
}

/// Segments of a fixed gap, which cannot be made.
#[derive(Debug)]
pub struct Pace(Infallible);

impl Pace {
    /// Says that it cannot be loaded.
    ///
    /// # Errors
    /// Always.
    pub fn load(_gap: Gap, _by_window: bool) -> Result<Pace, Error> {
        Err(Error::NotBuilt)
    }

    /// The name to choose it by.
    pub fn name(&self) -> &'static str {
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

    /// The number of the map with the counters.
    ///
    /// # Errors
    /// Never, as there is none.
    pub fn counters_map(&self) -> Result<u32, Error> {
        match self.0 {}
    }

    /// What happened so far.
    ///
    /// # Errors
    /// Never, as there is none.
    pub fn counters(&self) -> Result<StampCounters, Error> {
        match self.0 {}
    }

    /// The numbers of the programs.
    ///
    /// # Errors
    /// Never, as there is none.
    pub fn programs(&self) -> Result<Vec<u32>, Error> {
        match self.0 {}
    }
}

/// Says that the counters of a receiver cannot be read.
///
/// # Errors
/// Always.
pub fn stamp_counters(_map: u32) -> Result<StampCounters, Error> {
    Err(Error::NotBuilt)
}

/// Says that the counters of TCP Rapid cannot be read.
///
/// # Errors
/// Always.
pub fn rapid_counters(_map: u32) -> Result<RapidCounters, Error> {
    Err(Error::NotBuilt)
}

/// Says that connections of TCP Rapid cannot be listed.
///
/// # Errors
/// Always.
pub fn rapid_flows(_programs: &[u32]) -> Result<Option<Vec<RapidFlow>>, Error> {
    Err(Error::NotBuilt)
}

/// Says that the counters of XCP or RCP cannot be read.
///
/// # Errors
/// Always.
pub fn end_counters(_map: u32) -> Result<EndCounters, Error> {
    Err(Error::NotBuilt)
}

/// Says that counters cannot be read.
///
/// # Errors
/// Always.
pub fn counters(_map: u32) -> Result<Counters, Error> {
    Err(Error::NotBuilt)
}

/// What programs took: nothing is known.
pub fn cpu_time(_programs: &[u32]) -> Vec<CpuTime> {
    Vec::new()
}

/// Says that calls cannot be timed.
///
/// # Errors
/// Always.
pub fn enable_timing() -> Result<OwnedFd, Error> {
    Err(Error::NotBuilt)
}

/// Whether a controller is loaded, which this build could not do.
pub fn is_loaded(_map: u32) -> bool {
    false
}
