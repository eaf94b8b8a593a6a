//! Turns on a processor, shared fairly among networks by the CPU time they have used.
//!
//! At most half of the processors (at least one) send streams with a gap below 400 us, each of which
//! occupies a processor, and as many again send streams with wider gaps, several per processor. The CPU
//! time of a stream is known before it starts: the time from first to last packet, or 200 us per packet
//! with wider gaps. The network that has used the least CPU time in the last minutes goes first, and one
//! that requests streams without pause gets a quarter of that half. A stream ends when its client closes
//! the control connection.

use super::network::Network;
use crate::limits::Work;
use std::collections::HashMap;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Longest time between two checks whether a waiting client is still connected and its turn has come.
const LOOK: Duration = Duration::from_millis(10);

/// Half-life, in seconds, of the CPU time charged to a network when turns are shared. Each of many networks
/// that request without pause has used little recently, but much over a longer time.
const HALF_LIFE: f64 = 60.0;

/// A network that has used this much more CPU time than an active one waits for it. A measurement requests
/// one stream after the other, an RTT apart, and would otherwise find somebody else's turn in progress each
/// time. In seconds; a measurement takes 0.2 s of CPU time at 100 Mb/s.
const YIELD_ABOVE: f64 = 0.75;

/// ... for this long after the active network's last turn, which is more than most RTTs.
const YIELD_TIME: Duration = Duration::from_millis(100);

/// Maximum number of networks tracked; beyond it, those that have used less than `FORGOTTEN`
/// seconds are removed.
const MAX_ACCOUNTS: usize = 1024;
const FORGOTTEN: f64 = 0.1;

/// A limit on CPU time: a burst in seconds, and the share of a processor on average.
#[derive(Clone, Copy, Debug)]
pub(super) struct Allowance {
    pub burst: f64,
    pub share: f64,
}

/// Hands out turns on the processors, several of which may run at the same time.
#[derive(Debug)]
pub(super) struct Turns {
    state: Mutex<State>,
    changed: Condvar,
    /// Thousandths of a processor that may be in use at the same time.
    most: u32,
    network: Allowance,
    all: Allowance,
}

#[derive(Debug, Default)]
struct State {
    in_use: u32,
    next: u64,
    waiting: Vec<Waiting>,
    accounts: HashMap<Network, Account>,
    all: Account,
}

#[derive(Clone, Copy, Debug)]
struct Waiting {
    id: u64,
    network: Network,
    share: u32,
}

/// CPU time used, in seconds.
#[derive(Clone, Copy, Debug, Default)]
struct Account {
    /// The part not yet paid back at the allowed share.
    debt: f64,
    /// The decaying sum that decides whose turn is next, see [`HALF_LIFE`].
    used: f64,
    at: Option<Instant>,
    /// The end of the last turn.
    ended: Option<Instant>,
}

impl Account {
    /// Returns the seconds since the last charge.
    fn age(&self, now: Instant) -> f64 {
        self.at.map_or(0.0, |at| now.saturating_duration_since(at).as_secs_f64())
    }

    fn debt(&self, allowance: Allowance, now: Instant) -> f64 {
        (self.debt - self.age(now) * allowance.share).max(0.0)
    }

    fn used(&self, now: Instant) -> f64 {
        self.used * 0.5f64.powf(self.age(now) / HALF_LIFE)
    }

    fn charge(&mut self, seconds: f64, allowance: Allowance, now: Instant) {
        (self.debt, self.used) = (self.debt(allowance, now) + seconds, self.used(now) + seconds);
        self.at = Some(now);
    }

    /// Whether the network had a turn recently and may be in the middle of a measurement.
    fn is_active(&self, now: Instant) -> bool {
        self.ended.is_some_and(|ended| now.saturating_duration_since(ended) < YIELD_TIME)
    }
}

impl Turns {
    pub(super) fn new(most: u32, network: Allowance, all: Allowance) -> Turns {
        Turns { state: Mutex::default(), changed: Condvar::new(), most, network, all }
    }

    /// Waits for a turn, which is released on drop; `None` if it does not come in time or `gone` reports that
    /// no one waits for it any more.
    pub(super) fn take(
        &self,
        network: Network,
        work: Work,
        timeout: Duration,
        mut gone: impl FnMut() -> bool,
    ) -> Option<Turn<'_>> {
        let deadline = Instant::now() + timeout;
        let mut state = self.lock();
        let share = work.share.min(self.most);
        let id = state.next;
        state.next += 1;
        state.waiting.push(Waiting { id, network, share });
        loop {
            let now = Instant::now();
            let mine = self.next(&state, now).is_some_and(|next| next.id == id);
            if mine || now >= deadline || gone() {
                state.waiting.retain(|waiting| waiting.id != id);
                self.changed.notify_all();
                if !mine {
                    return None;
                }
                self.begin(&mut state, network, share, work.time, now);
                return Some(Turn { turns: self, network, share, planned: work.time, begun: now });
            }
            let left = deadline.saturating_duration_since(now);
            let waited = self.changed.wait_timeout(state, left.min(LOOK));
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Returns whose turn is next: of those allowed, the one whose network has used the least, if it fits
    /// beside the turns in progress.
    fn next(&self, state: &State, now: Instant) -> Option<Waiting> {
        if state.all.debt(self.all, now) > self.all.burst {
            return None;
        }
        let active = state.accounts.values().filter(|account| account.is_active(now));
        let most = active.map(|account| account.used(now)).fold(f64::INFINITY, f64::min) + YIELD_ABOVE;
        let may = state.waiting.iter().filter_map(|waiting| {
            let account = state.accounts.get(&waiting.network).copied().unwrap_or_default();
            let used = account.used(now);
            (account.debt(self.network, now) <= self.network.burst && used <= most).then_some((used, waiting))
        });
        let (_, first) =
            may.min_by(|(a, first), (b, second)| a.total_cmp(b).then(first.id.cmp(&second.id)))?;
        (state.in_use + first.share <= self.most).then_some(*first)
    }

    fn begin(&self, state: &mut State, network: Network, share: u32, time: Duration, now: Instant) {
        if state.accounts.len() >= MAX_ACCOUNTS {
            state.accounts.retain(|_, account| account.used(now) > FORGOTTEN);
        }
        state.in_use += share;
        self.charge(state, network, time.as_secs_f64(), now);
    }

    fn charge(&self, state: &mut State, network: Network, seconds: f64, now: Instant) {
        state.accounts.entry(network).or_default().charge(seconds, self.network, now);
        state.all.charge(seconds, self.all, now);
    }

    /// Locks the mutex even if it is poisoned: every change is a single step, so a panic leaves
    /// the data consistent.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The right to use a processor or a part of one.
#[derive(Debug)]
pub(super) struct Turn<'a> {
    turns: &'a Turns,
    network: Network,
    share: u32,
    planned: Duration,
    begun: Instant,
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let now = Instant::now();
        let used = (now - self.begun).as_secs_f64() * f64::from(self.share) / 1000.0;
        let mut state = self.turns.lock();
        state.in_use -= self.share;
        // Time beyond the plan is charged, too.
        let more = (used - self.planned.as_secs_f64()).max(0.0);
        self.turns.charge(&mut state, self.network, more, now);
        if let Some(account) = state.accounts.get_mut(&self.network) {
            account.ended = Some(now);
        }
        self.turns.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::IpAddr;

    const PLENTY: Allowance = Allowance { burst: 1e9, share: 1.0 };

    fn network(number: u8) -> Network {
        Network::of(IpAddr::from([10, 0, number, 1]))
    }

    /// A whole processor for `ms`.
    fn work(ms: u64) -> Work {
        Work { share: 1000, time: Duration::from_millis(ms) }
    }

    fn waiting(id: u64, number: u8) -> Waiting {
        Waiting { id, network: network(number), share: 1000 }
    }

    #[test]
    fn turns_are_few_and_come_back() {
        let turns = Turns::new(1000, PLENTY, PLENTY);
        let take = |timeout| turns.take(network(1), work(1), timeout, || false);
        let first = take(Duration::ZERO).unwrap();
        assert!(take(Duration::from_millis(10)).is_none(), "in time");
        let minute = Duration::from_secs(60);
        assert!(turns.take(network(1), work(1), minute, || true).is_none(), "nobody waits");
        std::thread::scope(|scope| {
            let second = scope.spawn(|| take(minute).is_some());
            drop(first);
            assert!(second.join().unwrap());
        });
        assert!(take(Duration::ZERO).is_some());
        assert!(turns.lock().waiting.is_empty());
    }

    #[test]
    fn parts_of_a_processor_run_side_by_side() {
        let turns = Turns::new(1000, PLENTY, PLENTY);
        let part = Work { share: 400, time: Duration::ZERO };
        let take = |part| turns.take(network(1), part, Duration::ZERO, || false);
        let both = (take(part).unwrap(), take(part).unwrap());
        assert!(take(part).is_none());
        assert!(take(Work { share: 200, ..part }).is_some());
        drop(both);
        assert!(take(Work { share: 5000, ..part }).is_some(), "nobody wants more than there is");
    }

    #[test]
    fn the_network_that_had_least_goes_first() {
        let turns = Turns::new(1000, PLENTY, PLENTY);
        let now = Instant::now();
        let mut state =
            State { waiting: vec![waiting(1, 1), waiting(2, 1), waiting(3, 2)], ..State::default() };
        assert_eq!(turns.next(&state, now).unwrap().id, 1, "all used the same");
        turns.charge(&mut state, network(1), 0.2, now);
        assert_eq!(turns.next(&state, now).unwrap().id, 3);
        turns.charge(&mut state, network(2), 0.3, now);
        assert_eq!(turns.next(&state, now).unwrap().id, 1);
        state.in_use = 1;
        assert!(turns.next(&state, now).is_none(), "and nobody overtakes it");
    }

    #[test]
    fn a_network_that_had_much_leaves_others_a_moment() {
        let turns = Turns::new(1000, PLENTY, PLENTY);
        let now = Instant::now();
        let mut state = State { waiting: vec![waiting(1, 1)], ..State::default() };
        turns.charge(&mut state, network(1), 1.5, now);
        turns.charge(&mut state, network(2), 0.1, now);
        state.accounts.get_mut(&network(2)).unwrap().ended = Some(now);
        assert!(turns.next(&state, now + Duration::from_millis(50)).is_none());
        assert!(turns.next(&state, now + Duration::from_millis(150)).is_some());
        turns.charge(&mut state, network(2), 1.2, now);
        assert!(turns.next(&state, now).is_some(), "not when both used about the same");
    }

    #[test]
    fn what_was_had_counts_for_minutes() {
        let turns = Turns::new(1000, PLENTY, PLENTY);
        let start = Instant::now();
        let mut state = State { waiting: vec![waiting(1, 1), waiting(2, 2)], ..State::default() };
        // A sixth of a processor for a minute, paid back all the time, against one measurement.
        for second in 0..60 {
            turns.charge(&mut state, network(1), 1.0 / 6.0, start + Duration::from_secs(second));
        }
        let now = start + Duration::from_secs(60);
        turns.charge(&mut state, network(2), 0.2, now);
        assert_eq!(turns.next(&state, now).unwrap().id, 2);
    }

    #[test]
    fn nobody_has_more_than_is_allowed_however_long_it_asks() {
        let (quarter, half) = (Allowance { burst: 1.0, share: 0.25 }, Allowance { burst: 2.0, share: 0.5 });
        let turns = Turns::new(1000, quarter, half);
        // A hundred seconds of requests without pause, by one network and by four.
        for (networks, expected) in [(1, 26.0), (4, 52.0)] {
            let start = Instant::now();
            let mut state = State::default();
            let mut used = 0.0;
            for step in 0..1000 {
                let now = start + Duration::from_millis(100 * step);
                state.waiting = (1..=networks).map(|number| waiting(u64::from(number), number)).collect();
                if let Some(next) = turns.next(&state, now) {
                    turns.charge(&mut state, next.network, 0.1, now);
                    used += 0.1;
                }
            }
            assert!(f64::abs(used - expected) < 0.5, "{networks} networks used {used} s");
        }
    }
}
