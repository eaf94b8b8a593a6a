//! The proportional-integral controller of PIE (RFC 8033 4.2) and DualPI2 (RFC 9332, appendix A): how a
//! probability follows the queueing delay.

use headway_units::{Duration, Instant};

/// Says when a probability is updated, and by how much.
#[derive(Clone, Debug)]
pub(super) struct Pi {
    target: Duration,
    every: Duration,
    /// Weights of the deviation from the target, and of the change since the last update, per second.
    alpha: f64,
    beta: f64,
    /// Delay at the last update.
    delay: Duration,
    /// Time of the next update; absent before the first packet.
    due: Option<Instant>,
}

impl Pi {
    /// Creates a controller that has seen no delay.
    pub(super) fn new(target: Duration, every: Duration, (alpha, beta): (f64, f64)) -> Pi {
        Pi { target, every, alpha, beta, delay: Duration::ZERO, due: None }
    }

    /// Returns the delay at the last update.
    pub(super) fn delay(&self) -> Duration {
        self.delay
    }

    /// Returns when the next update is due, if that is by `now`. The first one is due an interval
    /// after the first call.
    pub(super) fn due(&mut self, now: Instant) -> Option<Instant> {
        let due = *self.due.get_or_insert(now + self.every);
        (due <= now).then_some(due)
    }

    /// Makes the update that is due, which finds this delay; returns the change of the probability.
    pub(super) fn update(&mut self, delay: Duration) -> f64 {
        let deviation = self.alpha * (delay - self.target).secs_f64();
        let change = self.beta * (delay - self.delay).secs_f64();
        self.delay = delay;
        self.due = self.due.map(|due| due + self.every);
        deviation + change
    }

    /// Leaves out the updates before the last one that is due by `now`, because they would change nothing.
    pub(super) fn skip(&mut self, now: Instant) {
        self.due = self.due.map(|due| due + self.every * ((now - due).ns() / self.every.ns()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_probability_follows_deviation_and_change_at_every_interval() {
        let ms = Duration::from_ms;
        let at = |time| Instant::ZERO + ms(time);
        let mut pi = Pi::new(ms(15), ms(10), (0.125, 1.25));
        assert_eq!((pi.due(at(5)), pi.due(at(14)), pi.due(at(20))), (None, None, Some(at(15))));
        // 10 ms above the target, and 25 ms more than before.
        assert!((pi.update(ms(25)) - (0.125 * 0.010 + 1.25 * 0.025)).abs() < 1e-15);
        assert_eq!((pi.delay(), pi.due(at(20)), pi.due(at(25))), (ms(25), None, Some(at(25))));
        assert!((pi.update(ms(20)) - (0.125 * 0.005 - 1.25 * 0.005)).abs() < 1e-15);
        pi.skip(at(1_001));
        assert_eq!(pi.due(at(1_001)), Some(at(995)));
    }
}
