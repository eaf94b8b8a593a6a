//! What the work on an experiment needs besides the experiment: size, seed, threads, and whether to go on.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use headway_traffic::random;
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

/// The work was told to stop before it was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("interrupted")]
pub struct Interrupted;

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
    pub stop: &'a AtomicBool,
}

impl Context<'_> {
    /// The seed of part `index` of what `name` says.
    pub(crate) fn seed_of(&self, name: &str, index: usize) -> u64 {
        random::generator(self.seed, name, index as u64).random()
    }

    /// An error once the work is to stop.
    pub(crate) fn check(&self) -> Result<(), Interrupted> {
        if self.stop.load(Ordering::Relaxed) { Err(Interrupted) } else { Ok(()) }
    }

    /// Does `work` for every part, on all threads; the results are in the order of the parts.
    pub(crate) fn map<P: Sync, R: Send>(
        &self,
        parts: &[P],
        work: impl Fn(usize, &P) -> Result<R, Interrupted> + Sync,
    ) -> Result<Vec<R>, Interrupted> {
        let next = AtomicUsize::new(0);
        let results: Mutex<Vec<Option<R>>> = Mutex::new(parts.iter().map(|_| None).collect());
        let worker = || -> Result<(), Interrupted> {
            loop {
                let index = next.fetch_add(1, Ordering::Relaxed);
                let Some(part) = parts.get(index) else { return Ok(()) };
                self.check()?;
                let result = work(index, part)?;
                results.lock().unwrap_or_else(std::sync::PoisonError::into_inner)[index] = Some(result);
            }
        };
        std::thread::scope(|scope| {
            let others: Vec<_> =
                (1..self.jobs.clamp(1, parts.len().max(1))).map(|_| scope.spawn(worker)).collect();
            let mut outcome = worker();
            for other in others {
                outcome = outcome.and(other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
            }
            outcome
        })?;
        let results = results.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
        Ok(results.into_iter().flatten().collect())
    }
}
