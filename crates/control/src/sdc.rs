//! SDC: the sender delays segments instead of using windows below eight (Hsiao et al.; ls-aimd 3).

use super::window::{MIN_WINDOW, Window, delegate};
use super::{Ack, Congestion, Controller, Needs, Start};
use headway_units::{Duration, Instant};

/// The minimum flight in segments, enough for three duplicate ACKs and some losses (ls-aimd 3).
const MIN_FLIGHT: f64 = 8.0;

/// Sender delay control: below eight segments the flight stays, and the sender adds a delay to the RTT.
///
/// If TCP had a window of `w`, the delay is `(8 / w - 1)` RTTs, so that `8 / (rtt + delay) = w / rtt`. The
/// source says that the delay shrinks about as fast as TCP would increase: here `w` grows by one segment
/// per eight acknowledged.
#[derive(Clone, Debug)]
pub struct Sdc {
    /// The window that TCP would have at this rate.
    window: Window,
    rtt: Option<Duration>,
}

impl Sdc {
    /// A controller that starts with the initial window, at least one segment.
    pub(crate) fn new(start: &Start) -> Sdc {
        Sdc { window: Window::new(start.window), rtt: None }
    }

    /// Sets window and ssthresh to `size`, which may be a fraction.
    fn reduce(&mut self, size: f64) {
        self.window.reduce(size);
        if size < MIN_FLIGHT {
            self.window.size = size.max(MIN_WINDOW);
            self.window.ssthresh = self.window.size;
        }
    }

    fn delays(&self) -> bool {
        self.window.size < MIN_FLIGHT
    }
}

impl Controller for Sdc {
    delegate!(window: on_undo, metrics);

    fn on_ack(&mut self, ack: &Ack) {
        self.rtt = ack.smoothed;
        if !self.delays() || self.window.in_slow_start() {
            self.window.grow_additively(ack);
        } else if !ack.reducing && ack.window_limited {
            self.window.size += f64::from(ack.delivered) / MIN_FLIGHT;
        }
    }

    fn on_congestion(&mut self, _now: Instant, _in_flight: u32, _cause: Congestion) {
        self.reduce(self.window.size / 2.0);
    }

    fn on_timeout(&mut self, _now: Instant, _in_flight: u32, already_reduced: bool) {
        let below = self.window.size.min(1.0) / 2.0;
        self.window.restart(self.window.size / 2.0, already_reduced);
        // Below one segment there is no smaller window to restart from: the rate halves.
        if below < 0.5 {
            self.reduce(below);
        }
    }

    fn flight_limit(&self) -> u32 {
        self.window.size.max(MIN_FLIGHT) as u32
    }

    fn gap(&self, _next: u64) -> Option<Duration> {
        let rtt = self.rtt.filter(|_| self.delays())?;
        Some(rtt.scale(1.0 / self.window.size))
    }

    /// Delays bring the rate down, not a smaller flight.
    fn needs(&self) -> Needs {
        Needs { prr: false, ..Needs::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{ack, start};
    use super::*;

    /// The example of the source: eight segments per 1 ms of RTT and 1 ms of delay are four per 1 ms.
    #[test]
    fn a_window_of_four_is_one_of_eight_with_as_much_delay_as_round_trip() {
        let mut sdc = Sdc::new(&start(8));
        assert_eq!((sdc.gap(0), sdc.flight_limit()), (None, 8));
        sdc.rtt = Some(Duration::from_ms(1));
        sdc.on_congestion(Instant::ZERO, 8, Congestion::Mark);
        assert_eq!((sdc.window(), sdc.flight_limit()), (4.0, 8));
        assert_eq!(sdc.gap(0).map(|gap| gap * 8), Some(Duration::from_ms(2)));
    }

    #[test]
    fn eight_acknowledgements_make_a_segment_more() {
        let mut sdc = Sdc::new(&start(8));
        for _ in 0..5 {
            sdc.on_congestion(Instant::ZERO, 8, Congestion::Mark);
        }
        assert_eq!(sdc.window(), 0.25);
        for _ in 0..8 {
            sdc.on_ack(&ack(1));
        }
        assert_eq!(sdc.window(), 1.25);
        sdc.on_ack(&Ack { reducing: true, ..ack(8) });
        assert_eq!(sdc.window(), 1.25);
    }

    #[test]
    fn from_eight_segments_on_it_is_reno() {
        let mut sdc = Sdc::new(&start(32));
        sdc.on_congestion(Instant::ZERO, 32, Congestion::Loss);
        assert_eq!((sdc.window(), sdc.gap(0)), (16.0, None));
        sdc.on_ack(&ack(16));
        assert_eq!((sdc.window(), sdc.flight_limit()), (17.0, 17));
        sdc.on_timeout(Instant::ZERO, 17, false);
        assert_eq!((sdc.window(), sdc.ssthresh()), (1.0, 8.5));
        sdc.on_timeout(Instant::ZERO, 1, false);
        assert_eq!(sdc.window(), 1.0);
    }
}
