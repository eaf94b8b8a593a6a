//! The default method behind a shaper: every stream first exhausts the token bucket and is
//! evaluated from there on.
//!
//! The rest of the stream meets an ordinary queue at the sustained rate, and the growth of its delay yields
//! the available bandwidth.

use crate::belief::{POINTS, Summary};
use crate::bend::Bend;
use crate::response::{Delayed, Posterior, Sample, backlogged_sample};
use crate::stream::{Refusal, Schedule};
use headway_units::{Bytes, Duration, Rate};

use super::bucket::{Account, DELAYED, Reading};
use super::delay::{Baseline, delayed};
use super::evaluation::{Evaluation, Known, Received};
use super::mixture::Spread;
use super::path_kind::PathKind;
use super::probe::Probe;
use super::queue_limit::QueueLimit;
use super::response::{MOST_GAPS, PACE, end_effect, uneven};
use super::shaper_search::Shaper;

/// The priming burst that exhausts the bucket is sent at this multiple of the sustained rate, or
/// at the sender's limit.
const PRIMING: f64 = 8.0;
/// Minimum share of the priming burst that consumes tokens; tokens that arrive during the
/// burst replace the rest.
const MIN_GAIN: f64 = 0.25;
/// Packets of the priming burst beyond the bucket, so that pauses in the cross traffic do
/// not leave tokens again.
const QUEUED: f64 = 4.0;
/// Gaps in the first streams, while the available bandwidth is uncertain, and in all others.
const FIRST_GAPS: usize = 32;
const FIRST_STREAMS: usize = 2;
const GAPS: usize = 96;
/// Maximum duration of a stream without its priming burst.
const MAX_DURATION: Duration = Duration::from_ms(400);
/// The available bandwidth assumed at first, as a share of the sustained rate.
const START: f64 = 0.75;
/// Number of streams after which the bucket account uses the estimate, and its lower limit as a share of the
/// sustained rate.
const KNOWN_STREAMS: usize = 4;
const MIN_AVAILABLE: f64 = 0.2;
/// Rates in turn, as multiples of the estimate.
const CYCLE: [f64; 3] = [1.25, 1.1, 1.4];
/// A stream that was hardly delayed raises the rates by the first factor; any other lowers
/// them by the second one.
const FACTOR_UP: f64 = 1.2;
const FACTOR_DOWN: f64 = 0.9;
const FACTOR_MAX: f64 = 2.0;
/// Lower and upper limit of the rate as shares of the sustained rate.
const RATES: (f64, f64) = (0.05, 1.15);
/// Where the bucket should be exhausted, the queue deviates from [`QUEUED`]. The next burst corrects this
/// share of the deviation, by at most [`MAX_REDUCTION`] packets downwards.
const GAIN: f64 = 0.5;
const MAX_REDUCTION: f64 = 8.0;
/// If there is no queue at that point, the deviation is unknown: the next burst grows by this share of the
/// bucket, times the number of consecutive misses.
const MISSING: f64 = 0.1;
/// Minimum share of the stream's duration that an informative sample covers.
const TELLING: f64 = 0.25;
/// A packet was lost to a full buffer if the packet before it had at least this share of the longest delay.
const FULL: f64 = 0.5;
/// Minimum number of packets after the burst, and the factor by which streams shorten after one
/// overflowed the buffer.
const MIN_PACKETS: usize = 8;
const SHORTER: f64 = 0.7;
/// Error of the sustained rate where trains that bend showed it, as a share: the share of the
/// others in them is a guess.
const ROUGH: f64 = 0.3;
/// Error common to all streams, as a fraction of the sustained rate.
const COMMON_ERROR: f64 = 0.015;
/// Gaps required before the interval may be narrow enough: eight full-length streams.
const ENOUGH_GAPS: usize = 8 * GAPS;

#[derive(Debug)]
pub(super) struct Shaped {
    packet: Bytes,
    top: Rate,
    shaper: Shaper,
    current: Rate,
    factor: f64,
    /// Packets that the bucket holds beyond the account.
    extra: f64,
    /// Number of consecutive streams that did not exhaust it.
    missed: u32,
    /// Length of streams as a share of the full length.
    length: f64,
    streams: usize,
    /// Gaps of all streams used.
    gaps: usize,
    /// Time with a queue, and the number of streams that met it.
    busy: Duration,
    busy_streams: u32,
    /// Growth of the delay in that time.
    grown: Duration,
    /// Error of the sustained rate, as a share of it.
    capacity_error: f64,
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
            grown: Duration::ZERO,
            capacity_error: 0.0,
            posterior: Posterior::new(shaper.capacity),
            spread: None,
        }
    }

    /// Begins with two trains that showed a shaper with a peak rate, and the sustained rate only roughly.
    pub(super) fn with_bends(mut self, bends: &[Bend]) -> Shaped {
        self.capacity_error = ROUGH;
        for bend in bends {
            let (sample, growth) = bend.sample(self.shaper.capacity);
            self.add(&sample, growth);
        }
        self
    }

    /// Adds a sample that was taken while the delay grew by `growth` per time.
    fn add(&mut self, sample: &Sample, growth: f64) {
        self.posterior.add(sample);
        self.busy += sample.duration;
        self.busy_streams += 1;
        self.grown += sample.duration.scale(growth.max(0.0));
        let capacity = self.shaper.capacity;
        let growth = self.grown.secs_f64() / self.busy.secs_f64().max(1e-9);
        let ends = COMMON_ERROR.hypot(end_effect(capacity, self.busy, self.busy_streams));
        let common = ends.hypot(self.capacity_error * growth);
        let summary = Summary { one_queue: 1.0, series: 0.0, one: [0.0; POINTS], several: [0.0; POINTS] };
        let spread = Spread::of(Some(&self.posterior.density()), &summary, capacity, common);
        self.spread = Some(spread);
        self.current = spread.median;
    }

    /// Returns the size of the bucket.
    fn size(&self, account: &Account, baseline: &Baseline) -> Bytes {
        let known = account.bucket(&self.reading(baseline));
        let bytes = known.unwrap_or(self.shaper.bytes.get() as f64);
        Bytes::new(bytes.max(0.0).round() as u64)
    }

    /// Returns the parameters for the account; until a few streams have passed, the available
    /// bandwidth is a guess.
    fn reading<'a>(&self, baseline: &'a Baseline) -> Reading<'a> {
        let capacity = self.shaper.capacity;
        let available = if self.streams < KNOWN_STREAMS { capacity.scale(START) } else { self.current };
        Reading {
            packet: self.packet,
            capacity,
            available: available.max(capacity.scale(MIN_AVAILABLE)),
            baseline,
        }
    }

    /// Returns the next stream.
    fn next_stream(
        &self,
        &Known { account, queue_limit, baseline, since_report, .. }: &Known<'_>,
    ) -> Schedule {
        let (low, high) = RATES;
        let capacity = self.shaper.capacity;
        let rate = self.current.scale(CYCLE[self.streams % CYCLE.len()] * self.factor);
        let rate = rate.clamp(capacity.scale(low), capacity.scale(high)).min(self.top);
        let fast = capacity.scale(PRIMING).min(self.top).max(rate);
        let (gap, short) = (rate.time_for(self.packet), fast.time_for(self.packet));
        let bucket = self.size(account, baseline).get() as f64;
        let unused = account.room(&self.reading(baseline), bucket, since_report) / self.packet.get() as f64;
        // Tokens keep arriving during the burst.
        let share = 1.0 - self.current.bps_f64() / fast.bps_f64();
        let priming = ((unused + self.extra + QUEUED) / share.max(MIN_GAIN)).round().max(0.0) as usize;
        let (fewest, most) = (PACE.fewest_gaps as usize, MOST_GAPS as usize);
        let wanted = if self.streams < FIRST_STREAMS { FIRST_GAPS } else { GAPS.max(priming) };
        let wanted = (wanted as f64 * self.length) as usize;
        let longest = self.longest(rate, queue_limit, baseline);
        let wanted = wanted.min((longest.ns() / gap.ns().max(1)) as usize);
        let wanted = ((wanted as f64 * uneven(self.streams)) as usize).max(fewest);
        let priming = priming.min(most - fewest);
        let mut gaps = vec![short; priming];
        gaps.resize((priming + wanted).min(most), gap);
        let time = gaps.iter().copied().sum();
        let average = Rate::of(self.packet * gaps.len() as u64, time).unwrap_or(rate);
        Schedule { packet: self.packet, gaps, average }
    }

    /// Returns how long a stream of this rate may last without adding more delay than the path allows.
    fn longest(&self, rate: Rate, queue_limit: &QueueLimit, baseline: &Baseline) -> Duration {
        let packet_time = self.shaper.capacity.time_for(self.packet);
        let allowed =
            queue_limit.allowed(baseline, packet_time * PACE.usually_added).max(packet_time * PACE.min_added);
        let least =
            self.spread.map_or(self.current.scale(PACE.start_uncertainty), |spread| spread.interval_90().0);
        let growth = rate.saturating_sub(least).bps_f64() / self.shaper.capacity.bps_f64();
        MAX_DURATION.min(allowed.scale(1.0 / growth.max(PACE.slowest_growth)))
    }

    /// Corrects the bucket size by the delay of the packet that should be the first after the
    /// bucket is exhausted.
    fn correct(&mut self, queueing: Duration) {
        let bucket = self.shaper.bytes.get() as f64 / self.packet.get().max(1) as f64;
        let queued = queueing.secs_f64() / self.shaper.capacity.time_for(self.packet).secs_f64().max(1e-9);
        let missing = if queued < DELAYED {
            self.missed += 1;
            QUEUED.max(MISSING * bucket) * f64::from(self.missed)
        } else {
            self.missed = 0;
            GAIN * (QUEUED - queued).max(-MAX_REDUCTION)
        };
        self.extra = (self.extra + missing).clamp(-bucket, bucket);
    }

    /// Returns whether the interval is so narrow that further streams are not worth their bytes.
    fn is_done(&self) -> bool {
        self.gaps >= ENOUGH_GAPS && self.spread.is_some_and(|spread| spread.is_narrow(self.shaper.capacity))
    }
}

impl Evaluation for Shaped {
    fn schedule(&self, known: &Known<'_>) -> Option<Schedule> {
        let is_over = self.is_done() || known.overflows && self.spread.is_some();
        (!is_over).then(|| self.next_stream(known))
    }

    fn observe(&mut self, stream: &Received<'_>, baseline: &Baseline, _: &mut Probe) -> Result<(), Refusal> {
        let record = stream.record;
        let mut packets = delayed(record, baseline);
        if let Some(whole) = overflow(&packets) {
            self.length *= SHORTER;
            // Packets after the overflow are uninformative. Those before it must count, or only streams with
            // little cross traffic would.
            packets.truncate(whole);
        }
        let last = record.intended.last().copied().unwrap_or_default();
        let priming = record.intended.iter().take_while(|gap| **gap < last).count();
        let from = packets.partition_point(|packet| (packet.index as usize) < priming);
        if packets.len() < from + MIN_PACKETS {
            self.extra -= MAX_REDUCTION;
            return Err(Refusal::Lost);
        }
        self.streams += 1;
        self.gaps += packets.len() - from - 1;
        let least = self.shaper.capacity.time_for(self.packet).scale(DELAYED);
        self.correct(packets[from].queueing);
        let sample = backlogged_sample(&packets[from..], self.packet, self.shaper.capacity, least);
        if let Some(sample) = &sample {
            let rate = Rate::of(self.packet, last).unwrap_or(self.current).bps_f64();
            self.add(sample, (rate - sample.available_bps) / self.shaper.capacity.bps_f64());
        }
        let sent_for = packets.last().zip(packets.get(from)).map(|(last, first)| last.sent - first.sent);
        let telling = |sample: &Sample| sample.duration >= sent_for.unwrap_or_default().scale(TELLING);
        let change = if sample.as_ref().is_some_and(telling) { FACTOR_DOWN } else { FACTOR_UP };
        self.factor = (self.factor * change).clamp(1.0, FACTOR_MAX);
        Ok(())
    }

    fn restart(&mut self) {
        self.posterior = Posterior::new(self.shaper.capacity);
        (self.streams, self.gaps, self.busy_streams) = (0, 0, 0);
        (self.busy, self.grown) = (Duration::ZERO, Duration::ZERO);
        self.spread = None;
    }

    fn spread(&self) -> Option<Spread> {
        self.spread
    }

    fn path_kind(&self) -> Option<PathKind> {
        Some(PathKind::Shaped)
    }

    fn bucket(&self, account: &Account, baseline: &Baseline) -> Option<Bytes> {
        Some(self.size(account, baseline))
    }
}

/// Returns the number of packets of a stream that arrived before the buffer overflowed, or
/// `None` if it did not.
fn overflow(packets: &[Delayed]) -> Option<usize> {
    let longest = packets.iter().map(|packet| packet.queueing).max()?;
    let full =
        |pair: &[Delayed]| pair[1].index > pair[0].index + 1 && pair[0].queueing >= longest.scale(FULL);
    packets.windows(2).position(full).map(|before| before + 1)
}
