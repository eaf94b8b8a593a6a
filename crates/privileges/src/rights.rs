//! What this process may do, by doing it where that has no effect.

use std::io;

use caps::{CapSet, Capability};
use nix::sys::socket::{AddressFamily, SockFlag, SockProtocol, SockType, setsockopt, socket, sockopt};

/// Returns the capabilities that this process has, in its user namespace.
pub fn effective() -> Vec<Capability> {
    let mut all: Vec<Capability> =
        caps::read(None, CapSet::Effective).map(|set| set.into_iter().collect()).unwrap_or_default();
    all.sort_unstable_by_key(Capability::index);
    all
}

/// Tries whether it may see the packets of interfaces (`CAP_NET_RAW`), by a socket that gets none.
///
/// # Errors
/// The system's error.
pub fn open_interfaces() -> io::Result<()> {
    socket(AddressFamily::Packet, SockType::Raw, SockFlag::SOCK_CLOEXEC, None)?;
    Ok(())
}

/// Tries whether it may send packets with headers of its own (`CAP_NET_RAW`), by a socket for ICMP.
///
/// # Errors
/// The system's error.
pub fn send_raw() -> io::Result<()> {
    socket(AddressFamily::Inet, SockType::Raw, SockFlag::SOCK_CLOEXEC, Some(SockProtocol::Icmp))?;
    Ok(())
}

/// Tries whether it may change this network namespace (`CAP_NET_ADMIN`), by the buffer of a socket of its own.
///
/// # Errors
/// The system's error.
pub fn change_network() -> io::Result<()> {
    let own = socket(AddressFamily::Inet, SockType::Datagram, SockFlag::SOCK_CLOEXEC, None)?;
    Ok(setsockopt(&own, sockopt::RcvBufForce, &65_536)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_may_change_the_network_has_the_capability() {
        if change_network().is_ok() {
            assert!(effective().contains(&Capability::CAP_NET_ADMIN));
        }
    }
}
