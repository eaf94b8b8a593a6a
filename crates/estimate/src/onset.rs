//! Detection of a policer: loss that sets in after a burst, without a delay before it.
//!
//! A policer lets packets pass while its token bucket holds tokens, and then drops what exceeds its rate. So
//! a train faster than that rate arrives whole at first; from some packet on a constant share of it is lost,
//! and no packet is ever delayed. Other causes of loss differ in one of these:
//!
//! - A full queue, and an active queue management, delay packets before they drop any. Before its first loss,
//!   a queue that serves g of R grows the delay by R / g - 1 per second.
//! - Random loss does not set in. Of x losses among n packets, none precedes packet k with
//!   probability (1 - k / n)^x.
//! - A receiver or sender that stalls loses packets in one piece.

use crate::stream::{Arrival, StreamRecord};
use headway_units::statistics::upper_median;
use headway_units::{Bytes, Duration, Rate};

/// Minimum number of packets before the first loss, and of losses.
const MIN_BEFORE: usize = 3;
const MIN_LOST: usize = 4;
/// Minimum share of packets that are lost once loss has set in: less would hardly show as a limit.
const MIN_SHARE: f64 = 0.06;
/// Minimum share of the losses in each half of the packets from the first loss on; evenly spread, each
/// half has half of them.
const MIN_HALF: f64 = 0.25;
/// Share of the delay of a queue that a policer stays below.
const UNDELAYED: f64 = 0.35;
/// Delays before the loss must vary by less than this share of the delay of a queue, or
/// that could not be detected.
const NOISE: f64 = 0.6;

/// Loss that sets in within a stream of one rate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Onset {
    /// Number of packets before the first loss.
    pub(crate) before: usize,
    /// Number of packets lost.
    pub(crate) lost: usize,
    /// The rate at which packets were sent, and that at which they arrived from the first loss to the last.
    pub(crate) sent: Rate,
    pub(crate) received: Rate,
    /// The negative logarithm of the probability that random loss starts as late.
    pub(crate) surprise: f64,
    /// Whether packets before the first loss were delayed as by a queue.
    pub(crate) delayed: bool,
}

impl Onset {
    /// Returns the tokens that the burst before the first loss used.
    pub(crate) fn tokens(&self, packet: Bytes) -> Bytes {
        let kept = 1.0 - self.received.bps_f64() / self.sent.bps_f64().max(1.0);
        Bytes::new((packet.get() as f64 * self.before as f64 * kept.max(0.0)) as u64)
    }
}

/// Returns the onset of loss in a stream of one rate, if losses go on from the first one to the end.
pub(crate) fn onset(record: &StreamRecord) -> Option<Onset> {
    let arrivals = &record.arrivals;
    let is_lost = |arrival: &Arrival| arrival.received.is_none();
    let first = arrivals.iter().position(is_lost)?;
    let last = arrivals.iter().rposition(is_lost)?;
    let lost = record.lost();
    let behind = arrivals.len() - first;
    if first < MIN_BEFORE || lost < MIN_LOST || (lost as f64) < MIN_SHARE * behind as f64 {
        return None;
    }
    let (one, other) = arrivals[first..].split_at(behind / 2);
    let share = |half: &[Arrival]| half.iter().filter(|a| is_lost(a)).count() as f64 / lost as f64;
    if share(one) < MIN_HALF || share(other) < MIN_HALF {
        return None;
    }
    let time = arrivals[last].sent - arrivals[first].sent;
    let rate = |packets: usize| Rate::of(record.packet * packets as u64, time);
    let (sent, received) = (rate(last - first)?, rate(last - first + 1 - lost)?);
    let surprise = surprise(lost, first, arrivals.len());
    let delayed = is_delayed(&arrivals[..first], &sent, &received);
    Some(Onset { before: first, lost, sent, received, surprise, delayed })
}

/// Returns the negative logarithm of the probability that none of this many random losses is among the
/// first `before` packets.
pub(crate) fn surprise(lost: usize, before: usize, packets: usize) -> f64 {
    -(lost as f64) * (1.0 - before as f64 / packets as f64).ln()
}

/// Returns whether the delay of these packets grew as that of a queue from which `received` of `sent` leaves,
/// or varies so much that it cannot be detected.
fn is_delayed(packets: &[Arrival], sent: &Rate, received: &Rate) -> bool {
    let (Some(first), Some(last)) = (packets.first(), packets.last()) else { return true };
    let growth = sent.bps_f64() / received.bps_f64().max(1.0) - 1.0;
    let expected = (last.sent - first.sent).scale(growth.max(0.0));
    let third = packets.len().div_ceil(3);
    let delays =
        |part: &[Arrival]| -> Vec<Duration> { part.iter().filter_map(Arrival::one_way_delay).collect() };
    let (mut early, late) = (delays(&packets[..third]), delays(&packets[packets.len() - third..]));
    early.sort_unstable();
    let spread = early[early.len() * 3 / 4] - early[early.len() / 4];
    // Between the middles of the first and the last third, a queue has grown by two thirds.
    let queue = expected.scale(2.0 / 3.0);
    let grown = upper_median(late).unwrap_or_default() - upper_median(early).unwrap_or_default();
    grown > queue.scale(UNDELAYED) || spread > queue.scale(NOISE)
}

#[cfg(test)]
mod tests {
    use super::*;
    use headway_units::Instant;

    const PACKET: Bytes = Bytes::new(1_000);

    /// Returns packets sent every 10 us (800 Mb/s): each is lost or arrives after this delay in us.
    fn train(fates: &[Option<u64>]) -> StreamRecord {
        let arrival = |(index, fate): (usize, &Option<u64>)| {
            let sent = Instant::from_ns(10_000 * index as u64);
            let received = fate.map(|delay| sent + Duration::from_us(5_000 + delay as i64));
            Arrival { index: index as u32, size: PACKET, sent, received }
        };
        StreamRecord {
            id: 0,
            packet: PACKET,
            average: Rate::from_mbps(800.0),
            intended: vec![Duration::from_us(10); fates.len() - 1],
            arrivals: fates.iter().enumerate().map(arrival).collect(),
        }
    }

    /// Packets through a policer that lets `bucket` packets pass and then every fourth.
    fn policed(bucket: usize, packets: usize) -> Vec<Option<u64>> {
        let mut tokens = 4 * bucket;
        let mut pass = || {
            tokens = (tokens + 1).min(4 * bucket);
            let passes = tokens >= 4;
            tokens -= if passes { 4 } else { 0 };
            passes
        };
        (0..packets).map(|_| pass().then_some(0)).collect()
    }

    #[test]
    fn a_policer_gives_its_rate_and_the_tokens_of_the_burst() {
        let onset = onset(&train(&policed(30, 120))).expect("an onset");
        assert!((onset.received.mbps() / 200.0 - 1.0).abs() < 0.05, "{onset:?}");
        assert!(onset.tokens(PACKET).get().abs_diff(30_000) < 1_500, "{onset:?}");
        assert!(onset.surprise > 20.0 && !onset.delayed, "{onset:?}");
    }

    #[test]
    fn a_full_queue_has_delayed_the_packets_before() {
        // Every packet adds 30 us, until the buffer is full after 30 of them.
        let fates: Vec<Option<u64>> =
            (0..120).map(|index| (index < 40 || index % 4 == 0).then_some(30 * index.min(40))).collect();
        let onset = onset(&train(&fates)).expect("an onset");
        assert!(onset.delayed, "{onset:?}");
    }

    #[test]
    fn a_stall_is_no_onset_and_random_loss_no_surprise() {
        let stall: Vec<Option<u64>> =
            (0..120).map(|index| (!(40..70).contains(&index)).then_some(0)).collect();
        assert_eq!(onset(&train(&stall)), None);
        // One of twelve is lost, from the beginning.
        let random: Vec<Option<u64>> = (0..120).map(|index| (index % 12 != 7).then_some(0)).collect();
        assert!(onset(&train(&random)).is_none_or(|onset| onset.surprise < 1.0));
        assert_eq!(onset(&train(&[Some(0); 50])), None);
    }
}
