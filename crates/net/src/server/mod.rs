//! The answering side: `headway serve`.
//!
//! One thread waits for connections and UDP hellos on all addresses; each session has a thread of its own, which
//! sleeps in a read of its control connection until the client wants something. TCP and UDP share one port number.
//! After its address proof a session gets its own UDP socket, bound to the same port and connected to the client,
//! so that the kernel tells the sessions' probes apart and nobody else's datagrams reach them.

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
use newcomers::{Bucket, Newcomers, Pace};
use places::Places;
use proofs::Proofs;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;
use turns::{Allowance, Turns};

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
    newcomers: Newcomers,
    /// Places of connections that have not proved token and address.
    strangers: Places,
    /// Places of those that have, which strangers cannot take.
    sessions: Places,
    proofs: Proofs,
    turns: AllTurns,
    log: Mutex<Bucket>,
    stop: AtomicBool,
    /// Readable once the server is to stop.
    wake: (io::PipeReader, io::PipeWriter),
}

/// Lines about single sessions in the log. Two a second are 40 MB a day; what goes beyond is only counted.
const LOG_LINES: Pace = Pace { burst: 100.0, per_second: 2.0 };

impl Shared {
    /// Whether a line about a single session may be logged; one that may not is counted.
    fn may_log(&self) -> bool {
        let may = self.log.lock().unwrap_or_else(PoisonError::into_inner).take(LOG_LINES, Instant::now());
        if !may {
            count(&self.counters.log_lines_withheld);
        }
        may
    }

    /// Whether the server is to end.
    fn stopping(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}

/// The turns for all that keeps a processor busy.
#[derive(Debug)]
struct AllTurns {
    /// Streams whose packets are so close that a processor does nothing else.
    dense: Turns,
    /// Other streams, which wake up for each packet.
    sparse: Turns,
    /// TLS handshakes.
    tls: Turns,
}

impl AllTurns {
    /// For dense streams half of this host's processors, at least one, and as much for sparse ones: these use
    /// about half of what they are counted as.
    fn for_this_host() -> AllTurns {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        let half = (processors / 2).max(1);
        let most = half as u32 * 1000;
        let all = Allowance { burst: f64::INFINITY, share: half as f64 };
        // A measurement takes up to 0.5 s of a processor in some seconds, with methods other than the default 2 s.
        let network = Allowance { burst: 2.0, share: 0.25 * half as f64 };
        // An RSA signature takes 1 to 6 ms, one with an elliptic curve 0.1 ms.
        let tls =
            Turns::new(1000, Allowance { burst: 0.25, share: 0.05 }, Allowance { burst: 0.25, share: 0.25 });
        AllTurns { dense: Turns::new(most, network, all), sparse: Turns::new(most, network, all), tls }
    }
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

    /// The sessions with a proved address that are open at this moment.
    pub fn open_sessions(&self) -> usize {
        self.shared.sessions.taken()
    }
}
