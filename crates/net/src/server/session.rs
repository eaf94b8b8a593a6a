//! One open session: reads requests and answers them, one after the other.

use super::Shared;
use crate::channel::{Channel, ChannelError};
use crate::counters::count;
use crate::limits::Usage;
use crate::protocol::{COOKIE_LEN, Message, RefusedBy};
use crate::socket::ProbeSocket;
use std::net::SocketAddr;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use tracing::{debug, info, warn};

/// The state of a session.
pub(super) struct Session<'a> {
    pub(super) shared: &'a Shared,
    pub(super) channel: Channel,
    pub(super) id: u64,
    /// The server's address of the control connection, which its probes leave from, too.
    local: SocketAddr,
    /// There once the client's address is proved.
    pub(super) socket: Option<ProbeSocket>,
    /// The next stream's number must be at least this.
    pub(super) next_stream: u32,
    pub(super) usage: Usage,
    pub(super) streams: u32,
    started: Instant,
    throttle: Throttle,
}

impl<'a> Session<'a> {
    pub(super) fn new(shared: &'a Shared, channel: Channel, id: u64, local: SocketAddr) -> Session<'a> {
        Session {
            shared,
            channel,
            id,
            local,
            socket: None,
            next_stream: 0,
            usage: Usage::default(),
            streams: 0,
            started: Instant::now(),
            throttle: Throttle::new(shared.limits.messages_per_second),
        }
    }

    /// Welcomes the client and answers until the session ends.
    fn serve(&mut self) -> Result<(), ChannelError> {
        let max_packets = self.shared.limits.stream_packets;
        let reverse_bps = self.shared.limits.reverse_rate.bps();
        self.channel.send(&Message::Welcome { session: self.id, max_packets, reverse_bps })?;
        loop {
            let end = self.started + self.shared.limits.session_time;
            let idle = Instant::now() + self.shared.limits.idle;
            match self.channel.receive(idle.min(end)) {
                Ok(message) => self.answer(message)?,
                Err(ChannelError::Timeout) => {
                    let reason = if end <= idle { RefusedBy::SessionTime } else { RefusedBy::Idle };
                    return self.channel.send(&Message::Refused(reason));
                }
                Err(error) => return Err(error),
            }
            if self.shared.stop.load(Ordering::Relaxed) {
                return Ok(());
            }
            self.throttle.pause();
        }
    }

    /// Answers one message.
    fn answer(&mut self, message: Message) -> Result<(), ChannelError> {
        match message {
            Message::Ping { number } => self.channel.send(&Message::Pong { number }),
            Message::Hellos => {
                let (seen, elsewhere) = self.shared.registry.hellos(self.id);
                self.channel.send(&Message::HellosSeen { seen, elsewhere })
            }
            Message::Cookie(cookie) => self.prove_address(&cookie),
            Message::Announce(announce) => self.stream(&announce),
            Message::SizeTest { sizes } => self.size_test(&sizes),
            other => self.out_of_order(&other),
        }
    }

    /// Opens the session's UDP socket if the cookie is right.
    fn prove_address(&mut self, cookie: &[u8; COOKIE_LEN]) -> Result<(), ChannelError> {
        let Some(address) = self.shared.registry.prove(self.id, cookie) else {
            return self.refuse(RefusedBy::AddressNotProved);
        };
        let socket = ProbeSocket::connect(self.local, address)?;
        debug!(%address, "UDP address proved");
        self.socket = Some(socket);
        self.channel.send(&Message::AddressProved)
    }

    /// Counts and refuses a message that makes no sense now.
    pub(super) fn out_of_order(&mut self, message: &Message) -> Result<(), ChannelError> {
        count(&self.shared.counters.messages_malformed);
        debug!(message = message.name(), "message out of order");
        self.channel.send(&Message::Refused(RefusedBy::OutOfOrder))
    }

    /// Refuses a request; the session goes on.
    pub(super) fn refuse(&mut self, reason: RefusedBy) -> Result<(), ChannelError> {
        count(&self.shared.counters.requests_refused);
        debug!(%reason, "request refused");
        self.channel.send(&Message::Refused(reason))
    }
}

/// Serves a session to its end.
pub(super) fn run(mut session: Session<'_>) {
    let result = session.serve();
    session.shared.registry.forget(session.id);
    if session.shared.stop.load(Ordering::Relaxed) {
        let _ = session.channel.send(&Message::Refused(RefusedBy::Stopping));
    }
    let streams = session.streams;
    let seconds = session.started.elapsed().as_secs_f64();
    match result {
        Ok(()) | Err(ChannelError::Closed) => info!(streams, seconds, "session ended"),
        Err(error) => {
            if matches!(error, ChannelError::Frame(_)) {
                count(&session.shared.counters.messages_malformed);
            }
            warn!(streams, seconds, %error, "session broken off");
        }
    }
}

/// Slows down clients that send too many messages: what they send beyond waits in their own buffers.
struct Throttle {
    per_second: u32,
    window: Instant,
    count: u32,
}

impl Throttle {
    fn new(per_second: u32) -> Throttle {
        Throttle { per_second, window: Instant::now(), count: 0 }
    }

    /// To be called once a message; sleeps for the rest of a second whose messages are used up.
    fn pause(&mut self) {
        std::thread::sleep(self.due(Instant::now()));
    }

    /// Counts one message at `now`, and returns how long to wait before the next.
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
