//! The window that Reno, CUBIC, DCTCP and others share, which grows by whole segments.

use super::Ack;
use headway_units::Duration;

/// The minimum ssthresh in segments (RFC 5681, equation 4).
pub(super) const MIN_SSTHRESH: f64 = 2.0;

/// The minimum window in segments of controllers whose source names none. Only ACKs make a flow faster again,
/// so without a minimum a series of marks would silence it for good.
pub(super) const MIN_WINDOW: f64 = 1.0 / 1024.0;

/// A congestion window and ssthresh, in segments.
#[derive(Clone, Debug, Default)]
pub(super) struct Window {
    /// The window.
    pub(super) size: f64,
    /// The slow-start threshold; infinite before the first reduction.
    pub(super) ssthresh: f64,
    /// The initial window.
    initial: f64,
    /// Acknowledged segments that have not grown the window yet.
    pub(super) credit: f64,
}

impl Window {
    /// A window of `initial` segments, at least one, in slow start.
    pub(super) fn new(initial: u32) -> Window {
        let initial = f64::from(initial.max(1));
        Window { size: initial, ssthresh: f64::INFINITY, initial, credit: 0.0 }
    }

    /// Whether the window is below ssthresh.
    pub(super) fn in_slow_start(&self) -> bool {
        self.size < self.ssthresh
    }

    /// Grows by one segment per segment acknowledged, up to ssthresh, and returns the segments left
    /// over (RFC 5681 3.1).
    pub(super) fn slow_start(&mut self, acked: f64) -> f64 {
        let size = (self.size + acked).min(self.ssthresh);
        let left = acked - (size - self.size);
        self.size = size;
        left
    }

    /// Grows by one segment per `count` acknowledged; the remainder is carried over.
    pub(super) fn grow(&mut self, count: f64, acked: f64) {
        // Credit gathered under a larger count is worth one segment at most, or a smaller count would
        // turn it into a burst.
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

    /// Grows as Reno does: by one segment per segment acknowledged in slow start, then by one per round
    /// trip (RFC 5681 3.1).
    pub(super) fn grow_additively(&mut self, ack: &Ack) {
        self.grow_with(ack, |size| size);
    }

    /// Grows by one segment per segment acknowledged in slow start, then by one per `count` of them, which
    /// depends on the window.
    pub(super) fn grow_with(&mut self, ack: &Ack, count: impl FnOnce(f64) -> f64) {
        let acked = self.beyond_slow_start(ack);
        if acked > 0.0 {
            self.grow(count(self.size), acked);
        }
    }

    /// Grows in slow start, if the window may grow at all, and returns the acknowledged segments
    /// left over for growth beyond it.
    pub(super) fn beyond_slow_start(&mut self, ack: &Ack) -> f64 {
        if ack.reducing || !ack.window_limited {
            return 0.0;
        }
        let acked = f64::from(ack.delivered);
        if self.in_slow_start() { self.slow_start(acked) } else { acked }
    }

    /// Half the window in whole segments (RFC 5681, equation 4, with the window in place of the
    /// flight as in Linux).
    pub(super) fn half(&self) -> f64 {
        (self.size / 2.0).floor()
    }

    /// Reduces window and ssthresh to `size`, at least [`MIN_SSTHRESH`].
    pub(super) fn reduce(&mut self, size: f64) {
        self.ssthresh = size.max(MIN_SSTHRESH);
        self.size = self.ssthresh;
        self.credit = 0.0;
    }

    /// Undoes a reduction: window and ssthresh become at least these.
    pub(super) fn restore(&mut self, size: f64, ssthresh: f64) {
        self.size = self.size.max(size);
        self.ssthresh = self.ssthresh.max(ssthresh);
    }

    /// Halves the window for every RTO of idle time, down to the initial window, and raises ssthresh to three
    /// quarters of the window before (RFC 2861, as in Linux).
    pub(super) fn after_idle(&mut self, idle: Duration, timeout: Duration) {
        self.ssthresh = self.ssthresh.max((self.size * 3.0 / 4.0).floor());
        let mut left = idle.ns() - timeout.ns();
        while left > 0 && self.size > self.initial {
            self.size = (self.size / 2.0).floor().max(self.initial);
            left -= timeout.ns();
        }
    }

    /// Restarts from one segment and slow-starts up to `ssthresh`, or up to the present ssthresh if that is
    /// `already_reduced`.
    ///
    /// A further timeout before anything was acknowledged says nothing new about the path: ssthresh stays.
    pub(super) fn restart(&mut self, ssthresh: f64, already_reduced: bool) {
        if self.size > 1.0 && !already_reduced {
            self.ssthresh = ssthresh.max(MIN_SSTHRESH);
        }
        self.size = 1.0;
        self.credit = 0.0;
    }
}

/// Methods of [`Controller`](super::Controller) that forward to a field of type [`Window`]: `delegate!(FIELD:
/// METHOD, ...)`.
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
    (@metrics $window:ident) => {
        fn metrics(&self) -> super::Metrics {
            super::Metrics::new(self.$window.size, self.$window.ssthresh)
        }
    };
}
pub(super) use delegate;

/// Methods of [`Controller`](super::Controller) that cut its field `window`, at congestion and at a
/// timeout, to the same size: `cuts!(|this| SIZE)`.
macro_rules! cuts {
    (|$this:ident| $size:expr) => {
        fn on_congestion(&mut self, _now: Instant, _in_flight: u32, _cause: Congestion) {
            let $this = &*self;
            let size = $size;
            self.window.reduce(size);
        }

        fn on_timeout(&mut self, _now: Instant, _in_flight: u32, already_reduced: bool) {
            let $this = &*self;
            let size = $size;
            self.window.restart(size, already_reduced);
        }
    };
}
pub(super) use cuts;
