//! Parallel work on a list of items.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

use crate::cancel::Cancellation;
use crate::error::Error;
use crate::options::Options;
use crate::outcome::Outcome;

/// The results in the order of the items, and the error that ended the work early, if any.
#[derive(Debug)]
pub struct Done<R, E> {
    /// Results of the completed items.
    pub results: Vec<R>,
    /// The error that ended the work early.
    pub error: Option<E>,
}

/// Calls `work` on every item, `jobs` at a time, until an error or an interruption; `work` returns
/// `None` when interrupted.
pub fn each<T: Sync, R: Send, E: Send>(
    items: &[T],
    jobs: usize,
    cancellation: &Cancellation,
    work: impl Fn(&T) -> Result<Option<R>, E> + Sync,
) -> Done<R, E> {
    let next = AtomicUsize::new(0);
    let done: Mutex<Vec<(usize, R)>> = Mutex::default();
    let failed: Mutex<Option<E>> = Mutex::default();
    let take = || {
        while !cancellation.is_cancelled()
            && let index = next.fetch_add(1, Ordering::Relaxed)
            && let Some(item) = items.get(index)
        {
            match work(item) {
                Ok(Some(result)) => {
                    done.lock().unwrap_or_else(PoisonError::into_inner).push((index, result));
                }
                Ok(None) => return,
                Err(error) => {
                    // An error of one item likely affects all.
                    next.store(items.len(), Ordering::Relaxed);
                    failed.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
                }
            }
        }
    };
    thread::scope(|scope| {
        for _ in 0..jobs.clamp(1, items.len().max(1)) {
            scope.spawn(take);
        }
    });
    let mut results = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    results.sort_by_key(|(index, _)| *index);
    Done {
        results: results.into_iter().map(|(_, result)| result).collect(),
        error: failed.into_inner().unwrap_or_else(PoisonError::into_inner),
    }
}

/// Runs every seed, `jobs` at a time. Outcomes are in the order of the seeds; seeds not started before a
/// cancellation have none.
pub(crate) fn each_seed(
    seeds: &[u64],
    jobs: u32,
    options: &Options<'_>,
    run: impl Fn(u64) -> Result<Outcome, Error> + Sync,
) -> Result<Vec<Outcome>, Error> {
    let done = each(seeds, jobs as usize, &options.cancellation, |seed| run(*seed).map(Some));
    done.error.map_or(Ok(done.results), Err)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_keep_the_order_of_the_items() {
        let items: Vec<u64> = (0..100).collect();
        let done = each(&items, 4, &Cancellation::default(), |item| Ok::<_, ()>(Some(item * 2)));
        assert_eq!(done.results, items.iter().map(|item| item * 2).collect::<Vec<_>>());
        assert!(done.error.is_none());
    }

    #[test]
    fn an_error_keeps_what_was_done() {
        let fails = |item: &u64| if *item == 3 { Err("no") } else { Ok(Some(*item)) };
        let done = each(&[0, 1, 2, 3, 4, 5], 1, &Cancellation::default(), fails);
        assert_eq!(done.results, [0, 1, 2]);
        assert!(done.error.is_some());
    }

    #[test]
    fn an_interruption_begins_nothing_more() {
        let cancellation = Cancellation::default();
        let work = |item: &u64| {
            if *item == 1 {
                cancellation.cancel();
            }
            Ok::<_, ()>(Some(*item))
        };
        assert_eq!(each(&[0, 1, 2, 3], 1, &cancellation, work).results, [0, 1]);
    }
}
