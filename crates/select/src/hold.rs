//! For how long a choice stays: longer after flaps, shorter again where it is quiet.

use headway_units::{Duration, Instant};

/// A return to a path within so many times the hold time is a flap. Range 2 to 10.
const FLAP: i64 = 3;
/// The hold time is halved after so many times itself without a change. Range 4 to 50.
const QUIET: i64 = 10;
/// The longest hold time, in intervals. Range 4 to 64.
const LONGEST: i64 = 16;

/// The hold time after changes of the choice.
#[derive(Clone, Debug)]
pub(crate) struct Hold {
    interval: Duration,
    time: Duration,
    changed: Option<Instant>,
    /// The path that was left last, and when.
    left: Option<(usize, Instant)>,
}

impl Hold {
    pub(crate) const fn new(interval: Duration) -> Hold {
        Hold { interval, time: interval, changed: None, left: None }
    }

    /// Returns the hold time.
    pub(crate) const fn time(&self) -> Duration {
        self.time
    }

    /// Returns for how long the choice still stays; zero if it may change.
    pub(crate) fn left(&mut self, now: Instant) -> Duration {
        let Some(changed) = self.changed else { return Duration::ZERO };
        if now - changed >= self.time * QUIET && self.time > self.interval {
            self.time = (self.time / 2).max(self.interval);
            self.changed = Some(now - self.time);
        }
        (changed + self.time - now).max(Duration::ZERO)
    }

    /// Notes that the choice changes.
    pub(crate) fn change(&mut self, now: Instant, from: usize, to: usize) {
        let flaps = self.left.is_some_and(|(path, at)| path == to && now - at < self.time * FLAP);
        if flaps {
            self.time = (self.time * 2).min(self.interval * LONGEST);
        }
        (self.changed, self.left) = (Some(now), Some((from, now)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_grows_after_flaps_and_shrinks_where_it_is_quiet() {
        let at = |seconds: i64| Instant::ZERO + Duration::from_ms(seconds * 1_000);
        let mut hold = Hold::new(Duration::from_ms(10_000));
        hold.change(at(0), 0, 1);
        assert_eq!(hold.left(at(4)), Duration::from_ms(6_000));
        hold.change(at(20), 1, 0);
        assert_eq!(hold.time(), Duration::from_ms(20_000));
        hold.change(at(60), 0, 1);
        assert_eq!(hold.time(), Duration::from_ms(40_000));
        assert_eq!(hold.left(at(460)), Duration::ZERO);
        assert_eq!(hold.time(), Duration::from_ms(20_000));
    }
}
