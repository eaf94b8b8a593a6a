//! The result of a measurement, with its cost or the reason why it is missing.

use std::collections::BTreeMap;

use crate::stream::{Refusal, StreamRecord};
use crate::units::{Bytes, Duration, Rate};

use super::mixture::LEVELS;
use super::phase::{Found, Phase};
use super::probe::{self, FULL_PACKET};
use super::{Change, Measurement, PathKind};

/// An available bandwidth with its 90 % interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interval {
    /// The estimate.
    pub rate: Rate,
    /// Lower end of the 90 % interval.
    pub low: Rate,
    /// Upper end of the 90 % interval; `None` when more is available than the sender can send.
    pub high: Option<Rate>,
}

/// An interval that contains the true value with a given probability.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Claim {
    /// The probability, in percent.
    pub percent: u32,
    /// Lower end of the interval.
    pub low: Rate,
    /// Upper end of the interval; `None` when more is available than the sender can send.
    pub high: Option<Rate>,
}

/// The result of a measurement, final or intermediate.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    /// The available bandwidth, or the reason why it is unknown.
    pub available: Result<Interval, Failure>,
    /// Intervals of 50, 80, 90 and 95 %; empty where the method has only the 90 % interval, or there is no answer.
    pub claims: Vec<Claim>,
    /// The kind of path, where the method determines it.
    pub path_kind: Option<PathKind>,
    /// The change of the available bandwidth during the measurement, where the method detects one; `available` is
    /// then the average over that time.
    pub change: Option<Change>,
    /// Capacity of the narrow link where the method measures it, or the sustained rate of a shaper.
    pub capacity: Option<Rate>,
    /// Size on the wire of the burst that a shaper passes before it enforces its sustained rate; `None`
    /// where none was found.
    pub bucket: Option<Bytes>,
    /// The highest rate at which packets were actually sent.
    pub highest_rate: Rate,
    /// Number of streams used.
    pub streams_used: u32,
    /// Number of streams refused, by reason.
    pub streams_refused: BTreeMap<Refusal, u32>,
    /// Size of all probe packets sent, on the wire.
    pub bytes: Bytes,
    /// Number of probe packets sent.
    pub packets: u64,
    /// Number of probe packets lost.
    pub lost: u64,
    /// Median over streams of the growth of the one-way delay during a stream.
    pub added_delay: Duration,
    /// Largest growth of the one-way delay during any stream.
    pub added_delay_max: Duration,
    /// Estimated losses of cross traffic during streams, in full packets, assuming the same loss rate as for probes.
    ///
    /// Some of these packets would have been lost anyway. `None` while the rate of the cross traffic is unknown.
    pub others_lost: Option<f64>,
}

/// The reason why there is no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// No probe packet arrived.
    #[error("none of the probe packets arrived; check that no firewall drops UDP in this direction")]
    AllLost,
    /// Too many streams lost packets.
    #[error("too many streams lost packets to tell what is free; the path drops packets at any rate tried")]
    Lossy,
    /// The sender never kept its gaps.
    #[error(
        "the sender could not keep the gaps between packets; stop other work on that host or give it a free core"
    )]
    SenderGaps,
    /// A clock was stepped repeatedly.
    #[error("a clock was stepped during the measurement; let time synchronisation settle and run again")]
    ClockStep,
    /// Packets overtake each other too often.
    #[error(
        "packets arrive out of order, so gaps between them say nothing; measure each parallel path by itself"
    )]
    Reordered,
    /// The path is slower than the supported range.
    #[error(
        "the path is slower than 1 Mb/s, the least that can be measured; try `ping` with large packets instead"
    )]
    TooSlow,
    /// Budget or time was exhausted first.
    #[error("budget or time ran out before an estimate; allow more with --budget or --duration")]
    Unfinished,
}

impl From<Refusal> for Failure {
    fn from(refusal: Refusal) -> Failure {
        match refusal {
            Refusal::Lost => Failure::Lossy,
            Refusal::Reordered => Failure::Reordered,
            Refusal::SenderGaps => Failure::SenderGaps,
            Refusal::ClockStep => Failure::ClockStep,
            Refusal::TooShort => Failure::Unfinished,
        }
    }
}

/// Running totals of a measurement.
#[derive(Clone, Debug, Default)]
pub(super) struct Tally {
    pub(super) bytes: Bytes,
    pub(super) used: u32,
    pub(super) refused_in_a_row: u32,
    packets: u64,
    lost: u64,
    pub(super) highest: Rate,
    /// Sum over streams of the sending time multiplied by the share of packets lost.
    lossy: Duration,
    refusals: BTreeMap<Refusal, u32>,
    used_before: u32,
}

impl Tally {
    pub(super) fn sent(&mut self, record: &StreamRecord) {
        if self.used > self.used_before {
            self.refused_in_a_row = 0;
            self.used_before = self.used;
        }
        self.bytes += record.packet * record.arrivals.len() as u64;
        self.packets += record.arrivals.len() as u64;
        self.lost += record.lost() as u64;
        self.lossy +=
            probe::sent_for(record).scale(record.lost() as f64 / record.arrivals.len().max(1) as f64);
        let highest = fastest_quarter(record);
        self.highest = self.highest.max(highest.unwrap_or(Rate::ZERO));
    }

    pub(super) fn refused(&mut self, refusal: Refusal) {
        self.refused_in_a_row += 1;
        *self.refusals.entry(refusal).or_default() += 1;
    }
}

/// Returns the rate of the last quarter of a stream, which is the fastest part of rising streams; a single gap would
/// be too noisy.
fn fastest_quarter(record: &StreamRecord) -> Option<Rate> {
    let from = record.arrivals.len() * 3 / 4;
    let (first, last) = (record.arrivals.get(from)?, record.arrivals.last()?);
    Rate::of(record.packet * u64::from(last.index - first.index), last.sent - first.sent)
}

/// An interval whose upper end exceeds this share of the timestamp limit has no upper end.
const NEAR_LIMIT: f64 = 0.9;

/// The lowest capacity that can be measured: the first start-up stream would overflow the buffers of slower links.
pub const SLOWEST: Rate = Rate::from_bps(1_000_000);

impl Measurement {
    /// Returns the answer so far, which is final once [`Measurement::next_step`] returns `Done`.
    pub fn answer(&self) -> Answer {
        let (added_delay, added_delay_max) = self.baseline.added().unwrap_or_default();
        let available = self.available();
        Answer {
            claims: available.map_or_else(|_| Vec::new(), |interval| self.claims(interval)),
            available,
            path_kind: self.path_kind(),
            change: self.change(),
            // Timestamps that are too coarse do not give a capacity.
            capacity: self.capacity.filter(|_| self.stamp_limit.is_none()),
            bucket: self.bucket(),
            highest_rate: self.tally.highest,
            streams_used: self.tally.used,
            streams_refused: self.tally.refusals.clone(),
            bytes: self.tally.bytes,
            packets: self.tally.packets,
            lost: self.tally.lost,
            added_delay,
            added_delay_max,
            others_lost: self.others_lost(available),
        }
    }

    fn available(&self) -> Result<Interval, Failure> {
        if self.tally.packets > 0 && self.tally.lost == self.tally.packets {
            return Err(Failure::AllLost);
        }
        if self.capacity.is_some_and(|capacity| capacity < SLOWEST) {
            return Err(Failure::TooSlow);
        }
        let interval = match &self.phase {
            Phase::Response(response) => response.spread().map(|spread| {
                let (low, high) = spread.usual();
                match self.stamp_limit {
                    Some(limit) if high > limit.scale(NEAR_LIMIT) => Interval { rate: low, low, high: None },
                    _ => Interval { rate: spread.median, low, high: Some(high) },
                }
            }),
            Phase::Shaped(shaped) => shaped.spread().map(|spread| {
                let (low, high) = spread.usual();
                Interval { rate: spread.median, low, high: Some(high) }
            }),
            Phase::Track(track) => track.interval(),
            Phase::Search(search) => search.interval(),
            Phase::AtLeast(rate) => Some(Interval { rate: *rate, low: *rate, high: None }),
            Phase::Lengthening(Found::AtLeast(rate)) => {
                Some(Interval { rate: *rate, low: *rate, high: None })
            }
            Phase::Startup(_) | Phase::Capacity(_) | Phase::Lengthening(_) => None,
        };
        let failure = || self.given_up.map_or_else(|| self.most_frequent_failure(), Failure::from);
        interval.ok_or_else(failure)
    }

    fn others_lost(&self, available: Result<Interval, Failure>) -> Option<f64> {
        if self.tally.lossy == Duration::ZERO {
            return Some(0.0);
        }
        let others = self.capacity?.saturating_sub(available.ok()?.rate);
        Some(others.bytes_in(self.tally.lossy).get() as f64 / FULL_PACKET.get() as f64)
    }

    fn path_kind(&self) -> Option<PathKind> {
        match &self.phase {
            Phase::Shaped(_) => Some(PathKind::Shaped),
            Phase::Response(_) if self.stamp_limit.is_some() => Some(PathKind::TooFast),
            Phase::Response(response) if response.spread().is_some() => Some(response.path_kind()),
            _ => None,
        }
    }

    fn bucket(&self) -> Option<Bytes> {
        let Phase::Shaped(shaped) = &self.phase else { return None };
        Some(shaped.bucket(&self.account, &self.baseline))
    }

    fn change(&self) -> Option<Change> {
        let Phase::Response(response) = &self.phase else { return None };
        response.change().filter(|_| self.stamp_limit.is_none())
    }

    fn claims(&self, available: Interval) -> Vec<Claim> {
        let levels = LEVELS.iter().map(|(percent, _)| *percent);
        if available.high.is_none() {
            return levels.map(|percent| Claim { percent, low: available.low, high: None }).collect();
        }
        let spread = match &self.phase {
            Phase::Response(response) => response.spread(),
            Phase::Shaped(shaped) => shaped.spread(),
            _ => None,
        };
        let intervals = spread.into_iter().flat_map(|spread| spread.intervals);
        levels.zip(intervals).map(|(percent, (low, high))| Claim { percent, low, high: Some(high) }).collect()
    }

    /// Returns the most common refusal, which explains a missing estimate better than an exhausted budget does.
    fn most_frequent_failure(&self) -> Failure {
        let commonest = self.tally.refusals.iter().max_by_key(|(_, count)| **count);
        match commonest {
            Some((refusal, count)) if *count > self.tally.used => (*refusal).into(),
            _ => Failure::Unfinished,
        }
    }
}
