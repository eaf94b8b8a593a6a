//! Segments sent again or out of order, duplicate ACKs and closed windows, as tshark counts them.

use super::flight::before;
use super::segment::Segment;
use crate::units::{Duration, Instant};

/// A retransmission follows this soon on the duplicate ACK that caused it, where the tap is beside the sender.
const FAST: Duration = Duration::from_ms(20);
/// Duplicate ACKs that show a loss.
const DUPLICATES: u32 = 2;
/// A segment out of order follows this soon on the later one, where the RTT is not known.
const DISORDER: Duration = Duration::from_ms(3);

/// What a tap saw go wrong with a transfer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Anomalies {
    /// Segments with data that were sent again, needlessly or not.
    pub retransmissions: u64,
    /// Segments with data that passed the tap after later ones and were not sent again.
    pub out_of_order: u64,
    /// ACKs that repeat the one before.
    pub duplicate_acks: u64,
    /// ACKs whose window is closed.
    pub zero_windows: u64,
}

impl Anomalies {
    fn values(&mut self) -> [&mut u64; 4] {
        let Anomalies { retransmissions, out_of_order, duplicate_acks, zero_windows } = self;
        [retransmissions, out_of_order, duplicate_acks, zero_windows]
    }

    /// Adds the counts of another transfer.
    pub fn merge(&mut self, mut other: Anomalies) {
        self.values().into_iter().zip(other.values()).for_each(|(sum, more)| *sum += *more);
    }

    /// Returns what was added since these counts were `earlier`.
    pub fn since(mut self, mut earlier: Anomalies) -> Anomalies {
        self.values().into_iter().zip(earlier.values()).for_each(|(sum, before)| *sum -= *before);
        self
    }
}

/// What a segment with data is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    New,
    OutOfOrder,
    Retransmission,
    /// A byte that only asks for an ACK.
    KeepAlive,
}

/// Tells segments and ACKs that are out of line.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Watch {
    pub(super) counts: Anomalies,
    /// The number behind the last byte and FIN, and when it passed.
    next: Option<u32>,
    advanced: Instant,
    /// The last ACK, and how often it was repeated until when.
    acknowledgement: Option<u32>,
    window: u16,
    duplicates: u32,
    repeated: Instant,
}

impl Watch {
    /// Takes a segment of the data way with payload or FIN; `rtt` is that of the handshake.
    pub(super) fn data(&mut self, segment: &Segment, rtt: Option<Duration>) -> Kind {
        let length = segment.payload + u32::from(segment.flags.fin);
        let end = segment.sequence.wrapping_add(length);
        let Some(next) = self.next.filter(|next| before(segment.sequence, *next)) else {
            (self.next, self.advanced) = (Some(end), segment.at);
            return Kind::New;
        };
        if segment.payload <= 1 && segment.sequence == next.wrapping_sub(1) && !segment.flags.fin {
            return Kind::KeepAlive;
        }
        let is_acknowledged = self.acknowledgement.is_some_and(|number| !before(number, end));
        let is_fast = self.duplicates >= DUPLICATES
            && self.acknowledgement == Some(segment.sequence)
            && segment.at - self.repeated < FAST;
        let is_soon = segment.at - self.advanced < rtt.unwrap_or(DISORDER);
        let kind = if !is_acknowledged && !is_fast && is_soon && end != next {
            self.counts.out_of_order += 1;
            Kind::OutOfOrder
        } else {
            self.counts.retransmissions += 1;
            Kind::Retransmission
        };
        if before(next, end) {
            (self.next, self.advanced) = (Some(end), segment.at);
        }
        kind
    }

    /// Takes a segment of the other way.
    pub(super) fn ack(&mut self, segment: &Segment) {
        let Some(number) = segment.acknowledgement else { return };
        let plain = !(segment.flags.syn || segment.flags.fin || segment.flags.rst);
        self.counts.zero_windows += u64::from(plain && segment.window == 0);
        if self.acknowledgement != Some(number) {
            if self.acknowledgement.is_none_or(|last| before(last, number)) {
                (self.acknowledgement, self.duplicates) = (Some(number), 0);
            }
        } else if plain && segment.payload == 0 && segment.window != 0 && segment.window == self.window {
            self.duplicates += 1;
            self.repeated = segment.at;
            self.counts.duplicate_acks += 1;
        }
        self.window = segment.window;
    }
}

#[cfg(test)]
mod tests {
    use super::super::segment::tests::{ack, data};
    use super::*;

    #[test]
    fn segments_sent_again_are_told_from_those_out_of_order() {
        let rtt = Some(Duration::from_ms(20));
        let mut watch = Watch::default();
        let kinds = [
            (data(0, 0, 1_000), Kind::New),
            (data(10, 2_000, 1_000), Kind::New),
            // Overtaken on the way.
            (data(20, 1_000, 1_000), Kind::OutOfOrder),
            (data(30, 3_000, 1_000), Kind::New),
            // After a timeout.
            (data(300_000, 3_000, 1_000), Kind::Retransmission),
            (data(300_100, 4_000, 1_000), Kind::New),
            (data(900_000, 4_999, 1), Kind::KeepAlive),
        ];
        for (segment, kind) in kinds {
            assert_eq!(watch.data(&segment, rtt), kind, "{segment:?}");
        }
        assert_eq!((watch.counts.retransmissions, watch.counts.out_of_order), (1, 1));
    }

    #[test]
    fn duplicate_acks_make_a_retransmission_fast_and_acknowledged_data_make_it_spurious() {
        let mut watch = Watch::default();
        (0..5).for_each(|k| assert_eq!(watch.data(&data(k, k as u32 * 1_000, 1_000), None), Kind::New));
        [100, 200, 300].into_iter().for_each(|us| watch.ack(&ack(us, 1_000)));
        assert_eq!(watch.counts.duplicate_acks, 2);
        assert_eq!(watch.data(&data(310, 1_000, 1_000), None), Kind::Retransmission);
        watch.ack(&ack(400, 5_000));
        assert_eq!(watch.data(&data(410, 2_000, 1_000), None), Kind::Retransmission);
        watch.ack(&Segment { window: 0, ..ack(500, 5_000) });
        let Anomalies { duplicate_acks, zero_windows, .. } = watch.counts;
        assert_eq!((duplicate_acks, zero_windows), (2, 1), "a change of the window is no duplicate");
    }
}
