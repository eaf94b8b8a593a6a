//! ACKs that only advance the window, which are by far the most: the fast path of [`Sender::on_ack`].

use super::*;

impl Sender {
    /// Whether an ACK without SACK blocks advances `una` and has no other news, while nothing is lost, probed or being reduced. Linux
    /// takes a fast path under similar conditions (header prediction).
    #[inline(always)]
    pub(super) fn is_expected(&self, ack: &Packet) -> bool {
        (ack.seq > self.una)
            & (ack.flags & (ECE | DUPLICATE | RETRANSMITTED) == 0)
            & (self.state == State::Open)
            & self.scoreboard.is_clean()
            & (self.rack.reo_timeout == u64::MAX)
            & !self.tlp.is_outstanding()
            & self.rates.is_none()
    }

    /// Takes an expected ACK, as [`Sender::on_any_ack`] would.
    #[inline(always)]
    pub(super) fn on_expected_ack(&mut self, now: u64, ack: &Packet) {
        let delivered = ack.seq - self.una;
        self.wnd_end = self.wnd_end.max(ack.seq + u64::from(ack.extra));
        let rtt = self.measure_in_order(now, ack);
        self.una = ack.seq;
        self.departures.forget(ack.seq);
        let (smoothed, timeout) = (self.rtt.smoothed(), self.rtt.timeout());
        self.cwnd = self.controller.limit_after(&Ack {
            now: Instant::from_ns(now),
            delivered: delivered as u32,
            marked: 0,
            rtt: Some(Duration::from_ns(rtt as i64)),
            smoothed: (smoothed > 0).then(|| Duration::from_ns(smoothed as i64)),
            timeout: Duration::from_ns(timeout as i64),
            in_flight: (self.next - self.una) as u32,
            window_limited: self.is_window_limited(),
            una: self.una,
            next: self.next,
            reducing: false,
        });
        if self.una == self.next {
            return self.set_timer(now, true);
        }
        self.rto_timer = Timer::new(now, timeout);
        self.tlp.una_advanced = true;
    }
}
