//! The parameters of a reproduction besides the experiment: size, seed, threads and cancellation.

use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};

use headway_traffic::random;
use headway_worlds::pool::{self, Done};
use headway_worlds::{Cancellation, Kept};
use rand::RngExt as _;

use crate::experiment::Count;

/// The size of a reproduction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::IntoStaticStr)]
#[strum(serialize_all = "kebab-case")]
pub enum Size {
    /// Enough samples to judge every claim.
    Quick,
    /// As many samples as were published.
    Full,
}

impl Size {
    /// Returns the name in results.
    pub fn name(self) -> &'static str {
        self.into()
    }

    /// Returns the count for this size.
    pub const fn of(self, count: Count) -> usize {
        match self {
            Size::Quick => count.quick,
            Size::Full => count.full,
        }
    }
}

/// Reasons why an experiment was not carried out.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The work was cancelled.
    #[error("interrupted")]
    Interrupted,
    /// A run failed.
    #[error("{run}")]
    World {
        /// Description of the run.
        run: String,
        /// The cause.
        source: headway_worlds::Error,
    },
    /// The machine disturbed every attempt of a run in real time.
    #[error("{run}: the machine was too busy in every attempt; end other work, and try again")]
    Disturbed {
        /// Description of the run.
        run: String,
    },
    /// There is no Python with the package that trains models.
    #[error(
        "{interpreter} cannot train models: {reason}; `make python` makes an environment that can, and HEADWAY_PYTHON names it"
    )]
    NoTraining {
        /// The interpreter that was asked.
        interpreter: String,
        /// What it said.
        reason: String,
    },
    /// The training of a model failed.
    #[error("the training of a model failed: {0}")]
    Training(String),
    /// A result cannot be kept.
    #[error("a result cannot be kept")]
    Keep(#[from] headway_worlds::Error),
}

/// Receives how many parts of a study are done, and of how many; may be called from any thread.
pub type Progress<'a> = dyn Fn(usize, usize) + Sync + 'a;

/// Runs the parts of an experiment on several threads.
#[derive(Clone, Copy)]
pub struct Context<'a> {
    /// Size of the reproduction.
    pub size: Size,
    /// Seed of the whole run.
    pub seed: u64,
    /// Number of worker threads.
    pub jobs: usize,
    /// Cancels the work from outside.
    pub stop: &'a Cancellation,
    /// Receives the progress of studies that consist of many parts.
    pub progress: Option<&'a Progress<'a>>,
    /// Keeps the results of long runs.
    pub kept: Option<&'a Kept>,
}

impl fmt::Debug for Context<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Context { size, seed, jobs, stop, progress: _, kept } = self;
        let mut all = f.debug_struct("Context");
        all.field("size", size).field("seed", seed).field("jobs", jobs).field("stop", stop);
        all.field("kept", kept).finish_non_exhaustive()
    }
}

impl<'a> Context<'a> {
    /// Creates a context without progress reports that keeps no results.
    pub fn new(size: Size, seed: u64, jobs: usize, stop: &'a Cancellation) -> Context<'a> {
        Context { size, seed, jobs, stop, progress: None, kept: None }
    }
}

impl Context<'_> {
    /// Derives the seed of part `index` in the random stream `name`.
    pub(crate) fn seed_of(&self, name: &str, index: usize) -> u64 {
        random::generator(self.seed, name, index as u64).random()
    }

    /// Fails once the work is cancelled.
    pub(crate) fn check(&self) -> Result<(), Error> {
        if self.stop.is_cancelled() { Err(Error::Interrupted) } else { Ok(()) }
    }

    /// Calls `work` for every part, on all threads; the results are in the order of the parts.
    pub(crate) fn map<P: Sync, R: Send>(
        &self,
        parts: &[P],
        work: impl Fn(usize, &P) -> Result<R, Error> + Sync,
    ) -> Result<Vec<R>, Error> {
        let numbered: Vec<(usize, &P)> = parts.iter().enumerate().collect();
        let done = AtomicUsize::new(0);
        let each = |(index, part): &(usize, &P)| {
            let result = work(*index, part)?;
            let done = done.fetch_add(1, Ordering::Relaxed) + 1;
            if let Some(progress) = self.progress {
                progress(done, parts.len());
            }
            Ok(Some(result))
        };
        let Done { results, error } = pool::each(&numbered, self.jobs, self.stop, each);
        self.check()?;
        error.map_or(Ok(results), Err)
    }
}
