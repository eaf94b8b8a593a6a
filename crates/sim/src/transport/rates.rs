//! Delivery-rate samples (draft-cheng-iccrg-delivery-rate-estimation, as in Linux).
//!
//! Each segment records, when sent, how much was delivered by then. When it is delivered, the increase
//! since then over the elapsed time is a sample. The elapsed time is the longer of two: the send
//! interval, from the segment delivered most recently before it left to its own departure, and the ACK
//! interval, from that delivery to its own. So neither bursts of segments nor bursts of ACKs make the
//! path look faster than it is.

use std::collections::VecDeque;

use headway_control::RateSample;
use headway_units::{Duration, Instant};

/// State recorded when a segment is sent; times in ns.
#[derive(Clone, Copy, Debug)]
struct PacketState {
    sent: u64,
    /// When the segment was sent that had been delivered most recently.
    first_sent: u64,
    delivered_at: u64,
    delivered: u64,
    app_limited: bool,
}

/// The most recently sent segment among those that the current ACK delivers.
#[derive(Clone, Copy, Debug)]
struct Sampled {
    packet: PacketState,
    /// The send interval, ns.
    send_elapsed: u64,
}

/// Delivery-rate estimator of one flow.
#[derive(Debug, Default)]
pub(super) struct Rates {
    /// Of each segment from `una` on.
    packets: VecDeque<PacketState>,
    delivered: u64,
    delivered_at: u64,
    first_sent: u64,
    /// Samples are app-limited until more than this many segments are delivered; zero if they are not.
    app_limited_until: u64,
    /// The application had no data at the last check, although the window was open.
    app_idle: bool,
    sampled: Option<Sampled>,
}

impl Rates {
    /// An estimator of a flow that has sent nothing and whose application has written nothing.
    pub(super) fn new() -> Rates {
        Rates { app_idle: true, ..Rates::default() }
    }

    /// The application has no data to send.
    pub(super) fn set_app_idle(&mut self) {
        self.app_idle = true;
    }

    /// The application writes while `in_flight` segments are in flight; if it had no data before, they are
    /// app-limited.
    pub(super) fn on_write(&mut self, in_flight: u64) {
        if std::mem::take(&mut self.app_idle) {
            self.set_app_limited(in_flight);
        }
    }

    /// Marks samples app-limited until everything in flight, and what is sent before that is delivered, is
    /// delivered.
    pub(super) fn set_app_limited(&mut self, in_flight: u64) {
        self.app_limited_until = (self.delivered + in_flight).max(1);
    }

    pub(super) fn is_app_limited(&self) -> bool {
        self.app_limited_until > 0
    }

    /// Records that the segment `offset` places after `una` leaves; `idle` if nothing was outstanding.
    pub(super) fn sent(&mut self, now: u64, offset: u64, idle: bool) {
        if idle {
            (self.first_sent, self.delivered_at) = (now, now);
        }
        let packet = PacketState {
            sent: now,
            first_sent: self.first_sent,
            delivered_at: self.delivered_at,
            delivered: self.delivered,
            app_limited: self.is_app_limited(),
        };
        match self.packets.get_mut(offset as usize) {
            Some(old) => *old = packet,
            None => self.packets.push_back(packet),
        }
    }

    /// The segment `offset` places after `una` is delivered.
    pub(super) fn on_delivered(&mut self, offset: u64) {
        let Some(packet) = self.packets.get(offset as usize).copied() else { return };
        if self.sampled.is_some_and(|sampled| packet.sent < sampled.packet.sent) {
            return;
        }
        self.sampled = Some(Sampled { packet, send_elapsed: packet.sent - packet.first_sent });
        self.first_sent = packet.sent;
    }

    /// Removes the first `count` segments, which are acknowledged.
    pub(super) fn remove_acked(&mut self, count: u64) {
        self.packets.drain(..(count as usize).min(self.packets.len()));
    }

    /// Returns the sample of an ACK that delivers `delivered` segments; its interval is `None`
    /// below `min_rtt` (ns).
    pub(super) fn sample(&mut self, now: u64, delivered: u64, min_rtt: u64) -> Option<RateSample> {
        self.delivered += delivered;
        if self.app_limited_until > 0 && self.delivered > self.app_limited_until {
            self.app_limited_until = 0;
        }
        if delivered > 0 {
            self.delivered_at = now;
        }
        let Sampled { packet, send_elapsed } = self.sampled.take()?;
        let interval = send_elapsed.max(now - packet.delivered_at);
        Some(RateSample {
            prior_delivered: packet.delivered,
            delivered: self.delivered - packet.delivered,
            interval: (interval >= min_rtt).then(|| Duration::from_ns(interval as i64)),
            app_limited: packet.app_limited,
            delayed: false,
        })
    }

    pub(super) fn delivered(&self) -> u64 {
        self.delivered
    }

    pub(super) fn delivered_at(&self) -> Instant {
        Instant::from_ns(self.delivered_at)
    }

    pub(super) fn memory(&self) -> usize {
        size_of::<Rates>() + self.packets.capacity() * size_of::<PacketState>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RTT: u64 = 100;

    /// The samples of four segments sent at the times `sent` and acknowledged one by one at `acknowledged`.
    fn samples(sent: [u64; 4], acknowledged: [u64; 4]) -> Vec<RateSample> {
        let mut rates = Rates::new();
        for (offset, time) in sent.into_iter().enumerate() {
            rates.sent(time, offset as u64, offset == 0);
        }
        let sample = |time| {
            rates.on_delivered(0);
            rates.remove_acked(1);
            rates.sample(time, 1, RTT).expect("something is reported")
        };
        acknowledged.into_iter().map(sample).collect()
    }

    #[test]
    fn a_sample_takes_the_longer_of_sending_and_acknowledging() {
        let ns = |sample: &RateSample| sample.interval.map(Duration::ns);
        // Sent together and acknowledged 10 ns apart, then the other way round.
        let path = samples([0; 4], [100, 110, 120, 130]);
        assert_eq!(path.iter().map(ns).collect::<Vec<_>>(), [Some(100), Some(110), Some(120), Some(130)]);
        assert_eq!(path.iter().map(|sample| sample.delivered).collect::<Vec<_>>(), [1, 2, 3, 4]);
        let lump = samples([0, 50, 100, 150], [160; 4]);
        assert_eq!(lump.iter().map(ns).collect::<Vec<_>>(), [Some(160); 4]);
    }

    #[test]
    fn intervals_shorter_than_a_round_trip_are_no_samples() {
        assert_eq!(samples([0; 4], [99, 99, 99, 100])[2].interval, None);
        assert!(samples([0; 4], [99, 99, 99, 100])[3].interval.is_some());
    }

    #[test]
    fn a_silent_application_limits_what_is_sent_until_its_gap_is_acknowledged() {
        let mut rates = Rates::new();
        rates.on_write(0);
        rates.sent(0, 0, true);
        rates.sent(0, 1, false);
        rates.on_delivered(0);
        rates.remove_acked(1);
        assert!(rates.sample(100, 1, RTT).expect("one reported").app_limited && rates.is_app_limited());
        rates.on_delivered(0);
        rates.remove_acked(1);
        assert!(rates.sample(100, 1, RTT).expect("one reported").app_limited && !rates.is_app_limited());
        rates.sent(200, 0, true);
        rates.on_delivered(0);
        assert!(!rates.sample(300, 1, RTT).expect("one reported").app_limited);
    }

    #[test]
    fn after_a_silence_the_interval_begins_with_the_first_segment() {
        let mut rates = Rates::new();
        for time in [0, 5_000] {
            rates.sent(time, 0, true);
            rates.on_delivered(0);
            rates.remove_acked(1);
            let sample = rates.sample(time + 100, 1, RTT).expect("one reported");
            assert_eq!((sample.delivered, sample.interval), (1, Some(Duration::from_ns(100))));
        }
    }
}
