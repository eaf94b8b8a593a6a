//! What a run may be told besides its scenario.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration as Span;

use headway_core::Bytes;
use headway_uml::kernel::Progress as BuildProgress;
use headway_uml::network::Wishes;

use crate::cancel::Cancellation;
use crate::error::{Context as _, Error};

/// How to run; the default is one run at a time, silent, that nobody cancels.
#[derive(Clone)]
pub struct Options<'a> {
    /// Runs in virtual time at the same time, at least 1; results do not depend on it.
    pub jobs: u32,
    /// Memory that all jobs together may take; `None` is three quarters of what is available.
    pub memory: Option<Bytes>,
    /// What only the kernel in virtual time knows.
    pub uml: UmlOptions,
    /// The program that calls [`assist`](crate::assist); `None` is this process's own.
    pub helper: Option<PathBuf>,
    /// Ends the work early.
    pub cancellation: Cancellation,
    /// Hears of progress.
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
    /// The program that helps.
    pub(crate) fn program(&self) -> Result<PathBuf, Error> {
        let own = || std::env::current_exe().context("cannot find this program's own file");
        self.helper.clone().map_or_else(own, Ok)
    }

    pub(crate) fn tell(&self, event: Event<'_>) {
        if let Some(report) = self.report {
            report(event);
        }
    }
}

/// A callback for progress, called from any thread.
pub type Report<'a> = dyn Fn(Event<'_>) + Sync + 'a;

/// What a run tells while it works.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Event<'a> {
    /// A run begins, described in words.
    Begins(&'a str),
    /// So many thousandths of one run have passed since the last report.
    Advanced(u64),
    /// The kernel is being built.
    Builds(BuildProgress),
    /// A run in real time begins anew, for this reason.
    Repeats(&'a str),
}

/// What only the kernel in virtual time knows.
#[derive(Clone, Debug)]
pub struct UmlOptions {
    /// Folders with kernel modules, to be compiled and loaded.
    pub modules: Vec<PathBuf>,
    /// Whether to run the kernel with its own checks (KASAN, lockdep), many times slower.
    pub debug: bool,
    /// Offloads and captures.
    pub wishes: Wishes,
    /// The longest real time for which virtual time may stand still.
    pub patience: Span,
}

/// How long virtual time may stand still, in real time.
const PATIENCE: Span = Span::from_secs(120);

impl Default for UmlOptions {
    fn default() -> UmlOptions {
        UmlOptions { modules: Vec::new(), debug: false, wishes: Wishes::default(), patience: PATIENCE }
    }
}
