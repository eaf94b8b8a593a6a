//! The packet of a long train from which on its delay grows: a shaper with a peak rate has run out of tokens.
//!
//! Such a shaper sends bursts at its peak rate, which short trains and streams take for the capacity. A long
//! train below what seems available arrives as it was sent while tokens last. From then on the sustained rate
//! serves it, and its delay grows steadily. [`knee`](super::knee) finds the same for trains that pass without
//! any delay, packet by packet; here cross traffic delays single packets.

use crate::stream::{Arrival, StreamRecord};
use headway_units::statistics::upper_median;
use headway_units::{Bytes, Duration, Rate};

use super::response::Sample;

/// Parts of a train whose median delays are compared, and the least number of them before
/// the bend and behind it.
const PARTS: usize = 24;
const LEAST: usize = 4;
/// Minimum number of packets in a part.
const IN_PART: usize = 4;
/// A constant and then steadily growing delay leaves a mean square of at most the square of this
/// share of the growth.
const RESIDUAL: f64 = 0.06;
/// It leaves at most this share of what a delay that grows from the start leaves.
const STRAIGHTER: f64 = 0.25;
/// Other traffic takes tokens, too, so they take this many times as long to return.
const REFILL: f64 = 2.0;
/// Two trains bend at the same packet up to this factor: the first may have found a bucket that
/// streams before had used.
const SAME: f64 = 2.0;
/// Minimum growth behind the bend: in gaps between packets, and as a share of the time it took.
const GROWN: (i64, f64) = (16, 0.05);

/// Where and how a train bends.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Bend {
    /// Packets before the bend.
    pub(crate) before: u32,
    /// Time before the bend.
    pub(crate) flat: Duration,
    /// Time from there to the last packet that counts.
    pub(crate) behind: Duration,
    /// The rate of the train.
    pub(crate) sent: Rate,
    /// The rate at which it arrives behind the bend.
    pub(crate) received: Rate,
}

impl Bend {
    /// Returns the growth of the delay per time behind the bend.
    fn growth(&self) -> f64 {
        self.sent.bps_f64() / self.received.bps_f64().max(1.0) - 1.0
    }

    /// Returns the sustained rate, where other traffic has the rate `others`, and the tokens that the packets
    /// before the bend used.
    pub(crate) fn shaper(&self, others: Rate, packet: Bytes) -> (Rate, Bytes) {
        let (sent, arriving) = (self.sent.bps_f64(), self.sent.bps_f64() + others.bps_f64());
        let sustained = self.received.bps_f64() * arriving / sent;
        let tokens = f64::from(self.before) * packet.get() as f64 * (1.0 - sustained / arriving);
        (Rate::from_bps_f64(sustained), Bytes::new(tokens.max(0.0) as u64))
    }

    /// Returns whether another train bends after as many packets, up to the factor [`SAME`].
    pub(crate) fn is_at(&self, other: &Bend) -> bool {
        let packets = [self.before, other.before].map(f64::from);
        packets[0].max(packets[1]) <= packets[0].min(packets[1]) * SAME
    }

    /// Returns the available bandwidth behind the bend, where the sustained rate is `sustained`, and the
    /// growth of the delay per time.
    pub(crate) fn sample(&self, sustained: Rate) -> (Sample, f64) {
        let growth = self.growth();
        let available_bps = (self.sent.bps_f64() - sustained.bps_f64() * growth).min(sustained.bps_f64());
        (Sample { available_bps, duration: self.behind, censored: false }, growth)
    }

    /// Returns about how long the tokens take to return that were used before the bend.
    pub(crate) fn refill(&self) -> Duration {
        self.flat.scale(REFILL * self.growth())
    }
}

/// Returns where a train of one rate bends; packets from the first loss on do not count, because the
/// buffer is full then.
pub(crate) fn bend(record: &StreamRecord) -> Option<Bend> {
    let until = record.arrivals.iter().position(|arrival| arrival.received.is_none());
    let arrivals = &record.arrivals[..until.unwrap_or(record.arrivals.len())];
    let in_part = arrivals.len() / PARTS;
    if in_part < IN_PART {
        return None;
    }
    let parts: Vec<&[Arrival]> = arrivals.chunks_exact(in_part).take(PARTS).collect();
    let middle = |part: &&[Arrival]| upper_median(part.iter().filter_map(Arrival::one_way_delay).collect());
    let delays: Vec<f64> = parts.iter().filter_map(middle).map(Duration::secs_f64).collect();
    let fit = |flat: usize| (fit(&delays, flat), flat);
    let ((slope, square), flat) = (LEAST..=delays.len().checked_sub(LEAST)?)
        .map(fit)
        .min_by(|one, other| one.0.1.total_cmp(&other.0.1))?;
    let straight = fit(1).0.1;
    let (first, last) = (arrivals.first()?.sent, arrivals[in_part * PARTS - 1].sent);
    let time = (last - first).secs_f64() / PARTS as f64;
    let grown = slope * (PARTS - flat) as f64;
    let gap = record.average.time_for(record.packet);
    let least = (gap * GROWN.0).secs_f64().max(GROWN.1 * time * (PARTS - flat) as f64);
    if grown < least || square > (RESIDUAL * grown).powi(2) || square > STRAIGHTER * straight {
        return None;
    }
    let sent = Rate::of(record.packet * (in_part * PARTS - 1) as u64, last - first)?;
    Some(Bend {
        before: (flat * in_part) as u32,
        flat: Duration::from_secs_f64(time * flat as f64),
        behind: Duration::from_secs_f64(time * (PARTS - flat) as f64),
        sent,
        received: sent.scale(1.0 / (1.0 + slope / time)),
    })
}

/// Fits a constant to the first `flat` values and a line from there on; returns the slope per value and the
/// mean square of what is left.
fn fit(values: &[f64], flat: usize) -> (f64, f64) {
    let level = values[..flat].iter().sum::<f64>() / flat as f64;
    let (mut product, mut square) = (0.0, 0.0);
    for (place, value) in (1..).zip(&values[flat..]) {
        product += f64::from(place) * (value - level);
        square += f64::from(place * place);
    }
    let slope = product / square;
    let line = |place: usize| level + slope * (place + 1).saturating_sub(flat) as f64;
    let left: f64 = values.iter().enumerate().map(|(place, value)| (value - line(place)).powi(2)).sum();
    (slope, left / values.len() as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use headway_units::Instant;

    /// Returns a train of 240 packets, 100 us apart, with these delays in us.
    fn train(delay_us: impl Fn(i64) -> i64) -> StreamRecord {
        let arrival = |index: i64| {
            let sent = Instant::from_ns(100_000 * index as u64);
            let received = Some(sent + Duration::from_us(10_000 + delay_us(index)));
            Arrival { index: index as u32, size: Bytes::new(1_250), sent, received }
        };
        StreamRecord {
            id: 0,
            packet: Bytes::new(1_250),
            average: Rate::from_mbps(100.0),
            intended: vec![Duration::from_us(100); 239],
            arrivals: (0..240).map(arrival).collect(),
        }
    }

    #[test]
    fn a_bucket_that_is_exhausted_shows_what_passed_and_the_rate_behind() {
        // Behind packet 100 each takes 150 us; a packet of others waits now and then.
        let bend = bend(&train(|index| 50 * (index - 100).max(0) + if index % 7 == 0 { 90 } else { 0 }));
        let bend = bend.expect("a bend");
        assert!(bend.before.abs_diff(100) <= 10, "{bend:?}");
        assert!((bend.received.mbps() - 66.7).abs() < 2.0, "{bend:?}");
    }

    #[test]
    fn delays_that_vary_grow_at_once_or_fall_again_are_no_bend() {
        assert_eq!(bend(&train(|index| index * index % 1700)), None);
        assert_eq!(bend(&train(|index| 50 * index)), None);
        assert_eq!(bend(&train(|index| 50 * (60 - (index - 150).abs()).max(0))), None);
        assert_eq!(bend(&train(|_| 0)), None);
    }
}
