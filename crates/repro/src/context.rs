//! What the work on an experiment needs besides the experiment: size, seed, threads, and whether to go on.

use headway_traffic::random;
use headway_worlds::Cancellation;
use headway_worlds::pool::{self, Done};
use rand::RngExt as _;

use crate::experiment::Count;

/// How much is simulated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Size {
    /// Enough to judge every claim.
    Quick,
    /// As much as was published.
    Full,
}

impl Size {
    /// The name in results.
    pub const fn name(self) -> &'static str {
        match self {
            Size::Quick => "quick",
            Size::Full => "full",
        }
    }

    /// The number for this size.
    pub const fn of(self, count: Count) -> usize {
        match self {
            Size::Quick => count.quick,
            Size::Full => count.full,
        }
    }
}

/// Why an experiment was not carried out.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The work was told to stop before it was done.
    #[error("interrupted")]
    Interrupted,
    /// A run in another world failed.
    #[error("{run}")]
    World {
        /// Which run.
        run: String,
        /// Why it failed.
        source: headway_worlds::Error,
    },
}

/// Carries out the parts of an experiment on several threads.
#[derive(Debug)]
pub struct Context<'a> {
    /// How much is simulated.
    pub size: Size,
    /// Seed of the whole run.
    pub seed: u64,
    /// Threads that work.
    pub jobs: usize,
    /// Set from outside to stop.
    pub stop: &'a Cancellation,
}

impl Context<'_> {
    /// The seed of part `index` of what `name` says.
    pub(crate) fn seed_of(&self, name: &str, index: usize) -> u64 {
        random::generator(self.seed, name, index as u64).random()
    }

    /// An error once the work is to stop.
    pub(crate) fn check(&self) -> Result<(), Error> {
        if self.stop.is_cancelled() { Err(Error::Interrupted) } else { Ok(()) }
    }

    /// Does `work` for every part, on all threads; the results are in the order of the parts.
    pub(crate) fn map<P: Sync, R: Send>(
        &self,
        parts: &[P],
        work: impl Fn(usize, &P) -> Result<R, Error> + Sync,
    ) -> Result<Vec<R>, Error> {
        let numbered: Vec<(usize, &P)> = parts.iter().enumerate().collect();
        let each = |(index, part): &(usize, &P)| work(*index, part).map(Some);
        let Done { results, error } = pool::each(&numbered, self.jobs, self.stop, each);
        self.check()?;
        error.map_or(Ok(results), Err)
    }
}
