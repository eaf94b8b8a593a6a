//! Connecting: from a host name to an open session.

use super::{ConnectOptions, FamilyChoice, Gaps, Session, channel_error, handshake, unexpected};
use crate::channel::Channel;
use crate::clock::Watch;
use crate::error::NetError;
use crate::frames::FrameSender;
use crate::protocol::probe::{cookie, hello};
use crate::protocol::{COOKIE_LEN, Carrier, Header, Kind, Message, PacketSize};
use crate::socket::{ProbeSocket, STOP_CHECK, readable, wait};
use headway_units::Bytes;
use nix::poll::PollFlags;
use socket2::SockAddr;
use std::io;
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// UDP hellos sent before UDP counts as blocked: five losses in a row are not chance.
const HELLO_TRIES: u32 = 5;

/// The shortest time between two hellos.
const HELLO_INTERVAL: Duration = Duration::from_millis(200);

/// Pings that measure the RTT before the first stream.
const PINGS: u32 = 3;

/// Connects and completes everything that precedes the first stream.
pub(super) fn connect(options: &ConnectOptions) -> Result<Session, NetError> {
    let stop = options.stop.clone().unwrap_or_default();
    let addresses = resolve(options)?;
    let tcp = connect_tcp(options, &addresses, &stop)?;
    // UDP uses the same local address with another port; a link-local address includes its interface.
    let (mut local, peer) = (tcp.local_addr()?, tcp.peer_addr()?);
    local.set_port(0);
    let icmp = match options.carrier {
        Carrier::Udp => None,
        Carrier::Icmp => Some(open_icmp(local, peer)?),
    };
    let opened = handshake::open(tcp, peer, options)?;
    let mut channel = opened.channel;
    let socket = ProbeSocket::connect_by(options.open(peer, false)?, local, peer)?;
    socket.grow_receive_buffer(PacketSize::LARGEST, crate::protocol::MAX_STREAM_PACKETS as usize);
    let frames = match options.gaps {
        Gaps::Pause => Some(FrameSender::open(socket.local()?, peer)?),
        Gaps::Spin | Gaps::Timer => None,
    };
    let cookie = fetch_cookie(&socket, opened.session, opened.rtt, &stop)?;
    prove_address(&mut channel, &socket, cookie, options.timeout)?;
    let mut session = Session {
        channel,
        socket,
        icmp,
        gaps: options.gaps,
        frames,
        id: opened.session,
        max_packets: opened.max_packets,
        reverse_rate: opened.reverse_rate,
        largest: PacketSize::SMALLEST,
        timeout: options.timeout,
        rtt: opened.rtt,
        next_stream: 0,
        next_ping: 0,
        probe_bytes: Bytes::ZERO,
        clock: Watch::default(),
        stop,
    };
    for _ in 0..PINGS {
        session.ping()?;
    }
    session.probe_packet_size()?;
    Ok(session)
}

/// Opens the raw socket for trains.
fn open_icmp(local: SocketAddr, peer: SocketAddr) -> Result<ProbeSocket, NetError> {
    let socket = ProbeSocket::icmp_sender(local, peer).map_err(|error| match error.kind() {
        io::ErrorKind::PermissionDenied => NetError::RawSocket,
        _ => NetError::System(error),
    })?;
    socket.grow_receive_buffer(PacketSize::LARGEST, crate::protocol::MAX_STREAM_PACKETS as usize);
    Ok(socket)
}

/// Returns the host's addresses of the requested IP version.
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
        .filter(|address| options.via.source.is_none_or(|source| source.is_ipv4() == address.is_ipv4()))
        .collect();
    if addresses.is_empty() {
        return Err(NetError::NoAddress { host: options.host.clone() });
    }
    Ok(addresses)
}

/// Connects to the first address that answers.
fn connect_tcp(
    options: &ConnectOptions,
    addresses: &[SocketAddr],
    stop: &AtomicBool,
) -> Result<TcpStream, NetError> {
    let mut failed = Vec::new();
    for address in addresses {
        match connect_one(options, *address, stop) {
            Ok(Some(tcp)) => return Ok(tcp),
            Ok(None) => return Err(NetError::Interrupted),
            Err(reason) => failed.push((address, reason)),
        }
    }
    if let [_] = &failed[..]
        && let Some((address, reason)) = failed.pop()
    {
        return Err(NetError::Unreachable { address: address.to_string(), reason });
    }
    let tried: Vec<String> = failed.iter().map(|(address, reason)| format!("{address} ({reason})")).collect();
    Err(NetError::NoneReachable { host: options.host.clone(), tried: tried.join(", ") })
}

/// Connects to one address; `None` if `stop` is set first. The standard library's own connect
/// could not be interrupted.
fn connect_one(
    options: &ConnectOptions,
    address: SocketAddr,
    stop: &AtomicBool,
) -> io::Result<Option<TcpStream>> {
    let socket = options.open(address, true)?;
    if let Some(source) = options.via.source {
        socket.bind(&SockAddr::from(SocketAddr::new(source, 0)))?;
    }
    socket.set_nonblocking(true)?;
    match socket.connect(&SockAddr::from(address)) {
        Err(error) if error.raw_os_error() != Some(libc::EINPROGRESS) => return Err(error),
        _ => {}
    }
    let deadline = Instant::now() + options.timeout;
    loop {
        if stop.load(Ordering::Relaxed) {
            return Ok(None);
        }
        let left = deadline.saturating_duration_since(Instant::now());
        let [ended] = wait([socket.as_fd()], PollFlags::POLLOUT, left.min(STOP_CHECK))?;
        if ended {
            return match socket.take_error()? {
                Some(error) => Err(error),
                None => Ok(Some(socket.into())),
            };
        }
        if left == Duration::ZERO {
            return Err(io::Error::new(io::ErrorKind::TimedOut, "no answer in time"));
        }
    }
}

/// Proves to the server the UDP address that streams may be sent to, or finds out why no cookie came.
fn prove_address(
    channel: &mut Channel,
    socket: &ProbeSocket,
    cookie: Option<[u8; COOKIE_LEN]>,
    timeout: Duration,
) -> Result<(), NetError> {
    let lost = |error| channel_error(error, timeout, "address proof");
    let Some(cookie) = cookie else {
        return Err(why_blocked(channel, socket, timeout)?);
    };
    channel.send(&Message::Cookie(cookie)).map_err(lost)?;
    match channel.receive(Instant::now() + timeout).map_err(lost)? {
        Message::AddressProved => Ok(()),
        Message::Refused(reason) => Err(reason.into()),
        other => Err(unexpected(&other)),
    }
}

/// Sends hellos until the server's cookie arrives; `None` if it does not.
fn fetch_cookie(
    socket: &ProbeSocket,
    session: u64,
    rtt: Duration,
    stop: &AtomicBool,
) -> Result<Option<[u8; COOKIE_LEN]>, NetError> {
    let interval = HELLO_INTERVAL.max(rtt * 2);
    let datagram = hello(Kind::Hello, session, &[0; COOKIE_LEN]);
    for _ in 0..HELLO_TRIES {
        // An error here is an ICMP message or a local firewall; the missing answer reveals it.
        let _ = socket.send(&datagram);
        let deadline = Instant::now() + interval;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            if let Some(cookie) = socket.receive().and_then(|datagram| accept(&datagram, session)) {
                return Ok(Some(cookie));
            }
            if stop.load(Ordering::Relaxed) {
                return Err(NetError::Interrupted);
            }
            if left == Duration::ZERO {
                break;
            }
            socket.discard(crate::batch::Queue::Errors);
            readable([socket.as_fd()], left.min(STOP_CHECK))?;
        }
    }
    Ok(None)
}

/// Returns the cookie in a datagram if it answers this session's hello.
fn accept(datagram: &[u8], session: u64) -> Option<[u8; COOKIE_LEN]> {
    let header = Header::parse(datagram).ok()?;
    if header.kind == Kind::Cookie && header.session == session { cookie(datagram) } else { None }
}

/// Asks the server how many hellos it received.
fn why_blocked(channel: &mut Channel, socket: &ProbeSocket, timeout: Duration) -> Result<NetError, NetError> {
    let lost = |error| channel_error(error, timeout, "hello count request");
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_address_that_failed_is_named_with_its_error() {
        // No program listens on a port that was just given up.
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("loopback");
        let port = listener.local_addr().expect("bound").port();
        drop(listener);
        let addresses = [[127, 0, 0, 1], [127, 0, 0, 2]].map(|ip| SocketAddr::from((ip, port)));
        let connect = |addresses: &[SocketAddr]| {
            let stop = AtomicBool::new(false);
            let options = ConnectOptions { timeout: Duration::from_secs(5), ..ConnectOptions::new("both") };
            connect_tcp(&options, addresses, &stop).expect_err("closed").to_string()
        };
        let both = connect(&addresses);
        assert!(both.starts_with("both cannot be reached: "), "{both}");
        for address in addresses {
            assert!(both.contains(&format!("{address} (Connection refused")), "{both}");
        }
        assert!(connect(&addresses[1..]).starts_with(&format!("127.0.0.2:{port} cannot be reached")));
    }
}
