//! TCP-LP: Reno that leaves when the one-way delay says that others want the path (Kuzmanovic and Knightly,
//! INFOCOM 2003; details as in Linux).
//!
//! With d the smoothed one-way delay of the flow, between its minimum and maximum so far:
//!
//! ```text
//! d > min + 0.15 (max - min)                       w = w / 2, then no growth for 3 RTTs
//! the same again within these 3 RTTs               w = 1
//! otherwise and at a loss                          as Reno
//! ```

use super::window::{Window, cuts, delegate};
use super::{Ack, Congestion, Controller, RecoveryState, Start};
use headway_units::{Duration, Instant};

/// Others want the path from this part of the range of delays on (paper, Linux).
const THRESHOLD: f64 = 0.15;
/// Weight of a sample in the smoothed delay (paper, Linux).
const GAIN: i64 = 8;
/// The time without growth after a reduction, RTTs (paper, Linux).
const INFERENCE: i64 = 3;
/// The smallest window, segments (paper, Linux).
const MIN_WINDOW: f64 = 1.0;

/// The controller of the paper; windows are whole segments, as in Linux.
///
/// It needs [`Ack::one_way_delay`]: without it, it is Reno, and so it is in simulated scenarios as long as
/// their ACKs have no such delay. Linux takes the delay from timestamps, whose origin is random: for seven of
/// eight connections the sum in 32 bits is wrong, and always below the threshold, which leaves Reno there,
/// too. Linux also forgets the range of delays at each reduction.
#[derive(Clone, Debug)]
pub struct Lp {
    window: Window,
    /// Smoothed one-way delay and its range; absent before the first sample.
    delay: Option<Delay>,
    /// The window does not grow before this time.
    resting_until: Option<Instant>,
}

/// One-way delays of a flow; they may be negative, because clocks differ.
#[derive(Clone, Debug)]
struct Delay {
    smoothed: Duration,
    least: Duration,
    greatest: Duration,
}

impl Delay {
    /// Takes a sample, and returns whether the smoothed delay is above the threshold.
    fn take(&mut self, delay: Duration) -> bool {
        self.least = self.least.min(delay);
        self.greatest = self.greatest.max(delay);
        self.smoothed += (delay - self.smoothed) / GAIN;
        self.smoothed > self.least + (self.greatest - self.least).scale(THRESHOLD)
    }
}

impl Lp {
    /// A controller that starts with the initial window, at least one segment.
    pub(crate) fn new(start: &Start) -> Lp {
        Lp { window: Window::new(start.window), delay: None, resting_until: None }
    }

    /// Whether others want the path, according to this delay.
    fn is_wanted(&mut self, delay: Duration) -> bool {
        let first = || Delay { smoothed: delay, least: delay, greatest: delay };
        self.delay.get_or_insert_with(first).take(delay)
    }

    /// Yields to others; in recovery the window follows the loss only.
    fn yield_path(&mut self, ack: &Ack, rests: bool) {
        if !matches!(ack.state, RecoveryState::Reducing | RecoveryState::Recovery) {
            let size = if rests { MIN_WINDOW } else { self.window.half().max(MIN_WINDOW) };
            self.window.size = size;
        }
        self.resting_until = ack.rtt.or(ack.smoothed).map(|rtt| ack.now + rtt * INFERENCE);
    }
}

impl Controller for Lp {
    delegate!(window: on_undo, on_idle, metrics);

    fn on_ack(&mut self, ack: &Ack) {
        let rests = self.resting_until.is_some_and(|until| ack.now < until);
        if let Some(delay) = ack.one_way_delay
            && self.is_wanted(delay)
        {
            self.yield_path(ack, rests);
        } else if !rests {
            self.window.grow_additively(ack);
        }
    }

    cuts!(|this| this.window.half());
}

#[cfg(test)]
mod tests {
    use super::super::Reno;
    use super::super::testing::{ack, start};
    use super::*;

    const RTT: Duration = Duration::from_ms(100);

    /// An ACK at this time, ms, with this one-way delay, ms.
    fn at(time: i64, delay: i64) -> Ack {
        let now = Instant::ZERO + Duration::from_ms(time);
        Ack { now, rtt: Some(RTT), one_way_delay: Some(Duration::from_ms(delay)), ..ack(1) }
    }

    /// A controller in congestion avoidance with this window, which has seen delays of -50 to
    /// 50 ms and smooths -40.
    fn avoiding(window: u32) -> Lp {
        let mut lp = Lp::new(&start(window));
        lp.window.ssthresh = 2.0;
        let [smoothed, least, greatest] = [-40, -50, 50].map(Duration::from_ms);
        lp.delay = Some(Delay { smoothed, least, greatest });
        lp
    }

    #[test]
    fn it_yields_above_fifteen_percent_of_the_range() {
        // A sample counts for an eighth, and the threshold is -35 ms.
        for (delay, left) in [(-50, 100.0), (-1, 100.0), (1, 50.0), (20, 50.0)] {
            let mut lp = avoiding(100);
            lp.on_ack(&at(0, delay));
            assert_eq!(lp.window(), left, "{delay}");
        }
    }

    #[test]
    fn it_rests_for_three_round_trips_and_a_second_sign_leaves_one_segment() {
        let mut lp = avoiding(100);
        lp.on_ack(&at(0, 20));
        let delay = lp.delay.as_mut().expect("samples");
        delay.smoothed = delay.least;
        for time in 1..300 {
            lp.on_ack(&at(time, -50));
        }
        assert_eq!((lp.window(), lp.window.credit), (50.0, 0.0));
        (300..351).for_each(|time| lp.on_ack(&at(time, -50)));
        assert_eq!(lp.window(), 51.0);
        let mut wanted = avoiding(100);
        wanted.on_ack(&at(0, 20));
        wanted.on_ack(&at(10, 20));
        assert_eq!(wanted.window(), 1.0);
    }

    #[test]
    fn without_delays_it_is_reno() {
        let (mut lp, mut reno) = (Lp::new(&start(10)), Reno::new(&start(10)));
        for step in 0..1000 {
            let ack = Ack { rtt: Some(RTT), ..ack(1) };
            lp.on_ack(&ack);
            reno.on_ack(&ack);
            if step % 300 == 299 {
                lp.on_congestion(Instant::ZERO, 10, Congestion::Loss);
                reno.on_congestion(Instant::ZERO, 10, Congestion::Loss);
            }
            if step == 777 {
                lp.on_timeout(Instant::ZERO, 10, false);
                reno.on_timeout(Instant::ZERO, 10, false);
            }
            assert_eq!((lp.window(), lp.ssthresh()), (reno.window(), reno.ssthresh()));
        }
    }

    #[test]
    fn one_segment_remains_and_recovery_is_not_disturbed() {
        let mut lp = avoiding(1);
        lp.on_ack(&at(0, 20));
        assert_eq!(lp.window(), 1.0);
        let mut recovering = avoiding(100);
        recovering.on_congestion(Instant::ZERO, 100, Congestion::Loss);
        recovering.on_ack(&Ack { state: RecoveryState::Recovery, reducing: true, ..at(0, 20) });
        assert_eq!(recovering.window(), 50.0);
    }
}
