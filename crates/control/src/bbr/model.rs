//! Updates of the model by ACKs, and the state machine that follows from it.

use super::long_term::Verdict;
use super::*;
use crate::RateSample;

impl Bbr {
    /// The bandwidth in use, in segments per microsecond times 2^24.
    pub(super) fn estimate(&self) -> u64 {
        self.long_term.in_use().unwrap_or_else(|| self.bandwidth.max())
    }

    /// `gain` times the BDP in whole segments, rounded up: rounding down would lower the next estimate.
    pub(super) fn bdp(&self, bandwidth: u64, gain: u64) -> u64 {
        let Some(rtt) = self.min_rtt else { return FIRST_WINDOW };
        let product = u128::from(bandwidth) * u128::from(rtt) * u128::from(gain) / u128::from(UNIT);
        product.div_ceil(1 << SCALE) as u64
    }

    /// `segments` plus the bursts that hosts hold: one before the sender's NIC, one in it,
    /// one at the receiver.
    pub(super) fn with_burst_budget(&self, segments: u64) -> u64 {
        let even = (segments + 3 * self.burst()).next_multiple_of(2);
        // With a small BDP a quarter more would be lost in rounding.
        if self.mode == Mode::ProbeBandwidth && self.phase == 0 { even + 2 } else { even }
    }

    /// The segments in flight that `gain` allows.
    fn target_in_flight(&self, gain: u64) -> u64 {
        self.with_burst_budget(self.bdp(self.bandwidth.max(), gain))
    }

    /// The segments in flight when the pacer releases the next burst, if `flight` are now.
    fn in_flight_at_departure(&self, flight: u32, ack: &Ack, delivery: &Delivery) -> u64 {
        let wait = micros(delivery.departure - ack.now);
        let leaves = (u128::from(self.estimate()) * u128::from(wait)) >> SCALE;
        let joins = if self.pacing_gain > UNIT { self.burst() } else { 0 };
        (u64::from(flight) + joins).saturating_sub(leaves as u64)
    }

    pub(super) fn update_model(&mut self, ack: &Ack, delivery: &Delivery) {
        self.update_bandwidth(delivery);
        self.update_aggregation(ack, delivery);
        if self.mode == Mode::ProbeBandwidth && self.phase_is_over(ack, delivery) {
            self.next_phase();
        }
        self.check_full_pipe(delivery);
        self.drain(ack, delivery);
        self.update_min_rtt(ack, delivery);
        self.set_gains();
    }

    /// The sample of an ACK and its interval in microseconds, if it is valid.
    fn usable(delivery: &Delivery) -> Option<(RateSample, u64)> {
        let sample = delivery.sample?;
        let interval = micros(sample.interval?);
        (interval > 0).then_some((sample, interval))
    }

    fn update_bandwidth(&mut self, delivery: &Delivery) {
        self.round_start = false;
        let Some((sample, interval)) = Self::usable(delivery) else { return };
        if sample.prior_delivered >= self.round_end {
            self.round_end = self.delivered;
            self.rounds += 1;
            self.round_start = true;
            self.conserving_packets = false;
        }
        self.sample_long_term(delivery.losses, sample.app_limited);
        let bandwidth = (sample.delivered << SCALE) / interval;
        // An app-limited sample counts only if it exceeds the estimate.
        if !sample.app_limited || bandwidth >= self.bandwidth.max() {
            self.bandwidth.update(BANDWIDTH_ROUNDS, self.rounds, bandwidth);
        }
    }

    pub(super) fn totals(&self) -> long_term::Totals {
        long_term::Totals { delivered: self.delivered, lost: self.lost, at: self.delivered_at }
    }

    /// Updates the detection of a policer.
    pub(super) fn sample_long_term(&mut self, losses: u32, app_limited: bool) {
        let totals = self.totals();
        if self.long_term.in_use().is_some() {
            if self.mode == Mode::ProbeBandwidth && self.round_start && self.long_term.expires() {
                self.long_term.reset(&totals);
                self.enter_probe_bandwidth();
            }
            return;
        }
        let mss = self.mss;
        let close = |difference| payload_rate(mss, difference, UNIT) <= long_term::CLOSE;
        let verdict = self.long_term.sample(&totals, losses > 0, app_limited, self.round_start, close);
        if verdict == Verdict::Policed {
            self.pacing_gain = UNIT;
        }
    }

    fn update_aggregation(&mut self, ack: &Ack, delivery: &Delivery) {
        if ack.delivered > 0 && Self::usable(delivery).is_some() {
            let estimate = self.estimate();
            self.aggregation.update(
                self.delivered_at,
                ack.delivered,
                estimate,
                self.window,
                self.round_start,
            );
        }
    }

    /// Whether the phase of the gain cycle is over.
    fn phase_is_over(&self, ack: &Ack, delivery: &Delivery) -> bool {
        let lasted = micros(self.delivered_at - self.phase_start);
        let full_length = self.min_rtt.is_some_and(|rtt| lasted > rtt);
        if self.pacing_gain == UNIT {
            return full_length;
        }
        let flight = self.in_flight_at_departure(delivery.flight_before, ack, delivery);
        if self.pacing_gain > UNIT {
            // A loss means the bottleneck buffer is full: stop probing for more.
            return full_length && (delivery.losses > 0 || flight >= self.target_in_flight(self.pacing_gain));
        }
        full_length || flight <= self.target_in_flight(UNIT)
    }

    /// Checks whether the bandwidth has stopped growing, that is, the pipe is full.
    fn check_full_pipe(&mut self, delivery: &Delivery) {
        let limited = delivery.sample.is_some_and(|sample| sample.app_limited);
        if self.full || !self.round_start || limited {
            return;
        }
        if self.bandwidth.max() >= self.full_bandwidth * FULL_GROWTH / UNIT {
            self.full_bandwidth = self.bandwidth.max();
            self.full_rounds = 0;
            return;
        }
        self.full_rounds += 1;
        self.full = self.full_rounds >= FULL_ROUNDS;
    }

    fn drain(&mut self, ack: &Ack, delivery: &Delivery) {
        if self.mode == Mode::Startup && self.full {
            self.mode = Mode::Drain;
            self.ssthresh = self.target_in_flight(UNIT) as f64;
        }
        if self.mode == Mode::Drain
            && self.in_flight_at_departure(ack.in_flight, ack, delivery) <= self.target_in_flight(UNIT)
        {
            self.enter_probe_bandwidth();
        }
    }

    fn update_min_rtt(&mut self, ack: &Ack, delivery: &Delivery) {
        let expired = ack.now > self.min_rtt_at + MIN_RTT_AGE;
        // A sample that may include the receiver's ACK delay does not replace an expired minimum.
        let delayed = delivery.sample.is_some_and(|sample| sample.delayed);
        if let Some(rtt) = ack.rtt.map(micros)
            && (expired && !delayed || self.min_rtt.is_none_or(|min| rtt < min))
        {
            self.min_rtt = Some(rtt);
            self.min_rtt_at = ack.now;
        }
        if expired && !self.resumed && self.mode != Mode::ProbeRtt {
            self.mode = Mode::ProbeRtt;
            self.save_window();
            self.probe_rtt_end = None;
        }
        self.limiting_rate = self.mode == Mode::ProbeRtt;
        if self.mode == Mode::ProbeRtt {
            self.probe_rtt(ack);
        }
        if delivery.sample.is_some_and(|sample| sample.delivered > 0) {
            self.resumed = false;
        }
    }

    /// Stays in PROBE_RTT for a round trip with few segments in flight, and for its minimum duration.
    fn probe_rtt(&mut self, ack: &Ack) {
        if self.probe_rtt_end.is_none() {
            if ack.in_flight <= MIN_WINDOW {
                self.probe_rtt_end = Some(ack.now + PROBE_RTT_TIME);
                self.probe_rtt_round_done = false;
                self.round_end = self.delivered;
            }
            return;
        }
        self.probe_rtt_round_done |= self.round_start;
        if self.probe_rtt_round_done {
            self.end_probe_rtt(ack.now);
        }
    }

    fn set_gains(&mut self) {
        (self.pacing_gain, self.window_gain) = match self.mode {
            Mode::Startup => (HIGH_GAIN, HIGH_GAIN),
            Mode::Drain => (DRAIN_GAIN, HIGH_GAIN),
            Mode::ProbeBandwidth if self.long_term.in_use().is_some() => (UNIT, WINDOW_GAIN),
            Mode::ProbeBandwidth => (CYCLE[self.phase], WINDOW_GAIN),
            Mode::ProbeRtt => (UNIT, UNIT),
        };
    }
}

/// `gain` times a bandwidth, less the margin, in payload bytes per second.
pub(super) fn payload_rate(mss: u64, bandwidth: u64, gain: u64) -> u64 {
    let bytes = u128::from(bandwidth) * u128::from(mss * gain) / u128::from(UNIT);
    let rate = bytes * u128::from(1_000_000 / 100 * (100 - MARGIN));
    (rate >> SCALE) as u64
}
