//! Samples of the rate of delivery (draft-cheng-iccrg-delivery-rate-estimation, as Linux takes them).
//!
//! Every segment notes when it leaves how much has been delivered by then. When it is reported, the difference to what has been
//! delivered meanwhile, over the time that took, is a sample. The time is the longer of two: from the sending of the segment
//! reported last before it left to its own sending, and from that report to its own. So neither bursts of segments nor lumps of
//! acknowledgements make the path look faster than it is.

use std::collections::VecDeque;

use headway_core::control::RateSample;
use headway_core::{Duration, Instant};

/// What a segment notes when it is sent; times in ns.
#[derive(Clone, Copy, Debug)]
struct Note {
    sent: u64,
    /// When the segment was sent that was reported last.
    first_sent: u64,
    delivered_at: u64,
    delivered: u64,
    app_limited: bool,
}

/// The segment that an acknowledgement is judged by: the newest it reports.
#[derive(Clone, Copy, Debug)]
struct Judge {
    note: Note,
    /// Time between sending of the segment reported before and of this one, ns.
    sending: u64,
}

/// The delivery of one flow.
#[derive(Debug)]
pub(super) struct Rates {
    /// Of the segments from the first not acknowledged on.
    notes: VecDeque<Note>,
    delivered: u64,
    delivered_at: u64,
    first_sent: u64,
    /// Until more than so many segments are delivered, samples are limited by the application; zero when they are not.
    limited_until: u64,
    /// The application had nothing when it was asked last, although the window would have let it.
    starved: bool,
    judge: Option<Judge>,
}

impl Rates {
    /// Nothing is sent, and the application has written nothing.
    pub(super) fn new() -> Rates {
        Rates {
            notes: VecDeque::new(),
            delivered: 0,
            delivered_at: 0,
            first_sent: 0,
            limited_until: 0,
            starved: true,
            judge: None,
        }
    }

    /// The application has nothing to send.
    pub(super) fn starve(&mut self) {
        self.starved = true;
    }

    /// The application writes, with `in_flight` segments under way; if it had nothing before, it limits them all.
    pub(super) fn fed(&mut self, in_flight: u64) {
        if std::mem::take(&mut self.starved) {
            self.limit(in_flight);
        }
    }

    /// Samples of all that is under way, and of what is sent before it is delivered, are not the path's.
    pub(super) fn limit(&mut self, in_flight: u64) {
        self.limited_until = (self.delivered + in_flight).max(1);
    }

    pub(super) fn is_limited(&self) -> bool {
        self.limited_until > 0
    }

    /// The segment `offset` places after the first that is not acknowledged leaves.
    pub(super) fn sent(&mut self, now: u64, offset: u64, idle: bool) {
        if idle {
            (self.first_sent, self.delivered_at) = (now, now);
        }
        let note = Note {
            sent: now,
            first_sent: self.first_sent,
            delivered_at: self.delivered_at,
            delivered: self.delivered,
            app_limited: self.is_limited(),
        };
        match self.notes.get_mut(offset as usize) {
            Some(old) => *old = note,
            None => self.notes.push_back(note),
        }
    }

    /// The segment at `offset` has been reported for the first time.
    pub(super) fn reported(&mut self, offset: u64) {
        let Some(note) = self.notes.get(offset as usize).copied() else { return };
        if self.judge.is_some_and(|judge| note.sent < judge.note.sent) {
            return;
        }
        self.judge = Some(Judge { note, sending: note.sent - note.first_sent });
        self.first_sent = note.sent;
    }

    /// The first `count` segments are acknowledged.
    pub(super) fn forget(&mut self, count: u64) {
        self.notes.drain(..(count as usize).min(self.notes.len()));
    }

    /// Ends an acknowledgement of `delivered` segments and gives its sample; intervals shorter than `min_rtt` (ns) tell nothing.
    pub(super) fn sample(&mut self, now: u64, delivered: u64, min_rtt: u64) -> Option<RateSample> {
        self.delivered += delivered;
        if self.limited_until > 0 && self.delivered > self.limited_until {
            self.limited_until = 0;
        }
        if delivered > 0 {
            self.delivered_at = now;
        }
        let Judge { note, sending } = self.judge.take()?;
        let interval = sending.max(now - note.delivered_at);
        Some(RateSample {
            prior_delivered: note.delivered,
            delivered: self.delivered - note.delivered,
            interval: (interval >= min_rtt).then(|| Duration::from_ns(interval as i64)),
            app_limited: note.app_limited,
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
        size_of::<Rates>() + self.notes.capacity() * size_of::<Note>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RTT: u64 = 100;

    /// Four segments sent at these times, and acknowledged one by one at those.
    fn samples(sent: [u64; 4], acknowledged: [u64; 4]) -> Vec<RateSample> {
        let mut rates = Rates::new();
        for (offset, time) in sent.into_iter().enumerate() {
            rates.sent(time, offset as u64, offset == 0);
        }
        let sample = |time| {
            rates.reported(0);
            rates.forget(1);
            rates.sample(time, 1, RTT).expect("something is reported")
        };
        acknowledged.into_iter().map(sample).collect()
    }

    #[test]
    fn a_sample_takes_the_longer_of_sending_and_acknowledging() {
        let ns = |sample: &RateSample| sample.interval.map(Duration::ns);
        // Sent together and acknowledged 10 apart, then the other way round.
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
        rates.fed(0);
        rates.sent(0, 0, true);
        rates.sent(0, 1, false);
        rates.reported(0);
        rates.forget(1);
        assert!(rates.sample(100, 1, RTT).expect("one reported").app_limited && rates.is_limited());
        rates.reported(0);
        rates.forget(1);
        assert!(rates.sample(100, 1, RTT).expect("one reported").app_limited && !rates.is_limited());
        rates.sent(200, 0, true);
        rates.reported(0);
        assert!(!rates.sample(300, 1, RTT).expect("one reported").app_limited);
    }

    #[test]
    fn after_a_silence_the_interval_begins_with_the_first_segment() {
        let mut rates = Rates::new();
        for time in [0, 5_000] {
            rates.sent(time, 0, true);
            rates.reported(0);
            rates.forget(1);
            let sample = rates.sample(time + 100, 1, RTT).expect("one reported");
            assert_eq!((sample.delivered, sample.interval), (1, Some(Duration::from_ns(100))));
        }
    }
}
