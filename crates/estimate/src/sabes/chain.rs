//! The chain of advancing ACKs (wan 2.8).

use headway_units::{Duration, Instant};

/// What an ACK means for the chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Link {
    /// It continues the chain: this many bytes of payload after this time, which may be zero.
    Sample {
        /// Bytes newly acknowledged.
        payload: u32,
        /// Time since the previous ACK of the chain.
        gap: Duration,
    },
    /// It advances, but begins a chain: the first one, or the first after a duplicate or a step of the clock.
    Start {
        /// Bytes newly acknowledged; zero for the first ACK.
        payload: u32,
    },
    /// It acknowledges nothing new.
    Duplicate,
    /// It is older than the last one, or only repeats it with other contents.
    Ignored,
}

/// Follows the acknowledgement numbers of one direction.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Chain {
    last: Option<(Instant, u32)>,
    broken: bool,
    /// The number of the byte behind a FIN, which is no payload.
    end: Option<u32>,
}

impl Chain {
    /// A FIN was seen whose sequence number, behind its payload, is `number`.
    pub(super) fn finish(&mut self, number: u32) {
        self.end = Some(number.wrapping_add(1));
    }

    /// The data begin at this sequence number.
    pub(super) fn begin(&mut self, at: Instant, number: u32) {
        *self = Chain { last: Some((at, number)), broken: true, end: None };
    }

    /// Takes the number of an ACK; `repeats` says that an ACK with the same number as the last one is a
    /// duplicate, and not a window update or a segment with data.
    pub(super) fn acknowledge(&mut self, at: Instant, number: u32, repeats: bool) -> Link {
        let Some((before, last)) = self.last else {
            self.last = Some((at, number));
            return Link::Start { payload: 0 };
        };
        let fresh = number.wrapping_sub(last);
        if fresh == 0 {
            self.broken |= repeats;
            return if repeats { Link::Duplicate } else { Link::Ignored };
        }
        // Sequence numbers wrap; half of their range is old (RFC 9293 3.4).
        if fresh > 1 << 31 {
            self.broken = true;
            return Link::Ignored;
        }
        let payload = fresh - u32::from(self.end == Some(number));
        self.last = Some((at, number));
        let gap = at - before;
        if std::mem::take(&mut self.broken) || gap < Duration::ZERO || payload == 0 {
            return Link::Start { payload };
        }
        Link::Sample { payload, gap }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn us(us: u64) -> Instant {
        Instant::from_ns(us * 1_000)
    }

    fn sample(payload: u32, us: i64) -> Link {
        Link::Sample { payload, gap: Duration::from_us(us) }
    }

    #[test]
    fn advancing_acks_give_one_sample_each_across_the_wrap() {
        let mut chain = Chain::default();
        assert_eq!(chain.acknowledge(us(0), u32::MAX - 999, true), Link::Start { payload: 0 });
        assert_eq!(chain.acknowledge(us(240), 1_920, true), sample(2_920, 240));
        assert_eq!(chain.acknowledge(us(480), 4_840, true), sample(2_920, 240));
    }

    #[test]
    fn duplicates_give_no_sample_and_neither_does_the_ack_behind_them() {
        let mut chain = Chain::default();
        chain.acknowledge(us(0), 1_000, true);
        assert_eq!(chain.acknowledge(us(100), 2_000, true), sample(1_000, 100));
        assert_eq!(chain.acknowledge(us(200), 2_000, true), Link::Duplicate);
        assert_eq!(chain.acknowledge(us(300), 5_000, true), Link::Start { payload: 3_000 });
        assert_eq!(chain.acknowledge(us(400), 6_000, true), sample(1_000, 100));
        assert_eq!(chain.acknowledge(us(450), 6_000, false), Link::Ignored, "a window update");
        assert_eq!(chain.acknowledge(us(500), 7_000, true), sample(1_000, 100));
    }

    #[test]
    fn reordered_acks_are_ignored_and_break_the_chain() {
        let mut chain = Chain::default();
        chain.acknowledge(us(0), 1_000, true);
        chain.acknowledge(us(100), 3_000, true);
        assert_eq!(chain.acknowledge(us(110), 2_000, true), Link::Ignored);
        assert_eq!(chain.acknowledge(us(200), 4_000, true), Link::Start { payload: 1_000 });
    }

    #[test]
    fn equal_stamps_are_reported_and_steps_of_the_clock_begin_a_chain() {
        let mut chain = Chain::default();
        chain.acknowledge(us(500), 0, true);
        assert_eq!(chain.acknowledge(us(500), 1_000, true), sample(1_000, 0));
        assert_eq!(chain.acknowledge(us(400), 2_000, true), Link::Start { payload: 1_000 });
    }

    #[test]
    fn a_fin_is_no_payload() {
        let mut chain = Chain::default();
        chain.begin(us(0), 1_000);
        chain.finish(3_000);
        assert_eq!(chain.acknowledge(us(50), 2_000, true), Link::Start { payload: 1_000 });
        assert_eq!(chain.acknowledge(us(100), 3_001, true), sample(1_000, 50));
        chain.finish(3_001);
        assert_eq!(chain.acknowledge(us(150), 3_002, true), Link::Start { payload: 0 });
    }
}
