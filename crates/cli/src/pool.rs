//! Work on many items, several at a time.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

use crate::progress;
use crate::run::is_set;

/// What came of the items, in their order, and the error that ended the work early, if one did.
#[derive(Debug)]
pub(crate) struct Done<R> {
    pub(crate) results: Vec<R>,
    pub(crate) error: Option<anyhow::Error>,
}

/// Does `work` on every item, `jobs` at a time, until an error or an interruption; `work` answers `None` when interrupted.
pub(crate) fn each<T: Sync, R: Send>(
    items: &[T],
    jobs: usize,
    interrupted: &AtomicBool,
    work: impl Fn(&T) -> anyhow::Result<Option<R>> + Sync,
) -> Done<R> {
    let next = AtomicUsize::new(0);
    let done: Mutex<Vec<(usize, R)>> = Mutex::default();
    let failed: Mutex<Option<anyhow::Error>> = Mutex::default();
    let take = || {
        while !is_set(interrupted)
            && let index = next.fetch_add(1, Ordering::Relaxed)
            && let Some(item) = items.get(index)
        {
            match work(item) {
                Ok(Some(result)) => {
                    done.lock().unwrap_or_else(PoisonError::into_inner).push((index, result));
                }
                Ok(None) => return,
                Err(error) => {
                    // What is wrong with one is likely wrong with all.
                    next.store(items.len(), Ordering::Relaxed);
                    failed.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
                }
            }
        }
    };
    thread::scope(|scope| {
        for _ in 0..jobs.clamp(1, items.len().max(1)) {
            scope.spawn(|| {
                if jobs > 1 {
                    progress::hush();
                }
                take();
            });
        }
    });
    let mut results = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    results.sort_by_key(|(index, _)| *index);
    Done {
        results: results.into_iter().map(|(_, result)| result).collect(),
        error: failed.into_inner().unwrap_or_else(PoisonError::into_inner),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_keep_the_order_of_the_items() {
        let items: Vec<u64> = (0..100).collect();
        let done = each(&items, 4, &AtomicBool::new(false), |item| Ok(Some(item * 2)));
        assert_eq!(done.results, items.iter().map(|item| item * 2).collect::<Vec<_>>());
        assert!(done.error.is_none());
    }

    #[test]
    fn an_error_keeps_what_was_done() {
        let fails = |item: &u64| if *item == 3 { anyhow::bail!("no") } else { Ok(Some(*item)) };
        let done = each(&[0, 1, 2, 3, 4, 5], 1, &AtomicBool::new(false), fails);
        assert_eq!(done.results, [0, 1, 2]);
        assert!(done.error.is_some());
    }

    #[test]
    fn an_interruption_begins_nothing_more() {
        let interrupted = AtomicBool::new(false);
        let work = |item: &u64| {
            interrupted.store(*item == 1, Ordering::Relaxed);
            Ok(Some(*item))
        };
        assert_eq!(each(&[0, 1, 2, 3], 1, &interrupted, work).results, [0, 1]);
    }
}
