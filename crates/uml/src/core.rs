//! CPU pinning: each guest gets a CPU of the host for itself.
//!
//! A guest consists of processes that wait for each other at every system call. On one CPU that is a context
//! switch; across two CPUs it is an inter-processor interrupt and up to four times as slow.

use std::io;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixListener};

use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;

/// A CPU that no other guest uses.
#[derive(Debug)]
pub(crate) struct Core {
    /// The CPU's number.
    pub(crate) number: usize,
    /// An abstract socket address. Only one program can bind it, and the kernel releases it
    /// when that program exits.
    _lock: UnixListener,
}

impl Core {
    /// Reserves a free CPU among those this program may use; `None` if guests occupy all of them.
    pub(crate) fn free() -> Option<Core> {
        let allowed = sched_getaffinity(Pid::from_raw(0)).ok()?;
        (0..CpuSet::count()).filter(|number| allowed.is_set(*number).unwrap_or(false)).find_map(|number| {
            let name = SocketAddr::from_abstract_name(format!("headway-guest-core-{number}")).ok()?;
            let lock = UnixListener::bind_addr(&name).ok()?;
            Some(Core { number, _lock: lock })
        })
    }
}

/// Restricts this process and its children to one CPU.
pub(crate) fn pin(number: usize) -> io::Result<()> {
    let mut one = CpuSet::new();
    one.set(number)?;
    Ok(sched_setaffinity(Pid::from_raw(0), &one)?)
}
