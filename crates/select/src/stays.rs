//! For how long a path has been there each time, and what follows for the next time that it comes back.

use std::collections::VecDeque;

use headway_units::{Duration, Instant};

/// A path that comes back is not used before it has been there for so long, in seconds. Range 1 to 20.
const LEAST: f64 = 5.0;
/// Whoever uses a path when it goes loses about so many seconds, until another one is used and connections
/// are made again. Range 5 to 60.
const COST: f64 = 20.0;
/// What using a path soon is worth before anything was seen, in seconds. Range 20 to 200: three
/// short stays outweigh it.
const TRUST: f64 = 50.0;
/// So many stays are known.
const MOST: usize = 16;
/// After so many seconds a stay counts half. Range 10 minutes to 6 hours.
const FORGETS: f64 = 3_600.0;

/// How long a path was there each time.
#[derive(Clone, Debug)]
pub(crate) struct Stays {
    /// When the last ones ended, and how many seconds they took.
    ended: VecDeque<(Instant, f64)>,
    since: Instant,
}

impl Stays {
    pub(crate) fn new(now: Instant) -> Stays {
        Stays { ended: VecDeque::with_capacity(MOST), since: now }
    }

    /// Notes that it has gone.
    pub(crate) fn ended(&mut self, now: Instant) {
        if self.ended.len() >= MOST {
            self.ended.pop_front();
        }
        self.ended.push_back((now, (now - self.since).secs_f64()));
    }

    /// Notes that it is there again; returns how long it must stay before it is used. That is the time after
    /// which what is left of a stay has been worth most in sum, less what its end costs.
    pub(crate) fn begun(&mut self, now: Instant) -> Duration {
        self.since = now;
        let worth = |wait: f64| -> f64 {
            let of = |(at, stay): &(Instant, f64)| {
                let weight = 0.5f64.powf((now - *at).secs_f64() / FORGETS);
                if *stay > wait { weight * (stay - wait - COST) } else { 0.0 }
            };
            self.ended.iter().map(of).sum()
        };
        let mut best = (LEAST, worth(LEAST) + TRUST);
        for wait in self.ended.iter().map(|(_, stay)| stay * 1.01).filter(|wait| *wait > LEAST) {
            if worth(wait) > best.1 {
                best = (wait, worth(wait));
            }
        }
        Duration::from_secs_f64(best.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: f64) -> Instant {
        Instant::ZERO + Duration::from_secs_f64(seconds)
    }

    /// Returns how long a path must be there before it is used, after these stays with 10 s between them.
    fn wait_after(stays: &[f64]) -> f64 {
        let mut path = Stays::new(at(0.0));
        let (mut now, mut wait) = (0.0, 0.0);
        for stay in stays {
            now += stay;
            path.ended(at(now));
            now += 10.0;
            wait = path.begun(at(now)).secs_f64();
        }
        wait
    }

    #[test]
    fn long_stays_are_used_at_once_and_short_ones_never() {
        assert_eq!(wait_after(&[3_600.0]), LEAST);
        assert_eq!(wait_after(&[20.0, 300.0, 60.0, 8.0, 200.0, 15.0]), LEAST);
        assert_eq!(wait_after(&[100.0, 6.0]), LEAST);
        let flaps = wait_after(&[100.0, 6.0, 6.0, 6.0, 6.0, 6.0, 6.0, 6.0, 6.0, 6.0]);
        assert!((6.0..7.0).contains(&flaps), "{flaps}");
        // Of those that have lasted for longer than 8 s most last.
        let mixed = wait_after(&[7.0, 8.0, 400.0, 6.0, 7.0, 300.0, 8.0, 7.0, 6.0, 8.0, 7.0]);
        assert!((8.0..9.0).contains(&mixed), "{mixed}");
    }
}
