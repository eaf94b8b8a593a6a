//! Socket options that no library has names for.

use std::io;
use std::os::fd::{AsFd, AsRawFd as _};

/// `SO_MAX_PACING_RATE` (`include/uapi/asm-generic/socket.h`).
pub(super) const MAX_PACING_RATE: (i32, i32) = (libc::SOL_SOCKET, 47);
/// `SO_TXTIME` (`include/uapi/asm-generic/socket.h`).
pub(super) const TXTIME: (i32, i32) = (libc::SOL_SOCKET, 61);
/// Number of unread bytes that wakes a reader.
pub(super) const RECEIVE_LOW: (i32, i32) = (libc::SOL_SOCKET, libc::SO_RCVLOWAT);
/// The largest receive window to advertise.
pub(super) const WINDOW_CLAMP: (i32, i32) = (libc::IPPROTO_TCP, libc::TCP_WINDOW_CLAMP);

/// Sets an option to a value of a plain type.
pub(super) fn set<T: Copy>(socket: impl AsFd, (level, name): (i32, i32), value: T) -> io::Result<()> {
    // SAFETY: the pointer is to a value of the given size.
    let result = unsafe {
        libc::setsockopt(
            socket.as_fd().as_raw_fd(),
            level,
            name,
            (&raw const value).cast(),
            size_of::<T>() as libc::socklen_t,
        )
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
