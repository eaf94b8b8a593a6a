//! The errors between a client and its server.

use crate::protocol::{RefusedBy, VERSION};
use std::io;
use std::time::Duration;

/// The reason why opening a session or running a stream failed; each message says what
/// happened and what to do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NetError {
    /// The server's host name cannot be resolved.
    #[error("the host `{host}` is not known ({reason}); check its spelling and the name service")]
    UnknownHost {
        /// The requested name.
        host: String,
        /// The error from the resolver.
        reason: String,
    },
    /// The name has no address of the requested IP version.
    #[error("the host `{host}` has no address of the wanted IP version; leave out -4 or -6")]
    NoAddress {
        /// The requested name.
        host: String,
    },
    /// No connection can be established.
    #[error(
        "{address} cannot be reached ({reason}); check that `headway serve` runs there and its TCP port is open"
    )]
    Unreachable {
        /// Address and port.
        address: String,
        /// The error from the system.
        reason: io::Error,
    },
    /// No connection can be established to any of several addresses.
    #[error(
        "{host} cannot be reached: {tried}; check that `headway serve` runs there and its TCP port is open"
    )]
    NoneReachable {
        /// The requested name.
        host: String,
        /// Each address and port, with the error from the system.
        tried: String,
    },
    /// Something other than Headway answered.
    #[error("{address} is not a Headway server; check host and port")]
    NotHeadway {
        /// Address and port.
        address: String,
    },
    /// Client and server have different protocol versions.
    #[error(
        "the server speaks protocol version {theirs} and this client version {ours}; install the same release"
    )]
    VersionMismatch {
        /// The server's version.
        theirs: u16,
        /// This side's version.
        ours: u16,
    },
    /// The server requires TLS and the client does not use it.
    #[error("the server requires TLS; give --tls-ca FILE or --tls-fingerprint HEX")]
    TlsRequired,
    /// The client requires TLS and the server does not offer it.
    #[error(
        "the server has no TLS; start it with --tls-cert and --tls-key, or leave out --tls-ca and --tls-fingerprint here"
    )]
    TlsMissing,
    /// The TLS handshake failed.
    #[error("TLS failed ({0}); check the server's certificate and what this client trusts")]
    Tls(String),
    /// The server requires a token.
    #[error("the server requires a token; give the one it was started with by --token-file")]
    TokenRequired,
    /// The token differs from the server's.
    #[error("the token is wrong; give the one the server was started with by --token-file")]
    WrongToken,
    /// The server has not proved knowledge of the token.
    #[error("the server does not know the token; start it with the same --token-file, or give no token here")]
    TokenUnknown,
    /// The server may not open raw sockets.
    #[error(
        "the server may not open raw sockets, which ICMP needs; give `headway serve` the capability CAP_NET_RAW, or use --carrier udp"
    )]
    ServerRawSocket,
    /// This program may not open raw sockets.
    #[error(
        "this program may not open raw sockets, which ICMP needs; run it as root or with the capability CAP_NET_RAW, or use --carrier udp"
    )]
    RawSocket,
    /// This program may not send frames.
    #[error(
        "this program may not send frames, which gaps by PAUSE frames need; run it as root or with the capability CAP_NET_RAW, or use --gaps spin"
    )]
    FrameSocket,
    /// PAUSE frames cannot fill gaps here.
    #[error("PAUSE frames cannot fill gaps {0}; or use --gaps spin")]
    Frames(String),
    /// The server refused because of one of its limits.
    #[error("the server refused because {0}; ask for less, try later, or have its limits raised")]
    Refused(RefusedBy),
    /// No UDP datagram reaches the server.
    #[error("UDP does not reach the server; open its UDP port {port} in the firewalls on the way")]
    UdpBlockedForward {
        /// The server's port.
        port: u16,
    },
    /// UDP datagrams reach the server, but its answers do not come back.
    #[error(
        "UDP reaches the server but its answers do not come back; allow UDP from its port {port} to this host"
    )]
    UdpBlockedReverse {
        /// The server's port.
        port: u16,
    },
    /// UDP arrives at the server from a different address than TCP.
    #[error(
        "UDP arrives at the server from a different address than TCP, so it does not answer; route both the same way"
    )]
    UdpOtherAddress,
    /// Small packets pass, but none of a useful size.
    #[error("no packet of {smallest} bytes or more passes although small ones do; check the MTU on the path")]
    MtuTooSmall {
        /// The smallest size tried, in bytes of the IP packet.
        smallest: u16,
    },
    /// The connection ended.
    #[error("the connection to the server was lost ({0}); check that it still runs and connect again")]
    ConnectionLost(String),
    /// The server did not answer in time.
    #[error("the server did not answer within {0:?} ({1}); check the path, or allow more time")]
    Timeout(Duration, &'static str),
    /// The server sent an invalid message.
    #[error("the server broke the protocol ({0}); install the same release on both sides")]
    Protocol(String),
    /// The requested stream cannot be sent.
    #[error("the stream cannot be sent because {0}; ask for another rate, length or packet size")]
    BadStream(&'static str),
    /// The operating system of this host refused an operation.
    #[error(
        "this host refused a network operation ({0}); check its network, its limits and this program's rights"
    )]
    System(#[from] io::Error),
    /// The flag in [`crate::ConnectOptions::stop`] was set.
    #[error("interrupted; run it again to measure")]
    Interrupted,
}

impl NetError {
    /// Returns the error for two different versions.
    pub(crate) fn version(theirs: u16) -> NetError {
        NetError::VersionMismatch { theirs, ours: VERSION }
    }
}

impl From<RefusedBy> for NetError {
    fn from(reason: RefusedBy) -> NetError {
        match reason {
            RefusedBy::TokenRequired => NetError::TokenRequired,
            RefusedBy::WrongToken => NetError::WrongToken,
            RefusedBy::RawSocket => NetError::ServerRawSocket,
            other => NetError::Refused(other),
        }
    }
}
