//! The default method behind a policer: streams of pulses, each of which exhausts the token bucket.
//!
//! A lost packet tells that the bucket is empty, to within a packet. Between two such moments all tokens that
//! arrived were used, by packets of the stream and by others, unless the bucket was full for a while. So
//!
//! ```text
//! available = bytes of the stream that passed / time
//! ```
//!
//! A stream without pauses would keep the bucket empty and so starve others: those in bursts, which need many
//! tokens at once, lose most of their packets. Therefore packets come in pulses. In the pauses tokens
//! accumulate, up to a part of the bucket, and others pass as they do without the stream.

use crate::belief::{POINTS, Summary};
use crate::response::{Posterior, Sample};
use crate::stream::{Refusal, Schedule, StreamRecord};
use headway_units::{Bytes, Duration, Rate};

use super::bucket::Account;
use super::delay::Baseline;
use super::evaluation::{Evaluation, Known, Received};
use super::mixture::{LEVELS, Spread};
use super::path_kind::PathKind;
use super::policer_search::Policer;
use super::probe::Probe;
use super::response::{end_effect, uneven};

/// Packets of a stream behind its first burst, and the longest time that these take.
const PACKETS: usize = 144;
const MAX_DURATION: Duration = Duration::from_ms(600);
const MIN_PACKETS: usize = 32;
/// Packets of the first burst beyond the bucket.
const BEYOND: f64 = 4.0;
/// Tokens of a pulse: this share of the bucket, which is then never full, but at most this many packets.
const PULSE_SHARE: f64 = 0.55;
const MAX_PULSE: f64 = 40.0;
/// The average rate of pulses as a multiple of the estimate: what exceeds it is lost.
const EXCESS: f64 = 1.15;
/// A stream whose pulses stopped to exhaust the bucket raises the multiple by the first factor, any other
/// lowers it by the second.
const FACTOR_UP: f64 = 1.2;
const FACTOR_DOWN: f64 = 0.95;
const FACTOR_MAX: f64 = 2.0;
/// The first burst is corrected by this power of the deviation, within these limits.
const GAIN: f64 = 0.6;
const CORRECTION: (f64, f64) = (0.3, 3.0);
/// The sender is taken to be faster than what is free by this share at least.
const MIN_GAIN: f64 = 0.08;
/// Parts of a stream that count as samples of their own, and minimum number of packets that pass in a part.
const PARTS: usize = 3;
const MIN_PART: f64 = 4.0;
/// Packets that others lose on average after the last loss of a pulse, if they use all tokens and
/// are random: the bucket holds less than a packet then. Bursts lose as many times more as their
/// index of dispersion says.
const UNSEEN: f64 = 0.5;
const MAX_DISPERSION: f64 = 20.0;
/// At most this share of the packets of others is taken to be lost, and this share of the
/// correction is an error.
const MAX_UNSEEN: f64 = 0.4;
const CORRECTION_ERROR: f64 = 0.6;
/// Error from what others lose because of the pulses, as a share of their traffic.
const OTHERS_ERROR: f64 = 0.15;
/// Others may have lost so much more than passed of them, if they send in bursts of the size of the bucket:
/// the lower end of the 90 % interval includes that.
const OTHERS_LOST: f64 = 1.0;
/// The same as a share of all traffic of others on the link, as far as streams showed it before
/// a policer was found.
const OTHERS_ON_LINK: f64 = 0.3;
/// Variance, in packets squared, of the number that pass between two losses, for equal traffic.
const ROUNDING: f64 = 0.17;
/// A gap that is longer than the first one by this factor is a pause.
const PAUSE: f64 = 1.3;
/// Minimum share of a stream behind the last loss that makes a lower bound.
const MIN_TAIL: f64 = 0.3;
/// The highest available bandwidth considered, as a multiple of the policer's rate, which trains measure.
const HEADROOM: f64 = 1.1;
/// Error common to all streams, as a fraction of the policer's rate.
const COMMON_ERROR: f64 = 0.015;
/// Packets required before the interval may be narrow enough: five streams.
const ENOUGH_PACKETS: usize = 5 * PACKETS;
/// Losses after which the measurement ends with what it knows: others lose, too.
const MAX_LOST: usize = 200;

#[derive(Debug)]
pub(super) struct Policed {
    packet: Bytes,
    policer: Policer,
    on_link: Rate,
    longest: Option<Duration>,
    current: Rate,
    factor: f64,
    /// Correction of the first burst.
    correction: f64,
    streams: usize,
    packets: usize,
    lost: usize,
    parts: Vec<Part>,
    /// Lower bounds, from streams that did not exhaust the bucket to their end.
    bounds: Vec<Sample>,
    spread: Option<Spread>,
}

impl Policed {
    /// Creates the state behind a policer; `on_link` is the traffic of others on the link, as far as it is
    /// known, and `longest` the limit for streams.
    pub(super) fn new(packet: Bytes, policer: Policer, on_link: Rate, longest: Option<Duration>) -> Policed {
        Policed {
            packet,
            policer,
            on_link,
            longest,
            current: policer.rate,
            factor: 1.0,
            correction: 1.0,
            streams: 0,
            packets: 0,
            lost: 0,
            parts: Vec::new(),
            bounds: Vec::new(),
            spread: None,
        }
    }

    /// Returns the next stream if it is sent `idle` after the last packet.
    fn next_stream(&self, idle: Duration) -> Schedule {
        let fast = self.policer.fast;
        let burst = (self.burst(idle) * self.correction + BEYOND).round() as usize;
        let average = self.current.scale(EXCESS * self.factor).min(fast);
        let in_time = (average.bytes_in(MAX_DURATION).get() / self.packet.get().max(1)) as usize;
        let wanted = PACKETS.min(in_time).max(MIN_PACKETS);
        let wanted = (wanted as f64 * uneven(self.streams)) as usize;
        let mut gaps =
            vec![fast.time_for(self.packet); burst.min(super::MAX_STREAM_PACKETS as usize - PACKETS)];
        add_pulses(&mut gaps, self.packet, &self.policer, average, wanted);
        let stream = Schedule::with_gaps(self.packet, gaps, average);
        match self.longest {
            Some(longest) => stream.shortened(longest),
            None => stream,
        }
    }

    /// Returns the packets of a burst that uses the tokens of this time, at the rate of the trains.
    fn burst(&self, idle: Duration) -> f64 {
        let free = self.current.bps_f64();
        let room = (free / 8.0 * idle.secs_f64()).min(self.policer.bytes.get() as f64);
        let kept = 1.0 - free / self.policer.fast.bps_f64().max(1.0);
        room / kept.max(MIN_GAIN) / self.packet.get().max(1) as f64
    }

    /// Adds a stream, or a train that looked for the policer.
    pub(super) fn add(&mut self, record: &StreamRecord) {
        let arrivals = &record.arrivals;
        let burst = first_burst(record);
        let lost: Vec<usize> =
            (0..arrivals.len()).filter(|index| arrivals[*index].received.is_none()).collect();
        self.lost += lost.len();
        self.streams += 1;
        self.packets += arrivals.len() - burst;
        self.correct(burst, lost.first().copied());
        let mut raised = true;
        // The bucket was empty when a packet of the burst was lost.
        let from = lost.iter().rev().find(|index| **index <= burst).or(lost.first()).copied();
        if let Some((from, until)) = from.zip(lost.last().copied()) {
            self.take(record, &lost, from);
            let left = arrivals.len() - 1 - until.max(burst);
            raised = left as f64 > MIN_TAIL * (arrivals.len() - burst) as f64;
            if raised {
                // More than this was free.
                self.bounds.extend(passed_behind(record, until));
            }
        }
        self.factor = (self.factor * if raised { FACTOR_UP } else { FACTOR_DOWN }).clamp(1.0, FACTOR_MAX);
        self.conclude();
    }

    /// Adds samples of the stretches between losses that hold a pause: where others lost nothing, either.
    fn take(&mut self, record: &StreamRecord, lost: &[usize], from: usize) {
        let after: Vec<usize> = lost.iter().copied().filter(|index| *index >= from).collect();
        let paused = |pair: &&[usize]| (pair[0]..pair[1]).any(|index| is_pause(record, index));
        let stretches: Vec<Stretch> =
            after.windows(2).filter(paused).map(|pair| Stretch::new(record, pair[0], pair[1])).collect();
        let part = stretches.len().div_ceil(PARTS).max(1);
        for part in stretches.chunks(part) {
            let all = part.iter().fold(Stretch::default(), |sum, one| Stretch {
                packets: sum.packets + one.packets,
                duration: sum.duration + one.duration,
            });
            if all.packets >= MIN_PART {
                self.parts.push(Part { stretch: all, count: part.len() as f64 });
            }
        }
    }

    /// Corrects the burst by the packet that was the first to be lost.
    fn correct(&mut self, burst: usize, first: Option<usize>) {
        let ratio = first.map_or(CORRECTION.1, |first| (first as f64 + BEYOND) / burst.max(1) as f64);
        let (least, most) = CORRECTION;
        self.correction = (self.correction * ratio.powf(GAIN)).clamp(least, most);
    }

    fn conclude(&mut self) {
        if self.parts.is_empty() {
            return;
        }
        let size = self.packet.get() as f64 * 8.0;
        let busy: Duration = self.parts.iter().map(|part| part.stretch.duration).sum();
        let packets: f64 = self.parts.iter().map(|part| part.stretch.packets).sum();
        let count: f64 = self.parts.iter().map(|part| part.count).sum();
        let free = size * packets / busy.secs_f64();
        let rate = self.policer.rate.bps_f64().max(free);
        let others = 1.0 - free / rate;
        let unseen =
            (others * UNSEEN * self.dispersion(free, rate)).min(MAX_UNSEEN * others * packets / count);
        let capacity = Rate::from_bps_f64(rate * HEADROOM);
        let mut posterior = Posterior::new(capacity);
        for Part { stretch, count } in &self.parts {
            let packets = stretch.packets - unseen * count;
            let available_bps = size * packets / stretch.duration.secs_f64();
            posterior.add(&Sample { available_bps, duration: stretch.duration, censored: false });
        }
        self.bounds.iter().for_each(|bound| posterior.add(bound));
        let correction = size * unseen * count / busy.secs_f64() / capacity.bps_f64();
        let common = COMMON_ERROR
            .hypot(end_effect(capacity, busy, 1))
            .hypot(correction * CORRECTION_ERROR)
            .hypot(others * OTHERS_ERROR);
        let summary = Summary { one_queue: 1.0, series: 0.0, one: [0.0; POINTS], several: [0.0; POINTS] };
        let mut spread = Spread::of(Some(&posterior.density()), &summary, capacity, common);
        let lost = (OTHERS_LOST * others * rate).max(OTHERS_ON_LINK * self.on_link.bps_f64());
        for ((low, _), (_, width)) in spread.intervals.iter_mut().zip(LEVELS) {
            *low = low.saturating_sub(Rate::from_bps_f64(lost * width));
        }
        self.spread = Some(spread);
        self.current = spread.median;
    }

    /// Returns the index of dispersion of the traffic of others, in packets of a stream: 1 if it is random,
    /// more if it comes in bursts.
    fn dispersion(&self, free: f64, rate: f64) -> f64 {
        let size = self.packet.get() as f64 * 8.0;
        let square = |Part { stretch, .. }: &Part| {
            let seconds = stretch.duration.secs_f64();
            let off = stretch.packets - free * seconds / size;
            (off * off - ROUNDING).max(0.0) * size / ((rate - free).max(0.01 * rate) * seconds)
        };
        let degrees = self.parts.len().saturating_sub(1).max(1) as f64;
        (self.parts.iter().map(square).sum::<f64>() / degrees).clamp(1.0, MAX_DISPERSION)
    }

    /// Returns whether the interval is so narrow, or so much was lost, that further streams are
    /// not worth their bytes.
    fn is_done(&self) -> bool {
        let narrow = self.spread.is_some_and(|spread| spread.is_narrow(self.policer.rate));
        self.packets >= ENOUGH_PACKETS && narrow || self.spread.is_some() && self.lost >= MAX_LOST
    }
}

impl Evaluation for Policed {
    fn schedule(&self, known: &Known<'_>) -> Option<Schedule> {
        (!self.is_done()).then(|| self.next_stream(known.since_sent))
    }

    fn observe(&mut self, stream: &Received<'_>, _: &Baseline, _: &mut Probe) -> Result<(), Refusal> {
        self.add(stream.record);
        Ok(())
    }

    fn restart(&mut self) {
        self.parts.clear();
        self.bounds.clear();
        (self.streams, self.packets) = (0, 0);
        self.spread = None;
    }

    fn spread(&self) -> Option<Spread> {
        self.spread
    }

    fn path_kind(&self) -> Option<PathKind> {
        Some(PathKind::Policed)
    }

    /// Returns the policer's rate: what trains received of it, or what is free if more.
    fn capacity(&self) -> Option<Rate> {
        Some(self.spread.map_or(self.policer.rate, |spread| spread.median.max(self.policer.rate)))
    }

    fn bucket(&self, _: &Account, _: &Baseline) -> Option<Bytes> {
        Some(self.policer.bytes)
    }
}

/// Adds pulses of this average rate and of this many packets in all to the gaps of a stream.
pub(super) fn add_pulses(
    gaps: &mut Vec<Duration>,
    packet: Bytes,
    policer: &Policer,
    average: Rate,
    packets: usize,
) {
    let short = policer.fast.time_for(packet);
    let tokens = policer.bytes.get() as f64 / packet.get().max(1) as f64;
    let pulse = ((PULSE_SHARE * tokens).min(MAX_PULSE) * EXCESS).round().max(2.0) as usize;
    let pause = average.time_for(packet) * pulse as i64 - short * (pulse as i64 - 1);
    for _ in 0..packets.div_ceil(pulse).max(2) {
        gaps.push(pause.max(short));
        gaps.extend(std::iter::repeat_n(short, pulse - 1));
    }
}

/// Returns the index of the last packet before the first pause.
pub(super) fn first_burst(record: &StreamRecord) -> usize {
    let first = record.intended.first().copied().unwrap_or_default();
    record.intended.iter().take_while(|gap| **gap <= first).count()
}

/// Some stretches of a stream, and how many.
#[derive(Clone, Copy, Debug)]
struct Part {
    stretch: Stretch,
    count: f64,
}

/// What passed between two losses.
#[derive(Clone, Copy, Debug, Default)]
struct Stretch {
    packets: f64,
    duration: Duration,
}

impl Stretch {
    fn new(record: &StreamRecord, from: usize, until: usize) -> Stretch {
        let arrivals = &record.arrivals[from..=until];
        let packets = arrivals.iter().filter(|arrival| arrival.received.is_some()).count() as f64;
        Stretch { packets, duration: record.arrivals[until].sent - record.arrivals[from].sent }
    }
}

/// Returns whether there is a pause after this packet.
fn is_pause(record: &StreamRecord, index: usize) -> bool {
    let short = record.intended.first().copied().unwrap_or_default();
    record.intended.get(index).is_some_and(|gap| *gap > short.scale(PAUSE))
}

/// Returns the rate of what passed after this packet, as a lower bound.
fn passed_behind(record: &StreamRecord, from: usize) -> Option<Sample> {
    let stretch = Stretch::new(record, from, record.arrivals.len() - 1);
    let seconds = stretch.duration.secs_f64();
    let available_bps = stretch.packets * record.packet.get() as f64 * 8.0 / seconds;
    (seconds > 0.0).then_some(Sample { available_bps, duration: stretch.duration, censored: true })
}
