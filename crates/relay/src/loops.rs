//! Connections that come back: a target that leads to the relay itself, at once or over another relay.
//!
//! TCP has no count of hops. But in a loop one connection of a client becomes as many as there are places, all from one address, on none of
//! which the target ever says anything; and when one of them ends, so do all.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use nix::ifaddrs::getifaddrs;

use crate::pair::Pair;

/// How long the target must have been silent: in a loop it is for ever, and others answer within round-trip times.
const SILENT: Duration = Duration::from_secs(1);
/// How soon most connections of an address have ended if they were a loop, of which one was ended.
const TRIAL: Duration = Duration::from_secs(10);
/// How long a judgement holds.
const HOLDS: Duration = Duration::from_secs(600);

/// How connections come back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loop {
    /// The target is the relay, at this address.
    Itself(SocketAddr),
    /// What goes to the target comes back from this address, which may have so many places from now on.
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
    /// The address of which a connection was ended to see what follows, how many it had, and when.
    trial: Option<(IpAddr, usize, Instant)>,
    /// The last address that was tried, whether it was a loop, and until when that holds.
    judged: Option<(IpAddr, bool, Instant)>,
    /// What was not told yet.
    told: Option<Loop>,
    is_itself_told: bool,
}

impl Loops {
    /// Takes what is to be told, once.
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

    /// Looks at all connections, of which there may be `all`; returns the place of one that is to be ended: the newest one of an address that
    /// has most of the places while none is free, and whose connections the target has left without an answer.
    pub(crate) fn look(&mut self, pairs: &[Option<Pair>], all: usize, now: Instant) -> Option<usize> {
        let is_silent = |pair: &&Pair| pair.bytes()[1] == 0 && pair.age(now) >= SILENT;
        if let Some((client, had, since)) = self.trial {
            let of_client = |pair: &&Pair| pair.client().ip() == client;
            let left = pairs.iter().flatten().filter(is_silent).filter(of_client).count();
            let is_loop = 2 * left < had;
            if is_loop || now.duration_since(since) >= TRIAL {
                (self.trial, self.judged) = (None, Some((client, is_loop, now + HOLDS)));
                self.told = is_loop.then(|| Loop::Over(client, share(all))).or(self.told);
            }
            return None;
        }
        let open = pairs.iter().flatten().count();
        if open < all || all < 2 {
            return None;
        }
        let mut counts: HashMap<IpAddr, usize> = HashMap::new();
        for pair in pairs.iter().flatten().filter(is_silent) {
            *counts.entry(pair.client().ip()).or_default() += 1;
        }
        let (client, had) = counts.into_iter().max_by_key(|(_, count)| *count)?;
        let is_judged = self.judged.is_some_and(|(address, _, until)| address == client && now < until);
        if is_judged || 4 * had < 3 * all {
            return None;
        }
        self.trial = Some((client, had, now));
        let of_client = |pair: &Pair| pair.client().ip() == client;
        let places = pairs.iter().enumerate().filter_map(|(place, pair)| Some((place, pair.as_ref()?)));
        let newest = places.filter(|(_, pair)| of_client(pair)).min_by_key(|(_, pair)| pair.age(now));
        newest.map(|(place, _)| place)
    }
}

/// The places of an address whose connections come back: enough for its own clients, and too few to keep others out.
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
