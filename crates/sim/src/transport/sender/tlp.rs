//! Tail loss probes (TLP, RFC 8985 7, details as in Linux).
//!
//! If the last segments of a flight are lost, no SACK reveals that. So after two RTTs of silence the sender
//! transmits one more segment: new data if there is any, otherwise the last segment again. The ACK reveals
//! holes to RACK long before an RTO would declare the whole flight lost.

use super::*;
use crate::transport::ticks::TICK;

/// Minimum of what the probe timeout adds to two RTTs, ns: two ticks of Linux's clock.
const TIMEOUT_MIN: u64 = 2_000_000;
/// The same if a single segment is in flight, because the receiver may delay its ACK, ns
/// (Linux's minimum RTO).
const DELAYED_ACK: u64 = 200_000_000;
/// Probe timeout before the first RTT measurement, ns.
const INITIAL_PTO: u64 = 1_000_000_000;

/// The TLP state of one flow.
#[derive(Debug)]
pub(super) struct Tlp {
    pub(super) timer: Timer,
    /// A probe is outstanding until everything below this is acknowledged and its fate is known (RFC 8985,
    /// TLP.end_seq).
    end_seq: Option<u64>,
    /// When the probe was sent if it was a retransmission (ns).
    retransmitted_at: Option<u64>,
    /// `una` has advanced since the timer was set.
    pub(super) una_advanced: bool,
}

impl Tlp {
    pub(super) fn new() -> Tlp {
        Tlp { timer: Timer::OFF, end_seq: None, retransmitted_at: None, una_advanced: false }
    }

    /// Whether the fate of a probe is unknown.
    pub(super) fn is_outstanding(&self) -> bool {
        self.end_seq.is_some()
    }

    /// The segment that the probe retransmitted.
    pub(super) fn retransmitted(&self) -> Option<u64> {
        self.retransmitted_at.and(self.end_seq).map(|end| end - 1)
    }

    /// Ends the episode, because of a reduction or an RTO.
    pub(super) fn end(&mut self) {
        *self = Tlp::new();
    }
}

impl Sender {
    /// Schedules a probe after something was `sent` or acknowledged: at the RTO at the latest, plus
    /// any delay by pacing.
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

    /// Sends a probe unless one is outstanding.
    pub(super) fn send_tlp(&mut self, now: u64) -> Option<Packet> {
        self.tlp.timer = Timer::OFF;
        if self.tlp.end_seq.is_some() {
            self.rto_timer = self.rto_from(now, self.head_sent());
            return None;
        }
        if self.next == self.written {
            self.write(now);
        }
        let is_new = self.next < self.written.min(self.wnd_end);
        if !is_new && !self.may_retransmit(self.next - 1) {
            // The window has shrunk: as Linux, wait for the RTO.
            self.rto_timer = self.rto_from(now, self.head_sent());
            return None;
        }
        let (seq, flags) = if is_new {
            self.note_sent(now, self.next, false);
            self.departures.note(self.next + 1, now);
            self.next += 1;
            self.count_in_reduction();
            (self.next - 1, 0)
        } else {
            self.note_sent(now, self.next - 1, false);
            self.counters.retransmitted += 1;
            self.scoreboard.note_tlp(self.next - 1);
            (self.next - 1, RETRANSMITTED)
        };
        self.tlp.end_seq = Some(self.next);
        self.tlp.retransmitted_at = (flags != 0).then_some(now);
        self.rto_timer = Timer::new(now, self.rtt.timeout());
        let probe = match flags {
            0 => self.segment(now, seq, 0, true),
            _ => self.segment_without_new_data(now, seq, flags, true),
        };
        // The RTO follows a probe, not another probe.
        self.usage.probed();
        Some(probe)
    }

    /// When the first segment not acknowledged was last sent while no loss is known (ns).
    fn head_sent(&self) -> Option<u64> {
        let again = self.tlp.retransmitted_at.filter(|_| self.tlp.retransmitted() == Some(self.una));
        again.or(self.departures.first())
    }

    /// Whether the ACK was triggered by a probe that retransmitted the last segment.
    pub(super) fn is_tlp_ack(&self, ack: &Packet) -> bool {
        ack.has(RETRANSMITTED) && self.tlp.retransmitted_at == Some(ack.sent)
    }

    /// Detects from an ACK whether the probe repaired a loss, which nothing else reveals: unless a DSACK
    /// shows that the receiver had the segment, the window is reduced when the next ACK advances `una`.
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
