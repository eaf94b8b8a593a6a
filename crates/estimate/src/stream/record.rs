//! Observations of a p-stream, and the gap arrays that denoising and estimation work on.

use std::ops::Range;

use headway_learned::stream::Statistic;
use headway_learned::{NoAnswer, Outside};
use headway_units::{Bytes, Duration, Instant, Rate};

/// The fate of one probe packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Arrival {
    /// Position of the packet in its stream, from 0.
    pub index: u32,
    /// Size on the wire.
    pub size: Bytes,
    /// Time of actual departure, on the sender's clock.
    pub sent: Instant,
    /// Time of arrival, on the receiver's clock; `None` when the packet was lost.
    pub received: Option<Instant>,
}

impl Arrival {
    /// Returns the one-way delay, or `None` for a lost packet.
    ///
    /// The clocks of sender and receiver need not agree: their offset shifts all delays alike and cancels in
    /// differences.
    pub(crate) fn one_way_delay(&self) -> Option<Duration> {
        Some(self.received? - self.sent)
    }
}

/// The record of one stream after it was sent and reported.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StreamRecord {
    /// Number of the stream within its session.
    pub id: u32,
    /// Size of each packet on the wire.
    pub packet: Bytes,
    /// The average rate that the stream was scheduled with (rapid 2.2).
    pub average: Rate,
    /// The gaps the sender was asked to produce; one fewer than packets.
    pub intended: Vec<Duration>,
    /// One entry per packet, in sending order.
    pub arrivals: Vec<Arrival>,
}

/// The reason why a stream yields no estimate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, thiserror::Error)]
pub enum Refusal {
    /// At least one packet of the stream was lost (rapid 2.13).
    #[error("packets lost")]
    Lost,
    /// Packets arrived in a different order than they were sent.
    #[error("packets reordered")]
    Reordered,
    /// The sender failed to produce the requested gaps.
    #[error("sender could not keep its gaps")]
    SenderGaps,
    /// Too few samples remained, before or after denoising (rapid 2.9).
    #[error("too few samples")]
    TooShort,
    /// The path delivered nothing for a time.
    #[error("the path stalled")]
    Stalled,
    /// A clock was stepped during the stream.
    #[error("clock stepped")]
    ClockStep,
    /// A learned estimator has no model, or one for another task.
    #[error("no model for such streams")]
    NoModel,
    /// The stream has another number of gaps, spread of rates or packet size than those of the model.
    #[error("not the shape of the model's streams")]
    OtherShape,
    /// The model counts in packet times at the capacity, which is not known.
    #[error("capacity not known")]
    NoCapacity,
    /// The model has not seen anything like the stream: in what, or nothing alone but all together.
    #[error("unlike what the model has seen: {}", .0.map_or("all in all", Statistic::noun))]
    Unseen(Option<Statistic>),
    /// The answer of the model is no finite number.
    #[error("the model gave no number")]
    NoNumber,
}

impl Refusal {
    /// All reasons; a table of results may count in this list.
    pub const ALL: [Refusal; 11 + Statistic::ALL.len()] = {
        let mut all = [Refusal::Unseen(None); 11 + Statistic::ALL.len()];
        all[0] = Refusal::Lost;
        all[1] = Refusal::Reordered;
        all[2] = Refusal::SenderGaps;
        all[3] = Refusal::TooShort;
        all[4] = Refusal::ClockStep;
        all[5] = Refusal::NoModel;
        all[6] = Refusal::OtherShape;
        all[7] = Refusal::NoCapacity;
        all[8] = Refusal::NoNumber;
        all[9] = Refusal::Stalled;
        let mut place = 0;
        while place < Statistic::ALL.len() {
            all[11 + place] = Refusal::Unseen(Some(Statistic::ALL[place]));
            place += 1;
        }
        all
    };
}

impl From<NoAnswer> for Refusal {
    fn from(reason: NoAnswer) -> Refusal {
        match reason {
            NoAnswer::OtherTask(_) => Refusal::NoModel,
            NoAnswer::OtherLength(..) | NoAnswer::OtherShape => Refusal::OtherShape,
            NoAnswer::NoCapacity => Refusal::NoCapacity,
            NoAnswer::NotFinite => Refusal::NoNumber,
            NoAnswer::Unseen(Outside::Range {
                statistic: headway_learned::Statistic::Stream(one, _),
                ..
            }) => Refusal::Unseen(Some(one)),
            NoAnswer::Unseen(_) => Refusal::Unseen(None),
        }
    }
}

impl StreamRecord {
    /// Writes the actual send and receive gaps into `gaps`, replacing its contents.
    ///
    /// # Errors
    /// [`Refusal::Lost`], [`Refusal::Reordered`] or, with fewer than two packets, [`Refusal::TooShort`].
    pub fn gaps(&self, gaps: &mut Gaps) -> Result<(), Refusal> {
        gaps.clear();
        if self.arrivals.len() < 2 {
            return Err(Refusal::TooShort);
        }
        for pair in self.arrivals.windows(2) {
            let (Some(before), Some(after)) = (pair[0].received, pair[1].received) else {
                return Err(Refusal::Lost);
            };
            if after < before {
                return Err(Refusal::Reordered);
            }
            gaps.push(pair[1].sent - pair[0].sent, after - before);
        }
        Ok(())
    }

    /// Splits the stream into the consecutive streams of `gaps` gaps each that it is made of,
    /// dropping the remainder.
    ///
    /// Each part begins with the last packet of the previous one.
    pub fn split(&self, gaps: usize) -> impl Iterator<Item = StreamRecord> + '_ {
        let gaps = gaps.max(1);
        let count = self.arrivals.len().saturating_sub(1) / gaps;
        (0..count).map(move |part| {
            let first = part * gaps;
            StreamRecord {
                arrivals: self.arrivals[first..=first + gaps].to_vec(),
                intended: self.intended.iter().skip(first).take(gaps).copied().collect(),
                ..*self
            }
        })
    }

    /// Returns the stream as if no packet had overtaken another, or `None` when the packets arrived in order.
    ///
    /// The set of arrival times stays the same and is assigned to the packets in sending order. The number of
    /// packets that had arrived at any time, which is all that a queue determines, does not change.
    pub(crate) fn in_order(&self) -> Option<StreamRecord> {
        let mut times: Vec<Instant> = self.arrivals.iter().filter_map(|arrival| arrival.received).collect();
        if times.is_sorted() {
            return None;
        }
        times.sort_unstable();
        let mut sorted = self.clone();
        let arrived = sorted.arrivals.iter_mut().filter_map(|arrival| arrival.received.as_mut());
        arrived.zip(times).for_each(|(received, time)| *received = time);
        Some(sorted)
    }

    /// Returns the stream with arrivals at least `least` apart, as it left a link that sends no two packets
    /// closer than that, or `None` if no two arrived closer.
    ///
    /// Packets that arrived closer were held up after the link, for instance by a busy host.
    pub(crate) fn with_min_spacing(&self, least: Duration) -> Option<StreamRecord> {
        let mut spaced = self.clone();
        let mut next: Option<Instant> = None;
        let mut changed = false;
        for received in spaced.arrivals.iter_mut().rev().filter_map(|arrival| arrival.received.as_mut()) {
            let latest = next.map(|next| next - least).filter(|latest| latest < received);
            changed |= latest.is_some();
            *received = latest.unwrap_or(*received);
            next = Some(*received);
        }
        changed.then_some(spaced)
    }

    /// Returns the stream without its first `packets` packets.
    pub(crate) fn skip_packets(&self, packets: usize) -> StreamRecord {
        let lead = packets.min(self.arrivals.len());
        let mut record = self.clone();
        record.arrivals.drain(..lead);
        record.intended.drain(..lead.min(self.intended.len()));
        record
    }

    /// Returns the packets before the first lost one.
    pub(crate) fn before_loss(&self) -> StreamRecord {
        self.part(0..self.arrivals.iter().take_while(|arrival| arrival.received.is_some()).count())
    }

    /// Returns these packets only, which must be packets of the stream.
    pub(crate) fn part(&self, packets: Range<usize>) -> StreamRecord {
        let gaps = packets.len().saturating_sub(1);
        StreamRecord {
            intended: self.intended.iter().skip(packets.start).take(gaps).copied().collect(),
            arrivals: self.arrivals[packets].to_vec(),
            ..*self
        }
    }

    /// Returns the number of packets that never arrived.
    pub fn lost(&self) -> usize {
        self.arrivals.iter().filter(|arrival| arrival.received.is_none()).count()
    }
}

/// Send and receive gaps of one stream; entry i of both arrays belongs to the same packet.
///
/// The vectors keep their capacity between streams, so that steady-state work does not allocate.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Gaps {
    /// Gaps at the sender.
    pub send: Vec<Duration>,
    /// Gaps at the receiver.
    pub receive: Vec<Duration>,
}

impl Gaps {
    /// Empties both arrays and keeps their memory.
    pub fn clear(&mut self) {
        self.send.clear();
        self.receive.clear();
    }

    /// Appends the gaps of one packet.
    pub fn push(&mut self, send: Duration, receive: Duration) {
        self.send.push(send);
        self.receive.push(receive);
    }

    /// Keeps the samples from `first` up to but not including `end` and moves them to the front.
    pub(crate) fn crop(&mut self, first: usize, end: usize) {
        for gaps in [&mut self.send, &mut self.receive] {
            gaps.truncate(end);
            gaps.drain(..first.min(gaps.len()));
        }
    }

    /// Returns the number of samples.
    pub fn len(&self) -> usize {
        self.send.len()
    }

    /// Returns whether there are no samples.
    pub fn is_empty(&self) -> bool {
        self.send.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GAP: Duration = Duration::from_us(10);

    /// Packets sent 10 us apart; `received` in microseconds on a clock that is far ahead of the sender's.
    fn stream(received: &[Option<u64>]) -> StreamRecord {
        let arrival = |(index, received): (usize, &Option<u64>)| Arrival {
            index: index as u32,
            size: Bytes::new(1_538),
            sent: Instant::from_ns(index as u64 * 10_000),
            received: received.map(|us| Instant::from_ns(9_000_000_000 + us * 1_000)),
        };
        StreamRecord {
            id: 0,
            packet: Bytes::new(1_538),
            average: Rate::from_mbps(1_230.4),
            intended: vec![GAP; received.len().saturating_sub(1)],
            arrivals: received.iter().enumerate().map(arrival).collect(),
        }
    }

    #[test]
    fn packets_that_a_link_cannot_have_sent_so_close_together_left_it_earlier() {
        let us = Duration::from_us;
        // A busy host held three packets until 40 us; one packet before and one after were not held up.
        let held = stream(&[Some(5), Some(40), Some(40), Some(40), Some(48)]);
        let spaced = held.with_min_spacing(us(8)).expect("some arrived closer");
        let received: Vec<Duration> = spaced
            .arrivals
            .iter()
            .filter_map(|a| Some(a.received? - Instant::from_ns(9_000_000_000)))
            .collect();
        assert_eq!(received, [us(5), us(24), us(32), us(40), us(48)]);
        assert_eq!(spaced.with_min_spacing(us(8)), None);
    }

    #[test]
    fn gaps_are_the_differences_of_actual_times() {
        let mut gaps = Gaps::default();
        assert_eq!(stream(&[Some(5), Some(17), Some(26)]).gaps(&mut gaps), Ok(()));
        assert_eq!(gaps.send, [GAP; 2]);
        assert_eq!(gaps.receive, [Duration::from_us(12), Duration::from_us(9)]);
    }

    #[test]
    fn incomplete_reordered_and_short_streams_are_refused() {
        let mut gaps = Gaps::default();
        assert_eq!(stream(&[Some(5), None, Some(26)]).gaps(&mut gaps), Err(Refusal::Lost));
        assert_eq!(stream(&[Some(5), Some(4)]).gaps(&mut gaps), Err(Refusal::Reordered));
        assert_eq!(stream(&[Some(5)]).gaps(&mut gaps), Err(Refusal::TooShort));
        assert_eq!(stream(&[Some(5), None, None]).lost(), 2);
    }

    #[test]
    fn sorting_keeps_the_times_at_which_packets_arrive() {
        let sorted = stream(&[Some(5), Some(31), None, Some(26)]).in_order().expect("one was overtaken");
        assert_eq!(sorted, stream(&[Some(5), Some(26), None, Some(31)]));
        assert_eq!(sorted.in_order(), None);
    }

    #[test]
    fn a_stream_before_its_first_loss_is_whole() {
        let record = stream(&[Some(5), Some(17), None, Some(40)]);
        assert_eq!(record.before_loss(), stream(&[Some(5), Some(17)]));
        assert_eq!(stream(&[None, Some(3)]).before_loss().arrivals, []);
    }

    #[test]
    fn differences_of_one_way_delays_are_right_although_clocks_differ() {
        let record = stream(&[Some(5), Some(17), None, Some(40)]);
        let delays: Vec<Duration> = record.arrivals.iter().filter_map(Arrival::one_way_delay).collect();
        assert_eq!(delays.len(), 3);
        assert_eq!(delays[1] - delays[0], Duration::from_us(2));
        assert_eq!(delays[2] - delays[1], Duration::from_us(3));
    }

    #[test]
    fn cropping_keeps_the_same_samples_of_both_arrays() {
        let mut gaps = Gaps::default();
        for i in 0..6 {
            gaps.push(Duration::from_ns(i), Duration::from_ns(10 * i));
        }
        gaps.crop(2, 4);
        assert_eq!(gaps.send, [2, 3].map(Duration::from_ns));
        assert_eq!(gaps.receive, [20, 30].map(Duration::from_ns));
        gaps.crop(1, 9);
        assert_eq!(gaps.len(), 1);
        gaps.crop(5, 9);
        assert!(gaps.is_empty());
    }
}
