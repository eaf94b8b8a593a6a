//! Messages to the kernel by netlink, and what it answers (RFC 3549, `include/uapi/linux/netlink.h`).

use std::io;
use std::net::IpAddr;
use std::os::fd::{AsRawFd as _, OwnedFd};

use crate::rule::{is_not_there, is_without_ipv6};
pub use nix::sys::socket::SockProtocol;
use nix::sys::socket::{
    AddressFamily, MsgFlags, NetlinkAddr, SockFlag, SockType, bind, recv, sendto, socket,
};

/// Bytes of the head of a message: `struct nlmsghdr`.
const HEAD: usize = 16;
/// Bytes of the head of an attribute: `struct nlattr`.
pub(crate) const ATTRIBUTE_HEAD: usize = 4;
/// Most bytes that the kernel puts into one datagram of a dump.
const LONGEST: usize = 1 << 15;

/// Flag of every request.
pub const REQUEST: u16 = 0x1;
/// Flag: answer with an error message, whose code is zero when all went well.
pub const ACKNOWLEDGE: u16 = 0x4;
/// Flag: make what is not there, and fail if it is.
pub const CREATE_NEW: u16 = 0x400 | 0x200;
/// Flag: replace what is there, or make it.
pub const REPLACE: u16 = 0x400 | 0x100;
/// Flag: answer with everything that there is.
pub const DUMP: u16 = 0x100 | 0x200;
/// Flag of an answer: what was asked for changed meanwhile.
pub const INTERRUPTED: u16 = 0x10;
/// Kind of a message with an error code.
pub const ERROR: u16 = 2;
/// Kind of the last message of an answer.
pub const DONE: u16 = 3;
/// The bits of an attribute's kind; others are flags.
const KIND: u16 = 0x3fff;

/// A socket for messages to the kernel.
#[derive(Debug)]
pub struct Netlink {
    socket: OwnedFd,
    buffer: Vec<u8>,
}

impl From<OwnedFd> for Netlink {
    /// Uses a socket that somebody else has opened.
    fn from(socket: OwnedFd) -> Netlink {
        Netlink { socket, buffer: vec![0; LONGEST] }
    }
}

impl From<Netlink> for OwnedFd {
    fn from(netlink: Netlink) -> OwnedFd {
        netlink.socket
    }
}

impl Netlink {
    /// Opens a socket for messages of a protocol of netlink; they are about the network
    /// namespace of this process.
    ///
    /// # Errors
    /// The system's error.
    pub fn open(protocol: SockProtocol) -> io::Result<Netlink> {
        Netlink::open_for(protocol, 0)
    }

    /// Opens one that also gets what changes in these groups, a bit for each.
    ///
    /// # Errors
    /// The system's error.
    pub fn open_for(protocol: SockProtocol, groups: u32) -> io::Result<Netlink> {
        let socket = socket(AddressFamily::Netlink, SockType::Raw, SockFlag::SOCK_CLOEXEC, protocol)?;
        bind(socket.as_raw_fd(), &NetlinkAddr::new(0, groups))?;
        Ok(Netlink::from(socket))
    }

    /// Sends a message.
    ///
    /// # Errors
    /// The system's error.
    pub fn send(&self, message: &[u8]) -> io::Result<()> {
        sendto(self.socket.as_raw_fd(), message, &NetlinkAddr::new(0, 0), MsgFlags::empty())?;
        Ok(())
    }

    /// Waits for the next datagram, which has one message or several.
    ///
    /// # Errors
    /// The system's error, or that the datagram is longer than any that a kernel should send.
    pub fn receive(&mut self) -> io::Result<&[u8]> {
        let length = loop {
            match recv(self.socket.as_raw_fd(), &mut self.buffer, MsgFlags::MSG_TRUNC) {
                Err(nix::errno::Errno::EINTR) => {}
                result => break result?,
            }
        };
        self.buffer.get(..length).ok_or_else(|| io::Error::other("an answer of the kernel is too long"))
    }

    /// Asks for all that there is of a kind, and has each message taken.
    ///
    /// # Errors
    /// The system's error, or that with which the kernel answers.
    pub fn dump(&mut self, kind: u16, body: &[u8], mut take: impl FnMut(Message<'_>)) -> io::Result<()> {
        self.send(&message(kind, REQUEST | DUMP, 1, body))?;
        loop {
            for message in messages(self.receive()?) {
                match message.kind {
                    DONE | ERROR => return message.error(),
                    _ => take(message),
                }
            }
        }
    }

    /// Returns the next datagram, if there is one.
    ///
    /// # Errors
    /// As [`Netlink::receive`].
    pub fn receive_now(&mut self) -> io::Result<Option<&[u8]>> {
        let flags = MsgFlags::MSG_TRUNC | MsgFlags::MSG_DONTWAIT;
        match recv(self.socket.as_raw_fd(), &mut self.buffer, flags) {
            Err(nix::errno::Errno::EAGAIN | nix::errno::Errno::EINTR) => Ok(None),
            Err(error) => Err(error.into()),
            Ok(length) => Ok(Some(&self.buffer[..length.min(LONGEST)])),
        }
    }

    /// Asks for a change, with flags such as [`REPLACE`], and waits until the kernel acknowledges it.
    ///
    /// # Errors
    /// The system's error, or that with which the kernel answers.
    pub fn ask(&mut self, kind: u16, flags: u16, body: &[u8]) -> io::Result<()> {
        self.send(&message(kind, REQUEST | ACKNOWLEDGE | flags, 1, body))?;
        let answer = self.receive()?;
        let first = messages(answer).next().filter(|first| first.kind == ERROR);
        first.map_or(Err(io::Error::from_raw_os_error(libc::EIO)), |first| first.error())
    }

    /// Removes what messages of these kinds are about, in this order; returns whether anything was there.
    ///
    /// # Errors
    /// The system's error.
    pub(crate) fn remove(&mut self, all: impl IntoIterator<Item = (u16, Vec<u8>)>) -> io::Result<bool> {
        let mut was_there = false;
        for (kind, body) in all {
            match self.ask(kind, 0, &body) {
                Ok(()) => was_there = true,
                Err(error) if is_not_there(&error) || is_without_ipv6(&error) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(was_there)
    }

    /// Returns the first message of the answer to a question, if it is of this kind.
    pub(crate) fn answer(&mut self, question: (u16, &[u8]), kind: u16) -> io::Result<Option<Message<'_>>> {
        self.send(&message(question.0, REQUEST, 1, question.1))?;
        Ok(messages(self.receive()?).next().filter(|found| found.kind == kind))
    }
}

/// Returns a message.
pub fn message(kind: u16, flags: u16, sequence: u32, body: &[u8]) -> Vec<u8> {
    let mut message = ((HEAD + body.len()) as u32).to_ne_bytes().to_vec();
    message.extend(kind.to_ne_bytes());
    message.extend(flags.to_ne_bytes());
    message.extend(sequence.to_ne_bytes());
    // The kernel knows who sends.
    message.extend([0; 4]);
    message.extend(body);
    message
}

/// Returns an attribute, padded to whole words.
pub fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
    let mut bytes = ((ATTRIBUTE_HEAD + value.len()) as u16).to_ne_bytes().to_vec();
    bytes.extend(kind.to_ne_bytes());
    bytes.extend(value);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

/// Returns an attribute with an address.
pub(crate) fn address(kind: u16, address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(address) => attribute(kind, &address.octets()),
        IpAddr::V6(address) => attribute(kind, &address.octets()),
    }
}

/// Returns the number by which the kernel knows the version of IP of an address.
pub(crate) fn family(address: IpAddr) -> i32 {
    if address.is_ipv6() { libc::AF_INET6 } else { libc::AF_INET }
}

/// A message of the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message<'a> {
    /// What it is about.
    pub kind: u16,
    /// Such as [`INTERRUPTED`].
    pub flags: u16,
    /// The number of the request that it answers.
    pub sequence: u32,
    /// What follows the head.
    pub body: &'a [u8],
}

impl Message<'_> {
    /// Reads the code of a message of the kind [`ERROR`], or that of [`DONE`].
    ///
    /// # Errors
    /// The code, if it is not zero.
    pub fn error(&self) -> io::Result<()> {
        let code = self.body.first_chunk().map_or(-libc::EIO, |code| i32::from_ne_bytes(*code));
        if code == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(code.saturating_neg())) }
    }
}

/// Returns the messages of a datagram, up to the first that is not whole.
pub fn messages(mut datagram: &[u8]) -> impl Iterator<Item = Message<'_>> {
    std::iter::from_fn(move || {
        let head: &[u8; HEAD] = datagram.first_chunk()?;
        let [a, b, c, d, kind @ ..] = *head;
        let length = u32::from_ne_bytes([a, b, c, d]) as usize;
        let [k, l, f, g, s, t, u, v, ..] = kind;
        let message = Message {
            kind: u16::from_ne_bytes([k, l]),
            flags: u16::from_ne_bytes([f, g]),
            sequence: u32::from_ne_bytes([s, t, u, v]),
            body: datagram.get(HEAD..length)?,
        };
        datagram = datagram.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some(message)
    })
}

/// Returns the attributes of a message by kind, up to the first that is not whole.
pub fn attributes(mut body: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let [a, b, c, d] = *body.first_chunk()?;
        let length = usize::from(u16::from_ne_bytes([a, b]));
        let value = body.get(ATTRIBUTE_HEAD..length)?;
        body = body.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some((u16::from_ne_bytes([c, d]) & KIND, value))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let body = [attribute(1, b"fq\0"), attribute(0x8002, &[7; 8])].concat();
        let datagram =
            [message(36, REQUEST | DUMP, 5, &body), message(DONE, INTERRUPTED, 6, &[0; 4])].concat();
        let read: Vec<Message<'_>> = messages(&datagram).collect();
        assert_eq!((read[0].kind, read[0].flags, read[0].sequence), (36, 0x301, 5));
        assert_eq!((read[1].kind, read[1].flags, read[1].sequence), (DONE, INTERRUPTED, 6));
        let attributes: Vec<(u16, &[u8])> = attributes(read[0].body).collect();
        assert_eq!(attributes, [(1, &b"fq\0"[..]), (2, &[7; 8][..])]);
    }

    #[test]
    fn what_is_cut_ends_the_list() {
        let whole = message(36, 0, 5, &attribute(1, &[7; 5]));
        for length in 0..whole.len() {
            assert!(messages(&whole[..length]).next().is_none(), "{length}");
        }
        let value = attribute(1, &[7; 5]);
        for length in 0..9 {
            assert!(attributes(&value[..length]).next().is_none(), "{length}");
        }
        // Shorter than their own heads.
        for length in 0..4_u16 {
            assert!(attributes(&[&length.to_ne_bytes()[..], &[0; 10]].concat()).next().is_none());
            assert!(messages(&[&u32::from(length).to_ne_bytes()[..], &[0; 30]].concat()).next().is_none());
        }
    }

    #[test]
    fn the_kernel_answers_with_its_error() {
        let mut netlink = Netlink::open(SockProtocol::NetlinkRoute).unwrap();
        // A kind of message that does not exist.
        let error = netlink.ask(0xfff, 0, &[]).unwrap_err();
        assert!(matches!(error.raw_os_error(), Some(libc::EOPNOTSUPP | libc::EPERM)), "{error}");
    }
}
