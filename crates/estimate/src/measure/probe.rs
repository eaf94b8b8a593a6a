//! Operations on a single stream that all phases of a measurement share.

use crate::denoise::centred_mean;
use crate::stream::{Gaps, Refusal, StreamRecord};
use crate::{Settings, StreamEstimate};
use headway_learned::Model;
use headway_units::{Bytes, Duration, Rate};

/// If this share of the receive gaps is below half a packet time of the narrow link, the receiver coalesces
/// interrupts: a FIFO link cannot deliver faster than its capacity, but an interrupt can.
const COALESCING_SHARE: f64 = 0.15;

/// The assumed size of cross packets on the wire.
pub(super) const FULL_PACKET: Bytes = Bytes::new(1_538);

/// The smallest probe on the wire, with room for its headers and a reasonable fraction of a full packet.
const SMALLEST: Bytes = Bytes::new(500);
/// Time that a probe may take on a link; a stream adds about 24 times this to the delay. It must not be
/// much less, or start-up streams, which reach four times their rate, would meet receivers that
/// coalesce for 120 us.
const PROBE_TIME: Duration = Duration::from_us(800);

/// Returns the probe size for a path of this rate: less than `packet` where full-size probes would occupy
/// slow links for too long. On faster links, large packets help to see through coalescing receivers.
pub(super) fn small_enough(packet: Bytes, rate: Rate) -> Bytes {
    rate.bytes_in(PROBE_TIME).max(SMALLEST).min(packet)
}

/// Returns the probe size for a trained model: that of its streams where it was trained on one size and
/// the path carries it.
pub(super) fn packet_of(model: &Model, packet: Bytes) -> Bytes {
    model.shape().filter(|_| model.has_fixed_packets()).map_or(packet, |shape| shape.packet.min(packet))
}

/// Wait for late packets: hosts may be descheduled for a few time slices, and one that is delayed by a
/// second counts as lost.
const LATE: (Duration, Duration) = (Duration::from_ms(20), Duration::from_ms(1_000));

/// Full packets of others, in a burst amid a stream, that its last packets wait for: on a slow link that
/// takes longer than an RTT, and packets that are still on the way then would look lost. Range 8 to 64: fewer
/// are no burst, and losses that are waited for cost as much time.
const BURST: u64 = 32;

/// Returns how long the receiver of a stream waits for late packets, once it knows that all have been sent:
/// another RTT, or the time of a burst of full packets at the rate of the stream, within limits. A stream is
/// hardly faster than what it probes.
pub fn wait_for_late(rtt: Duration, rate: Option<Rate>) -> Duration {
    let burst = rate.map_or(Duration::ZERO, |rate| rate.time_for(FULL_PACKET * BURST));
    rtt.max(burst).clamp(LATE.0, LATE.1)
}

/// Packets trickle through a path if it takes this many times as long to receive them as to send them.
const TRICKLING: i64 = 2;

/// Scratch memory that is reused from stream to stream.
#[derive(Clone, Debug, Default)]
pub(super) struct Probe {
    gaps: Gaps,
    scratch: Vec<Duration>,
}

/// Sums of a stream's gaps, over whole buffering events if the receiver coalesces.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sums {
    pub(super) samples: u64,
    pub(super) send: Duration,
    pub(super) receive: Duration,
}

impl Probe {
    /// Applies multi-pass BASS and excursion search for an unknown narrow link; uses the raw gaps if no
    /// buffering event is complete.
    pub(super) fn excursion(
        &mut self,
        record: &StreamRecord,
        window: usize,
    ) -> Result<StreamEstimate, Refusal> {
        record.gaps(&mut self.gaps)?;
        let settings = Settings::for_link(record.packet, fastest_rate(record));
        let denoise = settings.denoise.with_window(window);
        if denoise.apply(&mut self.gaps, &mut self.scratch).is_err() {
            record.gaps(&mut self.gaps)?;
            centred_mean(&mut self.gaps.send, window, &mut self.scratch);
            centred_mean(&mut self.gaps.receive, window, &mut self.scratch);
        }
        settings.excursion.estimate(record.packet, &self.gaps)
    }

    /// Returns the sums of send and receive gaps; the gap of a lost packet counts towards the next packet.
    ///
    /// `packet_time` is the time of one packet on the narrow link. Gaps far below it indicate coalescing, in
    /// which case only complete buffering events count (rapid 2.9, 2.17).
    pub(super) fn sums(&mut self, record: &StreamRecord, packet_time: Duration) -> Result<Sums, Refusal> {
        if self.coalesced(record, packet_time)? {
            let capacity = Rate::of(record.packet, packet_time).unwrap_or_default();
            Settings::for_link(record.packet, capacity).denoise.first_pass(&mut self.gaps)?;
        }
        Ok(Sums {
            samples: self.gaps.len() as u64,
            send: self.gaps.send.iter().copied().sum(),
            receive: self.gaps.receive.iter().copied().sum(),
        })
    }

    /// Returns the receive gaps of the last stream passed to [`Probe::sums`].
    pub(super) fn receive_gaps(&self) -> &[Duration] {
        &self.gaps.receive
    }

    /// Returns whether the receive gaps of a stream indicate interrupt coalescing.
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

/// Returns the fastest rate in a stream, used as the narrow link's rate until that is known.
fn fastest_rate(record: &StreamRecord) -> Rate {
    let gap = record.intended.iter().copied().min().unwrap_or_default();
    Rate::of(record.packet, gap).unwrap_or_default()
}

/// Returns how long it took to send a stream.
pub(super) fn sent_for(record: &StreamRecord) -> Duration {
    let ends = record.arrivals.first().zip(record.arrivals.last());
    ends.map_or(Duration::ZERO, |(first, last)| last.sent - first.sent)
}

/// Returns the rate at which the stream was actually sent.
pub(super) fn send_rate(record: &StreamRecord) -> Option<Rate> {
    let (first, last) = (record.arrivals.first()?, record.arrivals.last()?);
    let bytes = record.packet * u64::from(last.index - first.index);
    Rate::of(bytes, last.sent - first.sent)
}

/// Returns the rate at which the packets of a stream arrived.
pub(super) fn receive_rate(record: &StreamRecord) -> Option<Rate> {
    let mut arrived = record.arrivals.iter().filter_map(|arrival| arrival.received);
    let first = arrived.next()?;
    let (count, last) = arrived.fold((0, first), |(count, last), at| (count + 1, last.max(at)));
    Rate::of(record.packet * count, last - first)
}

/// Returns the rate at which packets arrived, if the last ones of the stream did not, and may still be on the
/// way: those before them took far longer to arrive than to send.
pub(super) fn trickle(record: &StreamRecord) -> Option<Rate> {
    let arrived = record.before_loss();
    let (first, last) = (arrived.arrivals.first()?, arrived.arrivals.last()?);
    let late = arrived.arrivals.len() + record.lost() == record.arrivals.len() && record.lost() > 0;
    let (sent, received) = (last.sent - first.sent, last.received? - first.received?);
    let slow = received >= sent * TRICKLING;
    let rate = Rate::of(record.packet * u64::from(last.index - first.index), received)?;
    (late && slow && sent > Duration::ZERO).then_some(rate)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_behind_a_burst_of_others_are_waited_for_as_long_as_it_takes_at_the_rate_of_the_stream() {
        let rtt = Duration::from_ms(10);
        let slow = Rate::from_mbps(2.7);
        assert!(wait_for_late(rtt, Some(slow)) > slow.time_for(FULL_PACKET * 24));
        assert_eq!(wait_for_late(rtt, Some(Rate::from_mbps(500.0))), LATE.0);
        assert_eq!(wait_for_late(rtt, Some(Rate::from_bps(1))), LATE.1);
        assert_eq!(wait_for_late(Duration::from_ms(30), None), Duration::from_ms(30));
    }
}
