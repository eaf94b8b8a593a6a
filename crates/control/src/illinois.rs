//! Illinois: losses say when to reduce, queueing delay by how much, and how fast to grow (Liu, Basar and
//! Srikant, VALUETOOLS 2006; details as in Linux).
//!
//! With d the mean queueing delay of a round trip and D the largest of the flow:
//!
//! ```text
//! each segment acknowledged   w += alpha / w
//! loss                        w -= beta w
//! alpha = 10 for d <= D / 100, then k1 / (k2 + d), which falls to 0.3 at d = D
//! beta = 1/8 for d <= D / 10, rising linearly to 1/2 at 8/10 D and above
//! w < 15                      alpha = 1, beta = 1/2
//! ```

use super::round_trip::{Acknowledged, micros};
use super::window::{Window, delegate};
use super::{Ack, Congestion, Controller, Start};
use headway_units::{Duration, Instant};

/// Alpha is in units of 2^-7 (Linux), between 0.3 and 10 (paper).
const ALPHA_SHIFT: u32 = 7;
const ALPHA_BASE: u64 = 1 << ALPHA_SHIFT;
const ALPHA_MIN: u64 = 3 * ALPHA_BASE / 10;
const ALPHA_MAX: u64 = 10 * ALPHA_BASE;
/// Beta is in units of 2^-6 (Linux), between 1/8 and 1/2 (paper).
const BETA_SHIFT: u32 = 6;
const BETA_MIN: u64 = (1 << BETA_SHIFT) / 8;
const BETA_MAX: u64 = (1 << BETA_SHIFT) / 2;
/// Below this window alpha and beta are those of Reno, segments (Linux `win_thresh`; 10 in the paper).
const SMALL: f64 = 15.0;
/// Round trips of short delay after a longer one until alpha is at its maximum again (paper, Linux `theta`).
const THETA: u32 = 5;
/// Longest RTT that counts, us (Linux).
const MAX_RTT: u32 = 3_355_443;

/// The controller of the paper; windows are whole segments and RTTs whole microseconds, as in Linux.
#[derive(Clone, Debug, Default)]
pub struct Illinois {
    window: Window,
    alpha: u64,
    beta: u64,
    /// Minimum and maximum RTT of the flow, us.
    base: u32,
    longest: u32,
    /// Sum and number of the RTTs of this round trip, us.
    sum: u64,
    count: u64,
    /// The round trip ends when `una` passes this segment.
    end: u64,
    /// `next` of the last ACK.
    next: u64,
    /// Segments that the last ACK acknowledged cumulatively; one once they have counted.
    acked: u32,
    acknowledged: Acknowledged,
    /// Whether the delay has been above the least since alpha was at its maximum, and the round
    /// trips since it fell.
    above: bool,
    low: u32,
}

impl Illinois {
    /// A controller that starts with the initial window, at least one segment.
    pub(crate) fn new(start: &Start) -> Illinois {
        Illinois {
            window: Window::new(start.window),
            alpha: ALPHA_MAX,
            beta: BETA_MAX,
            base: u32::MAX,
            ..Illinois::default()
        }
    }

    fn take_rtt(&mut self, rtt: Duration) {
        let rtt = micros(rtt).min(MAX_RTT);
        self.base = self.base.min(rtt);
        self.longest = self.longest.max(rtt);
        self.sum += u64::from(rtt);
        self.count += 1;
    }

    /// Updates alpha and beta at the end of a round trip, and begins another.
    fn end_round_trip(&mut self) {
        if self.window.size < SMALL {
            (self.alpha, self.beta) = (ALPHA_BASE, BETA_MAX);
        } else if let Some(mean) = self.sum.checked_div(self.count) {
            let longest = u64::from(self.longest - self.base);
            let mean = mean - u64::from(self.base);
            self.alpha = self.alpha_for(mean, longest);
            self.beta = beta_for(mean, longest);
        }
        self.begin();
    }

    fn begin(&mut self) {
        (self.end, self.sum, self.count) = (self.next, 0, 0);
    }

    /// Alpha for a mean queueing delay and the largest, us.
    fn alpha_for(&mut self, mean: u64, longest: u64) -> u64 {
        let least = longest / 100;
        if mean > least {
            self.above = true;
            let (mean, longest) = (mean - least, longest - least);
            return longest * ALPHA_MAX / (longest + mean * (ALPHA_MAX - ALPHA_MIN) / ALPHA_MIN);
        }
        if self.above {
            self.low += 1;
            if self.low < THETA {
                return self.alpha;
            }
            (self.low, self.above) = (0, false);
        }
        ALPHA_MAX
    }

    /// The window after a loss.
    fn reduced(&self) -> f64 {
        let size = self.window.size as u64;
        (size - ((size * self.beta) >> BETA_SHIFT)) as f64
    }
}

/// Beta for a mean queueing delay and the largest, us.
fn beta_for(mean: u64, longest: u64) -> u64 {
    let (least, greatest) = (longest / 10, 8 * longest / 10);
    if mean <= least {
        BETA_MIN
    } else if mean >= greatest || greatest <= least {
        BETA_MAX
    } else {
        // Linear from one end of the range to the other; nothing here is negative.
        (BETA_MIN * (greatest - least) + (BETA_MAX - BETA_MIN) * (mean - least)) / (greatest - least)
    }
}

impl Controller for Illinois {
    delegate!(window: on_undo, on_idle, metrics);

    fn on_ack(&mut self, ack: &Ack) {
        self.acked = self.acknowledged.advance(ack);
        self.next = ack.next;
        if let Some(rtt) = ack.rtt {
            self.take_rtt(rtt);
        }
        if ack.reducing {
            return;
        }
        if ack.una > self.end {
            self.end_round_trip();
        }
        if !ack.window_limited {
            return;
        }
        if self.window.in_slow_start() {
            self.window.slow_start(f64::from(ack.delivered));
            return;
        }
        self.window.credit += f64::from(std::mem::replace(&mut self.acked, 1));
        let grown = (self.window.credit as u64 * self.alpha) >> ALPHA_SHIFT;
        let size = self.window.size as u64;
        if grown >= size {
            self.window.size = (size + grown / size) as f64;
            self.window.credit = 0.0;
        }
    }

    fn on_congestion(&mut self, _now: Instant, _in_flight: u32, _cause: Congestion) {
        self.window.reduce(self.reduced());
    }

    fn on_timeout(&mut self, _now: Instant, _in_flight: u32, already_reduced: bool) {
        self.window.restart(self.reduced(), already_reduced);
        (self.alpha, self.beta, self.low, self.above) = (ALPHA_BASE, BETA_MAX, 0, false);
        self.begin();
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{mean_window, start};
    use super::*;

    /// A controller in congestion avoidance with this window, with RTTs of 100 to 200 ms.
    fn avoiding(window: u32) -> Illinois {
        let mut illinois = Illinois::new(&start(window));
        illinois.window.ssthresh = 2.0;
        (illinois.base, illinois.longest) = (100_000, 200_000);
        illinois
    }

    /// The controller after a round trip with this queueing delay, in percent of the largest.
    fn after(window: u32, percent: i64) -> Illinois {
        let mut illinois = avoiding(window);
        illinois.take_rtt(Duration::from_ms(100 + percent));
        illinois.end_round_trip();
        illinois
    }

    #[test]
    fn alpha_falls_with_the_delay_from_ten_to_three_tenths() {
        for percent in [0_i64, 1, 2, 10, 50, 99, 100] {
            let alpha = after(1000, percent).alpha as f64 / 128.0;
            // k1 / (k2 + d), 10 at D / 100 and 0.3 at D.
            let (least, delay) = (1.0, (percent as f64).max(1.0));
            let k1 = (100.0 - least) * 0.3 * 10.0 / 9.7;
            let k2 = (100.0 - least) * 0.3 / 9.7 - least;
            let expected = k1 / (k2 + delay);
            assert!((alpha / expected - 1.0).abs() < 0.04, "{percent} %: {alpha}, expected {expected}");
        }
    }

    #[test]
    fn beta_rises_with_the_delay_from_an_eighth_to_a_half() {
        for (percent, left) in [(0, 875.0), (10, 875.0), (45, 687.5), (80, 500.0), (100, 500.0)] {
            let mut illinois = after(1000, percent);
            illinois.on_congestion(Instant::ZERO, 1000, Congestion::Loss);
            assert!((illinois.window() - left).abs() <= 16.0, "{percent} %: {}", illinois.window());
        }
    }

    #[test]
    fn small_windows_are_renos() {
        let mut small = after(14, 0);
        assert_eq!((small.alpha, small.beta), (ALPHA_BASE, BETA_MAX));
        small.on_congestion(Instant::ZERO, 14, Congestion::Loss);
        assert_eq!(small.window(), 7.0);
        let mut least = after(2, 0);
        least.on_congestion(Instant::ZERO, 2, Congestion::Loss);
        assert_eq!(least.window(), 2.0);
    }

    #[test]
    fn alpha_recovers_after_five_round_trips_of_short_delay() {
        let mut illinois = after(1000, 50);
        let slow = illinois.alpha;
        for round in 1..=5 {
            illinois.take_rtt(Duration::from_ms(100));
            illinois.end_round_trip();
            let expected = if round < 5 { slow } else { ALPHA_MAX };
            assert_eq!(illinois.alpha, expected, "round trip {round}");
        }
    }

    #[test]
    fn without_samples_the_parameters_stay_and_a_timeout_makes_them_renos() {
        let mut illinois = after(1000, 50);
        let before = (illinois.alpha, illinois.beta);
        illinois.end_round_trip();
        assert_eq!((illinois.alpha, illinois.beta), before);
        illinois.on_timeout(Instant::ZERO, 1000, false);
        assert_eq!((illinois.alpha, illinois.beta, illinois.window()), (ALPHA_BASE, BETA_MAX, 1.0));
    }

    #[test]
    fn random_losses_without_a_queue_leave_a_window_of_aimd_with_ten_and_an_eighth() {
        // sqrt(alpha (2 - beta) / (2 beta) / p) segments.
        let loss = 1e-4_f64;
        let mean = mean_window(&mut Illinois::new(&start(100)), loss);
        let expected = (10.0 * 1.875 / 0.25 / loss).sqrt();
        assert!((mean / expected - 1.0).abs() < 0.05, "{mean} segments, expected {expected}");
    }
}
