//! Veno: Reno that takes losses for random where the queue is short (Fu and Liew, JSAC 21(2), 2003;
//! details as in Linux).
//!
//! With the RTT of an ACK and the minimum RTT of the flow (base), n = w (1 - base / RTT)
//! segments are in the queue:
//!
//! ```text
//! n < 3     w += 1 per round trip;          a loss is random: w = 4/5 w
//! n >= 3    w += 1 every other round trip;  a loss is congestion: w = w / 2
//! ```

use super::round_trip::RoundTrip;
use super::window::{MIN_SSTHRESH, Window, delegate};
use super::{Ack, Congestion, Controller, Start};
use headway_units::{Duration, Instant};

/// From this many segments in the queue on a path is congested, in halves of a segment
/// (paper, Linux: 3 segments).
const BETA: u64 = 3 << 1;
/// With no more samples than this the window grows as Reno's (Linux).
const FEW_SAMPLES: u32 = 2;

/// The controller of the paper; windows are whole segments, as in Linux.
///
/// In Linux n follows every single ACK, and a flow with nothing in flight forgets its base RTT. While
/// segments are missing, and after a timeout, the window grows as Reno's.
#[derive(Clone, Debug)]
pub struct Veno {
    window: Window,
    round: RoundTrip,
    /// Samples of the flow, up to [`FEW_SAMPLES`] + 1.
    samples: u32,
    /// Segments in the queue, in halves.
    queued: u64,
    /// Whether the window grows at the end of the round trip, where it grows at every other one only.
    grows: bool,
}

impl Veno {
    /// A controller that starts with the initial window, at least one segment.
    pub(crate) fn new(start: &Start) -> Veno {
        Veno {
            window: Window::new(start.window),
            round: RoundTrip::new(),
            samples: 0,
            queued: 0,
            grows: true,
        }
    }

    fn grow(&mut self, ack: &Ack) {
        if !self.round.active {
            return self.window.grow_additively(ack);
        }
        if !ack.window_limited {
            return;
        }
        if self.samples <= FEW_SAMPLES {
            self.window.grow_additively(ack);
        } else {
            self.estimate();
            self.grow_by_queue(f64::from(ack.delivered));
            self.window.size = self.window.size.max(MIN_SSTHRESH);
        }
        self.round.forget_least();
    }

    /// Updates the number of segments in the queue.
    fn estimate(&mut self) {
        let doubled = (self.window.size as u64) << 1;
        let expected = doubled * u64::from(self.round.base) / u64::from(self.round.least);
        self.queued = doubled - expected;
    }

    fn grow_by_queue(&mut self, mut acked: f64) {
        if self.window.in_slow_start() {
            acked = self.window.slow_start(acked);
            if acked == 0.0 {
                return;
            }
        }
        if self.queued < BETA {
            self.window.grow(self.window.size, acked);
        } else if self.window.credit < self.window.size {
            self.window.credit += acked;
        } else {
            self.window.size += f64::from(u8::from(self.grows));
            self.window.credit = 0.0;
            self.grows = !self.grows;
        }
    }

    /// The window after a loss.
    fn reduced(&self) -> f64 {
        let size = self.window.size;
        if self.queued < BETA { (size * 4.0 / 5.0).floor() } else { (size / 2.0).floor() }
    }
}

impl Controller for Veno {
    delegate!(window: on_undo, on_idle, metrics);

    fn on_ack(&mut self, ack: &Ack) {
        self.samples = (self.samples + u32::from(ack.rtt.is_some())).min(FEW_SAMPLES + 1);
        self.round.take(ack);
        if !ack.reducing {
            self.grow(ack);
        }
        if self.round.forget_if_idle(ack) {
            self.grows = true;
        }
    }

    fn on_congestion(&mut self, _now: Instant, _in_flight: u32, _cause: Congestion) {
        self.window.reduce(self.reduced());
    }

    fn on_timeout(&mut self, _now: Instant, _in_flight: u32, already_reduced: bool) {
        self.window.restart(self.reduced(), already_reduced);
        self.round.on_timeout();
        self.grows = true;
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{ack, mean_window, start};
    use super::*;

    const BASE: Duration = Duration::from_ms(100);

    /// A controller in congestion avoidance with this window, which has seen RTTs of 100 ms.
    fn avoiding(window: u32) -> Veno {
        let mut veno = Veno::new(&start(window));
        veno.window.ssthresh = 2.0;
        for _ in 0..3 {
            veno.on_ack(&Ack { rtt: Some(BASE), in_flight: 1, reducing: true, ..ack(1) });
        }
        veno
    }

    /// Acknowledges this many segments one by one, with this RTT.
    fn acknowledge(veno: &mut Veno, count: u32, rtt: Duration) {
        (0..count).for_each(|_| veno.on_ack(&Ack { rtt: Some(rtt), in_flight: 1, ..ack(1) }));
    }

    #[test]
    fn a_loss_with_less_than_three_segments_in_the_queue_takes_a_fifth() {
        // 100 segments; n = 100 (1 - base / RTT) is 3 where the RTT is base / 0.97.
        for (delay, left) in [(1.0, 80.0), (1.02, 80.0), (1.04, 50.0), (2.0, 50.0)] {
            let mut veno = avoiding(100);
            acknowledge(&mut veno, 2, BASE.scale(delay));
            veno.on_congestion(Instant::ZERO, 100, Congestion::Loss);
            assert_eq!(veno.window(), left, "{delay}");
        }
    }

    #[test]
    fn it_grows_every_round_trip_and_with_a_queue_every_other_one() {
        let mut veno = avoiding(100);
        acknowledge(&mut veno, 100 + 101 + 102, BASE);
        assert_eq!(veno.window(), 103.0);
        let mut queued = avoiding(100);
        acknowledge(&mut queued, 6 * 103, BASE * 2);
        assert_eq!(queued.window(), 103.0);
    }

    #[test]
    fn random_losses_cost_less_than_in_reno() {
        // AIMD with a reduction to 4/5: sqrt((1 + 4/5) / (2 (1 - 4/5)) / p) segments.
        let loss = 1e-4_f64;
        let mean = mean_window(&mut avoiding(100), loss);
        let expected = (1.8 / 0.4 / loss).sqrt();
        assert!((mean / expected - 1.0).abs() < 0.03, "{mean} segments, expected {expected}");
    }

    #[test]
    fn an_idle_flow_forgets_its_base_and_missing_samples_are_no_queue() {
        let mut veno = avoiding(100);
        veno.on_ack(&Ack { rtt: Some(BASE), in_flight: 0, ..ack(1) });
        acknowledge(&mut veno, 5, BASE * 3);
        assert_eq!(veno.queued, 0);
        veno.on_ack(&Ack { rtt: None, in_flight: 0, ..ack(1) });
        veno.on_ack(&Ack { rtt: None, in_flight: 1, ..ack(1) });
        assert_eq!(veno.queued, 0);
    }

    #[test]
    fn windows_stay_at_two_segments_or_more() {
        let mut veno = avoiding(2);
        veno.on_congestion(Instant::ZERO, 2, Congestion::Loss);
        assert_eq!(veno.window(), 2.0);
        veno.on_timeout(Instant::ZERO, 2, false);
        assert_eq!((veno.window(), veno.ssthresh()), (1.0, 2.0));
    }
}
