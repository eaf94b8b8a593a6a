//! Gaps from delayed ACKs, which carry one arrival timestamp for several packets (rapid 2.8).

use super::Gaps;
use headway_units::Duration;

/// Spreads each interval between two timestamped packets evenly over the packets it covers (rapid 2.8).
///
/// Push the packets of a connection in sending order, each with the arrival timestamp that its ACK carried,
/// if it had an ACK of its own. Timestamps are 32-bit counts of microseconds that wrap around. State persists
/// from one p-stream to the next: an ACK that covers packets on both sides of a boundary completes the first
/// stream and leaves the rest of its interval to the second.
#[derive(Clone, Debug, Default)]
pub struct DelayedAcks {
    /// The latest usable timestamp.
    last: Option<u32>,
    /// Packets since that timestamp.
    waiting: usize,
    /// Sum of their send gaps.
    send: Duration,
    /// Samples that are complete and not yet taken.
    ready: Gaps,
    /// Packets of the next stream to take that have no sample, because no earlier packet had a timestamp.
    missing: usize,
}

impl DelayedAcks {
    /// Adds the next packet: its gap to the previous packet at the sender, and its arrival
    /// timestamp in microseconds.
    ///
    /// A timestamp of 0 counts as missing (the receiver had no arrival time), and so does one that
    /// precedes the latest.
    pub fn push(&mut self, send_gap: Duration, stamp: Option<u32>) {
        self.waiting += 1;
        self.send += send_gap;
        let Some(stamp) = stamp.filter(|stamp| *stamp != 0) else { return };
        let Some(last) = self.last else {
            self.missing += self.waiting;
            self.start_interval(stamp);
            return;
        };
        // Modulo 2^32: the upper half of the range is the past.
        let elapsed = stamp.wrapping_sub(last);
        if elapsed > u32::MAX / 2 {
            return;
        }
        let receive = Duration::from_us(i64::from(elapsed));
        spread(self.send, self.waiting, &mut self.ready.send);
        spread(receive, self.waiting, &mut self.ready.receive);
        self.start_interval(stamp);
    }

    /// Moves the samples of the next stream of `packets` packets into `gaps`; returns false while the
    /// stream is incomplete.
    ///
    /// The first stream after a start has fewer samples than packets: packets up to the first timestamp
    /// have no receive gap.
    pub fn take(&mut self, packets: usize, gaps: &mut Gaps) -> bool {
        if self.missing + self.ready.len() < packets {
            return false;
        }
        let missing = self.missing.min(packets);
        let samples = packets - missing;
        gaps.clear();
        gaps.send.extend(self.ready.send.drain(..samples));
        gaps.receive.extend(self.ready.receive.drain(..samples));
        self.missing -= missing;
        true
    }

    /// Discards all state, as after a loss; the next packet pushed must be the first of a stream.
    pub fn restart(&mut self) {
        self.last = None;
        self.waiting = 0;
        self.send = Duration::ZERO;
        self.ready.clear();
        self.missing = 0;
    }

    fn start_interval(&mut self, stamp: u32) {
        self.last = Some(stamp);
        self.waiting = 0;
        self.send = Duration::ZERO;
    }
}

/// Appends `count` gaps that sum to exactly `total` and differ by at most 1 ns.
fn spread(total: Duration, count: usize, gaps: &mut Vec<Duration>) {
    let share = total.ns().div_euclid(count as i64);
    let longer = total.ns().rem_euclid(count as i64) as usize;
    gaps.extend((0..count).map(|i| Duration::from_ns(share + i64::from(i < longer))));
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const GAP: Duration = Duration::from_us(10);

    fn total(gaps: &[Duration]) -> Duration {
        gaps.iter().copied().sum()
    }

    #[test]
    fn thirty_two_acks_give_sixty_four_gaps_with_the_same_sums() {
        let (mut acks, mut gaps) = (DelayedAcks::default(), Gaps::default());
        acks.push(GAP, Some(1_000));
        assert!(acks.take(1, &mut gaps) && gaps.is_empty());
        for i in 1..=64u32 {
            // Odd intervals: 21 us for two packets.
            acks.push(GAP, (i % 2 == 0).then_some(1_000 + i / 2 * 21));
        }
        assert!(acks.take(64, &mut gaps));
        assert_eq!(gaps.len(), 64);
        assert_eq!(total(&gaps.send), GAP * 64);
        assert_eq!(total(&gaps.receive), Duration::from_us(32 * 21));
        assert_eq!(gaps.receive[..2], [Duration::from_ns(10_500); 2]);
    }

    #[test]
    fn stamps_that_wrap_around_give_the_true_gap() {
        let (mut acks, mut gaps) = (DelayedAcks::default(), Gaps::default());
        acks.push(GAP, Some(u32::MAX - 9));
        acks.push(GAP, Some(20));
        assert!(acks.take(2, &mut gaps));
        assert_eq!(gaps.receive, [Duration::from_us(30)]);
    }

    #[test]
    fn a_stamp_of_zero_or_from_the_past_is_no_sample() {
        let (mut acks, mut gaps) = (DelayedAcks::default(), Gaps::default());
        for stamp in [100, 0, 90, 130] {
            acks.push(GAP, Some(stamp));
        }
        assert!(acks.take(4, &mut gaps));
        assert_eq!(gaps.receive, [GAP; 3]);
    }

    #[test]
    fn an_ack_across_a_boundary_completes_one_stream_and_begins_the_next() {
        let (mut acks, mut gaps) = (DelayedAcks::default(), Gaps::default());
        acks.push(GAP, Some(1_000));
        assert!(acks.take(1, &mut gaps));
        // Streams of 3 packets and one ACK per 2 packets: every second stream ends inside an interval.
        let mut taken = 0;
        for i in 1..=30u32 {
            acks.push(GAP, (i % 2 == 0).then_some(1_000 + i * 12));
            while acks.take(3, &mut gaps) {
                assert_eq!(gaps.send, [GAP; 3]);
                assert_eq!(gaps.receive, [Duration::from_us(12); 3]);
                taken += 1;
            }
        }
        assert_eq!(taken, 10);
    }

    #[test]
    fn the_first_stream_lacks_the_samples_before_the_first_stamp() {
        let (mut acks, mut gaps) = (DelayedAcks::default(), Gaps::default());
        for i in 0..8u32 {
            acks.push(GAP, (i % 2 == 1).then_some(50 + i * 10));
        }
        assert!(acks.take(4, &mut gaps));
        assert_eq!(gaps.len(), 2);
        assert!(acks.take(4, &mut gaps));
        assert_eq!(gaps.len(), 4);
        assert!(!acks.take(4, &mut gaps));
    }

    #[test]
    fn a_restart_forgets_what_was_under_way() {
        let (mut acks, mut gaps) = (DelayedAcks::default(), Gaps::default());
        acks.push(GAP, Some(10));
        acks.push(GAP, None);
        acks.restart();
        acks.push(GAP, Some(1_000));
        acks.push(GAP, Some(1_010));
        assert!(acks.take(2, &mut gaps));
        assert_eq!(gaps.receive, [GAP]);
    }

    proptest! {
        #[test]
        fn gaps_add_up_to_the_time_between_the_first_and_the_last_stamp(
            packets in prop::collection::vec((1i64..1_000_000, prop::option::of(1u32..10_000)), 1..200),
            start in any::<u32>(),
        ) {
            let (mut acks, mut gaps) = (DelayedAcks::default(), Gaps::default());
            let mut now = start;
            let (mut first, mut last, mut sent, mut stamped_sent) = (None, 0, 0, 0);
            for (gap, step) in packets {
                let stamp = step.map(|step| {
                    now = now.wrapping_add(step);
                    // A real timestamp of 0 would count as missing.
                    now = now.max(1);
                    now
                });
                acks.push(Duration::from_ns(gap), stamp);
                if let Some(stamp) = stamp {
                    (sent, last) = if first.is_none() { (0, stamp) } else { (sent + gap, stamp) };
                    first = first.or(Some(stamp));
                    stamped_sent = sent;
                } else {
                    sent += gap;
                }
            }
            let missing = acks.missing;
            let ready = acks.ready.len();
            prop_assert!(acks.take(missing + ready, &mut gaps));
            prop_assert_eq!(total(&gaps.send), Duration::from_ns(stamped_sent));
            let elapsed = first.map_or(0, |first| last.wrapping_sub(first));
            prop_assert_eq!(total(&gaps.receive), Duration::from_us(i64::from(elapsed)));
        }
    }
}
