//! Limits on how often strangers may connect.
//!
//! One network may connect 2 times per second after a burst of 32, all together 50 times per second after a
//! burst of 100 of those that did not connect during the last minute, and as often all others. A connection
//! whose client proves its address counts only one tenth, so a network can open 20 sessions per second, and
//! for an hour its network does not count towards the common limits.

use super::network::Network;
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Parameters of a token bucket: its size and its refill rate per second.
#[derive(Clone, Copy, Debug)]
pub(super) struct BucketSize {
    pub burst: f64,
    pub per_second: f64,
}

/// A token bucket with the parameters of a [`BucketSize`].
#[derive(Clone, Copy, Debug)]
pub(super) struct Bucket {
    left: f64,
    at: Instant,
}

impl Bucket {
    pub(super) fn full(size: BucketSize, now: Instant) -> Bucket {
        Bucket { left: size.burst, at: now }
    }

    /// Takes a token if there is one.
    pub(super) fn take(&mut self, size: BucketSize, now: Instant) -> bool {
        self.add(now.saturating_duration_since(self.at).as_secs_f64() * size.per_second, size);
        self.at = now;
        let enough = self.left >= 1.0;
        if enough {
            self.left -= 1.0;
        }
        enough
    }

    fn add(&mut self, amount: f64, size: BucketSize) {
        self.left = (self.left + amount).min(size.burst);
    }
}

/// Connections from one network. A monitoring host opens one per measurement, which is mostly refunded (see
/// [`REFUND`]).
const NETWORK: BucketSize = BucketSize { burst: 32.0, per_second: 2.0 };

/// Connections from all networks that have neither proved an address nor connected lately, and those from all
/// others that have not proved one: a client that comes again and again takes nothing from those that come
/// for the first time. Each briefly costs a thread, some 100 us.
const FIRST: BucketSize = BucketSize { burst: 100.0, per_second: 50.0 };
const AGAIN: BucketSize = BucketSize { burst: 100.0, per_second: 50.0 };

/// A connection is a network's first if the last one is this long ago: [`FIRST`] then suffices for 3000
/// networks that come whenever they count as new.
const FORGOTTEN: Duration = Duration::from_secs(60);

/// The part of a connection that is refunded to a client that proves its address. The rest limits the
/// sessions of a network, which cost some 300 us each, to 20 per second.
const REFUND: f64 = 0.9;

/// A network counts as known for this long after a proof.
const KNOWN: Duration = Duration::from_secs(3600);

/// Maximum number of networks tracked, about 100 bytes each.
const MAX_NETWORKS: usize = 4096;

/// Limits connections per second, by network and in total.
#[derive(Debug)]
pub(super) struct Newcomers(Mutex<State>);

#[derive(Debug)]
struct State {
    first: Bucket,
    again: Bucket,
    networks: HashMap<Network, Account>,
}

#[derive(Debug)]
struct Account {
    bucket: Bucket,
    /// The latest connection, admitted or not.
    tried: Option<Instant>,
    proved: Option<Instant>,
}

impl Account {
    fn known(&self, now: Instant) -> bool {
        self.proved.is_some_and(|proved| now.saturating_duration_since(proved) < KNOWN)
    }
}

impl Newcomers {
    pub(super) fn new(now: Instant) -> Newcomers {
        let (first, again) = (Bucket::full(FIRST, now), Bucket::full(AGAIN, now));
        Newcomers(Mutex::new(State { first, again, networks: HashMap::new() }))
    }

    /// Returns whether a connection may be served at all.
    pub(super) fn admit(&self, network: Network, now: Instant) -> bool {
        let State { first, again, networks } = &mut *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if networks.len() >= MAX_NETWORKS && !networks.contains_key(&network) {
            // This forgets what strangers have used; the limit for all of them makes up for that.
            networks.retain(|_, account| account.known(now));
            if networks.len() >= MAX_NETWORKS {
                networks.clear();
            }
        }
        let account = networks.entry(network).or_insert_with(|| Account {
            bucket: Bucket::full(NETWORK, now),
            tried: None,
            proved: None,
        });
        let tried = account.tried.replace(now);
        let is_first = tried.is_none_or(|tried| now.saturating_duration_since(tried) >= FORGOTTEN);
        let may = |bucket: &mut Bucket, size| bucket.take(size, now);
        account.bucket.take(NETWORK, now)
            && (account.known(now) || if is_first { may(first, FIRST) } else { may(again, AGAIN) })
    }

    /// Records that a client of the network has proved its address, and the token if there is one.
    pub(super) fn proved(&self, network: Network, now: Instant) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(account) = state.networks.get_mut(&network) {
            account.proved = Some(now);
            account.bucket.add(REFUND, NETWORK);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::IpAddr;

    fn network(number: u16) -> Network {
        let [high, low] = number.to_be_bytes();
        Network::of(IpAddr::from([10, high, low, 1]))
    }

    #[test]
    fn a_network_cannot_come_again_without_end() {
        let start = Instant::now();
        let newcomers = Newcomers::new(start);
        let admitted = |at: Duration| (0..100).filter(|_| newcomers.admit(network(1), start + at)).count();
        assert_eq!(admitted(Duration::ZERO), 32);
        assert_eq!(admitted(Duration::from_secs(5)), 10);
        assert!(newcomers.admit(network(2), start), "others can");
    }

    #[test]
    fn those_that_prove_their_address_can_come_again() {
        let start = Instant::now();
        let newcomers = Newcomers::new(start);
        for second in 0..1000 {
            let now = start + Duration::from_millis(100 * second);
            assert!(newcomers.admit(network(1), now));
            newcomers.proved(network(1), now);
        }
    }

    #[test]
    fn a_flood_from_many_networks_does_not_shut_known_ones_out() {
        let start = Instant::now();
        let newcomers = Newcomers::new(start);
        assert!(newcomers.admit(network(0), start));
        newcomers.proved(network(0), start);
        let admitted = (1..20_000).filter(|number| newcomers.admit(network(*number), start)).count();
        assert_eq!(admitted, 99);
        assert!(newcomers.admit(network(0), start));
        assert!(newcomers.0.lock().unwrap().networks.len() <= MAX_NETWORKS);
    }

    #[test]
    fn networks_that_come_again_and_again_do_not_shut_new_ones_out() {
        let start = Instant::now();
        let newcomers = Newcomers::new(start);
        let (mut admitted, mut new) = (0, 0);
        // 470 connections per second from 200 networks for five minutes, and every second
        // one from a new network.
        for number in 0..300 * 470 {
            let now = start + Duration::from_secs(1).mul_f64(f64::from(number) / 470.0);
            admitted += u32::from(newcomers.admit(network((number % 200) as u16), now));
            if number % 470 == 300 {
                new += u32::from(newcomers.admit(network(1_000 + (number / 470) as u16), now));
            }
        }
        assert_eq!(new, 300);
        // What they cost the server is bounded as before, by 100 per second and the bursts.
        assert!(admitted <= 200 + 300 * 100, "{admitted}");
    }
}
