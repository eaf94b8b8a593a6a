//! The default method behind a shaper: every stream uses up the token bucket first and is read from there on.
//!
//! What is left of a stream then meets an ordinary queue at the sustained rate, and the growth of its delay says what is free.

use crate::estimate::belief::{POINTS, Summary};
use crate::estimate::response::{Delayed, Posterior, Sample, backlogged_sample};
use crate::stream::{Refusal, Schedule, StreamRecord};
use crate::units::{Bytes, Duration, Rate};

use super::bucket::{Account, DELAYED, Reading};
use super::delay::{Baseline, delayed};
use super::knees::Shaper;
use super::mixture::Spread;
use super::response::{GAP_LIMITS, LEAST_ADDED, SLOWEST_GROWTH, UNSURE, USUALLY_ADDED, end_effect, uneven};
use super::room::Room;

/// The bucket is used up at this multiple of the sustained rate, unless the sender has less.
const PRIMING: f64 = 8.0;
/// Share of what is sent at that rate that at least uses up tokens; the rest is made good by those that come in.
const LEAST_GAIN: f64 = 0.25;
/// Packets by which more than the bucket is sent at that rate, so that pauses of cross traffic do not leave tokens again.
const QUEUED: f64 = 4.0;
/// Gaps of the first streams, when little is known about what is free, and of all others.
const FIRST_GAPS: usize = 32;
const FIRST_STREAMS: usize = 2;
const GAPS: usize = 96;
/// A stream lasts at most this long without what uses up the bucket.
const LONGEST: Duration = Duration::from_ms(400);
/// What is taken to be free before anything is known, as a share of the sustained rate.
const START: f64 = 0.75;
/// The account of the bucket believes what is found after so many streams, and never less than this share.
const KNOWN_STREAMS: usize = 4;
const LEAST: f64 = 0.2;
/// Rates in turn, as multiples of the estimate.
const CYCLE: [f64; 3] = [1.25, 1.1, 1.4];
/// A stream that was hardly delayed raises them by this factor, and any other lowers them again by the second one.
const FACTOR_UP: f64 = 1.2;
const FACTOR_DOWN: f64 = 0.9;
const FACTOR_MAX: f64 = 2.0;
/// Rates as shares of the sustained rate are between these.
const RATES: (f64, f64) = (0.05, 1.15);
/// This share of what was missing from, or was too much in, the queue where the bucket ought to be used up is made up for in the next stream, with
/// no more than so many packets less.
const GAIN: f64 = 0.5;
const MOST_LESS: f64 = 8.0;
/// What was missing where there was no queue is not known: this share of the bucket, and each time in a row that again.
const MISSING: f64 = 0.1;
/// A sample is worth its name from this share of the stream's time on.
const TELLING: f64 = 0.25;
/// A packet was lost to a full buffer if the one before it was delayed by this share of the longest delay at least.
const FULL: f64 = 0.5;
/// Packets of a stream that tell something; after one that made the buffer overflow the next ones are shorter by this factor.
const FEWEST_PACKETS: usize = 8;
const SHORTER: f64 = 0.7;
/// Error common to all streams, as a share of the sustained rate.
const COMMON_ERROR: f64 = 0.015;
/// Gaps before the interval may be called narrow enough: eight of the usual streams.
const ENOUGH_GAPS: usize = 8 * GAPS;

#[derive(Clone, Debug)]
pub(super) struct Shaped {
    packet: Bytes,
    top: Rate,
    shaper: Shaper,
    current: Rate,
    factor: f64,
    /// Packets by which there is more room in the bucket than the account says.
    extra: f64,
    /// Streams in a row that had not used it up.
    missed: u32,
    /// Length of streams as a share of the usual one.
    length: f64,
    streams: usize,
    /// Gaps of all streams that counted.
    gaps: usize,
    /// Time with a queue, and streams that met it.
    busy: Duration,
    busy_streams: u32,
    posterior: Posterior,
    spread: Option<Spread>,
}

impl Shaped {
    pub(super) fn new(packet: Bytes, shaper: Shaper, top: Rate) -> Shaped {
        Shaped {
            packet,
            top,
            shaper,
            current: shaper.capacity.scale(START),
            factor: 1.0,
            extra: 0.0,
            missed: 0,
            length: 1.0,
            streams: 0,
            gaps: 0,
            busy: Duration::ZERO,
            busy_streams: 0,
            posterior: Posterior::new(shaper.capacity),
            spread: None,
        }
    }

    /// The size of the bucket.
    pub(super) fn bucket(&self, account: &Account, baseline: &Baseline) -> Bytes {
        let known = account.bucket(&self.reading(baseline));
        let bytes = known.unwrap_or(self.shaper.bytes.get() as f64);
        Bytes::new(bytes.max(0.0).round() as u64)
    }

    /// What the account is read with. Until a few streams have passed, what is free is no more than a guess.
    fn reading<'a>(&self, baseline: &'a Baseline) -> Reading<'a> {
        let capacity = self.shaper.capacity;
        let available = if self.streams < KNOWN_STREAMS { capacity.scale(START) } else { self.current };
        Reading { packet: self.packet, capacity, available: available.max(capacity.scale(LEAST)), baseline }
    }

    /// The next stream if it is sent `idle` after the last packet.
    pub(super) fn schedule(
        &self,
        account: &Account,
        room: &Room,
        baseline: &Baseline,
        idle: Duration,
    ) -> Schedule {
        let (low, high) = RATES;
        let capacity = self.shaper.capacity;
        let rate = self.current.scale(CYCLE[self.streams % CYCLE.len()] * self.factor);
        let rate = rate.clamp(capacity.scale(low), capacity.scale(high)).min(self.top);
        let fast = capacity.scale(PRIMING).min(self.top).max(rate);
        let (gap, short) = (rate.time_for(self.packet), fast.time_for(self.packet));
        let bucket = self.bucket(account, baseline).get() as f64;
        let unused = account.room(&self.reading(baseline), bucket, idle) / self.packet.get() as f64;
        // Tokens keep coming in while the bucket is used up.
        let share = 1.0 - self.current.bps_f64() / fast.bps_f64();
        let priming = ((unused + self.extra + QUEUED) / share.max(LEAST_GAIN)).round().max(0.0) as usize;
        let (fewest, most) = (GAP_LIMITS.0 as usize, GAP_LIMITS.1 as usize);
        let wanted = if self.streams < FIRST_STREAMS { FIRST_GAPS } else { GAPS.max(priming) };
        let wanted = (wanted as f64 * self.length) as usize;
        let longest = self.longest(rate, room, baseline);
        let wanted = wanted.min((longest.ns() / gap.ns().max(1)) as usize);
        let wanted = ((wanted as f64 * uneven(self.streams)) as usize).max(fewest);
        let priming = priming.min(most - fewest);
        let mut gaps = vec![short; priming];
        gaps.resize((priming + wanted).min(most), gap);
        let time = gaps.iter().copied().sum();
        let average = Rate::of(self.packet * gaps.len() as u64, time).unwrap_or(rate);
        Schedule { packet: self.packet, gaps, average }
    }

    /// How long a stream of this rate may last without adding more to the delay than the path has room for.
    fn longest(&self, rate: Rate, room: &Room, baseline: &Baseline) -> Duration {
        let packet_time = self.shaper.capacity.time_for(self.packet);
        let allowed = room.allowed(baseline, packet_time * USUALLY_ADDED).max(packet_time * LEAST_ADDED);
        let least = self.spread.map_or(self.current.scale(UNSURE), |spread| spread.usual().0);
        let growth = rate.saturating_sub(least).bps_f64() / self.shaper.capacity.bps_f64();
        LONGEST.min(allowed.scale(1.0 / growth.max(SLOWEST_GROWTH)))
    }

    pub(super) fn observe(&mut self, record: &StreamRecord, baseline: &Baseline) -> Result<(), Refusal> {
        let mut packets = delayed(record, baseline);
        if let Some(whole) = overflow(&packets) {
            self.length *= SHORTER;
            // What comes after it says nothing; without what came before only streams that met little cross traffic would count.
            packets.truncate(whole);
        }
        let last = record.intended.last().copied().unwrap_or_default();
        let priming = record.intended.iter().take_while(|gap| **gap < last).count();
        let from = packets.partition_point(|packet| (packet.index as usize) < priming);
        if packets.len() < from + FEWEST_PACKETS {
            self.extra -= MOST_LESS;
            return Err(Refusal::Lost);
        }
        self.streams += 1;
        self.gaps += packets.len() - from - 1;
        let least = self.shaper.capacity.time_for(self.packet).scale(DELAYED);
        self.correct(packets[from].queueing);
        let sample = backlogged_sample(&packets[from..], self.packet, self.shaper.capacity, least);
        if let Some(sample) = &sample {
            self.posterior.add(sample);
            self.busy += sample.duration;
            self.busy_streams += 1;
            let common = COMMON_ERROR.hypot(end_effect(self.shaper.capacity, self.busy, self.busy_streams));
            let summary = Summary { one_queue: 1.0, one: [0.0; POINTS], several: [0.0; POINTS] };
            let spread = Spread::of(Some(&self.posterior), &summary, self.shaper.capacity, common);
            self.spread = Some(spread);
            self.current = spread.median;
        }
        let sent_for = packets.last().zip(packets.get(from)).map(|(last, first)| last.sent - first.sent);
        let telling = |sample: &Sample| sample.duration >= sent_for.unwrap_or_default().scale(TELLING);
        let change = if sample.as_ref().is_some_and(telling) { FACTOR_DOWN } else { FACTOR_UP };
        self.factor = (self.factor * change).clamp(1.0, FACTOR_MAX);
        Ok(())
    }

    /// Learns from the delay of the packet with which the bucket ought to have been used up.
    fn correct(&mut self, queueing: Duration) {
        let bucket = self.shaper.bytes.get() as f64 / self.packet.get().max(1) as f64;
        let queued = queueing.secs_f64() / self.shaper.capacity.time_for(self.packet).secs_f64().max(1e-9);
        let missing = if queued < DELAYED {
            self.missed += 1;
            QUEUED.max(MISSING * bucket) * f64::from(self.missed)
        } else {
            self.missed = 0;
            GAIN * (QUEUED - queued).max(-MOST_LESS)
        };
        self.extra = (self.extra + missing).clamp(-bucket, bucket);
    }

    /// Forgets all samples and keeps the estimate to aim by.
    pub(super) fn restart(&mut self) {
        self.posterior = Posterior::new(self.shaper.capacity);
        (self.streams, self.gaps, self.busy, self.busy_streams) = (0, 0, Duration::ZERO, 0);
        self.spread = None;
    }

    /// Whether the interval is so narrow that more streams are not worth their bytes.
    pub(super) fn sure(&self) -> bool {
        self.gaps >= ENOUGH_GAPS && self.spread.is_some_and(|spread| spread.is_narrow(self.shaper.capacity))
    }

    pub(super) fn spread(&self) -> Option<Spread> {
        self.spread
    }
}

/// How many packets of a stream arrived before the buffer overflowed; `None` when it did not.
fn overflow(packets: &[Delayed]) -> Option<usize> {
    let longest = packets.iter().map(|packet| packet.queueing).max()?;
    let full =
        |pair: &[Delayed]| pair[1].index > pair[0].index + 1 && pair[0].queueing >= longest.scale(FULL);
    packets.windows(2).position(full).map(|before| before + 1)
}
