//! The search for a shaper: trains at the sender's highest rate grow until one exhausts the token bucket.

use crate::knee::{Profile, profile, receive_gaps};
use crate::stream::{Schedule, StreamRecord};
use headway_units::statistics::upper_median;
use headway_units::{Bytes, Duration, Rate};

use super::MAX_STREAM_PACKETS;
use super::delay::{Baseline, delayed};
use super::probe::sent_for;
use super::startup::growth_rate;

/// Size of the longest train. Tokens arrive while it passes, so only somewhat smaller buckets can be found.
const LARGEST: Bytes = Bytes::new(300_000);
/// After a train of this size, no longer one is sent.
const ALMOST: Bytes = Bytes::new(290_000);
/// Factor by which a train grows after one that fitted into the bucket; every excess packet has to queue.
const LONGER: f64 = 1.5;
/// The first of these trains is larger than this.
const FIRST: Bytes = Bytes::new(24_000);
/// Packets after a knee that determine the sustained rate.
const BEHIND: u64 = 24;
/// Number of gaps after knees, over all trains, that determine it.
const ENOUGH_GAPS: usize = 16;
/// Packet size to which gaps are scaled.
const UNIT: Bytes = Bytes::new(1_000);
/// Trains with a knee that it takes to detect a shaper.
const ENOUGH_KNEES: u32 = 2;
/// Inconclusive or refused trains after which the search ends.
const MAX_INCONCLUSIVE: u32 = 3;

/// A train that arrives in less than this share of the time it was sent in arrived at once.
const AT_ONCE: f64 = 0.5;
/// A train must last several times as long as receivers hold packets up (120 us, rapid 2.15) before
/// its delay shows growth.
const HELD_UP: Duration = Duration::from_us(480);

/// The results of trains so far.
#[derive(Clone, Debug, Default)]
pub(super) struct ShaperSearch {
    /// Size of the longest train or stream that was not delayed.
    flat: Bytes,
    /// Number of trains that were not delayed.
    fits: u32,
    /// The largest size before any knee.
    before: Option<Bytes>,
    knees: u32,
    others: u32,
    /// How much delays grew during trains without a knee, and how long these were sent, in seconds.
    growths: Vec<(f64, f64)>,
    /// Durations of those that arrived all at once: the receiver waits for more packets before it looks.
    bunched: Vec<Duration>,
    /// Receive gaps after a knee, scaled to 1000 bytes because packets of different
    /// trains may differ in size.
    gaps: Vec<Duration>,
}

/// The sustained rate of a shaper, and the approximate size of a burst that passes unshaped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shaper {
    pub(super) capacity: Rate,
    pub(super) bytes: Bytes,
}

impl ShaperSearch {
    /// Adds a multi-rate stream that was sent before the trains.
    pub(super) fn observe_rising(&mut self, record: &StreamRecord, baseline: &Baseline) {
        let packets = delayed(record, baseline);
        if profile(&packets) == Profile::Flat {
            self.flat = self.flat.max(record.packet * packets.len() as u64);
        }
    }

    pub(super) fn observe(&mut self, record: &StreamRecord, baseline: &Baseline) {
        let packets = delayed(record, baseline);
        let profile = profile(&packets);
        if !matches!(profile, Profile::Knee(_)) {
            let sent = sent_for(record).secs_f64();
            self.growths.push((growth_rate(record) * sent, sent));
            self.bunched.extend(bunched(record));
        }
        match profile {
            Profile::Flat => {
                self.flat = self.flat.max(record.packet * packets.len() as u64);
                self.fits += 1;
            }
            Profile::Knee(before) => {
                self.knees += 1;
                self.before = self.before.max(Some(record.packet * before as u64));
                let size = record.packet.get().max(1) as f64;
                self.gaps
                    .extend(receive_gaps(&packets[before..]).map(|gap| gap.scale(UNIT.get() as f64 / size)));
            }
            Profile::Other => self.others += 1,
        }
    }

    pub(super) fn refused(&mut self) {
        self.others += 1;
    }

    /// Returns whether longer trains are worthwhile; `narrow` tells whether trains were
    /// spread out on the way.
    pub(super) fn open(&self, narrow: bool) -> bool {
        if self.shaper().is_some() {
            return false;
        }
        let suspected = self.knees > 0 || self.fits > 0 || !narrow;
        suspected && self.others < MAX_INCONCLUSIVE + self.knees && self.flat < ALMOST
    }

    /// Returns whether there was any train.
    pub(super) fn has_any(&self) -> bool {
        self.knees > 0 || !self.growths.is_empty()
    }

    /// Returns how much the delay grew during trains without a knee, per time. Bursts of other traffic
    /// meet only some trains.
    pub(super) fn growth(&self) -> f64 {
        let sent: f64 = self.growths.iter().map(|(_, sent)| sent).sum();
        self.growths.iter().map(|(grown, _)| grown).sum::<f64>() / sent.max(f64::MIN_POSITIVE)
    }

    /// Returns the share of their rate that trains can have shown: less than all where most of
    /// them arrived at once.
    pub(super) fn shown(&self) -> f64 {
        if self.bunched.len() * 2 <= self.growths.len() {
            return 1.0;
        }
        let longest = self.bunched.iter().copied().max().unwrap_or_default().secs_f64();
        longest / (longest + HELD_UP.secs_f64())
    }

    /// Discards the count of inconclusive trains, because those of the next phase are preceded by a pause.
    pub(super) fn begin(&mut self) {
        self.others = 0;
    }

    /// Returns the next train, with packets of this size.
    pub(super) fn schedule(&self, rate: Rate, packet: Bytes) -> Schedule {
        let longer = self.flat.max(FIRST).get() as f64 * LONGER;
        let behind = |before: Bytes| (before.max(self.flat) + packet * BEHIND).get() as f64;
        let bytes = self.before.map_or(longer, behind).min(LARGEST.get() as f64);
        let packets = (bytes / packet.get().max(1) as f64).ceil() as usize;
        Schedule::single_rate(rate, packets.clamp(2, MAX_STREAM_PACKETS as usize) - 1, packet)
    }

    /// Returns the shaper, once it is certain.
    pub(super) fn shaper(&self) -> Option<Shaper> {
        if self.knees < ENOUGH_KNEES || self.gaps.len() < ENOUGH_GAPS {
            return None;
        }
        let capacity = Rate::of(UNIT, upper_median(self.gaps.clone())?)?;
        Some(Shaper { capacity, bytes: self.before? })
    }

    /// Returns the approximate time to refill a bucket that a train has exhausted.
    pub(super) fn refill(&self) -> Duration {
        let Some((before, gap)) = self.before.zip(upper_median(self.gaps.clone())) else {
            return Duration::ZERO;
        };
        gap.scale(before.get() as f64 / UNIT.get() as f64)
    }
}

/// Returns the duration of a train that arrived at once.
fn bunched(record: &StreamRecord) -> Option<Duration> {
    let arrived = || record.arrivals.iter().filter(|arrival| arrival.received.is_some());
    let (first, last) = (arrived().next()?, arrived().next_back()?);
    let (sent, received) = (last.sent - first.sent, last.received? - first.received?);
    (received < sent.scale(AT_ONCE)).then_some(sent)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stream::Arrival;
    use headway_units::Instant;

    const PACKET: Bytes = Bytes::new(1_000);

    /// Returns packets 10 us apart of which the first `pass` are not delayed; every later one takes 100 us.
    fn train(packets: usize, pass: usize) -> StreamRecord {
        let arrival = |index: usize| {
            let sent = Instant::from_ns(10_000 * index as u64);
            let queueing = Duration::from_us(90 * (index + 1).saturating_sub(pass) as i64);
            let received = Some(sent + Duration::from_ms(1) + queueing);
            Arrival { index: index as u32, size: PACKET, sent, received }
        };
        StreamRecord {
            id: 0,
            packet: PACKET,
            average: Rate::from_mbps(800.0),
            intended: vec![Duration::from_us(10); packets - 1],
            arrivals: (0..packets).map(arrival).collect(),
        }
    }

    /// Returns the number of packets of each train sent through a bucket of `pass` packets.
    fn trains(pass: usize) -> (ShaperSearch, Vec<usize>) {
        let (mut search, mut baseline, mut sent) = (ShaperSearch::default(), Baseline::default(), Vec::new());
        while search.open(false) && sent.len() < 20 {
            let record = train(search.schedule(Rate::from_mbps(800.0), PACKET).packets(), pass);
            baseline.observe(&record);
            search.observe(&record, &baseline);
            sent.push(record.arrivals.len());
        }
        (search, sent)
    }

    #[test]
    fn trains_get_longer_by_half_until_the_largest_bucket_would_have_shown() {
        let (search, sent) = trains(1_000);
        assert_eq!(sent, [36, 54, 81, 122, 183, 275, 300]);
        assert_eq!(search.shaper(), None);
    }

    #[test]
    fn two_trains_behind_the_knee_give_the_sustained_rate() {
        let (search, sent) = trains(40);
        assert_eq!(sent, [36, 54, 64]);
        assert_eq!(search.shaper(), Some(Shaper { capacity: Rate::from_mbps(80.0), bytes: PACKET * 40 }));
    }

    #[test]
    fn a_path_that_delays_every_packet_is_soon_left_alone() {
        let (search, sent) = trains(0);
        assert_eq!(sent, [36; 3]);
        assert_eq!(search.shaper(), None);
    }
}
