//! Whose turn it is to send: pacing keeps a processor busy, so only some streams are paced at the same time.

use crate::socket::STOP_CHECK;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Longest wait for a turn: shorter than the ten seconds a client waits for an answer unless told otherwise, so that
/// it still hears why nothing comes.
pub(super) const PATIENCE: Duration = Duration::from_secs(8);

/// A number of streams that may be sent at the same time.
#[derive(Debug)]
pub(super) struct Turns {
    free: Mutex<usize>,
    given_back: Condvar,
}

impl Turns {
    /// Half of this host's processors, at least one: the rest is for receiving and for everything else.
    pub(super) fn for_this_host() -> Turns {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        Turns::new((processors / 2).max(1))
    }

    fn new(places: usize) -> Turns {
        Turns { free: Mutex::new(places), given_back: Condvar::new() }
    }

    /// Waits for a turn, given back when dropped; `None` when it does not come in time or `stop` is set.
    pub(super) fn take(&self, patience: Duration, stop: &AtomicBool) -> Option<Turn<'_>> {
        let deadline = Instant::now() + patience;
        let mut free = self.lock();
        loop {
            if *free > 0 {
                *free -= 1;
                return Some(Turn(self));
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left == Duration::ZERO || stop.load(Ordering::Relaxed) {
                return None;
            }
            let waited = self.given_back.wait_timeout(free, left.min(STOP_CHECK));
            free = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// A lock that a panicking thread left behind is still good: all changes here are single steps.
    fn lock(&self) -> MutexGuard<'_, usize> {
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The right to send a stream.
#[derive(Debug)]
pub(super) struct Turn<'a>(&'a Turns);

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        *self.0.lock() += 1;
        self.0.given_back.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turns_are_few_and_come_back() {
        let (turns, go) = (Turns::new(1), AtomicBool::new(false));
        let first = turns.take(Duration::ZERO, &go).unwrap();
        assert!(turns.take(Duration::from_millis(10), &go).is_none(), "in time");
        assert!(turns.take(Duration::from_secs(60), &AtomicBool::new(true)).is_none(), "stopped");
        std::thread::scope(|scope| {
            let second = scope.spawn(|| turns.take(Duration::from_secs(60), &go).is_some());
            drop(first);
            assert!(second.join().unwrap());
        });
        assert!(turns.take(Duration::ZERO, &go).is_some());
    }

    #[test]
    fn every_host_has_a_turn() {
        assert!(Turns::for_this_host().take(Duration::ZERO, &AtomicBool::new(false)).is_some());
    }
}
