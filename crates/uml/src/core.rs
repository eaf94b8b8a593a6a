//! A core of the host for each guest.
//!
//! A guest consists of processes of which one waits for the other at every system call. On one core that is a switch; across
//! two it is an interrupt from one to the other, and up to four times as slow.

use std::io;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixListener};

use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;

/// A core that no other guest has.
#[derive(Debug)]
pub(crate) struct Core {
    /// Its number.
    pub(crate) number: usize,
    /// A name without a file that only one program can have, and that nobody has when the program is gone.
    _lock: UnixListener,
}

impl Core {
    /// A core of those that this program may use; `None` when all have guests.
    pub(crate) fn free() -> Option<Core> {
        let allowed = sched_getaffinity(Pid::from_raw(0)).ok()?;
        (0..CpuSet::count()).filter(|number| allowed.is_set(*number).unwrap_or(false)).find_map(|number| {
            let name = SocketAddr::from_abstract_name(format!("headway-guest-core-{number}")).ok()?;
            let lock = UnixListener::bind_addr(&name).ok()?;
            Some(Core { number, _lock: lock })
        })
    }
}

/// Lets this process and its children run on one core only.
pub(crate) fn pin(number: usize) -> io::Result<()> {
    let mut one = CpuSet::new();
    one.set(number)?;
    Ok(sched_setaffinity(Pid::from_raw(0), &one)?)
}
