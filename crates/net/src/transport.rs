//! The byte stream below the control connection: TCP with a deadline for everything, with or without TLS.

use crate::socket::{STOP_CHECK, wait};
use nix::poll::PollFlags;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Why a read or write ended: the flag of [`DeadlineStream::stop_when`] was set.
///
/// Not [`io::ErrorKind::Interrupted`], after which callers would try again.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("interrupted")]
pub(crate) struct Stopped;

/// A TCP connection whose reads and writes together end at a deadline.
///
/// A deadline for the whole rather than a timeout for each call stops peers that send one byte at a time.
#[derive(Debug)]
pub(crate) struct DeadlineStream {
    tcp: TcpStream,
    deadline: Instant,
    /// Whether to wait until the deadline for what is not there yet.
    patient: bool,
    /// Ends waits when set.
    stop: Option<Arc<AtomicBool>>,
    /// Bytes that went out and came in, TLS included.
    pub sent: u64,
    pub received: u64,
}

impl DeadlineStream {
    /// Wraps a connection; the deadline is now, until set.
    ///
    /// # Errors
    /// When the socket options cannot be set.
    pub(crate) fn new(tcp: TcpStream) -> io::Result<DeadlineStream> {
        tcp.set_nonblocking(true)?;
        tcp.set_nodelay(true)?;
        Ok(DeadlineStream { tcp, deadline: Instant::now(), patient: true, stop: None, sent: 0, received: 0 })
    }

    /// When reads and writes give up, also if there is more to read or room to write.
    pub(crate) fn set_deadline(&mut self, deadline: Instant) {
        self.deadline = deadline;
        self.patient = true;
    }

    /// Makes reads take only what is there, and that until the deadline.
    pub(crate) fn do_not_wait(&mut self, deadline: Instant) {
        self.deadline = deadline;
        self.patient = false;
    }

    /// Whether the peer has closed the connection, or this side its reading end.
    pub(crate) fn is_closed(&self) -> bool {
        // Errors and hang-ups are reported, too. A poll that fails says nothing.
        let closed = PollFlags::from_bits_retain(libc::POLLRDHUP);
        wait([self.tcp.as_fd()], closed, Duration::ZERO).is_ok_and(|[closed]| closed)
    }

    /// The connection below.
    pub(crate) fn tcp(&self) -> &TcpStream {
        &self.tcp
    }

    /// Makes reads and writes end with [`Stopped`] once the flag is set.
    pub(crate) fn stop_when(&mut self, flag: Arc<AtomicBool>) {
        self.stop = Some(flag);
    }

    /// Waits for `events` until the deadline, which is [`io::ErrorKind::WouldBlock`].
    fn wait(&self, events: PollFlags) -> io::Result<()> {
        loop {
            let left = self.deadline.saturating_duration_since(Instant::now());
            let slice = match &self.stop {
                Some(stop) if stop.load(Ordering::Relaxed) => return Err(io::Error::other(Stopped)),
                Some(_) => left.min(STOP_CHECK),
                None => left,
            };
            // Looked at first: a peer that always has something to read would otherwise never be late.
            if left == Duration::ZERO {
                return Err(io::ErrorKind::WouldBlock.into());
            }
            let [ready] =
                wait([self.tcp.as_fd()], events, if self.patient { slice } else { Duration::ZERO })?;
            if ready {
                return Ok(());
            }
            if !self.patient {
                return Err(io::ErrorKind::WouldBlock.into());
            }
        }
    }
}

impl Read for DeadlineStream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            self.wait(PollFlags::POLLIN)?;
            match self.tcp.read(buffer) {
                Err(error) if is_transient(&error) => {}
                Ok(count) => {
                    self.received += count as u64;
                    return Ok(count);
                }
                Err(error) => return Err(error),
            }
        }
    }
}

impl Write for DeadlineStream {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        loop {
            self.wait(PollFlags::POLLOUT)?;
            match self.tcp.write(buffer) {
                Err(error) if is_transient(&error) => {}
                Ok(count) => {
                    self.sent += count as u64;
                    return Ok(count);
                }
                Err(error) => return Err(error),
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Whether a system call is worth trying again after waiting.
fn is_transient(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}

/// A control connection's byte stream.
pub(crate) enum Transport {
    /// Plain TCP.
    Plain(DeadlineStream),
    /// TLS, seen from the client.
    Client(Box<rustls::StreamOwned<rustls::ClientConnection, DeadlineStream>>),
    /// TLS, seen from the server.
    Server(Box<rustls::StreamOwned<rustls::ServerConnection, DeadlineStream>>),
}

impl Transport {
    /// The stream below TLS.
    pub(crate) fn socket(&self) -> &DeadlineStream {
        match self {
            Transport::Plain(stream) => stream,
            Transport::Client(tls) => tls.get_ref(),
            Transport::Server(tls) => tls.get_ref(),
        }
    }

    /// The stream below TLS, to change.
    pub(crate) fn socket_mut(&mut self) -> &mut DeadlineStream {
        match self {
            Transport::Plain(stream) => stream,
            Transport::Client(tls) => tls.get_mut(),
            Transport::Server(tls) => tls.get_mut(),
        }
    }
}

impl Read for Transport {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Transport::Plain(stream) => stream.read(buffer),
            Transport::Client(tls) => tls.read(buffer),
            Transport::Server(tls) => tls.read(buffer),
        }
    }
}

impl Write for Transport {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        match self {
            Transport::Plain(stream) => stream.write(buffer),
            Transport::Client(tls) => tls.write(buffer),
            Transport::Server(tls) => tls.write(buffer),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Transport::Plain(stream) => stream.flush(),
            Transport::Client(tls) => tls.flush(),
            Transport::Server(tls) => tls.flush(),
        }
    }
}

impl AsFd for Transport {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket().tcp.as_fd()
    }
}
