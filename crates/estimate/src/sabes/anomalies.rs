//! Segments sent again or out of order, duplicate ACKs and closed windows, as tshark counts them.

use super::flight::before;
use super::segment::Segment;
use headway_units::{Duration, Instant};

/// A retransmission follows this soon on the duplicate ACK that caused it, where the tap
/// is beside the sender.
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
    /// The number behind the last byte and FIN, or of a segment without data that is ahead of it,
    /// and when that passed.
    next: Option<u32>,
    advanced: Instant,
    /// Whether the last segment only asked for an ACK.
    keeps_alive: bool,
    /// The last ACK and its window, and how often it was repeated until when.
    last: Option<(u32, u16)>,
    duplicates: u32,
    repeated: Instant,
    /// The number behind the last byte that the sender of the ACKs has sent.
    opposite: Option<u32>,
}

impl Watch {
    /// Takes a segment of the data way with payload or FIN; `rtt` gives that of the handshake.
    pub(super) fn data(&mut self, segment: &Segment, rtt: impl FnOnce() -> Option<Duration>) -> Kind {
        let length = segment.payload + u32::from(segment.flags.fin);
        self.keeps_alive = false;
        let end = segment.sequence.wrapping_add(length);
        let is_acknowledged = self.last.is_some_and(|(number, _)| !before(number, end));
        let Some(next) = self.next.filter(|next| before(segment.sequence, *next)) else {
            (self.next, self.advanced) = (Some(end), segment.at);
            if is_acknowledged && segment.payload > 0 {
                // It came behind its ACK, so it is no sign of a loss.
                self.counts.retransmissions += 1;
                return Kind::OutOfOrder;
            }
            return Kind::New;
        };
        if segment.sequence == next.wrapping_sub(1) && !segment.flags.fin {
            if segment.payload <= 1 {
                self.keeps_alive = true;
                return Kind::KeepAlive;
            }
            // A byte that probed a closed window is sent again with others behind it.
            (self.next, self.advanced) = (Some(end), segment.at);
            return Kind::New;
        }
        let is_fast = self.duplicates >= DUPLICATES
            && self.last.is_some_and(|(number, _)| number == segment.sequence)
            && segment.at - self.repeated < FAST;
        let is_soon = segment.at - self.advanced < rtt().unwrap_or(DISORDER);
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

    /// Takes a segment of the data way without payload or FIN.
    pub(super) fn empty(&mut self, segment: &Segment) {
        self.keeps_alive = self.next == Some(segment.sequence.wrapping_add(1));
        self.reach(segment.sequence, segment.at);
    }

    /// The sender has come to a number: what comes below it later is out of order, or sent again.
    pub(super) fn reach(&mut self, number: u32, at: Instant) {
        if self.next.is_none_or(|next| before(next, number)) {
            (self.next, self.advanced) = (Some(number), at);
        }
    }

    /// Takes a segment of the other way.
    pub(super) fn ack(&mut self, segment: &Segment) {
        let Some(number) = segment.acknowledgement else { return };
        let control = u32::from(segment.flags.syn) + u32::from(segment.flags.fin);
        let plain = control == 0 && !segment.flags.rst;
        self.counts.zero_windows += u64::from(plain && segment.window == 0);
        if self.last.is_none_or(|(last, _)| last != number) {
            self.duplicates = 0;
        } else if plain
            && segment.payload == 0
            && segment.window != 0
            && self.last == Some((number, segment.window))
            && self.opposite.is_none_or(|next| next == segment.sequence)
            && !self.keeps_alive
        {
            self.duplicates += 1;
            self.repeated = segment.at;
            self.counts.duplicate_acks += 1;
        }
        self.last = Some((number, segment.window));
        let end = segment.sequence.wrapping_add(segment.payload + control);
        if self.opposite.is_none_or(|next| before(next, end)) {
            self.opposite = Some(end);
        }
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
            assert_eq!(watch.data(&segment, || rtt), kind, "{segment:?}");
        }
        assert_eq!((watch.counts.retransmissions, watch.counts.out_of_order), (1, 1));
    }

    #[test]
    fn data_behind_a_segment_without_data_that_is_ahead_are_out_of_order() {
        let rtt = Some(Duration::from_ms(20));
        let mut watch = Watch::default();
        watch.empty(&data(0, 0, 0));
        assert_eq!(watch.data(&data(10, 0, 1_000), || rtt), Kind::New);
        watch.empty(&data(20, 4_000, 0));
        let kinds = [
            (data(30, 1_000, 1_000), Kind::OutOfOrder),
            (data(40, 2_000, 1_000), Kind::OutOfOrder),
            // tshark takes the last one for a retransmission: it ends where the sender had come to.
            (data(50, 3_000, 1_000), Kind::Retransmission),
            (data(60, 4_000, 1_000), Kind::New),
        ];
        for (segment, kind) in kinds {
            assert_eq!(watch.data(&segment, || rtt), kind, "{segment:?}");
        }
    }

    #[test]
    fn duplicate_acks_make_a_retransmission_fast_and_acknowledged_data_make_it_spurious() {
        let mut watch = Watch::default();
        (0..5).for_each(|k| assert_eq!(watch.data(&data(k, k as u32 * 1_000, 1_000), || None), Kind::New));
        [100, 200, 300].into_iter().for_each(|us| watch.ack(&ack(us, 1_000)));
        assert_eq!(watch.counts.duplicate_acks, 2);
        assert_eq!(watch.data(&data(310, 1_000, 1_000), || None), Kind::Retransmission);
        watch.ack(&ack(400, 5_000));
        assert_eq!(watch.data(&data(410, 2_000, 1_000), || None), Kind::Retransmission);
        watch.ack(&Segment { window: 0, ..ack(500, 5_000) });
        let Anomalies { duplicate_acks, zero_windows, .. } = watch.counts;
        assert_eq!((duplicate_acks, zero_windows), (2, 1), "a change of the window is no duplicate");
    }

    #[test]
    fn answers_to_segments_that_keep_a_connection_alive_are_no_duplicate_acks() {
        for probe in [data(10_000_000, 999, 0), data(10_000_000, 999, 1)] {
            let mut watch = Watch::default();
            watch.data(&data(0, 0, 1_000), || None);
            watch.ack(&ack(10, 1_000));
            for _ in 0..2 {
                if probe.payload == 0 {
                    watch.empty(&probe);
                } else {
                    assert_eq!(watch.data(&probe, || None), Kind::KeepAlive);
                }
                watch.ack(&ack(10_000_010, 1_000));
            }
            assert_eq!(watch.counts, Anomalies::default());
        }
    }

    #[test]
    fn an_ack_repeats_the_one_before_it_and_comes_with_the_number_of_its_sender() {
        let mut watch = Watch::default();
        for number in [1_000, 2_000, 1_000, 2_000] {
            watch.ack(&ack(10, number));
        }
        watch.ack(&Segment { sequence: 7, ..ack(20, 2_000) });
        assert_eq!(watch.counts.duplicate_acks, 0);
        watch.ack(&Segment { sequence: 7, ..ack(30, 2_000) });
        assert_eq!(watch.counts.duplicate_acks, 1);
    }

    #[test]
    fn data_behind_a_byte_that_probed_a_closed_window_are_new() {
        let mut watch = Watch::default();
        let kinds = [
            (data(0, 0, 1_000), Kind::New),
            (data(1, 1_000, 1), Kind::New),
            (data(2, 1_000, 900), Kind::New),
        ];
        for (segment, kind) in kinds {
            assert_eq!(watch.data(&segment, || None), kind);
        }
        assert_eq!(watch.counts, Anomalies::default());
    }
}
