//! One of the two connections, and how its socket is set up.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use nix::sys::socket::setsockopt;
use nix::{setsockopt_impl, sockopt_impl};
use socket2::{Domain, Protocol, Socket, TcpKeepalive, Type};

/// Silence after which a host is asked whether it is still there, and the time between questions. A host that
/// is gone is found out within three minutes.
const KEEPALIVE: Duration = Duration::from_secs(60);
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(20);
const KEEPALIVE_TRIES: u32 = 6;

sockopt_impl!(WindowClamp, SetOnly, libc::IPPROTO_TCP, libc::TCP_WINDOW_CLAMP, u32);

/// How connections of one side are set up; `Leg::default()` leaves all to the kernel.
#[derive(Clone, Debug, Default)]
pub struct Leg {
    /// The congestion controller of what the relay sends, by the kernel's name.
    pub controller: Option<String>,
    /// The largest receive window that the relay announces, bytes (wan 2.3). The kernel then neither grows
    /// its buffer nor announces more, and acknowledges at once what the relay cannot read yet.
    pub window: Option<u32>,
}

impl Leg {
    /// Makes a socket that does not block, for an address.
    pub(crate) fn socket(&self, address: &SocketAddr) -> io::Result<Socket> {
        let kind = Type::STREAM.nonblocking().cloexec();
        let socket = Socket::new(Domain::for_address(*address), kind, Some(Protocol::TCP))?;
        self.set_up(&socket)?;
        Ok(socket)
    }

    fn set_up(&self, socket: &Socket) -> io::Result<()> {
        if let Some(controller) = &self.controller {
            socket.set_tcp_congestion(controller.as_bytes()).map_err(|error| explained(controller, error))?;
        }
        if let Some(window) = self.window {
            // The clamp alone does not last: Linux 6.6 and later set it to what fits the buffer whenever they
            // learn how much of a packet's memory is data. The kernel doubles the size that is asked for, and
            // no part of a buffer beyond that is announced.
            socket.set_recv_buffer_size(window as usize / 2)?;
            setsockopt(socket, WindowClamp, &window.min(libc::c_int::MAX as u32))?;
        }
        Ok(())
    }
}

/// Says what a name of a controller has to do with an error.
fn explained(controller: &str, error: io::Error) -> io::Error {
    match error.kind() {
        io::ErrorKind::NotFound => io::Error::other(format!(
            "this kernel has no congestion controller `{controller}`; `sysctl net.ipv4.tcp_available_congestion_control` \
             lists those that it has"
        )),
        io::ErrorKind::PermissionDenied => io::Error::other(format!(
            "only root may choose the congestion controller `{controller}`; it is not in \
             net.ipv4.tcp_allowed_congestion_control"
        )),
        _ => error,
    }
}

/// Lets a socket have addresses of others, for this version of IP. Needs CAP_NET_RAW.
pub(crate) fn make_transparent(socket: &Socket, address: &SocketAddr) -> io::Result<()> {
    match address {
        SocketAddr::V4(_) => socket.set_ip_transparent_v4(true),
        SocketAddr::V6(_) => socket.set_ip_transparent_v6(true),
    }
}

/// Has the kernel acknowledge at once what has arrived.
pub(crate) fn acknowledge(socket: &Socket) {
    // What cannot be done now is done by the kernel's timer.
    let _ = socket.set_tcp_quickack(true);
}

/// Sets up a connection that will carry data.
pub(crate) fn prepare(socket: &Socket) -> io::Result<()> {
    // Bytes are passed on as they come: the sender has decided what belongs together.
    socket.set_tcp_nodelay(true)?;
    let keepalive = TcpKeepalive::new()
        .with_time(KEEPALIVE)
        .with_interval(KEEPALIVE_INTERVAL)
        .with_retries(KEEPALIVE_TRIES);
    socket.set_tcp_keepalive(&keepalive)?;
    // Until all was said, it ends with a reset, also if the process is killed: its peer must not take what
    // it got for everything.
    socket.set_linger(Some(Duration::ZERO))
}

/// Lets a connection end as usual.
pub(crate) fn complete(socket: &Socket) {
    // All was said; if this fails, the peer may lose the end of it.
    let _ = socket.set_linger(None);
}
