//! A child process that keeps a right which its parent gives up.

use std::io::{self, IoSlice, IoSliceMut, Read as _, Write as _};
use std::net::Shutdown;
use std::os::fd::{AsFd as _, AsRawFd as _, FromRawFd as _, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use caps::Capability;
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{SigHandler, Signal, kill, signal};
use nix::sys::socket::{ControlMessage, ControlMessageOwned, MsgFlags, recv, recvmsg, sendmsg};
use nix::sys::wait::waitpid;
use nix::unistd::{ForkResult, Pid, fork, setsid};

/// It answers, and ends, within milliseconds.
const PATIENCE: Duration = Duration::from_secs(2);

/// The sockets to all deputies of this process: a deputy that had one of another open would keep that
/// from seeing the end.
static ENDS: Mutex<Vec<RawFd>> = Mutex::new(Vec::new());

/// A child process with some capabilities and no other right. It does what its parent asks through a socket,
/// and cleans up when that is closed, which the kernel does however its parent ends.
#[derive(Debug)]
pub struct Deputy {
    /// None when it is to end.
    socket: Option<UnixStream>,
    child: Pid,
}

impl Deputy {
    /// Starts one, which has what this process has open, does `work` with its end of the socket, and ends.
    /// Signals of a terminal do not reach it. This process must have one thread.
    ///
    /// # Errors
    /// When the system makes no socket or process.
    pub fn start(keep: &[Capability], work: impl FnOnce(UnixStream)) -> io::Result<Deputy> {
        Deputy::start_whole(|socket| {
            // It also cleans up if it cannot give up what it has.
            let _ = crate::drop_all_but(keep);
            work(socket);
        })
    }

    /// Starts one as [`Deputy::start`] does, which may do all that this process may.
    ///
    /// # Errors
    /// When the system makes no socket or process.
    pub fn start_whole(work: impl FnOnce(UnixStream)) -> io::Result<Deputy> {
        let (here, there) = UnixStream::pair()?;
        // SAFETY: this process has one thread, so the child may do anything.
        match unsafe { fork() }? {
            ForkResult::Child => {
                drop(here);
                for end in ENDS.lock().unwrap_or_else(PoisonError::into_inner).drain(..) {
                    // SAFETY: the process has it open, and its owner is never used here.
                    unsafe { libc::close(end) };
                }
                leave_terminal();
                work(there);
                // SAFETY: ends the process at once, without running what the parent has
                // registered for its end.
                unsafe { libc::_exit(0) }
            }
            ForkResult::Parent { child } => {
                ENDS.lock().unwrap_or_else(PoisonError::into_inner).push(here.as_raw_fd());
                Ok(Deputy { socket: Some(here), child })
            }
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

    /// Asks one that does [`serve`] for something, and returns whether that was done, or
    /// the sentence why not.
    ///
    /// # Errors
    /// When it has ended, or does not answer within seconds.
    pub fn ask(&self, request: &[u8]) -> io::Result<Result<(), String>> {
        self.tell(request)?;
        self.answer()
    }

    /// Does the same, and takes the file with which one answers that does [`serve_files`].
    ///
    /// # Errors
    /// When it has ended, does not answer within seconds, or could not open the file.
    pub fn ask_for_file(&self, request: &[u8]) -> io::Result<OwnedFd> {
        self.tell(request)?;
        let socket = self.socket.as_ref().ok_or(io::ErrorKind::NotConnected)?;
        let mut code = [0; 4];
        let mut slices = [IoSliceMut::new(&mut code)];
        let mut space = nix::cmsg_space!(RawFd);
        let flags = MsgFlags::MSG_CMSG_CLOEXEC;
        let message = recvmsg::<()>(socket.as_raw_fd(), &mut slices, Some(&mut space), flags)?;
        let length = message.bytes;
        let files = message.cmsgs()?.find_map(|one| match one {
            ControlMessageOwned::ScmRights(files) => files.first().copied(),
            _ => None,
        });
        // SAFETY: the kernel has just opened it for this process, and nothing else knows it.
        let file = files.map(|file| unsafe { OwnedFd::from_raw_fd(file) });
        match (file, i32::from_ne_bytes(code)) {
            _ if length < code.len() => Err(io::ErrorKind::UnexpectedEof.into()),
            (Some(file), _) => Ok(file),
            (None, code) => Err(io::Error::from_raw_os_error(code)),
        }
    }

    /// Sends a request, whose answer is for [`Deputy::answer`].
    ///
    /// # Errors
    /// When it has ended.
    pub fn tell(&self, request: &[u8]) -> io::Result<()> {
        let mut socket = self.socket.as_ref().ok_or(io::ErrorKind::NotConnected)?;
        socket.set_read_timeout(Some(PATIENCE))?;
        socket.write_all(request)
    }

    /// Whether there is an answer, or none will come.
    pub fn has_answered(&self) -> bool {
        self.socket.as_ref().is_none_or(is_readable)
    }

    /// Takes the answer to a request: that it was done, or the sentence why not.
    ///
    /// # Errors
    /// When it has ended, or does not answer within seconds.
    pub fn answer(&self) -> io::Result<Result<(), String>> {
        let mut socket = self.socket.as_ref().ok_or(io::ErrorKind::NotConnected)?;
        let mut length = [0; 2];
        socket.read_exact(&mut length)?;
        let mut answer = vec![0; u16::from_ne_bytes(length).into()];
        socket.read_exact(&mut answer)?;
        Ok(if answer.is_empty() { Ok(()) } else { Err(String::from_utf8_lossy(&answer).into_owned()) })
    }
}

/// Does what requests of `N` bytes ask for, until the other end of the socket is closed: the
/// work of a [`Deputy`].
pub fn serve<const N: usize>(mut socket: UnixStream, mut act: impl FnMut([u8; N]) -> io::Result<()>) {
    let mut request = [0; N];
    while socket.read_exact(&mut request).is_ok() {
        let done = act(request).map_err(|error| error.to_string());
        if answer(&socket, &done).is_err() {
            break;
        }
    }
}

/// Answers requests of `N` bytes with the files that they ask for, until the other end of
/// the socket is closed.
pub fn serve_files<const N: usize>(
    mut socket: UnixStream,
    mut open: impl FnMut([u8; N]) -> io::Result<OwnedFd>,
) {
    let mut request = [0; N];
    while socket.read_exact(&mut request).is_ok() {
        let opened = open(request);
        let code = opened.as_ref().err().map_or(0, |error| error.raw_os_error().unwrap_or(libc::EIO));
        let files: Vec<RawFd> = opened.iter().map(|file| file.as_raw_fd()).collect();
        let rights = [ControlMessage::ScmRights(&files)];
        let rights = if files.is_empty() { &[][..] } else { &rights[..] };
        let bytes = code.to_ne_bytes();
        let sent =
            sendmsg::<()>(socket.as_raw_fd(), &[IoSlice::new(&bytes)], rights, MsgFlags::empty(), None);
        if sent.is_err() {
            break;
        }
    }
}

/// Reads a request of [`framed`]; none when the other end is closed, or it has more than this many bytes.
pub fn read_framed(mut socket: &UnixStream, most: usize) -> Option<Vec<u8>> {
    let mut length = [0; 4];
    socket.read_exact(&mut length).ok()?;
    let length = u32::from_ne_bytes(length) as usize;
    let mut request = vec![0; (length <= most).then_some(length)?];
    socket.read_exact(&mut request).ok()?;
    Some(request)
}

/// Returns a request of any length.
pub fn framed(request: &[u8]) -> Vec<u8> {
    [&(request.len() as u32).to_ne_bytes(), request].concat()
}

/// Answers a request: that it was done, or the sentence why not.
///
/// # Errors
/// When the other end is closed.
pub fn answer(mut socket: &UnixStream, done: &Result<(), String>) -> io::Result<()> {
    let sentence = done.as_ref().err().map_or(&[][..], |sentence| sentence.as_bytes());
    let sentence = &sentence[..sentence.len().min(u16::MAX.into())];
    socket.write_all(&[&(sentence.len() as u16).to_ne_bytes(), sentence].concat())
}

/// Whether a socket has something to read, or is at its end.
fn is_readable(socket: &UnixStream) -> bool {
    let mut files = [PollFd::new(socket.as_fd(), PollFlags::POLLIN)];
    !matches!(poll(&mut files, PollTimeout::ZERO), Ok(0) | Err(Errno::EINTR))
}

impl Drop for Deputy {
    /// Has it end. One that does not within seconds is left alone, and ends when it goes on.
    fn drop(&mut self) {
        let Some(socket) = self.socket.take() else { return };
        ENDS.lock().unwrap_or_else(PoisonError::into_inner).retain(|end| *end != socket.as_raw_fd());
        // Also for processes that have a copy of this end.
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

fn leave_terminal() {
    // Ctrl-C goes to all processes of the terminal.
    let _ = setsid();
    for number in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP, Signal::SIGQUIT] {
        // SAFETY: ignoring a signal runs no code.
        let _ = unsafe { signal(number, SigHandler::SigIgn) };
    }
}
