//! What became of a stream, from what both ends tell of it.

use crate::protocol::{Report, StampSource};
use headway_estimate::{Arrival, Refusal, Schedule, StreamRecord};
use headway_units::Instant;
use std::time::Duration as Span;

/// The result of one stream.
#[derive(Clone, Debug, PartialEq)]
pub struct StreamOutcome {
    /// All packets with their times; lost ones have no arrival time.
    pub record: StreamRecord,
    /// A reason to discard the stream that its record cannot show: [`Refusal::SenderGaps`] or
    /// [`Refusal::ClockStep`].
    pub refusal: Option<Refusal>,
    /// Departure of the first packet, on the sender's CLOCK_REALTIME.
    pub started: Instant,
    /// Departure of the last packet, on the sender's CLOCK_REALTIME.
    pub finished: Instant,
    /// The source of the departure times.
    pub send_stamps: StampSource,
    /// The source of the arrival times.
    pub receive_stamps: StampSource,
    /// Duplicate packets that arrived.
    pub duplicates: u32,
}

/// Returns arrival times by index from a report; `None` if it does not fit a stream of `count` packets.
pub(super) fn expand(report: &Report, count: usize) -> Option<Vec<Option<Instant>>> {
    let arrived = report.times.decode(count.checked_sub(report.lost.len())?)?;
    let mut arrived = arrived.into_iter();
    let mut lost = report.lost.iter().copied().peekable();
    let times = (0..count as u32)
        .map(|index| if lost.next_if_eq(&index).is_some() { Some(None) } else { arrived.next().map(Some) })
        .collect::<Option<Vec<_>>>()?;
    // Indices that repeat, decrease or are out of range are left over.
    lost.peek().is_none().then_some(times)
}

/// Returns the time between the earliest and the latest arrival.
pub(super) fn span(times: &[Option<Instant>]) -> Span {
    let known = || times.iter().flatten().map(|time| time.ns());
    Span::from_nanos(known().max().unwrap_or(0) - known().min().unwrap_or(0))
}

/// Returns the most time the server's clock can show for `elapsed` on this side: clocks differ by about 500
/// ppm at most.
pub(super) fn longest_span(elapsed: Span) -> Span {
    elapsed + elapsed / 1000 + Span::from_millis(1)
}

/// The data of one stream from both ends.
pub(super) struct BothEnds {
    pub(super) sent: Vec<Instant>,
    pub(super) received: Vec<Option<Instant>>,
    pub(super) send_stamps: StampSource,
    pub(super) receive_stamps: StampSource,
    pub(super) gaps_kept: bool,
    pub(super) clock_stepped: bool,
    pub(super) duplicates: u32,
}

impl BothEnds {
    /// Combines the data of both ends of the stream with this number.
    pub(super) fn join(self, stream: u32, schedule: &Schedule) -> StreamOutcome {
        let refusal = if self.clock_stepped {
            Some(Refusal::ClockStep)
        } else if !self.gaps_kept {
            Some(Refusal::SenderGaps)
        } else {
            None
        };
        let started = self.sent.first().copied().unwrap_or_default();
        let finished = self.sent.last().copied().unwrap_or_default();
        let arrivals = self
            .sent
            .iter()
            .zip(&self.received)
            .zip(0..)
            .map(|((sent, received), index)| Arrival {
                index,
                size: schedule.packet,
                sent: *sent,
                received: *received,
            })
            .collect();
        let record = StreamRecord {
            id: stream,
            packet: schedule.packet,
            average: schedule.average,
            intended: schedule.gaps.clone(),
            arrivals,
        };
        StreamOutcome {
            record,
            refusal,
            started,
            finished,
            send_stamps: self.send_stamps,
            receive_stamps: self.receive_stamps,
            duplicates: self.duplicates,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::TimeList;

    #[test]
    fn no_report_spans_more_time_than_has_passed() {
        let at = |ns| Some(Instant::from_ns(ns));
        let second = Span::from_secs(1);
        assert_eq!(span(&[at(5_000_000_000), None, at(4_000_000_000)]), second, "in any order");
        assert_eq!((span(&[]), span(&[None, None]), span(&[at(7)])), (Span::ZERO, Span::ZERO, Span::ZERO));
        assert!(span(&[at(0), at(1_000_500_000)]) < longest_span(second), "the clocks differ a little");
        assert!(span(&[at(0), at(1_010_000_000)]) > longest_span(second));
        assert!(span(&[at(0), at(u64::MAX)]) > longest_span(Span::from_secs(86_400)));
    }

    #[test]
    fn reports_expand_or_are_refused() {
        let report = |times: &[u64], lost: &[u32]| Report {
            stream: 1,
            times: TimeList::encode(times.iter().map(|ns| Instant::from_ns(*ns))),
            lost: lost.to_vec(),
            hidden_seen: Vec::new(),
            duplicates: 0,
            source: StampSource::Kernel,
            clock_stepped: false,
        };
        let at = |ns| Some(Instant::from_ns(ns));
        assert_eq!(expand(&report(&[5, 9], &[1]), 3), Some(vec![at(5), None, at(9)]));
        assert_eq!(expand(&report(&[], &[0, 1]), 2), Some(vec![None, None]));
        assert_eq!(expand(&report(&[5, 9], &[3]), 3), None, "outside");
        assert_eq!(expand(&report(&[5], &[1, 1]), 3), None, "repeated");
        assert_eq!(expand(&report(&[5], &[2, 1]), 3), None, "falling");
        assert_eq!(expand(&report(&[5, 6, 7, 8], &[]), 3), None, "too many");
        assert_eq!(expand(&report(&[5], &[0, 1, 2, 3]), 3), None, "too many lost");
    }
}
