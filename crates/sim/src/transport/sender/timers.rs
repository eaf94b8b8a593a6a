//! Timers of a sender: retransmission, persist, reordering, pacing, application.

use super::*;

impl Sender {
    /// Rearms the retransmission timer after an ACK.
    #[inline]
    pub(super) fn set_timer(&mut self, now: u64, progress: bool) {
        if self.una == self.next {
            self.rto_timer = Timer::OFF;
            self.tlp.timer = Timer::OFF;
            self.application.acknowledged(now, self.una);
            if self.finished.is_none() && self.application.is_finished(self.una) {
                self.finished = Some(now);
            }
            if self.next >= self.wnd_end && self.finished.is_none() {
                // The receive window is closed: the persist timer.
                self.rto_timer = Timer::new(now, self.rtt.timeout());
            }
        } else if self.rack.reo_timeout < u64::MAX {
            // Linux uses one timer for all purposes; the RTO continues after the reordering timer.
            self.tlp.timer = Timer::OFF;
            self.rto_timer.hold(self.rack.reo_timeout + 1);
        } else if progress || self.rto_timer.is_off() {
            self.rto_timer = Timer::new(now, self.rtt.timeout());
            self.tlp.una_advanced = true;
        } else if !self.scoreboard.is_clean() {
            self.tlp.timer = Timer::OFF;
        }
    }

    /// A retransmission timer set now that counts from `left`, when the first segment not
    /// acknowledged was last sent (ns).
    pub(super) fn rto_from(&self, now: u64, left: Option<u64>) -> Timer {
        Timer::new(now, (left.unwrap_or(now) + self.rtt.timeout()).saturating_sub(now))
    }

    /// The retransmission, persist or TLP timer expired. Returns a probe if one is to be
    /// sent; poll afterwards.
    pub(crate) fn on_timeout(&mut self, now: u64) -> Option<Packet> {
        if self.tlp.timer.fires(now) {
            return self.send_tlp(now);
        }
        self.rtt.back_off();
        self.rto_timer = Timer::new(now, self.rtt.timeout());
        if self.una == self.next {
            if self.next < self.wnd_end {
                self.rto_timer = Timer::OFF;
                return None;
            }
            let mut probe = self.segment_without_new_data(now, self.next, WINDOW_PROBE, true);
            probe.size = SEGMENT_OVERHEAD as u16 + 1;
            return Some(probe);
        }
        self.counters.timeouts += 1;
        if let Some(pacer) = &mut self.pacer {
            pacer.release(now);
        }
        let flight = self.in_flight() as u32;
        self.tlp.end();
        self.rack.reo_timeout = u64::MAX;
        self.scoreboard.mark_all_lost(self.una, self.next);
        // The flight outstanding at the last reduction is reduced only once, unless that was an RTO and `una`
        // has advanced since (Linux).
        let reduced = self.una < self.high_seq
            && match self.state {
                State::Open => false,
                State::Reducing | State::Recovery => true,
                State::Loss => self.frto.began_at(self.una),
            };
        if !reduced {
            self.undo.begin(&self.controller, false, 0);
        }
        let begins = matches!(self.state, State::Open | State::Reducing);
        self.frto = Frto::new(self.una, begins, &self.frto, self.state == State::Loss);
        self.controller.on_timeout(Instant::from_ns(now), flight, reduced);
        self.cwnd = self.controller.flight_limit();
        self.state = State::Loss;
        self.high_seq = self.next;
        self.cwr = self.ecn != Ecn::Off;
        None
    }

    /// The reordering timer or the pacing timer expired, or the application writes. Poll afterwards.
    pub(crate) fn on_wake(&mut self, now: u64) {
        if self.rack.reo_timeout <= now {
            self.on_reo_timeout(now);
        }
    }

    /// A time before which [`Sender::on_timeout`] need not be called (ns); `u64::MAX` for never.
    pub(crate) fn deadline(&self) -> u64 {
        self.rto_timer.not_before().min(self.tlp.timer.not_before())
    }

    /// Whether to call [`Sender::on_timeout`] now; if not, [`Sender::deadline`] is exact afterwards.
    pub(crate) fn is_due(&mut self, now: u64) -> bool {
        self.rto_timer.fires(now) | self.tlp.timer.fires(now)
    }

    /// When to call [`Sender::on_wake`] (ns); `u64::MAX` for never. Valid after polling.
    pub(crate) fn wake(&self, now: u64) -> u64 {
        let mut at = self.rack.reo_timeout;
        if let Some(pacer) = &self.pacer
            && pacer.blocked(now)
        {
            return at.min(pacer.next());
        }
        let clock = self.earliest_departure();
        if clock > now && self.has_window() {
            return at.min(clock);
        }
        // Without window space, only an ACK lets the sender ask its application again.
        if self.next == self.written && self.has_window() {
            at = at.min(self.application.next_write(now, self.next));
        }
        at
    }
}
