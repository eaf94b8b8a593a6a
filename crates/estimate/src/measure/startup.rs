//! Start-up: finds the range of the available bandwidth between 1 Mb/s and the sender's limit.

use crate::Bound;
use crate::stream::{Arrival, Refusal, Schedule, Shape, StreamRecord};
use headway_units::statistics::upper_median;
use headway_units::{Bytes, Duration, Rate};

use super::answer::SLOWEST;
use super::jitter::{self, Jitter, Span};
use super::probe::{self, Probe};

/// Average rate of the first stream; its slowest packets are sent at half of it.
const FIRST_RATE: Rate = Rate::from_bps(1_000_000);
/// Ratio of adjacent rates within a start-up stream: four rates span a factor of eight (rapid 2.14).
const STEP: f64 = 2.0;
/// Minimum and maximum number of packets at each rate: few on slow paths, where they take long.
const PACKETS_PER_RATE: (u32, u32) = (4, 16);
/// From this rate on, streams grow in proportion to it: receivers commonly coalesce for 120 us (rapid 2.15),
/// one packet time at this rate, and a stream must span several interrupts.
const COALESCING_RATE: Rate = Rate::from_bps(100_000_000);
/// Number of consecutive failures after which start-up gives up; a busy host spoils several streams.
const MAX_FAILURES: u32 = 8;
/// One lost packet may be chance; this many consecutive lossy streams are not.
const LOSSES: u32 = 2;
/// Gaps shorter than this may be beyond a sender that takes about 4 us per packet ...
const SHORT_GAP: Duration = Duration::from_us(10);
/// ... and are if it fails this many times in a row.
const MAX_FAILURES_WHEN_FAST: u32 = 3;

/// On a path with jitter, a stream has one rate and lasts this many times the jitter span ...
const SPANS: i64 = 6;
/// ... but is no larger than this, out of a budget of 2 MB ...
const MAX_BYTES: Bytes = Bytes::new(300_000);
/// ... and its delay has grown if it grew by this share of the span.
const GROWN_SHARE: f64 = 0.5;

/// Where no stream of this rate has passed, the first ones may have caused the queue that looks like jitter.
/// Range 5 to 20 Mb/s: ten times the rate of the first stream.
const FAST: Rate = Rate::from_bps(10_000_000);
/// The share of the rate of the next stream that is likely to be available: rates double.
const LIKELY: f64 = 0.6;

/// Raises the rate by a factor of up to 3.75 per stream until the receive gaps have grown in two streams: a
/// single one may have met a burst or a busy receiver.
#[derive(Clone, Debug, Default)]
pub(super) struct Startup {
    rate: Rate,
    top: Rate,
    failed: u32,
    packet: Bytes,
    known_good: Option<Rate>,
    /// The highest rate of a whole stream that the sender kept the gaps of and the path carried.
    paced: Option<Rate>,
    /// Whether a slower stream was tried once the sender kept failing.
    slowed: bool,
    /// What streams have shown to be available in spite of jitter.
    shown: Rate,
    suspected: bool,
    trickled: bool,
    jitter: Jitter,
}

/// The outcome of start-up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Range {
    /// The available bandwidth is near this rate.
    Near(Rate),
    /// No rate that the sender could send made the gaps grow: at least this much is available.
    AtLeast(Rate),
    /// The sender cannot keep the gaps of streams of this rate.
    SenderLimit(Rate),
    /// Too many streams were refused.
    Failed(Refusal),
    /// Packets arrive at this rate, which is too low to be measured.
    TooSlow(Rate),
}

impl Startup {
    pub(super) fn new(packet: Bytes, top: Rate) -> Startup {
        Startup {
            rate: FIRST_RATE.min(top),
            top,
            packet,
            // The least that any path has that can be measured.
            shown: FIRST_RATE.min(top),
            ..Startup::default()
        }
    }

    /// Returns the delay variation without queueing, if it is significant.
    pub(super) fn jitter(&self) -> Option<Span> {
        self.jitter.span()
    }

    /// Returns what is likely to be available: as likely as not the rate of the next stream; zero if no
    /// fast stream has passed.
    pub(super) fn likely(&self) -> Rate {
        if self.known_good < Some(FAST) { Rate::ZERO } else { self.rate.scale(LIKELY) }
    }

    /// Returns the highest rate of a whole stream that the sender kept the gaps of and the path carried.
    pub(super) fn paced(&self) -> Option<Rate> {
        self.paced
    }

    pub(super) fn schedule(&self) -> Schedule {
        let packet = probe::small_enough(self.packet, self.rate);
        if let Some(jitter) = self.jitter() {
            let bytes = self.rate.bytes_in(jitter.most * SPANS).min(MAX_BYTES);
            let gaps = (bytes.get() / packet.get().max(1)) as usize;
            return Schedule::single_rate(self.rate, gaps.max(self.shape().gaps()), packet);
        }
        Schedule::p_stream(self.shape(), self.rate, packet)
    }

    fn shape(&self) -> Shape {
        let (few, many) = PACKETS_PER_RATE;
        let scaled = f64::from(few) * self.rate.bps_f64() / COALESCING_RATE.bps_f64();
        let packets_per_rate = (scaled.ceil() as u32).clamp(few, many);
        Shape { rates: 4, packets_per_rate, step: STEP }
    }

    /// Returns the range once it is known; `overtaken` tells whether packets of the stream overtook others.
    pub(super) fn observe(
        &mut self,
        record: &StreamRecord,
        overtaken: bool,
        probe: &mut Probe,
    ) -> Result<Option<Range>, Refusal> {
        if record.lost() > 0 {
            return self.observe_lossy(record);
        }
        self.trickled = false;
        if let Some(jitter) = self.jitter() {
            return Ok(self.observe_through(jitter, record, overtaken));
        }
        let window = self.shape().packets_per_rate as usize;
        let estimate = probe.excursion(record, window)?;
        self.failed = 0;
        let grown = record.packet == self.packet || outgrows_noise(record);
        if estimate.bound != Bound::AtLeast && estimate.rate.bps() < 2 * self.rate.bps() && grown {
            if jitter::is_white(record) {
                self.jitter.observe(record, overtaken);
                if let Some(jitter) = self.jitter() {
                    return Ok(self.observe_through(jitter, record, overtaken));
                }
            }
            if self.suspected {
                return Ok(Some(Range::Near(estimate.rate)));
            }
            self.suspected = true;
            self.rate = estimate.rate.min(self.top);
            return Ok(None);
        }
        if self.rate >= self.top {
            return Ok(Some(Range::AtLeast(probe::send_rate(record).unwrap_or(self.rate))));
        }
        self.jitter.observe(record, overtaken);
        self.known_good = Some(estimate.rate);
        self.paced = self.paced.max(probe::send_rate(record));
        // BASS may merge a whole rising stream into one event and return its average; the rate
        // would then stop growing.
        self.rate = estimate.rate.max(self.rate + self.rate).min(self.top);
        Ok(None)
    }

    /// Refuses a stream that lost packets, unless they are only late: twice in a row, that tells a
    /// path which is too slow.
    fn observe_lossy(&mut self, record: &StreamRecord) -> Result<Option<Range>, Refusal> {
        let trickle = probe::trickle(record).filter(|rate| *rate < SLOWEST);
        let before = std::mem::replace(&mut self.trickled, trickle.is_some());
        match trickle {
            Some(rate) if before => Ok(Some(Range::TooSlow(rate))),
            Some(_) => Err(Refusal::TooShort),
            None => Err(Refusal::Lost),
        }
    }

    /// Does the same on a path with jitter.
    fn observe_through(&mut self, jitter: Span, record: &StreamRecord, overtaken: bool) -> Option<Range> {
        self.failed = 0;
        let rate = probe::send_rate(record).unwrap_or(self.rate);
        let (growth, time) = growth_after(record, jitter.most);
        if growth > jitter.most.scale(GROWN_SHARE) {
            let received = rate.scale(1.0 / (1.0 + growth.secs_f64() / time.secs_f64()));
            return std::mem::replace(&mut self.suspected, true).then_some(Range::Near(received));
        }
        // Growth of less than that share of the span would have been missed. At a link no faster than the
        // stream, it is the share of the stream's rate that is not available.
        let missed = jitter.most.scale(GROWN_SHARE).secs_f64() / time.secs_f64();
        self.shown = self.shown.max(rate.scale((1.0 - missed).max(0.0)));
        if self.rate >= self.top {
            return Some(Range::AtLeast(self.shown));
        }
        self.jitter.observe(record, overtaken);
        self.suspected = false;
        self.known_good = Some(rate);
        self.paced = Some(self.shown);
        self.rate = (self.rate + self.rate).min(self.top);
        None
    }

    /// Counts a failure. Repeated loss above a rate that passed means that the queue overflowed; otherwise
    /// start-up tries again.
    pub(super) fn refused(&mut self, refusal: Refusal) -> Option<Range> {
        self.failed += 1;
        match (refusal, self.known_good) {
            (Refusal::Lost, Some(rate)) if self.failed >= LOSSES => Some(Range::Near(rate)),
            (Refusal::SenderGaps, Some(rate)) if self.beyond_sender() => {
                Some(Range::AtLeast(if self.jitter().is_some() { self.shown } else { rate }))
            }
            (Refusal::SenderGaps, _) if self.failed >= self.most_failures() => self.slow_down(),
            _ if self.failed >= MAX_FAILURES => Some(Range::Failed(refusal)),
            _ => None,
        }
    }

    /// Returns how many failures the sender may have: fewer, once a slower stream is what it can pace.
    fn most_failures(&self) -> u32 {
        if self.slowed { MAX_FAILURES / 2 } else { MAX_FAILURES }
    }

    /// Tries a slower stream once the sender keeps failing, and gives up on streams of several rates the second
    /// time.
    fn slow_down(&mut self) -> Option<Range> {
        let slower = self.rate.scale(1.0 / STEP);
        if std::mem::replace(&mut self.slowed, true) || Some(slower) <= self.paced || slower < SLOWEST {
            // The fastest packets of the stream were so fast.
            return Some(Range::SenderLimit(self.rate.scale(STEP * STEP)));
        }
        self.rate = slower;
        self.failed = 0;
        None
    }

    /// Returns whether the sender fails because the gaps are shorter than it can produce.
    fn beyond_sender(&self) -> bool {
        self.failed >= MAX_FAILURES_WHEN_FAST && self.rate.time_for(self.packet) < SHORT_GAP
    }
}

/// Returns how much the delay grew during a stream of one rate, per time, at least zero; single late
/// packets hardly matter.
pub(super) fn growth_rate(record: &StreamRecord) -> f64 {
    let (growth, time) = growth_after(record, Duration::ZERO);
    (growth.secs_f64() / time.secs_f64()).max(0.0)
}

/// Returns the growth of the delay from the first third of a stream to the last, without its beginning, and
/// the time between the two.
fn growth_after(record: &StreamRecord, beginning: Duration) -> (Duration, Duration) {
    let beginning = beginning.min(probe::sent_for(record) / 4);
    let start = record.arrivals.first().map(|first| first.sent + beginning);
    let after: Vec<&Arrival> = record.arrivals.iter().filter(|a| Some(a.sent) >= start).collect();
    let third = after.len() / 3;
    let middle = |third: &[&Arrival]| upper_median(third.iter().filter_map(|a| a.one_way_delay()).collect());
    let grown = || Some(middle(&after[after.len() - third..])? - middle(&after[..third])?);
    let time = || Some((after.last()?.sent - after.first()?.sent).scale(2.0 / 3.0));
    (grown().unwrap_or_default(), time().unwrap_or_default().max(Duration::from_ns(1)))
}

/// Returns whether the delay grew by more than it varied in the slower half of the stream; jitter widens the
/// gaps of small packets, but does not cause this growth.
fn outgrows_noise(record: &StreamRecord) -> bool {
    let mut delays: Vec<Duration> = record.arrivals.iter().filter_map(Arrival::one_way_delay).collect();
    let (count, half) = (delays.len(), delays.len() / 2);
    let fastest = &mut delays[half + (count - half) / 2..];
    fastest.sort_unstable();
    let Some(end) = fastest.get(fastest.len() / 2).copied() else { return false };
    let slower = &mut delays[..half];
    slower.sort_unstable();
    let (Some(least), Some(most)) = (slower.first(), slower.last()) else { return false };
    end - slower[half / 2] > *most - *least
}
