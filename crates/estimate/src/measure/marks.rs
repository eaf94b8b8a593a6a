//! The delays at selected packets of a stream, between which queue growth is measured.

use crate::belief::Segment;
use crate::reflected::Transition;
use crate::stream::{Arrival, Refusal, StreamRecord};
use headway_units::{Bytes, Duration, Instant, Rate};

use super::delay::Baseline;
use super::jitter::Span;
use super::probe;

/// Number of segments of a stream: few enough that what follows a segment hardly depends on what preceded it.
const SEGMENTS: usize = 3;
/// A segment is cut where the sender deviates from an even pace by more than both limits, in packets and as a
/// share of the segment: the delay grows differently during a stall and while the sender catches up.
const UNEVEN_PACKETS: i64 = 3;
const UNEVEN_SHARE: f64 = 0.05;
/// Maximum number of marks in a stream.
const MAX_MARKS: usize = 9;
/// If packet-to-packet jumps reach this share of those of white noise, the delay variation is
/// noise and not a queue.
const WHITE: f64 = 0.6;

/// A packet that arrived.
#[derive(Clone, Copy, Debug)]
struct Mark {
    /// Its position in the stream, counting lost packets.
    index: u32,
    sent: Instant,
    delay: Duration,
}

/// Send times and delays of selected packets, and the accuracy of the delays.
#[derive(Clone, Debug)]
pub(super) struct Marks {
    /// The rate at which the stream was sent.
    pub(super) rate: Rate,
    /// Variance of the growth between two marks that is not due to a queue, in square seconds.
    pub(super) timestamp_variance: f64,
    /// Whether delays vary from packet to packet by more than a queue can explain.
    pub(super) jittery: bool,
    packet: Bytes,
    marks: Vec<Mark>,
    /// The part of the delay above the lowest that is not due to a queue.
    offset: Duration,
}

impl Marks {
    /// Marks evenly spaced packets; with `jitter`, it excludes the start of the stream.
    pub(super) fn of_packets(
        record: &StreamRecord,
        packet_time: Duration,
        jitter: Option<Span>,
    ) -> Result<Marks, Refusal> {
        let arrived: Vec<Mark> = record.arrivals.iter().filter_map(|a| mark(a, Duration::ZERO)).collect();
        if let Some(span) = jitter {
            return Marks::through(record, &arrived, span);
        }
        let (jumps, share) = roughness(&arrived);
        let mut marks = Marks::pick(record, &arrived, jumps)?;
        marks.jittery = share > WHITE && jumps > packet_time.secs_f64().powi(2);
        if marks.jittery {
            // Evenly distributed noise exceeds its minimum by this much on average.
            marks.offset = Duration::from_secs_f64((1.5 * jumps).sqrt());
        }
        Ok(marks)
    }

    /// Marks packets far enough from the ends of the stream that the delay added by jitter is stationary.
    fn through(record: &StreamRecord, arrived: &[Mark], span: Span) -> Result<Marks, Refusal> {
        let rate = probe::send_rate(record).ok_or(Refusal::SenderGaps)?;
        let added = span.added(rate.time_for(record.packet));
        let ends = arrived.first().zip(arrived.last());
        let (first, last) = ends.map(|(first, last)| (first.sent, last.sent)).ok_or(Refusal::Lost)?;
        let skipped = span.most.min((last - first) / 4);
        let until = if span.overtaking { last - skipped } else { last };
        let begin = arrived.partition_point(|mark| mark.sent < first + skipped);
        let end = arrived.partition_point(|mark| mark.sent <= until);
        let mut marks = Marks::pick(record, &arrived[begin..end.max(begin)], 2.0 * added.variance)?;
        marks.jittery = true;
        marks.offset = Duration::from_secs_f64(added.mean);
        Ok(marks)
    }

    /// Marks the last packets of buffering events, except for the first event and the last one,
    /// which may be cut off.
    pub(super) fn of_events(record: &StreamRecord) -> Result<Marks, Refusal> {
        let rate = probe::send_rate(record).ok_or(Refusal::SenderGaps)?;
        let gap = rate.time_for(record.packet);
        let arrived: Vec<&Arrival> = record.arrivals.iter().filter(|a| a.received.is_some()).collect();
        let gaps: Vec<Duration> =
            arrived.windows(2).filter_map(|pair| Some(pair[1].received? - pair[0].received?)).collect();
        let spike = usual_spike(&gaps) / 4;
        let ends = arrived.iter().zip(&gaps).filter(|(_, gap)| **gap > spike).skip(1);
        let marks: Vec<Mark> = ends.filter_map(|(a, _)| mark(a, gap / 2)).collect();
        let timestamp_variance = (gap.secs_f64().powi(2) / 6.0).max(roughness(&marks).0 / 2.0);
        Marks::pick(record, &marks, timestamp_variance)
    }

    fn pick(record: &StreamRecord, all: &[Mark], timestamp_variance: f64) -> Result<Marks, Refusal> {
        let rate = probe::send_rate(record).ok_or(Refusal::SenderGaps)?;
        let last = all.len().saturating_sub(1);
        let segments = SEGMENTS.min(last);
        let mut at: Vec<usize> = (0..=segments).map(|segment| segment * last / segments.max(1)).collect();
        let gap = rate.time_for(record.packet);
        while at.len() < MAX_MARKS {
            let worst = at.windows(2).filter_map(|ends| uneven(all, ends[0], ends[1], gap)).max();
            let Some((_, cut)) = worst else { break };
            at.insert(at.partition_point(|mark| *mark < cut), cut);
        }
        let marks = at.into_iter().filter_map(|at| all.get(at).copied()).collect();
        Ok(Marks {
            rate,
            timestamp_variance,
            jittery: false,
            packet: record.packet,
            marks,
            offset: Duration::ZERO,
        })
    }

    /// Writes the segments between marks, with delays above the baseline.
    pub(super) fn segments(&self, baseline: &Baseline, segments: &mut Vec<Segment>) {
        segments.clear();
        let above = |mark: &Mark| (baseline.above(mark.delay) - self.offset).max(Duration::ZERO).secs_f64();
        segments.extend(self.marks.windows(2).filter_map(|pair| {
            let (first, last) = (&pair[0], &pair[1]);
            let time = last.sent - first.sent;
            let rate = Rate::of(self.packet * u64::from(last.index - first.index), time)?;
            let transition = Transition { from: above(first), to: above(last), time: time.secs_f64() };
            Some(Segment { rate, transition })
        }));
    }
}

/// Returns the mark at an arrived packet, with its delay reduced by `less`.
fn mark(arrival: &Arrival, less: Duration) -> Option<Mark> {
    Some(Mark { index: arrival.index, sent: arrival.sent, delay: arrival.one_way_delay()? - less })
}

/// Returns the packet between two marks that deviates most from an even pace, with the deviation, if that is
/// significant.
fn uneven(all: &[Mark], first: usize, last: usize, gap: Duration) -> Option<(Duration, usize)> {
    let (start, end) = (&all[first], &all[last]);
    let time = end.sent - start.sent;
    let pace = time.ns() as f64 / f64::from(end.index.saturating_sub(start.index).max(1));
    let off = |mark: &Mark| {
        let even = f64::from(mark.index.saturating_sub(start.index)) * pace;
        Duration::from_ns(((mark.sent - start.sent).ns() as f64 - even).abs() as i64)
    };
    let (off, cut) = (first + 1..last).map(|cut| (off(&all[cut]), cut)).max()?;
    (off > (gap * UNEVEN_PACKETS).max(time.scale(UNEVEN_SHARE))).then_some((off, cut))
}

/// Returns the mean square difference of consecutive delays in square seconds, and its ratio to
/// that of white noise.
fn roughness(marks: &[Mark]) -> (f64, f64) {
    let count = marks.len().max(2) as f64;
    let value = |mark: &Mark| mark.delay.secs_f64();
    let mean = marks.iter().map(value).sum::<f64>() / count;
    let variance = marks.iter().map(|mark| (value(mark) - mean).powi(2)).sum::<f64>() / count;
    let jumps =
        marks.windows(2).map(|pair| (value(&pair[1]) - value(&pair[0])).powi(2)).sum::<f64>() / (count - 1.0);
    (jumps, if variance > 0.0 { jumps / (2.0 * variance) } else { 0.0 })
}

/// Returns the gap length above which gaps make up half of the total time.
fn usual_spike(gaps: &[Duration]) -> Duration {
    let mut sorted = gaps.to_vec();
    sorted.sort_unstable();
    let mut left = sorted.iter().copied().sum::<Duration>() / 2;
    for gap in sorted.into_iter().rev() {
        left -= gap;
        if left <= Duration::ZERO {
            return gap;
        }
    }
    Duration::ZERO
}

#[cfg(test)]
mod tests {
    use super::*;
    use headway_units::Bytes;

    const PACKET: Bytes = Bytes::new(1_250);

    /// Returns packets 100 us apart that arrive after these delays in microseconds.
    fn record(delays: impl Iterator<Item = u64>) -> StreamRecord {
        let arrivals: Vec<Arrival> = (0..)
            .zip(delays)
            .map(|(index, delay)| Arrival {
                index,
                size: PACKET,
                sent: Instant::from_ns(u64::from(index) * 100_000),
                received: Some(Instant::from_ns(u64::from(index) * 100_000 + delay * 1_000)),
            })
            .collect();
        let intended = vec![Duration::from_us(100); arrivals.len() - 1];
        StreamRecord { id: 0, packet: PACKET, average: Rate::from_mbps(100.0), intended, arrivals }
    }

    fn transitions(marks: &Marks, record: &StreamRecord) -> Vec<Transition> {
        let mut baseline = Baseline::default();
        baseline.observe(record);
        let mut segments = Vec::new();
        marks.segments(&baseline, &mut segments);
        segments.iter().map(|segment| segment.transition).collect()
    }

    #[test]
    fn parts_end_where_a_sender_stalls_and_where_it_has_caught_up() {
        let mut record = record((0..97).map(|_| 1_000));
        for arrival in &mut record.arrivals[10..20] {
            let late = Duration::from_us(100) * i64::from(20 - arrival.index);
            (arrival.sent, arrival.received) = (arrival.sent + late, arrival.received.map(|at| at + late));
        }
        let marks = Marks::of_packets(&record, Duration::from_us(80), None).expect("a rate");
        let (mut baseline, mut segments) = (Baseline::default(), Vec::new());
        baseline.observe(&record);
        marks.segments(&baseline, &mut segments);
        // The packets sent at once, between 10 and 20, have no rate.
        let rates: Vec<f64> = segments.iter().map(|segment| segment.rate.mbps().round()).collect();
        assert_eq!(rates, [100.0, 9.0, 100.0, 100.0, 100.0]);
    }

    #[test]
    fn a_growing_queue_is_seen_in_equal_parts_and_is_no_jitter() {
        let record = record((0..97).map(|index| 1_000 + 20 * index));
        let marks = Marks::of_packets(&record, Duration::from_us(80), None).expect("a rate");
        assert!(!marks.jittery);
        let transitions = transitions(&marks, &record);
        assert_eq!(transitions.len(), 3);
        assert!(
            (transitions[2].to - 1.92e-3).abs() < 1e-9 && (transitions[1].time - 3.2e-3).abs() < 1e-9,
            "{transitions:?}"
        );
    }

    #[test]
    fn delays_that_jump_are_jitter_and_its_mean_is_no_queue() {
        let record = record((0..97).map(|index| 1_000 + index * 37 % 60));
        let marks = Marks::of_packets(&record, Duration::from_us(10), None).expect("a rate");
        assert!(marks.jittery);
        assert!((marks.offset.secs_f64() - 30e-6).abs() < 10e-6, "{:?}", marks.offset);
    }

    #[test]
    fn the_ends_of_buffering_events_show_a_queue_that_single_packets_hide() {
        // Interrupts every 1 ms deliver ten packets each; the queueing delay grows by 10 us per interrupt.
        let delay =
            |index: u64| if index == 0 { 1_900 } else { 2_000 + (9 - index % 10) * 100 + index / 10 * 10 };
        let record = record((0..120).map(delay));
        let marks = Marks::of_events(&record).expect("a rate");
        let transitions = transitions(&marks, &record);
        let (first, last) = (transitions[0], transitions[transitions.len() - 1]);
        assert!((last.to - first.from - 100e-6).abs() < 1e-9, "{transitions:?}");
    }
}
