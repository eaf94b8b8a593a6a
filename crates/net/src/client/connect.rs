//! From a host name to an open session.

use super::{ConnectOptions, FamilyChoice, Session, channel_error, handshake, unexpected};
use crate::channel::Channel;
use crate::error::NetError;
use crate::protocol::probe::{cookie, hello};
use crate::protocol::{COOKIE_LEN, Header, Kind, Message, PacketSize};
use crate::socket::{ProbeSocket, readable};
use headway_core::Bytes;
use std::io;
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

/// UDP hellos sent before UDP counts as blocked: five lost in a row is not chance.
const HELLO_TRIES: u32 = 5;

/// The shortest time between two hellos.
const HELLO_INTERVAL: Duration = Duration::from_millis(200);

/// Pings that measure the round trip before the first stream.
const PINGS: u32 = 3;

/// Connects and goes through all that comes before the first stream.
pub(super) fn connect(options: &ConnectOptions) -> Result<Session, NetError> {
    let addresses = resolve(options)?;
    let tcp = connect_tcp(&addresses, options.timeout)?;
    // Its port aside, the local address serves UDP, too; a link-local one brings its interface along.
    let (mut local, peer) = (tcp.local_addr()?, tcp.peer_addr()?);
    local.set_port(0);
    let opened = handshake::open(tcp, peer, options)?;
    let mut channel = opened.channel;
    let socket = ProbeSocket::connect(local, peer)?;
    prove_address(&mut channel, &socket, opened.session, opened.rtt, options.timeout)?;
    let mut session = Session {
        channel,
        socket,
        id: opened.session,
        max_packets: opened.max_packets,
        reverse_rate: opened.reverse_rate,
        largest: PacketSize::SMALLEST,
        timeout: options.timeout,
        rtt: opened.rtt,
        next_stream: 0,
        next_ping: 0,
        probe_bytes: Bytes::ZERO,
    };
    for _ in 0..PINGS {
        session.ping()?;
    }
    session.probe_packet_size()?;
    Ok(session)
}

/// The addresses of the host, of the wanted version of IP.
fn resolve(options: &ConnectOptions) -> Result<Vec<SocketAddr>, NetError> {
    let found = (options.host.as_str(), options.port)
        .to_socket_addrs()
        .map_err(|error| NetError::UnknownHost { host: options.host.clone(), reason: error.to_string() })?;
    let addresses: Vec<SocketAddr> = found
        .filter(|address| match options.family {
            FamilyChoice::Any => true,
            FamilyChoice::V4 => address.is_ipv4(),
            FamilyChoice::V6 => address.is_ipv6(),
        })
        .collect();
    if addresses.is_empty() {
        return Err(NetError::NoAddress { host: options.host.clone() });
    }
    Ok(addresses)
}

/// Connects to the first address that answers.
fn connect_tcp(addresses: &[SocketAddr], timeout: Duration) -> Result<TcpStream, NetError> {
    let mut failed = None;
    for address in addresses {
        match TcpStream::connect_timeout(address, timeout) {
            Ok(tcp) => return Ok(tcp),
            Err(reason) => {
                failed = Some(NetError::Unreachable { address: address.to_string(), reason });
            }
        }
    }
    Err(failed.unwrap_or_else(|| NetError::System(io::ErrorKind::InvalidInput.into())))
}

/// Shows the server the UDP address that streams may go to.
fn prove_address(
    channel: &mut Channel,
    socket: &ProbeSocket,
    session: u64,
    rtt: Duration,
    timeout: Duration,
) -> Result<(), NetError> {
    let lost = |error| channel_error(error, timeout, "address proof");
    let Some(cookie) = fetch_cookie(socket, session, rtt)? else {
        return Err(why_blocked(channel, socket, timeout)?);
    };
    channel.send(&Message::Cookie(cookie)).map_err(lost)?;
    match channel.receive(Instant::now() + timeout).map_err(lost)? {
        Message::AddressProved => Ok(()),
        Message::Refused(reason) => Err(reason.into()),
        other => Err(unexpected(&other)),
    }
}

/// Sends hellos until the server's cookie comes back; `None` when it does not.
fn fetch_cookie(
    socket: &ProbeSocket,
    session: u64,
    rtt: Duration,
) -> Result<Option<[u8; COOKIE_LEN]>, NetError> {
    let interval = HELLO_INTERVAL.max(rtt * 2);
    let datagram = hello(Kind::Hello, session, &[0; COOKIE_LEN]);
    for _ in 0..HELLO_TRIES {
        // An error here is an ICMP message or a local firewall: the missing answer shows it.
        let _ = socket.send(&datagram);
        let deadline = Instant::now() + interval;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            if let Some(cookie) = socket.receive().and_then(|datagram| accept(&datagram, session)) {
                return Ok(Some(cookie));
            }
            if left == Duration::ZERO {
                break;
            }
            socket.discard(crate::batch::Queue::Errors);
            readable([socket.as_fd()], left)?;
        }
    }
    Ok(None)
}

/// The cookie in a datagram if it is the answer to this session's hello.
fn accept(datagram: &[u8], session: u64) -> Option<[u8; COOKIE_LEN]> {
    let header = Header::parse(datagram).ok()?;
    if header.kind == Kind::Cookie && header.session == session { cookie(datagram) } else { None }
}

/// Asks the server what it saw of the hellos.
fn why_blocked(channel: &mut Channel, socket: &ProbeSocket, timeout: Duration) -> Result<NetError, NetError> {
    let lost = |error| channel_error(error, timeout, "question for hellos");
    let port = socket.peer().port();
    channel.send(&Message::Hellos).map_err(lost)?;
    match channel.receive(Instant::now() + timeout).map_err(lost)? {
        Message::HellosSeen { seen: 0, elsewhere: 0 } => Ok(NetError::UdpBlockedForward { port }),
        Message::HellosSeen { seen: 0, .. } => Ok(NetError::UdpOtherAddress),
        Message::HellosSeen { .. } => Ok(NetError::UdpBlockedReverse { port }),
        Message::Refused(reason) => Err(reason.into()),
        other => Err(unexpected(&other)),
    }
}
