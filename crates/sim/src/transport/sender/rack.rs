//! Loss detection by time (RACK, RFC 8985 6.2, details as in Linux).
//!
//! Whatever left before a segment that has been reported, and longer before it than packets are given to be overtaken, is lost; first
//! copies and retransmissions alike. What left shortly before it is lost when its time is over.

use super::*;
use crate::transport::ticks::expiry;

/// What the wait for overtaken segments is longer, ns: two ticks (Linux's `TCP_TIMEOUT_MIN_US`).
const TIMEOUT_MIN: u64 = 2_000_000;

/// The segment that left last among those reported.
#[derive(Debug)]
pub(super) struct Rack {
    /// When it left (ns), and one past its number.
    sent: u64,
    end: u64,
    /// Round-trip time of the segment reported last (ns): of those in SACK blocks and in order, the last in order. So a hole right
    /// above what an acknowledgement advances over is given until the next one (Linux).
    rtt: u64,
    /// The last look found a retransmission lost.
    pub(super) lost_retrans: bool,
    /// When the wait for overtaken segments is over (ns); `u64::MAX` when nothing is waited for.
    pub(super) reo_timeout: u64,
}

impl Rack {
    pub(super) fn new() -> Rack {
        Rack { sent: 0, end: 0, rtt: 0, lost_retrans: false, reo_timeout: u64::MAX }
    }

    /// Segments below `end`, the last of which left at `sent`, are reported for the first time.
    #[inline]
    pub(super) fn advance(&mut self, now: u64, sent: u64, end: u64) {
        self.rtt = now - sent;
        (self.sent, self.end) = (self.sent, self.end).max((sent, end));
    }
}

impl Sender {
    /// How long segments are given to be overtaken: no time until that has been seen, once three have been reported above a hole or
    /// losses are being repaired; otherwise quarters of the smallest round-trip time, at most the smoothed one.
    fn reo_wnd(&mut self) -> u64 {
        let reo_wnd_steps = self.scoreboard.reo_wnd_steps(self.una, self.next);
        if self.scoreboard.has_zero_reo_wnd(self.state.is_repairing()) {
            return 0;
        }
        (self.rtt.min() / 4).saturating_mul(reo_wnd_steps).min(self.rtt.smoothed())
    }

    /// Looks for losses, and sets the time to look again; says whether any is new.
    pub(super) fn detect_losses(&mut self, now: u64) -> bool {
        let reo_wnd = self.reo_wnd();
        let Rack { sent, end, rtt, .. } = self.rack;
        self.scoreboard.advance(self.una);
        let earlier = self.departures.by(sent, end);
        // What left later than this is waited for.
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

    /// The wait for overtaken segments is over: those that have not come are lost.
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
