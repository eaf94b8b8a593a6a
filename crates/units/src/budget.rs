//! How many bytes may be spent in any hour or month.

use std::collections::VecDeque;

use crate::{Bytes, Duration, Instant};

/// What is spent within this part of the period counts as spent at its end, so that memory is bounded and the
/// limit holds in any period: a second of an hour. Range 60 to 3600.
const PARTS: i64 = 3_600;

/// Bytes that may be spent within any period of a given length.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Budget {
    limit: Bytes,
    period: Duration,
    /// When a part began and ended, and what was spent in it.
    spent: VecDeque<(Instant, Instant, Bytes)>,
}

impl Budget {
    /// Creates one of which nothing is spent.
    pub const fn new(limit: Bytes, period: Duration) -> Budget {
        Budget { limit, period, spent: VecDeque::new() }
    }

    /// Creates one for any hour.
    pub const fn hourly(limit: Bytes) -> Budget {
        Budget::new(limit, Duration::from_ms(3_600_000))
    }

    /// Creates one for any 30 days.
    pub const fn monthly(limit: Bytes) -> Budget {
        Budget::new(limit, Duration::from_ms(30 * 86_400_000))
    }

    /// Returns what may be spent within the period.
    pub const fn limit(&self) -> Bytes {
        self.limit
    }

    /// Returns the length of the period.
    pub const fn period(&self) -> Duration {
        self.period
    }

    /// Counts bytes that have been sent by `now`, which is no earlier than the call before.
    pub fn spend(&mut self, now: Instant, bytes: Bytes) {
        self.forget(now);
        let part = self.period / PARTS;
        match self.spent.back_mut().filter(|(begin, ..)| now - *begin < part) {
            Some((_, end, sum)) => (*end, *sum) = (now, *sum + bytes),
            None => self.spent.push_back((now, now, bytes)),
        }
    }

    /// Returns what was spent in the period up to `now`, or up to a 3600th of it more.
    pub fn spent(&mut self, now: Instant) -> Bytes {
        self.forget(now);
        Bytes::new(self.spent.iter().map(|(_, _, bytes)| bytes.get()).sum())
    }

    /// Returns when parts of the period ended, the oldest first, and what was spent in each. Spending the
    /// same at these times gives the same budget.
    pub fn parts(&self) -> impl Iterator<Item = (Instant, Bytes)> {
        self.spent.iter().map(|(_, end, bytes)| (*end, *bytes))
    }

    /// Returns what may still be spent at `now`.
    pub fn left(&mut self, now: Instant) -> Bytes {
        Bytes::new(self.limit.get().saturating_sub(self.spent(now).get()))
    }

    /// Whether this many bytes may be spent at `now`.
    pub fn allows(&mut self, now: Instant, bytes: Bytes) -> bool {
        bytes <= self.left(now)
    }

    fn forget(&mut self, now: Instant) {
        while self.spent.front().is_some_and(|(_, end, _)| now - *end >= self.period) {
            self.spent.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn no_period_has_more_than_the_limit(
            limit in 1u64..1_000_000, wishes in prop::collection::vec((0i64..600_000, 0u64..100_000), 1..300),
        ) {
            let mut budget = Budget::hourly(Bytes::new(limit));
            let mut now = Instant::ZERO;
            let mut sent: Vec<(Instant, u64)> = Vec::new();
            for (later, wish) in wishes {
                now += Duration::from_ms(later);
                if budget.allows(now, Bytes::new(wish)) {
                    budget.spend(now, Bytes::new(wish));
                    sent.push((now, wish));
                }
                prop_assert!(budget.spent.len() <= 3_601);
                let hour: u64 =
                    sent.iter().filter(|(at, _)| now - *at < budget.period).map(|(_, bytes)| bytes).sum();
                prop_assert!(hour <= limit);
            }
        }
    }

    #[test]
    fn what_was_spent_can_be_spent_again_in_another_budget() {
        let mut budget = Budget::hourly(Bytes::new(1_000));
        let mut again = budget.clone();
        let at = |minutes: i64| Instant::ZERO + Duration::from_ms(minutes * 60_000);
        (0..50).for_each(|minute| budget.spend(at(minute), Bytes::new(10)));
        budget.parts().for_each(|(end, bytes)| again.spend(end, bytes));
        for minute in [50, 60, 80, 108, 110] {
            assert_eq!(again.left(at(minute)), budget.left(at(minute)));
        }
    }

    #[test]
    fn what_was_spent_returns_after_a_period() {
        let at = |minutes: i64| Instant::ZERO + Duration::from_ms(minutes * 60_000);
        let mut budget = Budget::hourly(Bytes::new(1_000));
        budget.spend(at(0), Bytes::new(400));
        budget.spend(at(30), Bytes::new(600));
        assert_eq!(budget.left(at(59)), Bytes::ZERO);
        assert_eq!(budget.left(at(60)), Bytes::new(400));
        assert_eq!(budget.left(at(90)), Bytes::new(1_000));
    }
}
