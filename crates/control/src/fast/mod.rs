//! FAST: moves its window towards a fixed number of segments in the queue (Wei, Jin, Low and
//! Hegde, ToN 14(6), 2006).
//!
//! Every other round trip, with the RTT and the minimum RTT of the flow (base):
//!
//! ```text
//! w = min(2 w, (1 - gamma) w + gamma (base / RTT w + alpha))
//! loss    w = w / 2
//! ```
//!
//! In equilibrium alpha segments are in the queue, whatever the capacity and the RTT. The RTT is the
//! smoothed one, or, in the variants of the thesis on Rapid, the minimum over the last window by a clock of
//! their own (rapid 2.23).
//!
//! Linux has no FAST. This controller was compared with published figures only.

mod delay;
mod parameters;

use self::delay::Delay;
pub use self::parameters::FastParameters;
use super::window::{Window, delegate};
use super::{Ack, Congestion, Controller, Needs, Start};
use headway_units::{Duration, Instant};

/// The part of the distance to its target that the window covers at each update, 0 to 1 (paper).
const GAMMA: f64 = 0.5;

/// The controller of the paper; its window is not rounded.
///
/// The window starts with slow start, which ends at a loss or when alpha segments are in the queue.
#[derive(Clone, Debug)]
pub struct Fast {
    window: Window,
    delay: Delay,
    /// Segments in the queue in equilibrium.
    alpha: f64,
    /// The round trip ends when `una` passes this segment.
    end: u64,
    /// Whether the window is updated at the end of this round trip.
    updates: bool,
}

impl Fast {
    /// A controller that starts with the initial window, at least one segment.
    pub(crate) fn new(parameters: FastParameters, start: &Start) -> Fast {
        Fast {
            window: Window::new(start.window),
            delay: Delay::new(parameters.reading, start.stamp_unit),
            alpha: f64::from(parameters.alpha),
            end: 0,
            updates: false,
        }
    }

    /// Moves the window towards its target at the end of a round trip. Without an RTT it stays.
    fn update(&mut self, may_grow: bool) {
        let Some(ratio) = self.delay.ratio() else { return };
        let size = self.window.size;
        let in_transit = size * ratio;
        if self.window.in_slow_start() {
            if size - in_transit >= self.alpha {
                self.window.ssthresh = size;
            }
            return;
        }
        let target = (1.0 - GAMMA) * size + GAMMA * (in_transit + self.alpha);
        let next = target.min(2.0 * size);
        if next < size || may_grow {
            self.window.size = next;
            self.window.ssthresh = next;
        }
    }
}

impl Controller for Fast {
    delegate!(window: on_undo, on_idle, metrics);

    fn on_ack(&mut self, ack: &Ack) {
        self.delay.take(ack, self.window.size);
        if self.window.in_slow_start() && !ack.reducing && ack.window_limited {
            self.window.slow_start(f64::from(ack.delivered));
        }
        if ack.una > self.end {
            self.end = ack.next;
            if (self.updates || self.window.in_slow_start()) && !ack.reducing {
                self.update(ack.window_limited);
            }
            self.updates = !self.updates;
            self.delay.begin_window();
        }
    }

    fn on_congestion(&mut self, _now: Instant, _in_flight: u32, _cause: Congestion) {
        self.window.reduce(self.window.size / 2.0);
    }

    fn on_timeout(&mut self, _now: Instant, _in_flight: u32, already_reduced: bool) {
        self.window.restart(self.window.size / 2.0, already_reduced);
    }

    fn needs(&self) -> Needs {
        Needs { stamps: self.delay.needs_stamps(), ..Needs::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{ack, start};
    use super::super::{AnyController, Kind};
    use super::*;
    use crate::Arrival;

    const ALPHA: f64 = 200.0;
    const BASE: f64 = 0.1;
    /// All ways to read delays.
    const ALL: [&str; 4] = ["fast", "fast:rtt=ms", "fast:rtt=us", "fast:rtt=owd"];

    fn fast(text: &str, window: u32) -> Fast {
        match text.parse::<Kind>().expect("a controller").build(&start(window)) {
            AnyController::Fast(fast) => *fast,
            other => panic!("{other:?}"),
        }
    }

    /// In congestion avoidance after an RTT of 100 ms.
    fn avoiding(text: &str, window: u32) -> Fast {
        let mut fast = fast(text, window);
        fast.window.ssthresh = 2.0;
        read(&mut fast, 100_000);
        fast
    }

    /// Begins a window in which every segment takes `rtt` us, of which 20 ms are those of the ACK. The
    /// receiver's clock is ahead by 77 s.
    fn read(fast: &mut Fast, rtt: u64) {
        fast.delay.begin_window();
        for segment in 0..10_000 {
            let left = 1_000_300 + 1_000 * segment;
            let stamp = Some((left + rtt - 20_000 + 77_000_000) as u32);
            let ack = Ack {
                now: Instant::from_ns((left + rtt) * 1_000),
                rtt: Some(Duration::from_us(rtt as i64)),
                arrival: Some(Arrival { segment, stamp }),
                ..ack(1)
            };
            fast.delay.take(&ack, fast.window.size);
        }
    }

    /// Acknowledges `count` windows over a path of `rate` segments per second and an RTT of 100 ms.
    fn rounds(fast: &mut Fast, rate: f64, count: u32) {
        for _ in 0..count {
            let size = fast.window() as u64;
            let begin = fast.end;
            let now = Instant::from_ns(1_000_000_000);
            let rtt = Duration::from_secs_f64((fast.window() / rate).max(BASE));
            for una in begin + 1..=begin + size.max(1) {
                fast.on_ack(&Ack { now, rtt: Some(rtt), una, next: una + size, ..ack(1) });
            }
        }
    }

    #[test]
    fn alpha_segments_wait_in_equilibrium_whatever_the_rate_and_the_clock() {
        for text in ALL {
            for rate in [1_000.0, 10_000.0, 80_000.0] {
                let mut fast = fast(text, 10);
                rounds(&mut fast, rate, 400);
                let queued = fast.window() - rate * BASE;
                // At 80 segments per millisecond one tick more is 80 segments.
                let error = if text == "fast:rtt=ms" { rate / 1000.0 } else { 0.05 * ALPHA };
                assert!((queued - ALPHA).abs() <= error, "{text} {rate}: {queued}");
            }
        }
        let mut fast = fast("fast:alpha=20,rtt=us", 10);
        rounds(&mut fast, 10_000.0, 400);
        assert!((fast.window() - 1_020.0).abs() < 1.0, "{}", fast.window());
    }

    #[test]
    fn an_update_covers_half_of_the_distance() {
        for text in ALL {
            let mut fast = avoiding(text, 1000);
            read(&mut fast, 125_000);
            fast.update(true);
            // 1000 / 2 + (800 + 200) / 2
            assert!((fast.window() - 1000.0).abs() < 0.01, "{text}: {}", fast.window());
            read(&mut fast, 200_000);
            fast.update(false);
            // 1000 / 2 + (500 + 200) / 2
            assert!((fast.window() - 850.0).abs() < 0.01, "{text}: {}", fast.window());
            read(&mut fast, 100_000);
            fast.update(true);
            assert!((fast.window() - 950.0).abs() < 0.01, "{text}: {}", fast.window());
            fast.update(false);
            assert!((fast.window() - 950.0).abs() < 0.01, "{text}: {}", fast.window());
        }
    }

    #[test]
    fn only_one_way_delays_ignore_what_delays_acks() {
        let windows = ALL.map(|text| {
            let mut fast = avoiding(text, 1000);
            fast.delay.begin_window();
            // The ACK of a segment that did not queue is 100 ms late.
            let late = Ack {
                now: Instant::from_ns(5_200_300_000),
                rtt: Some(Duration::from_ms(200)),
                arrival: Some(Arrival { segment: 0, stamp: Some(82_080_300) }),
                ..ack(1)
            };
            (0..10_000).for_each(|_| fast.delay.take(&late, fast.window.size));
            fast.update(true);
            fast.window()
        });
        // 1000 / 2 + (500 + 200) / 2 and 1000 / 2 + (1000 + 200) / 2
        for (window, expected) in windows.into_iter().zip([850.0, 850.0, 850.0, 1100.0]) {
            assert!((window - expected).abs() < 0.01, "{windows:?}");
        }
    }

    #[test]
    fn a_window_at_most_doubles_and_a_loss_halves_it() {
        let mut fast = fast("fast", 20);
        fast.window.ssthresh = 2.0;
        rounds(&mut fast, 1e6, 1);
        let before = fast.window();
        rounds(&mut fast, 1e6, 2);
        assert_eq!(fast.window(), 2.0 * before);
        fast.on_congestion(Instant::ZERO, 40, Congestion::Loss);
        assert_eq!(fast.window(), before);
    }

    #[test]
    fn without_an_rtt_the_window_stays() {
        for text in ALL {
            let mut fast = fast(text, 20);
            fast.window.ssthresh = 2.0;
            for una in 1..100 {
                fast.on_ack(&Ack { una, next: una, ..ack(1) });
            }
            assert_eq!(fast.window(), 20.0, "{text}");
        }
    }

    #[test]
    fn a_shorter_path_lowers_the_base() {
        for text in ALL {
            let mut fast = fast(text, 1000);
            [200_000, 100_000, 300_000].into_iter().for_each(|rtt| read(&mut fast, rtt));
            let ratio = fast.delay.ratio().expect("samples");
            assert!((ratio - 1.0 / 3.0).abs() < 1e-3, "{text}: {ratio}");
        }
    }

    #[test]
    fn only_one_way_delays_want_stamps() {
        assert_eq!(ALL.map(|text| fast(text, 10).needs().stamps), [false, false, false, true]);
    }

    #[test]
    fn the_smallest_windows_are_two_after_a_loss_and_one_after_a_timeout() {
        let mut fast = fast("fast", 2);
        fast.on_congestion(Instant::ZERO, 2, Congestion::Loss);
        assert_eq!(fast.window(), 2.0);
        fast.on_timeout(Instant::ZERO, 2, false);
        assert_eq!((fast.window(), fast.ssthresh()), (1.0, 2.0));
    }

    proptest::proptest! {
        /// Whatever stamps a receiver makes up, the window stays finite and at least one segment.
        #[test]
        fn forged_stamps_never_break_the_window(
            stamps in proptest::collection::vec(proptest::prelude::any::<u32>(), 1..300),
            size in 1_u32..2000,
        ) {
            let mut fast = fast("fast:rtt=owd,alpha=1", size);
            fast.window.ssthresh = 2.0;
            for (una, stamp) in (1..).zip(stamps) {
                let now = Instant::from_ns(30_000_000 * una);
                let arrival = Some(Arrival { segment: una - 1, stamp: Some(stamp) });
                fast.on_ack(&Ack { now, rtt: Some(Duration::from_ms(30)), una, next: una, arrival, ..ack(1) });
                let window = fast.window();
                proptest::prop_assert!(window.is_finite() && window >= 1.0, "{}", window);
            }
        }
    }
}
