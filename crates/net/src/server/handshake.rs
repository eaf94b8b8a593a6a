//! The server's handshake: from an accepted connection to an open session.

use super::accepted::Accepted;
use super::network::Network;
use super::places::Place;
use super::session::{Client, Session};
use super::{Shared, session};
use crate::auth::{Nonces, Prover, random};
use crate::channel::{Channel, ChannelError};
use crate::counters::count;
use crate::limits::{WHOLE_PROCESSOR, Work};
use crate::protocol::preamble::PREAMBLE_LEN;
use crate::protocol::{Message, NONCE_LEN, Preamble, PreambleError, RefusedBy};
use crate::transport::{DeadlineStream, Transport};
use std::io::{self, Read, Write};
use std::time::{Duration, Instant};
use tracing::{debug, info_span};

/// The reason why a connection did not become a session.
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
    #[error("displaced by a client of another network")]
    Displaced,
    #[error(transparent)]
    Channel(#[from] ChannelError),
}

impl From<io::Error> for HandshakeError {
    fn from(error: io::Error) -> HandshakeError {
        ChannelError::from(error).into()
    }
}

/// Time limit for a client's first bytes, before which it has nothing to wait for.
const FIRST_BYTES: Duration = Duration::from_secs(3);

/// For so long each step of the handshake keeps a connection's place from newcomers: one round trip and some
/// processing time. Connections that send nothing give way before.
const WORTH_OF_STEP: Duration = Duration::from_secs(1);

/// Whose handshake it is.
struct Newcomer<'a> {
    network: Network,
    place: &'a Place,
}

impl Newcomer<'_> {
    /// Notes a valid step of the handshake.
    fn advanced(&self) {
        self.place.did(WORTH_OF_STEP, Instant::now());
    }
}

/// Serves one connection to its end.
pub(super) fn serve(shared: &Shared, accepted: Accepted) {
    let _span = info_span!("session", peer = %accepted.peer).entered();
    let error = match open(shared, accepted) {
        Ok(session) => return session::run(session),
        Err(error) => error,
    };
    debug!(%error, "handshake failed");
    match error {
        HandshakeError::Refused(reason) => count(shared.counters.refused(reason)),
        HandshakeError::Displaced => count(&shared.counters.handshakes_displaced),
        HandshakeError::Channel(ChannelError::Timeout) => count(&shared.counters.handshakes_late),
        HandshakeError::Unexpected(_) | HandshakeError::Channel(ChannelError::Frame(_)) => {
            count(&shared.counters.handshakes_failed);
            count(&shared.counters.messages_malformed);
        }
        _ => count(&shared.counters.handshakes_failed),
    }
}

/// Performs the handshake, all of it before one deadline.
///
/// At every point the client has sent more bytes than the server, see [`Message::ClientHello`].
fn open(shared: &Shared, accepted: Accepted) -> Result<Session<'_>, HandshakeError> {
    let Accepted { tcp, peer, network, place } = accepted;
    let deadline = Instant::now() + shared.limits.handshake;
    let local = tcp.local_addr()?;
    let stream = DeadlineStream::new(tcp)?;
    let opened = agree(shared, stream, &Newcomer { network, place: &place }, deadline);
    // To its thread a displaced connection looks closed, but the client has not closed it.
    let (channel, proof) =
        if place.is_lost() { opened.map_err(|_| HandshakeError::Displaced)? } else { opened? };
    let id = shared.proofs.begin(peer.ip())?;
    Ok(Session::new(shared, channel, Client { id, local, network, place }, proof))
}

/// Exchanges messages until the client's token is checked; also returns the server's own proof of the token.
fn agree(
    shared: &Shared,
    mut stream: DeadlineStream,
    newcomer: &Newcomer<'_>,
    deadline: Instant,
) -> Result<(Channel, Option<[u8; 32]>), HandshakeError> {
    stream.set_deadline(deadline.min(Instant::now() + FIRST_BYTES));
    let theirs = read_preamble(&mut stream)?;
    newcomer.advanced();
    stream.set_deadline(deadline);
    let mut channel = Channel::new(greet(shared, stream, theirs, newcomer.network, deadline)?);

    let client = match channel.receive(deadline)? {
        Message::ClientHello { nonce, padding }
            if padding.len() >= crate::protocol::message::HELLO_PADDING =>
        {
            nonce
        }
        other => return Err(HandshakeError::Unexpected(other.name())),
    };
    newcomer.advanced();
    let nonces = Nonces { server: random::<NONCE_LEN>()?, client };
    let hello = Message::ServerHello { nonce: nonces.server, token_required: shared.token.is_some() };
    channel.send_by(&hello, deadline)?;
    let proof = match channel.receive(deadline)? {
        Message::ClientProof { proof } => proof,
        other => return Err(HandshakeError::Unexpected(other.name())),
    };
    if let Err(reason) = check_token(shared, &nonces, proof) {
        channel.send_by(&Message::Refused(reason), deadline)?;
        return Err(HandshakeError::Refused(reason));
    }
    newcomer.advanced();
    channel.allow_long_frames();
    // If there is a token, a client gets here only after proving it.
    Ok((channel, shared.token.as_ref().map(|token| token.proof(Prover::Server, &nonces))))
}

/// Reads the client's preamble, whatever its version.
fn read_preamble(stream: &mut DeadlineStream) -> Result<Result<Preamble, PreambleError>, HandshakeError> {
    let mut theirs = [0; PREAMBLE_LEN];
    stream.read_exact(&mut theirs)?;
    match Preamble::parse(&theirs) {
        Err(PreambleError::NotHeadway) => Err(PreambleError::NotHeadway.into()),
        other => Ok(other),
    }
}

/// Answers the preamble and sets up TLS if configured.
fn greet(
    shared: &Shared,
    mut stream: DeadlineStream,
    theirs: Result<Preamble, PreambleError>,
    network: Network,
    deadline: Instant,
) -> Result<Transport, HandshakeError> {
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
    let turn = |stream: &DeadlineStream| {
        let timeout = deadline.saturating_duration_since(Instant::now());
        let work = Work { share: WHOLE_PROCESSOR, time: Duration::ZERO };
        shared
            .turns
            .tls
            .take(network, work, timeout, || shared.stopping() || stream.is_closed())
            .ok_or_else(|| io::ErrorKind::WouldBlock.into())
    };
    Ok(tls.accept(stream, turn)?)
}

/// Checks the client's proof of the token, if the server has one.
fn check_token(shared: &Shared, nonces: &Nonces, proof: Option<[u8; 32]>) -> Result<(), RefusedBy> {
    let Some(token) = &shared.token else {
        return Ok(());
    };
    let proof = proof.ok_or(RefusedBy::TokenRequired)?;
    if token.verify(Prover::Client, nonces, &proof) { Ok(()) } else { Err(RefusedBy::WrongToken) }
}
