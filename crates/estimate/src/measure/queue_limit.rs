//! The queue length that a path can hold, and the part of it that a stream may fill.

use crate::stream::{Arrival, StreamRecord};
use headway_units::statistics::upper_median;
use headway_units::{Bytes, Duration};

use super::delay::Baseline;

/// The share of the queue that a stream may fill; three quarters are left to other traffic.
const SHARE: f64 = 0.25;
/// The longest delay that a stream is meant to add, however long the queue can become. When cross traffic
/// happens to exceed its mean, the delay rarely reaches 20 ms, which a voice call does not notice.
const MAX_ADDED_DELAY: Duration = Duration::from_ms(14);
/// Divisor of the allowed delay for a gentle measurement.
const GENTLER: i64 = 2;
/// A loss at less than this share of a delay that other packets survived was not due to a full queue.
const FULL: f64 = 0.7;
/// A loss at more than this share of it certainly was.
const SURELY_FULL: f64 = 0.9;
/// A queue of fewer packets, at the rate of a stream, is not long.
const LONG_QUEUE: i64 = 8;
/// Number of losses remembered.
const LOSSES: usize = 16;

/// Learns the possible length of the queue from the delays of streams.
#[derive(Clone, Debug, Default)]
pub(super) struct QueueLimit {
    gentle: bool,
    /// Size of the packets, on which delays depend.
    packet: Bytes,
    /// The largest one-way delay in any stream without loss.
    reached: Option<Duration>,
    /// The smallest one-way delays immediately before losses.
    at_losses: Vec<Duration>,
}

impl QueueLimit {
    /// Creates the state before any stream.
    pub(super) fn new(gentle: bool) -> QueueLimit {
        QueueLimit { gentle, ..QueueLimit::default() }
    }

    /// Adds a stream; a change of packet size discards all delays.
    pub(super) fn observe(&mut self, record: &StreamRecord) {
        if record.packet != self.packet {
            self.restart();
            self.packet = record.packet;
        }
        if record.lost() == 0 {
            self.reached = self.reached.max(record.arrivals.iter().filter_map(Arrival::one_way_delay).max());
            return;
        }
        let mut before = None;
        for arrival in &record.arrivals {
            match (arrival.one_way_delay(), before) {
                (None, Some(delay)) => self.lost_at(delay),
                (delay, _) => before = delay.or(before),
            }
        }
    }

    /// Returns the number of packets lost while the queue was about as long as ever observed.
    pub(super) fn overflows(&self, baseline: &Baseline) -> usize {
        let survived = self.reached(baseline).scale(SURELY_FULL);
        self.at_losses.iter().filter(|delay| baseline.above(**delay) >= survived).count()
    }

    /// Returns whether most packets of a stream waited in a queue that was about as long as ever observed.
    pub(super) fn is_full_in(&self, record: &StreamRecord, baseline: &Baseline) -> bool {
        let delays =
            record.arrivals.iter().filter_map(Arrival::one_way_delay).map(|delay| baseline.above(delay));
        let usual = upper_median(delays.collect()).unwrap_or_default();
        let least = record.average.time_for(record.packet) * LONG_QUEUE;
        record.packet == self.packet && usual >= self.reached(baseline).scale(FULL).max(least)
    }

    fn lost_at(&mut self, delay: Duration) {
        let place = self.at_losses.partition_point(|other| *other < delay);
        self.at_losses.insert(place, delay);
        self.at_losses.truncate(LOSSES);
    }

    /// Discards all delays, for instance because a clock was stepped.
    pub(super) fn restart(&mut self) {
        *self = QueueLimit::new(self.gentle);
    }

    /// Returns the delay of a full queue, once losses have revealed it.
    fn full(&self, baseline: &Baseline) -> Option<Duration> {
        let survived = self.reached(baseline).scale(FULL);
        self.at_losses.iter().map(|delay| baseline.above(*delay)).find(|delay| *delay >= survived)
    }

    fn reached(&self, baseline: &Baseline) -> Duration {
        self.reached.map_or(Duration::ZERO, |delay| baseline.above(delay))
    }

    /// Returns whether losses have revealed the length of the queue.
    pub(super) fn is_known(&self, baseline: &Baseline) -> bool {
        self.full(baseline).is_some()
    }

    /// Returns how much a stream may add to the delay; `usual` applies until a loss has revealed the length
    /// of the queue.
    pub(super) fn allowed(&self, baseline: &Baseline, usual: Duration) -> Duration {
        let allowed = match self.full(baseline) {
            Some(full) => full.scale(SHARE),
            None => self.reached(baseline).scale(SHARE).max(usual),
        };
        allowed.min(MAX_ADDED_DELAY) / if self.gentle { GENTLER } else { 1 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use headway_units::{Instant, Rate};

    const USUAL: Duration = Duration::from_ms(3);

    /// Returns packets 1 ms apart that arrive after these delays in milliseconds, or never.
    fn record(delays: &[Option<u64>]) -> StreamRecord {
        let ms = |ms: u64| Instant::from_ns(ms * 1_000_000);
        let arrivals = (0..)
            .zip(delays)
            .map(|(index, delay)| Arrival {
                index,
                size: Bytes::new(1_538),
                sent: ms(index.into()),
                received: delay.map(|delay| ms(u64::from(index) + delay)),
            })
            .collect();
        StreamRecord {
            id: 0,
            packet: Bytes::new(1_538),
            average: Rate::from_mbps(12.0),
            intended: vec![Duration::from_ms(1); delays.len() - 1],
            arrivals,
        }
    }

    fn allowed(streams: &[&[Option<u64>]]) -> Duration {
        let (mut limit, mut baseline) = (QueueLimit::default(), Baseline::default());
        for delays in streams {
            baseline.observe(&record(delays));
            limit.observe(&record(delays));
        }
        limit.allowed(&baseline, USUAL)
    }

    #[test]
    fn a_quarter_of_the_queue_that_was_met_may_be_filled_but_14_ms_at_most() {
        assert_eq!(allowed(&[&[Some(10), Some(18)]]), USUAL);
        assert_eq!(allowed(&[&[Some(10), Some(50)]]), Duration::from_ms(10));
        assert_eq!(allowed(&[&[Some(10), Some(210)]]), Duration::from_ms(14));
    }

    #[test]
    fn a_loss_at_the_end_of_the_queue_takes_the_usual_room_away() {
        assert_eq!(
            allowed(&[&[Some(10), Some(17)], &[Some(10), Some(18), None, Some(17)]]),
            Duration::from_ms(2)
        );
    }

    #[test]
    fn a_loss_from_a_short_queue_says_nothing_about_its_end() {
        assert_eq!(allowed(&[&[Some(10), Some(50)], &[Some(10), None, Some(12)]]), Duration::from_ms(10));
    }

    #[test]
    fn delays_of_smaller_packets_are_another_path() {
        let (mut limit, mut baseline) = (QueueLimit::default(), Baseline::default());
        let long = record(&[Some(10), Some(90)]);
        let small = StreamRecord { packet: Bytes::new(500), ..record(&[Some(5), Some(6)]) };
        for record in [&long, &small] {
            baseline.observe(record);
            limit.observe(record);
        }
        assert_eq!(limit.allowed(&baseline, USUAL), USUAL);
    }
}
