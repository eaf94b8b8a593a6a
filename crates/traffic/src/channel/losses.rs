//! Losses that come in bursts: the model of Gilbert and Elliott.

use headway_units::{Duration, Instant};
use rand::RngExt as _;
use rand_pcg::Pcg64Mcg;
use serde::{Deserialize, Serialize};

use super::OutOfRange;
use crate::distribution::exponential;
use crate::random;

/// Losses in bursts: a link is in a good or in a bad state, each for an exponentially distributed time, and
/// loses packets in the bad one (Gilbert 1960, Elliott 1963).
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LossBursts {
    /// Mean time in the good state.
    pub good: Duration,
    /// Mean time in the bad state.
    pub bad: Duration,
    /// Probability that a packet is lost in the bad state; default 1.
    #[serde(default = "all", deserialize_with = "headway_units::share::deserialize")]
    pub loss: f64,
}

fn all() -> f64 {
    1.0
}

/// The shortest mean time in a state; shorter ones would cost more than packets.
const SHORTEST: Duration = Duration::from_us(10);

impl LossBursts {
    /// Returns what is wrong, if anything is.
    pub fn mistake(&self) -> Option<OutOfRange> {
        let time = |time: Duration| (SHORTEST..=Duration::from_ms(1_000_000)).contains(&time);
        let rule = "must lie between 10 us and 1000 s";
        match () {
            () if !time(self.good) => Some(("good", rule)),
            () if !time(self.bad) => Some(("bad", rule)),
            () if !(self.loss > 0.0 && self.loss <= 1.0) => {
                Some(("loss", "must be more than 0 and at most 1"))
            }
            () => None,
        }
    }
}

/// The losses of one direction of a link over time.
#[derive(Clone, Debug)]
pub struct Losses {
    bursts: LossBursts,
    rng: Pcg64Mcg,
    /// Decides with the time of a packet whether it is lost.
    key: u64,
    bad: bool,
    /// When the state ends (ns).
    until: u64,
}

impl Losses {
    /// Creates the losses of link number `id` from `start` on, in a state as likely as at any other time.
    pub fn new(bursts: LossBursts, start: Instant, seed: u64, id: u64) -> Losses {
        let mut rng = random::generator(seed, "losses", id);
        let key = rng.random();
        let share = bursts.bad.secs_f64() / (bursts.good + bursts.bad).secs_f64();
        let bad = rng.random::<f64>() < share;
        let mut losses = Losses { bursts, rng, key, bad, until: start.ns() };
        losses.until += losses.draw();
        losses
    }

    /// Draws how long the state lasts (ns).
    fn draw(&mut self) -> u64 {
        let mean = if self.bad { self.bursts.bad } else { self.bursts.good };
        mean.scale(exponential(&mut self.rng)).ns().unsigned_abs().max(1)
    }

    /// Returns whether a packet is lost that leaves at `at`; times must not decrease. All packets of a
    /// time share their fate.
    pub fn loses(&mut self, at: Instant) -> bool {
        while self.until <= at.ns() {
            self.bad = !self.bad;
            self.until += self.draw();
        }
        self.bad && share(self.key ^ at.ns()) < self.bursts.loss
    }
}

/// Returns a number from 0 to 1 that looks random (the output function of SplitMix64).
fn share(number: u64) -> f64 {
    let mut z = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    ((z ^ (z >> 31)) >> 11) as f64 / (1u64 << 53) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    const BURSTS: LossBursts =
        LossBursts { good: Duration::from_ms(900), bad: Duration::from_ms(100), loss: 0.4 };

    fn fates(step: Duration, count: i64, seed: u64) -> Vec<(Instant, bool)> {
        let mut losses = Losses::new(BURSTS, Instant::ZERO, seed, 3);
        (0..count).map(|number| Instant::ZERO + step * number).map(|at| (at, losses.loses(at))).collect()
    }

    #[test]
    fn the_share_of_losses_is_that_of_bad_times_by_their_probability() {
        let lost: usize = (0..10)
            .map(|seed| fates(Duration::from_ms(10), 100_000, seed).iter().filter(|(_, lost)| *lost).count())
            .sum();
        assert!((lost as f64 / 40_000.0 - 1.0).abs() < 0.05, "{lost}");
    }

    #[test]
    fn losses_come_in_bursts() {
        let fates = fates(Duration::from_ms(1), 400_000, 1);
        let both = fates.windows(2).filter(|pair| pair[0].1 && pair[1].1).count() as f64;
        let lost = fates.iter().filter(|(_, lost)| *lost).count() as f64;
        // 0.04 if losses were independent; a bad time of 100 ms goes on over the next
        // packet in 99 of 100 cases.
        assert!((both / lost - 0.4 * 0.99).abs() < 0.03, "{}", both / lost);
    }

    #[test]
    fn a_time_has_the_same_fate_whatever_is_sent_before() {
        let often = fates(Duration::from_us(500), 40_000, 7);
        let rarely = fates(Duration::from_ms(10), 2_000, 7);
        assert!(rarely.iter().all(|fate| often.contains(fate)));
        assert!(rarely.iter().any(|(_, lost)| *lost));
    }

    #[test]
    fn parameters_out_of_range_are_refused_with_their_key() {
        let key = |bursts: LossBursts| bursts.mistake().map(|(key, _)| key);
        assert_eq!(key(BURSTS), None);
        assert_eq!(key(LossBursts { good: Duration::ZERO, ..BURSTS }), Some("good"));
        assert_eq!(key(LossBursts { bad: Duration::from_us(9), ..BURSTS }), Some("bad"));
        assert_eq!(key(LossBursts { loss: 0.0, ..BURSTS }), Some("loss"));
        assert_eq!(key(LossBursts { loss: f64::NAN, ..BURSTS }), Some("loss"));
    }
}
