//! The result of a measurement, with its cost or the reason why it is missing.

use std::collections::BTreeMap;

use crate::stream::{Refusal, StreamRecord};
use headway_learned::Outside;
use headway_units::{Bytes, Duration, Instant, Rate};

use super::mixture::Spread;
use super::stalls::Stalls;
use super::{Change, PathKind, probe};

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

impl From<Spread> for Interval {
    fn from(spread: Spread) -> Interval {
        let (low, high) = spread.interval_90();
        Interval { rate: spread.median, low, high: Some(high) }
    }
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
    /// When the first of the streams that `available` rests on was sent, by the caller's clock: `available`
    /// is about the time from then to the end. `None` if the measurement ended before, or needed no such
    /// streams for its lower bound.
    pub sampled_from: Option<Instant>,
    /// Intervals of 50, 80, 90 and 95 %; empty where the method has only the 90 % interval,
    /// or there is no answer.
    pub claims: Vec<Claim>,
    /// The kind of path, where the method determines it.
    pub path_kind: Option<PathKind>,
    /// The change of the available bandwidth during the measurement, where the method detects one;
    /// `available` is then the average over that time.
    pub change: Option<Change>,
    /// The stalls of the path during the time that `available` is about, where the default method found any;
    /// `available` is then the average over stalls and the time between them.
    pub stalls: Option<Stalls>,
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
    /// Estimated losses of cross traffic during streams, in full packets, assuming the same
    /// loss rate as for probes.
    ///
    /// Some of these packets would have been lost anyway. `None` while the rate of the
    /// cross traffic is unknown.
    pub others_lost: Option<f64>,
}

impl Answer {
    /// Whether the answer is only "at least" because the sender could not keep the gaps of most streams: a
    /// host that is less busy may find more.
    pub fn is_limited_by_pacing(&self) -> bool {
        let refused = self.streams_refused.get(&Refusal::SenderGaps).copied().unwrap_or_default();
        self.available.is_ok_and(|interval| interval.high.is_none()) && refused > self.streams_used
    }
}

/// The reason why there is no answer.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
pub enum Failure {
    /// No probe packet arrived.
    #[error("none of the probe packets arrived; check that no firewall drops UDP in this direction")]
    AllLost,
    /// Too many streams lost packets.
    #[error(
        "too many streams lost packets to estimate the available bandwidth; the path drops packets at every rate probed"
    )]
    Lossy,
    /// The sender never kept its gaps.
    #[error(
        "the sender could not pace packets as scheduled, not even at low rates; stop other work on that host or reserve a \
         core (`headway doctor` there shows which rates it can pace)"
    )]
    SenderGaps,
    /// A clock was stepped repeatedly.
    #[error("a clock was stepped during the measurement; let time synchronisation settle and run again")]
    ClockStep,
    /// Delays vary by so much without queueing that no stream can outlast it.
    #[error(
        "delays vary by {0} where nothing queues, which hides what the streams of a measurement would show; measure before \
         the radio or relay that delays packets"
    )]
    Jitter(Duration),
    /// Too many streams met a stall.
    #[error(
        "the path stalls all the time: in most streams nothing arrived for a while; measure again, or for longer"
    )]
    Stalls,
    /// Packets overtake each other too often.
    #[error(
        "packets arrive out of order, so the gaps between them are meaningless; measure each parallel path separately"
    )]
    Reordered,
    /// The path is slower than the supported range: packets arrive at this rate.
    #[error(
        "packets arrive at {0}: the path is slower than 1 Mb/s, the minimum that can be measured; try `ping` with large \
         packets instead"
    )]
    TooSlow(Rate),
    /// The streams are unlike those that the model was trained on.
    #[error("the model has never seen such a path: {0}; take another method or another model")]
    Unseen(Outside),
    /// The model cannot be used for this measurement.
    #[error("the model gives no answer: {0}")]
    Model(Refusal),
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
            Refusal::Stalled => Failure::Stalls,
            Refusal::TooShort => Failure::Unfinished,
            Refusal::NoModel
            | Refusal::OtherShape
            | Refusal::NoCapacity
            | Refusal::Unseen(_)
            | Refusal::NoNumber => Failure::Model(refusal),
        }
    }
}

/// Running totals of a measurement.
#[derive(Clone, Debug, Default)]
pub(super) struct Tally {
    pub(super) bytes: Bytes,
    pub(super) used: u32,
    pub(super) refused_in_a_row: u32,
    pub(super) packets: u64,
    pub(super) lost: u64,
    pub(super) highest: Rate,
    /// Sum over streams of the sending time multiplied by the share of packets lost.
    pub(super) lost_time: Duration,
    pub(super) refusals: BTreeMap<Refusal, u32>,
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
        // Packets that trickle in are late, not lost.
        let lost = if probe::trickle(record).is_some() { 0 } else { record.lost() };
        self.lost += lost as u64;
        self.lost_time += probe::sent_for(record).scale(lost as f64 / record.arrivals.len().max(1) as f64);
        let highest = fastest_quarter(record);
        self.highest = self.highest.max(highest.unwrap_or(Rate::ZERO));
    }

    pub(super) fn refused(&mut self, refusal: Refusal) {
        self.refused_in_a_row += 1;
        *self.refusals.entry(refusal).or_default() += 1;
    }
}

/// Returns the rate of the last quarter of a stream, which is the fastest part of rising streams; a single
/// gap would be too noisy.
fn fastest_quarter(record: &StreamRecord) -> Option<Rate> {
    let from = record.arrivals.len() * 3 / 4;
    let (first, last) = (record.arrivals.get(from)?, record.arrivals.last()?);
    Rate::of(record.packet * u64::from(last.index - first.index), last.sent - first.sent)
}

/// The lowest capacity that can be measured: the first start-up stream would overflow the
/// buffers of slower links.
pub const SLOWEST: Rate = Rate::from_bps(1_000_000);
