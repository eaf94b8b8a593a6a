//! What a client wants of a connection.

use crate::auth::Token;
use crate::protocol::{Carrier, DEFAULT_PORT};
use crate::socket::force_buffers;
use crate::tls::TlsClient;
use socket2::{Domain, Protocol, Socket, Type};
use std::fmt::Debug;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;
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
    /// PAUSE frames between the packets ([`crate::frames`]); needs `CAP_NET_RAW` and a line
    /// whose rate is known.
    Pause,
}

/// How packets take one of several paths; by default they go where the routing table sends them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Via {
    /// The address that packets come from, by which rules of routing may choose.
    pub source: Option<IpAddr>,
    /// The interface that packets leave through.
    pub interface: Option<String>,
    /// The mark that packets have, by which rules of routing may choose; needs
    /// `CAP_NET_RAW` or `CAP_NET_ADMIN`.
    pub mark: Option<u32>,
}

impl Via {
    /// Opens a socket of this version of IP, for TCP or UDP, whose packets take the path; the source is
    /// for whoever binds it.
    ///
    /// # Errors
    /// The system's error: without the interface, or the right to mark packets.
    pub fn open(&self, is_v6: bool, is_tcp: bool) -> io::Result<OwnedFd> {
        let domain = if is_v6 { Domain::IPV6 } else { Domain::IPV4 };
        let (kind, protocol) =
            if is_tcp { (Type::STREAM, Protocol::TCP) } else { (Type::DGRAM, Protocol::UDP) };
        let socket = Socket::new(domain, kind, Some(protocol))?;
        if let Some(interface) = &self.interface {
            socket.bind_device(Some(interface.as_bytes()))?;
        }
        if let Some(mark) = self.mark {
            socket.set_mark(mark)?;
        }
        if !is_tcp {
            // Its user may lack the right to do that.
            force_buffers(&socket);
        }
        Ok(socket.into())
    }

    /// Checks that this host has a way to an address over the path, by a socket for UDP of the
    /// path; sends nothing.
    ///
    /// # Errors
    /// The system's error: without the source, or a route.
    pub fn check(&self, socket: OwnedFd, peer: SocketAddr) -> io::Result<()> {
        let socket = Socket::from(socket);
        if let Some(source) = self.source {
            socket.bind(&SocketAddr::new(source, 0).into())?;
        }
        socket.connect(&peer.into())
    }
}

/// Opens sockets in place of a process that may not do so itself.
pub trait Sockets: Debug + Send + Sync {
    /// Does what [`Via::open`] does.
    ///
    /// # Errors
    /// The system's error.
    fn open(&self, is_v6: bool, is_tcp: bool) -> io::Result<OwnedFd>;
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
    /// Who opens the sockets of the path, if this process does not.
    pub sockets: Option<Arc<dyn Sockets>>,
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
    /// When set, makes every operation fail soon with
    /// [`NetError::Interrupted`](crate::NetError::Interrupted), except name resolution.
    pub stop: Option<Arc<AtomicBool>>,
}

impl ConnectOptions {
    /// Opens a socket for an address, whose packets take the path.
    ///
    /// # Errors
    /// The system's error.
    pub(super) fn open(&self, address: SocketAddr, is_tcp: bool) -> io::Result<Socket> {
        let is_v6 = address.is_ipv6();
        let opened = match &self.sockets {
            Some(sockets) => sockets.open(is_v6, is_tcp),
            None => self.via.open(is_v6, is_tcp),
        };
        Ok(opened?.into())
    }

    /// Returns options with the default port, any IP version, the path of the routing table, no token, no
    /// TLS, trains by UDP, gaps by spinning, a timeout of ten seconds and no stop flag.
    pub fn new(host: impl Into<String>) -> ConnectOptions {
        ConnectOptions {
            host: host.into(),
            port: DEFAULT_PORT,
            family: FamilyChoice::Any,
            via: Via::default(),
            sockets: None,
            token: None,
            tls: None,
            carrier: Carrier::Udp,
            gaps: Gaps::default(),
            timeout: Span::from_secs(10),
            stop: None,
        }
    }
}
