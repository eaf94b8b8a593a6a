//! What tells network namespaces apart, and new ones.

use std::io;
use std::os::fd::AsRawFd as _;
use std::os::unix::net::UnixDatagram;

use nix::errno::Errno;
use nix::sched::{CloneFlags, unshare};

/// Returns the kernel's number of this thread's network namespace (`SO_NETNS_COOKIE`, Linux 5.14), which no
/// other one gets until the host restarts.
///
/// # Errors
/// When the system makes no socket, or does not know the number.
pub fn namespace_cookie() -> io::Result<u64> {
    let socket = UnixDatagram::unbound()?;
    let mut cookie = 0u64;
    let mut size = size_of::<u64>() as libc::socklen_t;
    // SAFETY: the option is a 64-bit number, and `cookie` has room for it.
    let result = unsafe {
        let (option, value) = (libc::SO_NETNS_COOKIE, (&raw mut cookie).cast());
        libc::getsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, option, value, &raw mut size)
    };
    Errno::result(result)?;
    Ok(cookie)
}

/// Moves this process, which must have one thread, into a new network namespace, in which it may do
/// everything. If that is not permitted, it also creates a new user namespace.
///
/// # Errors
/// The system's error, if neither is permitted.
pub fn enter_new_namespace() -> io::Result<()> {
    unshare(CloneFlags::CLONE_NEWNET)
        .or_else(|_| unshare(CloneFlags::CLONE_NEWUSER | CloneFlags::CLONE_NEWNET))?;
    Ok(())
}
