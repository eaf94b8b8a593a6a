//! The edge at the other end of the link, over UDP.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::time::{Duration as Span, Instant as Clock};

use anyhow::{Context as _, Result};
use headway_edge::{Peer, TOLD};
use headway_net::{SEALED, Sealed, Token};
use headway_units::Instant;

/// Time between two messages.
const EVERY: Span = Span::from_secs(1);
/// Most datagrams that are read at a time, ten times a second: each costs some us, whoever sends it.
const MOST: usize = 16;

/// The socket, and whether the other edge is heard.
pub(super) struct PeerSocket {
    socket: UdpSocket,
    sealed: Sealed,
    told: Option<Clock>,
    /// None before anything was heard.
    is_heard: Option<bool>,
}

impl PeerSocket {
    /// Opens it, at the port that the other edge has, too. The kernel drops what others send.
    pub(super) fn open(peer: SocketAddr, key: Token) -> Result<PeerSocket> {
        let any = if peer.is_ipv6() { Ipv6Addr::UNSPECIFIED.into() } else { Ipv4Addr::UNSPECIFIED.into() };
        let cannot = || format!("cannot hear the other edge at UDP port {}", peer.port());
        let socket = UdpSocket::bind(SocketAddr::new(any, peer.port())).with_context(cannot)?;
        socket.connect(peer).with_context(cannot)?;
        socket.set_nonblocking(true)?;
        let sealed = Sealed::new(key).context("there are no random numbers")?;
        Ok(PeerSocket { socket, sealed, told: None, is_heard: None })
    }

    /// Takes what has come since, and tells the other edge what is due.
    pub(super) fn talk(&mut self, now: Instant, peer: &mut Peer) {
        // One byte more, so that a longer one shows.
        let mut datagram = [0; TOLD + SEALED + 1];
        for _ in 0..MOST {
            match self.socket.recv(&mut datagram) {
                Ok(length) => {
                    let told = self.sealed.open(now, &datagram[..length]);
                    told.and_then(|told| told.try_into().ok())
                        .into_iter()
                        .for_each(|told| peer.hear(now, told));
                }
                // Nobody listens there, which the next message may change.
                Err(error) if error.kind() == std::io::ErrorKind::ConnectionRefused => {}
                Err(_) => break,
            }
        }
        if self.told.is_none_or(|told| told.elapsed() >= EVERY) {
            self.told = Some(Clock::now());
            // One that is lost is followed by the next.
            let _ = self.socket.send(&self.sealed.seal(&peer.message()));
        }
        let is_heard = peer.is_heard(now);
        match (self.is_heard, is_heard) {
            (Some(true), false) => {
                tracing::warn!("the other edge is not heard any more; each has the whole link")
            }
            (Some(false), true) => tracing::warn!("the other edge is heard again"),
            _ => {}
        }
        if is_heard || self.is_heard.is_some() {
            self.is_heard = Some(is_heard);
        }
    }
}
