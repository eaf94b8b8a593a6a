//! Streams as a TCP sender sees them, which gets an ACK for every few packets.

use std::collections::VecDeque;

use headway_estimate::stream::DelayedAcks;
use headway_estimate::{Arrival, Gaps};
use headway_sim::testbed::Observed;
use headway_units::{Bytes, Instant};

/// Replaces the times of streams that follow each other by those that ACKs for every `every`-th packet show,
/// the first for packet `phase` (rapid 2.8).
///
/// Streams that lost a packet become incomplete, as do those with packets before the first
/// stamp or after the last.
pub(crate) fn delay_acks(row: &mut [Observed], every: u32, phase: u32) {
    let (mut acks, mut gaps) = (DelayedAcks::default(), Gaps::default());
    let mut pending = VecDeque::new();
    let mut number = 0;
    for index in 0..row.len() {
        let arrivals = std::mem::take(&mut row[index].record.arrivals);
        if !row[index].complete {
            acks.restart();
            pending.drain(..).for_each(|left: usize| row[left].complete = false);
            continue;
        }
        pending.push_back(index);
        for pair in arrivals.windows(2) {
            let is_acked = number % every == phase;
            number += 1;
            acks.push(pair[1].sent - pair[0].sent, pair[1].received.filter(|_| is_acked).map(stamp));
            let Some(&first) = pending.front() else { continue };
            let count = row[first].record.intended.len();
            if acks.take(count, &mut gaps) {
                pending.pop_front();
                row[first].complete = gaps.len() == count;
                row[first].record.arrivals = rebuilt(&gaps, row[first].record.packet);
            }
        }
    }
    pending.into_iter().for_each(|left| row[left].complete = false);
}

/// Returns the time in the microseconds of a receiver's stamp.
fn stamp(at: Instant) -> u32 {
    (at.ns() / 1_000) as u32
}

/// Returns arrivals with these gaps, from time zero on.
fn rebuilt(gaps: &Gaps, size: Bytes) -> Vec<Arrival> {
    let mut last = Arrival { index: 0, size, sent: Instant::ZERO, received: Some(Instant::ZERO) };
    let mut arrivals = vec![last];
    let mut received = Instant::ZERO;
    for (send, receive) in gaps.send.iter().zip(&gaps.receive) {
        received += *receive;
        last = Arrival { index: last.index + 1, sent: last.sent + *send, received: Some(received), ..last };
        arrivals.push(last);
    }
    arrivals
}

#[cfg(test)]
mod tests {
    use headway_estimate::StreamRecord;
    use headway_units::{Duration, Rate};

    use super::*;

    const GAP: Duration = Duration::from_us(10);

    /// Three streams of four gaps, of which every second packet is late by 3 us.
    fn row() -> Vec<Observed> {
        let arrival = |index: u32| {
            let sent = Instant::ZERO + GAP * i64::from(index);
            let late = Duration::from_us(100 + 3 * i64::from(index % 2));
            Arrival { index, size: Bytes::new(1500), sent, received: Some(sent + late) }
        };
        let stream = |first: u32| StreamRecord {
            intended: vec![GAP; 4],
            packet: Bytes::new(1500),
            arrivals: (first..first + 5).map(arrival).collect(),
            ..StreamRecord::default()
        };
        let observed = |first| Observed {
            record: stream(first),
            exits: stream(first),
            available: Rate::ZERO,
            complete: true,
        };
        (0..3).map(|number| observed(4 * number)).collect()
    }

    fn gaps(stream: &Observed) -> Gaps {
        let mut gaps = Gaps::default();
        stream.record.gaps(&mut gaps).expect("a whole stream");
        gaps
    }

    #[test]
    fn intervals_between_stamps_are_spread_over_their_packets() {
        let mut row = row();
        delay_acks(&mut row, 2, 1);
        assert!(!row[0].complete, "its first packets have no stamp before them");
        assert!(row[1].complete && row[2].complete);
        // Only packets that are not late are acknowledged, so the lateness of the others is not seen.
        for stream in &row[1..] {
            assert_eq!((gaps(stream).send, gaps(stream).receive), (vec![GAP; 4], vec![GAP; 4]));
        }
    }

    #[test]
    fn an_interval_across_two_streams_belongs_to_both() {
        let mut row = row();
        delay_acks(&mut row, 2, 0);
        assert!(row[1].complete);
        assert!(!row[2].complete, "its last packet has no stamp");
    }

    #[test]
    fn a_loss_makes_the_stream_before_it_and_the_one_after_incomplete() {
        let mut row = row();
        row[1].complete = false;
        delay_acks(&mut row, 2, 1);
        assert!(row.iter().all(|stream| !stream.complete));
    }
}
