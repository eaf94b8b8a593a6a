//! What an ACK changes in a sender, step by step.

use super::*;

/// The state of a sender before an ACK.
struct Before {
    /// Segments in flight.
    flight: u64,
    /// Losses so far.
    losses: u64,
    /// Nothing was SACKed or lost, and the ACK SACKs nothing.
    clean: bool,
}

impl Sender {
    /// Takes an ACK.
    #[inline(always)]
    pub(crate) fn on_ack(&mut self, now: u64, ack: &Packet, report: Option<&Report>) {
        if report.is_none() && self.is_expected(ack) {
            self.on_expected_ack(now, ack);
        } else {
            self.on_any_ack(now, ack, report);
        }
    }

    /// Whether an ACK without SACK blocks advances `una` and has no other news, while nothing is lost, probed
    /// or being reduced. Linux takes a fast path under similar conditions (header prediction).
    #[inline(always)]
    fn is_expected(&self, ack: &Packet) -> bool {
        (ack.seq > self.una)
            & (ack.flags & (ECE | DUPLICATE | RETRANSMITTED) == 0)
            & (self.state == State::Open)
            & self.scoreboard.is_clean()
            & (self.rack.reo_timeout == u64::MAX)
            & !self.tlp.is_outstanding()
            & self.rates.is_none()
            & !self.wants_stamps
            & !self.is_explicit
    }

    /// Takes an expected ACK, as [`Sender::on_any_ack`] would.
    #[inline(always)]
    fn on_expected_ack(&mut self, now: u64, ack: &Packet) {
        let delivered = ack.seq - self.una;
        // As in `move_window`, for an ACK that advances.
        self.wnd_end = ack.seq + u64::from(ack.extra);
        let rtt = self.measure_in_order(now, ack);
        self.una = ack.seq;
        self.departures.forget(ack.seq);
        // Nothing is SACKed or lost.
        let in_flight = self.next - self.una;
        let news = self.news(now, delivered, in_flight, Some(rtt));
        self.cwnd = self.controller.limit_after(&news);
        if self.una == self.next {
            return self.set_timer(now, true);
        }
        self.rto_timer = Timer::new(now, news.timeout.ns().unsigned_abs());
        self.tlp.una_advanced = true;
    }

    /// Takes an ACK that may change the state of the sender in any way.
    #[inline(never)]
    pub(super) fn on_any_ack(&mut self, now: u64, ack: &Packet, report: Option<&Report>) {
        if ack.seq < self.una {
            return;
        }
        let before = Before {
            flight: self.in_flight(),
            losses: self.scoreboard.losses(),
            clean: self.scoreboard.is_clean() && !self.tells_of_holes(report),
        };
        let acked = ack.seq - self.una;
        let opened = self.move_window(ack, report);
        let reported = self.take_delivered(now, ack, report, &before);
        // A DSACK counts as delivered, too (Linux).
        let delivered = reported.delivered + u64::from(ack.has(DUPLICATE));
        self.advance(ack.seq);
        let arrival = self.arrival(ack, report, &reported);
        if delivered == 0 && acked == 0 && !opened && before.clean && ack.flags & (ECE | DUPLICATE) == 0 {
            return;
        }
        let lost = self.find_losses(now, ack, acked, &reported, &before);
        let entry = self.change_state(ack.has(ECE), lost);
        let reducing = matches!(self.state, State::Reducing | State::Recovery);
        // ACKs that only SACK let the window grow only where reordering is large (Linux).
        let grows = acked > 0 || self.scoreboard.has_large_reordering();
        let marked = if ack.has(ECE) { delivered } else { 0 };
        self.counters.echoed += marked;
        let news = Ack {
            marked: marked as u32,
            reducing: reducing || !grows,
            state: self.recovery_state(),
            arrival,
            feedback: self.feedback(report),
            ..self.news(now, delivered, self.in_flight(), reported.rtt)
        };
        self.controller.on_ack(&news);
        self.begin_reduction(now, before.flight, entry);
        if self.rates.is_some() {
            self.deliver(&news, before.flight, before.losses);
        }
        let limit = self.controller.flight_limit();
        if !reducing || !self.uses_prr {
            self.cwnd = limit;
        } else if delivered > 0 {
            let progress = acked > 0 && !lost;
            self.cwnd = self.prr.window(delivered, news.in_flight.into(), limit.into(), progress);
        }
        self.set_timer(now, acked > 0);
    }

    /// Whether an ACK comes from a receiver with holes. Where all ACKs have reports, only
    /// those with blocks do.
    fn tells_of_holes(&self, report: Option<&Report>) -> bool {
        let always = self.wants_stamps || self.is_explicit;
        report.is_some_and(|report| !always || report.has_blocks())
    }

    /// Moves the right edge of the receive window; returns whether it moved on. An ACK that advances may move
    /// it back, where a middlebox lowers windows; one with the same number only moves it on (Linux's
    /// `tcp_may_update_window`). Linux also takes a window of zero from the latter, but no receiver takes
    /// back what it has offered, and no middlebox closes a window.
    fn move_window(&mut self, ack: &Packet, report: Option<&Report>) -> bool {
        let edge = ack.seq + u64::from(report.map_or(ack.extra, |report| report.window));
        let moves = edge > self.wnd_end;
        if moves || ack.seq > self.una {
            self.wnd_end = edge;
        }
        moves
    }

    /// Returns what an ACK delivers, after taking its RTT samples and marking what it SACKs.
    fn take_delivered(
        &mut self,
        now: u64,
        ack: &Packet,
        report: Option<&Report>,
        before: &Before,
    ) -> Reported {
        if !before.clean {
            return self.process_sack(now, ack, report);
        }
        let acked = ack.seq - self.una;
        let rtt = self.process_in_order_ack(now, ack, acked);
        Reported {
            delivered: acked,
            rtt,
            newest: acked.checked_sub(1).map(|_| ack.seq - 1),
            ..Reported::default()
        }
    }

    /// The segment that caused an ACK with its stamp, if the controller wants to know and the
    /// segment was sent once.
    fn arrival(&self, ack: &Packet, report: Option<&Report>, reported: &Reported) -> Option<Arrival> {
        if !self.wants_stamps || ack.flags & (RETRANSMITTED | DUPLICATE) != 0 {
            return None;
        }
        let stamp = report.map(|report| report.stamp).filter(|stamp| *stamp > 0);
        reported.newest.map(|segment| Arrival { segment, stamp })
    }

    /// What routers granted, as an ACK returns it.
    fn feedback(&self, report: Option<&Report>) -> Option<Feedback> {
        let header = report?.header?;
        Some(Feedback { version: header.version, value: header.reverse })
    }

    /// Moves `una` to `seq`, and forgets the segments below it.
    fn advance(&mut self, seq: u64) {
        if let Some(rates) = &mut self.rates {
            rates.remove_acked(seq - self.una);
        }
        self.una = seq;
        self.departures.forget(seq);
    }

    /// Learns from an ACK which reductions and timeouts were spurious, and what is lost; returns whether
    /// anything is newly lost.
    fn find_losses(
        &mut self,
        now: u64,
        ack: &Packet,
        acked: u64,
        reported: &Reported,
        before: &Before,
    ) -> bool {
        if ack.has(DUPLICATE) && !self.is_tlp_ack(ack) {
            self.scoreboard.on_dsack();
        }
        self.process_tlp_ack(now, ack, before.flight);
        let verdict = self.check_undo(ack, acked);
        if self.state == State::Loss {
            self.process_frto(now, acked, reported);
        }
        let look = match verdict {
            Verdict::Stands => reported.delivered > 0,
            Verdict::Undone => true,
            Verdict::Pending => false,
        };
        look && (!before.clean || self.state.is_repairing()) && self.detect_losses(now)
    }

    /// Returns what the controller learns from an ACK without marks while nothing is missing: `delivered`
    /// segments, `in_flight` after it, and perhaps an RTT (ns).
    #[inline(always)]
    fn news(&self, now: u64, delivered: u64, in_flight: u64, rtt: Option<u64>) -> Ack {
        let smoothed = self.rtt.smoothed();
        Ack {
            now: Instant::from_ns(now),
            delivered: delivered as u32,
            marked: 0,
            rtt: rtt.map(|rtt| Duration::from_ns(rtt as i64)),
            smoothed: (smoothed > 0).then(|| Duration::from_ns(smoothed as i64)),
            timeout: Duration::from_ns(self.rtt.timeout() as i64),
            in_flight: in_flight as u32,
            window_limited: self.is_window_limited(),
            una: self.una,
            next: self.next,
            reducing: false,
            state: RecoveryState::Open,
            one_way_delay: None,
            arrival: None,
            feedback: None,
        }
    }
}
