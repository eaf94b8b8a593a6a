//! The size and fill level of a shaper's token bucket, from an account of all packets sent.
//!
//! A bucket of b bytes that fills at rate S acts as a queue whose first b bytes cause no delay: the delay is
//! `max(0, W / S - b / S)`, where W is the backlog of a link of rate S and counts missing tokens, too. Cross
//! traffic leaves only the available bandwidth A to serve the backlog of the probes. So W follows from the
//! send times and A, and a delay reveals W - b.

use crate::stream::{Arrival, StreamRecord};
use headway_units::{Bytes, Duration, Instant, Rate};

use super::delay::Baseline;

/// A packet counts as delayed from this share of a packet time.
pub(super) const DELAYED: f64 = 0.3;
/// Readings whose inherited backlog is at most this share of the bucket count; if there is none, only the
/// reading with the smallest share counts.
const INHERITED: f64 = 0.1;
/// The quantile of these readings that is taken as the bucket: cross traffic has often used
/// some tokens already.
const QUANTILE: f64 = 0.6;

/// Send times and one-way delays of all packets that arrived, per stream, with the packet size of the stream.
#[derive(Clone, Debug, Default)]
pub(super) struct Account {
    streams: Vec<(Bytes, Vec<(Instant, Duration)>)>,
}

/// Parameters for evaluating the account.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reading<'a> {
    /// Size of the packets whose delays count.
    pub(super) packet: Bytes,
    /// The sustained rate.
    pub(super) capacity: Rate,
    /// The available part of the sustained rate.
    pub(super) available: Rate,
    pub(super) baseline: &'a Baseline,
}

impl Account {
    pub(super) fn observe(&mut self, record: &StreamRecord) {
        let arrived = |a: &Arrival| Some((a.sent, a.one_way_delay()?));
        self.streams.push((record.packet, record.arrivals.iter().filter_map(arrived).collect()));
    }

    /// Discards all streams, for instance because a clock was stepped.
    pub(super) fn clear(&mut self) {
        self.streams.clear();
    }

    /// Returns the size of the bucket in bytes, from the points where streams began to be delayed; `None`
    /// when none did.
    pub(super) fn bucket(&self, reading: &Reading<'_>) -> Option<f64> {
        let mut readings: Vec<(f64, f64)> = Vec::new();
        let mut largest = None;
        let mut tokens = Tokens::new(reading);
        for (packet, stream) in &self.streams {
            let (mut hindered, mut passed, mut inherited) = (false, None, None);
            for &(sent, delay) in stream {
                let backlog = tokens.send(sent, *packet);
                let inherited = *inherited.get_or_insert(backlog - packet.get() as f64);
                if *packet != reading.packet {
                    // The baseline belongs to packets of another size.
                    continue;
                }
                let queueing = reading.baseline.above(delay);
                if queueing <= tokens.least {
                    passed = Some(backlog);
                    continue;
                }
                let queue = bytes(reading.capacity, queueing);
                if let (false, Some(passed)) = (hindered, passed) {
                    // A burst of cross traffic may have arrived just before, but everything
                    // sent until then fitted.
                    let bucket = (backlog - queue).max(passed);
                    largest = Some(bucket.max(largest.unwrap_or(bucket)));
                    readings.push((inherited / bucket.max(packet.get() as f64), bucket));
                }
                hindered = true;
                // The delay gives the backlog directly; accumulated over many streams, a small error of the
                // rate would not.
                tokens.backlog = largest.map_or(backlog, |bucket| bucket + queue);
            }
        }
        readings.sort_unstable_by(|one, other| one.0.total_cmp(&other.0));
        let certain = readings.partition_point(|(inherited, _)| *inherited <= INHERITED);
        readings.truncate(certain.max(1));
        readings.sort_unstable_by(|one, other| one.1.total_cmp(&other.1));
        let index = ((readings.len() as f64 - 1.0) * QUANTILE).round().max(0.0) as usize;
        readings.get(index).map(|(_, bucket)| *bucket)
    }

    /// Returns the bytes that pass a bucket of `bucket` bytes without delay when sent `idle`
    /// after the last packet.
    pub(super) fn room(&self, reading: &Reading<'_>, bucket: f64, idle: Duration) -> f64 {
        let mut tokens = Tokens::new(reading);
        for (packet, stream) in &self.streams {
            for &(sent, delay) in stream {
                tokens.send(sent, *packet);
                let queueing = reading.baseline.above(delay);
                tokens.backlog = if *packet == reading.packet && queueing > tokens.least {
                    bucket + bytes(reading.capacity, queueing)
                } else {
                    tokens.backlog.min(bucket)
                };
            }
        }
        (bucket - tokens.backlog + bytes(reading.available, idle)).min(bucket)
    }
}

/// The backlog in bytes of a link of rate A that all packets pass.
struct Tokens {
    available: f64,
    backlog: f64,
    last: Option<Instant>,
    /// The smallest delay that counts.
    least: Duration,
}

impl Tokens {
    fn new(reading: &Reading<'_>) -> Tokens {
        Tokens {
            available: reading.available.bps_f64() / 8.0,
            backlog: 0.0,
            last: None,
            least: reading.capacity.time_for(reading.packet).scale(DELAYED),
        }
    }

    /// Returns the backlog after a packet that is sent now.
    fn send(&mut self, now: Instant, packet: Bytes) -> f64 {
        let idle = self.last.map_or(Duration::ZERO, |last| now - last);
        self.last = Some(now);
        self.backlog = (self.backlog - self.available * idle.secs_f64()).max(0.0) + packet.get() as f64;
        self.backlog
    }
}

fn bytes(rate: Rate, time: Duration) -> f64 {
    rate.bps_f64() / 8.0 * time.secs_f64()
}

#[cfg(test)]
mod tests {
    use super::*;

    const PACKET: Bytes = Bytes::new(1_000);

    /// Sends bursts through a bucket of 10 000 bytes that fills at 8 Mb/s (one byte per microsecond), all
    /// of it available.
    fn streams(bursts: &[(u64, u64)]) -> (Account, Baseline) {
        let (mut account, mut baseline) = (Account::default(), Baseline::default());
        let (mut backlog, mut now) = (0u64, 0);
        for &(idle_us, packets) in bursts {
            (backlog, now) = (backlog.saturating_sub(idle_us), now + idle_us);
            let mut arrivals = Vec::new();
            for index in 0..packets {
                if index > 0 {
                    (backlog, now) = (backlog.saturating_sub(100), now + 100);
                }
                backlog += PACKET.get();
                let delay = 5_000 + backlog.saturating_sub(10_000);
                let at = |us: u64| Instant::from_ns(1_000 * us);
                let (sent, received) = (at(now), Some(at(now + delay)));
                arrivals.push(Arrival { index: index as u32, size: PACKET, sent, received });
            }
            let record = StreamRecord {
                id: 0,
                packet: PACKET,
                average: Rate::default(),
                intended: Vec::new(),
                arrivals,
            };
            account.observe(&record);
            baseline.observe(&record);
        }
        (account, baseline)
    }

    fn reading(baseline: &Baseline) -> Reading<'_> {
        let rate = Rate::from_mbps(8.0);
        Reading { packet: PACKET, capacity: rate, available: rate, baseline }
    }

    #[test]
    fn the_bucket_is_what_passed_less_what_filled_it() {
        let (account, baseline) = streams(&[(0, 20)]);
        let bucket = account.bucket(&reading(&baseline)).expect("a knee");
        assert!((bucket - 10_000.0).abs() < 1.0, "{bucket}");
    }

    #[test]
    fn streams_that_find_it_half_full_are_told_by_what_was_sent_before() {
        let (account, baseline) = streams(&[(0, 6), (1_000, 4), (1_000, 6)]);
        let bucket = account.bucket(&reading(&baseline)).expect("a knee");
        assert!((bucket - 10_000.0).abs() < 1.0, "{bucket}");
        let (account, baseline) = streams(&[(0, 6), (1_000, 3)]);
        assert_eq!(account.bucket(&reading(&baseline)), None);
    }

    #[test]
    fn a_small_error_of_what_is_free_does_not_add_up_over_many_streams() {
        // Every stream finds a third of the bucket; the assumed available bandwidth is 5 % too high.
        let bursts: Vec<(u64, u64)> =
            (0..60).map(|index| (if index == 0 { 0 } else { 14_000 }, 20)).collect();
        let (account, baseline) = streams(&bursts);
        let reading = Reading { available: Rate::from_mbps(8.4), ..reading(&baseline) };
        let bucket = account.bucket(&reading).expect("a knee");
        assert!((bucket / 10_000.0 - 1.0).abs() < 0.1, "{bucket}");
    }

    #[test]
    fn there_is_room_for_what_has_come_in_since() {
        let (account, baseline) = streams(&[(0, 20)]);
        let room = |us| account.room(&reading(&baseline), 10_000.0, Duration::from_us(us));
        // The last packet was delayed by 20 000 - 19 * 100 - 10 000 us.
        assert!((room(8_100)).abs() < 1.0, "{}", room(8_100));
        assert!((room(10_100) - 2_000.0).abs() < 1.0 && (room(90_000) - 10_000.0).abs() < 1.0);
    }
}
