//! What this host knows of its paths without sending anything: whether interface, source and route are there,
//! and how much is used.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::time::Instant as Clock;

use headway_net::{ConnectOptions, Sockets as _, Via};
use headway_telemetry::interfaces::{addresses, interfaces};
use headway_telemetry::netlink::Netlink;
use headway_units::{Bytes, Duration, Rate};

use super::namespace::Namespace;
use super::opener::PathSockets;

/// The interfaces of this host, at one time.
#[derive(Debug, Default)]
pub(super) struct Interfaces {
    /// Whether each is up and has a carrier.
    works: HashMap<String, bool>,
    /// The interfaces of addresses.
    of: HashMap<IpAddr, String>,
    /// Bytes that each has received and sent.
    bytes: HashMap<String, [u64; 2]>,
}

impl Interfaces {
    /// Looks at all of them, in the network namespace of a socket for routing; there are none if the
    /// kernel does not tell.
    pub(super) fn look(netlink: &mut Netlink) -> Interfaces {
        let mut found = Interfaces::default();
        let all = interfaces(netlink).unwrap_or_default();
        for (address, index) in addresses(netlink).unwrap_or_default() {
            let of = all.iter().find(|one| one.index == index);
            found.of.extend(of.map(|one| (address, one.name.clone())));
        }
        for one in all {
            found.bytes.insert(one.name.clone(), one.bytes);
            found.works.insert(one.name, one.works);
        }
        found
    }

    /// Whether packets from an address take a path.
    pub(super) fn leads(&self, from: &IpAddr, via: &Via) -> bool {
        let is_from = via.source.is_none_or(|source| source == *from);
        is_from && via.interface.as_ref().is_none_or(|name| self.of.get(from) == Some(name))
    }

    /// Returns why a path is down, as a clause; none if nothing speaks against it.
    fn why_down(&self, via: &Via) -> Option<String> {
        let of_source = via.source.map(|source| (source, self.of.get(&source)));
        if let Some((source, None)) = of_source {
            return Some(format!("no interface has the address {source}"));
        }
        let name = via.interface.as_ref().or_else(|| of_source.and_then(|(_, name)| name))?;
        match self.works.get(name) {
            None => Some(format!("the interface {name} is gone")),
            Some(false) => Some(format!("the interface {name} is down or has no carrier")),
            Some(true) => None,
        }
    }
}

/// What is known of one path.
#[derive(Debug)]
pub(super) struct Link {
    namespace: Option<Namespace>,
    via: Via,
    sockets: PathSockets,
    /// Far ends that are addresses: names are not looked up again and again.
    peers: Vec<SocketAddr>,
    /// Why it is down; none while it is up.
    down: Option<String>,
    /// When bytes were counted last, and how many; and how many passed between the last two
    /// times, in both directions.
    counted: Option<Reading>,
    passed: Bytes,
}

impl Link {
    pub(super) fn new(
        namespace: Option<Namespace>,
        via: Via,
        sockets: PathSockets,
        hosts: &[ConnectOptions],
    ) -> Link {
        let address = |host: &ConnectOptions| Some(SocketAddr::new(host.host.parse().ok()?, host.port));
        let peers = hosts.iter().filter_map(address).collect();
        Link { namespace, via, sockets, peers, down: None, counted: None, passed: Bytes::ZERO }
    }

    /// Returns why it is down, as a clause.
    pub(super) fn down(&self) -> Option<&str> {
        self.down.as_deref()
    }

    /// Looks anew; returns whether it went down or came up, and the rate of own traffic, if it is known.
    /// `interfaces` are those of this process; probes were among what has passed if it `is_asked`.
    pub(super) fn look(
        &mut self,
        interfaces: &Interfaces,
        reverse: bool,
        is_asked: bool,
    ) -> (bool, Option<Rate>) {
        let here = match self.in_its_namespace() {
            None => None,
            Some(Ok(there)) => Some(there),
            Some(Err(why)) => return (self.set_down(Some(why)), None),
        };
        let interfaces = here.as_ref().unwrap_or(interfaces);
        let down = self.why_down(interfaces);
        (self.set_down(down), self.use_of(interfaces, reverse, is_asked))
    }

    /// Looks anew whether it is down where something has changed in the network namespace of this process;
    /// returns whether it went down or came up.
    pub(super) fn look_again(&mut self, interfaces: &Interfaces) -> bool {
        if self.namespace.is_some() {
            return false;
        }
        let down = self.why_down(interfaces);
        self.set_down(down)
    }

    fn set_down(&mut self, down: Option<String>) -> bool {
        let was_down = std::mem::replace(&mut self.down, down).is_some();
        was_down != self.down.is_some()
    }

    /// Looks at the interfaces of its network namespace, if that is another one.
    fn in_its_namespace(&self) -> Option<Result<Interfaces, String>> {
        let namespace = self.namespace.as_ref()?;
        let netlink = self.sockets.netlink().map_err(|error| namespace.failed(&error));
        Some(netlink.map(|mut netlink| Interfaces::look(&mut netlink)))
    }

    fn why_down(&self, interfaces: &Interfaces) -> Option<String> {
        interfaces.why_down(&self.via).or_else(|| {
            let refused: Vec<_> = self.peers.iter().map(|peer| self.refused(*peer)).collect();
            let first = refused.iter().flatten().next()?;
            refused.iter().all(Option::is_some).then(|| format!("this host has no way there ({first})"))
        })
    }

    /// Returns why this host has no way to a far end.
    fn refused(&self, peer: SocketAddr) -> Option<std::io::Error> {
        let socket = self.sockets.open(peer.is_ipv6(), false);
        socket.and_then(|socket| self.via.check(socket, peer)).err()
    }

    /// Returns how packets take it.
    pub(super) const fn via(&self) -> &Via {
        &self.via
    }

    /// Takes what has passed its interface since, unless probes were among that; returns the rate of own
    /// traffic, if it is known.
    fn use_of(&mut self, interfaces: &Interfaces, reverse: bool, is_asked: bool) -> Option<Rate> {
        self.passed = Bytes::ZERO;
        let now = self.reading_of(interfaces, reverse)?;
        let before = self.counted.replace(now)?;
        let [own, other] = [0, 1].map(|way| now.bytes[way].get().saturating_sub(before.bytes[way].get()));
        self.passed = Bytes::new(own + other);
        if is_asked {
            return None;
        }
        // What nobody answers does not arrive.
        if other > 0 { now.since(&before, Bytes::ZERO) } else { Some(Rate::ZERO) }
    }

    /// Returns how many bytes have passed its interface in both directions between the last two looks.
    pub(super) const fn passed(&self) -> Bytes {
        self.passed
    }

    /// Reads what has passed its interface so far; `netlink` tells the interfaces of this process.
    pub(super) fn reading(&self, netlink: &mut Netlink, reverse: bool) -> Option<Reading> {
        self.via.interface.as_ref()?;
        let there = self.in_its_namespace().transpose().ok()?;
        let interfaces = there.unwrap_or_else(|| Interfaces::look(netlink));
        self.reading_of(&interfaces, reverse)
    }

    fn reading_of(&self, interfaces: &Interfaces, reverse: bool) -> Option<Reading> {
        let [received, sent] = interfaces.bytes.get(self.via.interface.as_ref()?)?.map(Bytes::new);
        let bytes = if reverse { [received, sent] } else { [sent, received] };
        Some(Reading { at: Clock::now(), bytes })
    }
}

/// What had passed an interface at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Reading {
    at: Clock,
    /// In the direction that is measured, and in the other.
    bytes: [Bytes; 2],
}

impl Reading {
    /// Returns the rate of what has passed since an earlier reading, besides probes of so many bytes.
    pub(super) fn since(&self, before: &Reading, probes: Bytes) -> Option<Rate> {
        let own = self.bytes[0].get().saturating_sub(before.bytes[0].get() + probes.get());
        Rate::of(Bytes::new(own), Duration::from(self.at - before.at))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_down_where_its_interface_or_address_is_not() {
        let interfaces = Interfaces {
            works: [("eth0".to_owned(), true), ("wwan0".to_owned(), false)].into(),
            of: [("192.0.2.1".parse().unwrap(), "wwan0".to_owned())].into(),
            bytes: HashMap::new(),
        };
        let down = |source: Option<&str>, interface: Option<&str>| {
            let source = source.map(|source| source.parse().unwrap());
            interfaces.why_down(&Via { source, interface: interface.map(str::to_owned), mark: None })
        };
        assert_eq!((down(None, Some("eth0")), down(None, None)), (None, None));
        assert!(down(None, Some("eth1")).unwrap().contains("gone"));
        assert!(down(Some("192.0.2.1"), None).unwrap().contains("wwan0 is down"));
        assert!(down(Some("192.0.2.2"), None).unwrap().contains("no interface has"));
    }

    #[test]
    fn own_traffic_is_what_passed_besides_probes() {
        let at = Clock::now();
        let reading = |ms: u64, bytes: u64| Reading {
            at: at + std::time::Duration::from_millis(ms),
            bytes: [Bytes::new(bytes), Bytes::ZERO],
        };
        let (before, after) = (reading(0, 1_000), reading(500, 151_000));
        assert_eq!(after.since(&before, Bytes::new(50_000)), Some(Rate::from_bps(1_600_000)));
        assert_eq!(after.since(&before, Bytes::new(200_000)), Some(Rate::ZERO));
        assert_eq!(before.since(&before, Bytes::ZERO), None);
    }
}
