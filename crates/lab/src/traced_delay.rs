//! The one-way delay of a link that follows a trace.

use headway_core::{Duration, Instant};
use headway_traffic::channel::DelayTrace;

/// A delay that follows a trace.
#[derive(Clone, Debug)]
pub(crate) struct TracedDelay {
    trace: DelayTrace,
    /// The origin of the trace's times.
    begin: Instant,
}

impl TracedDelay {
    /// The delay of a link that comes up at `begin`.
    pub(crate) fn new(trace: DelayTrace, begin: Instant) -> TracedDelay {
        TracedDelay { trace, begin }
    }

    /// Returns the delay of a packet that leaves the queue at `at`.
    pub(crate) fn delay(&self, at: Instant) -> Duration {
        self.trace.at(at - self.begin)
    }
}
