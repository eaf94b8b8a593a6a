//! What a client wants of a connection.

use crate::auth::Token;
use crate::protocol::{Carrier, DEFAULT_PORT};
use crate::tls::TlsClient;
use socket2::{Domain, Socket, Type};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration as Span;

/// The IP versions a client may use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FamilyChoice {
    /// The first one the resolver returns.
    #[default]
    Any,
    /// IPv4 only.
    V4,
    /// IPv6 only.
    V6,
}

/// What makes the gaps between the packets of a stream that the client sends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Gaps {
    /// A thread that looks at the clock until it is time.
    #[default]
    Spin,
    /// A timer of the kernel, which wakes a sleeping thread.
    Timer,
    /// PAUSE frames between the packets ([`crate::frames`]); needs `CAP_NET_RAW` and a line whose rate is known.
    Pause,
}

/// How packets take one of several paths; by default they go where the routing table sends them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Via {
    /// The address that packets come from, by which rules of routing may choose.
    pub source: Option<IpAddr>,
    /// The interface that packets leave through.
    pub interface: Option<String>,
    /// The mark that packets have, by which rules of routing may choose; needs `CAP_NET_RAW` or `CAP_NET_ADMIN`.
    pub mark: Option<u32>,
}

impl Via {
    /// Checks that this host has a way to an address over the path; sends nothing.
    ///
    /// # Errors
    /// The system's error: without the interface, the source, a route, or the right to mark packets.
    pub fn check(&self, peer: SocketAddr) -> io::Result<()> {
        let socket = Socket::new(Domain::for_address(peer), Type::DGRAM, None)?;
        self.apply(&socket)?;
        if let Some(source) = self.source {
            socket.bind(&SocketAddr::new(source, 0).into())?;
        }
        socket.connect(&peer.into())
    }

    /// Gives a new socket interface and mark; the source is for whoever binds it.
    ///
    /// # Errors
    /// Same as `setsockopt`.
    pub(crate) fn apply(&self, socket: &Socket) -> io::Result<()> {
        if let Some(interface) = &self.interface {
            socket.bind_device(Some(interface.as_bytes()))?;
        }
        self.mark.map_or(Ok(()), |mark| socket.set_mark(mark))
    }
}

/// Options for connecting to a server.
#[derive(Clone, Debug)]
pub struct ConnectOptions {
    /// Name or address.
    pub host: String,
    /// The port for TCP and UDP.
    pub port: u16,
    /// IP versions to use.
    pub family: FamilyChoice,
    /// How packets take the path.
    pub via: Via,
    /// The shared token, if the server requires one.
    pub token: Option<Token>,
    /// The trusted certificates, to encrypt the control connection.
    pub tls: Option<TlsClient>,
    /// What carries trains; [`Carrier::Icmp`] needs `CAP_NET_RAW` on both hosts.
    pub carrier: Carrier,
    /// What makes the gaps between packets; trains leave at once in any case.
    pub gaps: Gaps,
    /// Time limit for each answer of the server.
    pub timeout: Span,
    /// When set, makes every operation fail soon with [`NetError::Interrupted`](crate::NetError::Interrupted), except name resolution.
    pub stop: Option<Arc<AtomicBool>>,
}

impl ConnectOptions {
    /// Returns options with the default port, any IP version, the path of the routing table, no token, no TLS, trains by UDP, gaps by spinning, a timeout of
    /// ten seconds and no stop flag.
    pub fn new(host: impl Into<String>) -> ConnectOptions {
        ConnectOptions {
            host: host.into(),
            port: DEFAULT_PORT,
            family: FamilyChoice::Any,
            via: Via::default(),
            token: None,
            tls: None,
            carrier: Carrier::Udp,
            gaps: Gaps::default(),
            timeout: Span::from_secs(10),
            stop: None,
        }
    }
}
