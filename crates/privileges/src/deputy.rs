//! A child process that keeps a right which its parent gives up.

use std::io::{self, Read as _, Write as _};
use std::net::Shutdown;
use std::os::fd::AsRawFd as _;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use caps::Capability;
use nix::errno::Errno;
use nix::sys::signal::{SigHandler, Signal, kill, signal};
use nix::sys::socket::{MsgFlags, recv};
use nix::sys::wait::waitpid;
use nix::unistd::{ForkResult, Pid, fork, setsid};

/// It answers, and ends, within milliseconds.
const PATIENCE: Duration = Duration::from_secs(2);

/// A child process with some capabilities and no other right. It does what it is told through a socket, and cleans up when that is
/// closed, which the kernel does however its parent ends.
#[derive(Debug)]
pub struct Deputy {
    /// None when it is to end.
    socket: Option<UnixStream>,
    child: Pid,
}

impl Deputy {
    /// Starts one, which has what this process has open, does `work` with its end of the socket, and ends. Signals of a terminal do not
    /// reach it. This process must have one thread.
    ///
    /// # Errors
    /// When the system makes no socket or process.
    pub fn start(keep: &[Capability], work: impl FnOnce(UnixStream)) -> io::Result<Deputy> {
        let (here, there) = UnixStream::pair()?;
        // SAFETY: this process has one thread, so the child may do anything.
        match unsafe { fork() }? {
            ForkResult::Child => {
                drop(here);
                become_deputy(keep);
                work(there);
                // SAFETY: ends the process at once, without running what the parent has registered for its end.
                unsafe { libc::_exit(0) }
            }
            ForkResult::Parent { child } => Ok(Deputy { socket: Some(here), child }),
        }
    }

    /// Returns the socket to it, until it is to end.
    pub const fn socket(&self) -> Option<&UnixStream> {
        self.socket.as_ref()
    }

    /// Whether it has ended by itself, for example because it was killed.
    pub fn has_ended(&self) -> bool {
        let flags = MsgFlags::MSG_PEEK | MsgFlags::MSG_DONTWAIT;
        self.socket.as_ref().is_none_or(|socket| {
            !matches!(recv(socket.as_raw_fd(), &mut [0], flags), Ok(1) | Err(Errno::EAGAIN))
        })
    }

    /// Asks one that does [`serve`] for something, and returns whether that was done, or the sentence why not.
    ///
    /// # Errors
    /// When it has ended, or does not answer within seconds.
    pub fn ask(&self, request: &[u8]) -> io::Result<Result<(), String>> {
        let mut socket = self.socket.as_ref().ok_or(io::ErrorKind::NotConnected)?;
        socket.set_read_timeout(Some(PATIENCE))?;
        let mut length = [0; 2];
        socket.write_all(request)?;
        socket.read_exact(&mut length)?;
        let mut answer = vec![0; u16::from_ne_bytes(length).into()];
        socket.read_exact(&mut answer)?;
        Ok(if answer.is_empty() { Ok(()) } else { Err(String::from_utf8_lossy(&answer).into_owned()) })
    }
}

/// Does what requests of `N` bytes ask for, until the other end of the socket is closed: the work of a [`Deputy`].
pub fn serve<const N: usize>(mut socket: UnixStream, mut act: impl FnMut([u8; N]) -> io::Result<()>) {
    let mut request = [0; N];
    while socket.read_exact(&mut request).is_ok() {
        let answer = act(request).err().map_or_else(String::new, |error| error.to_string());
        let answer = &answer.as_bytes()[..answer.len().min(u16::MAX.into())];
        if socket.write_all(&[&(answer.len() as u16).to_ne_bytes(), answer].concat()).is_err() {
            break;
        }
    }
}

impl Drop for Deputy {
    /// Has it end. One that does not within seconds is left alone, and ends when it goes on.
    fn drop(&mut self) {
        let Some(socket) = self.socket.take() else { return };
        // Also for whoever has a copy of this end.
        let _ = socket.shutdown(Shutdown::Write);
        // One that is stopped would neither clean up nor end.
        let _ = kill(self.child, Signal::SIGCONT);
        if is_closed(socket) {
            // Fails only if somebody else has waited for it.
            let _ = waitpid(self.child, None);
        }
    }
}

/// Waits until the other end of a socket is closed, as it is when its process ends; returns whether it was.
fn is_closed(mut socket: UnixStream) -> bool {
    let waits = socket.set_nonblocking(false).and_then(|()| socket.set_read_timeout(Some(PATIENCE)));
    match waits.and_then(|()| io::copy(&mut socket, &mut io::sink())) {
        Ok(_) => true,
        // It had not read all.
        Err(reason) => reason.kind() == io::ErrorKind::ConnectionReset,
    }
}

fn become_deputy(keep: &[Capability]) {
    // Ctrl-C goes to all processes of the terminal.
    let _ = setsid();
    for number in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP, Signal::SIGQUIT] {
        // SAFETY: ignoring a signal runs no code.
        let _ = unsafe { signal(number, SigHandler::SigIgn) };
    }
    // It also cleans up if it cannot give up what it has.
    let _ = crate::drop_all_but(keep);
}
