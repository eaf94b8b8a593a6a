//! TCP Nice: Vegas for background transfers, with windows down to 1/48 of a segment
//! (Venkataramani et al.; ls-aimd 3).

use super::window::{Window, delegate};
use super::{Ack, Congestion, Controller, Needs, Start};
use headway_units::{Duration, Instant};

/// A segment counts as congested if its RTT is above this fraction of the way from the
/// minimum to the maximum RTT.
const THRESHOLD: f64 = 0.2;
/// The window halves if more than this fraction of its segments is congested.
const FRACTION: f64 = 0.5;
/// Vegas grows with fewer than `ALPHA` of its segments in the queue, and shrinks with more than `BETA`.
const ALPHA: f64 = 1.0;
const BETA: f64 = 3.0;
/// The minimum window in segments: two per 96 round trips.
const MIN_WINDOW: f64 = 1.0 / 48.0;
/// Below this window pairs of segments leave by a timer; a receiver with delayed ACKs answers a pair at once.
const PAIR: f64 = 2.0;

/// A controller for background transfers: it backs off at any queue.
#[derive(Clone, Debug, Default)]
pub struct Nice {
    window: Window,
    smoothed: Option<Duration>,
    /// Minimum and maximum RTT so far; the maximum starts at twice the first sample.
    extremes: Option<(Duration, Duration)>,
    /// The minimum RTT of this round.
    least: Option<Duration>,
    /// Congested segments of this round.
    congested: u32,
    /// The round ends when everything below this segment is acknowledged.
    end: u64,
    /// Whether slow start grows in this round: every second one, as in Vegas.
    doubling: bool,
    /// `next` of the last ACK.
    next: u64,
    /// The first segment of the first pair since the window fell below [`PAIR`]; every second one
    /// after it begins another.
    first: u64,
}

impl Nice {
    /// A controller that starts with the initial window, at least one segment.
    pub(crate) fn new(start: &Start) -> Nice {
        Nice { window: Window::new(start.window), doubling: true, ..Nice::default() }
    }

    fn in_pairs(&self) -> bool {
        self.window.size < PAIR
    }

    fn resize(&mut self, size: f64) {
        if size < PAIR && !self.in_pairs() {
            self.first = self.next;
        }
        self.window.size = size.max(MIN_WINDOW);
        self.window.ssthresh = self.window.size;
    }

    fn measure(&mut self, rtt: Duration, segments: u32) {
        let (least, greatest) =
            self.extremes.map_or((rtt, rtt * 2), |(least, greatest)| (least.min(rtt), greatest.max(rtt)));
        self.extremes = Some((least, greatest));
        self.least = Some(self.least.map_or(rtt, |least| least.min(rtt)));
        if rtt > least + (greatest - least).scale(THRESHOLD) {
            self.congested += segments;
        }
    }

    /// Ends a round: halves the window if much of it was congested, otherwise follows Vegas.
    fn end_round(&mut self, may_grow: bool) {
        let (Some((base, _)), Some(rtt)) = (self.extremes, self.least) else { return };
        let size = self.window.size;
        let queued = size * ((rtt - base).secs_f64() / rtt.secs_f64());
        if f64::from(self.congested) > FRACTION * size {
            self.resize(size / 2.0);
        } else if self.window.in_slow_start() {
            self.doubling = !self.doubling;
            if queued > ALPHA {
                self.resize(size);
            }
        } else if queued > BETA {
            self.resize(size - 1.0);
        } else if queued < ALPHA && may_grow {
            self.resize(size + 1.0);
        }
    }
}

impl Controller for Nice {
    delegate!(window: on_undo, metrics);

    fn on_ack(&mut self, ack: &Ack) {
        self.smoothed = ack.smoothed;
        self.next = ack.next;
        if let Some(rtt) = ack.rtt {
            self.measure(rtt, ack.delivered);
        }
        if self.window.in_slow_start() && self.doubling && !ack.reducing && ack.window_limited {
            self.window.slow_start(f64::from(ack.delivered));
        }
        if ack.una >= self.end {
            // The reduction has answered marks and losses already.
            if !ack.reducing {
                self.end_round(ack.window_limited);
            }
            (self.end, self.least, self.congested) = (ack.next, None, 0);
        }
    }

    fn on_congestion(&mut self, _now: Instant, _in_flight: u32, _cause: Congestion) {
        self.resize(self.window.size / 2.0);
    }

    fn on_timeout(&mut self, _now: Instant, _in_flight: u32, _reduced: bool) {
        self.resize(self.window.size.min(2.0) / 2.0);
    }

    fn flight_limit(&self) -> u32 {
        self.window.size.max(PAIR) as u32
    }

    fn gap(&self, next: u64) -> Option<Duration> {
        let smoothed = self.smoothed.filter(|_| self.in_pairs())?;
        if next.wrapping_sub(self.first) % 2 == 1 {
            return Some(Duration::ZERO);
        }
        // The timer counts whole round trips.
        Some(smoothed * (PAIR / self.window.size).round() as i64)
    }

    /// PRR cannot reach a window below two segments.
    fn needs(&self) -> Needs {
        Needs { prr: false, ..Needs::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{ack, start};
    use super::*;

    const BASE: Duration = Duration::from_ms(10);

    /// A controller in congestion avoidance with this window, which has seen RTTs of 10 to 20 ms.
    fn nice(window: u32) -> Nice {
        let mut nice = Nice::new(&start(2 * window));
        nice.smoothed = Some(BASE);
        nice.measure(BASE, 0);
        nice.on_congestion(Instant::ZERO, window, Congestion::Loss);
        (nice.end, nice.least) = (10, None);
        nice
    }

    /// Ends a round of ten segments with this RTT.
    fn round(nice: &mut Nice, rtt: Duration) {
        for una in 1..=10 {
            nice.on_ack(&Ack { rtt: Some(rtt), smoothed: Some(BASE), una, next: 10, ..ack(1) });
        }
    }

    #[test]
    fn a_window_halves_when_half_of_it_is_a_fifth_of_the_way_to_the_longest_delay() {
        let mut near = nice(10);
        round(&mut near, BASE.scale(1.19));
        assert_eq!(near.window(), 10.0);
        let mut far = nice(10);
        round(&mut far, BASE.scale(1.21));
        assert_eq!(far.window(), 5.0);
    }

    #[test]
    fn vegas_keeps_one_to_three_segments_in_the_queue() {
        let after = |window, delay: f64| {
            let mut nice = nice(window);
            round(&mut nice, BASE.scale(delay));
            nice.window()
        };
        // The queued segments are the window times the queueing delay over the RTT.
        assert_eq!(
            [after(10, 1.0), after(10, 1.1), after(10, 1.15), after(40, 1.1)],
            [11.0, 11.0, 10.0, 39.0]
        );
    }

    /// The minimum rate is one segment per 48 round trips: two per 96, back to back.
    #[test]
    fn small_windows_are_pairs_on_a_timer_of_whole_round_trips() {
        let mut nice = nice(2);
        assert_eq!((nice.gap(0), nice.flight_limit()), (None, 2));
        for trips in [2, 4, 8, 16, 32, 64, 96, 96] {
            nice.on_congestion(Instant::ZERO, 2, Congestion::Mark);
            assert_eq!(
                [0, 1, 2].map(|next| nice.gap(next)),
                [Some(BASE * trips), Some(Duration::ZERO), Some(BASE * trips)]
            );
        }
        assert_eq!((nice.window(), nice.flight_limit()), (1.0 / 48.0, 2));
    }
}
