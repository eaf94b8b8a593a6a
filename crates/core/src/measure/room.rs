//! How much queue a path has room for, and how much of it a stream may fill.

use crate::stream::{Arrival, StreamRecord};
use crate::units::{Bytes, Duration};

use super::delay::Baseline;

/// Share of the room that a stream may fill: three quarters are left to others.
const SHARE: f64 = 0.25;
/// The longest that a stream is meant to make others wait, however much room there is: with traffic that is by chance more than the mean it
/// rarely becomes 20 ms, which a voice call does not notice.
const LONGEST_WAIT: Duration = Duration::from_ms(14);
/// A gentle measurement adds this part of what others may.
const GENTLER: i64 = 2;
/// A loss at less than this share of the delay that others survived did not come from a full queue.
const FULL: f64 = 0.7;
/// A loss at more than this share of it surely did.
const SURELY_FULL: f64 = 0.9;
/// Losses remembered.
const LOSSES: usize = 16;

/// Learns from the delays of streams how long the queue can become.
#[derive(Clone, Debug, Default)]
pub(super) struct Room {
    gentle: bool,
    /// Size of the packets, on which delays depend.
    packet: Bytes,
    /// The largest one-way delay of a packet whose stream lost none.
    reached: Option<Duration>,
    /// One-way delays right before losses, the least ones.
    at_losses: Vec<Duration>,
}

impl Room {
    /// The state before any stream.
    pub(super) fn new(gentle: bool) -> Room {
        Room { gentle, ..Room::default() }
    }

    /// Takes in a stream; delays of packets of another size are forgotten.
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

    /// Packets lost where the queue was about as long as it has ever been.
    pub(super) fn overflows(&self, baseline: &Baseline) -> usize {
        let survived = self.reached(baseline).scale(SURELY_FULL);
        self.at_losses.iter().filter(|delay| baseline.above(**delay) >= survived).count()
    }

    fn lost_at(&mut self, delay: Duration) {
        let place = self.at_losses.partition_point(|other| *other < delay);
        self.at_losses.insert(place, delay);
        self.at_losses.truncate(LOSSES);
    }

    /// Forgets all delays, for instance because a clock was stepped.
    pub(super) fn restart(&mut self) {
        *self = Room::new(self.gentle);
    }

    /// The delay at which the queue is full, once losses have shown it.
    fn full(&self, baseline: &Baseline) -> Option<Duration> {
        let survived = self.reached(baseline).scale(FULL);
        self.at_losses.iter().map(|delay| baseline.above(*delay)).find(|delay| *delay >= survived)
    }

    fn reached(&self, baseline: &Baseline) -> Duration {
        self.reached.map_or(Duration::ZERO, |delay| baseline.above(delay))
    }

    /// Whether losses have shown where the queue ends.
    pub(super) fn is_known(&self, baseline: &Baseline) -> bool {
        self.full(baseline).is_some()
    }

    /// How much a stream may add to the delay; `usual` as long as no loss has shown the end of the queue.
    pub(super) fn allowed(&self, baseline: &Baseline, usual: Duration) -> Duration {
        let allowed = match self.full(baseline) {
            Some(full) => full.scale(SHARE),
            None => self.reached(baseline).scale(SHARE).max(usual),
        };
        allowed.min(LONGEST_WAIT) / if self.gentle { GENTLER } else { 1 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::{Instant, Rate};

    const USUAL: Duration = Duration::from_ms(3);

    /// Packets 1 ms apart that arrive after these delays in milliseconds, or never.
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
        let (mut room, mut baseline) = (Room::default(), Baseline::default());
        for delays in streams {
            baseline.observe(&record(delays));
            room.observe(&record(delays));
        }
        room.allowed(&baseline, USUAL)
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
        let (mut room, mut baseline) = (Room::default(), Baseline::default());
        let long = record(&[Some(10), Some(90)]);
        let small = StreamRecord { packet: Bytes::new(500), ..record(&[Some(5), Some(6)]) };
        for record in [&long, &small] {
            baseline.observe(record);
            room.observe(record);
        }
        assert_eq!(room.allowed(&baseline, USUAL), USUAL);
    }
}
