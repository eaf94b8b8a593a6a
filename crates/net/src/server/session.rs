//! One open session: reads requests and answers them one by one.

use super::Shared;
use super::network::Network;
use super::places::{Full, Place};
use crate::channel::{Channel, ChannelError};
use crate::clock::Watch;
use crate::counters::count;
use crate::limits::Usage;
use crate::protocol::{COOKIE_LEN, Message, RefusedBy};
use crate::socket::{ProbeSocket, STOP_CHECK};
use std::net::SocketAddr;
use std::time::{Duration, Instant};
use tracing::{debug, info, warn};

/// Lifetime of a session without a proved UDP address: a client sends its five hellos within 6 s on a path
/// with an RTT of 0.6 s, and a stranger must not hold a place for longer.
const UNPROVED_TIME: Duration = Duration::from_secs(10);

/// Messages that a session may send before the proof; a client needs one or two.
const UNPROVED_MESSAGES: u32 = 8;

/// For so long a packet of a stream or a size test keeps a session's place from newcomers: those of
/// a client that measures at more than five packets per second, on average, which is any that can
/// use a path of 60 kb/s.
const WORTH_OF_PACKET: Duration = Duration::from_millis(200);

/// Returns the maximum lifetime of a session.
fn lifetime(session_time: Duration, proved: bool) -> Duration {
    if proved { session_time } else { session_time.min(UNPROVED_TIME) }
}

/// The client of a session.
pub(super) struct Client {
    /// The session id that every datagram carries.
    pub id: u64,
    /// The server's address of the control connection, from which its probes are sent as well.
    pub local: SocketAddr,
    pub network: Network,
    /// Its place: among the strangers before the proof, among the sessions after it.
    pub place: Place,
}

/// The state of a session.
pub(super) struct Session<'a> {
    pub(super) shared: &'a Shared,
    pub(super) channel: Channel,
    pub(super) client: Client,
    /// The server's proof that it knows the token.
    proof: Option<[u8; 32]>,
    /// Present once the client's address is proved.
    pub(super) socket: Option<ProbeSocket>,
    /// The raw socket, present once the client has announced a stream that ICMP carries.
    pub(super) icmp: Option<ProbeSocket>,
    /// The lowest number that the next stream may have.
    pub(super) next_stream: u32,
    pub(super) usage: Usage,
    /// Detects clock steps during and between streams.
    pub(super) clock: Watch,
    pub(super) streams: u32,
    started: Instant,
    throttle: Throttle,
}

impl<'a> Session<'a> {
    pub(super) fn new(
        shared: &'a Shared,
        channel: Channel,
        client: Client,
        proof: Option<[u8; 32]>,
    ) -> Session<'a> {
        Session {
            shared,
            channel,
            client,
            proof,
            socket: None,
            icmp: None,
            next_stream: 0,
            usage: Usage::default(),
            clock: Watch::default(),
            streams: 0,
            started: Instant::now(),
            throttle: Throttle::new(shared.limits.messages_per_second),
        }
    }

    /// Welcomes the client and answers until the session ends.
    fn serve(&mut self) -> Result<(), ChannelError> {
        let max_packets = self.shared.limits.stream_packets;
        let reverse_bps = self.shared.limits.reverse_rate.bps();
        let welcome =
            Message::Welcome { session: self.client.id, max_packets, reverse_bps, proof: self.proof };
        self.channel.send(&welcome)?;
        let mut messages = 0;
        loop {
            match self.channel.receive(self.deadline()) {
                // Reached even by a client that always has messages waiting.
                Ok(_) if Instant::now() >= self.end() => {
                    let reason = self.why_over();
                    return self.reply(&Message::Refused(reason));
                }
                Ok(_) if self.socket.is_none() && messages >= UNPROVED_MESSAGES => {
                    return self.reply(&Message::Refused(RefusedBy::AddressNotProved));
                }
                Ok(message) => self.answer(message)?,
                Err(ChannelError::Timeout) => {
                    let reason = self.why_over();
                    return self.reply(&Message::Refused(reason));
                }
                Err(error) => return Err(error),
            }
            messages += 1;
            if self.shared.stopping() || self.client.place.is_lost() {
                return Ok(());
            }
            self.throttle.pause();
        }
    }

    /// Notes that packets of the session have been sent or have arrived.
    pub(super) fn worked(&self, packets: usize) {
        let packets = u32::try_from(packets).unwrap_or(u32::MAX);
        self.client.place.did(WORTH_OF_PACKET.saturating_mul(packets), Instant::now());
    }

    /// Returns when the session ends at the latest.
    fn end(&self) -> Instant {
        self.started + lifetime(self.shared.limits.session_time, self.socket.is_some())
    }

    /// Returns the deadline for the next message.
    pub(super) fn deadline(&self) -> Instant {
        self.end().min(Instant::now() + self.shared.limits.idle)
    }

    /// Returns the limit that ended the wait for a message.
    fn why_over(&self) -> RefusedBy {
        if self.started.elapsed() >= self.shared.limits.session_time {
            RefusedBy::SessionTime
        } else if Instant::now() >= self.end() {
            RefusedBy::AddressNotProved
        } else {
            RefusedBy::Idle
        }
    }

    /// Sleeps for `time`, unless the session, its client or the server ends earlier.
    pub(super) fn pause(&self, time: Duration) {
        let until = self.end().min(Instant::now() + time);
        while !self.is_over() {
            let left = until.saturating_duration_since(Instant::now());
            if left == Duration::ZERO {
                return;
            }
            std::thread::sleep(left.min(STOP_CHECK));
        }
    }

    /// Whether no one waits for an answer any more: the client is gone or the server is stopping.
    pub(super) fn is_over(&self) -> bool {
        self.shared.stopping() || self.channel.is_closed()
    }

    /// Sends an answer; before the address is proved, only if the client has sent enough bytes.
    fn reply(&mut self, message: &Message) -> Result<(), ChannelError> {
        if self.socket.is_some() { self.channel.send(message) } else { self.channel.send_covered(message) }
    }

    /// Answers one message.
    fn answer(&mut self, message: Message) -> Result<(), ChannelError> {
        match message {
            Message::Ping { number } => self.reply(&Message::Pong { number }),
            Message::Hellos => {
                let (seen, elsewhere) = self.shared.proofs.hellos(self.client.id);
                self.reply(&Message::HellosSeen { seen, elsewhere })
            }
            Message::Cookie(cookie) => self.prove_address(&cookie),
            Message::Announce(announce) => self.stream(&announce),
            Message::SizeTest { sizes } => self.size_test(&sizes),
            other => self.out_of_order(&other),
        }
    }

    /// Opens the session's UDP socket if the cookie is right.
    fn prove_address(&mut self, cookie: &[u8; COOKIE_LEN]) -> Result<(), ChannelError> {
        let Some(address) = self.shared.proofs.prove(self.client.id, cookie) else {
            return self.refuse(RefusedBy::AddressNotProved);
        };
        match self.shared.sessions.take(self.client.network, self.channel.tcp(), Instant::now())? {
            Ok(place) => self.client.place = place,
            Err(Full::All) => return self.refuse(RefusedBy::Sessions),
            Err(Full::Network) => return self.refuse(RefusedBy::SessionsPerNetwork),
        }
        self.shared.newcomers.proved(self.client.network, Instant::now());
        self.socket = Some(ProbeSocket::connect(self.client.local, address)?);
        count(&self.shared.counters.sessions);
        if self.shared.may_log() {
            info!(%address, "session opened");
        }
        self.channel.send(&Message::AddressProved)
    }

    /// Counts and refuses a message that is not valid in this state.
    pub(super) fn out_of_order(&mut self, message: &Message) -> Result<(), ChannelError> {
        count(&self.shared.counters.messages_malformed);
        debug!(message = message.name(), "message out of order");
        self.refuse(RefusedBy::OutOfOrder)
    }

    /// Refuses a request; the session continues.
    pub(super) fn refuse(&mut self, reason: RefusedBy) -> Result<(), ChannelError> {
        count(self.shared.counters.refused(reason));
        debug!(%reason, "request refused");
        self.reply(&Message::Refused(reason))
    }
}

/// Serves a session to its end.
pub(super) fn run(mut session: Session<'_>) {
    let result = session.serve();
    let shared = session.shared;
    shared.proofs.forget(session.client.id);
    if shared.stopping() {
        let _ = session.reply(&Message::Refused(RefusedBy::Stopping));
    } else if session.client.place.is_lost() {
        count(&shared.counters.sessions_displaced);
        let _ = session.reply(&Message::Refused(RefusedBy::Sessions));
    }
    if matches!(result, Err(ChannelError::Frame(_))) {
        count(&shared.counters.messages_malformed);
    }
    if session.socket.is_none() {
        count(&shared.counters.sessions_unproved);
    } else if shared.may_log() {
        let streams = session.streams;
        let seconds = session.started.elapsed().as_secs_f64();
        match result {
            Ok(()) | Err(ChannelError::Closed) => info!(streams, seconds, "session ended"),
            Err(error) => warn!(streams, seconds, %error, "session aborted"),
        }
    }
}

/// Slows down clients that send too many messages; further messages wait in the client's buffers.
struct Throttle {
    per_second: u32,
    window: Instant,
    count: u32,
}

impl Throttle {
    fn new(per_second: u32) -> Throttle {
        Throttle { per_second, window: Instant::now(), count: 0 }
    }

    /// Must be called once per message; sleeps for the rest of the second when its messages are used up.
    fn pause(&mut self) {
        std::thread::sleep(self.due(Instant::now()));
    }

    /// Counts one message at `now` and returns how long to wait before the next.
    fn due(&mut self, now: Instant) -> Duration {
        const WINDOW: Duration = Duration::from_secs(1);
        let mut elapsed = now.saturating_duration_since(self.window);
        if elapsed >= WINDOW {
            self.window = now;
            self.count = 0;
            elapsed = Duration::ZERO;
        }
        self.count += 1;
        if self.count >= self.per_second { WINDOW.saturating_sub(elapsed) } else { Duration::ZERO }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_proof_sessions_are_short() {
        let day = Duration::from_secs(86_400);
        assert_eq!(lifetime(day, true), day);
        assert_eq!(lifetime(day, false), UNPROVED_TIME);
        assert_eq!(lifetime(Duration::from_secs(1), false), Duration::from_secs(1));
    }

    #[test]
    fn messages_beyond_the_limit_wait_for_the_next_second() {
        let mut throttle = Throttle::new(3);
        let start = throttle.window;
        let at = |ms| start + Duration::from_millis(ms);
        assert_eq!(throttle.due(at(0)), Duration::ZERO);
        assert_eq!(throttle.due(at(100)), Duration::ZERO);
        assert_eq!(throttle.due(at(200)), Duration::from_millis(800));
        assert_eq!(throttle.due(at(1000)), Duration::ZERO);
        assert_eq!(throttle.due(at(1100)), Duration::ZERO);
    }
}
