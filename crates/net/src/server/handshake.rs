//! From an accepted connection to an open session.

use super::registry::Slot;
use super::session::Session;
use super::{Shared, session};
use crate::auth::{Nonces, Prover, random};
use crate::channel::{Channel, ChannelError};
use crate::counters::count;
use crate::protocol::preamble::PREAMBLE_LEN;
use crate::protocol::{Message, NONCE_LEN, Preamble, PreambleError, RefusedBy};
use crate::transport::{DeadlineStream, Transport};
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::Ordering;
use std::time::Instant;
use tracing::{debug, info, info_span};

/// Why a connection did not become a session.
#[derive(Debug, thiserror::Error)]
enum HandshakeError {
    #[error(transparent)]
    Preamble(#[from] PreambleError),
    #[error("the client does not use TLS")]
    NoTls,
    #[error("unexpected {0}")]
    Unexpected(&'static str),
    #[error("refused: {0}")]
    Refused(RefusedBy),
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error(transparent)]
    Channel(#[from] ChannelError),
}

/// Serves one connection to its end.
pub(super) fn serve(shared: &Shared, tcp: TcpStream, peer: SocketAddr, handshake: Slot) {
    let _span = info_span!("session", %peer).entered();
    let Ok(_noted) = shared.registry.note_connection(&tcp) else {
        return;
    };
    // Stopping may have closed the noted connections just before this one was noted.
    if shared.stop.load(Ordering::Relaxed) {
        return;
    }
    let opened = open(shared, tcp, peer);
    drop(handshake);
    match opened {
        Ok((session, slot)) => {
            count(&shared.counters.sessions);
            info!("session opened");
            session::run(session);
            drop(slot);
        }
        Err(HandshakeError::Refused(reason)) => {
            count(&shared.counters.sessions_refused);
            info!(%reason, "session refused");
        }
        Err(error) => {
            count(&shared.counters.handshakes_failed);
            if matches!(
                error,
                HandshakeError::Unexpected(_) | HandshakeError::Channel(ChannelError::Frame(_))
            ) {
                count(&shared.counters.messages_malformed);
            }
            debug!(%error, "handshake failed");
        }
    }
}

/// Goes through the handshake, all of it before one deadline.
///
/// At every point the client has sent more bytes than the server: see [`Message::ClientHello`].
fn open(shared: &Shared, tcp: TcpStream, peer: SocketAddr) -> Result<(Session<'_>, Slot), HandshakeError> {
    let deadline = Instant::now() + shared.limits.handshake;
    let local = tcp.local_addr()?;
    let mut stream = DeadlineStream::new(tcp)?;
    stream.set_deadline(deadline);
    let mut channel = Channel::new(greet(shared, stream)?);

    let client = match channel.receive(deadline)? {
        Message::ClientHello { nonce, padding }
            if padding.len() >= crate::protocol::message::HELLO_PADDING =>
        {
            nonce
        }
        other => return Err(HandshakeError::Unexpected(other.name())),
    };
    let nonces = Nonces { server: random::<NONCE_LEN>()?, client };
    let hello = Message::ServerHello { nonce: nonces.server, token_required: shared.token.is_some() };
    channel.send_by(&hello, deadline)?;
    let proof = match channel.receive(deadline)? {
        Message::ClientProof { proof } => proof,
        other => return Err(HandshakeError::Unexpected(other.name())),
    };
    let admitted =
        check_token(shared, &nonces, proof).and_then(|()| shared.registry.begin_session(peer.ip()));
    let slot = match admitted {
        Ok(slot) => slot,
        Err(reason) => {
            channel.send_by(&Message::Refused(reason), deadline)?;
            return Err(HandshakeError::Refused(reason));
        }
    };
    channel.allow_long_frames();
    let id = shared.registry.await_proof(peer.ip())?;
    // Only a client that has proved to know the token gets here with one set.
    let proof = shared.token.as_ref().map(|token| token.proof(Prover::Server, &nonces));
    let session = Session::new(shared, channel, id, local, proof);
    Ok((session, slot))
}

/// Exchanges preambles and, if configured, sets up TLS.
fn greet(shared: &Shared, mut stream: DeadlineStream) -> Result<Transport, HandshakeError> {
    let mut theirs = [0; PREAMBLE_LEN];
    stream.read_exact(&mut theirs)?;
    let theirs = Preamble::parse(&theirs);
    if theirs == Err(PreambleError::NotHeadway) {
        return Err(PreambleError::NotHeadway.into());
    }
    let padding = shared.tls.as_ref().map_or(0, |tls| tls.padding());
    stream.write_all(&Preamble::new(padding).to_bytes())?;
    let theirs = theirs?;
    let Some(tls) = &shared.tls else {
        return Ok(Transport::Plain(stream));
    };
    if theirs.tls == 0 {
        return Err(HandshakeError::NoTls);
    }
    let padded = io::copy(&mut (&mut stream).take(u64::from(padding)), &mut io::sink())?;
    if padded < u64::from(padding) {
        return Err(HandshakeError::NoTls);
    }
    Ok(tls.accept(stream)?)
}

/// Whether the client may have a session as far as the token is concerned.
fn check_token(shared: &Shared, nonces: &Nonces, proof: Option<[u8; 32]>) -> Result<(), RefusedBy> {
    let Some(token) = &shared.token else {
        return Ok(());
    };
    let proof = proof.ok_or(RefusedBy::TokenRequired)?;
    if token.verify(Prover::Client, nonces, &proof) { Ok(()) } else { Err(RefusedBy::WrongToken) }
}
