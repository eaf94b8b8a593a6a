//! Ending work early.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A token that ends work early; all copies are one.
#[derive(Clone, Debug, Default)]
pub struct Cancellation(Arc<AtomicBool>);

impl Cancellation {
    /// Has the work end as soon as it can.
    pub fn cancel(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether the work is to end.
    pub fn is_cancelled(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// The flag behind the token, for code that takes no more than a flag.
    pub fn flag(&self) -> &AtomicBool {
        &self.0
    }
}

impl From<Arc<AtomicBool>> for Cancellation {
    /// A token for a flag that others set, signal handlers for instance.
    fn from(flag: Arc<AtomicBool>) -> Cancellation {
        Cancellation(flag)
    }
}
