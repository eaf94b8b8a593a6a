//! What every phase of a measurement asks of a single stream.

use crate::denoise::centred_mean;
use crate::estimate::{Settings, StreamEstimate};
use crate::stream::{Gaps, Refusal, StreamRecord};
use crate::units::{Bytes, Duration, Rate};

/// Share of receive gaps below half a packet time of the narrow link from which a receiver is
/// taken to coalesce: a FIFO link cannot deliver faster than its capacity, an interrupt can.
const COALESCING_SHARE: f64 = 0.15;

/// Excess of receive over send gaps that counts, so that stamps of slow streams do not (rapid 2.11, closed loop).
const RELATIVE_MARGIN: f64 = 0.02;

/// What packets of others are taken to have (wire bytes).
pub(super) const FULL_PACKET: Bytes = Bytes::new(1_538);

/// The smallest probe, but no smaller than its headers and a reasonable part of a full packet need (wire bytes).
const SMALLEST: Bytes = Bytes::new(500);
/// Time that a probe may take on a link: a stream adds some 24 of these to the delay. Not much less, or start-up streams, which reach four times
/// their rate, would meet receivers that coalesce for 120 us.
const PROBE_TIME: Duration = Duration::from_us(800);

/// The size of probes for a path of this rate: less than `packet` where that would fill slow links for too long. On faster links large packets see
/// through receivers that coalesce.
pub(super) fn small_enough(packet: Bytes, rate: Rate) -> Bytes {
    let fitting = rate.bytes_in(PROBE_TIME);
    if fitting >= FULL_PACKET { packet } else { fitting.max(SMALLEST).min(packet) }
}

/// Working memory that is reused from stream to stream.
#[derive(Clone, Debug, Default)]
pub(super) struct Probe {
    gaps: Gaps,
    scratch: Vec<Duration>,
}

/// The sums of a stream's gaps, over whole buffering events where the receiver coalesces.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sums {
    pub(super) samples: u64,
    pub(super) send: Duration,
    pub(super) receive: Duration,
}

impl Probe {
    /// Multi-pass BASS and excursion search, for a narrow link that is not known yet; the raw gaps when no complete buffering event was seen.
    pub(super) fn excursion(
        &mut self,
        record: &StreamRecord,
        window: usize,
    ) -> Result<StreamEstimate, Refusal> {
        record.gaps(&mut self.gaps)?;
        let settings = settings(record.packet, fastest_rate(record));
        let denoise = settings.denoise.with_window(window);
        if denoise.apply(&mut self.gaps, &mut self.scratch).is_err() {
            record.gaps(&mut self.gaps)?;
            centred_mean(&mut self.gaps.send, window, &mut self.scratch);
            centred_mean(&mut self.gaps.receive, window, &mut self.scratch);
        }
        settings.excursion.estimate(record.packet, &self.gaps)
    }

    /// The sums of send and receive gaps, with the gap of a lost packet counted to its successor.
    ///
    /// `packet_time` is the time of one packet on the narrow link; gaps far below it betray coalescing,
    /// and then only complete buffering events count (rapid 2.9, 2.17).
    pub(super) fn sums(&mut self, record: &StreamRecord, packet_time: Duration) -> Result<Sums, Refusal> {
        if self.coalesced(record, packet_time)? {
            let capacity = Rate::of(record.packet, packet_time).unwrap_or_default();
            settings(record.packet, capacity).denoise.first_pass(&mut self.gaps)?;
        }
        Ok(Sums {
            samples: self.gaps.len() as u64,
            send: self.gaps.send.iter().copied().sum(),
            receive: self.gaps.receive.iter().copied().sum(),
        })
    }

    /// The receive gaps of the last stream that was summed.
    pub(super) fn receive_gaps(&self) -> &[Duration] {
        &self.gaps.receive
    }

    /// Whether the stream's receive gaps look like those of a receiver that coalesces interrupts.
    pub(super) fn coalesced(
        &mut self,
        record: &StreamRecord,
        packet_time: Duration,
    ) -> Result<bool, Refusal> {
        self.fill_over_losses(record)?;
        let short = self.gaps.receive.iter().filter(|gap| **gap < packet_time / 2).count();
        Ok(short as f64 >= COALESCING_SHARE * self.gaps.len() as f64)
    }

    fn fill_over_losses(&mut self, record: &StreamRecord) -> Result<(), Refusal> {
        self.gaps.clear();
        let mut arrived = record.arrivals.iter().filter_map(|a| Some((a.sent, a.received?)));
        let mut last = arrived.next().ok_or(Refusal::Lost)?;
        for (sent, received) in arrived {
            if received < last.1 {
                return Err(Refusal::Reordered);
            }
            self.gaps.push(sent - last.0, received - last.1);
            last = (sent, received);
        }
        if self.gaps.is_empty() { Err(Refusal::TooShort) } else { Ok(()) }
    }
}

/// The fastest rate in a stream, which stands in for the narrow link's until that is known.
fn fastest_rate(record: &StreamRecord) -> Rate {
    let gap = record.intended.iter().copied().min().unwrap_or_default();
    Rate::of(record.packet, gap).unwrap_or_default()
}

/// The settings that a measurement gives its estimators: scaled to the narrow link, with a margin for use in a loop
/// (rapid 2.10, 2.11).
pub fn settings(packet: Bytes, capacity: Rate) -> Settings {
    let scaled = Settings::for_link(packet, capacity);
    Settings { excursion: scaled.excursion.with_relative_margin(RELATIVE_MARGIN), ..scaled }
}

/// How long a stream took to leave.
pub(super) fn sent_for(record: &StreamRecord) -> Duration {
    let ends = record.arrivals.first().zip(record.arrivals.last());
    ends.map_or(Duration::ZERO, |(first, last)| last.sent - first.sent)
}

/// The rate at which the stream actually left.
pub(super) fn send_rate(record: &StreamRecord) -> Option<Rate> {
    let (first, last) = (record.arrivals.first()?, record.arrivals.last()?);
    let bytes = record.packet * u64::from(last.index - first.index);
    Rate::of(bytes, last.sent - first.sent)
}
