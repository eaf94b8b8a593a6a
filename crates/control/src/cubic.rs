//! CUBIC: the window grows along a cubic function of the time since the last reduction (RFC 9438,
//! details as in Linux).

use super::hystart::HyStart;
use super::ticks::{self, TICK};
use super::window::{Window, delegate};
use super::{Ack, Congestion, Controller, Start};
use headway_units::{Duration, Instant};

/// The factor of a reduction (Linux; 0.7 in RFC 9438 4.6).
const BETA: f64 = 717.0 / 1024.0;
/// RFC 9438's C in segments per second cubed, in units of 1/1024: 0.4 (RFC 9438 4.1; ten times
/// Linux's `bic_scale` of 41).
const C: u64 = 410;
/// The function counts time in units of 2^-10 s (Linux's `BICTCP_HZ`).
const SECOND_SHIFT: u32 = 10;
/// Acknowledged windows per segment of growth of a Reno flow with the same mean, in units of 1/8 as in Linux:
/// about (1 + beta) / (3 (1 - beta)) (RFC 9438 4.3).
const RENO_EIGHTHS: u32 = 15;
/// Fewest acknowledged segments per segment of growth, that is, 1.5 times the window per round
/// trip (RFC 9438 4.2).
const MIN_COUNT: f64 = 2.0;
/// Where the function is flat, the window grows by a segment per this many acknowledged windows (Linux).
const FLAT_WINDOWS: u32 = 100;
/// Most acknowledged segments per segment of growth before the first loss: at least 5 %
/// per round trip (Linux).
const FIRST_COUNT: u32 = 20;
/// The function is evaluated when the window has changed, at most once per tick, and after more than this
/// many ticks (Linux: 1/32 s).
const REFRESH: u64 = 31;
/// RTTs are ignored for this long after a reduction, because they include the queue that caused it (Linux).
const SETTLING: Duration = Duration::from_ms(1000);

/// The controller of RFC 9438 with HyStart; windows are whole segments, as in Linux.
#[derive(Clone, Debug, Default)]
pub struct Cubic {
    window: Window,
    /// None where it is off.
    hystart: Option<HyStart>,
    /// The window before the last reduction, less if it was smaller than the one before (fast
    /// convergence); 0 if none.
    last_max: u32,
    min_rtt: Option<Duration>,
    /// The growth since the last reduction; absent until the first acknowledgement after it.
    epoch: Option<Epoch>,
    /// Acknowledged segments per segment of growth. All counts here are integers, as in Linux: in small
    /// windows rounding makes up much of the growth.
    count: f64,
    /// The tick and window of the last evaluation of the function, and until when it is valid.
    computed: (u64, f64),
    fresh_until: Instant,
}

/// The growth between two reductions.
#[derive(Clone, Debug)]
struct Epoch {
    start: Instant,
    /// Time from the start to the plateau in 2^-10 s, RFC 9438's K.
    plateau_after: u64,
    /// Window at the plateau in segments, RFC 9438's W_max.
    plateau: u32,
    /// The window Reno would have by now, in segments.
    reno: u32,
    /// Segments acknowledged that `reno` does not count yet.
    acked: f64,
}

impl Epoch {
    /// An epoch that starts with `window` and returns to `last_max`.
    fn new(start: Instant, window: u32, last_max: u32) -> Epoch {
        let lost = f64::from(last_max.saturating_sub(window));
        // In units of 2^-30 s^3, as the function below.
        let cubed = lost * (1_u64 << (10 + 3 * SECOND_SHIFT)) as f64 / C as f64;
        Epoch {
            start,
            plateau_after: cube_root(cubed) as u64,
            plateau: last_max.max(window),
            reno: window,
            acked: 0.0,
        }
    }

    /// The window the cubic function asks for at `time`, in ticks since the start.
    fn target(&self, time: u64) -> u32 {
        let time = (time << SECOND_SHIFT) / 1000;
        let offset = time.abs_diff(self.plateau_after);
        let off = offset.saturating_pow(3).saturating_mul(C) >> (10 + 3 * SECOND_SHIFT);
        let off = off.min(u64::from(u32::MAX)) as u32;
        if time < self.plateau_after {
            self.plateau.saturating_sub(off)
        } else {
            self.plateau.saturating_add(off)
        }
    }

    /// Grows Reno's window by the segments acknowledged, and returns it.
    fn grow_reno(&mut self, window: u32) -> u32 {
        let per_segment = (window.saturating_mul(RENO_EIGHTHS) / 8).max(1);
        let acked = self.acked as u32;
        if acked > per_segment {
            let segments = (acked - 1) / per_segment;
            self.reno += segments;
            self.acked = f64::from(acked - segments * per_segment);
        }
        self.reno
    }
}

/// The cube root of a non-negative number, with the same bits on every machine.
fn cube_root(value: f64) -> f64 {
    if value <= 0.0 {
        return 0.0;
    }
    // A third of the exponent is right within a factor of two; each step of Newton's method
    // doubles the correct digits.
    let mut root = f64::from_bits(value.to_bits() / 3 + (1023_u64 << 52) / 3 * 2);
    for _ in 0..6 {
        root -= (root - value / (root * root)) / 3.0;
    }
    root
}

impl Cubic {
    /// A controller that starts with the initial window, at least one segment.
    pub(crate) fn new(start: &Start) -> Cubic {
        Cubic {
            window: Window::new(start.window),
            hystart: start.hystart.then(|| HyStart::new(start.paced)),
            count: MIN_COUNT,
            computed: (0, 0.0),
            ..Cubic::default()
        }
    }

    /// Updates the minimum RTT, and ends slow start when HyStart says so.
    fn on_rtt(&mut self, ack: &Ack, rtt: Duration) {
        if self.epoch.as_ref().is_some_and(|epoch| ack.now - epoch.start < SETTLING) {
            return;
        }
        let min_rtt = self.min_rtt.map_or(rtt, |least| least.min(rtt));
        self.min_rtt = Some(min_rtt);
        if self.window.in_slow_start()
            && let Some(hystart) = &mut self.hystart
            && hystart.path_is_full(ack, self.window.size, rtt, min_rtt)
        {
            self.window.ssthresh = self.window.size;
        }
    }

    /// Updates `count` after `acked` more segments.
    fn update_count(&mut self, now: Instant, acked: f64) {
        if let Some(epoch) = &mut self.epoch {
            epoch.acked += acked;
        }
        if self.window.size != self.computed.1 || now >= self.fresh_until {
            self.compute_count(now, acked);
        }
    }

    /// Sets `count` so that the window reaches the target of the cubic function, or of Reno, in one round
    /// trip (RFC 9438 4.2, 4.3).
    fn compute_count(&mut self, now: Instant, acked: f64) {
        let (tick, window) = (ticks::tick(now), self.window.size as u32);
        if self.epoch.is_none() || tick != self.computed.0 {
            self.computed = (tick, self.window.size);
            self.fresh_until = Instant::from_ns((tick + REFRESH + 1) * TICK);
            let start = || Epoch { acked, ..Epoch::new(now, window, self.last_max) };
            let epoch = self.epoch.get_or_insert_with(start);
            let ahead = ticks::rounded_up(self.min_rtt.unwrap_or_default());
            let target = epoch.target(tick.saturating_sub(ticks::tick(epoch.start)) + ahead);
            let count = if target > window {
                window / (target - window)
            } else {
                window.saturating_mul(FLAT_WINDOWS)
            };
            self.count = f64::from(if self.last_max == 0 { count.min(FIRST_COUNT) } else { count });
        }
        let Some(epoch) = &mut self.epoch else { return };
        let reno = epoch.grow_reno(window);
        if reno > window {
            self.count = self.count.min(f64::from(window / (reno - window)));
        }
        self.count = self.count.max(MIN_COUNT);
    }

    /// The window after a reduction, rounded down to whole segments.
    fn after_reduction(&self) -> f64 {
        (self.window.size * BETA).floor()
    }
}

impl Controller for Cubic {
    delegate!(window: on_undo, metrics);

    fn on_ack(&mut self, ack: &Ack) {
        if let Some(rtt) = ack.rtt {
            self.on_rtt(ack, rtt);
        }
        let acked = self.window.beyond_slow_start(ack);
        if acked > 0.0 {
            self.update_count(ack.now, acked);
            self.window.grow(self.count, acked);
        }
    }

    fn on_congestion(&mut self, _now: Instant, _in_flight: u32, _cause: Congestion) {
        let window = self.window.size as u32;
        // Fast convergence: a flow whose window shrinks releases bandwidth to others (RFC 9438 4.7).
        self.last_max =
            if window < self.last_max { (self.window.size * (1.0 + BETA) / 2.0) as u32 } else { window };
        self.epoch = None;
        self.window.reduce(self.after_reduction());
    }

    /// Resets all knowledge of the path, as Linux does after an RTO.
    fn on_timeout(&mut self, _now: Instant, _in_flight: u32, already_reduced: bool) {
        self.window.restart(self.after_reduction(), already_reduced);
        if let Some(hystart) = &mut self.hystart {
            hystart.reset();
        }
        self.last_max = 0;
        self.min_rtt = None;
        self.epoch = None;
        self.computed = (0, 0.0);
    }

    /// Idle time does not count, or W_cubic(t) would jump (RFC 9438 5.8).
    fn on_idle(&mut self, now: Instant, idle: Duration, timeout: Duration) {
        self.window.after_idle(idle, timeout);
        if let Some(epoch) = &mut self.epoch {
            epoch.start = (epoch.start + idle).min(now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{ack, start};
    use super::*;

    /// Acknowledges segments at an even pace, one window per `rtt`, until `until`; calls `each`
    /// after every segment.
    fn run(cubic: &mut Cubic, rtt: Duration, until: Duration, mut each: impl FnMut(Duration, f64)) {
        let mut now = Duration::ZERO;
        for una in 1.. {
            if now >= until {
                break;
            }
            now += Duration::from_ns((rtt.ns() as f64 / cubic.window()) as i64);
            let next = una + cubic.window() as u64;
            cubic.on_ack(&Ack { now: Instant::ZERO + now, rtt: Some(rtt), una, next, ..ack(1) });
            each(now, cubic.window());
        }
    }

    #[test]
    fn cube_roots_are_exact_to_the_last_digits() {
        for value in [1e-9, 0.3, 1.0, 2.0, 750.0, 1e6, 3.7e13] {
            let root = cube_root(value);
            assert!((root * root * root / value - 1.0).abs() < 4e-15, "{value}: {root}");
        }
        assert_eq!(cube_root(0.0), 0.0);
    }

    #[test]
    fn the_window_follows_the_closed_form_after_a_reduction() {
        let mut cubic = Cubic::new(&start(1000));
        cubic.on_congestion(Instant::ZERO, 1000, Congestion::Loss);
        assert_eq!(cubic.window(), 700.0);
        let k = (300.0_f64 / 0.4).cbrt();
        run(&mut cubic, Duration::from_ms(50), Duration::from_ms(15_000), |time, window| {
            let expected = 1000.0 + 0.4 * (time.secs_f64() - k).powi(3);
            assert!((window / expected - 1.0).abs() < 0.01, "{time}: {window}, expected {expected}");
        });
    }

    #[test]
    fn small_windows_grow_like_reno() {
        // 20 segments at 10 ms: 14 after the reduction, then 8/15 of a segment per round trip; the cubic
        // function would need 2.5 s to return to 20.
        let mut cubic = Cubic::new(&start(20));
        cubic.on_congestion(Instant::ZERO, 20, Congestion::Loss);
        run(&mut cubic, Duration::from_ms(10), Duration::from_ms(1000), |_, _| ());
        assert!((cubic.window() - (14.0 + 100.0 * 8.0 / 15.0)).abs() < 6.0, "{}", cubic.window());
    }

    /// A controller that has just been reduced to `window` segments, from a window small enough that the
    /// function is nearly flat.
    fn reduced_to(window: u32) -> Cubic {
        let mut cubic = Cubic::new(&start((f64::from(window) / BETA).ceil() as u32));
        cubic.on_congestion(Instant::ZERO, window, Congestion::Loss);
        assert_eq!(cubic.window(), f64::from(window));
        cubic
    }

    #[test]
    fn counts_are_whole_segments() {
        // At the start of an epoch with 7 of 10 segments the function is less than 3 segments below 10, that
        // is, 2 after rounding.
        let mut cubic = reduced_to(7);
        let at = |ms| Instant::ZERO + Duration::from_ms(ms);
        cubic.on_ack(&Ack { now: at(1), ..ack(1) });
        assert_eq!((cubic.count, cubic.window()), (7.0, 7.0));
        // Half a second later the target is 10 - 0.4 * (1.957 - 0.5)^3 = 9: two more than the window, one
        // per three acknowledged.
        cubic.on_ack(&Ack { now: at(501), ..ack(1) });
        assert_eq!(cubic.count, 3.0);
    }

    #[test]
    fn renos_window_counts_within_a_tick_too() {
        let mut cubic = reduced_to(8);
        let at = |us| Instant::ZERO + Duration::from_us(us);
        cubic.on_ack(&Ack { now: at(5_000), ..ack(1) });
        cubic.on_ack(&Ack { now: at(6_000), ..ack(7) });
        assert_eq!((cubic.count, cubic.window()), (8.0, 9.0));
        // Reno grows by one per 15/8 windows: 38 segments make it 10.
        cubic.on_ack(&Ack { now: at(6_500), ..ack(30) });
        assert_eq!((cubic.count, cubic.window()), (9.0, 12.0));
        // The function was already evaluated in this tick. The 6 left over and 120 more make five, of
        // 22 segments each: 15.
        cubic.on_ack(&Ack { now: at(6_900), ..ack(120) });
        assert_eq!(cubic.count, 4.0);
    }

    #[test]
    fn fast_convergence_remembers_less_than_the_window() {
        let mut cubic = Cubic::new(&start(1000));
        cubic.on_congestion(Instant::ZERO, 1000, Congestion::Loss);
        assert_eq!(cubic.last_max, 1000);
        cubic.on_congestion(Instant::ZERO, 700, Congestion::Mark);
        assert_eq!(cubic.last_max, 595);
        assert_eq!(cubic.window(), 490.0);
        cubic.on_timeout(Instant::ZERO, 490, false);
        assert_eq!((cubic.window(), cubic.ssthresh(), cubic.last_max), (1.0, 343.0, 0));
    }

    #[test]
    fn hystart_ends_slow_start_and_growth_goes_on_at_five_percent() {
        let mut cubic = Cubic::new(&start(10));
        let rtt = Duration::from_ms(40);
        // ACKs arrive throughout the round trip: once they are closer than 2 ms, the path is full.
        run(&mut cubic, rtt, Duration::from_ms(120), |_, _| ());
        let end = cubic.ssthresh();
        assert!((16.0..64.0).contains(&end), "{end}");
        let before = cubic.window();
        run(&mut cubic, rtt, rtt * 10, |_, _| ());
        let growth = cubic.window() / before;
        assert!((growth / 1.05_f64.powi(10) - 1.0).abs() < 0.05, "{growth}");
    }

    #[test]
    fn without_hystart_the_window_doubles_until_something_is_lost() {
        let mut cubic = Cubic::new(&Start { hystart: false, ..start(10) });
        // As above. ACKs at w / RTT that each add a segment: e times the window per round trip.
        run(&mut cubic, Duration::from_ms(40), Duration::from_ms(120), |_, _| ());
        let growth = cubic.window() / 10.0;
        assert!((growth / 3.0_f64.exp() - 1.0).abs() < 0.05, "{growth}");
        assert_eq!(cubic.ssthresh(), f64::INFINITY);
    }

    #[test]
    fn idle_time_does_not_count() {
        let mut cubic = Cubic::new(&start(1000));
        cubic.on_congestion(Instant::ZERO, 1000, Congestion::Loss);
        cubic.on_ack(&Ack { now: Instant::from_ns(1), ..ack(1) });
        let later = Instant::from_ns(60_000_000_001);
        cubic.on_idle(later, Duration::from_ms(60_000), Duration::MAX);
        cubic.on_ack(&Ack { now: later, ..ack(1) });
        assert!(cubic.count > 5.0, "{}", cubic.count);
    }
}
