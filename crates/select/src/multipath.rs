//! Which paths one connection of Multipath TCP should use together.
//!
//! The kernel's scheduler sends over the subflow whose queue is shortest in time, and what is sent over one
//! that is slow, or loses packets, keeps all that comes after it from the application. On emulated pairs of
//! paths (`bench/multipath.py`) a second one with a fifth of what the first has, or more, made a connection
//! faster by nearly as much; one with a tenth made no difference, and one with a twentieth or less took a
//! tenth to all of what there was without it.

use headway_units::{Duration, Instant, Rate};

use crate::selector::Selector;

/// A path is used beside others if it may have this part of the most that one of them may. Range 0.08 to 0.2.
const WORTH: f64 = 0.1;
/// One that is used stays so down to this part. Range 0.03 to [`WORTH`].
const STAYS: f64 = 0.06;
/// A subflow that gets less for so many seconds has failed: in one it may have lost a whole window. Range 2
/// to 5.
const SECONDS: u32 = 2;
/// A path that has failed is tried again after so long, and after twice as long each time, up to the longest.
/// Ranges 5 to 60 s, and a minute to an hour: a trial costs some seconds of the connection.
const AGAIN: [Duration; 2] = [Duration::from_ms(15_000), Duration::from_ms(600_000)];

/// How connections that use several paths together fared on one.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Trial {
    /// For how many seconds in a row a subflow got too little.
    seconds: u32,
    /// Until when it is not used, and for how long that was.
    until: Option<Instant>,
    pause: Duration,
}

impl Trial {
    /// Takes whether a subflow got too little in a second.
    fn take(&mut self, now: Instant, is_little: bool) {
        self.seconds = if is_little { self.seconds + 1 } else { 0 };
        if self.seconds < SECONDS {
            // Who did well for as long as the last pause begins anew.
            if self.until.is_some_and(|until| now - until > self.pause) {
                *self = Trial { seconds: self.seconds, ..Trial::default() };
            }
            return;
        }
        let [least, most] = AGAIN;
        self.pause = (self.pause * 2).clamp(least, most);
        (self.seconds, self.until) = (0, Some(now + self.pause));
    }

    fn is_out(&self, now: Instant) -> bool {
        self.until.is_some_and(|until| now < until)
    }
}

/// Returns which paths to use together, that may have these rates, in bit/s: none for one that cannot be
/// used. Those that are used now are `used`.
fn together(rates: &[Option<f64>], used: &[bool]) -> Vec<bool> {
    let most = rates.iter().flatten().copied().fold(0.0, f64::max);
    let is_worth = |(path, rate): (usize, &Option<f64>)| {
        let part = if used.get(path).is_some_and(|used| *used) { STAYS } else { WORTH };
        rate.is_some_and(|rate| rate >= part * most)
    };
    let found: Vec<bool> = rates.iter().enumerate().map(is_worth).collect();
    // Without any it is not for this host to say over which to send.
    if found.contains(&true) { found } else { vec![true; rates.len()] }
}

impl Selector {
    /// Returns what one connection may have on a path, in bit/s, if anything is known of it.
    fn rate_of_one(&self, now: Instant, path: usize) -> Option<f64> {
        let state = &self.paths[path];
        let free = state.belief.at(now).quantile(0.5).bps_f64();
        state.belief.is_known().then(|| state.losses.expected_rate(free, &state.conditions()))
    }

    /// Returns the most that one connection may have on a path that can be used, in bit/s.
    fn most_of_one(&self, now: Instant, but: Option<usize>) -> f64 {
        let others = self.candidates(now).into_iter().filter(|path| Some(*path) != but);
        others.filter_map(|path| self.rate_of_one(now, path)).fold(0.0, f64::max)
    }

    /// Takes the rate that own connections had on a path for a second, in which they always had more to send;
    /// to be called once a second, where they use several paths together.
    pub fn backlogged(&mut self, now: Instant, path: usize, rate: Rate) {
        let now = self.advance(now);
        let is_little = rate.bps_f64() < STAYS * self.most_of_one(now, Some(path));
        if let Some(state) = self.paths.get_mut(path) {
            state.trial.take(now, is_little);
        }
    }

    /// Returns which paths one connection should use at the same time, where `used` are those that it uses
    /// now; one at least. The rest should be backups. A path of which nothing is known yet is used.
    pub fn together(&self, now: Instant, used: &[bool]) -> Vec<bool> {
        let (candidates, most) = (self.candidates(now), self.most_of_one(now, None));
        let is_open = |path: &usize| candidates.contains(path) && !self.paths[*path].trial.is_out(now);
        let rate = |path| Some(path).filter(is_open).map(|path| self.rate_of_one(now, path).unwrap_or(most));
        let rates: Vec<Option<f64>> = (0..self.paths.len()).map(rate).collect();
        together(&rates, used)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_used_beside_others_only_where_it_adds_much() {
        let both = [true; 2];
        assert_eq!(together(&[Some(40e6), Some(10e6)], &[]), both);
        assert_eq!(together(&[Some(40e6), Some(2e6)], &both), [true, false]);
        assert_eq!(together(&[Some(1e6), Some(30e6)], &both), [false, true]);
        // Between the two parts it stays as it is.
        assert_eq!(together(&[Some(40e6), Some(3e6)], &both), both);
        assert_eq!(together(&[Some(40e6), Some(3e6)], &[true, false]), [true, false]);
        assert_eq!(together(&[Some(40e6), None], &both), [true, false]);
        for nothing in [[None; 2], [Some(0.0); 2]] {
            assert_eq!(together(&nothing, &[false; 2]), both);
        }
    }

    #[test]
    fn a_path_that_fails_again_and_again_is_tried_ever_later() {
        let (mut trial, mut now) = (Trial::default(), Instant::ZERO);
        let mut second = |trial: &mut Trial, is_little| {
            now += Duration::from_ms(1_000);
            trial.take(now, is_little);
            now
        };
        // One bad second says nothing.
        for is_little in [true, false, true, false] {
            let now = second(&mut trial, is_little);
            assert!(!trial.is_out(now));
        }
        for pause in [15, 30, 60, 120, 240, 480, 600, 600] {
            second(&mut trial, true);
            let now = second(&mut trial, true);
            assert!(trial.is_out(now + Duration::from_ms(pause * 1_000 - 1)));
            assert!(!trial.is_out(now + Duration::from_ms(pause * 1_000)));
        }
        for _ in 0..1_202 {
            second(&mut trial, false);
        }
        second(&mut trial, true);
        let now = second(&mut trial, true);
        assert!(!trial.is_out(now + Duration::from_ms(15_000)));
    }
}
