//! The search for a policer: trains that decide about loss that sets in after a burst.

use crate::onset::{Onset, onset, surprise};
use crate::stream::{Schedule, StreamRecord};
use headway_units::{Bytes, Duration, Instant, Rate};

use super::policed::{add_pulses, first_burst};
use super::{MAX_STREAM_PACKETS, probe};

/// Longest duration of a train.
const MAX_DURATION: Duration = Duration::from_ms(800);
/// A stream is suspicious from this surprise on.
const SUSPICIOUS: f64 = 3.0;
/// A train counts from this surprise on, and it takes this much in all trains together, at least two.
const COUNTS: f64 = 3.0;
const ENOUGH: f64 = 10.0;
/// A stream of this surprise widens the answer even if no other confirms it.
const DOUBT: f64 = 8.0;
/// A stream that loses this share from the start, and this many packets, may have found an empty bucket.
const HEAVY_LOSS: (f64, usize) = (0.1, 6);
/// Minimum number of packets that arrive behind the onset, without which there is no rate.
const MIN_ACCEPTED: f64 = 4.0;
/// Received rates of trains agree up to this factor.
const AGREE: f64 = 1.3;
/// Trains are sent at most at this multiple of the policer's rate, which loses two packets of three behind
/// the onset, and at least at the other.
const FASTEST: f64 = 3.0;
const SLOWEST: f64 = 1.25;
/// Factor by which trains slow down after one that queued.
const SLOWER: f64 = 0.6;
/// Packets to lose behind the onset, packets to arrive there, and the longest part behind it.
const TO_LOSE: f64 = 16.0;
const TO_ARRIVE: f64 = 12.0;
const BEHIND: (f64, f64) = (24.0, 256.0);
/// A first train with an unknown bucket holds this many bytes beyond what has passed.
const FIRST: Bytes = Bytes::new(36_000);
/// Factor by which a train grows after one that fitted.
const LONGER: f64 = 1.6;
/// A train after an onset continues with pulses of this many packets at this multiple of the received rate: a
/// sample of what is available.
const TAIL: usize = 110;
const TAIL_RATE: f64 = 1.15;
/// So many losses at the end of a train are suspicious, and the share of its rate that is then
/// taken for the policer's.
const LATE: usize = 2;
const GUESS: f64 = 0.5;
/// The received rate is at least this share of the sent one: a train from which nothing
/// arrives does not tell.
const LEAST_RECEIVED: f64 = 0.06;
/// The bucket need not be full for the next train: this many packets suffice.
const REFILL: u64 = 40;
/// Trains that show no onset after which a search ends, fewer where others lose packets with every train, and
/// the number of searches in a measurement.
const MAX_OTHERS: u32 = 3;
const MAX_OTHERS_WITH_HARM: u32 = 1;
const MAX_SEARCHES: u32 = 2;

/// A policer: its rate, the bytes that pass as a burst, and the rate of the trains that found it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Policer {
    pub(super) rate: Rate,
    pub(super) bytes: Bytes,
    pub(super) fast: Rate,
}

/// What a stream did to the bucket, in bytes; times are those of the sender.
#[derive(Clone, Copy, Debug)]
struct Sent {
    from: Instant,
    until: Instant,
    arrived: f64,
    /// Time of the last loss, and what arrived after it.
    empty: Option<(Instant, f64)>,
}

impl Sent {
    fn new(record: &StreamRecord) -> Option<Sent> {
        let (first, last) = record.arrivals.first().zip(record.arrivals.last())?;
        let size = record.packet.get() as f64;
        let loss = record.arrivals.iter().rposition(|arrival| arrival.received.is_none());
        let after =
            |loss: usize| (record.arrivals[loss].sent, size * (record.arrivals.len() - 1 - loss) as f64);
        let arrived = size * (record.arrivals.len() - record.lost()) as f64;
        Some(Sent { from: first.sent, until: last.sent, arrived, empty: loss.map(after) })
    }
}

/// What is known about a policer on the path.
#[derive(Clone, Debug, Default)]
pub(super) struct PolicerSearch {
    /// Whether the last train was sent.
    checked: bool,
    searches: u32,
    /// The received and the sent rate of a suspicious stream.
    suspect: Option<(Rate, Rate)>,
    /// Onsets that were clear enough.
    knees: Vec<Onset>,
    others: u32,
    /// The rate of the next train, and the received rate that it is judged by.
    rate: Rate,
    received: Rate,
    /// The size of the bucket: the tokens that a burst used, and those that streams before had used.
    bucket: f64,
    sent: Vec<Sent>,
    /// Trains with an onset.
    trains: Vec<StreamRecord>,
    /// Bytes and rate of the streams that passed whole.
    whole: Vec<(Bytes, Rate)>,
}

impl PolicerSearch {
    /// Looks for the signs of a policer in a stream that was not sent to find one.
    ///
    /// `unqueued` tells that it was a train that should meet no queue: then few losses at its end are
    /// suspicious, too. `full` tells that its packets waited in a long queue, which explains heavy loss.
    pub(super) fn notice(&mut self, record: &StreamRecord, unqueued: bool, full: bool) {
        let (lost, packets) = (record.lost(), record.arrivals.len());
        self.sent.extend(Sent::new(record));
        if lost == 0 {
            let sent = probe::send_rate(record).unwrap_or_default();
            self.whole.push((record.packet * packets as u64, sent));
        }
        if lost == 0 || !is_even(record) || self.searches >= MAX_SEARCHES {
            return;
        }
        if let Some(onset) = onset(record) {
            if !onset.delayed && onset.surprise >= SUSPICIOUS {
                self.suspect = Some((onset.received, onset.sent));
                self.count(onset, record.packet);
            }
        } else if !full && lost >= HEAVY_LOSS.1 && lost as f64 >= HEAVY_LOSS.0 * packets as f64 {
            let arrived = 1.0 - lost as f64 / packets as f64;
            self.suspect = probe::send_rate(record).map(|sent| (sent.scale(arrived), sent));
        } else if unqueued && lost >= LATE && lateness(record) >= SUSPICIOUS {
            self.suspect = probe::send_rate(record).map(|sent| (sent.scale(GUESS), sent));
        }
    }

    /// Returns whether some stream was suspicious.
    pub(super) fn is_suspicious(&self) -> bool {
        self.suspect.is_some()
    }

    /// Begins the trains that decide about a suspicion.
    pub(super) fn begin(&mut self) {
        let Some((received, sent)) = self.suspect.take() else { return };
        (self.searches, self.others) = (self.searches + 1, 0);
        (self.received, self.rate) =
            (received.max(sent.scale(LEAST_RECEIVED)), self.train_rate(received, sent));
    }

    fn train_rate(&self, received: Rate, sent: Rate) -> Rate {
        let received = received.max(sent.scale(LEAST_RECEIVED));
        sent.min(received.scale(FASTEST)).max(received.scale(SLOWEST))
    }

    /// Counts the last train as sent.
    pub(super) fn check(&mut self) {
        self.checked = true;
    }

    pub(super) fn is_checked(&self) -> bool {
        self.checked
    }

    /// Returns the next train if it is sent `idle` after the last packet.
    pub(super) fn schedule(&self, packet: Bytes, idle: Duration) -> Schedule {
        let size = packet.get().max(1) as f64;
        let kept = self.kept();
        let arrives = 1.0 - kept;
        let behind = (TO_LOSE / kept).max(TO_ARRIVE / arrives.max(0.01)).clamp(BEHIND.0, BEHIND.1);
        let passed = |(bytes, rate): &(Bytes, Rate)| {
            bytes.get() as f64 * (1.0 - self.received.bps_f64() / rate.bps_f64().max(1.0)).max(0.0)
        };
        let room = match self.knees.is_empty() {
            true => self.whole.iter().map(passed).fold(0.0, f64::max) + FIRST.get() as f64,
            false => {
                self.bucket
                    - (self.missing(self.sent.len(), self.received) - used(self.received, idle)).max(0.0)
            }
        };
        let grown = LONGER.powi(self.others as i32);
        let packets = room * grown / kept / size + behind;
        let tail = if self.knees.is_empty() { 0 } else { TAIL };
        let most = (self.rate.bytes_in(MAX_DURATION).get() as f64 / size)
            .min(f64::from(MAX_STREAM_PACKETS) - tail as f64);
        let train = packets.min(most).max(BEHIND.0) as usize - 1;
        let mut gaps = vec![self.rate.time_for(packet); train];
        if tail > 0 {
            let policer =
                Policer { rate: self.received, bytes: Bytes::new(self.bucket as u64), fast: self.rate };
            add_pulses(&mut gaps, packet, &policer, self.received.scale(TAIL_RATE).min(self.rate), tail);
        }
        Schedule::with_gaps(packet, gaps, self.rate)
    }

    /// Returns the share of the packets of a train that is lost behind its onset.
    fn kept(&self) -> f64 {
        (1.0 - self.received.bps_f64() / self.rate.bps_f64().max(1.0)).clamp(0.05, 1.0)
    }

    /// Adds a train of a search.
    pub(super) fn observe(&mut self, record: &StreamRecord) {
        self.sent.extend(Sent::new(record));
        match onset(&fast_part(record)) {
            Some(onset) if onset.delayed => {
                self.others += 1;
                self.rate = self.rate.scale(SLOWER).max(onset.received.scale(SLOWEST));
            }
            Some(onset) if onset.surprise >= COUNTS && self.count(onset, record.packet) => {
                self.trains.push(record.clone());
                self.received = onset.received;
                self.rate = self.train_rate(onset.received, onset.sent);
            }
            _ => self.others += 1,
        }
    }

    /// Counts a stream with a sufficiently clear onset; returns whether it was.
    fn count(&mut self, onset: Onset, packet: Bytes) -> bool {
        let accepted = onset.received.bps_f64() / onset.sent.bps_f64().max(1.0) * onset.lost as f64
            / (1.0 - onset.received.bps_f64() / onset.sent.bps_f64().max(1.0)).max(0.01);
        if accepted < MIN_ACCEPTED || onset.surprise < COUNTS {
            return false;
        }
        let used = onset.tokens(packet).get() as f64 + self.missing_before_last(onset.received);
        self.bucket = self.bucket.max(used);
        self.knees.push(onset);
        true
    }

    /// Returns the policer, once trains agree on it.
    pub(super) fn policer(&self) -> Option<Policer> {
        let last = self.knees.last()?;
        let agrees = |onset: &&Onset| {
            let ratio = onset.received.bps_f64() / last.received.bps_f64().max(1.0);
            (1.0 / AGREE..=AGREE).contains(&ratio)
        };
        let agreeing: Vec<&Onset> = self.knees.iter().filter(agrees).collect();
        let surprise: f64 = agreeing.iter().map(|onset| onset.surprise).sum();
        if agreeing.len() < 2 || surprise < ENOUGH {
            return None;
        }
        let mut received: Vec<Rate> = agreeing.iter().map(|onset| onset.received).collect();
        received.sort_unstable();
        Some(Policer {
            rate: received[received.len() / 2],
            bytes: Bytes::new(self.bucket as u64),
            fast: last.sent,
        })
    }

    /// Returns the rate of a policer that one stream showed clearly, and others did not confirm or not yet.
    pub(super) fn doubt(&self) -> Option<Rate> {
        self.knees.iter().filter(|onset| onset.surprise >= DOUBT).map(|onset| onset.received).min()
    }

    /// Returns the trains that found the policer.
    pub(super) fn trains(&self) -> &[StreamRecord] {
        &self.trains
    }

    /// Returns whether further trains are worthwhile; `harms` tells that others lose
    /// packets with every train.
    pub(super) fn open(&self, harms: bool) -> bool {
        self.policer().is_none() && self.others < if harms { MAX_OTHERS_WITH_HARM } else { MAX_OTHERS }
    }

    /// Returns the time in which enough tokens for the next train arrive.
    pub(super) fn refill(&self, packet: Bytes) -> Duration {
        let wanted = self.bucket.min((packet * REFILL).get() as f64);
        Duration::from_ns((wanted * 8e9 / self.received.bps_f64().max(1.0)) as i64)
    }

    /// Returns the tokens missing in the bucket when the first packet of the last stream was sent.
    fn missing_before_last(&self, rate: Rate) -> f64 {
        let Some((last, before)) = self.sent.split_last() else { return 0.0 };
        let idle = before.last().map_or(Duration::ZERO, |before| last.from - before.until);
        (self.missing(before.len(), rate) - used(rate, idle)).max(0.0)
    }

    /// Returns the tokens missing after the first `count` streams, if they arrive at this rate.
    fn missing(&self, count: usize, rate: Rate) -> f64 {
        let (mut missing, mut last): (f64, Option<Instant>) = (0.0, None);
        for sent in &self.sent[..count] {
            let idle = last.map_or(Duration::ZERO, |last| sent.from - last);
            missing = (missing - used(rate, idle)).max(0.0);
            missing = (missing + sent.arrived - used(rate, sent.until - sent.from)).max(0.0);
            if let Some((at, arrived)) = sent.empty {
                missing = missing.max(self.bucket + arrived - used(rate, sent.until - at));
            }
            last = Some(sent.until);
        }
        missing
    }
}

/// Returns the surprise of a stream whose losses need not go on to the end.
fn lateness(record: &StreamRecord) -> f64 {
    let before = record.arrivals.iter().take_while(|arrival| arrival.received.is_some()).count();
    surprise(record.lost(), before, record.arrivals.len())
}

/// Returns the bytes that pass at a rate in a time.
fn used(rate: Rate, time: Duration) -> f64 {
    rate.bps_f64() / 8.0 * time.secs_f64()
}

/// Returns the packets of a train before the rate falls.
fn fast_part(record: &StreamRecord) -> StreamRecord {
    let gaps = first_burst(record);
    StreamRecord {
        intended: record.intended[..gaps].to_vec(),
        arrivals: record.arrivals[..record.arrivals.len().min(gaps + 1)].to_vec(),
        ..*record
    }
}

/// Returns whether a stream was sent at one rate.
fn is_even(record: &StreamRecord) -> bool {
    let least = record.intended.iter().min().copied().unwrap_or_default();
    record.intended.iter().all(|gap| *gap <= least.scale(1.1))
}
