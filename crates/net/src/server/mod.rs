//! The server: `headway serve`.
//!
//! One thread waits for connections and UDP hellos on all addresses. Each session has its own thread,
//! which blocks in a read of its control connection until the client sends a request. TCP and UDP share
//! one port number. After its address proof a session gets its own UDP socket, bound to the same port and
//! connected to the client, so that the kernel separates the probes of sessions and keeps everybody else's
//! datagrams away from them.
//!
//! # Safety
//!
//! Sans-IO code in `net::protocol` parses everything a stranger can send; tests feed it random and mutated
//! bytes. Until a client has proved its UDP address with a cookie, the server sends it at most as many bytes
//! as it has received from it. The server never sends ICMP. It receives ICMP only by a raw socket that a
//! session with a proved address has asked for, and only with `CAP_NET_RAW`, which its unit does not have; a
//! filter in the kernel (`net::echo_filter`) keeps all packets from it except Echo Replies of this client
//! with the session's identifier. Three small mechanisms in `net::server` share resources among networks:
//! `places` (a connection that does nothing, or one of the network with the most, gives way to a newcomer),
//! `newcomers` (token buckets for new connections, one of them for networks that come for the first time) and
//! `turns` (the network that has used the least CPU time goes first). Limits bound rate, bytes and time. The
//! command line writes its log through `line_writer`, which never blocks. See `docs/serve.md`; `make hostile`
//! (`crates/net/examples/hostile`) plays all attacks at once, beside honest clients.

mod accepted;
mod front;
mod handshake;
mod hello;
mod network;
mod newcomers;
mod places;
mod proofs;
mod session;
mod streams;
mod turns;

use crate::auth::Token;
use crate::counters::{Counters, Counts, count};
use crate::limits::Limits;
use crate::protocol::DEFAULT_PORT;
use crate::tls::TlsServer;
use front::Front;
use newcomers::{Bucket, BucketSize, Newcomers};
use places::Places;
use proofs::Proofs;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;
use turns::{Allowance, Turns};

/// The configuration of a server.
#[derive(Clone, Debug)]
pub struct ServerConfig {
    /// Addresses to listen on. Of the default two, one whose IP version the host lacks is skipped.
    pub bind: Vec<IpAddr>,
    /// Port for TCP and UDP; 0 chooses a free one.
    pub port: u16,
    /// The token that clients must know, if any.
    pub token: Option<Token>,
    /// Certificate and key, to encrypt the control connection.
    pub tls: Option<TlsServer>,
    /// The limits imposed on clients.
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

/// State shared by all threads of a server.
#[derive(Debug)]
struct Shared {
    token: Option<Token>,
    tls: Option<TlsServer>,
    limits: Limits,
    counters: Counters,
    newcomers: Newcomers,
    /// Places of connections that have not proved token and address.
    strangers: Places,
    /// Places of sessions that have proved both; strangers cannot displace them.
    sessions: Places,
    proofs: Proofs,
    turns: AllTurns,
    log: Mutex<Bucket>,
    stop: AtomicBool,
    /// Becomes readable when the server is to stop.
    wake: (io::PipeReader, io::PipeWriter),
}

/// Limit on log lines about single sessions. Two per second are 40 MB a day; further ones are only counted.
const LOG_LINES: BucketSize = BucketSize { burst: 100.0, per_second: 2.0 };

impl Shared {
    /// Returns whether a line about a single session may be logged, and counts it if not.
    fn may_log(&self) -> bool {
        let may = self.log.lock().unwrap_or_else(PoisonError::into_inner).take(LOG_LINES, Instant::now());
        if !may {
            count(&self.counters.log_lines_withheld);
        }
        may
    }

    /// Whether the server is to stop.
    fn stopping(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}

/// The turns for all work that keeps a processor busy.
#[derive(Debug)]
struct AllTurns {
    /// Streams so dense that a processor can do nothing else.
    dense: Turns,
    /// Other streams, which wake up for each packet.
    sparse: Turns,
    /// TLS handshakes.
    tls: Turns,
}

impl AllTurns {
    /// Allows dense streams half of this host's processors, at least one, and sparse ones as much again: they
    /// use about half of what is charged to them.
    fn for_this_host() -> AllTurns {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        let half = (processors / 2).max(1);
        let most = half as u32 * 1000;
        let all = Allowance { burst: f64::INFINITY, share: half as f64 };
        // A measurement takes up to 0.5 s of CPU time within a few seconds, or 2 s with a method other than
        // the default.
        let network = Allowance { burst: 2.0, share: 0.25 * half as f64 };
        // An RSA signature takes 1 to 6 ms, one with an elliptic curve 0.1 ms.
        let tls =
            Turns::new(1000, Allowance { burst: 0.25, share: 0.05 }, Allowance { burst: 0.25, share: 0.25 });
        AllTurns { dense: Turns::new(most, network, all), sparse: Turns::new(most, network, all), tls }
    }
}

/// A server that listens but answers only in [`Server::run`].
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
    /// When the port is taken or an address does not belong to this host.
    pub fn bind(config: ServerConfig) -> io::Result<Server> {
        let front = Front::bind(&config.bind, config.port)?;
        let now = Instant::now();
        let shared = Arc::new(Shared {
            newcomers: Newcomers::new(now),
            strangers: Places::new(config.limits.handshakes, config.limits.handshakes_per_network, 1),
            sessions: Places::new(config.limits.sessions, config.limits.sessions_per_network, 2),
            proofs: Proofs::default(),
            turns: AllTurns::for_this_host(),
            log: Mutex::new(Bucket::full(LOG_LINES, now)),
            token: config.token,
            tls: config.tls,
            limits: config.limits,
            counters: Counters::default(),
            stop: AtomicBool::new(false),
            wake: io::pipe()?,
        });
        Ok(Server { front, shared })
    }

    /// Returns the port it listens on.
    pub fn port(&self) -> u16 {
        self.front.port()
    }

    /// Returns the addresses it listens on.
    pub fn addresses(&self) -> Vec<IpAddr> {
        self.front.addresses()
    }

    /// Returns a handle for other threads.
    pub fn handle(&self) -> ServerHandle {
        ServerHandle { shared: Arc::clone(&self.shared) }
    }

    /// Serves until [`ServerHandle::stop`], then ends all sessions and returns.
    ///
    /// # Errors
    /// When polling the sockets fails, which no client can cause.
    pub fn run(self) -> io::Result<()> {
        self.front.run(&self.shared)
    }
}

impl ServerHandle {
    /// Asks the server to end all sessions and return from [`Server::run`]. Does not wait for that.
    pub fn stop(&self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        // If the pipe is full, it is readable already.
        let _ = nix::unistd::write(self.shared.wake.1.as_fd(), &[0]);
    }

    /// Returns the current values of the counters.
    pub fn counts(&self) -> Counts {
        self.shared.counters.counts()
    }

    /// Returns the number of open sessions with a proved address.
    pub fn open_sessions(&self) -> usize {
        self.shared.sessions.taken()
    }
}
