//! Sending: which segment leaves next.

use super::*;

impl Sender {
    /// The next segment that may leave now; call until it returns `None`.
    #[inline(always)]
    pub(crate) fn poll(&mut self, now: u64) -> Option<Packet> {
        let packet = self.next_packet(now);
        if packet.is_none() && self.frto.falls_back(self.next, self.high_seq) {
            return self.next_packet_after_frto(now);
        }
        packet
    }

    #[cold]
    fn next_packet_after_frto(&mut self, now: u64) -> Option<Packet> {
        self.next_packet(now)
    }

    #[inline(always)]
    fn next_packet(&mut self, now: u64) -> Option<Packet> {
        let in_flight = self.in_flight();
        if in_flight >= u64::from(self.cwnd) {
            return self.pause(now, true);
        }
        let lost = if self.frto.sends_new_data() { None } else { self.next_retransmission() };
        let within = self.bursts.is_within(lost);
        if !within && self.pacer.as_ref().is_some_and(|pacer| pacer.blocked(now)) {
            self.check_app_limited(now);
            return self.pause(now, false);
        }
        let held = !within && self.earliest_departure() > now;
        if !held && let Some(seq) = lost.filter(|_| self.bursts.may_retransmit()) {
            return Some(self.retransmit(now, seq, in_flight, !within));
        }
        if self.next == self.written {
            self.write(now);
        }
        if self.next >= self.written.min(self.wnd_end) {
            self.bursts.end();
            self.check_app_limited(now);
            return self.pause(now, false);
        }
        if held {
            return self.pause(now, true);
        }
        let seq = self.next;
        if seq == self.una && seq > 0 {
            self.restart_after_idle(now);
        }
        if !within {
            if self.sends_single_segments() {
                self.departures.note(seq + 1, now);
            } else if let Some(limited) = self.begin_burst(now, in_flight) {
                return self.pause(now, limited);
            }
        }
        self.bursts.sent();
        self.note_sent(now, seq, in_flight == 0);
        self.next += 1;
        self.count_in_reduction();
        let flags = if std::mem::take(&mut self.cwr) { CWR } else { 0 };
        Some(self.segment(now, seq, flags, !within))
    }

    /// The next lost segment, if it may be sent again.
    #[inline(always)]
    pub(super) fn next_retransmission(&self) -> Option<u64> {
        self.scoreboard.next_lost().filter(|seq| self.may_retransmit(*seq))
    }

    /// Whether a segment may be sent again: not beyond a window that has shrunk, unless it is the first one
    /// that is not acknowledged (Linux's `__tcp_retransmit_skb`).
    pub(super) fn may_retransmit(&self, seq: u64) -> bool {
        seq < self.wnd_end || seq == self.una
    }

    /// Retransmits a lost segment, the `first` of a burst or not.
    #[inline(never)]
    fn retransmit(&mut self, now: u64, seq: u64, in_flight: u64, first: bool) -> Packet {
        if first {
            self.begin_retransmission_burst(seq);
        }
        self.bursts.retransmitted();
        self.scoreboard.retransmit(now, seq);
        self.counters.retransmitted += 1;
        self.note_sent(now, seq, in_flight == 0);
        self.count_in_reduction();
        self.undo.retransmitted(now);
        if seq == self.una {
            self.rto_timer = Timer::new(now, self.rtt.timeout());
        }
        self.segment_without_new_data(now, seq, RETRANSMITTED, first)
    }

    /// Counts a segment that leaves during a reduction. A TLP that retransmits does not count (Linux's
    /// `prr_out`), nor does a window probe.
    #[inline(always)]
    pub(super) fn count_in_reduction(&mut self) {
        if self.state != State::Open {
            self.prr.sent();
        }
    }

    /// A retransmission or window probe. With classic ECN it is not ECN-capable: a mark would be attributed
    /// to the original, or be lost with the packet (RFC 3168 6.1.5, 6.1.6).
    pub(super) fn segment_without_new_data(&mut self, now: u64, seq: u64, flag: u8, first: bool) -> Packet {
        let mut packet = self.segment(now, seq, flag, first);
        if self.ecn == Ecn::Classic {
            packet.flags &= !self.ect;
        }
        packet
    }

    pub(super) fn has_window(&self) -> bool {
        self.in_flight() < u64::from(self.cwnd)
    }

    /// The earliest departure that the controller's gap allows (ns); zero if ACKs clock the flow. It
    /// counts from the last departure and is read at every event, so that each ACK moves the pending
    /// departure (ls-aimd 2.4).
    pub(super) fn earliest_departure(&self) -> u64 {
        if self.sets_gaps { self.departure_after_gap() } else { 0 }
    }

    #[inline(never)]
    fn departure_after_gap(&self) -> u64 {
        if let Some(slot) = &self.slot {
            return slot.earliest();
        }
        self.controller.gap(self.next).map_or(0, |gap| self.last_sent + gap.ns().unsigned_abs())
    }

    /// Asks the application for more data.
    pub(super) fn write(&mut self, now: u64) {
        self.written = self.application.written(now, self.next);
        let in_flight = self.in_flight();
        if let Some(rates) = &mut self.rates
            && self.written > self.next
        {
            rates.on_write(in_flight);
        }
    }

    /// Restarts with a smaller window after an idle time longer than the RTO (RFC 2861).
    fn restart_after_idle(&mut self, now: u64) {
        let idle = now - self.last_sent;
        let timeout = self.rtt.timeout();
        if idle > timeout {
            let (idle, timeout) = (Duration::from_ns(idle as i64), Duration::from_ns(timeout as i64));
            self.controller.on_idle(Instant::from_ns(now), idle, timeout);
            self.cwnd = self.controller.flight_limit();
        }
    }

    #[inline(always)]
    pub(super) fn segment(&mut self, now: u64, seq: u64, flags: u8, first: bool) -> Packet {
        self.counters.sent += 1;
        self.last_sent = now;
        self.usage.sent();
        if self.rto_timer.is_off() {
            self.rto_timer = Timer::new(now, self.rtt.timeout());
        }
        let size = if seq == self.application.last() { self.application.last_size() } else { self.size };
        // What a line delays does not delay the schedule.
        let due = self.slot.as_ref().map_or(now, |slot| slot.due.unwrap_or(now));
        if self.sets_gaps {
            self.note_departure(now, seq, size, flags & RETRANSMITTED != 0);
        }
        if self.pacer.is_some() {
            self.pace(due, size, first);
        }
        let ect = if self.ecn == Ecn::Off { 0 } else { self.ect };
        Packet {
            sent: now,
            seq,
            owner: self.owner,
            route: self.route,
            size,
            kind: Kind::Segment,
            flags: flags | ect,
            at: 0,
            extra: 0,
            joined: 0,
        }
    }
}
