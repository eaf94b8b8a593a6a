//! The answering side: `headway serve`.
//!
//! One thread waits for connections and UDP hellos on all addresses; each session has a thread of its own, which
//! sleeps in a read of its control connection until the client wants something. TCP and UDP share one port number.
//! After its address proof a session gets its own UDP socket, bound to the same port and connected to the client,
//! so that the kernel tells the sessions' probes apart and nobody else's datagrams reach them.

mod front;
mod handshake;
mod hello;
mod registry;
mod session;
mod streams;
mod turns;

use crate::auth::Token;
use crate::counters::{Counters, Counts};
use crate::limits::Limits;
use crate::protocol::DEFAULT_PORT;
use crate::tls::TlsServer;
use front::Front;
use registry::Registry;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use turns::Turns;

/// What a server is to do.
#[derive(Clone, Debug)]
pub struct ServerConfig {
    /// Addresses to listen on; with the default two, one that the host does not have is left out.
    pub bind: Vec<IpAddr>,
    /// Port for TCP and UDP; 0 chooses a free one.
    pub port: u16,
    /// The token that clients must know, if any.
    pub token: Option<Token>,
    /// Certificate and key, if the control connection is to be encrypted.
    pub tls: Option<TlsServer>,
    /// What clients may do at most.
    pub limits: Limits,
}

impl Default for ServerConfig {
    fn default() -> ServerConfig {
        ServerConfig {
            bind: vec![IpAddr::V4(Ipv4Addr::UNSPECIFIED), IpAddr::V6(Ipv6Addr::UNSPECIFIED)],
            port: DEFAULT_PORT,
            token: None,
            tls: None,
            limits: Limits::default(),
        }
    }
}

/// What all threads of a server share.
#[derive(Debug)]
struct Shared {
    token: Option<Token>,
    tls: Option<TlsServer>,
    limits: Limits,
    counters: Counters,
    registry: Registry,
    turns: Turns,
    stop: AtomicBool,
    /// Readable once the server is to stop.
    wake: (io::PipeReader, io::PipeWriter),
}

/// A server that listens but does not answer before [`Server::run`].
#[derive(Debug)]
pub struct Server {
    front: Front,
    shared: Arc<Shared>,
}

/// Stops a server and reads its counters, from any thread.
#[derive(Clone, Debug)]
pub struct ServerHandle {
    shared: Arc<Shared>,
}

impl Server {
    /// Opens the listening sockets.
    ///
    /// # Errors
    /// When the port is taken or an address is not the host's.
    pub fn bind(config: ServerConfig) -> io::Result<Server> {
        let front = Front::bind(&config.bind, config.port)?;
        let shared = Arc::new(Shared {
            registry: Registry::new(&config.limits),
            turns: Turns::for_this_host(),
            token: config.token,
            tls: config.tls,
            limits: config.limits,
            counters: Counters::default(),
            stop: AtomicBool::new(false),
            wake: io::pipe()?,
        });
        Ok(Server { front, shared })
    }

    /// The port it listens on.
    pub fn port(&self) -> u16 {
        self.front.port()
    }

    /// The addresses it listens on.
    pub fn addresses(&self) -> Vec<IpAddr> {
        self.front.addresses()
    }

    /// A handle for other threads.
    pub fn handle(&self) -> ServerHandle {
        ServerHandle { shared: Arc::clone(&self.shared) }
    }

    /// Serves until [`ServerHandle::stop`], then ends all sessions and returns.
    ///
    /// # Errors
    /// When waiting for the sockets fails, which does not happen for anything a client does.
    pub fn run(self) -> io::Result<()> {
        self.front.run(&self.shared)
    }
}

impl ServerHandle {
    /// Asks the server to end all sessions and return from [`Server::run`]. Returns at once.
    pub fn stop(&self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        // A full pipe is as good as a written one.
        let _ = nix::unistd::write(self.shared.wake.1.as_fd(), &[0]);
    }

    /// The counters at this moment.
    pub fn counts(&self) -> Counts {
        self.shared.counters.counts()
    }

    /// The sessions open at this moment.
    pub fn open_sessions(&self) -> usize {
        self.shared.registry.open_sessions()
    }
}
