//! The control connection: complete messages in both directions, each with a deadline.

use crate::protocol::{Decoder, FrameError, Message, encode};
use crate::transport::{Stopped, Transport};
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

/// The longest frame accepted before the peer has proved the token, in bytes. The largest handshake message
/// has about 100, and a stranger cannot make this side buffer more than this.
const HANDSHAKE_FRAME: usize = 512;

/// Timeout for sending a message. A peer that does not read for this long is considered gone.
const SEND_TIMEOUT: Duration = Duration::from_secs(10);

/// Time limit for reading available data, so that a peer that keeps sending does not keep this side reading.
const READ_TIMEOUT: Duration = Duration::from_secs(1);

/// Maximum TLS overhead per message, in bytes: header, explicit nonce, content type and tag of one record.
const TLS_RECORD: u64 = 32;

/// The reason why sending or receiving a message failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ChannelError {
    /// The deadline passed.
    #[error("no message in time")]
    Timeout,
    /// The stop flag was set.
    #[error("interrupted")]
    Interrupted,
    /// The peer closed the connection.
    #[error("connection closed")]
    Closed,
    /// Sending the message would exceed the number of bytes received so far.
    #[error("the peer has not sent enough bytes for an answer")]
    NotCovered,
    /// The connection failed.
    #[error(transparent)]
    Io(io::Error),
    /// The peer sent something other than messages.
    #[error(transparent)]
    Frame(#[from] FrameError),
}

impl From<io::Error> for ChannelError {
    fn from(error: io::Error) -> ChannelError {
        if error.get_ref().is_some_and(|inner| inner.is::<Stopped>()) {
            return ChannelError::Interrupted;
        }
        match error.kind() {
            io::ErrorKind::WouldBlock => ChannelError::Timeout,
            io::ErrorKind::UnexpectedEof
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::ConnectionAborted
            | io::ErrorKind::BrokenPipe => ChannelError::Closed,
            _ => ChannelError::Io(error),
        }
    }
}

/// A control connection after the exchange of preambles.
pub(crate) struct Channel {
    transport: Transport,
    decoder: Decoder,
}

impl Channel {
    /// Creates a channel that accepts only short frames until [`Channel::allow_long_frames`].
    pub(crate) fn new(transport: Transport) -> Channel {
        Channel { transport, decoder: Decoder::with_limit(HANDSHAKE_FRAME) }
    }

    /// Accepts frames up to the protocol's maximum from now on.
    pub(crate) fn allow_long_frames(&mut self) {
        self.decoder.set_limit(crate::protocol::frame::MAX_FRAME);
    }

    /// Sends one message.
    ///
    /// # Errors
    /// Any [`ChannelError`].
    pub(crate) fn send(&mut self, message: &Message) -> Result<(), ChannelError> {
        self.send_by(message, Instant::now() + SEND_TIMEOUT)
    }

    /// Sends one message unless the total of bytes sent would then exceed the total received.
    ///
    /// # Errors
    /// Any [`ChannelError`]; [`ChannelError::NotCovered`] when nothing was sent.
    pub(crate) fn send_covered(&mut self, message: &Message) -> Result<(), ChannelError> {
        let extra = if matches!(self.transport, Transport::Plain(_)) { 0 } else { TLS_RECORD };
        let socket = self.transport.socket();
        if socket.sent + encode(message)?.len() as u64 + extra > socket.received {
            return Err(ChannelError::NotCovered);
        }
        self.send(message)
    }

    /// Sends one message before `deadline`.
    ///
    /// # Errors
    /// Any [`ChannelError`].
    pub(crate) fn send_by(&mut self, message: &Message, deadline: Instant) -> Result<(), ChannelError> {
        let frame = encode(message)?;
        self.transport.socket_mut().set_deadline(deadline);
        self.transport.write_all(&frame)?;
        Ok(self.transport.flush()?)
    }

    /// Waits for the next message until `deadline`.
    ///
    /// # Errors
    /// Any [`ChannelError`].
    pub(crate) fn receive(&mut self, deadline: Instant) -> Result<Message, ChannelError> {
        self.transport.socket_mut().set_deadline(deadline);
        self.next()
    }

    /// Returns the next message if it has already arrived.
    ///
    /// # Errors
    /// Any [`ChannelError`] except the timeout.
    pub(crate) fn try_receive(&mut self) -> Result<Option<Message>, ChannelError> {
        self.transport.socket_mut().set_nonblocking_until(Instant::now() + READ_TIMEOUT);
        match self.next() {
            Ok(message) => Ok(Some(message)),
            Err(ChannelError::Timeout) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Reads until a message is complete; waits as long as the transport does.
    fn next(&mut self) -> Result<Message, ChannelError> {
        let mut buffer = [0; 4096];
        loop {
            if let Some(message) = self.decoder.take()? {
                return Ok(message);
            }
            match self.transport.read(&mut buffer)? {
                0 => return Err(ChannelError::Closed),
                count => self.decoder.push(&buffer[..count]),
            }
        }
    }

    /// Whether the peer has closed the connection, or this side its receiving half; earlier data
    /// may still be unread.
    pub(crate) fn is_closed(&self) -> bool {
        self.transport.socket().is_closed()
    }

    /// Returns the TCP connection.
    pub(crate) fn tcp(&self) -> &TcpStream {
        self.transport.socket().tcp()
    }

    /// Returns the bytes sent and received, without TCP and IP headers.
    pub(crate) fn bytes(&self) -> u64 {
        let socket = self.transport.socket();
        socket.sent + socket.received
    }
}

impl AsFd for Channel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.transport.as_fd()
    }
}
