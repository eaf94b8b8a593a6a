//! The capacity of the narrow link, from short trains sent at the sender's highest rate.

use crate::stream::{Refusal, Schedule, StreamRecord};
use headway_units::statistics::upper_median;
use headway_units::{Bytes, Duration, Rate};

use super::Config;
use super::jitter::Span;
use super::probe::{Probe, Sums};

/// Number of trains; the rate-response estimator is insensitive to the capacity, so few suffice.
const TRAINS: usize = 3;
/// Longest time that the queue of a train may take to drain at the available bandwidth; shorter trains are
/// sent more often.
const MAX_DURATION: Duration = Duration::from_ms(20);
/// Minimum number of gaps in a train; fewer could not separate the packet time from cross packets.
const MIN_PACKETS: usize = 4;
/// Packets after the first in a train: a minimum that fits a buffer of 25 kB on slow paths, and a maximum.
const TRAIN: (usize, usize) = (16, 48);
/// From this available bandwidth on, trains grow in proportion to it, because a train must
/// outlast several interrupts.
const FAST: Rate = Rate::from_bps(100_000_000);

/// Bytes that a sender can send in one burst if its rate limit is below the rate of the trains.
const BURST: Bytes = Bytes::new(60_000);
/// A train whose receive time exceeds its send time by this factor met a narrower link.
const SPREAD: f64 = 1.1;
/// The same if all trains exceed it, as where the sender's line is hardly faster than the link.
const SPREAD_OF_ALL: f64 = 1.02;

/// A median receive gap below this share of the send gap means that the receiver coalesces interrupts.
const CLOSER: f64 = 0.8;
/// Minimum number of batches, as the receive time over the longest gap: two or three give no reliable rate
/// of the train.
const BATCHES: i64 = 6;
/// The median gap is the packet time if this share of the gaps ...
const ALIKE_SHARE: f64 = 0.7;
/// ... differs from it by no more than this share, which noise of stamps does not exceed on most paths.
const ALIKE: f64 = 0.03;
/// On a path with jitter, a train lasts this many times the jitter span ...
const SPANS: i64 = 4;
/// ... but is no larger than this, out of a budget of 2 MB.
const MAX_BYTES: Bytes = Bytes::new(150_000);

/// A capacity is at most this many times what trains allow: bursts of others may have delayed all of
/// them. Range 1.2 to 3.
const ALLOWED: f64 = 1.5;

const UNLIMITED: Rate = Rate::from_bps(u64::MAX);

/// Collects trains and computes the narrow link's capacity.
#[derive(Clone, Debug, Default)]
pub(super) struct Capacity {
    packet: Bytes,
    rate: Rate,
    packets: usize,
    wanted: usize,
    tried: usize,
    gaps: Vec<Duration>,
    fastest: Option<Rate>,
    coalesced: bool,
    narrow: bool,
    /// Number of trains that were spread out at least by [`SPREAD_OF_ALL`].
    spread: usize,
    jitter: Option<Span>,
    /// Receive rates of whole trains.
    rates: Vec<Rate>,
    /// The highest capacity that any train allows.
    allowed: Rate,
}

impl Capacity {
    /// Creates trains of packets of this size for a path with this much available bandwidth and jitter.
    pub(super) fn new(config: &Config, packet: Bytes, available: Rate, jitter: Option<Span>) -> Capacity {
        let (short, long) = TRAIN;
        let scaled = short as f64 * available.bps_f64() / FAST.bps_f64();
        let packets = (scaled.ceil() as usize).clamp(short, long);
        let limited = config.train_rate > config.top_rate;
        let most = if limited { (BURST.get() / packet.get().max(1)) as usize } else { long };
        let in_time = (available.bytes_in(MAX_DURATION).get() / packet.get().max(1)) as usize;
        let through = jitter.map_or(0, |jitter| {
            let bytes = available.bytes_in(jitter.most * SPANS).min(MAX_BYTES);
            (bytes.get() / packet.get().max(1)) as usize
        });
        let packets = packets.max(through.min(in_time));
        let usual = packets.min(most.saturating_sub(1)).max(2);
        let packets = usual.min(in_time.max(MIN_PACKETS));
        Capacity {
            packet,
            rate: config.train_rate,
            packets,
            wanted: TRAINS * usual.div_ceil(packets),
            jitter,
            ..Capacity::default()
        }
    }

    /// Returns the size of each packet.
    pub(super) fn packet(&self) -> Bytes {
        self.packet
    }

    /// Returns the number of trains.
    pub(super) fn streams(&self) -> usize {
        self.wanted
    }

    /// Returns the size of all trains together.
    pub(super) fn bytes(&self) -> Bytes {
        self.schedule().bytes() * self.wanted as u64
    }

    pub(super) fn schedule(&self) -> Schedule {
        Schedule::single_rate(self.rate, self.packets, self.packet)
    }

    /// Returns whether any train was spread out on the way; if not, the narrow link may be
    /// faster than the sender.
    pub(super) fn narrow(&self) -> bool {
        self.narrow || self.rates.len() >= TRAINS && self.spread == self.rates.len()
    }

    /// Returns whether the receiver coalesces interrupts.
    pub(super) fn coalesced(&self) -> bool {
        self.coalesced
    }

    /// Returns whether enough trains were tried.
    pub(super) fn done(&self) -> bool {
        self.tried >= self.wanted
    }

    pub(super) fn refused(&mut self) {
        self.tried += 1;
    }

    pub(super) fn observe(&mut self, record: &StreamRecord, probe: &mut Probe) -> Result<(), Refusal> {
        if record.lost() > 0 {
            // The train was longer than the queue can hold.
            self.packets = (self.packets / 2).max(MIN_PACKETS);
        }
        let whole = probe.sums(record, Duration::ZERO)?;
        self.tried += 1;
        let gaps = probe.receive_gaps().to_vec();
        self.gaps.extend_from_slice(&gaps);
        self.narrow |= whole.receive > whole.send.scale(SPREAD);
        self.spread += usize::from(whole.receive > whole.send.scale(SPREAD_OF_ALL));
        let packet_time = whole.receive / whole.samples as i64;
        let bytes = self.packet * whole.samples;
        self.rates.extend(Rate::of(bytes, whole.receive));
        // Others that take a whole link would delay a train by as much as it takes to send it.
        self.allowed = self.allowed.max(Rate::of(bytes, whole.receive - whole.send).unwrap_or(UNLIMITED));
        let events = probe.sums(record, packet_time).unwrap_or(whole);
        self.coalesced |= events.samples < whole.samples || in_batches(gaps, &whole);
        self.fastest = self.fastest.max(Rate::of(self.packet * events.samples, events.receive));
        Ok(())
    }

    /// Returns the median gap if few gaps are like it, so that it may not be the packet time of the narrow
    /// link; `None` also where gaps do not show that, because the receiver coalesces or delays jitter.
    pub(super) fn scattered(&self) -> Option<Duration> {
        if self.coalesced || self.jitter.is_some() || !self.narrow() {
            return None;
        }
        let middle = upper_median(self.gaps.clone())?;
        let range = middle.scale(1.0 - ALIKE)..=middle.scale(1.0 + ALIKE);
        let alike = self.gaps.iter().filter(|gap| range.contains(gap)).count();
        ((alike as f64) < ALIKE_SHARE * self.gaps.len() as f64).then_some(middle)
    }

    /// Returns whether the trains allow this capacity. Two packets may pass any link as fast as they were
    /// sent, as a shaper that lets this many pass at once; trains do not.
    pub(super) fn allows(&self, capacity: Rate) -> bool {
        capacity <= self.allowed.scale(ALLOWED)
    }

    /// Returns the time a coalescing receiver takes per packet of a batch: the mean of the
    /// shorter half of the gaps.
    pub(super) fn driver(&self) -> Option<Duration> {
        let mut gaps = self.gaps.clone();
        gaps.sort_unstable();
        gaps.truncate(gaps.len() / 2);
        let count = gaps.len() as i64;
        (self.coalesced && self.jitter.is_none() && count > 0)
            .then(|| gaps.into_iter().sum::<Duration>() / count)
    }

    /// Returns the capacity, once any train has arrived.
    ///
    /// Most packets of a train leave a FIFO link back to back, so the median gap is one packet time
    /// regardless of the cross traffic between other packets. Coalescing destroys individual gaps; the
    /// capacity is then that of the fastest train, measured over whole buffering events.
    pub(super) fn capacity(&mut self) -> Option<Rate> {
        if self.jitter.is_some() {
            // Jitter makes individual gaps arbitrarily long or short.
            self.rates.sort_unstable();
            return self.rates.get(self.rates.len() / 2).copied();
        }
        if self.coalesced {
            return self.fastest;
        }
        Rate::of(self.packet, upper_median(self.gaps.clone())?)
    }
}

/// Returns whether a train arrived in several batches: no link moves most packets closer together
/// than they were sent.
fn in_batches(gaps: Vec<Duration>, train: &Sums) -> bool {
    let sent = train.send / train.samples.max(1) as i64;
    let longest = gaps.iter().max().copied().unwrap_or_default();
    let closer = upper_median(gaps).is_some_and(|gap| gap < sent.scale(CLOSER));
    closer && longest * BATCHES <= train.receive
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stream::{Arrival, StreamRecord};
    use headway_units::Instant;

    const PACKET: Bytes = Bytes::new(9_000);

    /// Simulates packets sent 3 us apart over a link that takes 30 us per packet; an interrupt every
    /// `interval` delivers them 1 us apart.
    fn train(packets: u64, interval: u64) -> StreamRecord {
        let arrivals: Vec<Arrival> = (0..packets)
            .map(|index| {
                let interrupt = (index * 30 / interval + 1) * interval;
                let first = (interrupt - interval).div_ceil(30);
                Arrival {
                    index: index as u32,
                    size: PACKET,
                    sent: Instant::from_ns(index * 3_000),
                    received: Some(Instant::from_ns((interrupt + index - first) * 1_000)),
                }
            })
            .collect();
        let intended = vec![Duration::from_us(3); packets as usize - 1];
        StreamRecord { id: 0, packet: PACKET, average: Rate::from_mbps(24_000.0), intended, arrivals }
    }

    fn in_batches(record: &StreamRecord) -> bool {
        let mut probe = Probe::default();
        let whole = probe.sums(record, Duration::ZERO).expect("a train");
        super::in_batches(probe.receive_gaps().to_vec(), &whole)
    }

    #[test]
    fn the_time_that_a_driver_takes_is_no_capacity() {
        assert!(in_batches(&train(48, 120)));
        // With so few batches, the rate of the whole train is unreliable, too.
        assert!(!in_batches(&train(12, 120)));
        // One packet per interrupt.
        assert!(!in_batches(&train(48, 30)));
    }
}
