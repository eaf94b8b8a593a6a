//! H-TCP: grows by more the longer the last loss is past, and backs off by the ratio of RTTs (Leith and
//! Shorten, 2004; draft-leith-tcp-htcp-06; details as in Linux).
//!
//! With t the time since the last reduction in seconds, B the highest rate since then and B' the one before:
//!
//! ```text
//! f = 1                                    t <= 1
//! f = 1 + 10 (t - 1) + ((t - 1) / 2)^2     t > 1
//! each segment acknowledged   w += alpha / w, with alpha = 2 (1 - beta) f RTTmin / 100 ms
//! loss                        w = beta w
//! beta = RTTmin / RTTmax, 0.5 to 0.8; 0.5 if B and B' differ by more than 20 %
//! ```
//!
//! The ratio of `RTTmin` to 100 ms counts between 1/10 and 2.

use super::round_trip::Acknowledged;
use super::ticks::{self, PER_SECOND};
use super::window::{Window, delegate};
use super::{Ack, Congestion, Controller, RecoveryState, Start};
use headway_units::{Duration, Instant};

/// Alpha and beta are in units of 2^-7 (Linux).
const SHIFT: u32 = 7;
/// Alpha before the first reduction: 1.
const ALPHA_BASE: u64 = 1 << SHIFT;
/// Limits of beta: 0.5 and 0.8 (draft 3.2, Linux).
const BETA_MIN: u64 = 64;
const BETA_MAX: u64 = 102;
/// Beta follows RTTs above this only, ticks: shorter ones are too coarse (Linux).
const MIN_RTT: u64 = 10;
/// An RTT above the maximum by more than this is taken for an outlier, ticks (Linux).
const MAX_STEP: u64 = 20;
/// The part of the range of RTTs that a reduction remembers, %: paths change (Linux).
const MEMORY: u64 = 95;
/// For this many RTTs after a reduction the measured rate begins anew (Linux).
const SETTLING: u64 = 3;
/// Growth refers to this RTT in tenths of a second: 100 ms (Linux `use_rtt_scaling`).
const PER_REFERENCE: u64 = 10;

/// The controller of the draft; windows are whole segments and times ticks of 1 ms, as in Linux.
#[derive(Clone, Debug, Default)]
pub struct HTcp {
    window: Window,
    alpha: u64,
    beta: u64,
    /// Whether beta may follow the RTTs: not at the first reduction after the rate has changed.
    adaptive: bool,
    /// Segments that the last ACK acknowledged cumulatively; one once they have counted.
    acked: u32,
    acknowledged: Acknowledged,
    /// Minimum and maximum RTT, ticks; zero before the first sample.
    min_rtt: u64,
    max_rtt: u64,
    /// When the last reduction began or ended, ticks.
    last: u64,
    /// What a reduction changed, until it ends.
    before: Option<Before>,
    rates: Rates,
    state: RecoveryState,
}

/// What a reduction changes.
#[derive(Clone, Debug)]
struct Before {
    last: u64,
    max_rtt: u64,
    highest: u64,
}

/// The rates between reductions, segments per second.
#[derive(Clone, Debug, Default)]
struct Rates {
    /// Smoothed rate.
    now: u64,
    /// The highest smoothed rate since the last reduction, and before it.
    highest: u64,
    before: u64,
    /// Segments since `begin`, in ticks.
    segments: u32,
    begin: u64,
}

impl HTcp {
    /// A controller that starts with the initial window, at least one segment.
    pub(crate) fn new(start: &Start) -> HTcp {
        HTcp {
            window: Window::new(start.window),
            alpha: ALPHA_BASE,
            beta: BETA_MIN,
            acked: 1,
            state: RecoveryState::Open,
            ..HTcp::default()
        }
    }

    /// Updates the extremes of the RTT; the maximum only while nothing is missing.
    fn take_rtt(&mut self, rtt: u64) {
        if self.min_rtt == 0 || rtt < self.min_rtt {
            self.min_rtt = rtt;
        }
        if self.state == RecoveryState::Open {
            self.max_rtt = self.max_rtt.max(self.min_rtt);
            if rtt > self.max_rtt && rtt <= self.max_rtt + MAX_STEP {
                self.max_rtt = rtt;
            }
        }
    }

    /// Measures the rate, once per window.
    fn measure(&mut self, now: u64, acked: u32) {
        let rates = &mut self.rates;
        if self.state > RecoveryState::Disorder {
            (rates.segments, rates.begin) = (0, now);
            return;
        }
        rates.segments = rates.segments.saturating_add(acked);
        let length = now.saturating_sub(rates.begin);
        let window = (self.window.size as u32).wrapping_sub((self.alpha >> SHIFT).max(1) as u32);
        if rates.segments < window || self.min_rtt == 0 || length < self.min_rtt {
            return;
        }
        let rate = u64::from(rates.segments) * PER_SECOND / length;
        if now.saturating_sub(self.last) / self.min_rtt <= SETTLING {
            (rates.now, rates.highest) = (rate, rate);
        } else {
            rates.now = (3 * rates.now + rate) / 4;
            rates.highest = rates.highest.max(rates.now);
        }
        (rates.segments, rates.begin) = (0, now);
    }

    /// Computes alpha for a tick.
    fn update_alpha(&mut self, now: u64) {
        let time = now.saturating_sub(self.last);
        let mut factor = 1;
        if time > PER_SECOND {
            let past = time - PER_SECOND;
            factor += (10 * past + (past / 2).saturating_mul(past / 2) / PER_SECOND) / PER_SECOND;
        }
        if self.min_rtt > 0 {
            let eighths = (PER_SECOND << 3) / (PER_REFERENCE * self.min_rtt);
            factor = ((factor << 3) / eighths.clamp(4, 80)).max(1);
        }
        self.alpha = 2 * factor * ((1 << SHIFT) - self.beta);
    }

    /// Computes beta at a reduction.
    fn update_beta(&mut self) {
        let (now, before) = (self.rates.highest, self.rates.before);
        self.rates.before = now;
        let steady = 5 * now >= 4 * before && 5 * now <= 6 * before;
        if steady && self.adaptive && self.min_rtt > MIN_RTT && self.max_rtt > 0 {
            self.beta = ((self.min_rtt << SHIFT) / self.max_rtt).clamp(BETA_MIN, BETA_MAX);
        } else {
            self.beta = BETA_MIN;
            self.adaptive = steady;
        }
    }

    /// Updates the parameters at a reduction, and returns the window after it.
    fn reduced(&mut self, now: u64) -> f64 {
        self.update_beta();
        self.update_alpha(now);
        if self.min_rtt > 0 && self.max_rtt > self.min_rtt {
            self.max_rtt = self.min_rtt + (self.max_rtt - self.min_rtt) * MEMORY / 100;
        }
        f64::from(((self.window.size as u64 * self.beta) >> SHIFT) as u32)
    }

    /// A reduction begins.
    fn begin_reduction(&mut self, now: u64, state: RecoveryState) {
        let before = Before { last: self.last, max_rtt: self.max_rtt, highest: self.rates.before };
        (self.before, self.last, self.state) = (Some(before), now, state);
    }

    fn grow(&mut self, now: u64) {
        if (self.window.credit as u64 * self.alpha) >> SHIFT >= self.window.size as u64 {
            self.window.size += 1.0;
            self.window.credit = 0.0;
            self.update_alpha(now);
        } else {
            self.window.credit += f64::from(self.acked);
        }
        self.acked = 1;
    }
}

impl Controller for HTcp {
    delegate!(window: on_idle, metrics);

    fn on_open(&mut self, now: Instant, _rtt: Duration) {
        self.last = ticks::tick(now);
    }

    fn on_ack(&mut self, ack: &Ack) {
        let (now, acked) = (ticks::tick(ack.now), self.acknowledged.advance(ack));
        if self.state == RecoveryState::Open {
            self.acked = acked;
        }
        if let Some(rtt) = ack.rtt.filter(|rtt| *rtt > Duration::ZERO) {
            self.take_rtt(ticks::rounded_up(rtt));
        }
        self.measure(now, acked);
        self.state = ack.state;
        if ack.state <= RecoveryState::Disorder && self.before.take().is_some() {
            self.last = now;
        }
        if ack.reducing || !ack.window_limited {
            return;
        }
        if self.window.in_slow_start() {
            self.window.slow_start(f64::from(ack.delivered));
        } else {
            self.grow(now);
        }
    }

    fn on_congestion(&mut self, now: Instant, _in_flight: u32, _cause: Congestion) {
        let now = ticks::tick(now);
        let reduced = self.reduced(now);
        self.window.reduce(reduced);
        self.begin_reduction(now, RecoveryState::Recovery);
    }

    fn on_timeout(&mut self, now: Instant, _in_flight: u32, already_reduced: bool) {
        let now = ticks::tick(now);
        let reduced = if already_reduced { self.window.ssthresh } else { self.reduced(now) };
        self.window.restart(reduced, already_reduced);
        self.begin_reduction(now, RecoveryState::Loss);
    }

    fn on_undo(&mut self, window: f64, ssthresh: f64) {
        if let Some(before) = self.before.take() {
            self.last = before.last;
            self.max_rtt = before.max_rtt;
            self.rates.before = before.highest;
        }
        self.window.restore(window, ssthresh);
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{ack, start};
    use super::*;

    /// A controller in congestion avoidance with this window, with RTTs from `least` to `greatest`, ms.
    fn avoiding(window: u32, least: u64, greatest: u64) -> HTcp {
        let mut htcp = HTcp::new(&start(window));
        htcp.window.ssthresh = 2.0;
        (htcp.min_rtt, htcp.max_rtt) = (least, greatest);
        htcp
    }

    #[test]
    fn growth_follows_the_time_since_the_last_reduction() {
        let mut htcp = avoiding(1000, 100, 100);
        for time in [0.5_f64, 1.0, 2.0, 3.0, 6.0, 11.0] {
            htcp.update_alpha((time * 1000.0) as u64);
            let past = (time - 1.0).max(0.0);
            let expected = 1.0 + 10.0 * past + (past / 2.0) * (past / 2.0);
            let alpha = htcp.alpha as f64 / 128.0;
            // 2 (1 - beta) is one for a beta of a half; the factor is a whole number.
            assert!((alpha - expected).abs() < 1.0, "{time} s: {alpha}, expected {expected}");
        }
    }

    #[test]
    fn growth_is_proportional_to_the_rtt_within_limits() {
        let alpha = |rtt| {
            let mut htcp = avoiding(1000, rtt, rtt);
            htcp.update_alpha(11_000);
            htcp.alpha as f64 / 128.0
        };
        let full = alpha(100);
        for (rtt, part) in [(5, 0.1), (10, 0.1), (50, 0.5), (200, 2.0), (800, 2.0)] {
            assert!((alpha(rtt) / full - part).abs() < 0.02, "{rtt} ms: {}", alpha(rtt) / full);
        }
    }

    #[test]
    fn a_window_grows_by_alpha_per_round_trip() {
        let mut htcp = avoiding(1000, 100, 100);
        htcp.alpha = 20 << 7;
        // Linux updates alpha with every segment of growth; that of five seconds since the
        // last reduction is 45.
        let now = Instant::from_ns(5_000_000_000);
        for una in 1..=1000 {
            htcp.on_ack(&Ack { now, una, ..ack(1) });
        }
        let grown = htcp.window() - 1000.0;
        assert!((36.0..=46.0).contains(&grown), "{grown}");
    }

    #[test]
    fn beta_is_the_ratio_of_rtts_while_the_rate_is_steady() {
        let after = |least, greatest, highest: u64| {
            let mut htcp = avoiding(1000, least, greatest);
            htcp.adaptive = true;
            (htcp.rates.highest, htcp.rates.before) = (highest, 1000);
            htcp.on_congestion(Instant::ZERO, 1000, Congestion::Loss);
            htcp.window()
        };
        assert_eq!(
            [after(100, 150, 1000), after(100, 300, 1000), after(100, 101, 1000)],
            [664.0, 500.0, 796.0]
        );
        // A rate that has changed by more than a fifth, or an RTT too short to tell.
        assert_eq!([after(100, 150, 1300), after(100, 150, 700), after(9, 12, 1000)], [500.0, 500.0, 500.0]);
    }

    #[test]
    fn the_first_reduction_halves_and_small_windows_stay_at_two() {
        let mut htcp = avoiding(1000, 100, 110);
        htcp.on_congestion(Instant::ZERO, 1000, Congestion::Loss);
        assert_eq!(htcp.window(), 500.0);
        let mut small = HTcp::new(&start(2));
        small.on_congestion(Instant::ZERO, 2, Congestion::Loss);
        assert_eq!(small.window(), 2.0);
    }

    #[test]
    fn an_undo_restores_the_clock_of_growth() {
        let mut htcp = avoiding(1000, 100, 150);
        htcp.last = 3;
        htcp.on_timeout(Instant::from_ns(9_000_000_000), 1000, false);
        assert_eq!((htcp.last, htcp.window()), (9000, 1.0));
        htcp.on_undo(1000.0, 1000.0);
        assert_eq!((htcp.last, htcp.window()), (3, 1000.0));
    }

    #[test]
    fn the_clock_starts_at_the_end_of_a_reduction() {
        let mut htcp = avoiding(1000, 100, 150);
        htcp.on_congestion(Instant::from_ns(1_000_000_000), 1000, Congestion::Loss);
        let now = Instant::from_ns(1_200_000_000);
        htcp.on_ack(&Ack { now, una: 1, ..ack(1) });
        assert_eq!(htcp.last, 1200);
    }
}
