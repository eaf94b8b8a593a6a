//! Tail-loss probes (RFC 8985 7, details as in Linux).
//!
//! When the last segments of a flight are lost, nothing follows them that would show it. So after two round trips of silence one
//! segment more is sent: new data if there is any, otherwise the last segment again. Its acknowledgement shows the holes before it
//! to loss detection, long before the retransmission timer would have lost the whole flight.

use super::*;
use crate::transport::ticks::TICK;

/// Least time that a probe waits beyond two round trips, ns: two ticks of Linux's clock.
const TIMEOUT_MIN: u64 = 2_000_000;
/// What a probe waits longer when a single segment is in flight, because a receiver may hold its acknowledgement back, ns
/// (Linux's least retransmission timeout).
const DELAYED_ACK: u64 = 200_000_000;
/// Wait before the first measurement of the round-trip time, ns.
const INITIAL_PTO: u64 = 1_000_000_000;

/// The probe of one flow.
#[derive(Debug)]
pub(super) struct Tlp {
    pub(super) timer: Timer,
    /// A probe is under way until everything below this is acknowledged and its fate is known.
    end_seq: Option<u64>,
    /// When that was sent, if it was a retransmission.
    retransmitted_at: Option<u64>,
    /// Something has been acknowledged since the time was set.
    pub(super) una_advanced: bool,
}

impl Tlp {
    pub(super) fn new() -> Tlp {
        Tlp { timer: Timer::OFF, end_seq: None, retransmitted_at: None, una_advanced: false }
    }

    /// The segment that the probe has repeated.
    pub(super) fn retransmitted(&self) -> Option<u64> {
        self.retransmitted_at.and(self.end_seq).map(|end| end - 1)
    }

    /// A reduction or a timeout ends the episode.
    pub(super) fn end(&mut self) {
        *self = Tlp::new();
    }
}

impl Sender {
    /// Sets the time of the probe after something has been `sent` or acknowledged; not later than the retransmission timer, and later by
    /// what the pacer waits.
    #[inline]
    pub(super) fn schedule_tlp(&mut self, now: u64, sent: bool) {
        self.tlp.una_advanced = false;
        let open = matches!(self.state, State::Open | State::Reducing) && self.scoreboard.is_clean();
        if !open || self.una == self.next {
            self.tlp.timer = Timer::OFF;
            return;
        }
        let wait = match self.rtt.smoothed() {
            0 => INITIAL_PTO,
            smoothed => 2 * smoothed + if self.next - self.una == 1 { DELAYED_ACK } else { TIMEOUT_MIN },
        };
        let left = if sent { self.head_sent() } else { None };
        let timeout = (left.unwrap_or(now) + self.rtt.timeout()).saturating_sub(now);
        let wait = wait.min(timeout);
        let pause = self.pacer.as_ref().map_or(0, |pacer| pacer.next().saturating_sub(now) / TICK * TICK);
        self.tlp.timer = Timer::new(now, wait + pause);
    }

    /// Sends the probe, unless one is under way.
    pub(super) fn send_tlp(&mut self, now: u64) -> Option<Packet> {
        self.tlp.timer = Timer::OFF;
        if self.tlp.end_seq.is_some() {
            self.rto_timer = self.rto_from(now, self.head_sent());
            return None;
        }
        if self.next == self.written {
            self.write(now);
        }
        let (seq, flags) = if self.next < self.written.min(self.wnd_end) {
            self.note_sent(now, self.next, false);
            self.departures.note(self.next + 1, now);
            self.next += 1;
            (self.next - 1, 0)
        } else {
            self.note_sent(now, self.next - 1, false);
            self.counters.resent += 1;
            self.scoreboard.note_tlp(self.next - 1);
            (self.next - 1, RETRANSMITTED)
        };
        self.tlp.end_seq = Some(self.next);
        self.tlp.retransmitted_at = (flags != 0).then_some(now);
        self.rto_timer = Timer::new(now, self.rtt.timeout());
        let probe = match flags {
            0 => self.segment(now, seq, 0, true),
            _ => self.non_ect_segment(now, seq, flags, true),
        };
        // After a probe comes the retransmission timer, not another one.
        self.usage.probed();
        Some(probe)
    }

    /// When the first segment not acknowledged was sent last, while nothing is known to be lost (ns).
    fn head_sent(&self) -> Option<u64> {
        let again = self.tlp.retransmitted_at.filter(|_| self.tlp.retransmitted() == Some(self.una));
        again.or(self.departures.first())
    }

    /// Whether an acknowledgement was caused by a probe that repeated the last segment.
    #[inline]
    pub(super) fn is_tlp_ack(&self, ack: &Packet) -> bool {
        ack.has(RETRANSMITTED) && self.tlp.retransmitted_at == Some(ack.sent)
    }

    /// Learns from an acknowledgement what has become of the probe. Repeating the last segment repairs its loss unseen: unless the
    /// receiver says that it had it, the window is reduced when the next acknowledgement advances.
    #[inline]
    pub(super) fn process_tlp_ack(&mut self, now: u64, ack: &Packet, flight: u64) {
        let Some(high) = self.tlp.end_seq.filter(|high| self.una >= *high) else { return };
        if self.tlp.retransmitted_at.is_none() || ack.has(DUPLICATE) && self.is_tlp_ack(ack) {
            self.tlp.end();
        } else if self.una > high {
            self.tlp.end();
            if matches!(self.state, State::Open | State::Reducing) {
                self.state = State::Open;
                self.high_seq = self.next;
                self.counters.reductions += 1;
                self.cwr = self.ecn != Ecn::Off;
                self.controller.on_congestion(Instant::from_ns(now), flight as u32, Congestion::Loss);
                self.cwnd = self.controller.flight_limit();
            }
        }
    }
}
