//! The thread that accepts connections and answers UDP hellos.

use super::accepted::Accepted;
use super::network::Network;
use super::{Shared, handshake, hello::HelloSocket};
use crate::counters::count;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use socket2::{Domain, Protocol, SockAddr, Socket, Type};
use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::Instant;
use tracing::{error, warn};

/// Maximum number of connections waiting to be accepted.
const BACKLOG: i32 = 128;

/// Attempts to find a port that is free for TCP and UDP on all addresses.
const PORT_TRIES: u32 = 16;

/// Pause when accept fails for lack of file descriptors or memory; without it, the loop
/// would retry without end.
const ACCEPT_PAUSE: std::time::Duration = std::time::Duration::from_millis(50);

/// Requested receive buffer of a control connection, in bytes; the kernel doubles it. A client's longest
/// useful message has a few kilobytes, and what does not fit waits at the client.
const RECEIVE_BUFFER: usize = 64 * 1024;

/// Requested send buffer, so that the report of the longest stream, 160 kB, leaves at once.
const SEND_BUFFER: usize = 256 * 1024;

/// The listening sockets on one address.
#[derive(Debug)]
struct Listener {
    tcp: TcpListener,
    udp: HelloSocket,
}

/// All listening sockets.
#[derive(Debug)]
pub(super) struct Front {
    listeners: Vec<Listener>,
    port: u16,
}

impl Front {
    /// Listens on each address, with TCP and UDP on the same port.
    pub(super) fn bind(addresses: &[IpAddr], port: u16) -> io::Result<Front> {
        let mut tries = 0;
        loop {
            match bind_all(addresses, port) {
                Err(error) if port == 0 && error.kind() == io::ErrorKind::AddrInUse && tries < PORT_TRIES => {
                    tries += 1;
                }
                other => return other,
            }
        }
    }

    pub(super) fn port(&self) -> u16 {
        self.port
    }

    pub(super) fn addresses(&self) -> Vec<IpAddr> {
        self.listeners
            .iter()
            .filter_map(|listener| listener.tcp.local_addr().ok())
            .map(|address| address.ip())
            .collect()
    }

    /// Serves until stopped, then ends and joins all sessions.
    pub(super) fn run(&self, shared: &Arc<Shared>) -> io::Result<()> {
        let mut threads: Vec<JoinHandle<()>> = Vec::new();
        let result = loop {
            if shared.stopping() {
                break Ok(());
            }
            if let Err(error) = self.wait(shared) {
                break Err(error);
            }
            for listener in &self.listeners {
                listener.udp.answer(shared);
                threads.extend(listener.accept(shared, threads.len()));
            }
            threads.retain(|thread| !thread.is_finished());
        };
        shared.stop.store(true, Ordering::Relaxed);
        // In the order in which connections move from one to the other, so that none is missed.
        shared.strangers.end_all();
        shared.sessions.end_all();
        for thread in threads {
            if thread.join().is_err() {
                error!("a session thread panicked");
            }
        }
        result
    }

    /// Sleeps until a socket is readable or the server is stopped.
    fn wait(&self, shared: &Shared) -> io::Result<()> {
        let mut files = vec![PollFd::new(shared.wake.0.as_fd(), PollFlags::POLLIN)];
        for listener in &self.listeners {
            files.push(PollFd::new(listener.tcp.as_fd(), PollFlags::POLLIN));
            files.push(PollFd::new(listener.udp.as_fd(), PollFlags::POLLIN));
        }
        match poll(&mut files, PollTimeout::NONE) {
            Ok(_) | Err(nix::errno::Errno::EINTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

impl Listener {
    /// Accepts a waiting connection, if any, and starts a thread for it if the limits allow one besides
    /// `threads` others.
    fn accept(&self, shared: &Arc<Shared>, threads: usize) -> Option<JoinHandle<()>> {
        let (tcp, peer) = match self.tcp.accept() {
            Ok(accepted) => accepted,
            Err(error) => {
                if matches!(
                    error.raw_os_error(),
                    Some(libc::EMFILE | libc::ENFILE | libc::ENOMEM | libc::ENOBUFS)
                ) {
                    out_of_resources(shared, &error);
                    std::thread::sleep(ACCEPT_PAUSE);
                }
                return None;
            }
        };
        count(&shared.counters.connections);
        let network = Network::of(peer.ip());
        if !shared.newcomers.admit(network, Instant::now()) {
            count(&shared.counters.dropped_too_often);
            return None;
        }
        // Displaced connections take a moment to end; this bounds their number.
        if threads >= shared.limits.sessions + 2 * shared.limits.handshakes {
            count(&shared.counters.dropped_too_many);
            return None;
        }
        let place = match shared.strangers.take(network, &tcp, Instant::now()) {
            Ok(Ok(place)) => place,
            Ok(Err(_)) => {
                count(&shared.counters.dropped_too_many);
                return None;
            }
            Err(error) => {
                out_of_resources(shared, &error);
                return None;
            }
        };
        let accepted = Accepted { tcp, peer, network, place };
        let moved = Arc::clone(shared);
        std::thread::Builder::new()
            .name("session".to_owned())
            .spawn(move || handshake::serve(&moved, accepted))
            .inspect_err(|error| out_of_resources(shared, error))
            .ok()
    }
}

/// Counts a connection for which this host had no file descriptor, memory or thread.
fn out_of_resources(shared: &Shared, error: &io::Error) {
    count(&shared.counters.dropped_out_of_resources);
    if shared.may_log() {
        warn!(%error, "cannot serve a connection");
    }
}

/// Binds all addresses; skips unspecified ones of an IP version that the host lacks,
/// unless none would remain.
fn bind_all(addresses: &[IpAddr], mut port: u16) -> io::Result<Front> {
    let mut listeners = Vec::new();
    let mut missing = None;
    for address in addresses {
        match open(SocketAddr::new(*address, port)) {
            Ok(listener) => {
                port = listener.tcp.local_addr()?.port();
                listeners.push(listener);
            }
            Err(error) if addresses.len() > 1 && address.is_unspecified() && is_family_missing(&error) => {
                warn!(%address, %error, "this host does not have this version of IP");
                missing = Some(error);
            }
            Err(error) => return Err(error),
        }
    }
    if listeners.is_empty() {
        return Err(missing.unwrap_or_else(|| io::ErrorKind::InvalidInput.into()));
    }
    Ok(Front { listeners, port })
}

fn is_family_missing(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EAFNOSUPPORT | libc::EADDRNOTAVAIL))
}

/// Opens TCP and UDP sockets on one address.
fn open(address: SocketAddr) -> io::Result<Listener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    // Without this a restarted server would have to wait until its old connections time out.
    socket.set_reuse_address(true)?;
    if address.is_ipv6() {
        socket.set_only_v6(true)?;
    }
    // Accepted connections inherit these sizes, and the kernel then does not enlarge the
    // buffers automatically.
    socket.set_recv_buffer_size(RECEIVE_BUFFER)?;
    socket.set_send_buffer_size(SEND_BUFFER)?;
    socket.bind(&SockAddr::from(address))?;
    socket.listen(BACKLOG)?;
    socket.set_nonblocking(true)?;
    let tcp = TcpListener::from(socket);
    let udp = HelloSocket::bind(SocketAddr::new(address.ip(), tcp.local_addr()?.port()))?;
    Ok(Listener { tcp, udp })
}
