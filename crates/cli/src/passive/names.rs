//! Names of peers and hosts: addresses, or pseudonyms.

use std::collections::HashMap;
use std::net::IpAddr;

use headway_passive::{Direction, Endpoint, PathKey, Peer};

/// Gives names, the same ones in all outputs of a run; runs over the same file with the same options agree.
#[derive(Debug)]
pub(super) struct Names {
    hide: bool,
    peers: HashMap<Peer, usize>,
    hosts: HashMap<IpAddr, usize>,
}

impl Names {
    pub(super) fn new(hide: bool) -> Names {
        Names { hide, peers: HashMap::new(), hosts: HashMap::new() }
    }

    /// Whether addresses are replaced.
    pub(super) fn hidden(&self) -> bool {
        self.hide
    }

    /// Returns the name of the peers of a path.
    pub(super) fn peer(&mut self, peer: Peer) -> String {
        match peer {
            Peer::Network(_) if self.hide => {
                let next = self.peers.len() + 1;
                format!("network-{}", self.peers.entry(peer).or_insert(next))
            }
            Peer::Host(address) if self.hide => self.host(address),
            _ => peer.to_string(),
        }
    }

    /// Returns the name of a path.
    pub(super) fn path(&mut self, key: &PathKey) -> String {
        let direction = match key.direction {
            Direction::To => "to",
            Direction::From => "from",
        };
        format!("{direction} {}", self.peer(key.peer))
    }

    /// Returns the name of an end of a connection.
    pub(super) fn endpoint(&mut self, end: Endpoint) -> String {
        let Endpoint { address, port } = end;
        match address {
            _ if self.hide => format!("{}:{port}", self.host(address)),
            IpAddr::V4(address) => format!("{address}:{port}"),
            IpAddr::V6(address) => format!("[{address}]:{port}"),
        }
    }

    fn host(&mut self, address: IpAddr) -> String {
        let next = self.hosts.len() + 1;
        format!("host-{}", self.hosts.entry(address).or_insert(next))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pseudonyms_are_stable_and_tell_nothing() {
        let mut names = Names::new(true);
        let address = |text: &str| text.parse::<IpAddr>().unwrap();
        let first = Peer::Network(address("192.0.2.0"));
        let second = Peer::Network(address("2001:db8::"));
        assert_eq!(names.peer(first), "network-1");
        assert_eq!(names.peer(second), "network-2");
        assert_eq!(names.path(&PathKey { peer: first, direction: Direction::From }), "from network-1");
        let end = Endpoint { address: address("192.0.2.7"), port: 443 };
        assert_eq!(names.endpoint(end), "host-1:443");
        assert_eq!(names.endpoint(Endpoint { port: 80, ..end }), "host-1:80");
        assert_eq!(
            Names::new(false).path(&PathKey { peer: second, direction: Direction::To }),
            "to 2001:db8::/56"
        );
    }
}
