//! Which paths share their tight link: among those choosing is vain.
//!
//! What is free moves together on paths that share: an answer about one then fits what was last heard of the
//! other, and better than what was heard of the one before that. Besides, each of two paths may have room for
//! a rate by itself; if streams of that rate at the same time do not have room, they share.

use std::collections::BTreeMap;

use headway_units::{Duration, Instant};

use crate::transfer::Prospect;

/// Two paths share with these odds before anything is known: most have tight links of their own. Range 0.01
/// to 0.5.
const PRIOR: f64 = 0.05;
/// It is known with these odds, either way. Range 0.9 to 0.999.
const SURE: f64 = 0.97;
/// After so long it is asked anew: routes change. Range 10 minutes to a day.
const LASTS: Duration = Duration::from_ms(3_600_000);
/// Time between questions about the same two paths, so that they meet other traffic. Range 10 to 600 s.
const EVERY: Duration = Duration::from_ms(60_000);
/// What a single answer can say, as the logarithm of odds: it may have nothing to do with it. Range 0.5
/// to 3.
const MOST: f64 = 1.5;

/// What is known of pairs of paths.
#[derive(Clone, Debug, Default)]
pub(crate) struct Shared {
    pairs: BTreeMap<(usize, usize), Pair>,
}

#[derive(Clone, Copy, Debug)]
struct Pair {
    ln_odds: f64,
    at: Instant,
    begun: Instant,
}

impl Shared {
    /// Returns the probability that two paths share their tight link.
    pub(crate) fn odds(&self, one: usize, other: usize) -> f64 {
        let known = self.pairs.get(&pair(one, other)).map_or(prior(), |pair| pair.ln_odds);
        1.0 / (1.0 + (-known).exp())
    }

    /// Whether it should be asked.
    pub(crate) fn is_open(&self, now: Instant, one: usize, other: usize) -> bool {
        let Some(known) = self.pairs.get(&pair(one, other)) else { return true };
        let odds = self.odds(one, other);
        let is_sure = !(1.0 - SURE..=SURE).contains(&odds);
        now - known.begun >= if is_sure { LASTS } else { EVERY }
    }

    /// Whether it is known that two paths share.
    pub(crate) fn is_sure(&self, one: usize, other: usize) -> bool {
        self.odds(one, other) > SURE
    }

    /// Returns the probability that a path is better than another by more than a factor: where they share
    /// their tight link, both have the same free.
    pub(crate) fn odds_of(
        &self,
        one: usize,
        other: usize,
        paths: (&Prospect, &Prospect),
        factor: f64,
    ) -> f64 {
        let (here, there) = paths;
        if self.is_sure(one, other) {
            there.surpasses(here, factor)
        } else {
            there.value.exceeds(&here.value, factor)
        }
    }

    /// Notes that it is asked.
    pub(crate) fn begin(&mut self, now: Instant, one: usize, other: usize) {
        let known =
            self.pairs.entry(pair(one, other)).or_insert(Pair { ln_odds: prior(), at: now, begun: now });
        if now - known.at >= LASTS {
            known.ln_odds = known.ln_odds.min(-prior()) + prior() / 2.0;
        }
        known.begun = now;
    }

    /// Takes the logarithm of how much more likely an answer was if they share.
    pub(crate) fn learn(&mut self, now: Instant, one: usize, other: usize, ln_ratio: f64) {
        let known =
            self.pairs.entry(pair(one, other)).or_insert(Pair { ln_odds: prior(), at: now, begun: now });
        known.ln_odds = (known.ln_odds + ln_ratio.clamp(-MOST, MOST)).clamp(-6.0, 6.0);
        known.at = now;
    }
}

fn prior() -> f64 {
    (PRIOR / (1.0 - PRIOR)).ln()
}

fn pair(one: usize, other: usize) -> (usize, usize) {
    (one.min(other), one.max(other))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_answers_that_say_the_same_make_it_sure_and_it_is_not_asked_again_soon() {
        let at = |minutes: i64| Instant::ZERO + Duration::from_ms(minutes * 60_000);
        let mut shared = Shared::default();
        assert!(shared.is_open(at(0), 1, 0));
        for minute in [0, 2, 4, 6, 8] {
            shared.begin(at(minute), 0, 1);
            shared.learn(at(minute), 0, 1, 4.0);
        }
        assert!(shared.is_sure(1, 0) && !shared.is_open(at(10), 0, 1) && shared.is_open(at(300), 0, 1));
    }
}
