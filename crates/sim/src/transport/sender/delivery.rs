//! Delivery-rate samples for the controllers that want them, and pacing.

use super::*;

impl Sender {
    /// Nothing can leave now: the flow is app-limited if its application has no data either.
    #[inline]
    pub(super) fn check_app_limited(&mut self, now: u64) {
        if let Some(rates) = &mut self.rates
            && self.next == self.written
            && self.application.written(now, self.next) == self.next
        {
            rates.set_app_idle();
        }
    }

    /// Records for rate samples that segment `seq` leaves, `alone` if nothing else is in flight.
    #[inline(always)]
    pub(super) fn note_sent(&mut self, now: u64, seq: u64, alone: bool) {
        if self.rates.is_some() {
            self.note_sample(now, seq, alone);
        }
    }

    fn note_sample(&mut self, now: u64, seq: u64, alone: bool) {
        let Some(rates) = &mut self.rates else { return };
        if alone && rates.is_app_limited() {
            self.controller.on_resume(Instant::from_ns(now));
            self.cwnd = self.controller.flight_limit();
        }
        rates.sent(now, seq - self.una, self.una == self.next);
    }

    pub(super) fn pace(&mut self, now: u64, size: u16, first: bool) {
        let pace = Pace {
            rate: self.controller.pacing_rate(),
            bursts: self.bursts.are_large(),
            cwnd: self.cwnd,
            smoothed: self.rtt.smoothed(),
            slow_start: self.in_slow_start(),
        };
        if let Some(pacer) = &mut self.pacer {
            pacer.sent(now, size, first, &pace);
        }
    }

    /// Reports the delivery rate of an ACK to a controller that wants it; `flight` and `losses` are
    /// from before the ACK.
    pub(super) fn deliver(&mut self, news: &Ack, flight: u64, losses: u64) {
        let Some(rates) = &mut self.rates else { return };
        let now = news.now.ns();
        let mut sample = rates.sample(now, news.delivered.into(), self.rtt.min());
        if let Some(sample) = &mut sample {
            // Only the last segment of the flow may be short.
            sample.delayed = sample.delivered == 1
                && self.una > self.application.last()
                && self.application.last_size() < self.size;
        }
        let lost = self.scoreboard.losses();
        let delivery = Delivery {
            delivered: rates.delivered(),
            at: rates.delivered_at(),
            lost,
            losses: (lost - losses) as u32,
            flight_before: flight as u32,
            departure: Instant::from_ns(self.pacer.as_ref().map_or(now, |pacer| pacer.next().max(now))),
            sample,
        };
        self.controller.on_delivery(news, &delivery);
        if self.controller.metrics().is_limiting_rate {
            rates.set_app_limited(news.in_flight.into());
        }
    }
}
