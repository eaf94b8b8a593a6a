//! Timers of a sender: retransmission, persist, the wait for reordered segments, for the pace and for the application.

use super::*;

impl Sender {
    /// Sets the retransmission timer after an acknowledgement.
    #[inline]
    pub(super) fn set_timer(&mut self, now: u64, progress: bool) {
        if self.una == self.next {
            self.deadline = u64::MAX;
            self.tail.at = u64::MAX;
            if self.finished.is_none() && self.application.is_finished(self.una) {
                self.finished = Some(now);
            }
            if self.next >= self.limit && self.finished.is_none() {
                // Only the receive window keeps the flow: the persist timer.
                self.deadline = now + self.rtt.timeout();
            }
        } else if progress || self.deadline == u64::MAX {
            self.deadline = now + self.rtt.timeout();
            self.arm_probe(now);
        } else if !self.scoreboard.is_clean() {
            self.tail.at = u64::MAX;
        }
    }

    /// The retransmission timer, the persist timer or the wait for a probe of the tail expired. Poll afterwards; a probe is returned.
    pub(crate) fn on_timeout(&mut self, now: u64) -> Option<Packet> {
        if self.tail.at <= now {
            return self.probe_tail(now);
        }
        self.rtt.back_off();
        self.deadline = now + self.rtt.timeout();
        if self.una == self.next {
            if self.next < self.limit {
                self.deadline = u64::MAX;
                return None;
            }
            let mut probe = self.segment(now, self.next, WINDOW_PROBE, true);
            probe.size = SEGMENT_OVERHEAD as u16 + 1;
            return Some(probe);
        }
        self.counters.timeouts += 1;
        let flight = self.in_flight() as u32;
        self.tail.end();
        self.scoreboard.lose_all(self.una, self.next);
        let reduced = self.state == State::Recovery && self.una < self.high;
        if !reduced && (self.state != State::Loss || self.una > self.restarted) {
            self.undo.begin(&self.controller, false, 0);
        }
        self.restarted = self.una;
        self.controller.on_timeout(Instant::from_ns(now), flight, reduced);
        self.cwnd = self.controller.flight_limit();
        self.state = State::Loss;
        self.high = self.next;
        self.cwr = self.ecn != Ecn::Off;
        None
    }

    /// The time to wait for reordered segments, to pace or to write is over. Poll afterwards.
    pub(crate) fn on_wake(&mut self, now: u64) {
        if self.scoreboard.wait_over(now) {
            let flight = self.in_flight();
            let entry = self.change_state(false);
            if entry == Entry::None {
                return;
            }
            self.begin(now, flight, entry);
            let target = u64::from(self.controller.flight_limit());
            if self.rates.is_none() {
                self.cwnd = self.reduction.window(0, flight, target, false);
            }
        }
    }

    /// When [`Sender::on_timeout`] wants to be called (ns); `u64::MAX` for never.
    #[inline]
    pub(crate) fn deadline(&self) -> u64 {
        self.deadline.min(self.tail.at)
    }

    /// When [`Sender::on_wake`] wants to be called (ns); `u64::MAX` for never. Valid after polling.
    #[inline]
    pub(crate) fn wake(&self, now: u64) -> u64 {
        let mut at = self.scoreboard.patience();
        if let Some(pacer) = &self.pacer
            && pacer.blocked(now)
        {
            return at.min(pacer.next());
        }
        let clock = self.clock();
        if clock > now && self.has_window() {
            return at.min(clock);
        }
        // Without a window it is an acknowledgement that lets the sender ask its application again.
        if self.next == self.written && self.has_window() {
            at = at.min(self.application.next_write(now, self.next));
        }
        at
    }
}
