//! Options of a run, besides its scenario.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration as Span;

use headway_uml::kernel::Progress as BuildProgress;
use headway_uml::network::RunOptions;
use headway_units::Bytes;

use crate::cancel::Cancellation;
use crate::error::Error;
use crate::sim::STEPS;
use anyhow::Context as _;

/// How to run. By default: one job at a time, no progress reports, no cancellation.
#[derive(Clone)]
pub struct Options<'a> {
    /// Number of parallel runs in virtual time, at least 1; results do not depend on it.
    pub jobs: u32,
    /// Memory limit of all jobs together; `None` for three quarters of the available memory.
    pub memory: Option<Bytes>,
    /// Options for the kernel in virtual time.
    pub uml: UmlOptions,
    /// The program that calls [`run_helper`](crate::run_helper), for labs the program `headway-lab`; `None`
    /// for the current one.
    pub helper: Option<PathBuf>,
    /// Ends the work early.
    pub cancellation: Cancellation,
    /// Receives progress events.
    pub report: Option<&'a Report<'a>>,
}

impl Default for Options<'_> {
    fn default() -> Self {
        Options {
            jobs: 1,
            memory: None,
            uml: UmlOptions::default(),
            helper: None,
            cancellation: Cancellation::default(),
            report: None,
        }
    }
}

impl fmt::Debug for Options<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Options { jobs, memory, uml, helper, cancellation, report: _ } = self;
        f.debug_struct("Options")
            .field("jobs", jobs)
            .field("memory", memory)
            .field("uml", uml)
            .field("helper", helper)
            .field("cancellation", cancellation)
            .finish_non_exhaustive()
    }
}

impl Options<'_> {
    /// Returns the helper program.
    pub(crate) fn program(&self) -> Result<PathBuf, Error> {
        let own = || std::env::current_exe().context("cannot find this program's own file");
        Ok(self.helper.clone().map_or_else(own, Ok)?)
    }

    pub(crate) fn report_event(&self, event: Event<'_>) {
        if let Some(report) = self.report {
            report(event);
        }
    }

    /// Reports how far a run is, from 0 to 1, when `shown` of its [`STEPS`] have been reported.
    pub(crate) fn report_part(&self, shown: &mut u64, part: f64) {
        let steps = (part.clamp(0.0, 1.0) * STEPS as f64) as u64;
        self.report_event(Event::Advanced(steps - *shown));
        *shown = steps;
    }
}

/// A progress callback; may be called from any thread.
pub type Report<'a> = dyn Fn(Event<'_>) + Sync + 'a;

/// A progress event.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Event<'a> {
    /// A run begins; the text describes it.
    Started(&'a str),
    /// Progress of a run since its last report, in thousandths of its duration.
    Advanced(u64),
    /// The kernel is being built.
    Building(BuildProgress),
    /// A run in real time is repeated, for the given reason.
    Retrying(&'a str),
}

/// Options that only the kernel in virtual time supports.
#[derive(Clone, Debug)]
pub struct UmlOptions {
    /// Folders of kernel modules to compile and load.
    pub modules: Vec<PathBuf>,
    /// Whether to enable the kernel's debug checks (KASAN, lockdep), which make it many times slower.
    pub debug: bool,
    /// Offloads and captures.
    pub run: RunOptions,
    /// How long virtual time may stand still, in real time, before the run is aborted.
    pub stall_timeout: Span,
}

/// Default of [`UmlOptions::stall_timeout`].
const STALL_TIMEOUT: Span = Span::from_secs(120);

impl Default for UmlOptions {
    fn default() -> UmlOptions {
        UmlOptions {
            modules: Vec::new(),
            debug: false,
            run: RunOptions::default(),
            stall_timeout: STALL_TIMEOUT,
        }
    }
}
