//! HyStart: ends slow start when the RTT or the ACK train shows that the path is full.

use super::Ack;
use headway_units::{Duration, Instant};

/// Windows below this many segments make too short an ACK train (RFC 9406 4.2, Linux `hystart_low_window`).
const LOW_WINDOW: f64 = 16.0;
/// ACKs further apart than this do not belong to one train (Linux `hystart_ack_delta_us`).
const TRAIN_SPACING: Duration = Duration::from_ms(2);
/// RTT samples taken at the start of each round (RFC 9406 4.3, `N_RTT_SAMPLE`).
const SAMPLES: u32 = 8;
/// Least and greatest RTT increase that ends slow start; between them it is an eighth of the minimum RTT (RFC
/// 9406 4.3; 4 ms and 16 ms in both the RFC and Linux).
const DELAY_BOUNDS: (Duration, Duration) = (Duration::from_ms(4), Duration::from_ms(16));
/// Segments sent back to back that segmentation offload may add to a train: four bursts of 64 KiB in segments
/// of 1448 B (Linux `hystart_ack_delay`).
const OFFLOAD_SEGMENTS: f64 = 181.0;
/// The most time that segmentation offload may add to a train (Linux).
const OFFLOAD_LIMIT: Duration = Duration::from_ms(1);

/// The state of the current round.
#[derive(Clone, Debug, Default)]
pub(super) struct HyStart {
    /// Whether the transport spreads segments over the round trip, which stretches trains.
    paced: bool,
    /// The path is full; later ACKs are ignored.
    found: bool,
    /// When the round began.
    round_start: Instant,
    /// The last ACK of the train with which the round began.
    train_end: Instant,
    /// The round ends when `una` passes this segment.
    end: u64,
    /// RTT samples taken in this round, up to [`SAMPLES`].
    samples: u32,
    /// Minimum RTT of this round.
    round_rtt: Duration,
}

impl HyStart {
    /// A detector without samples.
    pub(super) fn new(paced: bool) -> HyStart {
        HyStart { paced, round_rtt: Duration::MAX, ..HyStart::default() }
    }

    /// Resets everything but the pacing, for another slow start after an RTO.
    pub(super) fn reset(&mut self) {
        *self = HyStart::new(self.paced);
    }

    /// Whether slow start should end at `window` segments, given an RTT sample and the
    /// minimum RTT of the flow.
    pub(super) fn path_is_full(&mut self, ack: &Ack, window: f64, rtt: Duration, min_rtt: Duration) -> bool {
        if self.found {
            return false;
        }
        if ack.una > self.end {
            self.round_start = ack.now;
            self.train_end = ack.now;
            self.end = ack.next;
            self.samples = 0;
            self.round_rtt = Duration::MAX;
        }
        // Rounds also begin below this window: a round that began on reaching it would look
        // shorter than it is (Linux).
        if window < LOW_WINDOW {
            return false;
        }
        // Both are called, because both keep state.
        let train = self.train_is_long(ack.now, window, min_rtt);
        let delay = self.delay_has_grown(rtt, min_rtt);
        self.found = train || delay;
        self.found
    }

    /// Whether the ACK train is longer than the path alone explains.
    fn train_is_long(&mut self, now: Instant, window: f64, min_rtt: Duration) -> bool {
        if now - self.train_end > TRAIN_SPACING {
            return false;
        }
        self.train_end = now;
        let length = now - self.round_start;
        // A train of half a round trip fills the path; pacing alone already stretches trains to that.
        let length = if self.paced { length } else { length * 2 };
        // The allowance needs a division, so it is computed only when it decides. In slow start segments
        // leave at twice the window per round trip.
        length > min_rtt
            && length > min_rtt + min_rtt.scale(OFFLOAD_SEGMENTS / (2.0 * window)).min(OFFLOAD_LIMIT)
    }

    /// Whether the minimum of the round's first RTT samples is well above the minimum RTT.
    fn delay_has_grown(&mut self, rtt: Duration, min_rtt: Duration) -> bool {
        self.round_rtt = self.round_rtt.min(rtt);
        if self.samples < SAMPLES {
            self.samples += 1;
            return false;
        }
        let threshold = Duration::from_ns(min_rtt.ns() >> 3).clamp(DELAY_BOUNDS.0, DELAY_BOUNDS.1);
        self.round_rtt > min_rtt + threshold
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::ack;
    use super::*;

    const RTT: Duration = Duration::from_ms(40);

    /// Feeds ACKs `spacing` apart with an RTT of `rtt`; returns after how many of them the
    /// path was found full.
    fn found_after(hystart: &mut HyStart, window: f64, spacing: Duration, rtt: Duration) -> Option<u32> {
        (1..=30).find(|index| {
            let now = Instant::from_ns(1_000_000_000) + spacing * i64::from(*index);
            let ack = Ack { now, una: u64::from(*index), next: 100, ..ack(1) };
            hystart.path_is_full(&ack, window, rtt, RTT)
        })
    }

    #[test]
    fn a_train_of_half_a_round_trip_ends_slow_start() {
        // 20 ms and half of the 1 ms for offload after the first acknowledgement, at 1 ms each.
        let spacing = Duration::from_ms(1);
        assert_eq!(found_after(&mut HyStart::new(false), 20.0, spacing, RTT), Some(22));
        assert_eq!(found_after(&mut HyStart::new(false), 15.0, spacing, RTT), None);
        assert_eq!(found_after(&mut HyStart::new(true), 20.0, spacing, RTT), None);
        assert_eq!(found_after(&mut HyStart::new(false), 20.0, Duration::from_ms(3), RTT), None);
    }

    #[test]
    fn a_round_in_which_the_window_becomes_large_enough_begins_with_its_first_acknowledgement() {
        let mut hystart = HyStart::new(false);
        let found = (1..=30_u32).find(|index| {
            let now = Instant::from_ns(1_000_000_000) + Duration::from_ms(1) * i64::from(*index);
            let ack = Ack { now, una: u64::from(*index), next: 100, ..ack(1) };
            hystart.path_is_full(&ack, f64::from(*index), RTT, RTT)
        });
        // The train is long enough after 20.5 ms, but it was cut because its first ACKs were ignored.
        assert_eq!(found, None);
    }

    #[test]
    fn eight_late_samples_and_one_more_end_slow_start() {
        let spacing = Duration::from_ms(3);
        let late = RTT + Duration::from_us(5_001);
        assert_eq!(found_after(&mut HyStart::new(false), 20.0, spacing, late), Some(9));
        assert_eq!(found_after(&mut HyStart::new(false), 20.0, spacing, RTT + Duration::from_ms(5)), None);
    }

    #[test]
    fn it_finds_once_until_reset() {
        let mut hystart = HyStart::new(false);
        let late = RTT * 2;
        assert!(found_after(&mut hystart, 20.0, Duration::from_ms(3), late).is_some());
        assert!(found_after(&mut hystart, 20.0, Duration::from_ms(3), late).is_none());
        hystart.reset();
        assert!(found_after(&mut hystart, 20.0, Duration::from_ms(3), late).is_some());
    }
}
