//! Looking for a shaper: trains as fast as the sender can, longer and longer, until one uses up the token bucket.

use crate::estimate::knee::{Profile, median, profile, receive_gaps};
use crate::stream::{Schedule, StreamRecord};
use crate::units::{Bytes, Duration, Rate};

use super::LONGEST_STREAM;
use super::delay::{Baseline, delayed};

/// The longest train. Tokens come in while it passes, so a bucket may have to be somewhat smaller to be found.
const LARGEST: Bytes = Bytes::new(300_000);
/// No longer train is sent after one that was almost as long.
const ALMOST: Bytes = Bytes::new(290_000);
/// How many times as long a train is after one that fitted into the bucket: every packet too many has to queue.
const LONGER: f64 = 1.5;
/// Bytes that the first of them is longer than.
const FIRST: Bytes = Bytes::new(24_000);
/// Packets behind a knee that tell the sustained rate.
const BEHIND: u64 = 24;
/// Gaps behind knees that do, of all trains together.
const ENOUGH_GAPS: usize = 16;
/// What gaps are scaled to.
const UNIT: Bytes = Bytes::new(1_000);
/// Trains with a knee before it is believed.
const ENOUGH_KNEES: u32 = 2;
/// Trains that show something else, or are refused, before looking further is pointless.
const PATIENCE: u32 = 3;

/// What trains have shown so far.
#[derive(Clone, Debug, Default)]
pub(super) struct Knees {
    /// Bytes of the longest train or stream that was not delayed.
    flat: Bytes,
    /// Trains that were not delayed.
    fits: u32,
    /// The most bytes before any knee.
    before: Option<Bytes>,
    knees: u32,
    others: u32,
    /// Times from one packet to the next behind a knee, for a thousand bytes: packets of different trains may differ in size.
    gaps: Vec<Duration>,
}

/// A shaper's sustained rate, and about how many bytes pass before it shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shaper {
    pub(super) capacity: Rate,
    pub(super) bytes: Bytes,
}

impl Knees {
    /// Takes in a stream of several rates that was sent before there were trains.
    pub(super) fn observe_rising(&mut self, record: &StreamRecord, baseline: &Baseline) {
        let packets = delayed(record, baseline);
        if profile(&packets) == Profile::Flat {
            self.flat = self.flat.max(record.packet * packets.len() as u64);
        }
    }

    pub(super) fn observe(&mut self, record: &StreamRecord, baseline: &Baseline) {
        let packets = delayed(record, baseline);
        match profile(&packets) {
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

    /// Whether longer trains are worth sending; `narrow` when trains were spread out on the way.
    pub(super) fn open(&self, narrow: bool) -> bool {
        if self.shaper().is_some() {
            return false;
        }
        let suspected = self.knees > 0 || self.fits > 0 || !narrow;
        suspected && self.others < PATIENCE + self.knees && self.flat < ALMOST
    }

    /// Forgets that trains showed neither, as those of the next phase come after a pause.
    pub(super) fn begin(&mut self) {
        self.others = 0;
    }

    /// The next train, of packets of this size.
    pub(super) fn schedule(&self, rate: Rate, packet: Bytes) -> Schedule {
        let longer = self.flat.max(FIRST).get() as f64 * LONGER;
        let behind = |before: Bytes| (before.max(self.flat) + packet * BEHIND).get() as f64;
        let bytes = self.before.map_or(longer, behind).min(LARGEST.get() as f64);
        let packets = (bytes / packet.get().max(1) as f64).ceil() as usize;
        Schedule::single_rate(rate, packets.clamp(2, LONGEST_STREAM as usize) - 1, packet)
    }

    /// The shaper, once it is certain.
    pub(super) fn shaper(&self) -> Option<Shaper> {
        if self.knees < ENOUGH_KNEES || self.gaps.len() < ENOUGH_GAPS {
            return None;
        }
        let capacity = Rate::of(UNIT, median(self.gaps.clone())?)?;
        Some(Shaper { capacity, bytes: self.before? })
    }

    /// How long a bucket that a train has used up takes to fill, about.
    pub(super) fn refill(&self) -> Duration {
        let Some((before, gap)) = self.before.zip(median(self.gaps.clone())) else { return Duration::ZERO };
        gap.scale(before.get() as f64 / UNIT.get() as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stream::Arrival;
    use crate::units::Instant;

    const PACKET: Bytes = Bytes::new(1_000);

    /// Packets 10 us apart of which so many pass, and every later one takes 100 us.
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

    /// The packets of the trains that are sent through a bucket of so many packets.
    fn trains(pass: usize) -> (Knees, Vec<usize>) {
        let (mut knees, mut baseline, mut sent) = (Knees::default(), Baseline::default(), Vec::new());
        while knees.open(false) && sent.len() < 20 {
            let record = train(knees.schedule(Rate::from_mbps(800.0), PACKET).packets(), pass);
            baseline.observe(&record);
            knees.observe(&record, &baseline);
            sent.push(record.arrivals.len());
        }
        (knees, sent)
    }

    #[test]
    fn trains_get_longer_by_half_until_the_largest_bucket_would_have_shown() {
        let (knees, sent) = trains(1_000);
        assert_eq!(sent, [36, 54, 81, 122, 183, 275, 300]);
        assert_eq!(knees.shaper(), None);
    }

    #[test]
    fn two_trains_behind_the_knee_give_the_sustained_rate() {
        let (knees, sent) = trains(40);
        assert_eq!(sent, [36, 54, 64]);
        assert_eq!(knees.shaper(), Some(Shaper { capacity: Rate::from_mbps(80.0), bytes: PACKET * 40 }));
    }

    #[test]
    fn a_path_that_delays_every_packet_is_soon_left_alone() {
        let (knees, sent) = trains(0);
        assert_eq!(sent, [36; 3]);
        assert_eq!(knees.shaper(), None);
    }
}
