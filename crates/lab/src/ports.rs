//! All ports of an emulator, and which of them have frames to read.

use std::io::{self, Read};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;

use headway_units::Duration;

use crate::port::Port;

/// The ports of a single link, which are all read without asking which of them have frames.
const FEW: usize = 2;
/// The number in an event that stands for the wake-up pipe.
const WAKE: u64 = u64::MAX;

/// The ports, numbered from zero, and the pipe on which commands are announced.
pub(crate) struct Ports {
    list: Vec<Port>,
    wake: UnixStream,
    /// Whether the pipe had a byte.
    woken: bool,
    /// Tells with one system call which of many ports have frames; `None` if there are few.
    epoll: Option<OwnedFd>,
    /// Filled by [`Ports::look`].
    events: Vec<libc::epoll_event>,
}

impl Ports {
    /// Watches `list` and `wake`.
    pub(crate) fn new(list: Vec<Port>, wake: UnixStream) -> io::Result<Ports> {
        let epoll = if list.len() > FEW { Some(watch(&list, &wake)?) } else { None };
        let events = Vec::with_capacity(list.len() + 1);
        Ok(Ports { list, wake, woken: false, epoll, events })
    }

    /// Finds out which ports have frames.
    pub(crate) fn look(&mut self) {
        let Some(epoll) = &self.epoll else { return };
        self.events.clear();
        let room = self.events.capacity() as libc::c_int;
        // SAFETY: the buffer has room for as many events, and as many as were written become its length.
        unsafe {
            let count = libc::epoll_wait(epoll.as_raw_fd(), self.events.as_mut_ptr(), room, 0);
            self.events.set_len(usize::try_from(count).unwrap_or(0));
        }
        self.woken |= self.events.iter().any(|event| { event.u64 } == WAKE);
    }

    /// Returns how many ports may have had frames at the latest [`Ports::look`].
    pub(crate) fn ready_count(&self) -> usize {
        if self.epoll.is_none() { self.list.len() } else { self.events.len() }
    }

    /// Returns the number of one of these ports, and the port; `None` if it is the pipe.
    pub(crate) fn ready(&mut self, place: usize) -> Option<(usize, &mut Port)> {
        let number = if self.epoll.is_none() { place } else { self.events[place].u64 as usize };
        self.list.get_mut(number).map(|port| (number, port))
    }

    /// Returns a port.
    pub(crate) fn get(&self, number: usize) -> &Port {
        &self.list[number]
    }

    /// Returns what [`Port::take_unfinished`] says about all ports together.
    pub(crate) fn take_unfinished(&mut self) -> u64 {
        self.list.iter_mut().map(Port::take_unfinished).sum()
    }

    /// Whether a command was announced since the last call.
    pub(crate) fn take_woken(&mut self) -> bool {
        if self.woken {
            // A byte only means that there are commands. Their number does not matter, and unread
            // bytes are found again.
            let _ = self.wake.read(&mut [0; 64]);
        }
        std::mem::take(&mut self.woken)
    }

    /// Sleeps until a frame or a command arrives, at most `timeout`.
    pub(crate) fn wait(&mut self, timeout: Duration) {
        let timeout =
            libc::timespec { tv_sec: timeout.ns() / 1_000_000_000, tv_nsec: timeout.ns() % 1_000_000_000 };
        let entry = |fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
        // A negative descriptor is ignored.
        let port = |number: usize| self.list.get(number).map_or(-1, AsRawFd::as_raw_fd);
        let mut fds = match &self.epoll {
            None => [entry(port(0)), entry(port(1)), entry(self.wake.as_raw_fd())],
            Some(epoll) => [entry(epoll.as_raw_fd()), entry(-1), entry(-1)],
        };
        // SAFETY: three valid pollfds, a valid timeout and no signal mask.
        unsafe { libc::ppoll(fds.as_mut_ptr(), 3, &raw const timeout, std::ptr::null()) };
        self.woken |= fds[2].revents != 0;
    }
}

/// Returns an epoll instance that watches the ports, by number, and the pipe.
fn watch(list: &[Port], wake: &UnixStream) -> io::Result<OwnedFd> {
    // SAFETY: plain system call; the result is checked before it is used.
    let raw = unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) };
    if raw < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: `raw` is an open descriptor that nobody else owns.
    let epoll = unsafe { OwnedFd::from_raw_fd(raw) };
    for (number, port) in list.iter().enumerate() {
        add(&epoll, port.as_raw_fd(), number as u64)?;
    }
    add(&epoll, wake.as_raw_fd(), WAKE)?;
    Ok(epoll)
}

fn add(epoll: &OwnedFd, fd: RawFd, number: u64) -> io::Result<()> {
    let mut event = libc::epoll_event { events: libc::EPOLLIN as u32, u64: number };
    // SAFETY: two open descriptors and a valid event.
    let result = unsafe { libc::epoll_ctl(epoll.as_raw_fd(), libc::EPOLL_CTL_ADD, fd, &raw mut event) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
