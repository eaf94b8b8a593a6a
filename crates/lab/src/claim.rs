//! Claims on interfaces, so that two routers do not forward the same packets.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::error::Error;
use crate::port::{bind, packet_socket, set};

/// An Ethernet protocol for local experiments (IEEE 802), of which packets are unlikely: the socket of a
/// claim shall receive none, and its buffer is not read.
const PROTOCOL: u16 = 0x88b5;
/// The number of the group of an interface is this, with the number of the interface: other programs that use
/// such groups number them from 0 or choose at random.
const GROUP: u16 = 0x4857;
/// How long to wait for a router that ends: after a kill its claim stays until its settings are restored (0.2
/// to 2 s is sensible).
const PATIENCE: Duration = Duration::from_secs(1);
/// Between two attempts.
const PAUSE: Duration = Duration::from_millis(10);

/// A claim on an interface, until all processes that hold it have ended.
///
/// It is a group of packet sockets that takes one member, which the kernel keeps with the network namespace.
/// Making one takes CAP_NET_RAW, so that users who may not run a router cannot hold one up.
pub(crate) struct Claim(#[expect(dead_code, reason = "open as long as the claim")] OwnedFd);

/// Claims interfaces; waits for routers that are just ending.
pub(crate) fn all(names: [&str; 2]) -> Result<Vec<Claim>, Error> {
    let deadline = Instant::now() + PATIENCE;
    let mut sorted = names;
    // In the same order for everybody: two routers that start at once do not each get one.
    sorted.sort_unstable();
    sorted.into_iter().map(|name| Claim::wait(name, deadline)).collect()
}

impl Claim {
    fn wait(name: &str, deadline: Instant) -> Result<Claim, Error> {
        loop {
            match Claim::take(name) {
                Ok(claim) => return Ok(claim),
                Err(error) if error.raw_os_error() != Some(libc::ENOSPC) => {
                    return Err(Error::system("claim an interface; run as root or with CAP_NET_RAW")(error));
                }
                Err(_) if Instant::now() < deadline => sleep(PAUSE),
                Err(_) => {
                    let reason = "is in use by another `headway router`; end that one first".to_owned();
                    return Err(Error::Interface { name: name.to_owned(), reason });
                }
            }
        }
    }

    fn take(name: &str) -> io::Result<Claim> {
        /// `struct fanout_args`.
        #[derive(Clone, Copy)]
        #[repr(C)]
        struct Group {
            number: u16,
            kind: u16,
            most_members: u32,
        }
        let fd = packet_socket()?;
        let index = nix::net::if_::if_nametoindex(name)?;
        bind(fd.as_raw_fd(), PROTOCOL, index)?;
        let kind = libc::PACKET_FANOUT_HASH as u16;
        let group = Group { number: GROUP ^ index as u16, kind, most_members: 1 };
        set(fd.as_raw_fd(), libc::SOL_PACKET, libc::PACKET_FANOUT, group)?;
        Ok(Claim(fd))
    }
}
