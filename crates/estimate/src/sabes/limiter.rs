//! Finds what limits a transfer, from the trace alone.
//!
//! The verdict is made once per round trip, as by T-RAT, in the sender's order of events: a tap elsewhere
//! sees ACKs before the sender does, so they are held back on their way (`on_the_way.rs`). Then the same
//! facts tell at every tap: whether the receive window left room for another segment; whether anything was in
//! flight; whether segments were lost; whether the path was full, by the rate or by a queue; whether the
//! flight was as large as before, because a sender that has data fills its congestion window; whether
//! segments were smaller than others, because a sender that has data fills them; and whether the flight still
//! grows, because a congestion window that is used does.
//!
//! A paced sender that fills the path (BBR) keeps no queue, and its flight need not grow. Its rate
//! is that of the link, and where that is not known, it probes for more every few rounds, which
//! makes a queue for a while.

use std::cmp::Ordering;

use super::limit::{Limit, Limits};
use headway_units::{Duration, Instant};

/// The receive window must have been full for one of this many parts of a round.
const BLOCKED: i64 = 2;
/// Nothing must have been in flight for one of this many parts of a round.
const IDLE: i64 = 5;
/// How much smaller than its maximum a flight may be that fills the congestion window: hosts collect
/// segments for large packets, and a paced sender probes with a flight larger by a quarter. As a
/// share, and in segments.
const SLACK: u32 = 3;
const SLACK_SEGMENTS: u32 = 3;
/// Rounds for which the largest flight may stay the same while the path limits it without a standing queue.
const PATIENCE: u32 = 8;
/// A standing queue, as a share of the RTT of empty queues, and at least this long.
const STANDING: i64 = 16;
const STANDING_LEAST: Duration = Duration::from_ms(1);
/// Of this many segments of a sender with a backlog, at most one is not full.
const PARTIAL: u32 = 4;
/// Share of the capacity from which a rate fills the path.
const FULL: f64 = 0.85;
/// Rounds in which a paced sender probes once for a higher rate: eight for BBR, and some in
/// which the probe shows.
const PROBE: u32 = 10;
/// Rounds that each of the two memories of the largest flight spans.
const SPAN: u32 = 8;
/// A burst up to this length that ends because there is no more data is limited by the application, although
/// it may fill the path meanwhile: a faster path would make the pauses longer and not the transfer faster.
const BURST: Duration = Duration::from_ms(500);
/// Rounds between such a burst and the pause behind it: in one the last segments are sent, in
/// the next acknowledged.
const TAIL: u32 = 2;
/// Transfers of this many packets have no verdict: they have nothing more to send.
const SHORTEST: u32 = 3;
/// Share of the receive window that a paced sender's flight must have where the window stops its probes.
const NEAR_WINDOW: f64 = 0.7;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    /// The receive window has no room for a segment.
    Blocked,
    /// Nothing is in flight.
    #[default]
    Idle,
    Open,
}

/// What the sender knows at an event of the transfer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Situation {
    pub(super) at: Instant,
    /// Bytes in flight.
    pub(super) flight: u32,
    /// Room in the receive window; `None` where its scale is not known.
    pub(super) room: Option<u32>,
    /// Payload of a full segment, or half of the largest receive window if that is less: a sender waits for
    /// no more room than that (RFC 9293 3.8.6.2.1).
    pub(super) mss: u32,
}

/// What is known of path and tap at the end of a round.
#[derive(Clone, Copy, Debug)]
pub(super) struct Basis {
    /// Payload that the narrow link passes, bytes per second.
    pub(super) capacity: Option<f64>,
    /// Whether the order of the sender's events is known, and not only guessed from the handshake.
    pub(super) knows_order: bool,
}

/// Where a wait in queues was seen.
#[derive(Clone, Copy, Debug)]
pub(super) enum Seen {
    /// By the time between a segment and its ACK: behind the tap.
    Behind,
    /// By the sender's time stamps: before the tap.
    Before,
}

/// Finds what limits a transfer.
#[derive(Clone, Debug, Default)]
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
    /// The largest flights of this and of the last [`SPAN`] rounds, and how many of this have passed.
    recent: [u32; 2],
    passed: u32,
    /// Rounds since the queue was longer than usual, and since the receive window was full.
    since_queue: u32,
    since_blocked: u32,
    /// Packets sent so far.
    packets: u32,
    /// Whether a queue has stood, or a segment was lost. Before that the capacity may be the
    /// pace of the application.
    has_been_full: bool,
    /// How long the path has been the limit without a pause, and the application in how many rounds since,
    /// while that is not in `limits`.
    burst: Duration,
    tail: Duration,
    tail_rounds: u32,
}

#[derive(Clone, Copy, Debug, Default)]
struct Round {
    begin: Instant,
    blocked: Duration,
    idle: Duration,
    /// Bytes acknowledged.
    bytes: u64,
    /// ACKs before which the flight was as large as ever, and others.
    full: u32,
    unused: u32,
    lost: bool,
    grew: bool,
    /// Segments, and those among them that the sender would have filled if it had had data.
    segments: u32,
    partial: u32,
    waits: [Waits; 2],
    /// The largest flight, and the window at its time.
    largest: (u32, u32),
    knows_window: bool,
}

/// Waits in queues beyond what counts as a queue, ns.
#[derive(Clone, Copy, Debug, Default)]
struct Waits {
    shortest: i64,
    sum: i64,
    count: i64,
}

impl Round {
    fn is_blocked(&self, time: Duration) -> bool {
        self.blocked > Duration::ZERO && self.blocked >= time / BLOCKED
    }

    fn is_idle(&self, time: Duration) -> bool {
        self.idle > Duration::ZERO && self.idle >= time / IDLE
    }
}

impl Waits {
    fn add(&mut self, excess: i64) {
        self.shortest = if self.count == 0 { excess } else { self.shortest.min(excess) };
        self.sum = self.sum.saturating_add(excess);
        self.count += 1;
    }

    /// Whether a queue stood all the time.
    fn stands(&self) -> bool {
        self.count > 0 && self.shortest > 0
    }

    fn mean(&self) -> i64 {
        self.sum / self.count.max(1)
    }

    /// Whether there was a queue on average.
    fn has_queue(&self) -> bool {
        self.sum > 0
    }
}

impl Limiter {
    pub(super) fn new() -> Limiter {
        Limiter { since_queue: u32::MAX, since_blocked: u32::MAX, ..Limiter::default() }
    }

    /// Returns the limits so far; a burst that has not ended counts as limited by the path.
    pub(super) fn limits(&self) -> Limits {
        if self.packets <= SHORTEST {
            return Limits::default();
        }
        let mut limits = self.limits;
        limits.add(Limit::Path, self.burst);
        limits.add(Limit::Application, self.tail);
        limits
    }

    /// Whether a queue has stood, or a segment was lost.
    pub(super) fn has_been_full(&self) -> bool {
        self.has_been_full
    }

    /// Returns the verdict of the last round.
    pub(super) fn current(&self) -> Limit {
        self.current
    }

    /// A segment with data was sent, which is this many packets on the wire; `now` is the situation after it,
    /// and `next` the number behind the last byte sent. `partial` says that it is no full segment.
    pub(super) fn on_send(&mut self, now: &Situation, next: u32, (packets, partial): (u32, bool)) {
        self.packets = self.packets.saturating_add(packets);
        if self.end.is_none() {
            self.round = Round { begin: now.at, ..Round::default() };
            (self.end, self.since) = (Some(next), now.at);
        }
        // The window has no room for a full one.
        self.round.segments += 1;
        if partial && now.room.is_none_or(|room| room >= now.mss) {
            self.round.partial += 1;
        }
        if now.flight > self.most {
            // Less than a segment more is no growth, but a full one is, even if it comes in parts.
            self.round.grew |= now.flight - self.most >= now.mss / 2;
            self.most = now.flight;
        }
        self.recent[0] = self.recent[0].max(now.flight);
        if now.flight > self.round.largest.0 {
            self.round.largest = (now.flight, now.room.unwrap_or(0).saturating_add(now.flight));
        }
        self.pass(now);
    }

    /// An ACK came that advances by `bytes`; `now` is the situation after it. Returns whether the round is
    /// over, because the ACK `covers` its last number.
    pub(super) fn on_ack(&mut self, now: &Situation, bytes: u32, covers: impl FnOnce(u32) -> bool) -> bool {
        let Some(end) = self.end else { return false };
        self.pass(now);
        self.round.bytes += u64::from(bytes);
        let most = self.recent[0].max(self.recent[1]);
        let slack = (most / SLACK).max(now.mss.saturating_mul(SLACK_SEGMENTS));
        if now.flight.saturating_add(bytes).saturating_add(slack) >= most {
            self.round.full += 1
        } else {
            self.round.unused += 1
        }
        self.round.knows_window = now.room.is_some();
        covers(end)
    }

    /// An ACK came that does not advance, but may change the window.
    pub(super) fn on_window(&mut self, now: &Situation) {
        if self.end.is_some() {
            self.pass(now);
        }
    }

    /// A segment was sent again, or the receiver reported a loss.
    pub(super) fn on_loss(&mut self) {
        self.round.lost = true;
    }

    /// A segment waited in queues; `least` is the RTT of empty queues.
    pub(super) fn on_wait(&mut self, seen: Seen, wait: Duration, least: Duration) {
        self.round.waits[seen as usize].add((wait - (least / STANDING).max(STANDING_LEAST)).ns());
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

    /// Ends the round; `next` is the number behind the last byte sent. Returns where a queue stood in it.
    pub(super) fn finish(&mut self, now: &Situation, next: u32, basis: &Basis) -> Option<Seen> {
        let round = std::mem::take(&mut self.round);
        let time = now.at - round.begin;
        let count = |since: u32, again: bool| if again { 0 } else { since.saturating_add(1) };
        self.still = count(self.still, round.grew);
        self.since_queue = count(self.since_queue, round.waits.iter().any(Waits::has_queue));
        self.since_blocked = count(self.since_blocked, round.blocked > Duration::ZERO);
        self.has_been_full |= round.lost || round.waits.iter().any(Waits::stands);
        let time = time.max(Duration::ZERO);
        self.current = self.judge(&round, time, now.mss, basis);
        self.credit(time, round.is_idle(time));
        if round.lost {
            // During recovery the flight includes segments that have arrived.
            (self.most, self.still, self.recent) = (0, 0, [0; 2]);
        }
        self.passed += 1;
        if self.passed >= SPAN {
            (self.passed, self.recent) = (0, [0, self.recent[0]]);
        }
        self.round.begin = now.at;
        self.end = Some(next);
        let [behind, before] =
            round.waits.each_ref().map(|waits| if waits.stands() { waits.mean() } else { 0 });
        match behind.cmp(&before) {
            Ordering::Less => Some(Seen::Before),
            Ordering::Equal => None,
            Ordering::Greater => Some(Seen::Behind),
        }
    }

    /// Credits the time of a round to its limit.
    fn credit(&mut self, time: Duration, paused: bool) {
        let by_application = self.current == Limit::Application;
        if by_application && !paused && self.burst > Duration::ZERO && self.tail_rounds < TAIL {
            self.tail += time;
            self.tail_rounds += 1;
            return;
        }
        let goes_on = self.current == Limit::Path && self.tail_rounds == 0;
        if !goes_on {
            let is_short = self.burst <= BURST && paused && by_application;
            let limit = if is_short { Limit::Application } else { Limit::Path };
            self.limits.add(limit, std::mem::take(&mut self.burst));
            self.limits.add(Limit::Application, std::mem::take(&mut self.tail));
            self.tail_rounds = 0;
        }
        match self.current {
            Limit::Path => self.burst += time,
            limit => self.limits.add(limit, time),
        }
    }

    fn judge(&self, round: &Round, time: Duration, mss: u32, basis: &Basis) -> Limit {
        if round.is_blocked(time) {
            return Limit::ReceiveWindow;
        }
        let idle = round.is_idle(time);
        let unused = round.unused > round.full;
        let queue_stands = round.waits.iter().any(Waits::stands);
        // A backlog has hardly any segments that are not full: without it, what waits is an answer.
        let is_filled = round.partial <= round.segments / PARTIAL;
        if round.lost || (!idle && !unused && is_filled && queue_stands) {
            return Limit::Path;
        }
        let (flight, window) = round.largest;
        let near_window = f64::from(flight) >= NEAR_WINDOW * f64::from(window);
        if !idle && round.knows_window && near_window && self.since_blocked < PROBE {
            return Limit::ReceiveWindow;
        }
        // Segments that are each sent after the one before has left the link would have any rate. Then the
        // pace of the application passes for the capacity. It shows in segments that are not full.
        let is_train = self.has_been_full && is_filled && flight > mss.saturating_mul(SLACK_SEGMENTS);
        let bytes = round.bytes as f64;
        let is_full = |capacity: f64| bytes >= FULL * capacity * time.secs_f64();
        if !idle && is_train && basis.capacity.is_some_and(is_full) {
            return Limit::Path;
        }
        if idle || unused || round.partial > 0 {
            return Limit::Application;
        }
        if self.still < PATIENCE || self.since_queue < PROBE {
            return Limit::Path;
        }
        if round.knows_window && basis.knows_order { Limit::Application } else { Limit::Unknown }
    }
}
