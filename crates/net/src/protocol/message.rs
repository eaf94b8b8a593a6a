//! The messages on the control connection.
//!
//! ```text
//! client                            server
//!   ClientHello       ->
//!                     <-  ServerHello
//!   ClientProof       ->
//!                     <-  Welcome
//!   (UDP hello)       ->
//!                     <-  (UDP cookie)
//!   Cookie            ->
//!                     <-  AddressProved
//! then, in any order and number, asked by the client:
//!   Ping                  -> Pong
//!   Hellos                -> HellosSeen
//!   SizeTest              -> SizeReady, then Size datagrams both ways, SizeEnd -> SizeReport
//!   Announce (forward)    -> Ready, then probes to the server, End -> Report
//!   Announce (reverse)    -> Ready, then probes to the client, then Sent from the server
//! ```
//! At any point the server may answer `Refused`, which ends the request. Before `AddressProved` the server
//! accepts only a few messages, and none whose answer would make it send more bytes than it has received.

use super::{COOKIE_LEN, GapRuns, HopRuns, NONCE_LEN, TimeList};
pub use headway_units::Direction;
use serde::{Deserialize, Serialize};

/// A message on the control connection.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Message {
    /// The client's first message. Padding makes it longer than the answer.
    ClientHello {
        /// Fresh random bytes.
        nonce: [u8; NONCE_LEN],
        /// Meaningless bytes, see [`HELLO_PADDING`].
        padding: Vec<u8>,
    },
    /// The server's answer.
    ServerHello {
        /// Fresh random bytes.
        nonce: [u8; NONCE_LEN],
        /// Whether the server requires a proof of the shared token.
        token_required: bool,
    },
    /// The client's proof of the shared token, or none.
    ClientProof {
        /// HMAC-SHA-256 over both nonces, keyed with the token.
        proof: Option<[u8; 32]>,
    },
    /// The session is open.
    Welcome {
        /// The random number that every datagram of the session carries.
        session: u64,
        /// Most packets in one stream.
        max_packets: u32,
        /// Fastest stream that the server sends, in bits per second on the wire.
        reverse_bps: u64,
        /// The server's proof in return: HMAC-SHA-256 over both nonces, keyed with the token.
        proof: Option<[u8; 32]>,
    },
    /// The server refuses a request.
    Refused(RefusedBy),
    /// The cookie received over UDP.
    Cookie([u8; COOKIE_LEN]),
    /// The client's UDP address is proved; streams may start.
    AddressProved,
    /// Asks how many UDP hellos of this session have arrived.
    Hellos,
    /// Answers [`Message::Hellos`].
    HellosSeen {
        /// Hellos from the address of the control connection.
        seen: u32,
        /// Hellos from other addresses, which were not answered.
        elsewhere: u32,
    },
    /// Asks for a [`Message::Pong`].
    Ping {
        /// Returned in the answer.
        number: u32,
    },
    /// Answers [`Message::Ping`].
    Pong {
        /// The number of the ping.
        number: u32,
    },
    /// Asks which packet sizes pass.
    SizeTest {
        /// Lengths of IP packets in bytes, largest first.
        sizes: Vec<u16>,
    },
    /// The server listens for size probes.
    SizeReady,
    /// The client has sent its size probes.
    SizeEnd {
        /// Time to wait for late packets, in ns.
        grace_ns: u64,
    },
    /// The server's result; its own size probes were sent before.
    SizeReport {
        /// The sizes that arrived at the server.
        arrived: Vec<u16>,
    },
    /// Requests a stream.
    Announce(Announce),
    /// The server is ready for the stream.
    Ready {
        /// Number of the stream.
        stream: u32,
    },
    /// The client has sent the last packet of a forward stream.
    End {
        /// Number of the stream.
        stream: u32,
        /// Time to wait for late packets, in ns.
        grace_ns: u64,
    },
    /// The server's record of a forward stream.
    Report(Report),
    /// The server's record of a reverse stream.
    Sent(SentReport),
}

/// Bytes of padding in a [`Message::ClientHello`], which make it longer than the answer.
pub(crate) const HELLO_PADDING: usize = 64;

/// The packets that carry the probes of a stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Carrier {
    /// UDP datagrams between the proved addresses.
    #[default]
    Udp,
    /// ICMP or ICMPv6 Echo Replies, see [`super::echo`]; only for forward streams.
    Icmp,
}

/// A request for a stream.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Announce {
    /// Number of the stream, increasing within the session.
    pub stream: u32,
    /// Its direction.
    pub direction: Direction,
    /// What carries its probes.
    pub carrier: Carrier,
    /// Length of each IP packet in bytes.
    pub ip_size: u16,
    /// Gaps between the packets, one fewer than packets. Packets without a gap between them are sent at once.
    pub gaps: GapRuns,
    /// The hops after which packets are dropped; only forward streams may have hidden packets.
    pub hops: HopRuns,
}

/// The source of timestamps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum StampSource {
    /// The NIC, on its own clock.
    Hardware,
    /// The kernel, on CLOCK_REALTIME.
    Kernel,
    /// This program, next to the system call, on CLOCK_REALTIME.
    Program,
}

/// The server's record of a forward stream.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    /// Number of the stream.
    pub stream: u32,
    /// Arrival times of the packets that arrived, by index.
    pub times: TimeList,
    /// Indices of lost packets, increasing. Hidden packets are never lost.
    pub lost: Vec<u32>,
    /// Indices of hidden packets that arrived nevertheless, increasing; they have no times.
    pub hidden_seen: Vec<u32>,
    /// Duplicate packets.
    pub duplicates: u32,
    /// The source of the times.
    pub source: StampSource,
    /// Whether the server's clock was stepped during the stream or since the one before.
    pub clock_stepped: bool,
}

/// The server's record of a reverse stream.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SentReport {
    /// Number of the stream.
    pub stream: u32,
    /// Departure times, by index.
    pub times: TimeList,
    /// The source of the times.
    pub source: StampSource,
    /// Whether the server kept the requested gaps.
    pub gaps_kept: bool,
    /// Whether the server's clock was stepped during the stream or since the one before.
    pub clock_stepped: bool,
}

/// The server's rule that a request violates.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, thiserror::Error)]
pub enum RefusedBy {
    /// A token is required and none was given.
    #[error("it requires a token")]
    TokenRequired,
    /// The proof of the token is wrong.
    #[error("the token is wrong")]
    WrongToken,
    /// Too many sessions in total.
    #[error("it has reached its limit of sessions")]
    Sessions,
    /// Too many sessions from this client's network.
    #[error("it has reached its limit of sessions from your network")]
    SessionsPerNetwork,
    /// The session has used up its bytes.
    #[error("the session has used up its bytes")]
    SessionBytes,
    /// The session has used up its time.
    #[error("the session has used up its time")]
    SessionTime,
    /// The session was idle for too long.
    #[error("the session was idle for too long")]
    Idle,
    /// The reverse stream is faster than allowed.
    #[error("the reverse stream is faster than it may send")]
    Rate,
    /// The stream has too many packets, or too few to have a gap.
    #[error("the number of packets is out of range")]
    StreamPackets,
    /// The stream takes longer than allowed.
    #[error("the stream takes longer than it allows")]
    StreamTime,
    /// The hops of hidden packets are out of range, or the server would have to send such packets.
    #[error("it does not allow these hidden packets")]
    HiddenPackets,
    /// The stream is to be carried by ICMP towards the client.
    #[error("it sends no ICMP packets")]
    SendsNoIcmp,
    /// The server may not open a raw socket.
    #[error("it may not open the raw socket that ICMP needs")]
    RawSocket,
    /// A packet size outside the allowed range.
    #[error("it does not allow this packet size")]
    PacketSize,
    /// The UDP address has not been proved.
    #[error("the UDP address has not been proved")]
    AddressNotProved,
    /// The request is not valid at this point.
    #[error("it did not expect this request")]
    OutOfOrder,
    /// The server is shutting down.
    #[error("it is shutting down")]
    Stopping,
    /// Too many streams are being sent to clients at the same time.
    #[error("it is sending as many streams to other clients as it can at once")]
    Busy,
}

impl Message {
    /// Returns the name of the message type, for logs and errors.
    pub fn name(&self) -> &'static str {
        match self {
            Message::ClientHello { .. } => "client hello",
            Message::ServerHello { .. } => "server hello",
            Message::ClientProof { .. } => "proof",
            Message::Welcome { .. } => "welcome",
            Message::Refused(_) => "refusal",
            Message::Cookie(_) => "cookie",
            Message::AddressProved => "proved address",
            Message::Hellos => "hello count request",
            Message::HellosSeen { .. } => "hellos seen",
            Message::Ping { .. } => "ping",
            Message::Pong { .. } => "pong",
            Message::SizeTest { .. } => "size test",
            Message::SizeReady => "size test ready",
            Message::SizeEnd { .. } => "end of size test",
            Message::SizeReport { .. } => "size report",
            Message::Announce(_) => "announcement",
            Message::Ready { .. } => "ready",
            Message::End { .. } => "end of stream",
            Message::Report(_) => "report",
            Message::Sent(_) => "departure report",
        }
    }
}
