//! All ports of an emulator, and which of them have frames to read.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;

use headway_core::Duration;

use crate::port::Port;

/// The number in an event that stands for the wake-up pipe.
const WAKE: u64 = u64::MAX;

/// The ports, numbered from zero, and the pipe on which commands are announced.
///
/// One system call tells which ports have frames, however many there are.
pub(crate) struct Ports {
    list: Vec<Port>,
    wake: UnixStream,
    epoll: OwnedFd,
    /// Filled by [`Ports::look`].
    events: Vec<libc::epoll_event>,
}

impl Ports {
    /// Watches `list` and `wake`.
    pub(crate) fn new(list: Vec<Port>, wake: UnixStream) -> io::Result<Ports> {
        // SAFETY: plain system call; the result is checked before it is used.
        let raw = unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) };
        if raw < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: `raw` is an open descriptor that nobody else owns.
        let epoll = unsafe { OwnedFd::from_raw_fd(raw) };
        for (number, port) in list.iter().enumerate() {
            watch(&epoll, port.as_raw_fd(), number as u64)?;
        }
        watch(&epoll, wake.as_raw_fd(), WAKE)?;
        let events = Vec::with_capacity(list.len() + 1);
        Ok(Ports { list, wake, epoll, events })
    }

    /// Finds out which ports have frames and returns whether commands are waiting.
    pub(crate) fn look(&mut self) -> bool {
        self.events.clear();
        let room = self.events.capacity();
        // SAFETY: the buffer has room for as many events, and as many as were written become its length.
        unsafe {
            let count =
                libc::epoll_wait(self.epoll.as_raw_fd(), self.events.as_mut_ptr(), room as libc::c_int, 0);
            self.events.set_len(usize::try_from(count).unwrap_or(0));
        }
        self.events.iter().any(|event| event.u64 == WAKE)
    }

    /// Returns the number of the ports that had frames at the latest [`Ports::look`].
    pub(crate) fn ready_count(&self) -> usize {
        self.events.len()
    }

    /// Returns the port with this place among those that had frames, if it is one.
    pub(crate) fn ready(&mut self, place: usize) -> Option<(usize, &mut Port)> {
        let number = self.events[place].u64 as usize;
        self.list.get_mut(number).map(|port| (number, port))
    }

    /// Returns a port.
    pub(crate) fn get(&self, number: usize) -> &Port {
        &self.list[number]
    }

    /// The pipe on which commands are announced.
    pub(crate) fn wake(&mut self) -> &mut UnixStream {
        &mut self.wake
    }

    /// Sleeps until a frame or a command arrives, at most `timeout`.
    pub(crate) fn wait(&self, timeout: Duration) {
        let timeout =
            libc::timespec { tv_sec: timeout.ns() / 1_000_000_000, tv_nsec: timeout.ns() % 1_000_000_000 };
        let mut entry = libc::pollfd { fd: self.epoll.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        // SAFETY: one valid pollfd, a valid timeout and no signal mask.
        unsafe { libc::ppoll(&raw mut entry, 1, &raw const timeout, std::ptr::null()) };
    }
}

fn watch(epoll: &OwnedFd, fd: RawFd, number: u64) -> io::Result<()> {
    let mut event = libc::epoll_event { events: libc::EPOLLIN as u32, u64: number };
    // SAFETY: two open descriptors and a valid event.
    let result = unsafe { libc::epoll_ctl(epoll.as_raw_fd(), libc::EPOLL_CTL_ADD, fd, &raw mut event) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
