//! Connections that come back: a target that leads to the relay itself, at once or over another relay.
//!
//! TCP has no count of hops. But in a loop one connection of a client becomes as many as there are
//! places, all from one address, on none of which the target ever says anything; and when one of
//! them ends, so do all.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use nix::ifaddrs::getifaddrs;

use crate::pair::Pair;

/// How long the target must have been silent: in a loop it is for ever, and others answer within round-trip
/// times, or after work. Range 1 to 10 s.
const SILENT: Duration = Duration::from_secs(3);
/// How soon others have ended if they were a loop, of which one was ended, and how much
/// later for each of them.
const TRIAL: Duration = Duration::from_secs(2);
const EACH: Duration = Duration::from_millis(10);
/// How many others end with it at least, if there are this many, and which part of all others: several
/// clients make several loops.
const LEAST: usize = 3;
const PART: usize = 32;
/// How long it holds that an address is a loop, and that it is none.
const HOLDS: [Duration; 2] = [Duration::from_secs(600), Duration::from_secs(60)];

/// How connections come back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loop {
    /// The target is the relay, at this address.
    Itself(SocketAddr),
    /// What goes to the target comes back from this address, which may have this many places from now on.
    Over(IpAddr, usize),
}

/// Whether connections to a target reach who listens at an address; a port 0 is not known yet.
pub fn leads_back(listen: SocketAddr, target: SocketAddr) -> bool {
    if listen.port() != target.port() || listen.port() == 0 {
        return false;
    }
    let (here, there) = (listen.ip().to_canonical(), target.ip().to_canonical());
    // All of IPv6 has that of IPv4 with it.
    let is_alike = here.is_ipv4() == there.is_ipv4() || here.is_ipv6();
    here == there
        || here.is_unspecified() && is_alike && is_of_this_host(there)
        || there.is_unspecified() && here.is_loopback()
}

fn is_of_this_host(address: IpAddr) -> bool {
    let is_it = |found: nix::ifaddrs::InterfaceAddress| {
        let found = found.address?;
        let v4 = found.as_sockaddr_in().map(|v4| IpAddr::from(v4.ip()));
        v4.or_else(|| found.as_sockaddr_in6().map(|v6| IpAddr::from(v6.ip())))
    };
    address.is_unspecified()
        || address.is_loopback()
        || getifaddrs().into_iter().flatten().filter_map(is_it).any(|own| own == address)
}

/// What is known of connections that come back over others.
#[derive(Debug, Default)]
pub(crate) struct Loops {
    /// How many connections had ended when one ended last, and when that was.
    calm: Option<(u64, Instant)>,
    /// The address of which a connection was ended to see what follows, how many others it had, and when.
    trial: Option<(IpAddr, usize, Instant)>,
    /// The last address that was tried, whether it was a loop, and until when that holds.
    judged: Option<(IpAddr, bool, Instant)>,
    /// What was not told yet.
    told: Option<Loop>,
    is_itself_told: bool,
}

impl Loops {
    /// Takes what is to be reported, once.
    pub(crate) fn take(&mut self) -> Option<Loop> {
        self.told.take()
    }

    /// Notes that a connection arrived at the address of the target.
    pub(crate) fn came_back(&mut self, target: SocketAddr) {
        if !std::mem::replace(&mut self.is_itself_told, true) {
            self.told = Some(Loop::Itself(target));
        }
    }

    /// Returns how many places of all an address may have, if not all.
    pub(crate) fn most(&self, client: IpAddr, all: usize, now: Instant) -> Option<usize> {
        let (address, is_loop, until) = self.judged?;
        (is_loop && address == client && now < until).then(|| share(all))
    }

    /// Looks at all connections, of which there may be `all`, and of which so many have `ended` since the
    /// beginning; returns the place of one that is to be ended: while no place is free and none becomes free,
    /// the newest one of an address that has half of the places or more, and whose connections the target has
    /// left without an answer.
    pub(crate) fn look(
        &mut self,
        pairs: &[Option<Pair>],
        all: usize,
        ended: u64,
        now: Instant,
    ) -> Option<usize> {
        let since = self.calm.filter(|(then, _)| *then == ended).map_or(now, |(_, since)| since);
        self.calm = Some((ended, since));
        if self.trial.is_some() {
            self.judge(pairs, all, now);
            return None;
        }
        if pairs.iter().flatten().count() < all {
            return None;
        }
        let mut counts: HashMap<IpAddr, usize> = HashMap::new();
        for pair in pairs.iter().flatten().filter(|pair| is_silent(pair, now)) {
            *counts.entry(pair.client().ip()).or_default() += 1;
        }
        let (client, had) = counts.into_iter().max_by_key(|(_, count)| *count)?;
        let judged = self.judged.filter(|(address, _, until)| *address == client && now < *until);
        let is_loop = judged.map(|(_, is_loop, _)| is_loop);
        if had < 2 || 2 * had < all || is_loop == Some(false) {
            return None;
        }
        if is_loop.is_none() {
            if now.duration_since(since) < SILENT {
                return None;
            }
            self.trial = Some((client, had - 1, now));
        }
        let places = pairs.iter().enumerate().filter_map(|(place, pair)| Some((place, pair.as_ref()?)));
        let of_client = places.filter(|(_, pair)| pair.client().ip() == client);
        of_client.min_by_key(|(_, pair)| pair.age(now)).map(|(place, _)| place)
    }

    /// Judges an address by what has become of its others since one was ended.
    fn judge(&mut self, pairs: &[Option<Pair>], all: usize, now: Instant) {
        let Some((client, others, since)) = self.trial else { return };
        let time = now.duration_since(since);
        let is_of_then = |pair: &&Pair| pair.client().ip() == client && pair.age(now) > time;
        let left = pairs.iter().flatten().filter(|pair| is_silent(pair, now)).filter(is_of_then).count();
        let is_loop = others.saturating_sub(left) >= (others / PART).max(LEAST).min(others);
        if is_loop || time >= TRIAL + EACH * others as u32 {
            (self.trial, self.judged) = (None, Some((client, is_loop, now + HOLDS[usize::from(!is_loop)])));
            self.told = is_loop.then(|| Loop::Over(client, share(all))).or(self.told);
        }
    }
}

fn is_silent(pair: &Pair, now: Instant) -> bool {
    pair.bytes()[1] == 0 && pair.age(now) >= SILENT
}

/// The places of an address whose connections come back: enough for its own clients, and too
/// few to keep others out.
fn share(all: usize) -> usize {
    (all / 4).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_leads_back_where_it_is_an_address_of_the_listener() {
        for (listen, target, leads) in [
            ("127.0.0.1:80", "127.0.0.1:80", true),
            ("0.0.0.0:80", "127.0.0.1:80", true),
            ("0.0.0.0:80", "127.9.9.9:80", true),
            ("[::]:80", "127.0.0.1:80", true),
            ("[::]:80", "[::1]:80", true),
            ("127.0.0.1:80", "0.0.0.0:80", true),
            ("[::ffff:127.0.0.1]:80", "127.0.0.1:80", true),
            ("0.0.0.0:80", "[::1]:80", false),
            ("0.0.0.0:80", "127.0.0.1:81", false),
            ("0.0.0.0:80", "192.0.2.1:80", false),
            ("127.0.0.1:80", "127.0.0.2:80", false),
            ("0.0.0.0:0", "127.0.0.1:0", false),
        ] {
            assert_eq!(
                leads_back(listen.parse().unwrap(), target.parse().unwrap()),
                leads,
                "{listen} {target}"
            );
        }
    }
}
