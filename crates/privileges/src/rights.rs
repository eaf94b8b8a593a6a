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

/// Whether this process has the capabilities that loading programs into the kernel and attaching them takes.
pub fn may_load_programs() -> bool {
    suffice(&effective())
}

fn suffice(effective: &[Capability]) -> bool {
    let has = |one| effective.contains(&one);
    has(Capability::CAP_NET_ADMIN)
        && (has(Capability::CAP_SYS_ADMIN) || has(Capability::CAP_BPF) && has(Capability::CAP_PERFMON))
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

/// Tries whether it may change this network namespace (`CAP_NET_ADMIN`), by the buffer of
/// a socket of its own.
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
    fn root_and_the_three_capabilities_suffice() {
        use Capability::{CAP_BPF, CAP_NET_ADMIN, CAP_PERFMON, CAP_SYS_ADMIN};
        assert!(suffice(&[CAP_NET_ADMIN, CAP_SYS_ADMIN]));
        assert!(suffice(&[CAP_NET_ADMIN, CAP_BPF, CAP_PERFMON]));
        assert!(!suffice(&[]));
        assert!(!suffice(&[CAP_NET_ADMIN, CAP_BPF]));
    }

    #[test]
    fn who_may_change_the_network_has_the_capability() {
        if change_network().is_ok() {
            assert!(effective().contains(&Capability::CAP_NET_ADMIN));
        }
    }
}
