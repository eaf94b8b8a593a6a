//! What limits a transfer: the application, the receive window or the path, from the trace alone.
//!
//! The verdict is made once per round trip, as by T-RAT, from five facts that a tap near the sender sees: whether the
//! receive window left room for another segment; whether anything was in flight; whether segments were lost; whether
//! the flight was as large as any since the last loss, because a sender that has data fills its congestion window; and
//! whether that maximum still grows, because a congestion window that is used does, unless a queue stands.

use crate::units::{Duration, Instant};

/// What limits the rate of a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Limit {
    /// The sending application: it has less to send than the path and the receiver would take.
    Application,
    /// The receiver: its window is full.
    ReceiveWindow,
    /// The path, through the congestion window.
    Path,
    /// The trace does not tell.
    Unknown,
}

impl Limit {
    /// All limits.
    pub const ALL: [Limit; 4] = [Limit::Application, Limit::ReceiveWindow, Limit::Path, Limit::Unknown];

    /// Returns the limit as a name for results, such as `receive-window`.
    pub const fn name(self) -> &'static str {
        match self {
            Limit::Application => "application",
            Limit::ReceiveWindow => "receive-window",
            Limit::Path => "path",
            Limit::Unknown => "unknown",
        }
    }
}

/// The time for which each limit held.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    time: [Duration; Limit::ALL.len()],
}

impl Limits {
    /// Returns the time for which `limit` held.
    pub const fn time(&self, limit: Limit) -> Duration {
        self.time[limit as usize]
    }

    /// Returns the share of time, 0 to 1, for which `limit` held; 0 before any time has passed.
    pub fn share(&self, limit: Limit) -> f64 {
        let total: Duration = self.time.iter().copied().sum();
        if total > Duration::ZERO { self.time(limit).secs_f64() / total.secs_f64() } else { 0.0 }
    }

    /// Returns the limit that held for the longest time; `Unknown` before any time has passed.
    pub fn main(&self) -> Limit {
        let longest =
            Limit::ALL.into_iter().max_by_key(|limit| (self.time(*limit), *limit == Limit::Unknown));
        longest.unwrap_or(Limit::Unknown)
    }
}

/// Share of a round for which the receive window must have been full.
const BLOCKED: f64 = 0.5;
/// Share of a round for which nothing must have been in flight.
const IDLE: f64 = 0.2;
/// How much smaller than its maximum a flight may be that fills the congestion window: hosts collect segments for large
/// packets. As a share, and in segments.
const SLACK: u32 = 4;
const SLACK_SEGMENTS: u32 = 3;
/// Rounds for which the largest flight may stay the same while the path limits it and no queue stands.
const PATIENCE: u32 = 8;
/// A standing queue, as a share of the smallest RTT, and at least this long.
const STANDING: i64 = 16;
const STANDING_LEAST: Duration = Duration::from_ms(1);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// The receive window has no room for a segment.
    Blocked,
    /// Nothing is in flight.
    Idle,
    Open,
}

/// What is known at an event of the transfer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Situation {
    pub(super) at: Instant,
    /// Bytes in flight.
    pub(super) flight: u32,
    /// Room in the receive window; `None` where its scale is not known.
    pub(super) room: Option<u32>,
    pub(super) mss: u32,
}

/// Finds what limits a transfer.
#[derive(Clone, Debug)]
pub(super) struct Limiter {
    limits: Limits,
    current: Limit,
    state: State,
    since: Instant,
    round: Round,
    /// The sequence number whose ACK ends the round.
    end: Option<u32>,
    /// The largest flight since the last loss, and for how many rounds it has not grown.
    most: u32,
    still: u32,
}

#[derive(Clone, Copy, Debug, Default)]
struct Round {
    begin: Instant,
    blocked: Duration,
    idle: Duration,
    /// ACKs before which the flight was as large as ever, and others.
    full: u32,
    unused: u32,
    lost: bool,
    grew: bool,
    /// The shortest wait in the queue, if known.
    queue: Option<Duration>,
    knows_window: bool,
}

impl Limiter {
    pub(super) fn new() -> Limiter {
        Limiter {
            limits: Limits::default(),
            current: Limit::Unknown,
            state: State::Idle,
            since: Instant::ZERO,
            round: Round::default(),
            end: None,
            most: 0,
            still: 0,
        }
    }

    pub(super) fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Returns the verdict of the last round.
    pub(super) fn current(&self) -> Limit {
        self.current
    }

    /// A segment with data was sent; `now` is the situation after it.
    pub(super) fn on_send(&mut self, now: &Situation, next: u32, retransmission: bool) {
        if self.end.is_none() {
            self.round = Round { begin: now.at, ..Round::default() };
            (self.end, self.since) = (Some(next), now.at);
        }
        self.round.lost |= retransmission;
        if now.flight > self.most {
            // Less than a segment more is no growth, but a full one is, even if it comes in parts.
            self.round.grew |= now.flight - self.most >= now.mss / 2;
            self.most = now.flight;
        }
        self.pass(now);
    }

    /// An ACK advanced; `before` bytes were in flight before it, and `now` is the situation after it. `queue` is the
    /// wait in queues with the smallest RTT, `covers` whether it acknowledges a sequence number, and `next` the number
    /// behind the last byte sent.
    pub(super) fn on_ack(
        &mut self,
        now: &Situation,
        before: u32,
        queue: Option<(Duration, Duration)>,
        covers: impl FnOnce(u32) -> bool,
        next: u32,
    ) {
        let Some(end) = self.end else { return };
        self.pass(now);
        let slack = (self.most / SLACK).max(now.mss.saturating_mul(SLACK_SEGMENTS));
        if before.saturating_add(slack) >= self.most {
            self.round.full += 1
        } else {
            self.round.unused += 1
        }
        if let Some((wait, least)) = queue {
            let wait = wait - (least / STANDING).max(STANDING_LEAST);
            self.round.queue = Some(self.round.queue.map_or(wait, |shortest| shortest.min(wait)));
        }
        self.round.knows_window = now.room.is_some();
        if covers(end) {
            self.finish(now, next);
        }
    }

    /// An ACK came that does not advance, but may change the window.
    pub(super) fn on_window(&mut self, now: &Situation) {
        if self.end.is_some() {
            self.pass(now);
        }
    }

    /// The receiver reported a loss.
    pub(super) fn on_loss(&mut self) {
        self.round.lost = true;
    }

    /// Credits the time since the last event to the state of that time.
    fn pass(&mut self, now: &Situation) {
        let time = now.at - self.since;
        match self.state {
            State::Blocked => self.round.blocked += time,
            State::Idle => self.round.idle += time,
            State::Open => {}
        }
        self.since = now.at;
        self.state = match (now.room, now.flight) {
            (Some(room), _) if room < now.mss => State::Blocked,
            (_, 0) => State::Idle,
            _ => State::Open,
        };
    }

    fn finish(&mut self, now: &Situation, next: u32) {
        let round = std::mem::take(&mut self.round);
        let time = now.at - round.begin;
        self.still = if round.grew { 0 } else { self.still + 1 };
        let share = |part: Duration| part.secs_f64() / time.secs_f64().max(1e-9);
        self.current = if share(round.blocked) >= BLOCKED {
            Limit::ReceiveWindow
        } else if round.lost {
            Limit::Path
        } else if share(round.idle) >= IDLE || round.unused > round.full {
            Limit::Application
        } else if self.still < PATIENCE || round.queue.is_some_and(|wait| wait > Duration::ZERO) {
            Limit::Path
        } else if round.knows_window {
            Limit::Application
        } else {
            Limit::Unknown
        };
        if time > Duration::ZERO {
            self.limits.time[self.current as usize] += time;
        }
        if round.lost {
            // During recovery the flight includes segments that have arrived.
            (self.most, self.still) = (0, 0);
        }
        self.round.begin = now.at;
        self.end = Some(next);
    }
}
