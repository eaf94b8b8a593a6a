//! The public UDP socket: it answers the hellos of open sessions and nothing else.
//!
//! An answer is as long as the hello, goes only to the hello's sender, and only if that has the IP address of
//! the session's control connection. So forging the source address of a hello gains nothing.

use super::Shared;
use crate::counters::count;
use crate::protocol::probe::{HELLO_LEN, hello};
use crate::protocol::{Header, Kind};
use crate::socket::share_port;
use nix::sys::socket::{
    ControlMessage, ControlMessageOwned, MsgFlags, SockaddrStorage, recvmsg, sendmsg, setsockopt, sockopt,
};
use socket2::{Domain, Protocol, SockAddr, Socket, Type};
use std::io::{self, IoSlice, IoSliceMut};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::time::Duration;

/// Datagrams read before connections get their turn.
const TURN: usize = 64;

/// Pause after a full turn, so that a flood of datagrams costs only a fraction of a processor.
const FLOOD_PAUSE: Duration = Duration::from_millis(1);

/// A bound but unconnected UDP socket.
#[derive(Debug)]
pub(super) struct HelloSocket(Socket);

impl HelloSocket {
    /// Binds the address; other sockets of this program may share its port.
    pub(super) fn bind(address: SocketAddr) -> io::Result<HelloSocket> {
        let socket = Socket::new(Domain::for_address(address), Type::DGRAM, Some(Protocol::UDP))?;
        share_port(&socket)?;
        if address.is_ipv6() {
            socket.set_only_v6(true)?;
            setsockopt(&socket, sockopt::Ipv6RecvPacketInfo, &true)?;
        } else {
            setsockopt(&socket, sockopt::Ipv4PacketInfo, &true)?;
        }
        socket.bind(&SockAddr::from(address))?;
        socket.set_nonblocking(true)?;
        Ok(HelloSocket(socket))
    }

    /// Answers the datagrams that have arrived.
    pub(super) fn answer(&self, shared: &Shared) {
        for _ in 0..TURN {
            match self.answer_one(shared) {
                Ok(()) => {}
                Err(nix::errno::Errno::EAGAIN) => return,
                // Errors such as a pending ICMP message concern only one datagram.
                Err(_) => {}
            }
        }
        std::thread::sleep(FLOOD_PAUSE);
    }

    /// Reads one datagram and answers it if it is a valid hello.
    fn answer_one(&self, shared: &Shared) -> nix::Result<()> {
        // One byte more than a hello, to detect longer datagrams.
        let mut datagram = [0; HELLO_LEN + 1];
        let mut control = nix::cmsg_space!(libc::in6_pktinfo);
        let mut vectors = [IoSliceMut::new(&mut datagram)];
        let message = recvmsg::<SockaddrStorage>(
            self.0.as_raw_fd(),
            &mut vectors,
            Some(&mut control),
            MsgFlags::MSG_DONTWAIT,
        )?;
        let length = message.bytes;
        let sender = message.address.as_ref().and_then(to_std);
        let local = message.cmsgs().ok().and_then(|mut messages| messages.find_map(local_address));
        let Some(sender) = sender else {
            return Ok(());
        };
        let counters = &shared.counters;
        let Ok(header) = Header::parse(&datagram[..length]) else {
            count(&counters.datagrams_malformed);
            return Ok(());
        };
        if header.kind != Kind::Hello || length != HELLO_LEN {
            count(&counters.datagrams_unexpected);
            return Ok(());
        }
        let Some(cookie) = shared.proofs.hello(header.session, sender) else {
            count(&counters.datagrams_wrong_session);
            return Ok(());
        };
        count(&counters.hellos);
        self.send(&hello(Kind::Cookie, header.session, &cookie), sender, local)
    }

    /// Sends from the address that the hello was sent to; the client's connected socket accepts no other.
    fn send(&self, datagram: &[u8], to: SocketAddr, from: Option<IpAddr>) -> nix::Result<()> {
        let vectors = [IoSlice::new(datagram)];
        let to = SockaddrStorage::from(to);
        let v4;
        let v6;
        let control = match from {
            Some(IpAddr::V4(address)) => {
                v4 = libc::in_pktinfo {
                    ipi_ifindex: 0,
                    ipi_spec_dst: libc::in_addr { s_addr: u32::from_ne_bytes(address.octets()) },
                    ipi_addr: libc::in_addr { s_addr: 0 },
                };
                vec![ControlMessage::Ipv4PacketInfo(&v4)]
            }
            Some(IpAddr::V6(address)) => {
                v6 = libc::in6_pktinfo {
                    ipi6_addr: libc::in6_addr { s6_addr: address.octets() },
                    ipi6_ifindex: 0,
                };
                vec![ControlMessage::Ipv6PacketInfo(&v6)]
            }
            None => Vec::new(),
        };
        sendmsg(self.0.as_raw_fd(), &vectors, &control, MsgFlags::MSG_DONTWAIT, Some(&to)).map(drop)
    }
}

impl AsFd for HelloSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

fn to_std(address: &SockaddrStorage) -> Option<SocketAddr> {
    if let Some(v4) = address.as_sockaddr_in() {
        return Some(SocketAddrV4::from(*v4).into());
    }
    address.as_sockaddr_in6().map(|v6| SocketAddrV6::from(*v6).into())
}

/// Returns the destination address of a datagram.
fn local_address(message: ControlMessageOwned) -> Option<IpAddr> {
    match message {
        ControlMessageOwned::Ipv4PacketInfo(info) => {
            Some(Ipv4Addr::from(info.ipi_spec_dst.s_addr.to_ne_bytes()).into())
        }
        ControlMessageOwned::Ipv6PacketInfo(info) => Some(Ipv6Addr::from(info.ipi6_addr.s6_addr).into()),
        _ => None,
    }
}
