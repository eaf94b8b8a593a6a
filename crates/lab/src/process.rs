//! Identifies processes such that a reused process number is not mistaken for the same process.

use std::fs;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

/// A process, identified by its number and its start time (clock ticks since boot).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Process {
    /// Process number.
    pub pid: i32,
    /// Start time as in field 22 of `/proc/PID/stat`.
    pub start: u64,
}

impl Process {
    /// Returns the running process with this number.
    pub fn of(pid: i32) -> Option<Process> {
        Some(Process { pid, start: start_time(pid)? })
    }

    /// Returns this process.
    pub(crate) fn this() -> Option<Process> {
        Process::of(std::process::id() as i32)
    }

    /// Whether it still runs; a zombie does not.
    pub fn alive(&self) -> bool {
        start_time(self.pid) == Some(self.start)
    }

    /// Waits until it has ended, at most `timeout`; returns false if it has not.
    pub fn wait_gone(&self, timeout: Duration) -> bool {
        self.open().is_none_or(|handle| handle.wait_until(Instant::now() + timeout))
    }

    /// Opens a handle that refers to this process even if its number is reused; `None` if
    /// the process has ended.
    pub fn open(&self) -> Option<Handle> {
        // SAFETY: plain system call; the result is checked before it is used.
        let raw = unsafe { libc::syscall(libc::SYS_pidfd_open, self.pid, 0) };
        if raw < 0 {
            return None;
        }
        // SAFETY: `raw` is an open descriptor that nobody else owns.
        let fd = unsafe { OwnedFd::from_raw_fd(raw as i32) };
        // Compare only now: while the descriptor is open, the number cannot be reused.
        self.alive().then_some(Handle { fd })
    }
}

/// A process referred to by a descriptor (pidfd).
#[derive(Debug)]
pub struct Handle {
    fd: OwnedFd,
}

impl Handle {
    /// Sends a signal.
    ///
    /// # Errors
    /// If that is not permitted, or the process has ended.
    pub fn signal(&self, signal: libc::c_int) -> io::Result<()> {
        // SAFETY: plain system call without pointers to our memory.
        let result = unsafe {
            libc::syscall(
                libc::SYS_pidfd_send_signal,
                self.fd.as_raw_fd(),
                signal,
                std::ptr::null::<libc::siginfo_t>(),
                0,
            )
        };
        if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }

    /// Whether it has ended; costs one system call.
    pub(crate) fn has_ended(&self) -> bool {
        let mut poll = libc::pollfd { fd: self.fd.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        // SAFETY: `poll` is one valid pollfd.
        unsafe { libc::poll(&raw mut poll, 1, 0) > 0 }
    }

    /// Waits until it has ended; returns false if it has not by `deadline`.
    pub(crate) fn wait_until(&self, deadline: Instant) -> bool {
        readable(&self.fd, deadline.saturating_duration_since(Instant::now()))
    }
}

/// Waits until the descriptor is readable or hung up; returns false if `timeout` passes first.
pub(crate) fn readable(fd: &impl AsRawFd, timeout: Duration) -> bool {
    let deadline = Instant::now() + timeout;
    loop {
        let left = deadline.saturating_duration_since(Instant::now()).as_millis();
        let mut poll = libc::pollfd { fd: fd.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        // SAFETY: `poll` is one valid pollfd.
        let result = unsafe { libc::poll(&raw mut poll, 1, i32::try_from(left).unwrap_or(i32::MAX)) };
        let interrupted = result < 0 && io::Error::last_os_error().kind() == io::ErrorKind::Interrupted;
        if !interrupted {
            return result > 0;
        }
    }
}

/// Closes all descriptors except `kept` and the standard ones. An inherited descriptor could keep another
/// process waiting for end of file.
pub(crate) fn close_all_but(kept: &[RawFd]) {
    let mut kept: Vec<RawFd> = kept.iter().copied().chain([0, 1, 2]).collect();
    kept.sort_unstable();
    kept.push(RawFd::MAX);
    for gap in kept.windows(2) {
        let (first, last) = (gap[0] + 1, gap[1] - 1);
        if first <= last {
            // SAFETY: the caller uses no descriptors but those kept.
            unsafe { libc::syscall(libc::SYS_close_range, first, last, 0) };
        }
    }
}

/// Returns an identifier of the current boot; numbers of processes and namespaces mean
/// nothing after a reboot.
pub(crate) fn boot() -> String {
    fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default().trim().to_owned()
}

fn start_time(pid: i32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name in parentheses may contain anything; after the last parenthesis come only simple fields.
    let (_, rest) = stat.rsplit_once(") ")?;
    let mut fields = rest.split(' ');
    let state = fields.next()?;
    let dead = matches!(state, "Z" | "X");
    // Field 22 of the whole line; `state` was field 3.
    let start = fields.nth(18)?.parse().ok()?;
    (!dead).then_some(start)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_known_by_its_start() {
        let this = Process::this().unwrap();
        assert!(this.alive());
        assert!(this.open().is_some());
        assert!(!Process { start: this.start + 1, ..this }.alive());
    }

    #[test]
    fn a_zombie_is_not_alive() {
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let process = Process::of(child.id() as i32);
        if let Some(process) = process {
            let handle = process.open();
            if let Some(handle) = handle {
                assert!(handle.wait_until(Instant::now() + Duration::from_secs(10)));
            }
            assert!(!process.alive());
        }
        child.wait().unwrap();
    }
}
