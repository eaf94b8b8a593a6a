//! FAST: moves its window towards a fixed number of segments in the queue (Wei, Jin, Low and Hegde, ToN 14(6), 2006).
//!
//! Every other round trip, with the smoothed RTT and the minimum RTT of the flow (base):
//!
//! ```text
//! w = min(2 w, (1 - gamma) w + gamma (base / RTT w + alpha))
//! loss    w = w / 2
//! ```
//!
//! In equilibrium alpha segments are in the queue, whatever the capacity and the RTT.
//!
//! Linux has no FAST. This controller was compared with published figures only.

use super::window::{Window, delegate};
use super::{Ack, Congestion, Controller, Start};
use crate::units::{Duration, Instant};

/// Segments in the queue in equilibrium (paper: 200 for paths of about 1 Gb/s).
const ALPHA: f64 = 200.0;
/// The part of the distance to its target that the window covers at each update, 0 to 1 (paper).
const GAMMA: f64 = 0.5;
/// Weight of a sample in the smoothed RTT, as a part of a window of samples, and the largest (paper).
const WEIGHT: (f64, f64) = (3.0, 0.25);

/// The controller of the paper, in full precision.
///
/// The window starts with slow start, which ends at a loss or when alpha segments are in the queue.
#[derive(Clone, Debug)]
pub struct Fast {
    window: Window,
    /// Minimum RTT of the flow; absent before the first sample.
    base: Option<Duration>,
    /// Smoothed RTT, s.
    smoothed: f64,
    /// The round trip ends when `una` passes this segment.
    end: u64,
    /// Whether the window is updated at the end of this round trip.
    updates: bool,
}

impl Fast {
    /// A controller that starts with the initial window, at least one segment.
    pub fn new(start: &Start) -> Fast {
        Fast { window: Window::new(start.window), base: None, smoothed: 0.0, end: 0, updates: false }
    }

    #[inline]
    fn take_rtt(&mut self, rtt: Duration) {
        match &mut self.base {
            None => (self.base, self.smoothed) = (Some(rtt), rtt.secs_f64()),
            Some(base) => {
                *base = rtt.min(*base);
                let weight = (WEIGHT.0 / self.window.size).min(WEIGHT.1);
                self.smoothed += weight * (rtt.secs_f64() - self.smoothed);
            }
        }
    }

    /// The window without the part of it that is in the queue, segments; `None` before the first RTT.
    #[inline]
    fn in_transit(&self) -> Option<f64> {
        let base = self.base?.secs_f64();
        (base > 0.0).then(|| self.window.size * (base / self.smoothed).min(1.0))
    }

    /// Moves the window towards its target at the end of a round trip.
    fn update(&mut self, may_grow: bool) {
        let Some(in_transit) = self.in_transit() else { return };
        let size = self.window.size;
        if self.window.in_slow_start() {
            if size - in_transit >= ALPHA {
                self.window.ssthresh = size;
            }
            return;
        }
        let target = (1.0 - GAMMA) * size + GAMMA * (in_transit + ALPHA);
        let next = target.min(2.0 * size);
        if next < size || may_grow {
            self.window.size = next;
            self.window.ssthresh = next;
        }
    }
}

impl Controller for Fast {
    delegate!(window: on_undo, on_idle, window, ssthresh);

    fn on_ack(&mut self, ack: &Ack) {
        if let Some(rtt) = ack.rtt {
            self.take_rtt(rtt);
        }
        if self.window.in_slow_start() && !ack.reducing && ack.window_limited {
            self.window.slow_start(f64::from(ack.delivered));
        }
        if ack.una > self.end {
            self.end = ack.next;
            if (self.updates || self.window.in_slow_start()) && !ack.reducing {
                self.update(ack.window_limited);
            }
            self.updates = !self.updates;
        }
    }

    fn on_congestion(&mut self, _now: Instant, _in_flight: u32, _cause: Congestion) {
        self.window.reduce(self.window.size / 2.0);
    }

    fn on_timeout(&mut self, _now: Instant, _in_flight: u32, already_reduced: bool) {
        self.window.restart(self.window.size / 2.0, already_reduced);
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{ack, start};
    use super::*;

    const BASE: f64 = 0.1;

    /// Acknowledges `count` windows over a path of `rate` segments per second and an RTT of 100 ms.
    fn rounds(fast: &mut Fast, rate: f64, count: u32) {
        for _ in 0..count {
            let size = fast.window() as u64;
            let begin = fast.end;
            let rtt = Duration::from_secs_f64((fast.window() / rate).max(BASE));
            for una in begin + 1..=begin + size.max(1) {
                fast.on_ack(&Ack { rtt: Some(rtt), una, next: una + size, ..ack(1) });
            }
        }
    }

    #[test]
    fn alpha_segments_wait_in_equilibrium_whatever_the_rate() {
        for rate in [1_000.0, 10_000.0, 80_000.0] {
            let mut fast = Fast::new(&start(10));
            rounds(&mut fast, rate, 400);
            let queued = fast.window() - rate * BASE;
            assert!((queued / ALPHA - 1.0).abs() < 0.05, "{rate}: {queued}");
        }
    }

    #[test]
    fn an_update_covers_half_of_the_distance() {
        let mut fast = Fast::new(&start(1000));
        fast.window.ssthresh = 2.0;
        (fast.base, fast.smoothed) = (Some(Duration::from_ms(100)), 0.125);
        fast.update(true);
        // 1000 / 2 + (800 + 200) / 2
        assert_eq!(fast.window(), 1000.0);
        fast.smoothed = 0.2;
        fast.update(false);
        // 1000 / 2 + (500 + 200) / 2
        assert_eq!(fast.window(), 850.0);
        fast.smoothed = 0.1;
        fast.update(true);
        assert_eq!(fast.window(), 950.0);
        fast.update(false);
        assert_eq!(fast.window(), 950.0);
    }

    #[test]
    fn a_window_at_most_doubles_and_a_loss_halves_it() {
        let mut fast = Fast::new(&start(20));
        fast.window.ssthresh = 2.0;
        rounds(&mut fast, 1e6, 1);
        let before = fast.window();
        rounds(&mut fast, 1e6, 2);
        assert_eq!(fast.window(), 2.0 * before);
        fast.on_congestion(Instant::ZERO, 40, Congestion::Loss);
        assert_eq!(fast.window(), before);
    }

    #[test]
    fn without_an_rtt_the_window_stays_and_a_shorter_path_lowers_the_base() {
        let mut fast = Fast::new(&start(20));
        fast.window.ssthresh = 2.0;
        for una in 1..100 {
            fast.on_ack(&Ack { una, next: una, ..ack(1) });
        }
        assert_eq!(fast.window(), 20.0);
        fast.take_rtt(Duration::from_ms(200));
        fast.take_rtt(Duration::from_ms(100));
        assert_eq!(fast.base, Some(Duration::from_ms(100)));
        fast.take_rtt(Duration::from_ms(300));
        assert_eq!(fast.base, Some(Duration::from_ms(100)));
    }

    #[test]
    fn the_smallest_windows_are_two_after_a_loss_and_one_after_a_timeout() {
        let mut fast = Fast::new(&start(2));
        fast.on_congestion(Instant::ZERO, 2, Congestion::Loss);
        assert_eq!(fast.window(), 2.0);
        fast.on_timeout(Instant::ZERO, 2, false);
        assert_eq!((fast.window(), fast.ssthresh()), (1.0, 2.0));
    }
}
