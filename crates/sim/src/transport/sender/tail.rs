//! Tail-loss probes (RFC 8985 7, details as in Linux).
//!
//! When the last segments of a flight are lost, nothing follows them that would show it. So after two round trips of silence one
//! segment more is sent: new data if there is any, otherwise the last segment again. Its acknowledgement shows the holes before it
//! to loss detection, long before the retransmission timer would have lost the whole flight.

use super::*;
use crate::transport::ticks::TICK;

/// Least time that a probe waits beyond two round trips, ns: two ticks of Linux's clock.
const LEAST: u64 = 2_000_000;
/// What a probe waits longer when a single segment is in flight, because a receiver may hold its acknowledgement back, ns
/// (Linux's least retransmission timeout).
const HELD_BACK: u64 = 200_000_000;
/// Wait before the first measurement of the round-trip time, ns.
const FIRST: u64 = 1_000_000_000;

/// The probe of one flow.
#[derive(Debug)]
pub(super) struct Tail {
    pub(super) timer: Timer,
    /// A probe is under way until everything below this is acknowledged and its fate is known.
    high: Option<u64>,
    /// When that was sent, if it was a retransmission.
    again: Option<u64>,
    /// Something has been acknowledged since the time was set.
    pub(super) progress: bool,
}

impl Tail {
    pub(super) fn new() -> Tail {
        Tail { timer: Timer::OFF, high: None, again: None, progress: false }
    }

    /// The segment that the probe has repeated.
    pub(super) fn repeated(&self) -> Option<u64> {
        self.again.and(self.high).map(|high| high - 1)
    }

    /// A reduction or a timeout ends the episode.
    pub(super) fn end(&mut self) {
        *self = Tail::new();
    }
}

impl Sender {
    /// Sets the time of the probe after something has been `sent` or acknowledged; not later than the retransmission timer, and later by
    /// what the pacer waits.
    #[inline]
    pub(super) fn arm_probe(&mut self, now: u64, sent: bool) {
        self.tail.progress = false;
        let open = matches!(self.state, State::Open | State::Reducing) && self.scoreboard.is_clean();
        if !open || self.una == self.next {
            self.tail.timer = Timer::OFF;
            return;
        }
        let wait = match self.rtt.smoothed() {
            0 => FIRST,
            smoothed => 2 * smoothed + if self.next - self.una == 1 { HELD_BACK } else { LEAST },
        };
        let left = if sent { self.head_sent() } else { None };
        let timeout = (left.unwrap_or(now) + self.rtt.timeout()).saturating_sub(now);
        let wait = wait.min(timeout);
        let pause = self.pacer.as_ref().map_or(0, |pacer| pacer.next().saturating_sub(now) / TICK * TICK);
        self.tail.timer = Timer::new(now, wait + pause);
    }

    /// Sends the probe, unless one is under way.
    pub(super) fn probe_tail(&mut self, now: u64) -> Option<Packet> {
        self.tail.timer = Timer::OFF;
        if self.tail.high.is_some() {
            self.deadline = self.counting_from(now, self.head_sent());
            return None;
        }
        if self.next == self.written {
            self.write(now);
        }
        let (seq, flags) = if self.next < self.written.min(self.limit) {
            self.note(now, self.next, false);
            self.departures.note(self.next + 1, now);
            self.next += 1;
            (self.next - 1, 0)
        } else {
            self.note(now, self.next - 1, false);
            self.counters.resent += 1;
            self.scoreboard.probe(self.next - 1);
            (self.next - 1, RETRANSMITTED)
        };
        self.tail.high = Some(self.next);
        self.tail.again = (flags != 0).then_some(now);
        self.deadline = Timer::new(now, self.rtt.timeout());
        let probe = match flags {
            0 => self.segment(now, seq, 0, true),
            _ => self.repeat(now, seq, flags, true),
        };
        // After a probe comes the retransmission timer, not another one.
        self.usage.probed();
        Some(probe)
    }

    /// When the first segment not acknowledged was sent last, while nothing is known to be lost (ns).
    fn head_sent(&self) -> Option<u64> {
        let again = self.tail.again.filter(|_| self.tail.repeated() == Some(self.una));
        again.or(self.departures.first())
    }

    /// Whether an acknowledgement was caused by a probe that repeated the last segment.
    #[inline]
    pub(super) fn answers_probe(&self, ack: &Packet) -> bool {
        ack.has(RETRANSMITTED) && self.tail.again == Some(ack.sent)
    }

    /// Learns from an acknowledgement what has become of the probe. Repeating the last segment repairs its loss unseen: unless the
    /// receiver says that it had it, the window is reduced when the next acknowledgement advances.
    #[inline]
    pub(super) fn judge_probe(&mut self, now: u64, ack: &Packet, flight: u64) {
        let Some(high) = self.tail.high.filter(|high| self.una >= *high) else { return };
        if self.tail.again.is_none() || ack.has(DUPLICATE) && self.answers_probe(ack) {
            self.tail.end();
        } else if self.una > high {
            self.tail.end();
            if matches!(self.state, State::Open | State::Reducing) {
                self.state = State::Open;
                self.high = self.next;
                self.counters.reductions += 1;
                self.cwr = self.ecn != Ecn::Off;
                self.controller.on_congestion(Instant::from_ns(now), flight as u32, Congestion::Loss);
                self.cwnd = self.controller.flight_limit();
            }
        }
    }
}
