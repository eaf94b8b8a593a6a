//! Time-based loss detection (RACK, RFC 8985 6.2, details as in Linux).
//!
//! A segment, original or retransmitted, is lost if it left before one that has been delivered and is older
//! than RTT plus the reordering window. A timer is set for segments that are not old enough yet.

use super::*;
use crate::transport::ticks::expiry;

/// Slack of the reordering timer, ns: two ticks (Linux's `TCP_TIMEOUT_MIN_US`).
const TIMEOUT_MIN: u64 = 2_000_000;

/// State of RACK: the most recently sent segment among those delivered.
#[derive(Debug)]
pub(super) struct Rack {
    /// When it left (ns), and one past its number.
    sent: u64,
    end: u64,
    /// RTT of the last segment processed (ns); SACKed segments are processed before those in order. So a hole
    /// right above a cumulative ACK is kept until the next ACK (Linux).
    rtt: u64,
    /// The last detection found a lost retransmission.
    pub(super) lost_retrans: bool,
    /// When the reordering timer expires (ns); `u64::MAX` when it is off.
    pub(super) reo_timeout: u64,
}

impl Rack {
    pub(super) fn new() -> Rack {
        Rack { sent: 0, end: 0, rtt: 0, lost_retrans: false, reo_timeout: u64::MAX }
    }

    /// The segments below `end`, the last of which left at `sent` (ns), are delivered.
    pub(super) fn advance(&mut self, now: u64, sent: u64, end: u64) {
        self.rtt = now - sent;
        (self.sent, self.end) = (self.sent, self.end).max((sent, end));
    }
}

impl Sender {
    /// The reordering window (ns): zero until reordering is seen if three segments are SACKed or losses are
    /// being repaired; otherwise quarters of the minimum RTT, at most the smoothed RTT.
    fn reo_wnd(&mut self) -> u64 {
        let reo_wnd_steps = self.scoreboard.reo_wnd_steps(self.una, self.next);
        if self.scoreboard.has_zero_reo_wnd(self.state.is_repairing()) {
            return 0;
        }
        (self.rtt.min() / 4).saturating_mul(reo_wnd_steps).min(self.rtt.smoothed())
    }

    /// Detects losses and sets the reordering timer; returns whether any segment is newly lost.
    pub(super) fn detect_losses(&mut self, now: u64) -> bool {
        let reo_wnd = self.reo_wnd();
        let Rack { sent, end, rtt, .. } = self.rack;
        self.scoreboard.advance(self.una);
        let earlier = self.departures.by(sent, end);
        // Segments that left later than this are not lost yet.
        let old = (now - rtt).checked_sub(reo_wnd);
        let found = old.is_some_and(|old| {
            let bound = if old >= sent { earlier } else { self.departures.by(old, u64::MAX).min(earlier) };
            self.rack.lost_retrans = self.scoreboard.mark_lost_retrans(self.una, (sent, end), old);
            self.scoreboard.mark_lost_below(bound) || self.rack.lost_retrans
        });
        let hole = self.scoreboard.last_hole(earlier).and_then(|hole| self.departures.of(hole));
        let retransmission = self.scoreboard.last_retransmitted_at(self.una, (sent, end));
        self.rack.reo_timeout = match hole.max(retransmission) {
            Some(left) => expiry(now, (left + rtt + reo_wnd + TIMEOUT_MIN).saturating_sub(now)),
            None => u64::MAX,
        };
        found
    }

    /// The reordering timer expired: the segments it was set for are lost.
    pub(super) fn on_reo_timeout(&mut self, now: u64) {
        let found = self.detect_losses(now);
        self.rack.reo_timeout = u64::MAX;
        let left = self.scoreboard.retransmitted_at(self.una).or(self.departures.first());
        self.rto_timer = self.rto_from(now, left);
        if !found {
            return;
        }
        let entry = match self.state {
            State::Recovery => return,
            State::Reducing => Entry::Deeper,
            State::Open | State::Loss => Entry::New,
        };
        self.state = State::Recovery;
        let flight = self.in_flight();
        self.begin_reduction(now, flight, entry);
        let limit = self.controller.flight_limit();
        self.cwnd = if self.uses_prr { self.prr.window(1, flight, limit.into(), false) } else { limit };
    }
}
