//! The client's side of the handshake on the control connection.

use super::{ConnectOptions, channel_error, unexpected};
use crate::auth::{Nonces, Prover, random};
use crate::channel::Channel;
use crate::error::NetError;
use crate::protocol::message::HELLO_PADDING;
use crate::protocol::preamble::PREAMBLE_LEN;
use crate::protocol::{Message, NONCE_LEN, Preamble, PreambleError};
use crate::transport::{DeadlineStream, Transport};
use headway_units::Rate;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A session whose UDP address has not been proved yet.
pub(super) struct Opened {
    pub channel: Channel,
    pub session: u64,
    pub max_packets: u32,
    pub reverse_rate: Rate,
    /// The RTT measured with the preambles.
    pub rtt: Duration,
}

/// Performs the handshake, all of it before one deadline.
pub(super) fn open(tcp: TcpStream, peer: SocketAddr, options: &ConnectOptions) -> Result<Opened, NetError> {
    let deadline = Instant::now() + options.timeout;
    let lost = |error| channel_error(error, options.timeout, "handshake");
    let mut stream = DeadlineStream::new(tcp)?;
    stream.set_deadline(deadline);
    if let Some(stop) = &options.stop {
        stream.stop_when(Arc::clone(stop));
    }
    let start = Instant::now();
    let theirs = exchange_preambles(&mut stream, peer, options)?;
    let rtt = start.elapsed();
    let mut channel = Channel::new(encrypt(stream, theirs, options)?);

    let nonce = random::<NONCE_LEN>()?;
    let hello = Message::ClientHello { nonce, padding: vec![0; HELLO_PADDING] };
    channel.send_by(&hello, deadline).map_err(lost)?;
    let server = match channel.receive(deadline).map_err(lost)? {
        // An impostor could claim this to avoid having to prove the token.
        Message::ServerHello { token_required: false, .. } if options.token.is_some() => {
            return Err(NetError::TokenUnknown);
        }
        Message::ServerHello { nonce, .. } => nonce,
        Message::Refused(reason) => return Err(reason.into()),
        other => return Err(unexpected(&other)),
    };
    let nonces = Nonces { server, client: nonce };
    let proof = options.token.as_ref().map(|token| token.proof(Prover::Client, &nonces));
    channel.send_by(&Message::ClientProof { proof }, deadline).map_err(lost)?;
    match channel.receive(deadline).map_err(lost)? {
        Message::Welcome { session, max_packets, reverse_bps, proof } => {
            check_server(options, &nonces, proof)?;
            channel.allow_long_frames();
            Ok(Opened { channel, session, max_packets, reverse_rate: Rate::from_bps(reverse_bps), rtt })
        }
        Message::Refused(reason) => Err(reason.into()),
        other => Err(unexpected(&other)),
    }
}

/// Checks that the server has proved knowledge of the token, if there is one.
fn check_server(options: &ConnectOptions, nonces: &Nonces, proof: Option<[u8; 32]>) -> Result<(), NetError> {
    match (&options.token, proof) {
        (None, _) => Ok(()),
        (Some(token), Some(proof)) if token.verify(Prover::Server, nonces, &proof) => Ok(()),
        _ => Err(NetError::TokenUnknown),
    }
}

/// Sends this side's preamble and reads the server's.
fn exchange_preambles(
    stream: &mut DeadlineStream,
    peer: SocketAddr,
    options: &ConnectOptions,
) -> Result<Preamble, NetError> {
    let lost = |error: io::Error| channel_error(error.into(), options.timeout, "handshake");
    stream.write_all(&Preamble::new(u16::from(options.tls.is_some())).to_bytes()).map_err(lost)?;
    let mut theirs = [0; PREAMBLE_LEN];
    stream.read_exact(&mut theirs).map_err(lost)?;
    Preamble::parse(&theirs).map_err(|error| match error {
        PreambleError::NotHeadway => NetError::NotHeadway { address: peer.to_string() },
        PreambleError::Version { theirs } => NetError::version(theirs),
    })
}

/// Sets up TLS if both sides want it; if only one does, that is an error.
fn encrypt(
    mut stream: DeadlineStream,
    theirs: Preamble,
    options: &ConnectOptions,
) -> Result<Transport, NetError> {
    let tls = match (&options.tls, theirs.tls) {
        (None, 0) => return Ok(Transport::Plain(stream)),
        (None, _) => return Err(NetError::TlsRequired),
        (Some(_), 0) => return Err(NetError::TlsMissing),
        (Some(tls), _) => tls,
    };
    let failed = |error: io::Error| match error.kind() {
        io::ErrorKind::InvalidData => NetError::Tls(error.to_string()),
        _ => channel_error(error.into(), options.timeout, "TLS handshake"),
    };
    stream.write_all(&vec![0; usize::from(theirs.tls)]).map_err(failed)?;
    tls.connect(&options.host, stream).map_err(failed)
}
