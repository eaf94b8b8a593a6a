//! The byte stream below the control connection: TCP with a deadline for all operations, with or without TLS.

use crate::socket::{STOP_CHECK, wait};
use nix::poll::PollFlags;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// The error of a read or write that ended because the flag of [`DeadlineStream::stop_when`] was set.
///
/// It is not [`io::ErrorKind::Interrupted`], after which callers would retry.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("interrupted")]
pub(crate) struct Stopped;

/// A TCP connection with one deadline for all reads and writes together.
///
/// A timeout per call would not stop peers that send one byte at a time.
#[derive(Debug)]
pub(crate) struct DeadlineStream {
    tcp: TcpStream,
    deadline: Instant,
    /// Whether reads and writes wait until the deadline.
    blocking: bool,
    /// Ends waits when set.
    stop: Option<Arc<AtomicBool>>,
    /// Bytes sent and received, including TLS overhead.
    pub sent: u64,
    pub received: u64,
}

impl DeadlineStream {
    /// Wraps a connection; until a deadline is set, it is now.
    ///
    /// # Errors
    /// When the socket options cannot be set.
    pub(crate) fn new(tcp: TcpStream) -> io::Result<DeadlineStream> {
        tcp.set_nonblocking(true)?;
        tcp.set_nodelay(true)?;
        Ok(DeadlineStream { tcp, deadline: Instant::now(), blocking: true, stop: None, sent: 0, received: 0 })
    }

    /// Sets when reads and writes give up, even if more could be read or written.
    pub(crate) fn set_deadline(&mut self, deadline: Instant) {
        self.deadline = deadline;
        self.blocking = true;
    }

    /// Makes reads return only data that has already arrived, and stop at the deadline.
    pub(crate) fn set_nonblocking_until(&mut self, deadline: Instant) {
        self.deadline = deadline;
        self.blocking = false;
    }

    /// Whether the peer has closed the connection, or this side its receiving half.
    pub(crate) fn is_closed(&self) -> bool {
        // Errors and hang-ups are reported, too. If the poll itself fails, nothing is known.
        let closed = PollFlags::from_bits_retain(libc::POLLRDHUP);
        wait([self.tcp.as_fd()], closed, Duration::ZERO).is_ok_and(|[closed]| closed)
    }

    /// Returns the underlying connection.
    pub(crate) fn tcp(&self) -> &TcpStream {
        &self.tcp
    }

    /// Makes reads and writes fail with [`Stopped`] once the flag is set.
    pub(crate) fn stop_when(&mut self, flag: Arc<AtomicBool>) {
        self.stop = Some(flag);
    }

    /// Waits for `events` until the deadline, after which it fails with [`io::ErrorKind::WouldBlock`].
    fn wait(&self, events: PollFlags) -> io::Result<()> {
        loop {
            let left = self.deadline.saturating_duration_since(Instant::now());
            let slice = match &self.stop {
                Some(stop) if stop.load(Ordering::Relaxed) => return Err(io::Error::other(Stopped)),
                Some(_) => left.min(STOP_CHECK),
                None => left,
            };
            // Checked first: otherwise a peer that always has data to read would never run into the deadline.
            if left == Duration::ZERO {
                return Err(io::ErrorKind::WouldBlock.into());
            }
            let [ready] =
                wait([self.tcp.as_fd()], events, if self.blocking { slice } else { Duration::ZERO })?;
            if ready {
                return Ok(());
            }
            if !self.blocking {
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

/// Whether a system call may succeed when repeated after a wait.
fn is_transient(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}

/// The byte stream of a control connection.
pub(crate) enum Transport {
    /// Plain TCP.
    Plain(DeadlineStream),
    /// TLS on the client.
    Client(Box<rustls::StreamOwned<rustls::ClientConnection, DeadlineStream>>),
    /// TLS on the server.
    Server(Box<rustls::StreamOwned<rustls::ServerConnection, DeadlineStream>>),
}

impl Transport {
    /// Returns the stream below TLS.
    pub(crate) fn socket(&self) -> &DeadlineStream {
        match self {
            Transport::Plain(stream) => stream,
            Transport::Client(tls) => tls.get_ref(),
            Transport::Server(tls) => tls.get_ref(),
        }
    }

    /// Returns the stream below TLS, mutably.
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
