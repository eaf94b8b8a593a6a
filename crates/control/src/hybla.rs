//! Hybla: gives flows with long RTTs the growth of one with 25 ms (Caini and Firrincieli, 2004;
//! details as in Linux).
//!
//! With rho = max(RTT / 25 ms, 1), for each ACK:
//!
//! ```text
//! slow start              w += 2^rho - 1
//! congestion avoidance    w += rho^2 / w
//! loss                    w = w / 2
//! ```

use super::window::{Window, cuts, delegate};
use super::{Ack, Congestion, Controller, RecoveryState, Start};
use headway_units::{Duration, Instant};

/// The RTT of the flow whose growth others get, ns (paper, Linux `rtt0`).
const REFERENCE: u64 = 25_000_000;
/// The unit of rho, as a shift: an eighth (Linux).
const RHO_SHIFT: u32 = 3;
/// The unit of growth, as a shift: 1/128 segment (Linux).
const SHIFT: u32 = 7;
/// 2^(n / 8) in units of 1/128, rounded down.
const ROOTS: [u64; 8] = [128, 139, 152, 165, 181, 197, 215, 234];
/// Most whole doublings per ACK in slow start (Linux).
const MAX_DOUBLINGS: u64 = 16;
/// Largest window, segments (Linux).
const MAX_WINDOW: f64 = 65_535.0;

/// The controller of the paper; windows are whole segments, and rho eighths, as in Linux.
///
/// In Linux the initial window is rho, whatever else is configured, rho follows the minimum of the smoothed
/// RTT, growth is per ACK, not per segment acknowledged, and rounds to nothing below a segment per 128 ACKs.
/// While segments are missing, and after a timeout, the window grows as Reno's.
#[derive(Clone, Debug)]
pub struct Hybla {
    window: Window,
    /// Rho in eighths.
    rho: u64,
    /// The smoothed RTT that `rho` was computed from; absent before the first.
    rtt: Option<Duration>,
    /// Growth that has not made a segment yet, in 1/128.
    parts: u64,
}

impl Hybla {
    /// A controller that starts with a window of one segment, until an RTT is known.
    pub(crate) fn new(start: &Start) -> Hybla {
        let mut window = Window::new(start.window);
        window.size = 1.0;
        Hybla { window, rho: 1 << RHO_SHIFT, rtt: None, parts: 0 }
    }

    /// Follows the minimum of the smoothed RTT.
    fn update_rho(&mut self, smoothed: Duration) {
        if self.rtt.is_none_or(|least| smoothed < least) {
            self.rtt = Some(smoothed);
            let rho = (smoothed.ns().unsigned_abs() << RHO_SHIFT) / REFERENCE;
            self.rho = rho.max(1 << RHO_SHIFT);
        }
    }

    /// The growth with an ACK, in 1/128 segment.
    fn increment(&self) -> u64 {
        let (whole, rest) = (self.rho >> RHO_SHIFT, self.rho & 7);
        if self.window.in_slow_start() {
            (ROOTS[rest as usize] << whole.min(MAX_DOUBLINGS)) - (1 << SHIFT)
        } else {
            // Rho squared has 64ths.
            ((self.rho * self.rho) << (SHIFT - 2 * RHO_SHIFT)) / self.window.size as u64
        }
    }

    fn grow(&mut self) {
        let in_slow_start = self.window.in_slow_start();
        let increment = self.increment();
        if !in_slow_start && increment < 1 << SHIFT {
            self.window.credit += 1.0;
        }
        self.parts += increment;
        let segments = self.parts >> SHIFT;
        self.parts -= segments << SHIFT;
        self.window.size += segments as f64;
        if segments > increment >> SHIFT {
            self.window.credit = 0.0;
        }
        if increment == 0 && self.window.credit >= self.window.size {
            self.window.size += 1.0;
            self.window.credit = 0.0;
        }
        if in_slow_start {
            self.window.size = self.window.size.min(self.window.ssthresh);
        }
        self.window.size = self.window.size.min(MAX_WINDOW);
    }
}

impl Controller for Hybla {
    delegate!(window: on_undo, on_idle, metrics);

    fn on_open(&mut self, _now: Instant, rtt: Duration) {
        self.update_rho(rtt);
        self.window.size = (self.rho >> RHO_SHIFT) as f64;
    }

    fn on_ack(&mut self, ack: &Ack) {
        if ack.reducing {
            return;
        }
        if let Some(smoothed) = ack.smoothed {
            self.update_rho(smoothed);
        }
        if ack.state != RecoveryState::Open {
            self.window.grow_additively(ack);
        } else if ack.window_limited {
            self.grow();
        }
    }

    cuts!(|this| this.window.half());
}

#[cfg(test)]
mod tests {
    use super::super::testing::{ack, start};
    use super::*;

    /// A controller with this RTT, ms, and in congestion avoidance with this window.
    fn avoiding(rtt: i64, window: u32) -> Hybla {
        let mut hybla = Hybla::new(&start(10));
        hybla.on_open(Instant::ZERO, Duration::from_ms(rtt));
        (hybla.window.size, hybla.window.ssthresh) = (f64::from(window), 2.0);
        hybla
    }

    #[test]
    fn growth_per_round_trip_is_the_square_of_the_rtt_ratio() {
        for (rtt, window, grown) in [(25, 50, 1.0), (50, 100, 4.0), (100, 400, 16.0), (250, 1000, 100.0)] {
            let mut hybla = avoiding(rtt, window);
            (0..window).for_each(|_| hybla.on_ack(&ack(1)));
            let increase = hybla.window() - f64::from(window);
            assert!((increase - grown).abs() <= 0.25 * grown + 1.0, "{rtt} ms: {increase}, expected {grown}");
        }
    }

    #[test]
    fn growth_per_second_does_not_depend_on_the_rtt() {
        // A window of a second's worth of segments at 1000 segments per second.
        let rate = |rtt: i64| {
            let mut hybla = avoiding(rtt, rtt as u32);
            (0..1000).for_each(|_| hybla.on_ack(&ack(1)));
            (hybla.window() - rtt as f64) / rtt as f64
        };
        let expected = rate(50);
        for rtt in [100, 200, 400] {
            assert!((rate(rtt) / expected - 1.0).abs() < 0.15, "{rtt} ms: {}, {expected}", rate(rtt));
        }
    }

    #[test]
    fn slow_start_adds_a_power_of_two_less_one_per_acknowledgement() {
        let mut hybla = Hybla::new(&start(10));
        hybla.on_open(Instant::ZERO, Duration::from_ms(75));
        assert_eq!(hybla.window(), 3.0);
        hybla.on_ack(&ack(1));
        assert_eq!(hybla.window(), 10.0);
        hybla.on_ack(&ack(2));
        assert_eq!(hybla.window(), 17.0);
        hybla.window.ssthresh = 20.0;
        hybla.on_ack(&ack(1));
        assert_eq!(hybla.window(), 20.0);
    }

    #[test]
    fn only_a_shorter_rtt_changes_rho_and_none_leaves_it_at_one() {
        let mut hybla = avoiding(100, 100);
        for (smoothed, rho) in [(200, 32), (50, 16), (100, 16), (10, 8)] {
            hybla.on_ack(&Ack { smoothed: Some(Duration::from_ms(smoothed)), ..ack(1) });
            assert_eq!(hybla.rho, rho);
        }
        let mut without = Hybla::new(&start(10));
        without.on_ack(&ack(1));
        assert_eq!((without.rho, without.window()), (8, 2.0));
    }

    #[test]
    fn growth_of_less_than_a_part_per_ack_takes_a_window_of_acks() {
        let mut hybla = avoiding(25, 200);
        (0..199).for_each(|_| hybla.on_ack(&ack(1)));
        assert_eq!(hybla.window(), 200.0);
        hybla.on_ack(&ack(1));
        assert_eq!(hybla.window(), 201.0);
    }

    #[test]
    fn after_a_timeout_it_grows_as_reno() {
        let mut hybla = avoiding(250, 1000);
        hybla.on_timeout(Instant::ZERO, 1000, false);
        assert_eq!((hybla.window(), hybla.ssthresh()), (1.0, 500.0));
        hybla.on_ack(&Ack { state: RecoveryState::Loss, ..ack(1) });
        assert_eq!(hybla.window(), 2.0);
        hybla.on_congestion(Instant::ZERO, 2, Congestion::Loss);
        assert_eq!(hybla.window(), 2.0);
    }
}
