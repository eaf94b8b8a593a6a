//! RFC 3168: Reno that answers marks even at a window of one segment, by waiting for its retransmission timer
//! (ls-aimd 3).

use super::window::{Window, delegate};
use super::{Ack, Congestion, Controller, Start};
use headway_units::{Duration, Instant};

/// Longest wait: the maximum RTO.
const LONGEST: Duration = Duration::from_ms(120_000);
/// Most doublings of the wait: 2^10 times the minimum RTO of Linux, 200 ms, exceeds [`LONGEST`].
const MOST_DOUBLINGS: u32 = 10;

/// Reno with windows down to one segment; if marked there, it sends only when the retransmission timer
/// expires (RFC 3168 6.1.2).
#[derive(Clone, Debug, Default)]
pub struct Rfc3168 {
    window: Window,
    /// The time from the last departure to the next while the flow waits for its timer.
    wait: Option<Duration>,
    /// Consecutive marks at a window of one segment; each doubles the wait.
    doublings: u32,
    /// The time since the last acknowledged segment left.
    age: Duration,
    timeout: Duration,
}

impl Rfc3168 {
    /// A controller that starts with the initial window, at least one segment.
    pub(crate) fn new(start: &Start) -> Rfc3168 {
        Rfc3168 { window: Window::new(start.window), ..Rfc3168::default() }
    }

    /// Restarts the timer at this ACK.
    fn wait(&mut self) {
        let timeout = Duration::from_ns(self.timeout.ns().saturating_mul(1 << self.doublings));
        self.wait = Some(self.age + timeout.min(LONGEST));
        self.doublings = (self.doublings + 1).min(MOST_DOUBLINGS);
    }
}

impl Controller for Rfc3168 {
    delegate!(window: on_undo, on_idle, metrics);

    fn on_ack(&mut self, ack: &Ack) {
        self.age = ack.rtt.unwrap_or(Duration::ZERO);
        self.timeout = ack.timeout;
        if ack.marked == 0 && ack.delivered > 0 {
            self.wait = None;
            self.doublings = 0;
        }
        self.window.grow_additively(ack);
    }

    fn on_congestion(&mut self, _now: Instant, _in_flight: u32, cause: Congestion) {
        if cause == Congestion::Mark && self.window.size <= 1.0 {
            self.wait();
            return;
        }
        let half = self.window.half();
        self.window.reduce(half);
        // Unlike ssthresh the window may be one.
        self.window.size = half.max(1.0);
    }

    fn on_timeout(&mut self, _now: Instant, _in_flight: u32, already_reduced: bool) {
        self.wait = None;
        self.window.restart(self.window.half(), already_reduced);
    }

    fn gap(&self, _next: u64) -> Option<Duration> {
        self.wait
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{ack, start};
    use super::*;

    const RTT: Duration = Duration::from_ms(1);
    const TIMEOUT: Duration = Duration::from_ms(201);

    /// Acknowledges a segment, marked or not, in a round of its own.
    fn acknowledge(controller: &mut Rfc3168, marked: bool) {
        let marks = u32::from(marked);
        let ack = Ack { rtt: Some(RTT), timeout: TIMEOUT, marked: marks, reducing: marked, ..ack(1) };
        controller.on_ack(&ack);
        if marked {
            controller.on_congestion(Instant::ZERO, 1, Congestion::Mark);
        }
    }

    #[test]
    fn the_window_halves_down_to_one_segment() {
        let mut controller = Rfc3168::new(&start(4));
        acknowledge(&mut controller, true);
        assert_eq!((controller.window(), controller.gap(0)), (2.0, None));
        acknowledge(&mut controller, true);
        assert_eq!((controller.window(), controller.gap(0)), (1.0, None));
    }

    /// ls-aimd F43: the wait counts from the acknowledgement, doubles with every mark, and ends with the
    /// first one that is not marked.
    #[test]
    fn with_one_segment_each_mark_doubles_the_wait() {
        let mut controller = Rfc3168::new(&start(1));
        for doublings in 0..4 {
            acknowledge(&mut controller, true);
            assert_eq!(controller.gap(0), Some(RTT + TIMEOUT * (1 << doublings)));
        }
        acknowledge(&mut controller, false);
        assert_eq!((controller.window(), controller.gap(0)), (2.0, None));
        acknowledge(&mut controller, true);
        acknowledge(&mut controller, true);
        assert_eq!(controller.gap(0), Some(RTT + TIMEOUT));
        for _ in 0..50 {
            acknowledge(&mut controller, true);
        }
        assert_eq!(controller.gap(0), Some(RTT + LONGEST));
    }
}
