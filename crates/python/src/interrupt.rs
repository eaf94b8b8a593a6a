//! Work during which Ctrl-C counts.

use std::ops::Range;
use std::panic::resume_unwind;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration as Span;

use headway_worlds::Cancellation;
use pyo3::{PyResult, Python};

/// Between two looks at the keyboard this much time passes in a run.
const LOOK: Span = Span::from_millis(50);
/// ... and this many packets in work on arrays, which takes some milliseconds.
const PACKETS: usize = 1 << 18;

/// Calls `work` for ranges of items of at most [`PACKETS`] packets, or one item, without the interpreter's
/// lock; `end` says how many packets there are up to the end of an item.
///
/// # Errors
/// The first that `work` returns, or what the handler of a signal raises.
pub(crate) fn in_steps(
    py: Python<'_>,
    items: usize,
    end: impl Fn(usize) -> usize,
    mut work: impl FnMut(Range<usize>) -> PyResult<()> + Send,
) -> PyResult<()> {
    let (mut first, mut before) = (0, 0);
    while first < items {
        let mut next = first + 1;
        while next < items && end(next) - before <= PACKETS {
            next += 1;
        }
        before = end(next - 1);
        py.detach(|| work(first..next))?;
        py.check_signals()?;
        first = next;
    }
    Ok(())
}

/// Calls `work` in a thread of its own, and cancels it when the handler of a signal raises something, which
/// is returned when the work has ended.
///
/// # Errors
/// What the handler raised.
pub(crate) fn cancellable<T: Send>(
    py: Python<'_>,
    cancellation: &Cancellation,
    work: impl FnOnce() -> T + Send,
) -> PyResult<T> {
    thread::scope(|scope| {
        let (done, mut wait) = mpsc::sync_channel::<()>(1);
        let worker = scope.spawn(move || {
            // Dropped at the end, which the receiver notices however the work ends.
            let _done = done;
            work()
        });
        let mut raised = None;
        loop {
            let over = py.detach(move || (wait.recv_timeout(LOOK), wait));
            wait = over.1;
            if over.0 == Err(RecvTimeoutError::Disconnected) {
                break;
            }
            if let Err(error) = py.check_signals() {
                cancellation.cancel();
                raised = Some(error);
            }
        }
        let result = py.detach(|| worker.join()).unwrap_or_else(|panic| resume_unwind(panic));
        raised.map_or(Ok(result), Err)
    })
}
