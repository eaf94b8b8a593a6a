//! Sockets for probes: connected, with timestamps, never fragmenting, with buffers for a whole stream.

use crate::batch::{Batch, Queue};
use crate::echo_filter;
use crate::envelope::Envelope;
use crate::protocol::echo::identifier;
use crate::protocol::{Carrier, Family, PacketSize};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{TimestampingFlag, getsockopt, setsockopt, sockopt};
use nix::{getsockopt_impl, setsockopt_impl, sockopt_impl};
use socket2::{Domain, Protocol, SockAddr, SockFilter, Socket, Type};
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::time::Duration;

sockopt_impl!(Ipv4MtuDiscovery, SetOnly, libc::IPPROTO_IP, libc::IP_MTU_DISCOVER, libc::c_int);
sockopt_impl!(Ipv6MtuDiscovery, SetOnly, libc::IPPROTO_IPV6, libc::IPV6_MTU_DISCOVER, libc::c_int);
sockopt_impl!(Ipv6Mtu, GetOnly, libc::IPPROTO_IPV6, libc::IPV6_MTU, libc::c_int);

/// Requested receive buffer between streams, in bytes; the kernel doubles it. This bounds what a peer can
/// fill by sending while no one reads.
const QUIET_BUFFER: usize = 64 * 1024;

/// The largest receive buffer requested for a stream, in bytes: 4 ms of full-size packets at 10 Gb/s as the
/// kernel counts them, which is twice the longest pause between two reads.
const LARGEST_BUFFER: usize = 4 * 1024 * 1024;

/// Requested send buffer, in bytes, so that a busy queue discipline does not refuse packets.
const SEND_BUFFER: usize = 1024 * 1024;

/// The kernel's overhead for one datagram beyond its payload, in bytes, rounded up.
const BOOKKEEPING: usize = 1024;

/// Longest sleep between two checks of a stop flag: short enough to feel immediate.
pub(crate) const STOP_CHECK: Duration = Duration::from_millis(100);

/// Batches discarded in a row: more than any receive buffer holds, so only a flood reaches it.
const DISCARD_BATCHES: usize = 1024;

/// A connected UDP or raw ICMP socket with timestamps for received and sent packets.
#[derive(Debug)]
pub(crate) struct ProbeSocket {
    socket: Socket,
    peer: SocketAddr,
    carrier: Carrier,
}

impl ProbeSocket {
    /// Creates a UDP socket from `local` (whose port is shared with other sockets unless it is 0) to `peer`.
    ///
    /// # Errors
    /// Same as the underlying system calls.
    pub(crate) fn connect(local: SocketAddr, peer: SocketAddr) -> io::Result<ProbeSocket> {
        let socket = Socket::new(Domain::for_address(peer), Type::DGRAM, Some(Protocol::UDP))?;
        let probe = ProbeSocket::connect_by(socket, local, peer)?;
        probe.shrink_receive_buffer();
        Ok(probe)
    }

    /// Does the same by a UDP socket that is there, whose receive buffer stays as it is.
    ///
    /// # Errors
    /// Same as the underlying system calls.
    pub(crate) fn connect_by(socket: Socket, local: SocketAddr, peer: SocketAddr) -> io::Result<ProbeSocket> {
        if local.port() != 0 {
            share_port(&socket)?;
        }
        ProbeSocket::set_up(socket, local, peer, Carrier::Udp)
    }

    /// Creates a raw socket that sends Echo Replies to the host of `peer` and receives nothing.
    ///
    /// # Errors
    /// Same as the underlying system calls; [`io::ErrorKind::PermissionDenied`] without `CAP_NET_RAW`.
    pub(crate) fn icmp_sender(local: SocketAddr, peer: SocketAddr) -> io::Result<ProbeSocket> {
        ProbeSocket::icmp(local, peer, &echo_filter::reject())
    }

    /// Creates a raw socket that receives the Echo Replies of a session from the host of `peer`.
    ///
    /// Over IPv4 the kernel does not verify their checksums. A packet whose header is damaged does not belong
    /// to the session or is malformed, and damaged padding does no harm.
    ///
    /// # Errors
    /// Same as [`ProbeSocket::icmp_sender`].
    pub(crate) fn icmp_receiver(
        local: SocketAddr,
        peer: SocketAddr,
        session: u64,
    ) -> io::Result<ProbeSocket> {
        let filter = echo_filter::accept(Family::of(peer.ip()), identifier(session));
        ProbeSocket::icmp(local, peer, &filter)
    }

    /// Creates a raw socket that receives what the filter accepts.
    fn icmp(mut local: SocketAddr, mut peer: SocketAddr, filter: &[SockFilter]) -> io::Result<ProbeSocket> {
        let protocol = match Family::of(peer.ip()) {
            Family::V4 => Protocol::ICMPV4,
            Family::V6 => Protocol::ICMPV6,
        };
        let socket = Socket::new(Domain::for_address(peer), Type::RAW, Some(protocol))?;
        socket.attach_filter(filter)?;
        // Raw sockets have no ports; in IPv6 the field may only name the protocol.
        local.set_port(0);
        peer.set_port(0);
        let probe = ProbeSocket::set_up(socket, local, peer, Carrier::Icmp)?;
        probe.shrink_receive_buffer();
        Ok(probe)
    }

    /// Binds and connects a socket and sets the options that all probes need.
    fn set_up(
        socket: Socket,
        local: SocketAddr,
        peer: SocketAddr,
        carrier: Carrier,
    ) -> io::Result<ProbeSocket> {
        socket.bind(&SockAddr::from(local))?;
        socket.connect(&SockAddr::from(peer))?;
        socket.set_nonblocking(true)?;
        set_dont_fragment(&socket, Family::of(peer.ip()))?;
        // The forced variant needs CAP_NET_ADMIN; without it the kernel's limit applies, unless
        // its opener had that.
        let is_forced = setsockopt(&socket, sockopt::SndBufForce, &SEND_BUFFER).is_ok();
        if !is_forced && socket.send_buffer_size().is_ok_and(|bytes| bytes < SEND_BUFFER) {
            let _ = socket.set_send_buffer_size(SEND_BUFFER);
        }
        let probe = ProbeSocket { socket, peer, carrier };
        probe.stamp_from_zero()?;
        // Before it was connected, the socket may have received packets meant for others.
        probe.discard(Queue::Data);
        Ok(probe)
    }

    /// Returns the address this socket is connected to.
    pub(crate) fn peer(&self) -> SocketAddr {
        self.peer
    }

    /// Returns the address of this socket.
    ///
    /// # Errors
    /// Same as `getsockname`.
    pub(crate) fn local(&self) -> io::Result<SocketAddr> {
        self.socket
            .local_addr()?
            .as_socket()
            .ok_or_else(|| io::Error::other("the socket has no address of IP"))
    }

    /// Returns the IP version of the socket.
    pub(crate) fn family(&self) -> Family {
        Family::of(self.peer.ip())
    }

    /// Returns the headers that this socket's packets have around the probes.
    pub(crate) fn envelope(&self) -> Envelope {
        Envelope { carrier: self.carrier, family: self.family() }
    }

    /// Sends one datagram without blocking.
    ///
    /// # Errors
    /// Same as `send`; a full buffer is [`io::ErrorKind::WouldBlock`].
    pub(crate) fn send(&self, datagram: &[u8]) -> io::Result<()> {
        match self.socket.send(datagram) {
            // Once, the kernel reports an earlier ICMP message instead of sending.
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                self.socket.send(datagram).map(drop)
            }
            other => other.map(drop),
        }
    }

    /// Reads one datagram, if any, truncated to 64 bytes.
    pub(crate) fn receive(&self) -> Option<Vec<u8>> {
        let mut datagram = [0; 64];
        let length = nix::sys::socket::recv(
            self.socket.as_raw_fd(),
            &mut datagram,
            nix::sys::socket::MsgFlags::MSG_DONTWAIT,
        );
        Some(datagram[..length.ok()?].to_vec())
    }

    /// Switches timestamping off and on again, so that transmit timestamps count packets from 0,
    /// and discards old ones.
    ///
    /// # Errors
    /// Same as `setsockopt`.
    pub(crate) fn stamp_from_zero(&self) -> io::Result<()> {
        setsockopt(&self.socket, sockopt::Timestamping, &TimestampingFlag::empty())?;
        self.discard(Queue::Errors);
        let flags = TimestampingFlag::SOF_TIMESTAMPING_RX_SOFTWARE
            | TimestampingFlag::SOF_TIMESTAMPING_RX_HARDWARE
            | TimestampingFlag::SOF_TIMESTAMPING_TX_SOFTWARE
            | TimestampingFlag::SOF_TIMESTAMPING_SOFTWARE
            | TimestampingFlag::SOF_TIMESTAMPING_RAW_HARDWARE
            | TimestampingFlag::SOF_TIMESTAMPING_OPT_ID
            | TimestampingFlag::SOF_TIMESTAMPING_OPT_TSONLY;
        Ok(setsockopt(&self.socket, sockopt::Timestamping, &flags)?)
    }

    /// Lets the kernel put ICMP errors into the queue of errors, with the datagrams they quote, or stops
    /// that. While it does, each error also makes one later call on the socket fail.
    ///
    /// # Errors
    /// Same as `setsockopt`.
    pub(crate) fn report_errors(&self, enable: bool) -> io::Result<()> {
        match self.family() {
            Family::V4 => setsockopt(&self.socket, sockopt::Ipv4RecvErr, &enable)?,
            Family::V6 => setsockopt(&self.socket, sockopt::Ipv6RecvErr, &enable)?,
        }
        Ok(())
    }

    /// Discards everything in a queue, and a pending error.
    pub(crate) fn discard(&self, queue: Queue) {
        let mut batch = Batch::new();
        for _ in 0..DISCARD_BATCHES {
            if batch.receive(self.as_fd(), queue).is_err() {
                break;
            }
        }
        let _ = self.socket.take_error();
    }

    /// Enlarges the receive buffer, as far as allowed, for the packets of a stream or for the
    /// timestamps of those sent.
    pub(crate) fn grow_receive_buffer(&self, size: PacketSize, packets: usize) {
        let bytes = (usize::from(size.ip()) + BOOKKEEPING).saturating_mul(packets);
        let bytes = bytes.clamp(QUIET_BUFFER, LARGEST_BUFFER);
        // The kernel doubles what is asked for.
        if self.socket.recv_buffer_size().is_ok_and(|is| is < 2 * bytes) {
            self.set_receive_buffer(bytes);
        }
    }

    /// Shrinks the receive buffer again.
    pub(crate) fn shrink_receive_buffer(&self) {
        self.set_receive_buffer(QUIET_BUFFER);
    }

    fn set_receive_buffer(&self, bytes: usize) {
        if setsockopt(&self.socket, sockopt::RcvBufForce, &bytes).is_err() {
            let _ = self.socket.set_recv_buffer_size(bytes);
        }
    }

    /// Returns how long it takes packets of `size` arriving `gap` apart to fill the receive buffer.
    pub(crate) fn buffer_time(&self, size: PacketSize, gap: Duration) -> Duration {
        let buffer = self.socket.recv_buffer_size().unwrap_or(0);
        let packets = buffer / (usize::from(size.ip()) + BOOKKEEPING);
        gap.saturating_mul(u32::try_from(packets).unwrap_or(u32::MAX))
    }

    /// Returns the MTU of the route's interface, in bytes of the IP packet.
    pub(crate) fn interface_mtu(&self) -> io::Result<usize> {
        let mtu = match self.family() {
            Family::V4 => getsockopt(&self.socket, sockopt::IpMtu)?,
            Family::V6 => getsockopt(&self.socket, Ipv6Mtu)?,
        };
        usize::try_from(mtu).map_err(io::Error::other)
    }
}

impl AsFd for ProbeSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Gives a new socket the buffers that a session needs, if this process may.
pub(crate) fn force_buffers(socket: &Socket) {
    let _ = setsockopt(socket, sockopt::SndBufForce, &SEND_BUFFER);
    let _ = setsockopt(socket, sockopt::RcvBufForce, &LARGEST_BUFFER);
}

/// Lets several sockets of this program bind the same port.
///
/// This does not use `SO_REUSEADDR`, which would let any user of this host bind the port and receive what is
/// meant for the server. With only `SO_REUSEPORT`, the sockets must belong to the same user.
///
/// # Errors
/// Same as `setsockopt`.
pub(crate) fn share_port(socket: &Socket) -> io::Result<()> {
    socket.set_reuse_port(true)
}

/// Sets "don't fragment" and disables the kernel's path MTU discovery, because the size test
/// finds the MTU itself.
fn set_dont_fragment(socket: &Socket, family: Family) -> io::Result<()> {
    Ok(match family {
        Family::V4 => setsockopt(socket, Ipv4MtuDiscovery, &libc::IP_PMTUDISC_PROBE),
        Family::V6 => setsockopt(socket, Ipv6MtuDiscovery, &libc::IPV6_PMTUDISC_PROBE),
    }?)
}

/// Waits until one of `files` is readable or `timeout` is over; returns whether each is readable.
///
/// # Errors
/// Same as `poll`; an interrupted wait counts as nothing readable.
pub(crate) fn readable<const N: usize>(
    files: [BorrowedFd<'_>; N],
    timeout: Duration,
) -> io::Result<[bool; N]> {
    wait(files, PollFlags::POLLIN, timeout)
}

/// Waits until one of `files` is ready for `events` or `timeout` is over; returns whether each is
/// ready or has failed.
///
/// # Errors
/// Same as `poll`; an interrupted wait counts as nothing ready.
pub(crate) fn wait<const N: usize>(
    files: [BorrowedFd<'_>; N],
    events: PollFlags,
    timeout: Duration,
) -> io::Result<[bool; N]> {
    // Rounded up, so that a wait never ends early and turns into a busy loop.
    let ms = timeout.as_nanos().div_ceil(1_000_000).min(i32::MAX as u128) as i32;
    let timeout = PollTimeout::try_from(ms).unwrap_or(PollTimeout::MAX);
    let mut poll_files = files.map(|file| PollFd::new(file, events));
    match poll(&mut poll_files, timeout) {
        Ok(_) | Err(nix::errno::Errno::EINTR) => {}
        Err(error) => return Err(error.into()),
    }
    // `None` means that there are flags unknown to the library, such as `POLLRDHUP`.
    Ok(poll_files.map(|file| file.revents().is_none_or(|flags| !flags.is_empty())))
}
