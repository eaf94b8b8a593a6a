//! The network a client belongs to.

use std::net::IpAddr;

use headway_units::Prefix;

/// The network of a client: its IPv4 /24 or IPv6 /48 prefix, the smallest that are routed separately.
///
/// Customers get whole prefixes, of IPv6 up to a /48. If limits applied to addresses or /64 prefixes, a
/// single customer could take every place of a server. Clients in the same network share its places.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Network(Prefix);

impl Network {
    /// Returns the network that contains `address`.
    pub(super) fn of(address: IpAddr) -> Network {
        let address = address.to_canonical();
        Network(Prefix::around(address, if address.is_ipv4() { 24 } else { 48 }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_one_prefix_are_one_network() {
        let network = |address: &str| Network::of(address.parse().unwrap());
        assert_eq!(network("192.0.2.1"), network("192.0.2.255"));
        assert_eq!(network("192.0.2.1"), network("::ffff:192.0.2.9"));
        assert_ne!(network("192.0.2.1"), network("192.0.3.1"));
        assert_eq!(network("2001:db8:1::1"), network("2001:db8:1:ff00::9"));
        assert_ne!(network("2001:db8:1::1"), network("2001:db8:2::1"));
    }
}
