//! To what all that leaves for a side is held where the link is unknown.
//!
//! Once it is held, no queue shows any more what the link has. So it gets a little more every second, until a
//! queue builds in the link again: fair queues hide their own from flows that have less than their part.

use headway_units::{Duration, Instant, Rate};

/// What is held to when there is a standing queue, as a part of that at which it arose: the rest empties the
/// queue. Range 0.9 to 0.98.
const BELOW: f64 = 0.95;
/// Growth in a second at the rate at which a queue stood last. Where flows do not fill what is held all the
/// time, a queue comes and goes for many seconds before it stands. Range 0.001 to 0.01: from 0.0025 on, pings
/// beside such flows exceed twice the RTT in more than a twentieth of the time.
const GROWTH: f64 = 0.0015;
/// The same elsewhere: by the square of the distance to that rate, in parts of it. So what is near is tried
/// slowly, and what is far is soon reached. Range 1 to 5.
const CURVE: f64 = 2.0;
/// But this at most. Range 0.05 to 0.15.
const FASTEST: f64 = 0.1;
/// It grows while this part of it is used; and if there is a standing queue while less passes, the link has
/// become slower. What is said to have passed is without the headers of small packets. Range 0.7 to 0.9.
const USES: f64 = 0.85;
/// While as much passes as is held, a queue lowers that to this part of what once passed without one, at
/// least: one that stays is not in the link. Range 0.6 to [`USES`].
const LEAST: f64 = 0.8;

/// A queue that is seen for so long stands, and stands again after the same time. Range 0.5 to 2 s.
pub(crate) const STANDS: Duration = Duration::from_ms(1_000);
/// It is raised for no more than a second at once, in s: what was not looked at may have had a queue.
const LONGEST: f64 = 1.0;

/// What passed towards a side, on the wire.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Passed {
    /// When that was looked at.
    pub(super) at: Instant,
    /// In the last second.
    pub(super) now: Rate,
    /// When a queue stood last, or the most since.
    pub(super) carried: Rate,
    /// For how long a queue has been seen without a pause.
    pub(super) queued: Duration,
}

/// A rate that is tried, on the wire.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Hold {
    at: Instant,
    rate: Rate,
    /// The rate at which a queue stood last.
    stood_at: Rate,
    /// The most that has passed without a queue since the link became slower.
    proven: Rate,
    /// Whether less passed than is held when a queue stood last.
    is_doubted: bool,
    /// When it was lowered last.
    lowered: Instant,
}

impl Hold {
    /// Begins below what the link has carried.
    pub(super) fn new(Passed { at, carried, .. }: Passed) -> Hold {
        let rate = carried.scale(BELOW);
        Hold { at, rate, stood_at: carried, proven: carried, is_doubted: false, lowered: at }
    }

    pub(super) const fn rate(&self) -> Rate {
        self.rate
    }

    /// Looks after a time in which it was held, or not.
    pub(super) fn look(self, passed: Passed, is_held: bool) -> Hold {
        if !is_held && passed.carried > self.stood_at {
            return Hold::new(passed);
        }
        let seconds = (passed.at - self.at).secs_f64().min(LONGEST);
        let hold = Hold { at: passed.at, ..self };
        match passed.queued {
            Duration::ZERO => hold.raise(seconds, passed),
            queued if queued.min(passed.at - self.lowered) < STANDS => hold,
            _ => hold.lower(passed),
        }
    }

    /// Lowers it, as a queue stood. If less passes, the link may have become slower, or the queue is the
    /// other direction's: the second one tells.
    fn lower(self, passed: Passed) -> Hold {
        let is_doubted = passed.carried < self.rate.scale(USES);
        if is_doubted && self.is_doubted {
            return Hold::new(passed);
        }
        let rate = self.rate.scale(BELOW).max(self.proven.scale(LEAST));
        Hold { rate, stood_at: self.rate, is_doubted, lowered: passed.at, ..self }
    }

    /// Raises it after so many seconds without a queue.
    fn raise(self, seconds: f64, passed: Passed) -> Hold {
        if passed.now < self.rate.scale(USES) {
            return self;
        }
        let distance = self.rate.bps_f64() / self.stood_at.bps_f64().max(1.0) - 1.0;
        let growth = (CURVE * distance * distance).clamp(GROWTH, FASTEST);
        let (rate, proven) = (self.rate.scale((1.0 + growth).powf(seconds)), self.proven.max(self.rate));
        Hold { rate, proven, is_doubted: false, ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn passed(now: f64, carried: f64, second: i64, has_queue: bool) -> Passed {
        let [now, carried] = [now, carried].map(Rate::from_mbps);
        let queued = if has_queue { STANDS } else { Duration::ZERO };
        Passed { at: Instant::ZERO + STANDS * second, now, carried, queued }
    }

    /// A link that has a queue when it is sent more than it has; returns what is held after each second.
    fn seconds(mut hold: Hold, link: f64) -> [f64; 80] {
        std::array::from_fn(|second| {
            let passes = hold.rate().mbps().min(link);
            let has_queue = hold.rate().mbps() > link;
            hold = hold.look(passed(passes, passes, second as i64 + 1, has_queue), true);
            hold.rate().mbps()
        })
    }

    #[test]
    fn a_link_is_used_whatever_it_has() {
        let begun = Hold::new(passed(50.0, 50.0, 0, true));
        assert_eq!(begun.rate(), Rate::from_mbps(47.5));
        let steady = seconds(begun, 50.0);
        assert!(steady.iter().all(|rate| (47.4..50.3).contains(rate)), "{steady:?}");
        let slower = seconds(begun, 20.0);
        assert!(slower[1..].iter().all(|rate| (18.9..20.1).contains(rate)), "{slower:?}");
        let faster = seconds(begun, 100.0);
        assert!(faster[75] > 95.0, "{faster:?}");
    }

    #[test]
    fn a_queue_that_stays_is_not_in_the_link() {
        let mut hold = Hold::new(passed(50.0, 50.0, 0, true));
        for second in 1..60 {
            hold = hold.look(passed(hold.rate().mbps(), 50.0, second, true), true);
        }
        assert_eq!(hold.rate(), Rate::from_mbps(40.0));
    }

    #[test]
    fn what_is_not_used_does_not_grow_and_what_does_not_pass_is_not_believed() {
        let begun = Hold::new(passed(50.0, 50.0, 0, true));
        assert_eq!(begun.look(passed(30.0, 50.0, 1, false), true).rate(), begun.rate());
        // Something sends more than what is held.
        let lowered = begun.look(passed(100.0, 50.0, 1, true), true);
        assert_eq!(lowered.rate(), begun.rate().scale(BELOW));
        // While nothing is held, what has passed is.
        assert_eq!(begun.look(passed(60.0, 60.0, 1, false), false).rate(), Rate::from_mbps(57.0));
    }
}
