//! Early cancellation of work.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A cancellation token; all clones share one state.
#[derive(Clone, Debug, Default)]
pub struct Cancellation(Arc<AtomicBool>);

impl Cancellation {
    /// Requests that the work end as soon as possible.
    pub fn cancel(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether cancellation was requested.
    pub fn is_cancelled(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// Returns the underlying flag, for code that takes only a flag.
    pub(crate) fn flag(&self) -> &AtomicBool {
        &self.0
    }
}

impl From<Arc<AtomicBool>> for Cancellation {
    /// Wraps a flag that others set, for example signal handlers.
    fn from(flag: Arc<AtomicBool>) -> Cancellation {
        Cancellation(flag)
    }
}
