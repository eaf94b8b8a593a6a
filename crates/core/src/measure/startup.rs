//! Finding the range: where between 1 Mb/s and the sender's limit the available bandwidth lies.

use crate::estimate::Bound;
use crate::stream::{Arrival, Refusal, Schedule, Shape, StreamRecord};
use crate::units::{Bytes, Duration, Rate};

use super::probe::{self, Probe};

/// Average rate of the first stream; its slowest packets go at half of it.
const FIRST_RATE: Rate = Rate::from_bps(1_000_000);
/// Ratio of neighbouring rates within a start-up stream: four rates cover a factor of eight (rapid 2.14).
const STEP: f64 = 2.0;
/// Packets at each rate of a start-up stream: on slow paths few, because they take long ...
const PACKETS_PER_RATE: (u32, u32) = (4, 16);
/// ... and on paths faster than this more with the rate, because receivers commonly coalesce for 120 us
/// (rapid 2.15), as long as a packet takes here, and a stream must span several interrupts.
const COALESCING_RATE: Rate = Rate::from_bps(100_000_000);
/// Streams that may fail in a row before start-up gives up; a busy host spoils several of them.
const PATIENCE: u32 = 8;
/// One lost packet may be chance; this many lossy streams in a row are not.
const LOSSES: u32 = 2;
/// Gaps shorter than this may be beyond the sender, which takes some 4 us for a packet ...
const SHORT_GAP: Duration = Duration::from_us(10);
/// ... and are when it fails this often in a row.
const PATIENCE_WHEN_FAST: u32 = 3;

/// Raises the rate by up to 3.75 a stream until the receive gaps have grown in two streams: a single one may have met
/// a burst, or a receiver that was busy.
#[derive(Clone, Debug)]
pub(super) struct Startup {
    rate: Rate,
    top: Rate,
    failed: u32,
    packet: Bytes,
    known_good: Option<Rate>,
    suspected: bool,
}

/// How start-up ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Range {
    /// The available bandwidth is near this rate.
    Near(Rate),
    /// Nothing that the sender could send made the gaps grow: at least this much is free.
    AtLeast(Rate),
    /// Stream after stream was refused.
    Failed(Refusal),
}

impl Startup {
    pub(super) fn new(packet: Bytes, top: Rate) -> Startup {
        Startup { rate: FIRST_RATE.min(top), top, failed: 0, packet, known_good: None, suspected: false }
    }

    pub(super) fn schedule(&self) -> Schedule {
        let packet = probe::small_enough(self.packet, self.rate);
        Schedule::p_stream(self.shape(), self.rate, packet)
    }

    fn shape(&self) -> Shape {
        let (few, many) = PACKETS_PER_RATE;
        let scaled = f64::from(few) * self.rate.bps_f64() / COALESCING_RATE.bps_f64();
        let packets_per_rate = (scaled.ceil() as u32).clamp(few, many);
        Shape { rates: 4, packets_per_rate, step: STEP }
    }

    /// The range once it is known.
    pub(super) fn observe(
        &mut self,
        record: &StreamRecord,
        probe: &mut Probe,
    ) -> Result<Option<Range>, Refusal> {
        let window = self.shape().packets_per_rate as usize;
        let estimate = probe.excursion(record, window)?;
        self.failed = 0;
        let grown = record.packet == self.packet || outgrows_noise(record);
        if estimate.bound != Bound::AtLeast && estimate.rate.bps() < 2 * self.rate.bps() && grown {
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
        self.known_good = Some(estimate.rate);
        // BASS may take a whole rising stream for one event and answer its average, which would stand still.
        self.rate = estimate.rate.max(self.rate + self.rate).min(self.top);
        Ok(None)
    }

    /// Repeated loss at a rate that the last stream did not reach means the queue overflowed; otherwise try again.
    pub(super) fn refused(&mut self, refusal: Refusal) -> Option<Range> {
        self.failed += 1;
        match (refusal, self.known_good) {
            (Refusal::Lost, Some(rate)) if self.failed >= LOSSES => Some(Range::Near(rate)),
            (Refusal::SenderGaps, Some(rate)) if self.beyond_sender() => Some(Range::AtLeast(rate)),
            _ if self.failed >= PATIENCE => Some(Range::Failed(refusal)),
            _ => None,
        }
    }

    /// Whether the sender fails because the gaps are shorter than it can make.
    fn beyond_sender(&self) -> bool {
        self.failed >= PATIENCE_WHEN_FAST && self.rate.time_for(self.packet) < SHORT_GAP
    }
}

/// Whether the delay has grown by more than it varied in the slower half of the stream. Jitter makes the gaps of small packets grow, but not that.
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
