//! The thread that accepts connections and answers UDP hellos.

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
use tracing::{debug, error, warn};

/// Connections waiting to be accepted.
const BACKLOG: i32 = 128;

/// Tries to find a port that is free for TCP and UDP on all addresses.
const PORT_TRIES: u32 = 16;

/// Pause after accepting failed for want of files or memory, which would otherwise be tried again at once for ever.
const ACCEPT_PAUSE: std::time::Duration = std::time::Duration::from_millis(50);

/// The listening sockets of one address.
#[derive(Debug)]
struct Door {
    tcp: TcpListener,
    udp: HelloSocket,
}

/// All listening sockets.
#[derive(Debug)]
pub(super) struct Front {
    doors: Vec<Door>,
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
        self.doors.iter().filter_map(|door| door.tcp.local_addr().ok()).map(|address| address.ip()).collect()
    }

    /// Serves until stopped, then ends and joins all sessions.
    pub(super) fn run(&self, shared: &Arc<Shared>) -> io::Result<()> {
        let mut threads: Vec<JoinHandle<()>> = Vec::new();
        let result = loop {
            if shared.stop.load(Ordering::Relaxed) {
                break Ok(());
            }
            if let Err(error) = self.wait(shared) {
                break Err(error);
            }
            for door in &self.doors {
                door.udp.answer(shared);
                threads.extend(door.accept(shared));
            }
            threads.retain(|thread| !thread.is_finished());
        };
        shared.stop.store(true, Ordering::Relaxed);
        shared.registry.end_connections();
        for thread in threads {
            if thread.join().is_err() {
                error!("a session thread panicked");
            }
        }
        result
    }

    /// Sleeps until there is something to do.
    fn wait(&self, shared: &Shared) -> io::Result<()> {
        let mut files = vec![PollFd::new(shared.wake.0.as_fd(), PollFlags::POLLIN)];
        for door in &self.doors {
            files.push(PollFd::new(door.tcp.as_fd(), PollFlags::POLLIN));
            files.push(PollFd::new(door.udp.as_fd(), PollFlags::POLLIN));
        }
        match poll(&mut files, PollTimeout::NONE) {
            Ok(_) | Err(nix::errno::Errno::EINTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

impl Door {
    /// Starts a thread for a waiting connection, if there is one and the limits allow it.
    fn accept(&self, shared: &Arc<Shared>) -> Option<JoinHandle<()>> {
        let (tcp, peer) = match self.tcp.accept() {
            Ok(accepted) => accepted,
            Err(error) => {
                if matches!(
                    error.raw_os_error(),
                    Some(libc::EMFILE | libc::ENFILE | libc::ENOMEM | libc::ENOBUFS)
                ) {
                    warn!(%error, "cannot accept connections");
                    std::thread::sleep(ACCEPT_PAUSE);
                }
                return None;
            }
        };
        count(&shared.counters.connections);
        let Some(slot) = shared.registry.begin_handshake(peer.ip()) else {
            count(&shared.counters.connections_dropped);
            debug!(%peer, "too many handshakes, connection dropped");
            return None;
        };
        let shared = Arc::clone(shared);
        std::thread::Builder::new()
            .name("session".to_owned())
            .spawn(move || handshake::serve(&shared, tcp, peer, slot))
            .inspect_err(|error| warn!(%error, "cannot start a session thread"))
            .ok()
    }
}

/// Binds all addresses; of several unspecified ones, those the host lacks are left out.
fn bind_all(addresses: &[IpAddr], mut port: u16) -> io::Result<Front> {
    let mut doors = Vec::new();
    let mut missing = None;
    for address in addresses {
        match open(SocketAddr::new(*address, port)) {
            Ok(door) => {
                port = door.tcp.local_addr()?.port();
                doors.push(door);
            }
            Err(error) if addresses.len() > 1 && address.is_unspecified() && is_family_missing(&error) => {
                warn!(%address, %error, "this host does not have this version of IP");
                missing = Some(error);
            }
            Err(error) => return Err(error),
        }
    }
    if doors.is_empty() {
        return Err(missing.unwrap_or_else(|| io::ErrorKind::InvalidInput.into()));
    }
    Ok(Front { doors, port })
}

fn is_family_missing(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EAFNOSUPPORT | libc::EADDRNOTAVAIL))
}

/// Opens TCP and UDP on one address.
fn open(address: SocketAddr) -> io::Result<Door> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    // Without it a restarted server would have to wait for its old connections to time out.
    socket.set_reuse_address(true)?;
    if address.is_ipv6() {
        socket.set_only_v6(true)?;
    }
    socket.bind(&SockAddr::from(address))?;
    socket.listen(BACKLOG)?;
    socket.set_nonblocking(true)?;
    let tcp = TcpListener::from(socket);
    let udp = HelloSocket::bind(SocketAddr::new(address.ip(), tcp.local_addr()?.port()))?;
    Ok(Door { tcp, udp })
}
