//! What Reno, CUBIC and DCTCP have in common: a window that grows by whole segments.

use super::Ack;
use crate::units::Duration;

/// The least slow-start threshold in segments (RFC 5681, equation 4).
pub(super) const MIN_SSTHRESH: f64 = 2.0;

/// The least window in segments of controllers whose source names none: a run of marks would silence a flow for good, because
/// only acknowledgements make it faster again.
pub(super) const LEAST: f64 = 1.0 / 1024.0;

/// A congestion window in segments with its slow-start threshold.
#[derive(Clone, Debug)]
pub(super) struct Window {
    /// The window.
    pub(super) size: f64,
    /// Below this the window doubles every round trip; infinite before the first reduction.
    pub(super) ssthresh: f64,
    /// The window that a flow starts with.
    initial: f64,
    /// Segments acknowledged that have not made the window grow yet.
    credit: f64,
}

impl Window {
    /// A window of `initial` segments, at least one, in slow start.
    pub(super) fn new(initial: u32) -> Window {
        let initial = f64::from(initial.max(1));
        Window { size: initial, ssthresh: f64::INFINITY, initial, credit: 0.0 }
    }

    /// Whether the window is below its threshold.
    #[inline]
    pub(super) fn in_slow_start(&self) -> bool {
        self.size < self.ssthresh
    }

    /// Grows by one segment for each of the `acked` up to the threshold and returns those that are left (RFC 5681 3.1).
    #[inline]
    pub(super) fn slow_start(&mut self, acked: f64) -> f64 {
        let size = (self.size + acked).min(self.ssthresh);
        let left = acked - (size - self.size);
        self.size = size;
        left
    }

    /// Grows by one segment for every `count` acknowledged; the rest is carried over.
    #[inline]
    pub(super) fn grow(&mut self, count: f64, acked: f64) {
        // Credit gathered while more was asked for counts once only, lest a smaller count turn it into a burst.
        if self.credit >= count {
            self.credit = 0.0;
            self.size += 1.0;
        }
        self.credit += acked;
        if self.credit >= count {
            let segments = (self.credit / count).floor();
            self.credit -= segments * count;
            self.size += segments;
        }
    }

    /// Grows as Reno does: by a segment for each acknowledged in slow start, by one a round trip after that (RFC 5681 3.1).
    #[inline]
    pub(super) fn grow_additively(&mut self, ack: &Ack) {
        if ack.reducing || !ack.window_limited {
            return;
        }
        let mut acked = f64::from(ack.delivered);
        if self.in_slow_start() {
            acked = self.slow_start(acked);
        }
        if acked > 0.0 {
            self.grow(self.size, acked);
        }
    }

    /// Reduces window and threshold to `size`, at least [`MIN_SSTHRESH`].
    pub(super) fn reduce(&mut self, size: f64) {
        self.ssthresh = size.max(MIN_SSTHRESH);
        self.size = self.ssthresh;
        self.credit = 0.0;
    }

    /// Takes back a reduction: window and threshold are at least these again.
    pub(super) fn restore(&mut self, size: f64, ssthresh: f64) {
        self.size = self.size.max(size);
        self.ssthresh = self.ssthresh.max(ssthresh);
    }

    /// After an idle time the window halves for every retransmission timeout in it, down to the initial window; the threshold
    /// remembers three quarters of what it was (RFC 2861, as in Linux).
    pub(super) fn after_idle(&mut self, idle: Duration, timeout: Duration) {
        self.ssthresh = self.ssthresh.max((self.size * 3.0 / 4.0).floor());
        let mut left = idle.ns() - timeout.ns();
        while left > 0 && self.size > self.initial {
            self.size = (self.size / 2.0).floor().max(self.initial);
            left -= timeout.ns();
        }
    }

    /// Starts again from one segment and slow-starts up to `ssthresh`, or up to the present threshold when it is `already_reduced`
    /// already.
    ///
    /// A further timeout before anything was acknowledged tells nothing new about the path: the threshold stays.
    pub(super) fn restart(&mut self, ssthresh: f64, already_reduced: bool) {
        if self.size > 1.0 && !already_reduced {
            self.ssthresh = ssthresh.max(MIN_SSTHRESH);
        }
        self.size = 1.0;
        self.credit = 0.0;
    }
}

/// Methods of [`Controller`](super::Controller) as a [`Window`] has them: `delegate!(FIELD: METHOD, ...)` in the `impl` block.
macro_rules! delegate {
    ($window:ident: $($method:ident),+) => {
        $(super::window::delegate!(@$method $window);)+
    };
    (@on_undo $window:ident) => {
        fn on_undo(&mut self, window: f64, ssthresh: f64) {
            self.$window.restore(window, ssthresh);
        }
    };
    (@on_idle $window:ident) => {
        fn on_idle(&mut self, _now: Instant, idle: Duration, timeout: Duration) {
            self.$window.after_idle(idle, timeout);
        }
    };
    (@window $window:ident) => {
        #[inline]
        fn window(&self) -> f64 {
            self.$window.size
        }
    };
    (@ssthresh $window:ident) => {
        #[inline]
        fn ssthresh(&self) -> f64 {
            self.$window.ssthresh
        }
    };
}
pub(super) use delegate;
