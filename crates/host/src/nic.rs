//! The receiving NIC: interrupt coalescing and the drain of its ring (rapid 2.15).

use std::collections::VecDeque;
use std::fmt;

use headway_units::{Duration, Instant};
use rand_pcg::Pcg64Mcg;
use serde::de::value::MapAccessDeserializer;
use serde::de::{self, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

use headway_traffic::distribution::between;

/// Delay from a packet's arrival to its interrupt when no other interrupt came recently (rapid 2.15).
const REACTION: Duration = Duration::from_us(1);
/// Time the driver takes per packet, in nanoseconds: uniform in this range (rapid 2.15).
const DRAIN: (f64, f64) = (600.0, 1_000.0);
/// Resolution of the driver's timestamps in nanoseconds (rapid 2.6).
const RESOLUTION: u64 = 1_000;
/// Longest interval that an adaptive NIC respects; above it the NIC counts frames instead (rapid 2.15).
const ADAPTIVE_THRESHOLD: Duration = Duration::from_us(12);
/// Range of an adaptive NIC's batch sizes, as a share of its number of frames. The publication only calls the
/// batches irregular, so the range is our choice.
const ADAPTIVE_BATCH: (f64, f64) = (0.5, 1.5);
/// After this time an adaptive NIC interrupts even for fewer frames: the 82599's class for bulk traffic makes
/// 8000 interrupts per second.
const ADAPTIVE_TIMEOUT: Duration = Duration::from_us(125);

/// The interrupt coalescing of a receiving NIC. In files, a table with a `kind`, or the
/// interval of a fixed one.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Coalescing {
    /// A minimum interval between interrupts (rapid 2.15, NIC1).
    Fixed {
        /// Time between interrupts before jitter (rx-usecs).
        interval: Duration,
        /// Share of the interval, 0 to 1, by which each interrupt is early or late; default 0.2. Without
        /// jitter the interrupts phase-lock with regular packet spacing (rapid 2.15).
        jitter: f64,
        /// Number of frames that trigger an interrupt at once (rx-frames); default no limit.
        #[serde(skip_serializing_if = "Option::is_none")]
        frames: Option<u32>,
    },
    /// As the Intel 82599 (rapid 2.15, NIC2): an interval of up to 12 us is respected and `frames` ignored;
    /// above that an interrupt comes about every `frames` frames, whatever the interval.
    Adaptive {
        /// Time between interrupts before a jitter of 20 % (rx-usecs).
        interval: Duration,
        /// Mean number of frames in a batch (rx-frames), at least 1.
        frames: u32,
    },
}

impl From<Duration> for Coalescing {
    /// A fixed interval with the usual jitter.
    fn from(interval: Duration) -> Coalescing {
        Coalescing::Fixed { interval, jitter: jitter(), frames: None }
    }
}

impl<'de> Deserialize<'de> for Coalescing {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Coalescing, D::Error> {
        deserializer.deserialize_any(Form)
    }
}

/// Reads either form.
struct Form;

impl<'de> Visitor<'de> for Form {
    type Value = Coalescing;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a time such as `\"120 us\"`, or a table with `kind = \"fixed\"` or `\"adaptive\"`")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Coalescing, E> {
        text.parse().map(|interval: Duration| interval.into()).map_err(E::custom)
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Coalescing, A::Error> {
        #[derive(Deserialize)]
        #[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
        enum Table {
            Fixed {
                interval: Duration,
                #[serde(default = "jitter")]
                jitter: f64,
                frames: Option<u32>,
            },
            Adaptive {
                interval: Duration,
                frames: u32,
            },
        }
        Ok(match Table::deserialize(MapAccessDeserializer::new(map))? {
            Table::Fixed { interval, jitter, frames } => Coalescing::Fixed { interval, jitter, frames },
            Table::Adaptive { interval, frames } => Coalescing::Adaptive { interval, frames },
        })
    }
}

/// Largest interval between interrupts; real NICs allow microseconds up to a few milliseconds.
const MAX_INTERVAL: Duration = Duration::from_ms(1_000);

impl Coalescing {
    /// Returns what is wrong with the values, if anything.
    pub fn mistake(&self) -> Option<&'static str> {
        let (interval, jitter, frames) = match *self {
            Coalescing::Fixed { interval, jitter, frames } => (interval, jitter, frames),
            Coalescing::Adaptive { interval, frames } => (interval, jitter(), Some(frames)),
        };
        if interval > MAX_INTERVAL {
            Some("must have an `interval` of at most 1 s")
        } else if !(0.0..=1.0).contains(&jitter) {
            Some("must have a `jitter` from 0 to 1")
        } else if frames == Some(0) {
            Some("must have at least 1 for `frames`")
        } else {
            None
        }
    }
}

/// The default jitter, from rapid 2.15.
fn jitter() -> f64 {
    0.2
}

/// Where a packet's receive timestamp is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Stamp {
    /// In the NIC, on arrival: exact.
    Nic,
    /// When the driver takes the packet out of the ring, in whole microseconds (rapid 2.6).
    Driver,
    /// When the packet is acknowledged, after its whole batch has been drained, in whole microseconds (rapid
    /// 2.25, V3).
    Ack,
}

/// Where the stamps are taken that ACKs carry, so that the sender knows when its segments arrived.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AckStamp {
    /// When the driver hands the segment up, in microseconds (rapid 2.6).
    #[default]
    Driver,
    /// When the ACK is sent, after the NIC's whole batch, in microseconds (rapid 2.25, V3).
    Ack,
    /// When the ACK is sent, in milliseconds: plain TCP timestamps (rapid 2.25, V2).
    Ms,
    /// Nowhere: the sender knows only when ACKs arrive.
    None,
}

impl AckStamp {
    /// Returns the unit of the stamps.
    pub fn unit(self) -> Duration {
        if self == AckStamp::Ms { Duration::from_ms(1) } else { Duration::from_us(1) }
    }
}

/// A receiving NIC and its driver.
///
/// The caller reports every arrival in order, and calls [`Nic::poll`] at [`Nic::next_event`]. If both happen
/// at the same time, the arrival comes first.
#[derive(Clone, Debug)]
pub struct Nic<T> {
    coalescing: Coalescing,
    ring: VecDeque<T>,
    /// No interrupt before this time, where the interval applies.
    earliest: Instant,
    state: State,
    rng: Pcg64Mcg,
}

#[derive(Clone, Copy, Debug)]
enum State {
    /// The ring is empty.
    Idle,
    /// An interrupt will come at `at`, or as soon as the ring holds `frames` frames.
    Waiting { at: Instant, frames: usize },
    /// The driver hands up the first packet of the ring at `at`.
    Draining { at: Instant },
}

impl<T> Nic<T> {
    /// Creates an idle NIC.
    pub fn new(coalescing: Coalescing, rng: Pcg64Mcg) -> Nic<T> {
        Nic { coalescing, ring: VecDeque::new(), earliest: Instant::ZERO, state: State::Idle, rng }
    }

    /// Adds a packet that has arrived from the wire.
    pub fn arrive(&mut self, now: Instant, packet: T) {
        self.ring.push_back(packet);
        if let State::Idle = self.state {
            self.state = self.wait(now);
        }
        if let State::Waiting { frames, .. } = self.state
            && self.ring.len() >= frames
        {
            self.interrupt(now);
        }
    }

    /// Returns when to call [`Nic::poll`] next; `None` while the ring is empty.
    pub fn next_event(&self) -> Option<Instant> {
        match self.state {
            State::Idle => None,
            State::Waiting { at, .. } | State::Draining { at } => Some(at),
        }
    }

    /// Returns the packet that the driver hands up by `now`, and the time of that. `None` if there is none
    /// yet, also when an interrupt was raised.
    pub fn poll(&mut self, now: Instant) -> Option<(T, Instant)> {
        if let State::Waiting { at, .. } = self.state
            && at <= now
        {
            self.interrupt(at);
        }
        let State::Draining { at } = self.state else { return None };
        if at > now {
            return None;
        }
        let packet = self.ring.pop_front()?;
        self.state =
            if self.ring.is_empty() { State::Idle } else { State::Draining { at: at + self.drain() } };
        Some((packet, at))
    }

    /// Bytes of memory that the ring takes.
    pub fn memory(&self) -> usize {
        self.ring.capacity() * size_of::<T>()
    }

    /// Number of packets that have arrived but have not been handed up.
    pub fn held(&self) -> usize {
        self.ring.len()
    }

    /// Whether the packet handed up last was the last of its batch.
    pub fn is_batch_over(&self) -> bool {
        !matches!(self.state, State::Draining { .. })
    }

    /// Returns the state after the first packet of a batch has arrived.
    fn wait(&mut self, now: Instant) -> State {
        match self.coalescing {
            Coalescing::Fixed { frames, .. } => {
                let frames = frames.map_or(usize::MAX, |frames| frames as usize);
                State::Waiting { at: self.earliest.max(now + REACTION), frames }
            }
            Coalescing::Adaptive { interval, .. } if interval <= ADAPTIVE_THRESHOLD => {
                State::Waiting { at: self.earliest.max(now + REACTION), frames: usize::MAX }
            }
            Coalescing::Adaptive { frames, .. } => {
                let (low, high) = ADAPTIVE_BATCH;
                let frames = (f64::from(frames) * between(&mut self.rng, low, high)).round() as usize;
                State::Waiting { at: now + ADAPTIVE_TIMEOUT, frames }
            }
        }
    }

    fn interrupt(&mut self, now: Instant) {
        let (interval, jitter) = match self.coalescing {
            Coalescing::Fixed { interval, jitter, .. } => (interval, jitter),
            Coalescing::Adaptive { interval, .. } => (interval, jitter()),
        };
        self.earliest = now + interval.scale(1.0 + between(&mut self.rng, -jitter, jitter));
        self.state = State::Draining { at: now + self.drain() };
    }

    fn drain(&mut self) -> Duration {
        Duration::from_ns(between(&mut self.rng, DRAIN.0, DRAIN.1) as i64)
    }
}

/// Returns the timestamps of packets that arrive at these times, which must not decrease.
pub fn stamps(coalescing: Coalescing, stamp: Stamp, arrivals: &[Instant], rng: Pcg64Mcg) -> Vec<Instant> {
    if stamp == Stamp::Nic {
        return arrivals.to_vec();
    }
    let mut nic = Nic::new(coalescing, rng);
    let mut stamps = Vec::with_capacity(arrivals.len());
    let mut batch = 0;
    let mut arrivals = arrivals.iter().copied().peekable();
    while let Some(event) = [arrivals.peek().copied(), nic.next_event()].into_iter().flatten().min() {
        if let Some(arrival) = arrivals.next_if_eq(&event) {
            nic.arrive(arrival, ());
            continue;
        }
        let Some(((), drained)) = nic.poll(event) else { continue };
        stamps.push(quantised(drained));
        if nic.is_batch_over() {
            if stamp == Stamp::Ack {
                stamps[batch..].fill(quantised(drained));
            }
            batch = stamps.len();
        }
    }
    stamps
}

/// The time as shown by the driver's clock with a resolution of a microsecond.
fn quantised(time: Instant) -> Instant {
    Instant::from_ns(time.ns() / RESOLUTION * RESOLUTION)
}

#[cfg(test)]
mod tests {
    use super::*;
    use headway_traffic::random::generator;
    use proptest::prelude::*;

    fn fixed(us: i64, jitter: f64) -> Coalescing {
        Coalescing::Fixed { interval: Duration::from_us(us), jitter, frames: None }
    }

    fn every(gap_ns: u64, count: u64) -> Vec<Instant> {
        (1..=count).map(|k| Instant::from_ns(k * gap_ns)).collect()
    }

    /// Batch sizes without the first and the last: packets handed up less than 2 us apart
    /// belong to one batch.
    fn batches(stamps: &[Instant]) -> Vec<usize> {
        let sizes: Vec<usize> =
            stamps.chunk_by(|a, b| (*b - *a).ns() < 2_000).map(<[Instant]>::len).collect();
        sizes[1..sizes.len() - 1].to_vec()
    }

    fn mean(sizes: &[usize]) -> f64 {
        sizes.iter().sum::<usize>() as f64 / sizes.len() as f64
    }

    #[test]
    fn packets_10_us_apart_come_in_batches_of_about_12_per_120_us() {
        let arrivals = every(10_000, 20_000);
        let sizes = batches(&stamps(fixed(120, 0.2), Stamp::Driver, &arrivals, generator(1, "nic", 0)));
        assert!((mean(&sizes) - 12.0).abs() < 1.0, "{}", mean(&sizes));
        assert!(sizes.iter().any(|size| *size < 11) && sizes.iter().any(|size| *size > 13));
    }

    #[test]
    fn without_jitter_interrupts_are_periodic() {
        let stamps = stamps(fixed(120, 0.0), Stamp::Driver, &every(10_000, 2_000), generator(1, "nic", 0));
        let firsts: Vec<Instant> =
            stamps.chunk_by(|a, b| (*b - *a).ns() < 2_000).map(|batch| batch[0]).collect();
        // Allows for the clock's microsecond and 0.4 us of the drain time.
        assert!(firsts[1..].windows(2).all(|pair| (119_000..=121_000).contains(&(pair[1] - pair[0]).ns())));
    }

    #[test]
    fn enough_frames_interrupt_before_the_interval_is_over() {
        let coalescing = Coalescing::Fixed { interval: Duration::from_us(120), jitter: 0.2, frames: Some(4) };
        let sizes =
            batches(&stamps(coalescing, Stamp::Driver, &every(10_000, 2_000), generator(1, "nic", 0)));
        assert!(sizes.iter().all(|size| *size <= 4) && mean(&sizes) > 3.8, "{}", mean(&sizes));
    }

    #[test]
    fn an_adaptive_nic_respects_short_intervals_and_counts_frames_above() {
        let sizes = |us, frames| {
            let coalescing = Coalescing::Adaptive { interval: Duration::from_us(us), frames };
            batches(&stamps(coalescing, Stamp::Driver, &every(7_230, 20_000), generator(2, "nic", 0)))
        };
        assert_eq!(sizes(12, 64), sizes(12, 8), "frames are ignored");
        assert!(mean(&sizes(12, 64)) < 2.5);
        assert_eq!(sizes(30, 10), sizes(100, 10), "the interval is ignored");
        let irregular = sizes(30, 10);
        assert!((mean(&irregular) - 10.0).abs() < 0.7, "{}", mean(&irregular));
        assert!(irregular.contains(&6) && irregular.contains(&14));
    }

    #[test]
    fn a_lone_packet_is_stamped_within_two_microseconds() {
        let arrival = Instant::from_ns(1_000_300);
        let stamp = |stamp| stamps(fixed(120, 0.2), stamp, &[arrival], generator(1, "nic", 0))[0];
        assert_eq!(stamp(Stamp::Nic), arrival);
        assert!((1_001_000..=1_002_300).contains(&stamp(Stamp::Driver).ns()));
        assert_eq!(stamp(Stamp::Ack), stamp(Stamp::Driver));
    }

    #[test]
    fn acknowledgements_of_a_batch_share_one_stamp() {
        let arrivals = every(10_000, 2_000);
        let driver = stamps(fixed(120, 0.2), Stamp::Driver, &arrivals, generator(1, "nic", 0));
        let ack = stamps(fixed(120, 0.2), Stamp::Ack, &arrivals, generator(1, "nic", 0));
        let mut position = 0;
        for batch in driver.chunk_by(|a, b| (*b - *a).ns() < 2_000) {
            assert!(
                ack[position..position + batch.len()].iter().all(|stamp| *stamp == batch[batch.len() - 1])
            );
            position += batch.len();
        }
    }

    #[test]
    fn coalescing_reads_as_text() {
        let read: Coalescing = toml::from_str("kind = 'fixed'\ninterval = '120 us'").unwrap();
        assert_eq!(read, fixed(120, 0.2));
        assert!(toml::from_str::<Coalescing>("kind = 'fixed'\ninterval = '120 us'\nframe = 3").is_err());
    }

    fn coalescings() -> impl Strategy<Value = Coalescing> {
        let interval = (0i64..300).prop_map(Duration::from_us);
        prop_oneof![
            (interval.clone(), 0.0..1.0f64, proptest::option::of(1u32..40))
                .prop_map(|(interval, jitter, frames)| Coalescing::Fixed { interval, jitter, frames }),
            (interval, 1u32..40).prop_map(|(interval, frames)| Coalescing::Adaptive { interval, frames }),
        ]
    }

    proptest! {
        #[test]
        fn every_packet_is_stamped_once_in_order_and_not_before_it_arrives(
            coalescing in coalescings(),
            gaps in proptest::collection::vec(0u64..100_000, 0..300),
            stamp in prop_oneof![Just(Stamp::Nic), Just(Stamp::Driver), Just(Stamp::Ack)],
            seed: u64,
        ) {
            let arrivals: Vec<Instant> = gaps
                .iter()
                .scan(0, |at, gap| { *at += gap; Some(Instant::from_ns(*at)) })
                .collect();
            let stamps = stamps(coalescing, stamp, &arrivals, generator(seed, "nic", 0));
            prop_assert_eq!(stamps.len(), arrivals.len());
            prop_assert!(stamps.is_sorted());
            for (stamp, arrival) in stamps.iter().zip(&arrivals) {
                // The driver's clock shows whole microseconds.
                prop_assert!(*stamp >= quantised(*arrival));
            }
        }
    }
}
